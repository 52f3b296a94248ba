//! Cards of failed runs (seed 001, "Task failure cards"). Failures that follow one another are one card
//! with a count, so that a task that fails all night wakes nobody twice; the next success adds one line.

use super::{find, owner_of};
use crate::{
    agent,
    error::Outcome,
    message::{self, New},
    statements::Cached,
    writer::Tx,
};
use jiff::tz::TimeZone;
use leo_ipc::{
    AgentName, MessageId, TaskName, Time,
    chat::{Direction, MessageKind, MessageState},
    config::Config,
    task::{MAX_CARD_ERROR, ReportTaskFailure, RunState, TaskFailureCard, TaskRun, Trigger},
};
use rusqlite::OptionalExtension;

/// What is known of a task's failures.
struct Streak {
    failures: u32,
    card: Option<MessageId>,
    since: Option<Time>,
}

/// Draws the consequences of a run's end.
pub(super) fn outcome(tx: &mut Tx<'_>, config: &Config, run: &TaskRun) -> Outcome<()> {
    match run.state {
        RunState::Succeeded => recovered(tx, config, run),
        // A persistent task's prompt runs inside its agent, whose thread shows it.
        RunState::Failed if run.message_id.is_none() => {
            let count = count(tx, &run.task)?;
            let wanted = config.tasks.get(&run.task).is_some_and(|task| task.notify_on_fail);
            if wanted && config.chat.enabled {
                let failed = ReportTaskFailure {
                    task: run.task.clone(),
                    run_id: run.id.clone(),
                    attempts: run.attempts,
                    error: run.error.clone().unwrap_or_default(),
                    log_path: run.log_path.clone().unwrap_or_default(),
                };
                if let Err(refusal) = post(tx, config, &failed, count) {
                    // The run's end must be recorded all the same.
                    tracing::warn!(task = %run.task, reason = ?refusal, "no thread for a failure card");
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Counts a failure and says how many there are in a row.
fn count(tx: &Tx<'_>, task: &TaskName) -> Outcome<u32> {
    tx.db.execute_cached(
        "INSERT INTO tasks (name, failures) VALUES (?1, 1) ON CONFLICT (name) DO UPDATE SET failures = failures + 1",
        [task.as_str()],
    )?;
    Ok(streak(tx, task)?.failures)
}

fn streak(tx: &Tx<'_>, task: &TaskName) -> Outcome<Streak> {
    let found = tx
        .db
        .query_row_cached(
            "SELECT failures, card, card_at FROM tasks WHERE name = ?1",
            [task.as_str()],
            |row| {
                Ok(Streak {
                    failures: row.get(0)?,
                    card: row.get::<_, Option<String>>(1)?.map(MessageId),
                    since: row.get::<_, Option<i64>>(2)?.map(Time::from_millis),
                })
            },
        )
        .optional()?;
    Ok(found.unwrap_or(Streak { failures: 0, card: None, since: None }))
}

/// Posts the card of a failure, or brings the one of the failures before it up to date.
fn post(
    tx: &mut Tx<'_>,
    config: &Config,
    failed: &ReportTaskFailure,
    count: u32,
) -> Outcome<TaskFailureCard> {
    let owner = owner_of(tx, config, &failed.task)?;
    let streak = streak(tx, &failed.task)?;
    // A card in another thread belongs to an owner of before.
    let known = match &streak.card {
        Some(id) => message::find(tx.db, &owner, id).ok(),
        None => None,
    };
    if let Some(card) = known {
        let text = text(failed, count, streak.since.unwrap_or(card.ts), &TimeZone::system());
        tx.db.execute_cached(
            "UPDATE messages SET text = ?2, run_id = ?3 WHERE id = ?1",
            [card.id.as_str(), &text, &failed.run_id],
        )?;
        message::emit_changed(tx, &card.id, "text")?;
        return Ok(TaskFailureCard { id: card.id, agent: owner });
    }
    let dedupe = format!("task-failure:{}", failed.run_id);
    let text = text(failed, count, tx.now, &TimeZone::system());
    let id = say(tx, &owner, &failed.task, &failed.run_id, &text, &dedupe)?;
    tx.db.execute_cached(
        "UPDATE tasks SET card = ?2, card_at = ?3 WHERE name = ?1",
        rusqlite::params![failed.task.as_str(), id.as_str(), tx.now.millis()],
    )?;
    Ok(TaskFailureCard { id, agent: owner })
}

fn say(
    tx: &mut Tx<'_>,
    owner: &AgentName,
    task: &TaskName,
    run_id: &str,
    text: &str,
    dedupe: &str,
) -> Outcome<MessageId> {
    let new = New {
        agent: owner,
        direction: Direction::Out,
        kind: MessageKind::Task,
        text,
        state: MessageState::None,
        reply_to: None,
        client_msg_id: None,
        dedupe: Some(dedupe),
    };
    let id = message::insert(tx, &new)?;
    super::file(tx, &id, task.as_str(), run_id)?;
    message::emit_new(tx, &id)?;
    Ok(id)
}

fn recovered(tx: &mut Tx<'_>, config: &Config, run: &TaskRun) -> Outcome<()> {
    let streak = streak(tx, &run.task)?;
    if streak.failures == 0 && streak.card.is_none() {
        return Ok(());
    }
    tx.db.execute_cached(
        "UPDATE tasks SET failures = 0, card = NULL, card_at = NULL WHERE name = ?1",
        [run.task.as_str()],
    )?;
    let Some(card) = &streak.card else { return Ok(()) };
    if !config.chat.enabled {
        return Ok(());
    }
    // Where the card is, whoever owns the task by now.
    let Ok(card) = message::load(tx.db, card) else { return Ok(()) };
    if agent::must_exist(tx.db, &card.agent).is_err() {
        return Ok(());
    }
    let times =
        if streak.failures == 1 { "1 failure".to_owned() } else { format!("{} failures", streak.failures) };
    let text = format!("Task {} succeeded again after {times}.", run.task);
    say(tx, &card.agent, &run.task, &run.id, &text, &format!("task-recovered:{}", run.id))?;
    Ok(())
}

/// The request `POST /chat/task-failure`: a failed run that somebody else has held. The same run is
/// counted once.
pub(crate) fn report(
    tx: &mut Tx<'_>,
    config: &Config,
    request: &ReportTaskFailure,
) -> Outcome<TaskFailureCard> {
    let fresh = match find(tx.db, &request.run_id)? {
        Some(run) => !run.state.is_over(),
        None => true,
    };
    if !fresh {
        // Recorded before, with its card if it got one.
        if let Some(id) = streak(tx, &request.task)?.card
            && let Ok(card) = message::load(tx.db, &id)
        {
            return Ok(TaskFailureCard { id, agent: card.agent });
        }
        let owner = owner_of(tx, config, &request.task)?;
        let dedupe = format!("task-failure:{}", request.run_id);
        if let Some(id) = message::by_dedupe(tx.db, &owner, &dedupe)? {
            return Ok(TaskFailureCard { id, agent: owner });
        }
        let count = streak(tx, &request.task)?.failures.max(1);
        return post(tx, config, request, count);
    }
    tx.db.execute_cached(
        "INSERT INTO runs (id, task, trigger, state, ended_at, attempts, error, log_path)
         VALUES (?1, ?2, ?3, 'failed', ?4, ?5, ?6, ?7)
         ON CONFLICT (id) DO UPDATE SET state = 'failed', ended_at = ?4, attempts = ?5, error = ?6, log_path = ?7,
         token_hash = NULL",
        rusqlite::params![
            request.run_id,
            request.task.as_str(),
            message::word(Trigger::Manual),
            tx.now.millis(),
            request.attempts,
            request.error,
            request.log_path,
        ],
    )?;
    super::expire_asks(tx, &request.run_id)?;
    let run = super::load(tx.db, &request.run_id)?;
    tx.emit("task_run_failed", crate::chat::object("run", &run))?;
    tx.tasks_changed();
    let count = count(tx, &request.task)?;
    post(tx, config, request, count)
}

/// The card, in the words of the seed; with more than one failure, how many.
fn text(failed: &ReportTaskFailure, count: u32, since: Time, zone: &TimeZone) -> String {
    let error: String = failed.error.trim().chars().take(MAX_CARD_ERROR).collect();
    let fence = fence(&error);
    let mut text = format!(
        "**Task failed: {}**\nRun `{}` · {} attempt(s)\n{fence}\n{error}\n{fence}\nLog: `{}`",
        failed.task, failed.run_id, failed.attempts, failed.log_path
    );
    if count > 1 {
        let since = since.timestamp().to_zoned_datetime(zone.clone());
        let since = since.strftime("%a %-d %b %Y %H:%M %Z");
        text.push_str(&format!("\nFailed {count} times in a row since {since}."));
    }
    text
}

/// A fence that the text does not contain.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cards_text() {
        let failed = |error: &str| ReportTaskFailure {
            task: "daily-news".parse().unwrap(),
            run_id: "r1".to_owned(),
            attempts: 2,
            error: error.to_owned(),
            log_path: "/l/r1.log".to_owned(),
        };
        let (since, zone) = (Time::from_millis(0), TimeZone::UTC);
        assert_eq!(
            text(&failed("it broke\n"), 1, since, &zone),
            "**Task failed: daily-news**\nRun `r1` · 2 attempt(s)\n```\nit broke\n```\nLog: `/l/r1.log`"
        );
        let long = text(&failed(&"ä".repeat(600)), 1, since, &zone);
        assert_eq!(long.matches('ä').count(), 500, "the first 500 characters of the error");
        let again = text(&failed("x"), 20, since, &zone);
        assert!(again.ends_with("\nFailed 20 times in a row since Thu 1 Jan 1970 00:00 UTC."), "{again}");
        let fenced = text(&failed("a ```` b"), 1, since, &zone);
        assert!(fenced.contains("\n`````\na ```` b\n`````\n"), "{fenced}");
    }
}
