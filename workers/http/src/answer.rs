//! The envelope of every JSON answer (WIRE.md §1), and the one table from code to status.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use leo_ipc::{Fault, IpcError};
use serde::Serialize;
use serde_json::Value;
use utoipa::{IntoResponses, ToSchema};

/// Seconds after which asking again may help, for `Retry-After`. A replaced worker is back within
/// milliseconds, and one second is the smallest number that the header can carry.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// A good answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Success<T> {
    /// Always true.
    ok: bool,
    /// What was asked for.
    data: T,
}

/// An answer of a handler.
pub(crate) type Answer<T> = Result<Data<T>, Refusal>;

/// Data with its status, sent in the envelope.
#[derive(Debug)]
pub(crate) struct Data<T> {
    status: StatusCode,
    data: T,
}

impl<T> Data<T> {
    /// 200.
    pub(crate) fn ok(data: T) -> Data<T> {
        Data { status: StatusCode::OK, data }
    }

    /// 201.
    pub(crate) fn created(data: T) -> Data<T> {
        Data { status: StatusCode::CREATED, data }
    }

    /// 202 when something was begun, 200 when it had been begun before.
    pub(crate) fn accepted(new: bool, data: T) -> Data<T> {
        Data { status: if new { StatusCode::ACCEPTED } else { StatusCode::OK }, data }
    }
}

impl<T: Serialize> IntoResponse for Data<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&Success { ok: true, data: self.data }) {
            Ok(body) => json(self.status, body),
            Err(e) => Refusal::from(Fault::internal(format!("the answer is no JSON: {e}"))).into_response(),
        }
    }
}

/// A refusal on its way out. Its status follows from its code.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal(Fault);

/// A bad answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Failure {
    /// Always false.
    ok: bool,
    /// One sentence that says what and where.
    error: String,
    /// Machine-readable code.
    code: String,
    /// What the refusal is about, where a client can use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

/// The refusals that every route may answer, for the OpenAPI document.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only the schema of the fields is used")]
pub(crate) enum Refusals {
    /// The request cannot be carried out as it is; `code` says why.
    #[response(status = "4XX")]
    Request(Failure),
    /// It could be, but not now (503, with `Retry-After`), or something is broken here (500).
    #[response(status = "5XX")]
    Here(Failure),
}

