//! One message: sent, its delivery waited for, its reply printed.

use super::{
    plain::clean,
    words::{self, Tone},
};
use crate::cli::{
    api::{Api, Event, Update, UploadError, segment},
    failure::Failure,
    out,
};
use leo_ipc::{
    AgentName, CallKey, EventId, ExitCode, MessageId,
    chat::{Direction, Message, MessageKind, MessagePage, MessageState},
    event::{Resume, State},
    paths::Home,
};
use serde_json::{Value, json};
use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    time::Duration,
};
use tokio::time::Instant;

/// How long the reply may take to follow the end of its turn: they are stored together.
const AFTER_TURN: Duration = Duration::from_secs(3);

/// How long further parts of a long reply may take to follow the first: likewise.
const AFTER_REPLY: Duration = Duration::from_millis(300);

/// How the command was called.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    /// Whether to wait for the reply.
    pub(super) wait: bool,
    /// Whether to print JSON.
    pub(super) json: bool,
}

/// What is sent.
pub(super) struct Outgoing {
    /// The text; may be empty beside files.
    pub(super) text: String,
    /// Files.
    pub(super) files: Vec<PathBuf>,
}

/// Sends a text and prints what comes back.
pub(super) async fn run(
    api: &Api,
    home: &Home,
    agent: AgentName,
    said: Outgoing,
    snapshot: &State,
    how: How,
) -> Result<ExitCode, Failure> {
    // Listening begins before sending, so that nothing falls in between.
    let since = EventId { epoch: snapshot.meta.epoch.clone(), seq: snapshot.meta.seq };
    let own_id = CallKey::fresh().0;
    let path = format!("/api/v1/chat/{}/messages", segment(agent.as_str()));
    let mut attachments = Vec::new();
    for file in &said.files {
        let uploaded = api.upload(&agent, file).await;
        attachments.push(uploaded.map_err(|e| Failure::new(upload_code(&e), e.to_string()))?.id);
    }
    let body = json!({ "text": said.text, "attachments": attachments, "client_msg_id": own_id });
    let sent: Message = api.post(&path, &body).await?;
    if !how.wait {
        if how.json {
            out::json(&json!({ "message": sent }));
        } else {
            out::line(sent.id.as_str());
        }
        return Ok(ExitCode::Ok);
    }
    let mut waiter = Waiter::new(sent);
    let ended = follow(api, &path, since, &mut waiter, |said| show(home, how, said)).await?;
    if how.json {
        out::json(&json!({ "message": waiter.message, "replies": waiter.replies }));
    }
    match ended {
        End::Replied => Ok(ExitCode::Ok),
        End::Silent => {
            aside("the turn ended without a reply");
            Ok(ExitCode::Ok)
        }
        End::Broken(how) => Err(Failure::new(ExitCode::Failure, format!("the turn {how}"))),
        End::Failed(why) => Err(Failure::new(ExitCode::Failure, why)),
    }
}

/// A file that is not there is the caller's mistake; anything else is the daemon's state.
fn upload_code(error: &UploadError) -> ExitCode {
    match error {
        UploadError::Api { source, .. } => source.exit_code(),
        _ => ExitCode::Failure,
    }
}

async fn follow(
    api: &Api,
    path: &str,
    since: EventId,
    waiter: &mut Waiter,
    mut show: impl FnMut(Said),
) -> Result<End, Failure> {
    let mut events = api.events(Some(since));
    let mut deadline: Option<Instant> = None;
    loop {
        let update = match deadline {
            None => events.next().await,
            Some(at) => match tokio::time::timeout_at(at, events.next()).await {
                Ok(update) => update,
                Err(_) => return Ok(waiter.end()),
            },
        };
        let mut said = Vec::new();
        match update {
            Update::Event(event) => said.extend(waiter.take(&event)),
            Update::Connected(hello) if hello.resume != Resume::Ok => {
                let id = segment(waiter.message.id.as_str());
                let message: Message = api.get(&format!("{path}/{id}")).await?;
                let page: MessagePage = api.get(&format!("{path}?after={id}&limit=200")).await?;
                said.extend(waiter.message_came(message));
                for message in page.messages {
                    said.extend(waiter.message_came(message));
                }
            }
            Update::Connected(_) => {}
            // It comes back by itself; a daemon that was stopped may be started again.
            Update::Lost(error) => said.push(Said::Aside(format!("reconnecting: {error}"))),
        }
        said.into_iter().for_each(&mut show);
        match waiter.phase {
            Phase::Waiting => deadline = None,
            Phase::TurnOver => deadline = deadline.or_else(|| Some(Instant::now() + AFTER_TURN)),
            // The note that says why is stored together with the failure.
            Phase::Replied | Phase::Failed => deadline = Some(Instant::now() + AFTER_REPLY),
        }
    }
}

