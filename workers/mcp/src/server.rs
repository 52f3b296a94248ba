//! One MCP session's requests, from rmcp to our tools. rmcp stays inside this file and `session.rs`,
//! besides the tool type, so that a new version of it touches little.

use crate::{
    protocol::{SERVER_NAME, SERVER_VERSION, instructions},
    tools::{self, Args, Call, CallAge, Caller, Tool, ToolError},
};
use futures_util::FutureExt;
use leo_ipc::{CallKey, agent::ToolsListed, client::Client, hub::HubRequest};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
        ErrorCode, Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
        ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
};
use serde_json::Value;
use std::{borrow::Cow, panic::AssertUnwindSafe, time::Duration};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Most calls of one session in progress; another is refused. A shim has fewer open.
const MAX_CALLS: usize = 512;

/// The agents worker waits no longer than this for the tools to be listed, so a later word is useless.
const TELL_WITHIN: Duration = Duration::from_secs(5);

/// One session's handler.
pub(crate) struct Server {
    caller: Caller,
    hub: Client<HubRequest>,
    /// Cancelled when the connection is gone: then nobody waits for an answer.
    gone: CancellationToken,
    calls: Semaphore,
}

impl Server {
    /// A handler for the caller's connection.
    pub(crate) fn new(caller: Caller, hub: Client<HubRequest>, gone: CancellationToken) -> Server {
        Server { caller, hub, gone, calls: Semaphore::new(MAX_CALLS) }
    }

    /// Lets the agent's first prompt come. Beside the answer: it must not wait for the hub.
    fn tell_listed(&self) {
        if self.caller.run.is_some() || self.caller.dispatched {
            return;
        }
        let listed = ToolsListed { name: self.caller.agent.clone(), launch: self.caller.launch.clone() };
        let hub = self.hub.clone();
        tokio::spawn(async move {
            if let Err(e) = hub.call(listed, TELL_WITHIN).await {
                tracing::debug!(error = %e, "nobody knows that the tools were listed");
            }
        });
    }

    async fn carry_out(
        &self,
        tool: &'static dyn Tool,
        arguments: JsonObject,
        key: CallKey,
        age: Duration,
    ) -> Result<Value, ToolError> {
        if self.caller.dispatched {
            return Err(ToolError::NotAllowed(
                "a dispatched subagent has no chat of its own; report to the agent that dispatched you",
            ));
        }
        let args = Args::checked(arguments, tool.known())?;
        tool.call(args, Call { caller: &self.caller, hub: &self.hub, key, age, gone: &self.gone }).await
    }

    async fn answer(
        &self,
        tool: &'static dyn Tool,
        arguments: JsonObject,
        key: CallKey,
        age: Duration,
    ) -> CallToolResult {
        let Ok(_call) = self.calls.try_acquire() else {
            return failure(&format!("unavailable: {MAX_CALLS} calls are in progress; wait for one to end"));
        };
        // A panic in one call must be that call's answer, or its client waits for ever.
        let result = AssertUnwindSafe(self.carry_out(tool, arguments, key, age)).catch_unwind().await;
        match result {
            Ok(Ok(value)) => CallToolResult::structured(value),
            Ok(Err(error)) => {
                tracing::info!(tool = tool.name(), kind = error.kind(), "tool call failed");
                failure(&error.to_string())
            }
            Err(_) => failure("internal: the tool failed unexpectedly; the call may have been carried out"),
        }
    }
}

fn failure(text: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

impl ServerHandler for Server {
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25))
    }

    fn get_info(&self) -> ServerConfig {
        // The shim has answered the client with its own words; this answer only opens the session.
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
            .with_server_info(Implementation::new(SERVER_NAME, SERVER_VERSION))
            .with_instructions(instructions(true))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.tell_listed();
        Ok(ListToolsResult::with_all_items(tools::list()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::find(&request.name) else {
            let name: String = request.name.chars().take(80).collect();
            return Err(ErrorData::invalid_params(format!("unknown tool: {name}"), None));
        };
        let key = context.extensions.get::<CallKey>().cloned().unwrap_or_else(CallKey::fresh);
        let CallAge(age) = context.extensions.get::<CallAge>().copied().unwrap_or_default();
        tokio::select! {
            result = self.answer(tool, request.arguments.unwrap_or_default(), key, age) => Ok(result.into()),
            // Neither reaches anybody: a cancelled call gets no answer.
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
            () = self.gone.cancelled() => Err(ErrorData::internal_error("the connection is gone", None)),
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // What rmcp knows by name but cannot read arrives here: arguments that are not an object.
        if request.method == "tools/call" {
            let text = "invalid arguments: at $: expected a tool's name and an object of arguments";
            let result = serde_json::to_value(failure(text));
            return result.map(CustomResult::new).map_err(|e| ErrorData::internal_error(e.to_string(), None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::BoxFuture;
    use leo_ipc::{Generation, hello::Role};
    use std::sync::Arc;

    struct Panics;

    impl Tool for Panics {
        fn name(&self) -> &'static str {
            "leo_panics"
        }

        fn spec(&self) -> rmcp::model::Tool {
            rmcp::model::Tool::new("leo_panics", "", Arc::new(JsonObject::new()))
        }

        fn known(&self) -> &'static [&'static str] {
            &[]
        }

        fn call<'a>(&'a self, _: Args, _: Call<'a>) -> BoxFuture<'a, Result<Value, ToolError>> {
            panic!("boom")
        }
    }

    #[tokio::test]
    async fn a_panic_is_the_answer_of_its_call() {
        let caller = Caller {
            agent: "a".parse().unwrap(),
            launch: "l".into(),
            cwd: None,
            dispatched: false,
            run: None,
        };
        let hub = Client::new("/nowhere".into(), Role::Worker, Generation(0));
        let server = Server::new(caller, hub, CancellationToken::new());
        let result = server.answer(&Panics, JsonObject::new(), CallKey::fresh(), Duration::ZERO).await;
        assert_eq!(result.is_error, Some(true));
        assert_eq!(server.calls.available_permits(), MAX_CALLS);
    }
}
