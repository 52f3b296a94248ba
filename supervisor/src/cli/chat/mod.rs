//! `leo chat`: one message and its reply, or the screen.
//!
//! What the screen shows and does is pure (`state`, `keys`, `layout`, `view`, `composer`, `log`, `cards`,
//! `card_view`); only `screen` and `once` talk to the terminal and the daemon.

#[cfg(test)]
mod card_tests;
mod card_view;
mod cards;
mod composer;
mod events;
#[cfg(test)]
mod file_tests;
mod files;
mod keys;
mod layout;
mod log;
mod once;
mod plain;
mod reminders;
mod screen;
mod state;
#[cfg(test)]
mod tests;
mod view;
mod words;

use super::{api::Api, failure::Failure, out};
use clap::Args;
use leo_ipc::{AgentName, ExitCode, chat::MAX_TEXT, event::State, paths::Home};
use std::{
    io::{IsTerminal, Read},
    path::PathBuf,
};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The agent; `assistant`, or the only one, unless given.
    agent: Option<AgentName>,
    /// What to say. Without it, standard input when that is no terminal, else the chat screen opens.
    text: Vec<String>,
    /// A file to send with the text, or without one; may be given several times.
    #[arg(long = "file", short, value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Do not wait for the delivery and the reply.
    #[arg(long)]
    no_wait: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) async fn run(home: &Home, arguments: Arguments) -> Result<ExitCode, Failure> {
    let text = what_to_say(&arguments.text, !arguments.files.is_empty())?;
    let api = Api::new(home);
    let snapshot: State = api.get("/api/v1/state").await?;
    let agent = choose(arguments.agent, &snapshot)?;
    match text {
        Some(text) => {
            let how = once::How { wait: !arguments.no_wait, json: arguments.json };
            let said = once::Outgoing { text, files: arguments.files };
            once::run(&api, home, agent, said, &snapshot, how).await
        }
        None if arguments.json || arguments.no_wait => {
            Err(Failure::new(ExitCode::Usage, "--json and --no-wait need a text: leo chat AGENT TEXT"))
        }
        None if !out::is_interactive() => Err(Failure::new(
            ExitCode::Usage,
            "the chat screen needs a terminal; to send one message: leo chat AGENT TEXT",
        )),
        None => screen::run(api, home, agent, snapshot).await,
    }
}

/// The text of the command line, else of a standard input that is no terminal.
fn what_to_say(words: &[String], with_files: bool) -> Result<Option<String>, Failure> {
    let usage = |message: &str| Failure::new(ExitCode::Usage, message);
    // Files need no words, and standard input may be anything where nobody thinks of it.
    let text = if words.is_empty() && with_files {
        return Ok(Some(String::new()));
    } else if words.is_empty() && !std::io::stdin().is_terminal() {
        let mut bytes = Vec::new();
        let most = u64::try_from(MAX_TEXT + 1).unwrap_or(u64::MAX);
        let read = std::io::stdin().lock().take(most).read_to_end(&mut bytes);
        read.map_err(|e| Failure::new(ExitCode::Failure, format!("standard input cannot be read: {e}")))?;
        if bytes.len() > MAX_TEXT {
            return Err(usage("standard input is longer than a message may be (256 KiB)"));
        }
        let text = String::from_utf8(bytes).map_err(|_| usage("standard input is not UTF-8 text"))?;
        text.trim_end().to_owned()
    } else if words.is_empty() {
        return Ok(None);
    } else {
        words.join(" ")
    };
    if text.trim().is_empty() {
        Err(usage("there is nothing to say: the text is empty"))
    } else {
        Ok(Some(text))
    }
}

/// The agent that is meant.
fn choose(given: Option<AgentName>, snapshot: &State) -> Result<AgentName, Failure> {
    let mut names: Vec<&AgentName> = snapshot.agents.iter().map(|agent| &agent.name).collect();
    if let Some(given) = given {
        // The thread of a removed agent can still be read.
        names.extend(snapshot.threads.iter().map(|thread| &thread.agent));
        if names.contains(&&given) {
            return Ok(given);
        }
        names.sort();
        names.dedup();
        let there_are =
            if names.is_empty() { String::new() } else { format!("; there are: {}", list(&names)) };
        return Err(Failure::new(ExitCode::Failure, format!("there is no agent {given}{there_are}")));
    }
    match names.as_slice() {
        [] => Err(Failure::new(ExitCode::Failure, "there is no agent yet: `leo agent add` makes one")),
        [only] => Ok((*only).clone()),
        many => match many.iter().find(|name| name.as_str() == "assistant") {
            Some(assistant) => Ok((*assistant).clone()),
            None => Err(Failure::new(ExitCode::Usage, format!("say which agent: {}", list(many)))),
        },
    }
}

fn list(names: &[&AgentName]) -> String {
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}
