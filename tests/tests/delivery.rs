//! The main job on both harnesses: a message becomes a turn of its own and its answer comes back,
//! whatever the text and whatever the terminal is doing.

use anyhow::{Context, Result, ensure};
use leo_tests::{Leo, leo::DEMO, model::Model, wait::wait_within, wait_for};
use serde_json::Value;
use std::time::Duration;

const AGENT: &str = "assistant";
const PANE: &str = "=assistant:";

/// One harness under test.
struct Bed {
    leo: Leo,
    model: Option<Model>,
    /// A prompt that makes the agent ask for permission to make the file `made`.
    permission: &'static str,
}

async fn demo(_test: &str) -> Result<Option<Bed>> {
    let leo = Leo::builder().config(DEMO).start().await?;
    leo.agent_idle(AGENT).await?;
    Ok(Some(Bed { leo, model: None, permission: ">>run touch made" }))
}

async fn claude(test: &str) -> Result<Option<Bed>> {
    let model = Model::start().await?;
    let Some(leo) = Leo::with_claude(&model, test).await? else { return Ok(None) };
    Ok(Some(Bed { leo, model: Some(model), permission: ">>tool Bash {\"command\":\"touch made\"}" }))
}

/// Runs a body on both harnesses, each as a test of its own.
macro_rules! on_both {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        mod with_demo {
            $( $(#[$doc])* #[tokio::test] async fn $name() -> anyhow::Result<()> {
                match super::demo(stringify!($name)).await? { Some(bed) => super::$name(bed).await, None => Ok(()) }
            } )*
        }
        mod with_claude {
            $( $(#[$doc])* #[tokio::test] async fn $name() -> anyhow::Result<()> {
                match super::claude(stringify!($name)).await? { Some(bed) => super::$name(bed).await, None => Ok(()) }
            } )*
        }
    };
}

on_both!(
    message_turn_reply,
    five_in_a_row_each_with_its_own_turn,
    texts_arrive_whole,
    a_dialog_gets_nothing_typed_into_it,
    a_draft_is_left_alone,
    clear_in_between,
    a_stopped_agent_is_started,
    an_interrupted_turn_does_not_block_the_next,
    a_crashed_agent_comes_back,
);

async fn message_turn_reply(bed: Bed) -> Result<()> {
    let api = bed.leo.api().await?;
    let id = api.send(AGENT, "hello from the phone").await?;
    let message = bed.leo.message_state(AGENT, &id, "delivered").await?;
    // The demo agent has no other route than the paste.
    let best = if bed.model.is_some() { "bridge" } else { "paste" };
    ensure!(message["delivery"]["route"] == best && message["delivery"]["attempts"] == 1, "{message}");
    let reply = bed.leo.reply(AGENT, &id).await?;
    ensure!(reply.contains("hello from the phone"), "{reply}");
    bed.leo.agent_idle(AGENT).await?;
    let agent = api.agent(AGENT).await?;
    ensure!(agent["unread"] == 1 && agent["session_id"].is_string() && agent["route"] == best, "{agent}");
    Ok(())
}

async fn five_in_a_row_each_with_its_own_turn(bed: Bed) -> Result<()> {
    let api = bed.leo.api().await?;
    let mut ids = vec![api.send(AGENT, ">>sleep 2\n>>say one").await?];
    bed.leo.message_state(AGENT, &ids[0], "delivered").await?;
    // These two come while a turn runs, the others behind them.
    for word in ["two", "three", "four", "five"] {
        ids.push(api.send(AGENT, &format!(">>say {word}")).await?);
    }
    let second = api.message(AGENT, &ids[1]).await?;
    ensure!(second["state"] == "pending", "it waits with us, not in the terminal: {second}");
    for (id, word) in ids.iter().zip(["one", "two", "three", "four", "five"]) {
        let reply = bed.leo.reply(AGENT, id).await?;
        ensure!(reply.trim() == word, "{reply:?} is the reply to {word}");
    }
    let thread = api.thread(AGENT).await?;
    let replies = thread.iter().filter(|m| m["direction"] == "out" && m["kind"] == "text").count();
    ensure!(replies == 5, "{replies} replies: {thread:#?}");
    Ok(())
}

