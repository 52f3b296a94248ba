//! Clearing and compacting an agent's context from afar: through the mod, and typed where there is none.

use anyhow::{Context, Result, ensure};
use leo_tests::{Api, Leo, http::Answer, model::Model, procs, wait_for};
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};

const AGENT: &str = "assistant";
const PANE: &str = "=assistant:";
const CLEARED: &str = "context was cleared";
const COMPACTED: &str = "context was compacted";

struct Bed {
    leo: Leo,
    model: Model,
    has_mod: bool,
}

async fn bed(test: &str, routes: &str) -> Result<Option<Bed>> {
    let model = Model::start().await?;
    let config = format!("chat: {{ routes: [{routes}] }}");
    let Some(leo) = Leo::with_claude_and(&model, test, &config).await? else { return Ok(None) };
    Ok(Some(Bed { leo, model, has_mod: routes.contains("bridge") }))
}

/// Runs a body with and without the mod, each as a test of its own.
macro_rules! in_both_ways {
    ($($name:ident),* $(,)?) => {
        in_both_ways!(@ through_the_mod "bridge, paste" $($name)*);
        in_both_ways!(@ typed "paste" $($name)*);
    };
    (@ $module:ident $routes:literal $($name:ident)*) => {
        mod $module {
            $( #[tokio::test] async fn $name() -> anyhow::Result<()> {
                match super::bed(stringify!($name), $routes).await? { Some(bed) => super::$name(bed).await, None => Ok(()) }
            } )*
        }
    };
}

in_both_ways!(
    a_cleared_agent_begins_anew,
    a_compacted_agent_goes_on_from_a_summary,
    a_busy_agent_keeps_its_context,
    an_interrupted_agent_can_be_compacted_and_cleared,
);

impl Bed {
    async fn tell(&self, verb: &str, body: Value) -> Result<Answer> {
        let path = format!("/api/v1/agents/{AGENT}/{verb}");
        self.leo.api().await?.ask(Method::POST, &path, Some(body)).await
    }

    /// A turn that is over.
    async fn say(&self, text: &str) -> Result<()> {
        let id = self.leo.api().await?.send(AGENT, text).await?;
        self.leo.reply(AGENT, &id).await?;
        self.leo.agent_idle(AGENT).await
    }

    async fn noted(&self, words: &str) -> Result<Value> {
        let api = self.leo.api().await?;
        wait_for(&format!("a note: {words}"), || async { note(&api, words).await.ok()? }).await
    }
}

async fn note(api: &Api, words: &str) -> Result<Option<Value>> {
    let says = |m: &Value| m["kind"] == "system" && m["text"].as_str().is_some_and(|t| t.contains(words));
    Ok(api.thread(AGENT).await?.into_iter().find(says))
}

async fn a_cleared_agent_begins_anew(bed: Bed) -> Result<()> {
    let api = bed.leo.api().await?;
    bed.say("remember the heron").await?;
    let before = api.agent(AGENT).await?["session_id"].clone();
    // A message on the way while it is cleared is neither lost nor cleared away.
    let (cleared, sent) = tokio::join!(bed.tell("clear", json!({})), api.send(AGENT, ">>say sent beside"));
    let (cleared, sent) = (cleared?, sent?);
    ensure!(bed.leo.reply(AGENT, &sent).await?.trim() == "sent beside");
    ensure!(bed.model.times_read("sent beside") == 1, "once");
    bed.leo.agent_idle(AGENT).await?;
    if cleared.status == 409 {
        // The message came first.
        ensure!(cleared.code() == "agent_busy", "{cleared:?}");
        let again = bed.tell("clear", json!({})).await?;
        ensure!(again.status == 200, "{again:?}");
    } else {
        ensure!(cleared.status == 200, "{cleared:?}");
    }
    ensure!(bed.noted(CLEARED).await?["direction"] == "out");
    if bed.has_mod {
        // Asked again under the same key, nothing is done again.
        let ask = async || {
            let path = format!("/api/v1/agents/{AGENT}/clear");
            let request = api.request(Method::POST, &path).header("Idempotency-Key", "again");
            let answer: Value = request.send().await?.json().await?;
            anyhow::Ok((answer, api.agent(AGENT).await?["session_id"].clone()))
        };
        let (first, again) = (ask().await?, ask().await?);
        ensure!(first.0["ok"] == true && again.0["ok"] == true, "{first:?} {again:?}");
        ensure!(first.1 == again.1, "{first:?} {again:?}");
    }
    let after = api.agent(AGENT).await?;
    ensure!(after["session_id"] != before, "{after}");
    bed.say("what was it?").await?;
    let known = bed.model.last_conversation().join("\n");
    ensure!(known.contains("what was it?") && !known.contains("heron"), "{known:.500}");
    ensure!(bed.model.times_read("remember the heron") == 1);
    Ok(())
}

