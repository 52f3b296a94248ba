//! The screen's terminal, its calls to the daemon, and the loop between them and the pure part.

use super::{
    log::Problem,
    state::{Action, Event, NotTaken, State, update},
    view,
};
use crate::cli::{
    api::{self, Api, ApiError, Events, Update, UploadError, segment},
    failure::{Failure, chain},
    out,
};
use crossterm::{
    event::{DisableBracketedPaste, EnableBracketedPaste, EventStream},
    execute,
    terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
};
use futures_util::StreamExt;
use jiff::tz::TimeZone;
use leo_ipc::{
    AgentName, CallKey, EventId, ExitCode, MessageId, Time,
    agent::Agent,
    chat::{Message, MessagePage, ReadMark},
    event::State as Snapshot,
    paths::Home,
    reminder::Reminders,
};
use ratatui::{Terminal, backend::CrosstermBackend};
use serde_json::{Value, json};
use std::{
    io::{self, Stdout, Write},
    path::PathBuf,
    sync::Once,
    time::Duration,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

/// Events waiting for the screen. Beyond it their sources wait, which loses nothing.
const INBOX: usize = 256;

/// Messages waiting to be sent, one after the other so that they arrive as they were written. Beyond it
/// the screen waits, which takes more typing than anybody does.
const OUTBOX: usize = 64;

/// Messages of one page.
const PAGE: u32 = 60;

/// How often what depends on the time is drawn, when anything does.
const TICK: Duration = Duration::from_secs(1);

/// Runs the screen until the person leaves.
pub(super) async fn run(
    api: Api,
    home: &Home,
    agent: AgentName,
    snapshot: Snapshot,
) -> Result<ExitCode, Failure> {
    let since = EventId { epoch: snapshot.meta.epoch.clone(), seq: snapshot.meta.seq };
    let attachments = home.state().join("chat").join("attachments");
    let id_prefix = CallKey::fresh().0;
    let state = State::new(agent, snapshot, Time::now(), TimeZone::system(), attachments, id_prefix);
    let result = {
        let mut guard = Guard::enter().map_err(|e| terminal_failure(&e))?;
        Screen::new(api, since, state).run(&mut guard.terminal).await
    };
    let state = result.map_err(|e| terminal_failure(&e))?;
    // What was written and not accepted must not vanish with the screen.
    for (agent, outgoing) in state.not_sent() {
        out::error(&format!("this was not sent to {agent}:"));
        let files = outgoing.files.iter().map(|file| format!(" [{}]", file.display())).collect::<String>();
        out::line(&super::plain::clean(&format!("{}{files}", outgoing.text)));
    }
    let lost = state.not_sent().next().is_some();
    Ok(if lost { ExitCode::Temporary } else { ExitCode::Ok })
}

fn terminal_failure(error: &io::Error) -> Failure {
    Failure::new(ExitCode::Failure, format!("the terminal cannot be used: {error}"))
}

type Term = Terminal<CrosstermBackend<Stdout>>;

/// The terminal in our hands; given back when dropped, and before a panic's message is printed.
struct Guard {
    terminal: Term,
}

impl Guard {
    fn enter() -> io::Result<Guard> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let default = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                give_back();
                default(info);
            }));
        });
        enable_raw_mode()?;
        let entered = execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste)
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match entered {
            Ok(terminal) => Ok(Guard { terminal }),
            Err(e) => {
                give_back();
                Err(e)
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    // Nothing more can be done for a terminal that takes no commands.
    let _ = execute!(io::stdout(), DisableBracketedPaste, LeaveAlternateScreen, crossterm::cursor::Show);
    let _ = disable_raw_mode();
    let _ = io::stdout().flush();
}

/// A message on its way to the daemon.
struct Send {
    agent: AgentName,
    text: String,
    files: Vec<PathBuf>,
    client_msg_id: String,
}

struct Screen {
    api: Api,
    state: State,
    inbox: mpsc::Receiver<Event>,
    events: mpsc::Sender<Event>,
    outbox: mpsc::Sender<Send>,
}

impl Screen {
    fn new(api: Api, since: EventId, state: State) -> Screen {
        let (events, inbox) = mpsc::channel(INBOX);
        let (outbox, sends) = mpsc::channel(OUTBOX);
        tokio::spawn(listen(api.events(Some(since)), events.clone()));
        tokio::spawn(send_all(api.clone(), sends, events.clone()));
        Screen { api, state, inbox, events, outbox }
    }

    async fn run(mut self, terminal: &mut Term) -> io::Result<State> {
        let mut keys = EventStream::new();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut term, mut hang_up) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
        let size = terminal.size()?;
        self.state.size = (size.width, size.height);
        self.perform(Action::Page { agent: self.state.agent.clone(), before: None }).await;
        while !self.state.quit {
            terminal.draw(|frame| {
                let area = frame.area();
                self.state.size = (area.width, area.height);
                view::draw(&self.state, frame);
            })?;
            let event = tokio::select! {
                key = keys.next() => match key {
                    Some(Ok(key)) => from_terminal(key),
                    Some(Err(e)) => return Err(e),
                    None => break,
                },
                event = self.inbox.recv() => event,
                _ = tick.tick(), if self.state.is_timed() => Some(Event::Tick),
                () = either(&mut term, &mut hang_up) => break,
            };
            let Some(event) = event else { continue };
            self.take(event, terminal).await?;
            // Whatever else is there already is drawn with it.
            for _ in 0..INBOX {
                let Ok(event) = self.inbox.try_recv() else { break };
                self.take(event, terminal).await?;
            }
        }
        Ok(self.state)
    }

    async fn take(&mut self, event: Event, terminal: &mut Term) -> io::Result<()> {
        for action in update(&mut self.state, event, Time::now()) {
            match action {
                Action::Redraw => terminal.clear()?,
                action => self.perform(action).await,
            }
        }
        Ok(())
    }

    async fn perform(&self, action: Action) {
        if let Action::Send { agent, text, files, client_msg_id } = action {
            // An error means that the sender ended, which it does only after us.
            let _ = self.outbox.send(Send { agent, text, files, client_msg_id }).await;
            return;
        }
        // Whoever fetches a thread anew fetches its reminders with it.
        if let Action::Page { agent, before: None } = &action {
            self.begin(Action::Reminders(agent.clone()));
        }
        self.begin(action);
    }

    fn begin(&self, action: Action) {
        let (api, events) = (self.api.clone(), self.events.clone());
        tokio::spawn(async move {
            if let Some(event) = ask(&api, action).await {
                let _ = events.send(event).await;
            }
        });
    }
}

