//! What every request passes before its route and every answer after it: which host and page it may
//! come from, the headers that keep a browser from being misled, and the envelope around errors.

use crate::{answer, answer::Refusal, app::App, auth::Trust};
use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use std::{
    net::IpAddr,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

/// How much of a refused request's body is read and thrown away, so that the peer gets to read the
/// refusal instead of a reset connection …
const MAX_DISCARD: u64 = 64 * 1024 * 1024;

/// … and for how long.
const DISCARD_DEADLINE: Duration = Duration::from_secs(5);

/// Headers of every answer. A route may set its own policy, which then stands.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        ),
    ),
];

/// The outermost layer: a panic, a refusal of a library and an unread body all end in an answer.
pub(crate) async fn outermost(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    // A peer that asked first has sent nothing yet, and reads the refusal instead of sending.
    let asked_first = parts.headers.contains_key(header::EXPECT);
    let body = Shared::new(body);
    let request = Request::from_parts(parts, Body::new(body.clone()));
    let response = match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => answer::enveloped(response),
        // The panic hook has logged where.
        Err(_) => Refusal::new("internal", "something broke while this was answered; the log says where")
            .into_response(),
    };
    if response.status().is_client_error() || response.status().is_server_error() {
        body.discard(asked_first).await;
    }
    with_headers(response)
}

fn with_headers(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(value);
    }
    response
}

/// Refuses what a foreign page or a rebound name could send (WIRE.md §1).
pub(crate) async fn same_site(State(app): State<App>, request: Request, next: Next) -> Response {
    let trust = request.extensions().get::<Trust>().copied().unwrap_or(Trust::Network);
    // No browser reaches a unix socket.
    if trust == Trust::Network {
        let allowed = app.config.borrow().web.allowed_hosts.clone();
        if let Err(refusal) = check_site(request.uri(), request.headers(), &allowed) {
            return refusal.into_response();
        }
    }
    next.run(request).await
}

fn check_site(uri: &Uri, headers: &HeaderMap, allowed: &[String]) -> Result<(), Refusal> {
    let header_host = headers.get(header::HOST).and_then(|v| v.to_str().ok());
    let host = uri.authority().map(http::uri::Authority::as_str).or(header_host).unwrap_or_default();
    if !host_is_allowed(host, allowed) {
        return Err(Refusal::new(
            "forbidden_host",
            format!("the host {host:?} is neither loopback nor in web.allowed_hosts"),
        ));
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    if origin.to_str().is_ok_and(|origin| origin.is_empty() || same_origin(origin, host)) {
        return Ok(());
    }
    Err(Refusal::new("forbidden_origin", "a page of another origin may not use this API"))
}

/// Host and port of `host[:port]` or `[v6][:port]`; `None` when it is neither.
fn split_host(authority: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = port.map(str::parse).transpose().ok()?;
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    if host.is_empty() { None } else { Some((host, port)) }
}

fn host_is_allowed(authority: &str, allowed: &[String]) -> bool {
    let Some((host, port)) = split_host(authority) else { return false };
    if host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()) {
        return true;
    }
    allowed.iter().filter_map(|entry| split_host(entry)).any(|(allowed_host, allowed_port)| {
        allowed_host == host && allowed_port.is_none_or(|p| Some(p) == port)
    })
}

/// Whether a page's origin is the host that it asks. Behind a proxy that speaks TLS the scheme differs
/// from ours, so only host and port are compared.
fn same_origin(origin: &str, host: &str) -> bool {
    let (default, authority) = match (origin.strip_prefix("http://"), origin.strip_prefix("https://")) {
        (Some(authority), _) => (80, authority),
        (_, Some(authority)) => (443, authority),
        _ => return false,
    };
    let with_port =
        |authority: &str| split_host(authority).map(|(host, port)| (host, port.unwrap_or(default)));
    with_port(authority).is_some() && with_port(authority) == with_port(host)
}

/// A request's body that can still be read after the route has dropped it.
#[derive(Clone)]
struct Shared(Arc<Mutex<SharedBody>>);

struct SharedBody {
    body: Body,
    begun: bool,
}

impl Shared {
    fn new(body: Body) -> Shared {
        Shared(Arc::new(Mutex::new(SharedBody { body, begun: false })))
    }

    async fn discard(mut self, only_if_begun: bool) {
        if self.is_end_stream() || (only_if_begun && !self.lock().begun) {
            return;
        }
        let rest = async {
            let mut read = 0u64;
            while let Some(Ok(frame)) = self.frame().await {
                read += frame.data_ref().map_or(0, |data| data.len() as u64);
                if read > MAX_DISCARD {
                    return;
                }
            }
        };
        // Whatever is left is the peer's loss: its connection is closed.
        let _ = tokio::time::timeout(DISCARD_DEADLINE, rest).await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SharedBody> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl http_body::Body for Shared {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut shared = self.lock();
        shared.begun = true;
        Pin::new(&mut shared.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.lock().body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.lock().body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let allowed = ["mac.tail.net".to_owned(), "pi:8370".to_owned()];
        for good in [
            "localhost",
            "LOCALHOST:1",
            "localhost.",
            "127.0.0.1:8370",
            "127.9.9.9",
            "[::1]:8370",
            "[::1]",
            "mac.tail.net",
            "MAC.tail.net:443",
            "pi:8370",
        ] {
            assert!(host_is_allowed(good, &allowed), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "pi",
            "pi:1",
            "[::2]",
            "10.0.0.1",
            "localhost:x",
            "[::1]x",
            ":8370",
            "user@localhost",
            "0.0.0.0",
        ] {
            assert!(!host_is_allowed(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn origins() {
        for (origin, host) in [
            ("http://127.0.0.1:8370", "127.0.0.1:8370"),
            ("http://localhost", "localhost"),
            ("https://mac.tail.net", "mac.tail.net"),
            ("https://mac.tail.net", "mac.tail.net:443"),
            ("http://[::1]:8370", "[::1]:8370"),
        ] {
            assert!(same_origin(origin, host), "{origin} {host}");
        }
        for (origin, host) in [
            ("null", "localhost"),
            ("http://localhost:8371", "localhost:8370"),
            ("http://localhost", "127.0.0.1"),
            ("http://evil.example", "localhost"),
            ("file://", "localhost"),
            ("http://", ""),
        ] {
            assert!(!same_origin(origin, host), "{origin} {host}");
        }
    }
}
