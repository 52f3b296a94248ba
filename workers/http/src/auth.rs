//! Who is asking: the operator, a browser that logged in, or an agent. Identity comes from the
//! connection and its token, never from a field of the request.

use crate::{answer::Refusal, app::App, rate::BURST};
use axum::{
    extract::{FromRequestParts, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, header, request::Parts};
use leo_ipc::{
    AgentName, ClientName, IpcError, LaunchId, Time,
    agent::{AgentIdentity, AuthAgent},
    api_client::AuthClient,
    client::Client,
    hub::HubRequest,
    id::{hex, token_hash},
};
use sha2::Sha256;
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use subtle::ConstantTimeEq;
use tokio::time::Instant;

/// How long a browser session lasts (WIRE.md §1).
pub(crate) const SESSION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How long the operator's token is remembered before its file is read again: a replaced token works
/// soon, and a burst of requests reads the file once.
const TOKEN_LIFE: Duration = Duration::from_secs(2);

/// How long the hub's word about an agent's token counts. A token dies with its launch, so this is how
/// long a stopped agent's last requests may still pass.
const IDENTITY_LIFE: Duration = Duration::from_secs(2);

/// Most agent tokens remembered; beyond it all are asked for again.
const MAX_IDENTITIES: usize = 256;

/// How long the hub may take to say whose token it is.
const HUB_DEADLINE: Duration = Duration::from_secs(10);

/// Length of every token of ours, in hexadecimal characters. Anything else is not worth a question to
/// the hub.
const TOKEN_LEN: usize = 64;

/// What a connection's listener says about the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The home's unix socket: the peer runs as our user, so no token is needed.
    Socket,
    /// TCP: whoever can reach the port.
    Network,
}

/// Who is asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Principal {
    /// The person, by token, cookie or socket.
    Operator,
    /// An agent, by the token of one launch.
    Agent(AgentIdentity),
    /// An API client.
    Client(ClientName),
}