async fn texts_arrive_whole(bed: Bed) -> Result<()> {
    let api = bed.leo.api().await?;
    let long_line = "long ".repeat(300);
    let twenty_kb =
        (0..400).map(|n| format!("line {n} of many, with some words in it\n")).collect::<String>();
    let file_size = "0123456789abcdef\n".repeat(15 * 1024);
    let texts = [
        "x",
        "one\ntwo\nthree\nfour\nfive",
        "emoji 😀 👩‍👩‍👧‍👦 🏳️‍🌈 and CJK 漢字 かな 한글",
        "!touch pwned",
        "/clear",
        "# a heading",
        "an escape \u{1b}[201~ and more\u{7}",
        "bidi \u{202e}abc\u{202c} and \u{200b} nothing",
        "tab\there\r\nand windows lines\r\n",
        &long_line,
        &twenty_kb,
        &file_size,
    ];
    for text in texts {
        let id = api.send(AGENT, text).await?;
        bed.leo.message_state(AGENT, &id, "delivered").await?;
        bed.leo.reply(AGENT, &id).await?;
        let stored = api.message(AGENT, &id).await?;
        ensure!(stored["text"] == text, "the thread keeps the text as it was sent");
        if let Some(model) = &bed.model {
            let prompts = model.prompts();
            let newest = prompts.last().context("the model got a prompt")?;
            let whole = leo_ipc::prompt::contains(newest, &format!("[Leo Chat] {text}"));
            let named = newest.contains("Read that file") && text.len() > 32 * 1024;
            ensure!(whole || named, "{text:.80?} arrived as {newest:.200?}");
        }
    }
    ensure!(!bed.leo.work().join("pwned").exists(), "a leading ! must not run a command");
    let too_large = api
        .ask(
            reqwest::Method::POST,
            &format!("/api/v1/chat/{AGENT}/messages"),
            Some(serde_json::json!({"text": "x".repeat(300 * 1024)})),
        )
        .await?;
    ensure!(too_large.status == 413 && too_large.code() == "too_large", "{too_large:?}");
    Ok(())
}

async fn a_dialog_gets_nothing_typed_into_it(bed: Bed) -> Result<()> {
    let api = bed.leo.api().await?;
    let first = api.send(AGENT, bed.permission).await?;
    bed.leo.message_state(AGENT, &first, "delivered").await?;
    wait_for("the agent to need input", || async {
        (api.agent(AGENT).await.ok()?["activity"] == "needs_input").then_some(())
    })
    .await?;
    let second = api.send(AGENT, "this must wait").await?;
    wait_for("the message to say what it waits for", || async {
        let message = api.message(AGENT, &second).await.ok()?;
        (message["delivery"]["waiting_for"] == "dialog").then_some(())
    })
    .await
    .with_context(|| bed.leo.log())?;
    ensure!(!bed.leo.work().join("made").exists(), "Enter would have approved the tool");
    let screen = bed.leo.tmux.screen(PANE)?;
    ensure!(!screen.contains("this must wait"), "typed into a dialog:\n{screen}");
    // The person decides in the terminal; then the message goes its way, once.
    if bed.model.is_none() {
        bed.leo.tmux.keys(PANE, &["1", "Enter"])?;
    } else {
        // Claude passes over a key that comes before its dialog can be read, as a person's does not.
        for _ in 0..3 {
            bed.leo.tmux.keys(PANE, &["1"])?;
            let gone = wait_within(Duration::from_secs(2), "the dialog to close", || async {
                (!bed.leo.tmux.screen(PANE).ok()?.contains("Do you want to proceed?")).then_some(())
            });
            if gone.await.is_ok() {
                break;
            }
        }
    }
    bed.leo.message_state(AGENT, &second, "delivered").await?;
    let reply = bed.leo.reply(AGENT, &second).await?;
    ensure!(reply.contains("this must wait"), "{reply}");
    ensure!(bed.leo.work().join("made").exists(), "the person allowed it");
    Ok(())
}

async fn a_draft_is_left_alone(bed: Bed) -> Result<()> {
    let api = bed.leo.api().await?;
    bed.leo.tmux.type_text(PANE, "my half-written thought")?;
    wait_for("the draft to show", || async {
        bed.leo.tmux.screen(PANE).ok()?.contains("half-written").then_some(())
    })
    .await?;
    let id = api.send(AGENT, "after the draft").await?;
    if bed.model.is_some() {
        // The mod's prompts pass by the composer; `routes.rs` shows the same of the paste.
        let reply = bed.leo.reply(AGENT, &id).await?;
        ensure!(reply.contains("after the draft") && !reply.contains("half-written"), "{reply}");
        ensure!(bed.leo.tmux.screen(PANE)?.contains("my half-written thought"), "the draft is untouched");
        return Ok(());
    }
    wait_for("the message to wait for the draft", || async {
        let message = api.message(AGENT, &id).await.ok()?;
        (message["delivery"]["waiting_for"] == "draft").then_some(())
    })
    .await
    .with_context(|| bed.leo.log())?;
    ensure!(bed.leo.tmux.screen(PANE)?.contains("my half-written thought"), "the draft is untouched");
    bed.leo.tmux.keys(PANE, &["C-u"])?;
    let reply = bed.leo.reply(AGENT, &id).await?;
    ensure!(reply.contains("after the draft") && !reply.contains("half-written"), "{reply}");
    Ok(())
}