/// How it ended.
enum End {
    /// With a reply.
    Replied,
    /// The turn is over and said nothing.
    Silent,
    /// The turn did not come to its own end; how.
    Broken(&'static str),
    /// The message did not arrive.
    Failed(String),
}

/// Something for the person.
#[derive(Debug, Clone, PartialEq)]
enum Said {
    /// The agent said something.
    Reply(Box<Message>),
    /// What is going on.
    Aside(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    TurnOver,
    Replied,
    Failed,
}

/// Watches one message. Pure.
struct Waiter {
    message: Message,
    replies: Vec<Message>,
    /// Questions and prompts that the person was told of and that are open.
    asked: Vec<MessageId>,
    phase: Phase,
    problem: String,
    last_standing: String,
    /// The turn that began last; the message's, when it is delivered.
    newest_turn: Option<String>,
    own_turn: Option<String>,
    /// How its turn ended, when not by itself.
    broken: Option<&'static str>,
}

impl Waiter {
    fn new(message: Message) -> Waiter {
        Waiter {
            message,
            replies: Vec::new(),
            asked: Vec::new(),
            phase: Phase::Waiting,
            problem: String::new(),
            last_standing: String::new(),
            newest_turn: None,
            own_turn: None,
            broken: None,
        }
    }

    /// How it ended, once nothing more is to come.
    fn end(&self) -> End {
        if self.phase == Phase::Failed {
            return End::Failed(self.problem.clone());
        }
        match (self.broken, self.replies.is_empty()) {
            (Some(how), _) => End::Broken(how),
            (None, true) => End::Silent,
            (None, false) => End::Replied,
        }
    }

    fn take(&mut self, event: &Event) -> Option<Said> {
        let data = &event.data;
        match event.kind.as_str() {
            "chat.message" | "chat.updated" => {
                let message = serde_json::from_value(data["message"].clone()).ok()?;
                self.message_came(message)
            }
            "agent_turn_started" if self.is_ours(data) => {
                self.newest_turn = data["turn"]["id"].as_str().map(str::to_owned);
                None
            }
            "agent_turn_completed" if self.is_ours(data) => {
                let ended = data["turn"]["id"].as_str();
                let own = self.own_turn.is_none() || self.own_turn.as_deref() == ended;
                if self.is_delivered() && own && self.phase == Phase::Waiting {
                    self.phase = if self.replies.is_empty() { Phase::TurnOver } else { Phase::Replied };
                    self.broken = match data["turn"]["state"].as_str() {
                        Some("failed") => Some("failed"),
                        Some("interrupted") => Some("was interrupted"),
                        _ => None,
                    };
                }
                None
            }
            _ => None,
        }
    }

    fn is_ours(&self, data: &Value) -> bool {
        data["agent"].as_str() == Some(self.message.agent.as_str())
    }

    fn is_delivered(&self) -> bool {
        self.message.state == MessageState::Delivered
    }

    fn message_came(&mut self, message: Message) -> Option<Said> {
        if message.agent != self.message.agent {
            return None;
        }
        if message.id == self.message.id {
            return self.own_changed(message);
        }
        if message.direction == Direction::In || message.id < self.message.id {
            return None;
        }
        if message.kind == MessageKind::System {
            return Some(Said::Aside(message.text));
        }
        if matches!(message.kind, MessageKind::Ask | MessageKind::Permission) {
            return self.card_came(&message);
        }
        if !self.is_delivered() || self.has(&message.id) {
            return None;
        }
        if message.reply_to.as_ref() == Some(&self.message.id) {
            self.phase = Phase::Replied;
        }
        self.replies.push(message.clone());
        Some(Said::Reply(Box::new(message)))
    }

