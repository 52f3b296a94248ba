//! Agents that have nothing to do are stopped and woken by what is asked of them, without a change to
//! their thread or session.

use anyhow::{Context, Result, ensure};
use leo_tests::{Api, Leo, model::Model, tmux::Tmux, wait_for};
use serde_json::{Value, json};
use std::time::Duration;

const AGENT: &str = "assistant";
const PANE: &str = "=assistant:";

/// `idle_suspend_after` of these tests, and how long an agent that is kept awake is watched.
const AFTER: &str = "2s";
const WATCHED: Duration = Duration::from_secs(6);

struct Bed {
    leo: Leo,
    model: Option<Model>,
}

fn config(harness: &str) -> String {
    format!(
        "agents: {{ assistant: {{ harness: {harness}, workspace: $WORK, idle_suspend_after: {AFTER} }} }}\n"
    )
}

async fn demo(_test: &str) -> Result<Option<Bed>> {
    let leo = Leo::builder().config(&config("demo")).start().await?;
    leo.agent_idle(AGENT).await?;
    Ok(Some(Bed { leo, model: None }))
}

async fn claude(test: &str) -> Result<Option<Bed>> {
    let model = Model::start().await?;
    let Some(mut leo) = Leo::prepare_claude(&model, test)? else { return Ok(None) };
    leo.configure(&config("claude"))?;
    leo.start().await?;
    leo.agent_idle(AGENT).await?;
    Ok(Some(Bed { leo, model: Some(model) }))
}

/// Runs a body on both harnesses, each as a test of its own.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod with_demo {
            $( #[tokio::test] async fn $name() -> anyhow::Result<()> {
                match super::demo(stringify!($name)).await? { Some(bed) => super::$name(bed).await, None => Ok(()) }
            } )*
        }
        mod with_claude {
            $( #[tokio::test] async fn $name() -> anyhow::Result<()> {
                match super::claude(stringify!($name)).await? { Some(bed) => super::$name(bed).await, None => Ok(()) }
            } )*
        }
    };
}

on_both!(
    a_message_wakes_an_agent_that_was_suspended,
    a_late_answer_wakes_a_suspended_agent,
    what_keeps_an_agent_awake,
);

/// Waits until the agent was put to rest.
async fn asleep(leo: &Leo, api: &Api) -> Result<Value> {
    let agent = wait_for("the agent to be suspended", || async {
        api.agent(AGENT).await.ok().filter(|a| a["status"] == "stopped" && a["suspended"] == true)
    })
    .await
    .with_context(|| format!("{:?}\n{}", leo.tmux.screen(PANE), leo.log()))?;
    ensure!(!leo.tmux.sessions().unwrap_or_default().contains(&AGENT.to_owned()), "its session is gone");
    Ok(agent)
}

async fn stays_awake(leo: &Leo, api: &Api, why: &str) -> Result<()> {
    let pane = leo.tmux.pane_pid(PANE)?;
    tokio::time::sleep(WATCHED).await;
    let agent = api.agent(AGENT).await?;
    ensure!(
        agent["status"] == "running" && leo.tmux.pane_pid(PANE)? == pane,
        "{why}: {agent}\n{}",
        leo.log()
    );
    Ok(())
}

async fn notes(api: &Api) -> Result<Vec<String>> {
    let thread = api.thread(AGENT).await?;
    let system = thread.iter().filter(|m| m["kind"] == "system");
    Ok(system.map(|m| m["text"].as_str().unwrap_or_default().to_owned()).collect())
}

async fn a_message_wakes_an_agent_that_was_suspended(mut bed: Bed) -> Result<()> {
    let api = bed.leo.api().await?;
    let first = api.send(AGENT, ">>say one").await?;
    ensure!(bed.leo.reply(AGENT, &first).await?.trim() == "one");
    let session = api.agent(AGENT).await?["session_id"].clone();
    ensure!(session.is_string(), "the session is known");
    asleep(&bed.leo, &api).await?;
    ensure!(notes(&api).await?.is_empty(), "a rest is nothing to tell: {:?}", notes(&api).await?);
    let list = bed.leo.run(&["agent", "list"])?;
    ensure!(String::from_utf8_lossy(&list.stdout).contains("asleep"), "{list:?}");

    let second = api.send(AGENT, ">>say two").await?;
    ensure!(bed.leo.reply(AGENT, &second).await?.trim() == "two");
    ensure!(notes(&api).await? == ["Starting…"], "{:?}", notes(&api).await?);
    let agent = api.agent(AGENT).await?;
    ensure!(agent["restarts"] == 0, "{agent}");
    // The demo agent has no memory to go on with.
    if let Some(model) = &bed.model {
        ensure!(agent["session_id"] == session, "it goes on where it was: {agent}");
        let heard = model.prompts();
        ensure!(heard.iter().any(|p| p.contains(">>say one")), "the conversation goes on: {heard:?}");
    }

    // What rests goes on resting when everything else starts anew.
    asleep(&bed.leo, &api).await?;
    bed.leo.stop().await?;
    bed.leo.start().await?;
    let api = bed.leo.api().await?;
    let agent = asleep(&bed.leo, &api).await?;
    ensure!(agent["wake_on_message"] == true, "{agent}");
    let third = api.send(AGENT, ">>say three").await?;
    ensure!(bed.leo.reply(AGENT, &third).await?.trim() == "three");
    Ok(())
}

