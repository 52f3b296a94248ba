//! `leo reminder`

use super::{
    api::{Api, segment},
    failure::Failure,
    out::{self, Paint},
    table::{self, Cell, Column, Tone, plain},
    text,
};
use clap::{Args, Subcommand};
use jiff::{Timestamp, tz::TimeZone};
use leo_ipc::{
    AgentName, ExitCode,
    chat::Threads,
    paths::Home,
    reminder::{CancelledReminder, Reminder, Reminders},
};

/// How much of an id is shown: its end, which is random where its beginning is the time.
const SHOWN: usize = 8;

/// Shortest end of an id that names a reminder.
const LEAST: usize = 4;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List the reminders that have not been posted yet.
    List(List),
    /// Take a reminder back.
    Cancel(Cancel),
}

#[derive(Args)]
pub(crate) struct List {
    /// Only those of this agent's thread.
    agent: Option<AgentName>,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Cancel {
    /// Its id, or the end of it that `leo reminder list` shows.
    id: String,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) async fn run(home: &Home, verb: Verb) -> Result<ExitCode, Failure> {
    let api = Api::new(home);
    match verb {
        Verb::List(List { agent, json }) => {
            let reminders = open(&api, agent).await?;
            if json {
                out::json(&Reminders { reminders });
            } else if reminders.is_empty() {
                out::line("No reminders. An agent leaves one when you ask it to remind you.");
            } else {
                let lines = render(&reminders, &TimeZone::system(), out::width(), Paint::stdout());
                lines.iter().for_each(|line| out::line(line));
            }
        }
        Verb::Cancel(Cancel { id, json }) => {
            let reminders = open(&api, None).await?;
            let reminder = pick(&reminders, &id)?;
            let path = format!("{}/{}", path(&reminder.agent), segment(reminder.id.as_str()));
            let done: CancelledReminder = api.delete(&path).await?;
            if json {
                out::json(&done);
            } else {
                let what = text::cut(&first_line(&reminder.text), 60);
                out::line(&format!("{} will not remind you: {what}", reminder.agent));
            }
        }
    }
    Ok(ExitCode::Ok)
}

fn path(agent: &AgentName) -> String {
    format!("/api/v1/chat/{}/reminders", segment(agent.as_str()))
}

/// The open reminders of one thread or of all, the next one first.
async fn open(api: &Api, agent: Option<AgentName>) -> Result<Vec<Reminder>, Failure> {
    let threads = match agent {
        Some(agent) => vec![agent],
        None => {
            let all: Threads = api.get("/api/v1/chat/threads").await?;
            all.threads.into_iter().map(|thread| thread.agent).collect()
        }
    };
    let mut reminders = Vec::new();
    for agent in threads {
        reminders.extend(api.get::<Reminders>(&path(&agent)).await?.reminders);
    }
    reminders.sort_by_key(|reminder| (reminder.at.parse::<Timestamp>().ok(), reminder.id.clone()));
    Ok(reminders)
}

/// The one reminder that an id, or its end, names.
fn pick<'a>(reminders: &'a [Reminder], id: &str) -> Result<&'a Reminder, Failure> {
    let named = |reminder: &&Reminder| {
        reminder.id.as_str() == id || (id.len() >= LEAST && reminder.id.as_str().ends_with(id))
    };
    let mut found = reminders.iter().filter(named);
    match (found.next(), found.next()) {
        (Some(reminder), None) => Ok(reminder),
        (Some(_), Some(_)) => {
            let what =
                format!("more than one reminder ends with `{}`: give more of its id", text::visible(id));
            Err(Failure::new(ExitCode::Usage, what))
        }
        (None, _) => {
            let what = format!(
                "no open reminder has the id `{}`: see them with `leo reminder list`",
                text::visible(id)
            );
            Err(Failure::new(ExitCode::Failure, what))
        }
    }
}

fn first_line(text: &str) -> String {
    text::visible(text.trim().lines().next().unwrap_or_default())
}

fn render(reminders: &[Reminder], zone: &TimeZone, width: usize, paint: Paint) -> Vec<String> {
    let head =
        [Column::text("WHEN"), Column::text("ID"), Column::flexible("AGENT"), Column::flexible("REMINDER")];
    let rows: Vec<Vec<Cell>> = reminders.iter().map(|reminder| row(reminder, zone)).collect();
    table::render(&head, &rows, width, paint)
}

fn row(reminder: &Reminder, zone: &TimeZone) -> Vec<Cell> {
    let id = reminder.id.as_str();
    vec![
        (when(&reminder.at, zone), Tone::Bold),
        (id.get(id.len().saturating_sub(SHOWN)..).unwrap_or(id).to_owned(), Tone::Dim),
        plain(reminder.agent.to_string()),
        plain(first_line(&reminder.text)),
    ]
}

/// A reminder's time as a person reads it; what is not a time stays as it is.
pub(crate) fn when(at: &str, zone: &TimeZone) -> String {
    at.parse::<Timestamp>().map_or_else(
        |_| text::visible(at),
        |at| at.to_zoned_datetime(zone.clone()).strftime("%a %-d %b %Y %H:%M").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reminder(id: &str, text: &str) -> Reminder {
        let (agent, at) = ("assistant".parse().unwrap(), "2026-10-14T09:00:00-04:00".to_owned());
        Reminder { id: id.into(), agent, text: text.into(), at, task: None, run_id: None }
    }

    #[test]
    fn a_reminder_is_named_by_its_id_or_the_end_of_it() {
        let all = [reminder("019ad2f0-1111", "a"), reminder("019ad2f0-2111", "b")];
        assert_eq!(pick(&all, "019ad2f0-2111").unwrap().text, "b");
        assert_eq!(pick(&all, "1111").unwrap().text, "a");
        for (id, code) in [("111", ExitCode::Failure), ("0-2112", ExitCode::Failure)] {
            assert_eq!(pick(&all, id).unwrap_err().code, code, "{id}");
        }
        let twins = [reminder("a-12345", "a"), reminder("b-12345", "b")];
        assert_eq!(pick(&twins, "12345").unwrap_err().code, ExitCode::Usage);
    }

    #[test]
    fn the_list_shows_when_and_what() {
        let zone = TimeZone::get("America/New_York").unwrap();
        let all = [reminder("019ad2f0-0000-7000-8000-00000000abcd", "**Stand-up**\nwith the team")];
        let lines = render(&all, &zone, 80, Paint::stdout());
        assert_eq!(
            lines,
            [
                "WHEN                   ID        AGENT      REMINDER",
                "Wed 14 Oct 2026 09:00  0000abcd  assistant  **Stand-up**"
            ]
        );
    }
}
