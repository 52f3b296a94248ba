//! Deliveries: the queue of each agent, the hand-over, and its outcome. A row goes
//! `queued → handed → done`; only `queued` may be handed over, and `handed` without evidence is never
//! handed over again by itself.

use crate::{
    agent,
    error::Outcome,
    message::{self, from_word, word},
    note,
    statements::Cached,
    task,
    turn::{self, Handed, TurnState},
    writer::Tx,
};
use leo_ipc::{
    AgentName, Fault, LaunchId, MessageId, Time,
    agent::Wake,
    chat::{FailedReason, Message, MessageState},
    delivery::{
        BeginHandover, BindTurn, Delivery, Next, OpenTurns, Outcome as Ended, PromptRefused, ReportOutcome,
        Started, TurnInterrupted, Turns, Unbound, refusal_note,
    },
};
use rusqlite::{Connection, OptionalExtension, Row};

/// A delivered message without a turn of its own waits this long for it (seed 001, "Replies").
const TURN_WAIT_MS: i64 = 30 * 60 * 1000;

const COLUMNS: &str = "message_id, attempts, prompt, launch, handed_at, handed_prompt, phase, route";

fn from_row(row: &Row<'_>, agent: &AgentName, now: Time) -> Result<Delivery, rusqlite::Error> {
    let attempts: u32 = row.get(1)?;
    let handed = row.get::<_, String>(6)? == "handed";
    Ok(Delivery {
        agent: agent.clone(),
        message_id: MessageId(row.get(0)?),
        attempt: if handed { attempts } else { attempts + 1 },
        prompt: row.get(2)?,
        launch: row.get::<_, Option<String>>(3)?.filter(|_| handed).map(LaunchId),
        handed_ms_ago: row.get::<_, Option<i64>>(4)?.filter(|_| handed).map(|at| now.millis() - at),
        handed_prompt: row.get::<_, Option<String>>(5)?.filter(|_| handed),
        route: row.get::<_, Option<String>>(7)?.filter(|_| handed).map(from_word).transpose()?,
    })
}

/// Which deliveries are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    /// Voice notes that are being transcribed.
    Transcribing,
    /// Waiting. A voice note that is being transcribed keeps its place for a while: what came after it
    /// waits.
    Queued,
    /// Waiting, and for the turn that runs.
    Steering,
    /// Handed over from the queue.
    Handed,
    /// Handed to a turn that ran.
    Steered,
}

impl Which {
    fn condition(self) -> &'static str {
        match self {
            Which::Transcribing => "phase = 'transcribing'",
            Which::Queued => {
                "phase = 'queued' AND NOT EXISTS (
                 SELECT 1 FROM deliveries n JOIN voice_notes v ON v.message_id = n.message_id
                 WHERE n.agent = ?1 AND n.phase = 'transcribing' AND v.held = 1
                 AND n.message_id < deliveries.message_id)"
            }
            Which::Steering => "phase = 'queued' AND steer = 1",
            Which::Handed => "phase = 'handed' AND steered = 0",
            Which::Steered => "phase = 'handed' AND steered = 1",
        }
    }
}

fn first(db: &Connection, agent: &AgentName, which: Which, now: Time) -> Outcome<Option<Delivery>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM deliveries WHERE agent = ?1 AND phase <> 'done' AND {} ORDER BY message_id LIMIT 1",
        which.condition()
    );
    let mut statement = db.prepare_cached(&sql)?;
    Ok(statement.query_row([agent.as_str()], |row| from_row(row, agent, now)).optional()?)
}

/// Queues a prompt for an agent.
pub(crate) fn enqueue(tx: &Tx<'_>, agent: &AgentName, id: &MessageId, prompt: &str) -> Outcome<()> {
    tx.db
        .prepare_cached(
            "INSERT INTO deliveries (message_id, agent, phase, prompt, bytes) VALUES (?1, ?2, 'queued', ?3, ?4)",
        )?
        .execute(rusqlite::params![id.as_str(), agent.as_str(), prompt, prompt.len()])?;
    Ok(())
}