async fn either(a: &mut Signal, b: &mut Signal) {
    tokio::select! { _ = a.recv() => {}, _ = b.recv() => {} }
}

fn from_terminal(event: crossterm::event::Event) -> Option<Event> {
    match event {
        crossterm::event::Event::Key(key) => Some(Event::Key(key)),
        crossterm::event::Event::Paste(text) => Some(Event::Paste(text)),
        crossterm::event::Event::Resize(columns, rows) => Some(Event::Resize(columns, rows)),
        _ => None,
    }
}

/// Does what the pure part asked for, and says how it went.
async fn ask(api: &Api, action: Action) -> Option<Event> {
    let thread = |agent: &AgentName| format!("/api/v1/chat/{}", segment(agent.as_str()));
    match action {
        Action::Page { agent, before } => {
            let cursor = before.as_ref().map(|id| format!("&before={}", segment(id.as_str())));
            let path = format!("{}/messages?limit={PAGE}{}", thread(&agent), cursor.unwrap_or_default());
            let page = api.get::<MessagePage>(&path).await.map_err(|e| chain(&e));
            Some(Event::Page { agent, older: before.is_some(), page })
        }
        Action::Snapshot => match api.get::<Snapshot>("/api/v1/state").await {
            Ok(snapshot) => Some(Event::Snapshot(Box::new(snapshot))),
            Err(e) => Some(Event::Done(Err(chain(&e)))),
        },
        Action::Retry(agent, id) => {
            let path = format!("{}/messages/{}/retry", thread(&agent), segment(id.as_str()));
            Some(done(api.post::<_, Value>(&path, &()).await, None))
        }
        Action::AsFile(agent, id) => {
            let path = format!("{}/messages/{}/retry", thread(&agent), segment(id.as_str()));
            Some(done(api.post::<_, Value>(&path, &json!({ "as_file": true })).await, None))
        }
        Action::Cancel(agent, id) => {
            let path = format!("{}/messages/{}/cancel", thread(&agent), segment(id.as_str()));
            Some(done(api.post::<_, Value>(&path, &()).await, None))
        }
        Action::Answer { agent, id, answer, client_msg_id } => {
            let path = format!("{}/messages/{}/answer", thread(&agent), segment(id.as_str()));
            let mut body = json!(answer);
            body["client_msg_id"] = json!(client_msg_id);
            Some(settled(agent, id, api.post(&path, &body).await))
        }
        Action::Dismiss(agent, id) => {
            let path = format!("{}/messages/{}/dismiss", thread(&agent), segment(id.as_str()));
            Some(settled(agent, id, api.post(&path, &()).await))
        }
        Action::Reminders(agent) => {
            // The next change asks again; nothing is lost but a number.
            let list = api.get::<Reminders>(&format!("{}/reminders", thread(&agent))).await.ok()?;
            Some(Event::Reminders(agent, list.reminders))
        }
        Action::CancelReminder(agent, id) => {
            let path = format!("{}/reminders/{}", thread(&agent), segment(id.as_str()));
            Some(done(api.delete::<Value>(&path).await, Some("the reminder was taken back".to_owned())))
        }
        Action::Tell(agent, verb) => {
            let path = format!("/api/v1/agents/{}/{verb}", segment(agent.as_str()));
            let said = match verb {
                "interrupt" => "interrupted",
                "start" => "starting",
                "stop" => "stopped",
                "clear" => "begins anew",
                _ => "restarting",
            };
            Some(done(api.post::<_, Value>(&path, &()).await, Some(format!("{agent}: {said}"))))
        }
        Action::Compact(agent, keep) => {
            let path = format!("/api/v1/agents/{}/compact", segment(agent.as_str()));
            let said = format!("{agent}: compacting its context");
            Some(done(api.post::<_, Value>(&path, &json!({ "instructions": keep })).await, Some(said)))
        }
        Action::Read(agent, id) => {
            let path = format!("{}/read", thread(&agent));
            // The next message asks again; nothing is lost but a number.
            api.post::<_, ReadMark>(&path, &json!({ "message_id": id })).await.ok().map(Event::Read)
        }
        Action::Send { .. } | Action::Redraw => None,
    }
}