    /// A question is no reply: the turn waits for a person, who has to know where to answer.
    fn card_came(&mut self, message: &Message) -> Option<Said> {
        let known = self.asked.iter().position(|id| *id == message.id);
        match (message.state == MessageState::Open, known) {
            (true, None) => {
                self.asked.push(message.id.clone());
                let does = if message.permission.is_some() { "wants permission" } else { "asks" };
                let (agent, text) = (&message.agent, &message.text);
                Some(Said::Aside(format!(
                    "{agent} {does}: {text} (answer in `leo chat {agent}` or on the page)"
                )))
            }
            (false, Some(at)) => {
                self.asked.swap_remove(at);
                Some(Said::Aside(words::ended(message)))
            }
            _ => None,
        }
    }

    fn has(&self, id: &MessageId) -> bool {
        self.replies.iter().any(|reply| reply.id == *id)
    }

    fn own_changed(&mut self, message: Message) -> Option<Said> {
        let newly_delivered = message.state == MessageState::Delivered && !self.is_delivered();
        self.message = message;
        if newly_delivered {
            self.own_turn = self.newest_turn.clone();
        }
        let (tone, text) = words::standing(&self.message)?;
        if self.message.state == MessageState::Failed {
            self.phase = Phase::Failed;
            self.problem = format!("{text}; the message is {}", self.message.id);
            return None;
        }
        let news = self.message.state == MessageState::Pending && text != self.last_standing;
        text.clone_into(&mut self.last_standing);
        // "On its way" is what everybody expects.
        let worth =
            tone == Tone::Alert || self.message.delivery.as_ref().is_some_and(|d| d.waiting_for.is_some());
        (news && worth).then(|| Said::Aside(text.to_owned()))
    }
}

fn show(home: &Home, how: How, said: Said) {
    match said {
        Said::Reply(message) if !how.json => {
            // A pipe gets the text as it is; a terminal must not be acted on.
            let safe = |text: &str| {
                if std::io::stdout().is_terminal() { clean(text) } else { text.to_owned() }
            };
            if !message.text.is_empty() {
                out::line(safe(&message.text).trim_end());
            }
            for file in &message.attachments {
                let path = home.attachment_file(&message.agent, &file.id, &file.filename);
                out::line(&safe(&path.display().to_string()));
            }
        }
        Said::Reply(_) => {}
        Said::Aside(text) => aside(&text),
    }
}

/// Says something beside the reply, which is what standard output is for.
fn aside(text: &str) {
    let mut err = std::io::stderr().lock();
    let text = clean(text);
    let dim = err.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    // Nobody reads it: then it does not matter.
    let _ = if dim { writeln!(err, "\u{1b}[2m{text}\u{1b}[0m") } else { writeln!(err, "{text}") };
}

#[cfg(test)]
mod tests {
    use super::{super::tests::message, *};
    use leo_ipc::chat::{DeliveryInfo, FailedReason, WaitingFor};

    fn chat(kind: &str, message: &Message) -> Event {
        let data = json!({ "agent": message.agent, "message": message });
        Event { id: "e:1".parse().unwrap(), kind: kind.into(), data }
    }

    fn turn(kind: &str, id: &str) -> Event {
        let data = json!({ "agent": "assistant", "turn": { "id": id, "state": "running" } });
        Event { id: "e:1".parse().unwrap(), kind: kind.into(), data }
    }

    fn with_state(message: &Message, state: MessageState) -> Message {
        Message { state, ..message.clone() }
    }