/// Establishes who is asking and puts it into the request's extensions.
pub(crate) async fn authenticate(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let trust = request.extensions().get::<Trust>().copied().unwrap_or(Trust::Network);
    match principal(&app, trust, request.headers()).await {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// Lets only the operator pass.
pub(crate) async fn operator_only(request: Request, next: Next) -> Response {
    match request.extensions().get::<Principal>() {
        Some(Principal::Operator) => next.run(request).await,
        Some(Principal::Client(client)) => not_for_clients(client).into_response(),
        _ => not_for_agents().into_response(),
    }
}

/// Lets the operator and API clients pass.
pub(crate) async fn operator_or_client(request: Request, next: Next) -> Response {
    match request.extensions().get::<Principal>() {
        Some(Principal::Operator | Principal::Client(_)) => next.run(request).await,
        _ => not_for_agents().into_response(),
    }
}

/// Turns API clients away.
pub(crate) async fn no_clients(request: Request, next: Next) -> Response {
    match request.extensions().get::<Principal>() {
        Some(Principal::Client(client)) => not_for_clients(client).into_response(),
        _ => next.run(request).await,
    }
}

/// Turns API clients away from routes that need no token: one that sends its own learns that it is not
/// for them.
pub(crate) async fn no_client_tokens(State(app): State<App>, request: Request, next: Next) -> Response {
    let trust = request.extensions().get::<Trust>().copied().unwrap_or(Trust::Network);
    let asks = request.headers().contains_key(header::AUTHORIZATION);
    if asks && let Ok(Principal::Client(client)) = principal(&app, trust, request.headers()).await {
        return not_for_clients(&client).into_response();
    }
    next.run(request).await
}

fn not_for_clients(client: &ClientName) -> Refusal {
    Refusal::new(
        "forbidden_client",
        format!(
            "the API client `{client}` may send messages (POST /api/v1/agents/<agent>/message) and post into \
             threads (POST /api/v1/chat/<agent>/post), and nothing else"
        ),
    )
}

fn not_for_agents() -> Refusal {
    Refusal::new("forbidden", "an agent's token is good for /api/agent/<its own name>/ and nothing else")
}

/// Who is asking, by what the request shows.
pub(crate) async fn principal(app: &App, trust: Trust, headers: &HeaderMap) -> Result<Principal, Refusal> {
    if let Some(given) = headers.get(header::AUTHORIZATION) {
        let token = given.to_str().ok().and_then(bearer).ok_or_else(|| {
            Refusal::new("unauthorized", "the header Authorization must be `Bearer <token>`")
        })?;
        return by_token(app, token).await;
    }
    if trust == Trust::Socket || app.operator.session_is_good(headers).await {
        return Ok(Principal::Operator);
    }
    Err(Refusal::new("unauthorized", "a token is needed: send `Authorization: Bearer <token>`"))
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

async fn by_token(app: &App, token: &str) -> Result<Principal, Refusal> {
    if app.operator.is_token(token).await {
        return Ok(Principal::Operator);
    }
    let unknown = || Refusal::new("unauthorized", "this token is not known, or no longer valid");
    if token.len() != TOKEN_LEN || !token.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(unknown());
    }
    match app.identities.ask(&app.hub, token).await {
        Ok(identity) => return Ok(Principal::Agent(identity)),
        Err(IpcError::Fault(fault)) if fault.code == "unauthorized" => {}
        Err(error) => return Err(error.into()),
    }
    // Asked each time and never remembered: a token that was taken away stops at once.
    match app.hub.call(AuthClient { token_hash: token_hash(token) }, HUB_DEADLINE).await {
        Ok(identity) => Ok(Principal::Client(identity.name)),
        Err(IpcError::Fault(fault)) if fault.code == "unauthorized" => Err(unknown()),
        Err(error) => Err(error.into()),
    }
}

/// The agent on whose routes a request is, proven to be the one that asks. The operator may speak for
/// every agent, which makes the routes usable by hand.
pub(crate) struct Caller {
    /// Which agent.
    pub(crate) agent: AgentName,
    /// The launch of its token.
    pub(crate) launch: Option<LaunchId>,
    /// The headless run of its token.
    pub(crate) run: Option<leo_ipc::ask::Run>,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let principal = parts.extensions.get::<Principal>().cloned();
        let crate::extract::AgentPath(agent) =
            crate::extract::AgentPath::from_request_parts(parts, state).await?;
        match principal {
            Some(Principal::Operator) => Ok(Caller { agent, launch: None, run: None }),
            Some(Principal::Agent(identity)) if identity.name == agent => {
                Ok(Caller { agent, launch: Some(identity.launch), run: identity.run })
            }
            Some(Principal::Agent(identity)) => Err(Refusal::new(
                "wrong_agent",
                format!("this token belongs to the agent {}, not to {agent}", identity.name),
            )),
            Some(Principal::Client(client)) => Err(not_for_clients(&client)),
            None => Err(Refusal::new("unauthorized", "a token is needed")),
        }
    }
}

/// Who speaks on the routes that API clients may use; these not more often than [`crate::rate`] says.
pub(crate) struct Speaker {
    /// The client; none is the operator.
    pub(crate) client: Option<ClientName>,
}

impl FromRequestParts<App> for Speaker {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        match parts.extensions.get::<Principal>() {
            Some(Principal::Operator) => Ok(Speaker { client: None }),
            Some(Principal::Client(client)) if app.rates.take(client) => {
                Ok(Speaker { client: Some(client.clone()) })
            }
            Some(Principal::Client(client)) => Err(Refusal::new(
                "rate_limited",
                format!(
                    "the API client `{client}` speaks too often: at most {BURST} at once, then one a second"
                ),
            )),
            _ => Err(Refusal::new("unauthorized", "a token is needed")),
        }
    }
}

/// The operator's token, and browser sessions derived from it: they survive this worker because they
/// are kept nowhere, and end with the token.
pub(crate) struct Operator {
    path: PathBuf,
    cached: Mutex<Option<(Instant, String)>>,
}

impl Operator {
    /// The token in a file that another process keeps.
    pub(crate) fn new(path: PathBuf) -> Operator {
        Operator { path, cached: Mutex::new(None) }
    }

    async fn token(&self) -> Option<String> {
        let now = Instant::now();
        {
            let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((read_at, token)) = cached.as_ref()
                && now.duration_since(*read_at) < TOKEN_LIFE
            {
                return Some(token.clone());
            }
        }
        let read = tokio::fs::read_to_string(&self.path).await;
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            // A shorter text would be a broken file, and guessable.
            Ok(text) if text.trim().len() >= TOKEN_LEN => {
                let token = text.trim().to_owned();
                *cached = Some((now, token.clone()));
                Some(token)
            }
            Ok(_) => {
                tracing::error!(path = %self.path.display(), "the operator's token file does not hold a token");
                *cached = None;
                None
            }
            Err(e) => {
                tracing::warn!(path = %self.path.display(), error = %e, "cannot read the operator's token");
                *cached = None;
                None
            }
        }
    }

    /// Whether a text is the operator's token. The time it takes says nothing about how wrong it is.
    pub(crate) async fn is_token(&self, given: &str) -> bool {
        let Some(token) = self.token().await else { return false };
        token.as_bytes().ct_eq(given.as_bytes()).into()
    }

    /// A `Set-Cookie` value that begins a session now.
    pub(crate) async fn new_session(&self) -> Option<String> {
        let token = self.token().await?;
        let now = Time::now().millis() / 1000;
        let ends = now.saturating_add(i64::try_from(SESSION.as_secs()).unwrap_or(i64::MAX));
        Some(format!(
            "{}={}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict",
            cookie_name(&token),
            session_value(&token, ends),
            SESSION.as_secs()
        ))
    }

    /// A `Set-Cookie` value that ends the browser's session.
    pub(crate) async fn end_session(&self) -> Option<String> {
        let token = self.token().await?;
        Some(format!("{}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict", cookie_name(&token)))
    }

    async fn session_is_good(&self, headers: &HeaderMap) -> bool {
        if !headers.contains_key(header::COOKIE) {
            return false;
        }
        let Some(token) = self.token().await else { return false };
        let name = cookie_name(&token);
        let now = Time::now().millis() / 1000;
        headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .any(|(key, value)| key == name && session_holds(&token, value, now))
    }
}