fn settled(agent: AgentName, id: MessageId, result: Result<Message, ApiError>) -> Event {
    let result = result.map(Box::new).map_err(|error| {
        let problem = chain(&error);
        let settled = match error {
            ApiError::Refused { code, data: Some(data), .. } if code == "already_settled" => {
                serde_json::from_value(data).ok().map(Box::new)
            }
            _ => None,
        };
        NotTaken { problem, settled }
    });
    Event::Settled { agent, id, result }
}

fn done<T>(result: Result<T, ApiError>, said: Option<String>) -> Event {
    Event::Done(result.map(|_| said).map_err(|e| chain(&e)))
}

/// Sends messages one after the other.
async fn send_all(api: Api, mut sends: mpsc::Receiver<Send>, events: mpsc::Sender<Event>) {
    while let Some(send) = sends.recv().await {
        let result = send_one(&api, &send).await.map(Box::new);
        let Send { agent, client_msg_id, .. } = send;
        if events.send(Event::Sent { agent, client_msg_id, result }).await.is_err() {
            return;
        }
    }
}

async fn send_one(api: &Api, send: &Send) -> Result<Message, Problem> {
    let unreachable = |error: &ApiError| !matches!(error, ApiError::Refused { status, .. } if *status != 503);
    let mut attachments = Vec::new();
    for file in &send.files {
        let uploaded = api.upload(&send.agent, file).await.map_err(|error| Problem {
            unreachable: matches!(&error, UploadError::Api { source, .. } if unreachable(source)),
            text: chain(&error),
        })?;
        attachments.push(uploaded.id);
    }
    let path = format!("/api/v1/chat/{}/messages", segment(send.agent.as_str()));
    let body = json!({ "text": send.text, "attachments": attachments, "client_msg_id": send.client_msg_id });
    let sent = api.post(&path, &body).await;
    sent.map_err(|error| Problem { unreachable: unreachable(&error), text: chain(&error) })
}

/// Passes the event stream on.
async fn listen(mut stream: Events, events: mpsc::Sender<Event>) {
    loop {
        let event = match stream.next().await {
            Update::Connected(hello) => Some(Event::Connected(hello.resume)),
            Update::Lost(error) => Some(Event::Lost(chain(&error))),
            Update::Event(event) => from_stream(event),
        };
        if let Some(event) = event
            && events.send(event).await.is_err()
        {
            return;
        }
    }
}

/// An event of the stream as the screen takes it; `None` for kinds that it does not show.
fn from_stream(mut event: api::Event) -> Option<Event> {
    match event.kind.as_str() {
        "chat.message" | "chat.updated" => {
            let message: Message = serde_json::from_value(event.data["message"].take()).ok()?;
            Some(Event::Message { message: Box::new(message), new: event.kind == "chat.message" })
        }
        "reminder.changed" => {
            serde_json::from_value(event.data["agent"].take()).ok().map(Event::ReminderChanged)
        }
        "chat.read" => serde_json::from_value(event.data).ok().map(Event::Read),
        kind if kind.starts_with("agent_") => {
            let agent: Agent = serde_json::from_value(event.data["agent"].take()).ok()?;
            Some(Event::Agent(Box::new(agent)))
        }
        _ => None,
    }
}
