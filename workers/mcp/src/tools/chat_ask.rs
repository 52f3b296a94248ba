//! `leo_chat_ask`: a question to the person, and the wait for its answer. The hub keeps the question and
//! its deadline; this call only waits, and may be made again as often as it takes.

use super::{Args, Call, Tool, ToolError, object, spec};
use futures_util::future::BoxFuture;
use leo_ipc::{
    Fault, IpcError, MessageId,
    ask::{AskResult, MAX_OPTIONS, MAX_QUESTION, MAX_TIMEOUT_S, OpenAsk, StopWaiting, WaitAsk},
    client::Client,
    hub::HubRequest,
};
use serde_json::{Value, json};
use std::{
    ops::RangeInclusive,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// How long one call waits (seed 001, "The call window"); the harness itself gives up after 32 minutes.
const CALL_WINDOW: Duration = Duration::from_secs(30 * 60);

/// How long to ask the hub to open a question, over its restarts: nothing waits for an answer yet, so
/// the agent hears soon that nobody can be asked.
const OPEN_WITHIN: Duration = Duration::from_secs(30);

/// How long to tell the hub that nobody waits any more. It finds out by itself too, a little later.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Pause before a hub is asked again that said it was stopping.
const PAUSE: Duration = Duration::from_millis(100);

/// Deadlines that may be given; zero is none.
const TIMEOUTS: RangeInclusive<u32> = 0..=3600;
const _: () = assert!(*TIMEOUTS.end() as u64 == MAX_TIMEOUT_S, "both say how long a question may be open");

/// The tool.
pub(crate) struct ChatAsk;

const KNOWN: [&str; 5] = ["question", "input", "options", "timeout_s", "message_id"];

impl Tool for ChatAsk {
    fn name(&self) -> &'static str {
        "leo_chat_ask"
    }

    fn spec(&self) -> rmcp::model::Tool {
        let option = json!({
            "anyOf": [
                { "type": "string" },
                {
                    "type": "object",
                    "properties": {
                        "value": { "type": "string" },
                        "label": { "type": "string" },
                        "description": { "type": "string" }
                    },
                    "required": ["value", "label"]
                }
            ]
        });
        let input = object(json!({
            "type": "object",
            "properties": {
                "question": {
                    "type": "string",
                    "maxLength": MAX_QUESTION,
                    "description": "What to ask, as Markdown."
                },
                "options": {
                    "type": "array",
                    "items": option,
                    "maxItems": MAX_OPTIONS,
                    "description": "Buttons to choose one from; the short form of input."
                },
                "input": {
                    "type": "object",
                    "description": "How they answer; instead of options.",
                    "properties": {
                        "type": {
                            "type": "string",
                            "enum": ["buttons", "radio", "checkboxes", "text"],
                            "description": "Tap one, pick one and submit, pick several, or write."
                        },
                        "options": { "type": "array", "items": option, "maxItems": MAX_OPTIONS },
                        "allow_text": { "type": "boolean", "description": "Accept a free text too." },
                        "min": { "type": "integer", "description": "checkboxes: fewest." },
                        "max": { "type": "integer", "description": "checkboxes: most." },
                        "placeholder": { "type": "string", "description": "Hint in the text field." }
                    },
                    "required": ["type"]
                },
                "timeout_s": {
                    "type": "integer",
                    "minimum": TIMEOUTS.start(),
                    "maximum": TIMEOUTS.end(),
                    "description": "Seconds until the question expires. Left out, it stays open for as long \
                                    as it takes."
                },
                "message_id": {
                    "type": "string",
                    "description": "Alone: go on waiting for the question with this id."
                }
            },
            "additionalProperties": false
        }));
        let output = object(json!({
            "type": "object",
            "properties": {
                "message_id": { "type": "string" },
                "values": { "type": "array", "items": { "type": "string" } },
                "labels": { "type": "array", "items": { "type": "string" } },
                "text": { "type": "string" },
                "pending": { "type": "boolean" },
                "timed_out": { "type": "boolean" },
                "closed_reason": { "type": "string" }
            },
            "required": ["message_id", "values", "labels", "text"]
        }));
        let description = "Asks the person you work for a question and waits for the answer, up to 30 minutes. \
             pending: true means that the question is still open: call again with only its message_id to \
             wait on, or go on with your work; a later answer arrives as a message. timed_out: true means \
             that it closed without an answer, and closed_reason says why.";
        spec(self.name(), "Ask in chat", description, input, output, |hints| hints)
    }

    fn known(&self) -> &'static [&'static str] {
        &KNOWN
    }

    fn call<'a>(&'a self, args: Args, call: Call<'a>) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let started = Instant::now();
            let window = CALL_WINDOW.saturating_sub(call.age);
            let message_id = match asked(&args)? {
                Asked::Resume(message_id) => message_id,
                Asked::Question(question) => {
                    let open = OpenAsk {
                        agent: call.caller.agent.clone(),
                        launch: Some(call.caller.launch.clone()),
                        call_key: call.key.clone(),
                        question: question.to_owned(),
                        input: args.any("input").cloned(),
                        options: args.any("options").cloned(),
                        timeout_s: args.integer("timeout_s", &TIMEOUTS)?.map(u64::from),
                        run: call.caller.run.clone(),
                    };
                    // A call that is made again has its question open, most likely: then waiting is all.
                    let within = if call.age.is_zero() { OPEN_WITHIN } else { window };
                    patiently(call.hub, &open, within).await?.id
                }
            };
            let wait = WaitAsk {
                agent: call.caller.agent.clone(),
                message_id: message_id.clone(),
                call_key: call.key.clone(),
            };
            let mut waiting = Waiting { hub: call.hub, gone: call.gone, stop: Some(stop(&wait)) };
            let result = patiently(call.hub, &wait, window.saturating_sub(started.elapsed())).await;
            let stop = waiting.stop.take();
            let result = match result {
                Ok(result) => result,
                Err(IpcError::Fault(fault)) if fault.code != UNAVAILABLE => {
                    return Err(ToolError::Refused(fault));
                }
                // Still open, or as far as anybody can tell.
                Err(_) => {
                    if let Some(stop) = stop {
                        // A hub that cannot be told finds out when the answer is not collected.
                        let _ = call.hub.call(stop, STOP_WITHIN).await;
                    }
                    AskResult { message_id: message_id.0, pending: true, ..AskResult::default() }
                }
            };
            serde_json::to_value(result).map_err(|e| ToolError::Internal(e.to_string()))
        })
    }
}