/// Browsers send cookies to every port of a host, so two homes must not share a name.
fn cookie_name(token: &str) -> String {
    format!("leo_{}", &token_hash(&format!("cookie name\0{token}"))[..8])
}

fn session_value(token: &str, ends: i64) -> String {
    format!("{ends}.{}", hex(&session_mac(token, ends)))
}

fn session_holds(token: &str, value: &str, now: i64) -> bool {
    let Some((ends, mac)) = value.split_once('.') else { return false };
    let Ok(ends) = ends.parse::<i64>() else { return false };
    let good: bool = hex(&session_mac(token, ends)).as_bytes().ct_eq(mac.as_bytes()).into();
    good && now < ends
}

fn session_mac(token: &str, ends: i64) -> Vec<u8> {
    // HMAC takes keys of every length, so this never takes the empty branch; an empty value would match
    // no cookie that has passed `hex` above with 64 characters, because it is compared whole.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(token.as_bytes()) else { return Vec::new() };
    mac.update(b"leo browser session 1\0");
    mac.update(&ends.to_be_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Whose token is whose, as the hub said a moment ago. Only good news is remembered.
pub(crate) struct Identities {
    known: Mutex<HashMap<String, (Instant, AgentIdentity)>>,
}

impl Identities {
    /// Knows nobody.
    pub(crate) fn new() -> Identities {
        Identities { known: Mutex::new(HashMap::new()) }
    }

    async fn ask(&self, hub: &Client<HubRequest>, token: &str) -> Result<AgentIdentity, IpcError> {
        let hash = token_hash(token);
        let now = Instant::now();
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((at, identity)) = known.get(&hash)
                && now.duration_since(*at) < IDENTITY_LIFE
            {
                return Ok(identity.clone());
            }
        }
        let identity = hub.call(AuthAgent { token_hash: hash.clone() }, HUB_DEADLINE).await?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_IDENTITIES {
            known.clear();
        }
        known.insert(hash, (now, identity.clone()));
        Ok(identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_hold_for_their_time_and_their_token() {
        let (token, other) = (leo_ipc::id::fresh_token(), leo_ipc::id::fresh_token());
        let value = session_value(&token, 1000);
        assert!(session_holds(&token, &value, 999));
        assert!(!session_holds(&token, &value, 1000));
        assert!(!session_holds(&other, &value, 999));
        assert!(!session_holds(&token, &value.replace("1000.", "9000."), 999));
        for bad in ["", ".", "1000.", "x.y", "1000"] {
            assert!(!session_holds(&token, bad, 0), "{bad}");
        }
        assert_ne!(cookie_name(&token), cookie_name(&other));
    }

    #[tokio::test]
    async fn a_session_outlives_the_process_and_ends_with_the_token() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("api.token");
        let token = leo_ipc::id::fresh_token();
        std::fs::write(&path, format!("{token}\n")).unwrap();
        let cookie = Operator::new(path.clone()).new_session().await.unwrap();
        let mut headers = HeaderMap::new();
        let pair = cookie.split(';').next().unwrap();
        headers.insert(header::COOKIE, format!("a=b; {pair}").parse().unwrap());
        assert!(Operator::new(path.clone()).session_is_good(&headers).await);
        assert!(Operator::new(path.clone()).is_token(&token).await);
        assert!(!Operator::new(path.clone()).is_token(&token[1..]).await);

        std::fs::write(&path, leo_ipc::id::fresh_token()).unwrap();
        assert!(!Operator::new(path.clone()).session_is_good(&headers).await);
        std::fs::write(&path, "").unwrap();
        assert!(!Operator::new(path).is_token("").await);
    }

    #[test]
    fn bearer_tokens() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        assert_eq!(bearer("Basic abc"), None);
        assert_eq!(bearer("abc"), None);
    }
}
