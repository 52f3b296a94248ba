//! The router: which path is whose, and what stands before it.
#![expect(unused_qualifications, reason = "the code that utoipa writes names its types in full")]

mod agent_tools;
mod agents;
mod asks;
mod attachments;
mod chat;
mod clients;
mod events;
mod meta;
mod reminders;
mod tasks;
pub(crate) mod uploads;
mod web;

use crate::{
    answer::{Failure, Refusal},
    app::App,
    auth::{self, Trust},
    guard,
};
use axum::{
    Extension, Router,
    extract::{Request, State},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

/// What the document says of itself.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Leo",
        description = "Chat with long-lived coding agents. Every JSON answer is `{\"ok\":true,\"data\":…}` or \
                       `{\"ok\":false,\"error\":…,\"code\":…}`. Over the unix socket no token is needed, and \
                       `/events`, `/state`, `/health` and `/version` are short forms.",
        license(name = "MIT", identifier = "MIT")
    ),
    components(schemas(Failure)),
    modifiers(&Security)
)]
struct Document;

struct Security;

impl utoipa::Modify for Security {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
        let bearer = || SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        let cookie = SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::with_description(
            "leo_<hash>",
            "Set by `/login`; its name differs from home to home.",
        )));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("operator", bearer());
        components.add_security_scheme("session", cookie);
        components.add_security_scheme("agent", bearer());
        components.add_security_scheme("client", bearer());
    }
}

/// Routes that the operator alone may use.
fn operator_routes(app: &App) -> OpenApiRouter<App> {
    let chat = OpenApiRouter::new()
        .routes(routes!(chat::threads))
        .routes(routes!(chat::messages, chat::send))
        .routes(routes!(chat::message))
        .routes(routes!(chat::retry))
        .routes(routes!(chat::cancel))
        .routes(routes!(chat::read))
        .routes(routes!(asks::answer))
        .routes(routes!(asks::dismiss))
        .routes(routes!(uploads::upload))
        .routes(routes!(attachments::attachment))
        .routes(routes!(reminders::list))
        .routes(routes!(reminders::cancel))
        .layer(from_fn_with_state(app.clone(), chat_enabled));
    OpenApiRouter::new()
        .merge(chat)
        .routes(routes!(agents::list, agents::create))
        .routes(routes!(agents::get, agents::remove))
        .routes(routes!(agents::start))
        .routes(routes!(agents::stop))
        .routes(routes!(agents::restart))
        .routes(routes!(agents::interrupt))
        .routes(routes!(agents::clear))
        .routes(routes!(agents::compact))
        .routes(routes!(agents::logs))
        .routes(routes!(agents::attach))
        .routes(routes!(tasks::list))
        .routes(routes!(tasks::runs))
        .routes(routes!(tasks::enable))
        .routes(routes!(tasks::disable))
        .routes(routes!(clients::list, clients::add))
        .routes(routes!(clients::remove))
        .routes(routes!(meta::state))
        .routes(routes!(events::events))
        .layer(from_fn(auth::operator_only))
        .layer(from_fn_with_state(app.clone(), auth::authenticate))
}

/// Routes that an API client may use as well.
fn client_routes(app: &App) -> OpenApiRouter<App> {
    let post = OpenApiRouter::new()
        .routes(routes!(clients::post))
        .layer(from_fn_with_state(app.clone(), chat_enabled));
    OpenApiRouter::new()
        .merge(post)
        .routes(routes!(clients::message))
        .layer(from_fn(auth::operator_or_client))
        .layer(from_fn_with_state(app.clone(), auth::authenticate))
}

/// Routes that an agent may use, each under its own name.
fn agent_routes(app: &App) -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(agent_tools::post))
        .routes(routes!(agent_tools::history))
        .routes(routes!(asks::ask))
        .routes(routes!(asks::withdraw))
        .routes(routes!(reminders::schedule))
        .routes(routes!(reminders::agent_list))
        .routes(routes!(reminders::agent_cancel))
        .layer(from_fn(no_subagents))
        .layer(from_fn_with_state(app.clone(), chat_enabled))
        .layer(from_fn(auth::no_clients))
        .layer(from_fn_with_state(app.clone(), auth::authenticate))
}

/// Routes that look at the token themselves.
fn open_routes(app: &App) -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(meta::health))
        .routes(routes!(meta::version))
        .routes(routes!(web::login))
        .routes(routes!(web::logout))
        .layer(from_fn_with_state(app.clone(), auth::no_client_tokens))
}

fn documented(app: &App) -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .merge(operator_routes(app))
        .merge(agent_routes(app))
        .merge(client_routes(app))
        .merge(open_routes(app))
}

/// The OpenAPI document.
#[cfg(test)]
pub(crate) fn document(app: &App) -> utoipa::openapi::OpenApi {
    documented(app).to_openapi()
}

/// The router of one listener.
pub(crate) fn router(app: &App, trust: Trust) -> Router {
    let (mut router, _) = documented(app).split_for_parts();
    router = router.merge(web::assets());
    if trust == Trust::Socket {
        let failure = post(tasks::failure).layer(from_fn_with_state(app.clone(), chat_enabled));
        let short = Router::new()
            .route("/chat/task-failure", failure)
            .route("/events", get(events::events))
            .route("/state", get(meta::state))
            .layer(from_fn(auth::operator_only))
            .layer(from_fn_with_state(app.clone(), auth::authenticate));
        router = router.merge(short);
    }
    router
        .fallback(not_found)
        .layer(from_fn_with_state(app.clone(), guard::same_site))
        .layer(from_fn(guard::outermost))
        .layer(Extension(trust))
        .with_state(app.clone())
}

async fn not_found() -> Refusal {
    Refusal::new("not_found", "there is nothing at this path")
}

/// What a harness's own subagents send with their requests, from `LEO_DISPATCH_ID` of their environment.
const DISPATCH_HEADER: &str = "x-leo-dispatch-id";

/// The thread is between a person and an agent: what the agent dispatched speaks through it.
async fn no_subagents(request: Request, next: Next) -> Response {
    if request.headers().contains_key(DISPATCH_HEADER) {
        Refusal::new("forbidden", "a dispatched subagent may not speak in the thread of its agent")
            .into_response()
    } else {
        next.run(request).await
    }
}

/// `chat.enabled: false` takes the threads away.
async fn chat_enabled(State(app): State<App>, request: Request, next: Next) -> Response {
    if app.config.borrow().chat.enabled {
        next.run(request).await
    } else {
        Refusal::new("chat_disabled", "chat is off in this home's configuration (chat.enabled)")
            .into_response()
    }
}
