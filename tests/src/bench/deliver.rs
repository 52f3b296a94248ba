//! P10: from an app's send to the start of the prompt's turn in a real Claude Code.

use crate::{Samples, say};
use anyhow::{Context, Result};
use leo_tests::{Leo, model::Model, sse::Events};
use std::time::Instant;

const ROUNDS: usize = 20;
const AGENT: &str = "assistant";

pub(crate) async fn run() -> Result<()> {
    say("deliver: P10, an app's send to the start of the turn, real Claude Code");
    let model = Model::start().await?;
    let Some(leo) = Leo::with_claude(&model, "bench deliver").await? else {
        say("  skipped: the real agents are not installed (scripts/test installs them)");
        return Ok(());
    };
    let api = leo.api().await?;
    let mut events = Events::open(&api, None).await?;
    events.next().await?.context("a hello")?;
    let mut times = Vec::new();
    for n in 0..ROUNDS {
        leo.agent_idle(AGENT).await?;
        let start = Instant::now();
        let id = api.send(AGENT, &format!(">>say {n}")).await?;
        loop {
            let event = events.next().await?.context("the stream goes on")?;
            if event.kind == "agent_turn_started" {
                times.push(start.elapsed());
                break;
            }
        }
        leo.reply(AGENT, &id).await?;
    }
    say(&format!("  paste: {}", Samples::new(times).show()));
    Ok(())
}
