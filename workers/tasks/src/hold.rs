//! Holding a run: recorded as begun, run, recorded as ended. The worker holds those of schedules, `leo
//! run` those of a person; whoever holds one has its task's lock.

use crate::run::{self, Ended, Job, Live};
use leo_ipc::{
    Call, Fault, IpcError, TaskName,
    ask::Run,
    client::Client,
    config::{TaskConfig, TaskRuntime},
    hub::HubRequest,
    id::{fresh_token, token_hash},
    paths::Home,
    task::{BeginRun, Begun, EndRun, NoteAttempt, RunState, TaskRun},
};
use leo_launch::{Env, Ties};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// One try. The client itself reconnects within it.
const TRY: Duration = Duration::from_secs(5);

/// Pause between tries.
const PAUSE: Duration = Duration::from_millis(200);

/// What a holder needs.
#[derive(Clone)]
pub struct Hold {
    /// The home.
    pub home: Home,
    /// The hub.
    pub hub: Client<HubRequest>,
    /// Absolute path of `leo`.
    pub leo: String,
    /// The environment that runs are built from.
    pub base: Env,
    /// How long the hub is asked over its restarts; `None` asks until it answers.
    pub patience: Option<Duration>,
}

/// Why the hub recorded nothing.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// It refused.
    #[error("{}", .0.message)]
    Refused(Fault),
    /// It could not be asked.
    #[error("Leo cannot be reached: {0}")]
    Unreachable(IpcError),
}

/// A run's record after its end.
#[derive(Debug)]
pub enum Recorded {
    /// It is with the hub.
    Yes(Box<TaskRun>),
    /// The hub does not know how it ended.
    No(HoldError),
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// Whether the hub knows.
    pub recorded: Recorded,
}

impl Hold {
    /// Asks the hub, over its restarts. Every request is idempotent, so asking again is harmless.
    ///
    /// # Errors
    /// The hub's refusal, or that it does not answer within this holder's patience.
    pub async fn ask<C: Call<Request = HubRequest> + Clone>(&self, call: C) -> Result<C::Reply, HoldError> {
        let began = Instant::now();
        loop {
            let error = match self.hub.call(call.clone(), TRY).await {
                Ok(reply) => return Ok(reply),
                Err(IpcError::Fault(fault)) if fault.code != "unavailable" => {
                    return Err(HoldError::Refused(fault));
                }
                Err(e @ (IpcError::TooLarge { .. } | IpcError::Undecodable { .. })) => {
                    return Err(HoldError::Refused(e.into_fault()));
                }
                Err(e) => e,
            };
            if self.patience.is_some_and(|patience| began.elapsed() >= patience) {
                return Err(HoldError::Unreachable(error));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Records how a run ended.
    ///
    /// # Errors
    /// As [`Hold::ask`].
    pub async fn end(&self, run_id: &str, ended: &Ended) -> Result<TaskRun, HoldError> {
        self.ask(EndRun {
            run_id: run_id.to_owned(),
            state: ended.state,
            exit_code: ended.exit_code,
            error: ended.error.clone(),
        })
        .await
    }
}

/// Holds a run that was made, to its end; for a persistent task, until its prompt is with its agent. The
/// caller has the task's lock.
pub async fn hold(
    hold: &Hold,
    run: &TaskRun,
    config: &TaskConfig,
    live: Option<&Live>,
    stop: &CancellationToken,
) -> Outcome {
    if config.runtime == TaskRuntime::Persistent {
        return deliver(hold, run, config).await;
    }
    let token = fresh_token();
    let begin = BeginRun {
        run_id: run.id.clone(),
        token_hash: token_hash(&token),
        log_path: Some(hold.home.task_log(&run.task, &run.id).display().to_string()),
        prompt: None,
    };
    let begun = match hold.ask(begin).await {
        Ok(begun) => begun,
        Err(e) => return finish(hold, &run.id, Ended::not_started(e.to_string())).await,
    };
    let ties = Ties {
        agent: begun.agent.clone(),
        launch: run.id.as_str().into(),
        token,
        program: hold.leo.clone(),
        home: hold.home.clone(),
        run: Some(Run { task: run.task.to_string(), run_id: run.id.clone() }),
    };
    let job = job(hold, &run.task, config, &run.id, Some(ties), Some(begun.workspace));
    let begins = |attempt| note(hold, &run.id, attempt);
    let ended = run::run(&job, live, stop, begins).await;
    finish(hold, &run.id, ended).await
}

/// A run's parts.
fn job<'a>(
    hold: &'a Hold,
    task: &'a TaskName,
    config: &'a TaskConfig,
    run_id: &'a str,
    ties: Option<Ties>,
    workspace: Option<String>,
) -> Job<'a> {
    Job { home: &hold.home, task, config, run_id, ties, workspace, leo: &hold.leo, base: &hold.base }
}

/// Tells the hub that an attempt begins; the first one the hub knows of. The run does not wait for it.
async fn note(hold: &Hold, run_id: &str, attempt: u32) {
    if attempt > 1 {
        let (hub, note) = (hold.hub.clone(), NoteAttempt { run_id: run_id.to_owned(), attempt });
        tokio::spawn(async move { hub.call(note, TRY).await });
    }
}

async fn finish(hold: &Hold, run_id: &str, ended: Ended) -> Outcome {
    if ended.attempts > 1 {
        // Its count must be right before its end makes a card of it.
        let _ = hold.ask(NoteAttempt { run_id: run_id.to_owned(), attempt: ended.attempts }).await;
    }
    let recorded = match hold.end(run_id, &ended).await {
        Ok(run) => Recorded::Yes(Box::new(run)),
        Err(e) => Recorded::No(e),
    };
    Outcome { ended, recorded }
}

/// Puts a persistent task's prompt into its agent's queue. The run ends with its turn.
async fn deliver(hold: &Hold, run: &TaskRun, config: &TaskConfig) -> Outcome {
    let text = match run::prompt(config) {
        Ok(text) => text,
        Err(why) => return finish(hold, &run.id, Ended::not_started(why)).await,
    };
    let begin = BeginRun {
        run_id: run.id.clone(),
        // Nobody has this token: the agent has its own.
        token_hash: token_hash(&fresh_token()),
        log_path: None,
        prompt: Some(text),
    };
    match hold.ask(begin).await {
        Ok(Begun { run, .. }) => {
            let ended = Ended { state: RunState::Running, exit_code: None, error: None, attempts: 1 };
            Outcome { ended, recorded: Recorded::Yes(Box::new(run)) }
        }
        Err(e) => finish(hold, &run.id, Ended::not_started(e.to_string())).await,
    }
}