/// The status of each code. A code that a newer peer made up is the caller's mistake: whatever is
/// broken on our side has a code of ours.
fn status_of(code: &str) -> StatusCode {
    match code {
        "unauthorized" => StatusCode::UNAUTHORIZED,
        "forbidden" | "forbidden_client" | "forbidden_host" | "forbidden_origin" | "wrong_agent" => {
            StatusCode::FORBIDDEN
        }
        "not_found" | "unknown_agent" | "unknown_message" | "unknown_attachment" | "unknown_task"
        | "unknown_run" | "unknown_reminder" | "unknown_client" | "chat_disabled" => StatusCode::NOT_FOUND,
        "method_not_allowed" => StatusCode::METHOD_NOT_ALLOWED,
        "timeout" => StatusCode::REQUEST_TIMEOUT,
        "idempotency_conflict"
        | "already_handed"
        | "already_settled"
        | "agent_exists"
        | "agent_busy"
        | "agent_changed"
        | "agent_failed_to_start"
        | "agent_not_running"
        | "agent_refused"
        | "client_exists"
        | "configured_client"
        | "too_many_clients"
        | "conflict"
        | "in_doubt"
        | "not_failed"
        | "not_open"
        | "not_pending"
        | "not_queued"
        | "not_running"
        | "unsupported"
        | "reminder_cancelled"
        | "reminder_fired"
        | "too_many_reminders"
        | "stale_attempt"
        | "stale_launch"
        | "stale_view" => StatusCode::CONFLICT,
        "attachment_pruned" => StatusCode::GONE,
        "too_large" => StatusCode::PAYLOAD_TOO_LARGE,
        "unsupported_media_type" => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "range_not_satisfiable" => StatusCode::RANGE_NOT_SATISFIABLE,
        "unprocessable" => StatusCode::UNPROCESSABLE_ENTITY,
        "too_many_streams" | "too_many_uploads" | "uploads_full" | "outbox_full" | "rate_limited" => {
            StatusCode::TOO_MANY_REQUESTS
        }
        "storage_full" | "storage_read_only" => StatusCode::INSUFFICIENT_STORAGE,
        "internal" => StatusCode::INTERNAL_SERVER_ERROR,
        // An older peer does not know a request of ours: it is about to be replaced.
        "unavailable" | "unknown_request" => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// The code that stands for a status that some library answered by itself.
fn code_of(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::METHOD_NOT_ALLOWED => "method_not_allowed",
        StatusCode::REQUEST_TIMEOUT => "timeout",
        StatusCode::PAYLOAD_TOO_LARGE => "too_large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported_media_type",
        StatusCode::RANGE_NOT_SATISFIABLE => "range_not_satisfiable",
        StatusCode::UNPROCESSABLE_ENTITY => "unprocessable",
        StatusCode::TOO_MANY_REQUESTS => "too_many_streams",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        status if status.is_server_error() => "internal",
        _ => "bad_request",
    }
}

impl Refusal {
    /// A refusal with a code and a sentence.
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Refusal {
        Refusal(Fault::new(code, message))
    }

    /// 400.
    pub(crate) fn bad_request(message: impl Into<String>) -> Refusal {
        Refusal(Fault::bad_request(message))
    }

    /// Its code.
    pub(crate) fn code(&self) -> &str {
        &self.0.code
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal(fault)
    }
}

impl From<IpcError> for Refusal {
    fn from(error: IpcError) -> Refusal {
        match error {
            IpcError::Fault(fault) => Refusal(fault),
            // Socket paths and system errors are for the log; a person needs to know what to do.
            IpcError::TooLarge { .. } | IpcError::Undecodable { .. } => {
                tracing::error!(error = %error, "a call cannot be carried over");
                Refusal(error.into_fault())
            }
            error => {
                tracing::warn!(error = %error, "no answer from another worker");
                Refusal(Fault::unavailable(
                    "the part of leo that could answer is not there right now; ask again in a moment",
                ))
            }
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Fault { code, message, data } = self.0;
        let status = status_of(&code);
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(error = message, "a request failed");
        }
        // Cannot fail: its fields are text and JSON.
        let body = serde_json::to_vec(&Failure { ok: false, error: message, code, data }).unwrap_or_default();
        let mut response = json(status, body);
        let headers = response.headers_mut();
        if status == StatusCode::SERVICE_UNAVAILABLE || status == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"leo\""));
        }
        response
    }
}

/// Puts an error that a library answered by itself (a wrong method, an unreadable path) into the
/// envelope, keeping the headers that say more (`Allow`, `Content-Range`).
pub(crate) fn enveloped(response: Response) -> Response {
    let status = response.status();
    let ours = response.headers().get(header::CONTENT_TYPE) == Some(&JSON);
    if ours || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let message = match status {
        StatusCode::METHOD_NOT_ALLOWED => "this path does not know that method".to_owned(),
        StatusCode::NOT_FOUND => "there is nothing at this path".to_owned(),
        StatusCode::RANGE_NOT_SATISFIABLE => "the file has no such range".to_owned(),
        other => other.canonical_reason().unwrap_or("the request cannot be answered").to_lowercase(),
    };
    let mut replaced = Refusal::new(code_of(status), message).into_response();
    *replaced.status_mut() = status;
    for (name, value) in response.headers() {
        if name != header::CONTENT_TYPE && name != header::CONTENT_LENGTH {
            replaced.headers_mut().insert(name.clone(), value.clone());
        }
    }
    replaced
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

fn json(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_follow_from_codes() {
        for (code, status) in [
            ("bad_request", 400),
            ("a_code_of_tomorrow", 400),
            ("unauthorized", 401),
            ("wrong_agent", 403),
            ("unknown_message", 404),
            ("already_handed", 409),
            ("attachment_pruned", 410),
            ("too_large", 413),
            ("internal", 500),
            ("unavailable", 503),
        ] {
            let response = Refusal::new(code, "x").into_response();
            assert_eq!(response.status().as_u16(), status, "{code}");
        }
        let busy = Refusal::new("unavailable", "x").into_response();
        assert_eq!(busy.headers()[header::RETRY_AFTER], "1");
    }

    #[test]
    fn foreign_errors_are_wrapped_once() {
        let mut foreign = Response::new(Body::empty());
        *foreign.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        foreign.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
        let wrapped = enveloped(foreign);
        assert_eq!(wrapped.headers()[header::ALLOW], "GET");
        assert_eq!(wrapped.headers()[header::CONTENT_TYPE], JSON);
        assert_eq!(wrapped.status(), 405);
    }
}
