//! P10: from an app's send to the start of the prompt's turn in a real Claude Code, by each route, side by
//! side.

use crate::{Samples, say};
use anyhow::{Context, Result};
use leo_tests::{Leo, leo::CLAUDE, model::Model, sse::Events};
use std::time::{Duration, Instant};

const ROUNDS: usize = 50;
const AGENT: &str = "assistant";

/// A Claude to which one route leads, with its stream.
struct Bed {
    leo: Leo,
    events: Events,
    times: Vec<Duration>,
    /// The model that it speaks to.
    _model: Model,
}

pub(crate) async fn run() -> Result<()> {
    say("deliver: P10, an app's send to the start of the turn, real Claude Code");
    let mut beds = Vec::new();
    for route in ["bridge", "inbox", "paste"] {
        let Some(bed) = bed(route).await? else {
            say("  skipped: the real agents are not installed (scripts/test installs them)");
            return Ok(());
        };
        beds.push((route, bed));
    }
    // One after the other in each round, so that the machine's moods meet all of them.
    for round in 0..ROUNDS {
        for (_, bed) in &mut beds {
            bed.round(round).await?;
        }
    }
    let samples: Vec<(&str, Samples)> =
        beds.into_iter().map(|(route, bed)| (route, Samples::new(bed.times))).collect();
    let first = samples.first().map_or(0.0, |(_, s)| s.median().as_secs_f64());
    for (route, samples) in &samples {
        let ratio = samples.median().as_secs_f64() / first.max(f64::EPSILON);
        say(&format!("  {route:<6} {} ({ratio:.2} of the bridge's)", samples.show()));
    }
    Ok(())
}

async fn bed(route: &str) -> Result<Option<Bed>> {
    let model = Model::start().await?;
    let Some(mut leo) = Leo::prepare_claude(&model, "bench deliver")? else { return Ok(None) };
    let agents = CLAUDE.replace("$WORK", &leo.work().to_string_lossy());
    let config = format!("web: {{ port: 0 }}\nchat: {{ routes: [{route}] }}\n{agents}");
    std::fs::write(leo.home.config(), config)?;
    leo.start().await?;
    leo.agent_idle(AGENT).await?;
    let api = leo.api().await?;
    // The first turn of a session loads what later ones have.
    let warm = api.send(AGENT, ">>say warm").await?;
    leo.reply(AGENT, &warm).await?;
    let mut events = Events::open(&api, None).await?;
    events.next().await?.context("a hello")?;
    Ok(Some(Bed { leo, events, times: Vec::new(), _model: model }))
}

impl Bed {
    async fn round(&mut self, round: usize) -> Result<()> {
        self.leo.agent_idle(AGENT).await?;
        let api = self.leo.api().await?;
        let start = Instant::now();
        let id = api.send(AGENT, &format!(">>say {round}")).await?;
        loop {
            let event = self.events.next().await?.context("the stream goes on")?;
            if event.kind == "agent_turn_started" {
                self.times.push(start.elapsed());
                break;
            }
        }
        self.leo.reply(AGENT, &id).await?;
        Ok(())
    }
}
