//! The event stream over HTTP (WIRE.md §4).

use crate::{
    answer::{Refusal, Refusals},
    app::App,
    extract::Query,
    live::Announce,
    serve::Kill,
};
use axum::{
    Extension,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, header};
use leo_ipc::EventId;
use serde::Deserialize;
use utoipa::IntoParams;

/// Where to start.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Since {
    /// The last event that the client has, `<epoch>:<seq>`. `Last-Event-ID`, which a browser sends when
    /// it reconnects by itself, is newer and wins.
    since: Option<String>,
}

/// The events after a place, as they happen. The first frame is `hello`, whose `resume` says whether
/// what was missed follows (`ok`), is gone (`gap`: fetch the state), or was not asked for (`none`).
#[utoipa::path(get, operation_id = "stream_events", path = "/api/v1/events", tag = "events",
    params(Since, ("Last-Event-ID" = Option<String>, Header, description = "As `since`.")),
    responses(
        (status = 200, description = "Server-sent events", content_type = "text/event-stream", body = String),
        Refusals
    ),
    security(("operator" = []), ("session" = [])))]
pub(crate) async fn events(
    State(app): State<App>,
    Extension(Kill(kill)): Extension<Kill>,
    Query(query): Query<Since>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let since = place(&headers, query.since.as_deref())?;
    let announce = Announce { boot_id: app.boot_id.clone() };
    let opened = app.live.open(&app.hub, since, &announce, kill, app.drain.clone()).await?;
    let mut response = Body::from_stream(opened.into_stream()).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // nginx would collect the events otherwise.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

fn place(headers: &HeaderMap, since: Option<&str>) -> Result<Option<EventId>, Refusal> {
    let last =
        headers.get("last-event-id").map(|v| (v.to_str().unwrap_or_default(), "the header Last-Event-ID"));
    let given = last.filter(|(text, _)| !text.is_empty()).or(since.map(|text| (text, "in the query: since")));
    match given {
        None => Ok(None),
        Some((text, place)) => {
            text.parse().map(Some).map_err(|e| Refusal::bad_request(format!("{place}: {e}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let mut headers = HeaderMap::new();
        assert_eq!(place(&headers, None).unwrap(), None);
        assert_eq!(place(&headers, Some("e:1")).unwrap().unwrap().seq, 1);
        assert!(place(&headers, Some("")).is_err());
        headers.insert("last-event-id", HeaderValue::from_static("e:2"));
        assert_eq!(place(&headers, Some("e:1")).unwrap().unwrap().seq, 2);
        headers.insert("last-event-id", HeaderValue::from_static("x"));
        assert!(place(&headers, None).is_err());
    }
}