/// What a call is about.
enum Asked<'a> {
    Question(&'a str),
    Resume(MessageId),
}

fn asked(args: &Args) -> Result<Asked<'_>, ToolError> {
    // Some models fill a text that they do not need with nothing.
    let given = |name| args.text(name).map(|text| text.filter(|text| !text.trim().is_empty()));
    match (given("message_id")?, given("question")?) {
        (Some(id), None) => match ["input", "options", "timeout_s"].iter().find(|n| args.any(n).is_some()) {
            None => Ok(Asked::Resume(MessageId::from(id.trim()))),
            Some(name) => Err(ToolError::Arguments(format!(
                "at $.{name}: to go on waiting for a question give its message_id alone"
            ))),
        },
        (Some(_), Some(_)) => Err(ToolError::Arguments(
            "give either question, to ask, or message_id alone, to go on waiting; not both".to_owned(),
        )),
        (None, Some(question)) => Ok(Asked::Question(question)),
        (None, None) => Err(ToolError::Arguments(
            "at $.question: expected a question (or message_id alone, to go on waiting for one)".to_owned(),
        )),
    }
}

const UNAVAILABLE: &str = "unavailable";

/// Makes a call over everything that a restart of the hub may answer.
async fn patiently<C>(hub: &Client<HubRequest>, call: &C, within: Duration) -> Result<C::Reply, IpcError>
where
    C: leo_ipc::Call<Request = HubRequest> + Clone,
{
    let until = Instant::now() + within;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let error = match hub.call(call.clone(), left).await {
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        let passes = matches!(&error, IpcError::Fault(Fault { code, .. }) if code == UNAVAILABLE)
            || error.is_retryable();
        if !passes || Instant::now() + PAUSE >= until {
            return Err(error);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn stop(wait: &WaitAsk) -> StopWaiting {
    StopWaiting {
        agent: wait.agent.clone(),
        message_id: wait.message_id.clone(),
        call_key: wait.call_key.clone(),
    }
}

/// Tells the hub when a wait is dropped because the harness cancelled it. When the connection is gone
/// instead, the call may be on its way to the next worker, and the wait with it.
struct Waiting<'a> {
    hub: &'a Client<HubRequest>,
    gone: &'a CancellationToken,
    stop: Option<StopWaiting>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(stop) = self.stop.take().filter(|_| !self.gone.is_cancelled()) else { return };
        let hub = self.hub.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { hub.call(stop, STOP_WITHIN).await });
        }
    }
}
