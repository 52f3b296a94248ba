//! JSON-RPC messages as the shim needs them: what kind one is, and the few that it writes itself.

use serde_json::{Value, json};

/// The message is JSON and no request.
pub(crate) const INVALID: i64 = -32600;
/// The method does not exist, here or now.
pub(crate) const NO_METHOD: i64 = -32601;
/// Not the sender's fault.
pub(crate) const INTERNAL: i64 = -32603;

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    /// Wants an answer.
    Request {
        /// A text or a whole number.
        id: Value,
        /// What is asked.
        method: String,
        /// Its parameters; `null` when there are none.
        params: Value,
    },
    /// Wants none.
    Notification {
        /// What is said.
        method: String,
        /// Its parameters; `null` when there are none.
        params: Value,
    },
    /// An answer.
    Response {
        /// The request's id.
        id: Value,
        /// The result; `None` for an error.
        result: Option<Value>,
    },
    /// JSON, but none of these.
    Invalid {
        /// The id to answer to; `null` when it has no usable one.
        id: Value,
    },
    /// Not JSON.
    Garbage,
}

/// Reads a line.
pub(crate) fn parse(line: &str) -> Message {
    let Ok(message) = serde_json::from_str::<Value>(line) else { return Message::Garbage };
    let Value::Object(mut message) = message else { return Message::Invalid { id: Value::Null } };
    let id = message.remove("id");
    let usable = id.clone().filter(is_id);
    let params = message.remove("params").unwrap_or_default();
    match (message.remove("method"), id) {
        (Some(Value::String(method)), None) => Message::Notification { method, params },
        (Some(Value::String(method)), Some(_)) => match usable {
            Some(id) => Message::Request { id, method, params },
            None => Message::Invalid { id: Value::Null },
        },
        (None, Some(id)) if message.contains_key("result") || message.contains_key("error") => {
            Message::Response { id, result: message.remove("result") }
        }
        _ => Message::Invalid { id: usable.unwrap_or_default() },
    }
}

/// Whether a request may have this id.
fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

/// A request of our own.
pub(crate) fn request(id: &Value, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// A notification of our own.
pub(crate) fn notification(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}

/// An answer.
pub(crate) fn result(id: &Value, result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
}

/// A refusal.
pub(crate) fn error(id: &Value, code: i64, text: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } }).to_string()
}

/// An answer to `tools/call` that tells the model what went wrong.
pub(crate) fn tool_error(id: &Value, text: &str) -> String {
    result(id, &json!({ "content": [{ "type": "text", "text": text }], "isError": true }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        let request = |id| Message::Request { id, method: "m".into(), params: Value::Null };
        for (line, is) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#, request(json!(1))),
            (r#"{"jsonrpc":"2.0","id":"a","method":"m"}"#, request(json!("a"))),
            (r#"{"method":"m"}"#, Message::Notification { method: "m".into(), params: Value::Null }),
            (r#"{"id":1,"result":{}}"#, Message::Response { id: json!(1), result: Some(json!({})) }),
            (r#"{"id":1,"error":{}}"#, Message::Response { id: json!(1), result: None }),
            (r#"{"id":null,"method":"m"}"#, Message::Invalid { id: Value::Null }),
            (r#"{"id":1.5,"method":"m"}"#, Message::Invalid { id: Value::Null }),
            (r#"{"id":7,"method":3}"#, Message::Invalid { id: json!(7) }),
            (r#"[{"id":1,"method":"m"}]"#, Message::Invalid { id: Value::Null }),
            ("{}", Message::Invalid { id: Value::Null }),
            ("Content-Length: 12", Message::Garbage),
            ("", Message::Garbage),
        ] {
            assert_eq!(parse(line), is, "{line}");
        }
    }
}