async fn a_compacted_agent_goes_on_from_a_summary(bed: Bed) -> Result<()> {
    let api = bed.leo.api().await?;
    bed.leo.agent_idle(AGENT).await?;
    let empty = bed.tell("compact", json!({})).await?;
    ensure!(empty.status == 409 && empty.code() == "agent_refused", "{empty:?}");
    ensure!(!bed.has_mod || empty.body.to_string().contains("Not enough messages to compact"), "{empty:?}");
    bed.say("remember the heron").await?;
    // Longer than a terminal shows of a paste, and it holds the model up.
    let keep =
        format!("{}\n>>hold summary\n>>say a summary of birds", "keep what was said of birds; ".repeat(60));
    let begun = bed.tell("compact", json!({ "instructions": keep })).await?;
    ensure!(begun.status == 202, "{begun:?}");
    let meanwhile = api.send(AGENT, ">>say after the summary").await?;
    let busy = bed.tell("clear", json!({})).await?;
    ensure!(busy.status == 409 && busy.code() == "agent_busy", "{busy:?}");
    ensure!(note(&api, COMPACTED).await?.is_none(), "it is not done yet");
    // Who asked for it is no part of it.
    let agents = bed.leo.worker_pid("agents").await?;
    procs::signal(agents, Signal::SIGKILL);
    bed.leo.worker_replaced("agents", agents).await?;
    bed.model.release("summary");
    bed.noted(COMPACTED).await?;
    ensure!(bed.leo.reply(AGENT, &meanwhile).await?.trim() == "after the summary");
    let known = bed.model.last_conversation().join("\n");
    ensure!(known.contains("a summary of birds"), "{known:.2000}");
    ensure!(!known.contains("remember the heron"), "{known:.2000}");
    let too_long = bed.tell("compact", json!({ "instructions": "x".repeat(4 * 1024 + 1) })).await?;
    ensure!(too_long.status == 400 && too_long.body.to_string().contains("$.instructions"), "{too_long:?}");
    Ok(())
}

async fn a_busy_agent_keeps_its_context(bed: Bed) -> Result<()> {
    let api = bed.leo.api().await?;
    let turn = api.send(AGENT, ">>hold turn\n>>say done").await?;
    bed.leo.message_state(AGENT, &turn, "delivered").await?;
    for (verb, body) in [("clear", json!({})), ("compact", json!({ "instructions": "all" }))] {
        let answer = bed.tell(verb, body).await?;
        ensure!(answer.status == 409 && answer.code() == "agent_busy", "{answer:?}");
    }
    bed.model.release("turn");
    ensure!(bed.leo.reply(AGENT, &turn).await?.trim() == "done");
    bed.leo.agent_idle(AGENT).await?;

    // What a person has half written is not typed over.
    bed.leo.tmux.type_text(PANE, "my half-written thought")?;
    let draft = || async { bed.leo.tmux.screen(PANE).ok()?.contains("half-written").then_some(()) };
    wait_for("the draft to show", draft).await?;
    let answer = bed.tell("clear", json!({})).await?;
    ensure!(answer.status == if bed.has_mod { 200 } else { 409 }, "{answer:?}");
    wait_for("the draft to show still", draft).await
}

/// Past an Esc a mod may run no command until a person has typed.
async fn an_interrupted_agent_can_be_compacted_and_cleared(bed: Bed) -> Result<()> {
    let api = bed.leo.api().await?;
    bed.say("one").await?;
    let turn = api.send(AGENT, "heron\n>>hold for ever").await?;
    bed.leo.message_state(AGENT, &turn, "delivered").await?;
    bed.tell("interrupt", json!({})).await?;
    bed.leo.agent_idle(AGENT).await?;
    let compacted = wait_for("the interrupted turn to be over", || async {
        bed.tell("compact", json!({})).await.ok().filter(|answer| answer.code() != "agent_busy")
    })
    .await?;
    ensure!(compacted.status == 202, "{compacted:?}");
    bed.noted(COMPACTED).await?;
    let cleared = wait_for("it to be over", || async {
        bed.tell("clear", json!({})).await.ok().filter(|answer| answer.code() != "agent_busy")
    })
    .await?;
    ensure!(cleared.status == 200, "{cleared:?}");
    bed.noted(CLEARED).await?;
    bed.say("what was it?").await?;
    let known = bed.model.last_conversation().join("\n");
    ensure!(!known.contains("heron"), "{known:.500}");
    Ok(())
}

/// The demo agent can be cleared; it has nothing to compact.
#[tokio::test]
async fn the_demo_agent_can_be_cleared() -> Result<()> {
    let leo = Leo::with_demo().await?;
    let api = leo.api().await?;
    let before = api.agent(AGENT).await?["session_id"].clone();
    let cleared = leo.run(&["agent", "clear", AGENT])?;
    let said = String::from_utf8_lossy(&cleared.stdout).into_owned();
    ensure!(cleared.status.success() && said.contains("begins anew"), "{cleared:?}");
    let after = api.agent(AGENT).await?;
    ensure!(after["session_id"] != before, "{after}");
    note(&api, CLEARED).await?.context("a note")?;
    let refused = leo.run(&["agent", "compact", AGENT, "the", "plan"])?;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(!refused.status.success() && said.contains("no context that could be compacted"), "{said}");
    Ok(())
}
