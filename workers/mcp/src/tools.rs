//! The tools that an agent sees: one file a tool, with its schema and its handler together.

mod args;
mod chat_ask;
mod chat_ask_withdraw;
mod chat_history;
mod chat_post;
mod chat_schedule;
mod chat_schedule_cancel;
mod chat_schedule_list;

pub(crate) use args::Args;

use futures_util::future::BoxFuture;
use leo_ipc::{AgentName, CallKey, Fault, IpcError, LaunchId, client::Client, hub::HubRequest};
use rmcp::model::{JsonObject, MetaObject, ToolAnnotations};
use serde_json::Value;
use std::{borrow::Cow, path::PathBuf, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Who calls: established from the connection's token, never from an argument.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The agent.
    pub(crate) agent: AgentName,
    /// The launch that the token was made for.
    pub(crate) launch: LaunchId,
    /// Where the harness runs, to which relative paths refer.
    pub(crate) cwd: Option<PathBuf>,
    /// Whether the caller is a dispatched subagent.
    pub(crate) dispatched: bool,
    /// The headless run that calls.
    pub(crate) run: Option<leo_ipc::ask::Run>,
}

/// One call.
pub(crate) struct Call<'a> {
    /// Who calls.
    pub(crate) caller: &'a Caller,
    /// The hub.
    pub(crate) hub: &'a Client<HubRequest>,
    /// The call's idempotency key; the same for a call that is made again after a worker died.
    pub(crate) key: CallKey,
    /// How long ago the call was first given to a worker; zero unless it was made again.
    pub(crate) age: Duration,
    /// Cancelled when the caller's connection is gone. A call that ends without it was cancelled.
    pub(crate) gone: &'a CancellationToken,
}

/// The same for rmcp's extensions, which tell values apart by their type.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CallAge(pub(crate) Duration);

/// A tool.
pub(crate) trait Tool: Send + Sync {
    /// Its name, which begins with `leo_`.
    fn name(&self) -> &'static str;

    /// What the client shows and the model reads.
    fn spec(&self) -> rmcp::model::Tool;

    /// The names of its arguments.
    fn known(&self) -> &'static [&'static str];

    /// Carries out a call. Dropping the future stops the waiting, not what the hub has begun.
    fn call<'a>(&'a self, args: Args, call: Call<'a>) -> BoxFuture<'a, Result<Value, ToolError>>;
}

/// Every tool, in the order in which they are listed.
pub(crate) static TOOLS: [&dyn Tool; 7] = [
    &chat_post::ChatPost,
    &chat_ask::ChatAsk,
    &chat_ask_withdraw::ChatAskWithdraw,
    &chat_history::ChatHistory,
    &chat_schedule::ChatSchedule,
    &chat_schedule_list::ChatScheduleList,
    &chat_schedule_cancel::ChatScheduleCancel,
];

/// The tool of this name.
pub(crate) fn find(name: &str) -> Option<&'static dyn Tool> {
    TOOLS.into_iter().find(|tool| tool.name() == name)
}

/// The list as the protocol has it.
pub(crate) fn list() -> Vec<rmcp::model::Tool> {
    TOOLS.iter().map(|tool| tool.spec()).collect()
}

/// Why a call has no result. The model reads the text, so it says what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// The arguments are not what the schema says.
    #[error("invalid arguments: {0}")]
    Arguments(String),
    /// The caller may not use it.
    #[error("not allowed: {0}")]
    NotAllowed(&'static str),
    /// The hub refused.
    #[error("{}: {}", .0.code, .0.message)]
    Refused(Fault),
    /// The hub could not be asked.
    #[error("unavailable: Leo cannot be reached right now ({0}); try again in a minute")]
    Unavailable(IpcError),
    /// A bug of ours.
    #[error("internal: {0}")]
    Internal(String),
}

impl ToolError {
    /// What kind of error it is, for the log; its text may quote the agent.
    pub(crate) fn kind(&self) -> &str {
        match self {
            ToolError::Arguments(_) => "invalid_arguments",
            ToolError::NotAllowed(_) => "not_allowed",
            ToolError::Refused(fault) => &fault.code,
            ToolError::Unavailable(_) => "unavailable",
            ToolError::Internal(_) => "internal",
        }
    }
}

impl From<IpcError> for ToolError {
    fn from(error: IpcError) -> ToolError {
        match error {
            IpcError::Fault(fault) => ToolError::Refused(fault),
            other => ToolError::Unavailable(other),
        }
    }
}

/// A tool as the protocol describes it. `hints` says how it differs from one that changes something
/// here, and more so each time.
fn spec(
    name: &'static str,
    title: &str,
    description: impl Into<Cow<'static, str>>,
    input: JsonObject,
    output: JsonObject,
    hints: fn(ToolAnnotations) -> ToolAnnotations,
) -> rmcp::model::Tool {
    let plain =
        ToolAnnotations::new().read_only(false).destructive(false).idempotent(false).open_world(false);
    rmcp::model::Tool::new(name, description, Arc::new(input))
        .with_title(title)
        .with_raw_output_schema(Arc::new(output))
        .with_annotations(hints(plain))
        .with_meta(always_loaded())
}

/// Marks a tool so that Claude puts it into the prompt at the start instead of behind its tool search.
fn always_loaded() -> MetaObject {
    let mut meta = MetaObject::new();
    meta.0.insert("anthropic/alwaysLoad".to_owned(), Value::Bool(true));
    meta
}

/// A schema written as JSON in the tool's file.
fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(map) => map,
        // Not an object only if a tool's file is wrong, which the test below would show.
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_listed_with_what_clients_need() {
        for tool in TOOLS {
            let spec = serde_json::to_value(tool.spec()).unwrap();
            let name = tool.name();
            assert_eq!(spec["name"], name);
            assert!(name.starts_with("leo_"), "{name}");
            assert_eq!(spec["inputSchema"]["type"], "object", "{name}");
            assert_eq!(spec["outputSchema"]["type"], "object", "{name}");
            assert_eq!(spec["_meta"]["anthropic/alwaysLoad"], true, "{name}");
            let properties = spec["inputSchema"]["properties"].as_object().unwrap();
            assert_eq!(properties.len(), tool.known().len(), "{name}");
            assert!(tool.known().iter().all(|known| properties.contains_key(*known)), "{name}");
            assert!(spec["annotations"]["readOnlyHint"].is_boolean(), "{name}");
            assert!(spec["description"].as_str().unwrap().len() < 2000, "{name}");
            assert_eq!(find(name).unwrap().name(), name);
        }
        assert!(find("leo_nothing").is_none());
    }
}