/// Nobody waits for the answer any more, so it comes as a message, to an agent that sleeps.
async fn a_late_answer_wakes_a_suspended_agent(bed: Bed) -> Result<()> {
    let api = bed.leo.api().await?;
    let ask = match bed.model {
        Some(_) => {
            ">>tool leo_chat_ask {\"question\":\"Ship it?\",\"options\":[\"Yes\",\"No\"]}\n>>say never"
        }
        None => ">>ask {\"question\":\"Ship it?\",\"options\":[\"Yes\",\"No\"]}\n>>say never",
    };
    api.send(AGENT, ask).await?;
    let card = wait_for("the card", || async {
        api.thread(AGENT).await.ok()?.into_iter().find(|m| m["kind"] == "ask" && m["state"] == "open")
    })
    .await?;
    api.post(&format!("/api/v1/agents/{AGENT}/interrupt"), json!({})).await?;
    asleep(&bed.leo, &api).await?;
    let id = card["id"].as_str().unwrap_or_default();
    ensure!(api.message(AGENT, id).await?["state"] == "open", "a rest closes nothing");
    let path = format!("/api/v1/chat/{AGENT}/messages/{id}/answer");
    api.post(&path, json!({ "values": ["Yes"], "text": "" })).await?;
    let late = wait_for("the answer as a message", || async {
        let thread = api.thread(AGENT).await.ok()?;
        thread.into_iter().find(|m| m["reply_to"] == id && m["direction"] == "in")
    })
    .await?;
    let late = late["id"].as_str().unwrap_or_default();
    bed.leo.message_state(AGENT, late, "delivered").await?;
    if let Some(model) = &bed.model {
        let heard = wait_for("the answer to reach the model", || async {
            model.prompts().into_iter().find(|p| p.contains("In reply to your leo_chat_ask"))
        })
        .await?;
        ensure!(heard.contains("[Leo Chat] Yes\n") && heard.contains("\"labels\":[\"Yes\"]"), "{heard}");
    }
    ensure!(api.agent(AGENT).await?["status"] == "running");
    Ok(())
}

async fn what_keeps_an_agent_awake(bed: Bed) -> Result<()> {
    let api = bed.leo.api().await?;
    // A turn longer than the time after which it may rest.
    let long = api.send(AGENT, ">>sleep 6\n>>say done").await?;
    ensure!(bed.leo.reply(AGENT, &long).await?.trim() == "done");
    // A person's draft.
    bed.leo.tmux.type_text(PANE, "half a thought")?;
    stays_awake(&bed.leo, &api, "a draft").await?;
    ensure!(bed.leo.tmux.screen(PANE)?.contains("half a thought"));
    // A person who looks at it.
    let other = Tmux { socket: format!("{}-person", bed.leo.tmux.socket) };
    let attach = format!("TMUX= tmux -L {} attach -t =assistant", bed.leo.tmux.socket);
    other.text(&["new-session", "-d", "-x", "100", "-y", "30", &attach])?;
    let attached = wait_for("the person to be attached", || async {
        let count = bed.leo.tmux.text(&["display-message", "-p", "-t", PANE, "#{session_attached}"]).ok()?;
        (count.trim() == "1").then_some(())
    })
    .await;
    let watched = async {
        attached?;
        bed.leo.tmux.keys(PANE, &["C-u"])?;
        stays_awake(&bed.leo, &api, "a person is attached").await
    };
    let watched = watched.await;
    other.kill_server();
    watched?;
    asleep(&bed.leo, &api).await?;
    Ok(())
}

/// Suspended, woken, cleared, suspended and woken again: one thread, and each time the session that was
/// last goes on.
#[tokio::test]
async fn a_thread_outlives_suspension_clear_and_resume() -> Result<()> {
    let Some(bed) = claude("a_thread_outlives_suspension_clear_and_resume").await? else { return Ok(()) };
    let Bed { leo, model: Some(model) } = bed else { return Ok(()) };
    let api = leo.api().await?;
    let say = async |word: &str| -> Result<()> {
        let id = api.send(AGENT, &format!(">>say {word}")).await?;
        ensure!(leo.reply(AGENT, &id).await?.trim() == word, "the reply to {word}");
        leo.agent_idle(AGENT).await
    };
    say("alpha").await?;
    let before = api.agent(AGENT).await?["session_id"].clone();
    asleep(&leo, &api).await?;
    say("beta").await?;
    ensure!(api.agent(AGENT).await?["session_id"] == before, "resumed");

    leo.tmux.type_text(PANE, "/clear")?;
    wait_for("the command to show", || async {
        leo.tmux.screen(PANE).ok()?.contains("/clear").then_some(())
    })
    .await?;
    leo.tmux.keys(PANE, &["Enter"])?;
    let after = wait_for("a new session", || async {
        let agent = api.agent(AGENT).await.ok()?;
        Some(agent["session_id"].clone()).filter(|session| *session != before)
    })
    .await?;
    say("gamma").await?;
    asleep(&leo, &api).await?;
    let heard = model.prompts().len();
    say("delta").await?;
    ensure!(api.agent(AGENT).await?["session_id"] == after, "the session after /clear goes on");
    let last = model.last_conversation();
    ensure!(last.iter().any(|p| p.contains("gamma")), "it remembers what came after /clear: {last:?}");
    ensure!(!last.iter().any(|p| p.contains("alpha")), "and nothing from before: {last:?}");
    ensure!(model.prompts().len() == heard + 1, "nothing was said again");

    let thread = api.thread(AGENT).await?;
    let said: Vec<&str> = thread
        .iter()
        .filter(|m| m["direction"] == "out" && m["kind"] == "text")
        .filter_map(|m| m["text"].as_str().map(str::trim))
        .collect();
    ensure!(said == ["alpha", "beta", "gamma", "delta"], "{said:?}");
    Ok(())
}