async fn clear_in_between(bed: Bed) -> Result<()> {
    let api = bed.leo.api().await?;
    let first = api.send(AGENT, ">>say before").await?;
    bed.leo.reply(AGENT, &first).await?;
    bed.leo.agent_idle(AGENT).await?;
    let session = api.agent(AGENT).await?["session_id"].clone();
    bed.leo.tmux.type_text(PANE, "/clear")?;
    wait_for("the command to show", || async {
        bed.leo.tmux.screen(PANE).ok()?.contains("/clear").then_some(())
    })
    .await?;
    bed.leo.tmux.keys(PANE, &["Enter"])?;
    wait_for("a new session", || async {
        let agent = api.agent(AGENT).await.ok()?;
        (agent["session_id"] != session).then_some(())
    })
    .await?;
    let second = api.send(AGENT, ">>say after").await?;
    ensure!(bed.leo.reply(AGENT, &second).await?.trim() == "after");
    let thread = api.thread(AGENT).await?;
    ensure!(thread.len() == 5, "the thread goes on: {thread:?}");
    let note = thread.get(2).and_then(|m| m["text"].as_str()).unwrap_or_default();
    ensure!(note.contains("context was cleared"), "{thread:?}");
    Ok(())
}

async fn a_stopped_agent_is_started(bed: Bed) -> Result<()> {
    let api = bed.leo.api().await?;
    api.post(&format!("/api/v1/agents/{AGENT}/stop"), serde_json::json!({})).await?;
    wait_for("the agent to be stopped", || async {
        (api.agent(AGENT).await.ok()?["status"] == "stopped").then_some(())
    })
    .await?;
    ensure!(!bed.leo.tmux.sessions()?.contains(&AGENT.to_owned()), "its session is gone");
    let id = api.send(AGENT, ">>say awake").await?;
    ensure!(bed.leo.reply(AGENT, &id).await?.trim() == "awake");
    let notes = notes(&api.thread(AGENT).await?);
    ensure!(notes.iter().any(|n| n.starts_with("Starting")), "{notes:?}");
    Ok(())
}

async fn an_interrupted_turn_does_not_block_the_next(bed: Bed) -> Result<()> {
    let api = bed.leo.api().await?;
    let first = api.send(AGENT, ">>sleep 600\n>>say never").await?;
    bed.leo.message_state(AGENT, &first, "delivered").await?;
    let second = api.send(AGENT, ">>say afterwards").await?;
    api.post(&format!("/api/v1/agents/{AGENT}/interrupt"), serde_json::json!({})).await?;
    ensure!(bed.leo.reply(AGENT, &second).await?.trim() == "afterwards");
    ensure!(api.reply(AGENT, &first).await?.is_none(), "an interrupted turn has no reply");
    Ok(())
}

async fn a_crashed_agent_comes_back(bed: Bed) -> Result<()> {
    let api = bed.leo.api().await?;
    let first = api.send(AGENT, ">>say before").await?;
    bed.leo.reply(AGENT, &first).await?;
    let pid = bed.leo.tmux.pane_pid(PANE)?;
    leo_tests::procs::signal(pid, nix::sys::signal::Signal::SIGKILL);
    wait_for("another process in the pane", || async {
        bed.leo.tmux.pane_pid(PANE).ok().filter(|new| *new != pid)
    })
    .await
    .with_context(|| bed.leo.log())?;
    let second = api.send(AGENT, ">>say after").await?;
    ensure!(bed.leo.reply(AGENT, &second).await?.trim() == "after");
    let notes = notes(&api.thread(AGENT).await?);
    ensure!(!notes.is_empty(), "the thread says what happened");
    ensure!(api.agent(AGENT).await?["restarts"] == 1);
    ensure!(bed.leo.tmux.sessions()?.len() == 1, "one session per agent");
    Ok(())
}

