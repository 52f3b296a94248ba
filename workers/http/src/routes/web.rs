//! The web page and its session. The page's files hold no secrets, so they need no session: the page
//! itself finds out whether there is one.

use crate::{
    answer::{Answer, Data, Refusal, Refusals},
    app::App,
    extract::Query,
};
use axum::{
    Router,
    body::Bytes,
    extract::State,
    response::{IntoResponse, Response},
    routing::get,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use leo_ipc::id::token_hash;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Only the page's own files and this API; no inline script, no frame around it.
const PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; \
     connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);

/// A file of the page, part of the program.
struct Asset {
    path: &'static str,
    mime: &'static str,
    bytes: &'static [u8],
}

const JS: &str = "text/javascript; charset=utf-8";

const ASSETS: [Asset; 9] = [
    Asset { path: "/", mime: "text/html; charset=utf-8", bytes: include_bytes!("../../web/index.html") },
    Asset { path: "/app.js", mime: JS, bytes: include_bytes!("../../web/app.js") },
    Asset { path: "/api.js", mime: JS, bytes: include_bytes!("../../web/api.js") },
    Asset { path: "/reminders.js", mime: JS, bytes: include_bytes!("../../web/reminders.js") },
    Asset { path: "/cards.js", mime: JS, bytes: include_bytes!("../../web/cards.js") },
    Asset { path: "/files.js", mime: JS, bytes: include_bytes!("../../web/files.js") },
    Asset { path: "/words.js", mime: JS, bytes: include_bytes!("../../web/words.js") },
    Asset {
        path: "/style.css",
        mime: "text/css; charset=utf-8",
        bytes: include_bytes!("../../web/style.css"),
    },
    Asset { path: "/icon.svg", mime: "image/svg+xml", bytes: include_bytes!("../../web/icon.svg") },
];

/// The page's files.
pub(crate) fn assets() -> Router<App> {
    ASSETS.iter().fold(Router::new(), |router, asset| {
        let etag = format!("\"{}\"", &token_hash(&String::from_utf8_lossy(asset.bytes))[..16]);
        router.route(
            asset.path,
            get(move |headers: HeaderMap| {
                let response = serve(asset, &etag, &headers);
                async move { response }
            }),
        )
    })
}

fn serve(asset: &Asset, etag: &str, headers: &HeaderMap) -> Response {
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|given| given.as_bytes() == etag.as_bytes());
    let mut response = if known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Bytes::from_static(asset.bytes).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.mime));
    headers.insert(header::CONTENT_SECURITY_POLICY, PAGE_POLICY);
    // Kept, but asked for each time: a new build must show at once.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(value) = HeaderValue::from_str(etag) {
        headers.insert(header::ETAG, value);
    }
    response
}

/// A login link's parameter.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Login {
    /// The operator's token.
    token: Option<String>,
}

/// Begins a browser session of 7 days and goes to the page. `leo web login-url` prints the link.
#[utoipa::path(get, operation_id = "login", path = "/login", tag = "web", params(Login),
    responses((status = 303, description = "Logged in; goes to `/`"), Refusals), security(()))]
pub(crate) async fn login(State(app): State<App>, Query(query): Query<Login>) -> Result<Response, Refusal> {
    let given = query.token.unwrap_or_default();
    if !app.operator.is_token(given.trim()).await {
        return Err(Refusal::new(
            "unauthorized",
            "this login link is not valid; `leo web login-url` prints a good one",
        ));
    }
    let cookie = app.operator.new_session().await;
    redirect_home(cookie)
}

fn redirect_home(cookie: Option<String>) -> Result<Response, Refusal> {
    let cookie = cookie
        .and_then(|cookie| HeaderValue::from_str(&cookie).ok())
        .ok_or_else(|| Refusal::new("unavailable", "the operator's token cannot be read right now"))?;
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/"));
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// A session that is over.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LoggedOut {
    /// Always true.
    logged_out: bool,
}

/// Ends the browser's session.
#[utoipa::path(post, operation_id = "logout", path = "/logout", tag = "web",
    responses((status = 200, body = crate::answer::Success<LoggedOut>), Refusals), security(()))]
pub(crate) async fn logout(State(app): State<App>) -> Response {
    let answer: Answer<LoggedOut> = Ok(Data::ok(LoggedOut { logged_out: true }));
    let mut response = answer.into_response();
    if let Some(cookie) = app.operator.end_session().await
        && let Ok(value) = HeaderValue::from_str(&cookie)
    {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str) -> String {
        let asset = ASSETS.iter().find(|asset| asset.path == path).unwrap();
        String::from_utf8(asset.bytes.to_vec()).unwrap()
    }

    /// The quoted texts in a source that follow one of some words.
    fn quoted_after(source: &str, words: &[&str]) -> Vec<String> {
        words
            .iter()
            .flat_map(|word| source.split(word).skip(1))
            .filter_map(|rest| rest.strip_prefix('"')?.split('"').next().map(str::to_owned))
            .collect()
    }

    #[test]
    fn the_page_needs_nothing_but_its_own_files() {
        let page = text("/");
        for reference in quoted_after(&page, &["href=", "src="]) {
            assert!(ASSETS.iter().any(|asset| asset.path == reference), "{reference}");
        }
        for script in ["/app.js", "/api.js", "/files.js", "/words.js"] {
            for import in quoted_after(&text(script), &["from "]) {
                assert!(ASSETS.iter().any(|asset| asset.path == import), "{script}: {import}");
            }
        }
    }

    #[test]
    fn the_page_keeps_its_own_policy() {
        let page = text("/");
        let handler = |rest: &str| rest.trim_start_matches(|c: char| c.is_ascii_lowercase()).starts_with('=');
        assert!(!page.split(" on").skip(1).any(handler), "an inline handler");
        assert!(!page.contains("style=") && !page.contains("<script>"), "inline code");
        for script in ["/app.js", "/api.js", "/files.js", "/words.js"] {
            let source = text(script);
            for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
                assert!(
                    !source.contains(forbidden),
                    "{script}: {forbidden} would make text of others into markup"
                );
            }
        }
    }
}
