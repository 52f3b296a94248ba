//! Bytes of attachments: whatever an agent made, so a browser gets them boxed in.

use crate::{
    answer::{Refusal, Refusals},
    app::{App, HUB_DEADLINE},
    extract::AttachmentPath,
};
use axum::{
    body::Body,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use leo_ipc::chat::{Attachment, AttachmentFile, GetAttachment};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tower_http::services::ServeFile;
use utoipa::IntoParams;

/// Bytes that `filename*` may carry as they are (RFC 8187, attr-char).
const ATTR_CHAR: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// Even a page that a browser insists on showing runs no script and reaches nothing.
const SANDBOX: HeaderValue = HeaderValue::from_static(
    "sandbox; default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'unsafe-inline'; \
     frame-ancestors 'none'",
);

/// Which attachment.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only its schema is used; the extractor reads the path itself")]
pub(crate) struct AttachmentParam {
    /// Its id.
    id: String,
}

/// An attachment's bytes, or a range of them.
#[utoipa::path(get, operation_id = "get_attachment", path = "/api/v1/chat/attachments/{id}", tag = "chat", params(AttachmentParam),
    responses(
        (status = 200, description = "The bytes", content_type = "application/octet-stream", body = [u8]),
        (status = 206, description = "A range", content_type = "application/octet-stream", body = [u8]),
        (status = 304, description = "Not modified"),
        Refusals
    ),
    security(("operator" = []), ("session" = [])))]
pub(crate) async fn attachment(
    State(app): State<App>,
    AttachmentPath(id): AttachmentPath,
    request: Request,
) -> Result<Response, Refusal> {
    let AttachmentFile { attachment, path } = app.hub.call(GetAttachment { id }, HUB_DEADLINE).await?;
    let pruned = || Refusal::new("attachment_pruned", "the file is no longer kept");
    if !attachment.available {
        return Err(pruned());
    }
    let response = match ServeFile::new(&path).try_call(request).await {
        Ok(response) => response.map(Body::new),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(pruned()),
        Err(e) => {
            tracing::error!(path, error = %e, "cannot read an attachment");
            return Err(Refusal::new("internal", "the file cannot be read"));
        }
    };
    match response.status() {
        StatusCode::NOT_FOUND => return Err(pruned()),
        StatusCode::OK | StatusCode::PARTIAL_CONTENT => {}
        // 304 and 416 say all that there is to say.
        _ => return Ok(response.into_response()),
    }
    let mut response = response.into_response();
    describe(response.headers_mut(), &attachment);
    Ok(response)
}

fn describe(headers: &mut HeaderMap, attachment: &Attachment) {
    let octets = || HeaderValue::from_static("application/octet-stream");
    let mime = HeaderValue::from_str(&attachment.mime).unwrap_or_else(|_| octets());
    headers.insert(header::CONTENT_TYPE, mime);
    headers.insert(header::CONTENT_SECURITY_POLICY, SANDBOX);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=3600"));
    // Cannot fail: what the name could break is escaped or replaced.
    if let Ok(value) = HeaderValue::from_str(&disposition(attachment)) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
}

/// Pictures, sound and film may be shown in place; the rest is saved.
fn disposition(attachment: &Attachment) -> String {
    let mime = attachment.mime.as_str();
    let inline = matches!(mime, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
        || mime.starts_with("audio/")
        || mime.starts_with("video/");
    let kind = if inline { "inline" } else { "attachment" };
    let plain: String =
        attachment
            .filename
            .chars()
            .map(|c| {
                if c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '%' | '/') || c == ' ' { c } else { '_' }
            })
            .collect();
    let encoded = utf8_percent_encode(&attachment.filename, ATTR_CHAR);
    format!("{kind}; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(filename: &str, mime: &str) -> String {
        let attachment = Attachment {
            id: "a".into(),
            filename: filename.into(),
            mime: mime.into(),
            bytes: 1,
            available: true,
        };
        let mut headers = HeaderMap::new();
        describe(&mut headers, &attachment);
        headers[header::CONTENT_DISPOSITION].to_str().unwrap().to_owned()
    }

    #[test]
    fn names_cannot_break_the_header() {
        assert_eq!(named("a.png", "image/png"), "inline; filename=\"a.png\"; filename*=UTF-8''a.png");
        assert_eq!(
            named("Füße \"x\"\r\n.html", "text/html"),
            "attachment; filename=\"F__e _x___.html\"; filename*=UTF-8''F%C3%BC%C3%9Fe%20%22x%22%0D%0A.html"
        );
        assert!(named("a.svg", "image/svg+xml").starts_with("attachment"));
        assert!(named("a", "broken\nmime").starts_with("attachment"));
    }
}