fn notes(thread: &[Value]) -> Vec<String> {
    let system = thread.iter().filter(|m| m["kind"] == "system");
    system.map(|m| m["text"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A start-up dialog of Claude's: nothing is lost, nothing is typed into it.
#[tokio::test]
async fn a_start_up_dialog_keeps_the_message() -> Result<()> {
    let model = Model::start().await?;
    let Some(mut leo) = Leo::prepare_claude(&model, "a_start_up_dialog_keeps_the_message")? else {
        return Ok(());
    };
    // Without the person's trust in the folder, Claude asks before anything else.
    let state = leo.user_home().join(".claude.json");
    let mut json: Value = serde_json::from_str(&std::fs::read_to_string(&state)?)?;
    json["projects"] = serde_json::json!({});
    std::fs::write(&state, json.to_string())?;
    leo.start().await?;
    let api = leo.api().await?;
    wait_for("the agent to need a person", || async {
        let agent = api.agent(AGENT).await.ok()?;
        (agent["activity"] == "needs_input" && agent["waiting_for"].is_string()).then_some(())
    })
    .await
    .with_context(|| format!("{:?}\n{}", leo.tmux.screen(PANE), leo.log()))?;
    let id = api.send(AGENT, ">>say trusted").await?;
    wait_for("the message to wait for a person", || async {
        let message = api.message(AGENT, &id).await.ok()?;
        (message["delivery"]["waiting_for"] == "person").then_some(())
    })
    .await?;
    let thread_notes = notes(&api.thread(AGENT).await?);
    ensure!(!thread_notes.is_empty(), "a note says what a person has to do");
    let screen = leo.tmux.screen(PANE)?;
    ensure!(screen.contains("trust") && !screen.contains(">>say"), "{screen}");
    // "No, exit" is preselected; its place among the answers differs between versions.
    let on_yes = |screen: &str| screen.lines().any(|line| line.contains('❯') && line.contains("Yes"));
    for key in ["Down", "Up"] {
        let before = leo.tmux.screen(PANE)?;
        if on_yes(&before) {
            break;
        }
        leo.tmux.keys(PANE, &[key])?;
        wait_for("the selection to move", || async { (leo.tmux.screen(PANE).ok()? != before).then_some(()) })
            .await?;
    }
    ensure!(on_yes(&leo.tmux.screen(PANE)?), "{}", leo.tmux.screen(PANE)?);
    leo.tmux.keys(PANE, &["Enter"])?;
    ensure!(leo.reply(AGENT, &id).await?.trim() == "trusted");
    Ok(())
}

/// The agent's own words through MCP, and nothing captured twice.
#[tokio::test]
async fn the_agent_posts_by_itself() -> Result<()> {
    for bed in [demo("the_agent_posts_by_itself").await?, claude("the_agent_posts_by_itself").await?] {
        let Some(bed) = bed else { continue };
        let api = bed.leo.api().await?;
        let file = bed.leo.work().join("a b ü.txt");
        std::fs::write(&file, "contents")?;
        let call = serde_json::json!({ "text": "my own words", "files": [file] });
        let id = api.send(AGENT, &format!(">>tool leo_chat_post {call}\n>>say captured")).await?;
        bed.leo.message_state(AGENT, &id, "delivered").await?;
        // With real Claude an MCP tool asks for permission once; the person allows it in the terminal.
        let posted = wait_for("the post", || async {
            if bed.model.is_some() && bed.leo.tmux.screen(PANE).ok()?.contains("Do you want to proceed?") {
                bed.leo.tmux.keys(PANE, &["1"]).ok()?;
            }
            api.thread(AGENT).await.ok()?.into_iter().find(|m| m["text"] == "my own words")
        })
        .await
        .with_context(|| format!("{}\n{}", bed.leo.tmux.screen(PANE).unwrap_or_default(), bed.leo.log()))?;
        ensure!(posted["attachments"][0]["filename"] == "a b ü.txt", "{posted}");
        let attachment = posted["attachments"][0]["id"].as_str().unwrap_or_default();
        let bytes = api
            .request(reqwest::Method::GET, &format!("/api/v1/chat/attachments/{attachment}"))
            .send()
            .await?
            .bytes()
            .await?;
        ensure!(&bytes[..] == b"contents");
        bed.leo.agent_idle(AGENT).await?;
        let next = api.send(AGENT, ">>say the end").await?;
        bed.leo.reply(AGENT, &next).await?;
        let thread = api.thread(AGENT).await?;
        ensure!(!thread.iter().any(|m| m["text"] == "captured"), "its last words are not posted as well");
    }
    Ok(())
}