    #[test]
    fn waits_for_the_reply_of_its_own_turn() {
        let own = message("m5", Direction::In, "hi");
        let mut waiter = Waiter::new(with_state(&own, MessageState::Pending));
        let delivery =
            DeliveryInfo { route: None, attempts: 0, at: None, waiting_for: Some(WaitingFor::Turn) };
        let waiting = Message { delivery: Some(delivery), ..with_state(&own, MessageState::Pending) };
        let said = waiter.take(&chat("chat.updated", &waiting));
        assert_eq!(said, Some(Said::Aside("waits for the running turn to end".into())));
        assert_eq!(waiter.take(&chat("chat.updated", &waiting)), None);

        // The turn before ours ends, with its reply.
        let other = message("m6", Direction::Out, "the one before");
        assert_eq!(waiter.take(&chat("chat.message", &other)), None);
        waiter.take(&turn("agent_turn_completed", "t1"));
        assert_eq!(waiter.phase, Phase::Waiting);

        waiter.take(&turn("agent_turn_started", "t2"));
        waiter.take(&chat("chat.updated", &with_state(&own, MessageState::Delivered)));
        let note = Message { kind: MessageKind::System, ..message("m7", Direction::Out, "note") };
        assert_eq!(waiter.take(&chat("chat.message", &note)), Some(Said::Aside("note".into())));
        waiter.take(&turn("agent_turn_completed", "t2"));
        assert_eq!(waiter.phase, Phase::TurnOver);
        let reply = Message { reply_to: Some(own.id), ..message("m8", Direction::Out, "hello") };
        assert_eq!(waiter.take(&chat("chat.message", &reply)), Some(Said::Reply(Box::new(reply.clone()))));
        assert_eq!(waiter.take(&chat("chat.message", &reply)), None);
        assert_eq!(waiter.phase, Phase::Replied);
    }

    #[test]
    fn what_the_agent_posts_itself_is_the_reply() {
        let own = message("m5", Direction::In, "hi");
        let mut waiter = Waiter::new(with_state(&own, MessageState::Delivered));
        waiter.take(&chat("chat.message", &message("m6", Direction::Out, "posted")));
        assert_eq!(waiter.phase, Phase::Waiting, "more may follow while the turn runs");
        waiter.take(&turn("agent_turn_completed", "t"));
        assert_eq!(waiter.phase, Phase::Replied);
    }

    #[test]
    fn a_question_is_told_once_and_is_no_reply() {
        let own = message("m5", Direction::In, "hi");
        let mut waiter = Waiter::new(with_state(&own, MessageState::Delivered));
        let card = Message { kind: MessageKind::Ask, ..message("m6", Direction::Out, "Ship it?") };
        let open = with_state(&card, MessageState::Open);
        let told = "assistant asks: Ship it? (answer in `leo chat assistant` or on the page)";
        assert_eq!(waiter.take(&chat("chat.message", &open)), Some(Said::Aside(told.into())));
        assert_eq!(waiter.take(&chat("chat.updated", &open)), None);
        let answered_by = Some("app:phone".to_owned());
        let settled = Message { answered_by, ..with_state(&card, MessageState::Answered) };
        let ended = Said::Aside("answered · in the app on phone".into());
        assert_eq!(waiter.take(&chat("chat.updated", &settled)), Some(ended));
        assert_eq!(waiter.take(&chat("chat.updated", &settled)), None);
        assert!(waiter.replies.is_empty() && waiter.phase == Phase::Waiting);
    }

    #[test]
    fn a_turn_that_failed_is_no_success() {
        let own = message("m5", Direction::In, "hi");
        let mut waiter = Waiter::new(with_state(&own, MessageState::Delivered));
        let mut ended = turn("agent_turn_completed", "t");
        ended.data["turn"]["state"] = "failed".into();
        waiter.take(&ended);
        assert!(matches!(waiter.end(), End::Broken("failed")));
    }

    #[test]
    fn a_failure_says_why() {
        let own = message("m5", Direction::In, "hi");
        let mut waiter = Waiter::new(with_state(&own, MessageState::Pending));
        let failed =
            Message { failed_reason: Some(FailedReason::Unproven), ..with_state(&own, MessageState::Failed) };
        waiter.take(&chat("chat.updated", &failed));
        assert_eq!(waiter.phase, Phase::Failed);
        assert!(waiter.problem.contains("unproven"), "{}", waiter.problem);
    }
}