/// Says that a message is for the turn that runs.
pub(crate) fn mark_steer(tx: &Tx<'_>, id: &MessageId) -> Outcome<()> {
    tx.db.execute_cached("UPDATE deliveries SET steer = 1 WHERE message_id = ?1", [id.as_str()])?;
    Ok(())
}

/// The next message to hand over, and the one in doubt.
pub(crate) fn next(db: &Connection, agent: &AgentName) -> Outcome<Next> {
    agent::must_exist(db, agent)?;
    let now = Time::now();
    Ok(Next {
        delivery: first(db, agent, Which::Queued, now)?,
        in_doubt: first(db, agent, Which::Handed, now)?,
        steer: first(db, agent, Which::Steering, now)?,
        steer_in_doubt: first(db, agent, Which::Steered, now)?,
        turn_runs: turn::running(db, agent)?.is_some(),
    })
}

/// The oldest message that waits to be handed over.
pub(crate) fn first_queued(db: &Connection, agent: &AgentName) -> Outcome<Option<MessageId>> {
    Ok(first(db, agent, Which::Queued, Time::now())?.map(|d| d.message_id))
}

/// The message that was handed to a launch, has no outcome yet, and is part of `text`; the queue's where
/// neither is. What another launch reports, late, is no evidence for it.
pub(crate) fn handed(
    db: &Connection,
    agent: &AgentName,
    launch: &LaunchId,
    text: Option<&str>,
) -> Outcome<Option<Handed>> {
    let mut found = Vec::new();
    for which in [Which::Handed, Which::Steered] {
        let here = first(db, agent, which, Time::now())?.filter(|d| d.launch.as_ref() == Some(launch));
        found.extend(
            here.map(|d| Handed { message_id: d.message_id, prompt: d.handed_prompt.unwrap_or(d.prompt) }),
        );
    }
    let named =
        found.iter().position(|h| text.is_some_and(|text| leo_ipc::prompt::contains(text, &h.prompt)));
    Ok(if found.is_empty() { None } else { Some(found.swap_remove(named.unwrap_or(0))) })
}

/// Whether a delivered message still waits for its turn.
pub(crate) fn has_unbound(db: &Connection, agent: &AgentName, now: Time) -> Outcome<bool> {
    Ok(!unbound(db, agent, now)?.is_empty())
}

