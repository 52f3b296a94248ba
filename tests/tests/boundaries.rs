//! SIGKILL at the boundaries of a hand-over to the real Claude, each met by what it shows and not by
//! chance: recorded but not given, given but not entered, read by the model but not yet known to the hub,
//! read by a Claude that dies. Nothing is lost, doubled or lied about, by any route.

use anyhow::{Context, Result, ensure};
use leo_tests::{Api, Leo, model::Model, procs, wait::wait_within, wait_for};
use nix::sys::signal::Signal;
use std::time::Duration;

const AGENT: &str = "assistant";
const PANE: &str = "=assistant:";

/// A moment that passes within a tenth of a second may be missed; then it is tried for again.
const TRIES: usize = 5;

struct Bed {
    leo: Leo,
    api: Api,
    model: Model,
    route: &'static str,
}

async fn bed(test: &str, route: &'static str) -> Result<Option<Bed>> {
    let model = Model::start().await?;
    let only = format!("chat: {{ routes: [{route}] }}");
    let Some(leo) = Leo::with_claude_and(&model, test, &only).await? else { return Ok(None) };
    let api = leo.api().await?;
    Ok(Some(Bed { leo, api, model, route }))
}

#[tokio::test]
async fn by_the_bridge() -> Result<()> {
    all_boundaries("by_the_bridge", "bridge").await
}

#[tokio::test]
async fn by_the_inbox() -> Result<()> {
    all_boundaries("by_the_inbox", "inbox").await
}

#[tokio::test]
async fn by_paste() -> Result<()> {
    all_boundaries("by_paste", "paste").await
}

async fn all_boundaries(test: &str, route: &'static str) -> Result<()> {
    let Some(bed) = bed(test, route).await? else { return Ok(()) };
    recorded_but_not_given(&bed).await.context("recorded but not given")?;
    if route == "paste" {
        given_but_not_entered(&bed).await.context("given but not entered")?;
    }
    read_but_not_known(&bed).await.context("read but not known")?;
    read_by_one_that_dies(&bed).await.context("read by one that dies")?;
    let last = bed.api.send(AGENT, ">>say the end").await?;
    ensure!(bed.leo.reply(AGENT, &last).await?.trim() == "the end");
    Ok(())
}

impl Bed {
    fn text(&self, moment: &str) -> String {
        format!("<{moment} by {}>", self.route)
    }

    /// Waits until the hand-over of a message is recorded; false when it is already over.
    async fn is_recorded(&self, id: &str) -> Result<bool> {
        let message = wait_for("the hand-over", || async {
            let message = self.api.message(AGENT, id).await.ok()?;
            (message["delivery"]["attempts"] == 1).then_some(message)
        })
        .await?;
        Ok(message["state"] == "pending")
    }

    /// What became of a message, against what the model has read.
    async fn settled(&self, id: &str, text: &str, may_be_unproven: bool) -> Result<()> {
        let over = wait_for("an outcome", || async {
            self.api.message(AGENT, id).await.ok().filter(|m| m["state"] != "pending")
        })
        .await
        .with_context(|| self.leo.log())?;
        let unproven = over["failed_reason"] == "unproven";
        if over["state"] == "delivered" {
            self.leo.reply(AGENT, id).await?;
        }
        self.leo.agent_idle(AGENT).await?;
        let times = self.model.times_read(text);
        match over["state"].as_str() {
            Some("delivered") => ensure!(times == 1, "read {times} times: {over}"),
            _ if unproven => ensure!(may_be_unproven && times <= 1, "read {times} times: {over}"),
            _ => ensure!(times == 0, "read, and said to have failed: {over}"),
        }
        Ok(())
    }
}

async fn recorded_but_not_given(bed: &Bed) -> Result<()> {
    let text = bed.text("recorded");
    let agents = bed.leo.worker_pid("agents").await?;
    let id = bed.api.send(AGENT, &text).await?;
    bed.is_recorded(&id).await?;
    procs::signal(agents, Signal::SIGKILL);
    bed.settled(&id, &text, bed.route == "paste").await
}

/// The text lies in the composer and nobody has pressed Enter.
async fn given_but_not_entered(bed: &Bed) -> Result<()> {
    for n in 0..TRIES {
        let text = bed.text(&format!("pasted {n}"));
        let agents = bed.leo.worker_pid("agents").await?;
        let id = bed.api.send(AGENT, &text).await?;
        wait_for("the text to be in the composer", || async {
            bed.leo.tmux.screen(PANE).ok()?.contains(&text).then_some(())
        })
        .await?;
        procs::signal(agents, Signal::SIGKILL);
        let entered = wait_within(Duration::from_secs(1), "the model to read it", || async {
            (bed.model.times_read(&text) > 0).then_some(())
        });
        let missed = entered.await.is_ok();
        bed.settled(&id, &text, true).await?;
        if !missed {
            return Ok(());
        }
    }
    anyhow::bail!("Enter was pressed before the worker was killed, {TRIES} times")
}

/// The hub stands still from the record of the hand-over on, and is killed when the model has read the
/// prompt: whatever evidence there is reaches only its successor.
async fn read_but_not_known(bed: &Bed) -> Result<()> {
    for n in 0..TRIES {
        let text = bed.text(&format!("unknown {n}"));
        let hub = bed.leo.worker_pid("hub").await?;
        let id = bed.api.send(AGENT, &text).await?;
        let in_time = bed.is_recorded(&id).await?;
        procs::signal(hub, Signal::SIGSTOP);
        let read =
            wait_for("the model to read it", || async { (bed.model.times_read(&text) > 0).then_some(()) });
        let read = read.await;
        procs::signal(hub, Signal::SIGKILL);
        read.with_context(|| bed.leo.log())?;
        bed.settled(&id, &text, false).await?;
        if in_time {
            return Ok(());
        }
    }
    anyhow::bail!("the hub knew before it was stopped, {TRIES} times")
}

async fn read_by_one_that_dies(bed: &Bed) -> Result<()> {
    let text = bed.text("died");
    let id = bed.api.send(AGENT, &format!("{text}\n>>hold for ever")).await?;
    bed.leo.message_state(AGENT, &id, "delivered").await?;
    wait_for("the model to read it", || async { (bed.model.times_read(&text) > 0).then_some(()) }).await?;
    let pid = bed.leo.tmux.pane_pid(PANE)?;
    procs::signal(pid, Signal::SIGKILL);
    wait_for("another Claude", || async { bed.leo.tmux.pane_pid(PANE).ok().filter(|new| *new != pid) })
        .await?;
    bed.leo.agent_idle(AGENT).await?;
    let message = bed.api.message(AGENT, &id).await?;
    ensure!(message["state"] == "delivered", "{message}");
    ensure!(bed.model.times_read(&text) == 1, "read again after its death");
    Ok(())
}
