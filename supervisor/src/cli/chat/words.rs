//! What states are called in the terminal. Pure.

use super::plain::{clean, clean_line};
use leo_ipc::{
    agent::{Activity, Agent, Status},
    ask::ClosedReason,
    chat::{Direction, FailedReason, Message, MessageState, WaitingFor},
};

/// Who said it, where that is neither the agent nor left open: a person, an API client, which speaks on
/// both sides of the thread, or a task, whose prompt is nobody's message.
pub(super) fn sender(message: &Message) -> Option<String> {
    if let (Direction::In, Some(task)) = (message.direction, &message.task) {
        return Some(format!("task {task}"));
    }
    match message.sender.as_deref() {
        Some("operator") => Some("you".to_owned()),
        Some(sender) => Some(match sender.strip_prefix("client:") {
            Some(client) => format!("{client} (API client)"),
            None => sender.to_owned(),
        }),
        None => (message.direction == Direction::In).then(|| "you".to_owned()),
    }
}

/// How a word is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// Nothing to do.
    Calm,
    /// Something is going on.
    Busy,
    /// A person is needed.
    Alert,
    /// It went wrong.
    Bad,
}

/// Where a message of ours stands; `None` when there is nothing to say.
pub(super) fn standing(message: &Message) -> Option<(Tone, &'static str)> {
    match message.state {
        MessageState::Pending => {
            let waiting = message.delivery.as_ref().and_then(|d| d.waiting_for);
            Some(waiting.map_or((Tone::Busy, "on its way"), waits))
        }
        MessageState::Delivered => Some((Tone::Calm, "delivered")),
        MessageState::Failed => Some(match message.failed_reason {
            Some(FailedReason::Cancelled) => (Tone::Calm, "taken back"),
            reason => (Tone::Bad, failed(reason)),
        }),
        _ => None,
    }
}

/// What a message is in one line: its words, or what it has instead of them.
pub(super) fn gist(message: &Message) -> String {
    let heard = message.transcript.as_deref().filter(|_| message.text.trim().is_empty());
    let said = heard.unwrap_or(&message.text);
    if !said.trim().is_empty() {
        let start: String = said.chars().take(200).collect();
        return clean_line(&start);
    }
    let names: Vec<String> = message.attachments.iter().map(|file| clean_line(&file.filename)).collect();
    names.join(", ")
}

/// What a pending message waits for.
pub(super) fn waits(waiting: WaitingFor) -> (Tone, &'static str) {
    match waiting {
        WaitingFor::Queue => (Tone::Busy, "waits for an earlier message"),
        WaitingFor::Start => (Tone::Busy, "waits for the agent to start"),
        WaitingFor::Turn => (Tone::Busy, "waits for the running turn to end"),
        WaitingFor::Dialog => (Tone::Alert, "waits for a dialog in the agent's terminal to be answered"),
        WaitingFor::Draft => (Tone::Alert, "waits for a draft in the agent's terminal to be sent or cleared"),
        WaitingFor::Person => (Tone::Alert, "waits for you: the agent cannot start alone"),
        WaitingFor::Transcription => (Tone::Busy, "is being transcribed"),
        WaitingFor::Unknown => (Tone::Busy, "waits"),
    }
}

/// Why a message failed.
pub(super) fn failed(reason: Option<FailedReason>) -> &'static str {
    match reason {
        Some(FailedReason::AgentUnreachable) => "failed: the agent could not be started or reached",
        Some(FailedReason::DialogOpen) => "failed: a dialog stayed open in the agent's terminal",
        Some(FailedReason::Timeout) => "failed: it waited too long",
        Some(FailedReason::Unproven) => "unproven: handed over, and it may have been read",
        Some(FailedReason::TooLarge) => "failed: larger than the agent can take",
        Some(FailedReason::Cancelled) => "taken back",
        Some(FailedReason::Transcription) => "failed: it could not be transcribed",
        Some(FailedReason::Transport) => "failed: the way to the agent broke",
        Some(FailedReason::Unknown) | None => "failed",
    }
}

/// What an agent is doing, in a word.
pub(super) fn doing(agent: &Agent) -> (Tone, &'static str) {
    match (agent.status, agent.activity) {
        (Status::Stopped, _) if agent.suspended => (Tone::Calm, "asleep"),
        (Status::Stopped, _) => (Tone::Calm, "stopped"),
        (_, Activity::NeedsInput) => (Tone::Alert, "needs you"),
        (Status::Starting, _) => (Tone::Busy, "starting"),
        (_, Activity::Working) => (Tone::Busy, "working"),
        (_, Activity::Idle) => (Tone::Calm, "idle"),
        (_, Activity::Unknown) => (Tone::Calm, "running"),
    }
}

/// What a person has to do for an agent, if anything.
pub(super) fn needs(agent: &Agent) -> Option<String> {
    if agent.activity != Activity::NeedsInput {
        return None;
    }
    let what = agent.waiting_for.as_deref().filter(|w| !w.is_empty()).unwrap_or("it waits in its terminal");
    let how = format!("leo agent attach {}", agent.name);
    let what = clean_line(what);
    // The sentence may say how by itself.
    Some(if what.contains(&how) { what } else { format!("Needs you: {what} ({how})") })
}

/// Why an ask closed without an answer.
pub(super) fn closed(reason: Option<ClosedReason>, permission: bool) -> &'static str {
    match reason {
        Some(ClosedReason::Timeout) => "expired: nobody answered in time",
        Some(ClosedReason::Withdrawn) => "expired: the agent took it back",
        Some(ClosedReason::AgentGone) => "expired: the agent was stopped or removed",
        Some(ClosedReason::Dismissed) => "dismissed",
        Some(ClosedReason::Unknown) => "expired",
        None if permission => "expired: the agent's terminal has the question now",
        None => "expired",
    }
}

/// What was chosen and written, on one line.
pub(super) fn chosen(labels: &[String], text: &str) -> String {
    let text = clean(text.trim());
    let labels = labels.iter().map(|label| clean_line(label)).collect::<Vec<_>>().join(", ");
    match (labels.is_empty(), text.is_empty()) {
        (true, true) => "(no selection)".to_owned(),
        (false, true) => labels,
        (true, false) => text,
        (false, false) => format!("{labels} · {text}"),
    }
}

/// Who answered, to be put behind what was answered.
pub(super) fn answered_by(message: &Message) -> String {
    let terminal = message.answer.as_ref().is_some_and(|answer| answer.values == ["terminal"]);
    match message.answered_by.as_deref() {
        Some("terminal") => " · in the agent's terminal".to_owned(),
        _ if terminal => " · in the agent's terminal".to_owned(),
        Some("operator") => " · by you, the operator".to_owned(),
        Some(by) => match by.strip_prefix("app:") {
            Some(device) => format!(" · in the app on {}", clean_line(device)),
            None => format!(" · by {}", clean_line(by)),
        },
        None => String::new(),
    }
}

/// How a card ended, for the line about what just happened.
pub(super) fn ended(message: &Message) -> String {
    let by = answered_by(message);
    match (message.state, &message.answer) {
        (MessageState::Answered, Some(answer))
            if answer.values != ["terminal"] && answer.answers.is_none() =>
        {
            let what = chosen(answer.labels.as_ref().unwrap_or(&answer.values), &answer.text);
            format!("answered: {}{by}", what.replace('\n', " "))
        }
        (MessageState::Answered, _) => format!("answered{by}"),
        _ => closed(message.closed_reason, message.permission.is_some()).to_owned(),
    }
}