fn unbound(db: &Connection, agent: &AgentName, now: Time) -> Outcome<Vec<Unbound>> {
    let mut statement = db.prepare_cached(
        "SELECT message_id, coalesce(handed_prompt, prompt) FROM deliveries
         WHERE agent = ?1 AND turn = 'unbound' AND done_at > ?2 ORDER BY message_id",
    )?;
    let since = now.millis() - TURN_WAIT_MS;
    let rows = statement.query_map(rusqlite::params![agent.as_str(), since], |row| {
        Ok(Unbound { message_id: MessageId(row.get(0)?), prompt: row.get(1)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Records that a message is about to be handed over.
pub(crate) fn begin(tx: &mut Tx<'_>, tmux_socket: &str, request: &BeginHandover) -> Outcome<Delivery> {
    let record = agent::load(tx.db, tmux_socket, &request.agent)?;
    agent::must_be_current(&record, &request.launch)?;
    let lane = if request.steer { Which::Steered } else { Which::Handed };
    if let Some(doubt) = first(tx.db, &request.agent, lane, tx.now)? {
        let same = doubt.message_id == request.message_id && doubt.attempt == request.attempt;
        if same && doubt.launch.as_ref() == Some(&request.launch) {
            return Ok(doubt);
        }
        let text = format!("message {} was handed over before and has no outcome yet", doubt.message_id);
        return Err(Fault::new("in_doubt", text).into());
    }
    let changed = tx.db.execute_cached(
        "UPDATE deliveries SET phase = 'handed', attempts = ?3, launch = ?4, route = ?5, handed_prompt = ?6,
         handed_at = ?7, steered = ?8
         WHERE message_id = ?1 AND agent = ?2 AND phase = 'queued' AND attempts = ?3 - 1",
        rusqlite::params![
            request.message_id.as_str(),
            request.agent.as_str(),
            request.attempt,
            request.launch.as_str(),
            word(request.route),
            request.handed_prompt,
            tx.now.millis(),
            request.steer,
        ],
    )?;
    if changed == 0 {
        return Err(Fault::new("not_pending", "the message no longer waits to be handed over").into());
    }
    let delivery = first(tx.db, &request.agent, lane, tx.now)?;
    delivery.ok_or_else(|| Fault::internal("a delivery vanished inside its transaction").into())
}

/// Records that the harness has a message. One for the turn that runs, and that started none of its own,
/// was folded into it.
pub(crate) fn delivered(tx: &mut Tx<'_>, agent: &AgentName, id: &MessageId, bound: bool) -> Outcome<()> {
    let changed = tx.db.execute_cached(
        "UPDATE deliveries SET phase = 'done', done_at = ?2,
         turn = CASE WHEN ?3 THEN 'bound' WHEN steered = 1 THEN 'folded' ELSE 'unbound' END
         WHERE message_id = ?1 AND phase = 'handed'",
        rusqlite::params![id.as_str(), tx.now.millis(), bound],
    )?;
    if changed == 0 {
        return Ok(());
    }
    tx.db.execute_cached(
        "UPDATE messages SET state = 'delivered', failed_reason = NULL WHERE id = ?1",
        [id.as_str()],
    )?;
    message::emit_changed(tx, id, "state")?;
    tx.wake(Wake::Outbox { name: agent.clone() });
    Ok(())
}

/// Records how an attempt ended; only the first outcome counts.
pub(crate) fn outcome(tx: &mut Tx<'_>, request: &ReportOutcome) -> Outcome<Message> {
    let message = message::find(tx.db, &request.agent, &request.message_id)?;
    let (phase, attempts): (String, u32) = tx
        .db
        .prepare_cached("SELECT phase, attempts FROM deliveries WHERE message_id = ?1")?
        .query_row([request.message_id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?
        .ok_or_else(|| Fault::bad_request("that message is not one that is delivered"))?;
    let handed = phase == "handed" && attempts == request.attempt;
    // A message can fail before it was ever handed over: the agent does not start.
    let queued = phase == "queued" && attempts + 1 == request.attempt;
    match (&request.outcome, handed, queued) {
        (Ended::Delivered { prompt_id }, true, _) => {
            delivered(tx, &request.agent, &request.message_id, prompt_id.is_some())?;
            if let Some(prompt_id) = prompt_id {
                claim_turn(tx, &request.agent, prompt_id, &request.message_id)?;
            }
            message::load(tx.db, &request.message_id)
        }
        (Ended::NotApplied {}, true, _) => {
            tx.db.execute_cached(
                "UPDATE deliveries SET phase = 'queued', launch = NULL, handed_prompt = NULL, handed_at = NULL,
                 steer = CASE WHEN steered = 1 THEN 0 ELSE steer END, steered = 0 WHERE message_id = ?1",
                [request.message_id.as_str()],
            )?;
            tx.wake(Wake::Outbox { name: request.agent.clone() });
            message::emit_changed(tx, &request.message_id, "state")
        }
        (Ended::Failed { reason, note }, true, _) | (Ended::Failed { reason, note }, _, true) => {
            fail(tx, &request.agent, &request.message_id, request.attempt, *reason, note)
        }
        (Ended::Unproven { note }, true, _) => {
            fail(tx, &request.agent, &request.message_id, request.attempt, FailedReason::Unproven, note)
        }
        _ if message.state == MessageState::Pending => {
            Err(Fault::new("stale_attempt", "that attempt is not the one in progress").into())
        }
        _ => Ok(message),
    }
}

fn fail(
    tx: &mut Tx<'_>,
    agent: &AgentName,
    id: &MessageId,
    attempt: u32,
    reason: FailedReason,
    text: &str,
) -> Outcome<Message> {
    tx.db.execute_cached(
        "UPDATE deliveries SET phase = 'done', done_at = ?2, attempts = ?3 WHERE message_id = ?1",
        rusqlite::params![id.as_str(), tx.now.millis(), attempt],
    )?;
    tx.db.execute_cached(
        "UPDATE messages SET state = 'failed', failed_reason = ?2 WHERE id = ?1",
        [id.as_str(), &word(reason)],
    )?;
    let message = message::emit_changed(tx, id, "state")?;
    note::post(tx, agent, &format!("failed:{id}:{attempt}"), text)?;
    task::delivery_failed(tx, id, text)?;
    tx.wake(Wake::Outbox { name: agent.clone() });
    Ok(message)
}

/// Fails everything that still waits for an agent.
pub(crate) fn fail_all(tx: &mut Tx<'_>, agent: &AgentName, text: &str) -> Outcome<()> {
    for which in [Which::Steered, Which::Handed, Which::Transcribing, Which::Queued] {
        while let Some(delivery) = first(tx.db, agent, which, tx.now)? {
            let (reason, note) = match which {
                Which::Handed | Which::Steered => {
                    (FailedReason::Unproven, format!("{text} It may have been applied."))
                }
                _ => (FailedReason::AgentUnreachable, text.to_owned()),
            };
            fail(tx, agent, &delivery.message_id, delivery.attempt, reason, &note)?;
        }
    }
    Ok(())
}

/// The running turn, the messages without one, and those whose turn may never have been.
pub(crate) fn open_turns(db: &Connection, request: &OpenTurns) -> Outcome<Turns> {
    let running = turn::running(db, &request.agent)?;
    let running_message = match running.as_ref().and_then(|turn| turn.message_id.as_ref()) {
        Some(id) => started(db, id)?,
        None => None,
    };
    Ok(Turns {
        running: running.map(|turn| turn.prompt_id),
        running_message,
        unbound: unbound(db, &request.agent, Time::now())?,
        doubtful: doubtful(db, &request.agent, Time::now())?,
    })
}

fn started(db: &Connection, id: &MessageId) -> Outcome<Option<Started>> {
    let row = db.query_row_cached(
        "SELECT message_id, coalesce(handed_prompt, prompt), handed_at FROM deliveries
         WHERE message_id = ?1 AND handed_at IS NOT NULL",
        [id.as_str()],
        started_row,
    );
    Ok(row.optional()?)
}

fn doubtful(db: &Connection, agent: &AgentName, now: Time) -> Outcome<Vec<Started>> {
    let mut statement = db.prepare_cached(
        "SELECT message_id, coalesce(handed_prompt, prompt), handed_at FROM deliveries
         WHERE agent = ?1 AND turn = 'doubtful' AND done_at > ?2 AND handed_at IS NOT NULL
         ORDER BY message_id",
    )?;
    let since = now.millis() - TURN_WAIT_MS;
    let rows = statement.query_map(rusqlite::params![agent.as_str(), since], started_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn started_row(row: &Row<'_>) -> Result<Started, rusqlite::Error> {
    Ok(Started { message_id: MessageId(row.get(0)?), prompt: row.get(1)?, handed_ms: row.get(2)? })
}

/// A message's turn is over without an answer. That its prompt was refused after a hook had told of it
/// looks the same, until somebody looks into the transcript.
pub(crate) fn doubt(tx: &mut Tx<'_>, id: &MessageId) -> Outcome<()> {
    tx.db.execute_cached(
        "UPDATE deliveries SET turn = 'doubtful' WHERE message_id = ?1 AND turn = 'bound'",
        [id.as_str()],
    )?;
    Ok(())
}

/// Takes back that a message was delivered: the harness had told of its prompt and then dropped it.
pub(crate) fn refused(tx: &mut Tx<'_>, tmux_socket: &str, request: &PromptRefused) -> Outcome<()> {
    let record = agent::load(tx.db, tmux_socket, &request.agent)?;
    agent::must_be_current(&record, &request.launch)?;
    let message = message::find(tx.db, &request.agent, &request.message_id)?;
    if let Some(prompt_id) = &request.prompt_id {
        turn::end(tx, &request.agent, prompt_id, TurnState::Interrupted)?;
        agent::set_activity(tx, tmux_socket, &request.agent, leo_ipc::agent::Activity::Idle)?;
    }
    if message.state != MessageState::Delivered {
        return Ok(());
    }
    // It waits for no turn any more.
    tx.db.execute_cached("UPDATE deliveries SET turn = NULL WHERE message_id = ?1", [message.id.as_str()])?;
    let attempt = message.delivery.as_ref().map_or(0, |delivery| delivery.attempts);
    let (agent, id) = (&request.agent, &request.message_id);
    fail(tx, agent, id, attempt, FailedReason::Transport, &refusal_note(&request.why)).map(|_| ())
}

/// Records which turn a message started, or that the one it is known to have started was real.
pub(crate) fn bind(tx: &mut Tx<'_>, request: &BindTurn) -> Outcome<()> {
    let settled = tx.db.execute_cached(
        "UPDATE deliveries SET turn = 'bound' WHERE message_id = ?1 AND turn = 'doubtful'",
        [request.message_id.as_str()],
    )?;
    if settled > 0 {
        return Ok(());
    }
    let state = if request.prompt_id.is_some() { "bound" } else { "folded" };
    let changed = tx.db.execute_cached(
        "UPDATE deliveries SET turn = ?2 WHERE message_id = ?1 AND turn = 'unbound'",
        [request.message_id.as_str(), state],
    )?;
    match &request.prompt_id {
        Some(prompt_id) if changed > 0 => claim_turn(tx, &request.agent, prompt_id, &request.message_id),
        None if changed > 0 => {
            task::delivery_cancelled(tx, &request.message_id, "its prompt became part of another turn")
        }
        _ => Ok(()),
    }
}

/// Gives a turn its message, and posts the answer that was waiting for it.
fn claim_turn(tx: &mut Tx<'_>, agent: &AgentName, prompt_id: &str, message_id: &MessageId) -> Outcome<()> {
    match turn::find(tx.db, agent, prompt_id)? {
        None => turn::begin(tx, agent, prompt_id, Some(message_id)),
        Some(found) if found.message_id.is_none() => {
            tx.db.execute_cached(
                "UPDATE turns SET message_id = ?3 WHERE agent = ?1 AND prompt_id = ?2",
                [agent.as_str(), prompt_id, message_id.as_str()],
            )?;
            let answer: Option<String> = tx.db.query_row_cached(
                "SELECT answer FROM turns WHERE agent = ?1 AND prompt_id = ?2",
                [agent.as_str(), prompt_id],
                |row| row.get(0),
            )?;
            match answer {
                Some(text) if !found.posted => turn::reply(tx, agent, prompt_id, message_id, &text),
                _ => Ok(()),
            }
        }
        Some(_) => Ok(()),
    }
}

/// Ends a turn that was interrupted, which no hook says.
pub(crate) fn interrupted(tx: &mut Tx<'_>, tmux_socket: &str, request: &TurnInterrupted) -> Outcome<()> {
    let record = agent::load(tx.db, tmux_socket, &request.agent)?;
    agent::must_be_current(&record, &request.launch)?;
    turn::end(tx, &request.agent, &request.prompt_id, TurnState::Interrupted)?;
    agent::set_activity(tx, tmux_socket, &request.agent, leo_ipc::agent::Activity::Idle)
}

#[cfg(test)]
mod tests {
    use crate::tests::{a, bed, stop, submit};
    use leo_ipc::{
        agent::{Activity, GetAgent},
        chat::{FailedReason, MessageState, RetryMessage},
        delivery::{BindTurn, OpenTurns, PromptRefused, Started},
    };

    #[tokio::test]
    async fn a_refused_prompt_was_not_delivered() {
        let bed = bed().await;
        let sent = bed.send("poison", None).await.unwrap().message.id;
        bed.hand_over().await;
        bed.hook("t1", submit("p1", "[Leo Chat] poison")).await.unwrap();
        assert_eq!(bed.message(&sent).await.state, MessageState::Delivered);
        let turns = bed.ask(OpenTurns { agent: a() }).await.unwrap();
        let Some(Started { message_id, prompt, .. }) = turns.running_message else { panic!("no message") };
        assert_eq!((message_id, prompt.as_str()), (sent.clone(), "[Leo Chat] poison"));

        let refused = PromptRefused {
            agent: a(),
            launch: "l1".into(),
            message_id: sent.clone(),
            prompt_id: turns.running,
            why: "not here".into(),
        };
        for _ in 0..2 {
            bed.ask(refused.clone()).await.unwrap();
        }
        let message = bed.message(&sent).await;
        assert_eq!(
            (message.state, message.failed_reason),
            (MessageState::Failed, Some(FailedReason::Transport))
        );
        let notes = bed.thread().await.into_iter().filter(|m| m.text.contains("not here")).count();
        assert_eq!(notes, 1, "said once");
        assert_eq!(bed.ask(OpenTurns { agent: a() }).await.unwrap().running, None);
        assert_eq!(bed.ask(GetAgent { name: a() }).await.unwrap().agent.activity, Activity::Idle);

        let retry = RetryMessage { agent: a(), id: sent.clone(), as_file: false, key: "r1".into() };
        assert_eq!(bed.ask(retry).await.unwrap().state, MessageState::Pending);
        let stale = PromptRefused { launch: "l0".into(), ..refused };
        assert_eq!(bed.ask(stale).await.unwrap_err().code, "stale_launch");
    }

    /// The agent's task may ask for the next message before the mail about this one's turn reaches it.
    #[tokio::test]
    async fn who_asks_for_the_next_message_hears_of_a_turn_that_began() {
        let bed = bed().await;
        bed.send("one", None).await.unwrap();
        bed.send("two", None).await.unwrap();
        bed.hand_over().await;
        assert!(!bed.next().await.turn_runs);
        bed.hook("t1", submit("p1", "[Leo Chat] one")).await.unwrap();
        let next = bed.next().await;
        assert!(next.turn_runs && next.delivery.is_some());
        bed.hook("t1", stop("p1", "done")).await.unwrap();
        assert!(!bed.next().await.turn_runs);
    }

    /// Its refusal was once never looked for, since the next message's turn was already running.
    #[tokio::test]
    async fn a_turn_that_the_next_one_cut_off_is_looked_into() {
        let bed = bed().await;
        let mut ids = Vec::new();
        for (text, prompt_id) in [("poison", "p1"), ("real", "p2"), ("last", "p3")] {
            ids.push(bed.send(text, None).await.unwrap().message.id);
            bed.hand_over().await;
            bed.hook("t1", submit(prompt_id, &format!("[Leo Chat] {text}"))).await.unwrap();
        }
        let doubtful = || async {
            let turns = bed.ask(OpenTurns { agent: a() }).await.unwrap();
            assert_eq!(turns.running.as_deref(), Some("p3"));
            turns.doubtful.into_iter().map(|d| d.message_id).collect::<Vec<_>>()
        };
        assert_eq!(doubtful().await, ids[..2]);
        let why = "not here".to_owned();
        let refused = PromptRefused {
            agent: a(),
            launch: "l1".into(),
            message_id: ids[0].clone(),
            prompt_id: None,
            why,
        };
        bed.ask(refused).await.unwrap();
        assert_eq!(bed.message(&ids[0]).await.state, MessageState::Failed);
        assert_eq!(doubtful().await, ids[1..2]);
        bed.ask(BindTurn { agent: a(), message_id: ids[1].clone(), prompt_id: None }).await.unwrap();
        assert!(doubtful().await.is_empty());
        assert_eq!(bed.message(&ids[1]).await.state, MessageState::Delivered);
        // Its answer comes all the same.
        bed.hook("t1", stop("p2", "an answer")).await.unwrap();
        assert!(bed.thread().await.iter().any(|m| m.text == "an answer"));
    }
}
