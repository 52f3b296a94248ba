//! What the chat screen knows, and what each event makes of it. Pure: no clock, no terminal, no
//! network; what is to be done comes back as actions.

pub(super) use super::events::{Action, Event, NotTaken};
use super::{
    cards::{self, Form},
    composer::Composer,
    layout::{self, Place},
    log::{Log, Outgoing, Problem},
    reminders,
    words::{self, Tone},
};
use jiff::tz::TimeZone;
use leo_ipc::{
    AgentName, MessageId, Time,
    agent::{Activity, Agent},
    chat::{Message, MessageKind, MessagePage, Thread},
    event::{Resume, State as Snapshot},
    reminder::Reminder,
};
use std::{collections::BTreeMap, path::PathBuf};

/// How long a line about something that just happened stays.
const NOTICE_MS: i64 = 6000;

/// Where the view of the history stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scroll {
    /// At its end, following what comes.
    End,
    /// With this place in its last row.
    At(Place),
}

/// What lies over the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Overlay {
    /// Nothing.
    None,
    /// The keys and commands, from this row on.
    Help(usize),
    /// The list of threads, with the selected one.
    Threads(usize),
    /// The open thread's reminders, with the selected one.
    Reminders(usize),
}

/// Whether the daemon is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Link {
    /// The first connection is being made.
    Connecting,
    /// Events arrive.
    Up,
    /// Lost since then.
    Lost {
        /// When.
        since: Time,
        /// Why, in a sentence.
        why: String,
    },
}

/// A line about something that just happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    /// Its text.
    pub(super) text: String,
    /// How it is meant.
    pub(super) tone: Tone,
    until: Time,
}

/// Everything that the screen shows.
#[derive(Debug, Clone)]
pub(super) struct State {
    /// The thread that is open.
    pub(super) agent: AgentName,
    /// All threads, as the daemon orders them.
    pub(super) threads: Vec<Thread>,
    /// All agents.
    pub(super) agents: BTreeMap<AgentName, Agent>,
    /// The open thread.
    pub(super) log: Log,
    /// Its open reminders, the next one first.
    pub(super) reminders: Vec<Reminder>,
    /// What is being written.
    pub(super) composer: Composer,
    /// The card that has the keys; `None` while the composer has them.
    pub(super) focus: Option<MessageId>,
    /// What was chosen on open cards so far.
    pub(super) forms: BTreeMap<MessageId, Form>,
    /// Where the history stands.
    pub(super) scroll: Scroll,
    /// What lies over it.
    pub(super) overlay: Overlay,
    /// Whether the daemon is there.
    pub(super) link: Link,
    /// What just happened.
    pub(super) notice: Option<Notice>,
    /// Columns and rows of the terminal.
    pub(super) size: (u16, u16),
    /// The time of the last event.
    pub(super) now: Time,
    /// For times of day.
    pub(super) zone: TimeZone,
    /// `<home>/state/chat/attachments`, for the paths of files.
    pub(super) attachments: PathBuf,
    /// Set when the screen should close.
    pub(super) quit: bool,
    drafts: BTreeMap<AgentName, String>,
    unsent: BTreeMap<AgentName, Vec<Outgoing>>,
    id_prefix: String,
    next_id: u64,
    reading: Option<MessageId>,
}

impl State {
    /// The screen before anything was fetched. `id_prefix` makes our message ids ours alone.
    pub(super) fn new(
        agent: AgentName,
        snapshot: Snapshot,
        now: Time,
        zone: TimeZone,
        attachments: PathBuf,
        id_prefix: String,
    ) -> State {
        let mut state = State {
            agent,
            threads: Vec::new(),
            agents: BTreeMap::new(),
            log: Log::default(),
            reminders: Vec::new(),
            composer: Composer::default(),
            focus: None,
            forms: BTreeMap::new(),
            scroll: Scroll::End,
            overlay: Overlay::None,
            link: Link::Connecting,
            notice: None,
            size: (80, 24),
            now,
            zone,
            attachments,
            quit: false,
            drafts: BTreeMap::new(),
            unsent: BTreeMap::new(),
            id_prefix,
            next_id: 1,
            reading: None,
        };
        state.take(snapshot);
        state
    }

    fn take(&mut self, snapshot: Snapshot) {
        self.threads = snapshot.threads;
        self.agents = snapshot.agents.into_iter().map(|agent| (agent.name.clone(), agent)).collect();
    }

    /// The open thread's agent; `None` when it was removed.
    pub(super) fn current(&self) -> Option<&Agent> {
        self.agents.get(&self.agent)
    }

    fn thread_mut(&mut self, agent: &AgentName) -> Option<&mut Thread> {
        self.threads.iter_mut().find(|thread| thread.agent == *agent)
    }

    /// Whether the screen changes while nothing happens.
    pub(super) fn is_timed(&self) -> bool {
        self.notice.is_some() || matches!(self.link, Link::Lost { .. }) || layout::shows_deadline(self)
    }

    /// The card that has the keys, as long as it is open.
    pub(super) fn focused(&self) -> Option<&Message> {
        self.focus.as_ref().and_then(|id| self.log.get(id)).filter(|message| cards::is_open(message))
    }

    /// An id of ours for something that is sent.
    pub(super) fn fresh_id(&mut self) -> String {
        let id = format!("{}-{}", self.id_prefix, self.next_id);
        self.next_id += 1;
        id
    }

    /// Unread messages of the other threads.
    pub(super) fn unread_elsewhere(&self) -> u64 {
        self.threads.iter().filter(|t| t.agent != self.agent).map(|t| t.unread).sum()
    }

    /// All messages that were written here and not accepted.
    pub(super) fn not_sent(&self) -> impl Iterator<Item = (&AgentName, &Outgoing)> {
        let here = self.log.outgoing.iter().map(|outgoing| (&self.agent, outgoing));
        let elsewhere =
            self.unsent.iter().flat_map(|(agent, list)| list.iter().map(move |outgoing| (agent, outgoing)));
        here.chain(elsewhere)
    }

    pub(super) fn notify(&mut self, tone: Tone, text: impl Into<String>) {
        let until = Time::from_millis(self.now.millis() + NOTICE_MS);
        self.notice = Some(Notice { text: text.into(), tone, until });
    }

    /// Opens another thread; what was being written in this one is kept.
    pub(super) fn open(&mut self, agent: AgentName) -> Vec<Action> {
        self.overlay = Overlay::None;
        if agent == self.agent {
            return Vec::new();
        }
        let left = std::mem::replace(&mut self.agent, agent.clone());
        let draft = self.composer.take();
        if !draft.is_empty() {
            self.drafts.insert(left.clone(), draft);
        }
        self.composer.set(self.drafts.remove(&agent).unwrap_or_default());
        let log = std::mem::take(&mut self.log);
        if !log.outgoing.is_empty() {
            self.unsent.insert(left, log.outgoing);
        }
        self.log.outgoing = self.unsent.remove(&agent).unwrap_or_default();
        self.scroll = Scroll::End;
        self.focus = None;
        self.reading = None;
        self.reminders.clear();
        vec![Action::Page { agent, before: None }]
    }

    /// Sends what was written.
    pub(super) fn send(&mut self, text: String, files: Vec<PathBuf>) -> Vec<Action> {
        let client_msg_id = self.fresh_id();
        self.scroll = Scroll::End;
        self.log.outgoing.push(Outgoing {
            client_msg_id: client_msg_id.clone(),
            text: text.clone(),
            files: files.clone(),
            at: self.now,
            problem: None,
        });
        vec![Action::Send { agent: self.agent.clone(), text, files, client_msg_id }]
    }

    /// Sends again what could not be sent. Its id is the same, so that nothing is said twice.
    pub(super) fn resend(&mut self, only_unreachable: bool) -> Vec<Action> {
        let mut actions = Vec::new();
        let here = (&self.agent, &mut self.log.outgoing);
        for (agent, list) in std::iter::once(here).chain(self.unsent.iter_mut()) {
            for outgoing in list {
                let wanted = outgoing.problem.as_ref().is_some_and(|p| p.unreachable || !only_unreachable);
                if wanted {
                    outgoing.problem = None;
                    actions.push(Action::Send {
                        agent: agent.clone(),
                        text: outgoing.text.clone(),
                        files: outgoing.files.clone(),
                        client_msg_id: outgoing.client_msg_id.clone(),
                    });
                }
            }
        }
        actions
    }

    /// The actions that a look at the end of the thread leads to.
    fn mark_read(&mut self) -> Vec<Action> {
        let agent = self.agent.clone();
        let unread = self.threads.iter().any(|t| t.agent == agent && t.unread > 0);
        if self.scroll != Scroll::End || !unread {
            return Vec::new();
        }
        let Some(newest) = self.log.newest_out().map(|m| m.id.clone()) else { return Vec::new() };
        if self.reading.as_ref() == Some(&newest) {
            return Vec::new();
        }
        self.reading = Some(newest.clone());
        vec![Action::Read(agent, newest)]
    }

    /// Moves the view by rows, up when positive, and fetches earlier messages near the top.
    pub(super) fn scroll_by(&mut self, rows: isize) -> Vec<Action> {
        let (scroll, at_top) = layout::scrolled(self, rows);
        self.scroll = scroll;
        if at_top && rows > 0 { self.fetch_older() } else { Vec::new() }
    }

    fn fetch_older(&mut self) -> Vec<Action> {
        if !self.log.has_older || self.log.loading_older {
            return Vec::new();
        }
        let Some(oldest) = self.log.oldest().map(|m| m.id.clone()) else { return Vec::new() };
        self.log.loading_older = true;
        vec![Action::Page { agent: self.agent.clone(), before: Some(oldest) }]
    }
}

/// Takes an event and says what is to be done.
pub(super) fn update(state: &mut State, event: Event, now: Time) -> Vec<Action> {
    state.now = now;
    if state.notice.as_ref().is_some_and(|notice| notice.until <= now) {
        state.notice = None;
    }
    let mut actions = match event {
        Event::Key(key) => super::keys::press(state, key),
        Event::Paste(text) => {
            state.overlay = Overlay::None;
            super::keys::paste(state, &text);
            Vec::new()
        }
        Event::Resize(columns, rows) => {
            state.size = (columns, rows);
            Vec::new()
        }
        Event::Tick => Vec::new(),
        Event::Connected(resume) => connected(state, resume),
        Event::Lost(why) => {
            let since = if let Link::Lost { since, .. } = state.link { since } else { now };
            state.link = Link::Lost { since, why };
            Vec::new()
        }
        Event::Message { message, new } => message_came(state, *message, new),
        Event::Read(mark) => {
            if let Some(thread) = state.thread_mut(&mark.agent) {
                thread.unread = mark.unread;
            }
            Vec::new()
        }
        Event::Agent(agent) => agent_changed(state, *agent),
        Event::Snapshot(snapshot) => {
            state.take(*snapshot);
            Vec::new()
        }
        Event::Page { agent, older, page } => page_came(state, &agent, older, page),
        Event::ReminderChanged(agent) => reminders::changed(state, agent),
        Event::Reminders(agent, list) => {
            reminders::came(state, &agent, list);
            Vec::new()
        }
        Event::Sent { agent, client_msg_id, result } => sent(state, &agent, &client_msg_id, result),
        Event::Settled { agent, id, result } => settled(state, &agent, &id, result),
        Event::Done(Ok(said)) => {
            if let Some(text) = said {
                state.notify(Tone::Calm, text);
            }
            Vec::new()
        }
        Event::Done(Err(problem)) => {
            state.notify(Tone::Bad, problem);
            Vec::new()
        }
    };
    actions.extend(state.mark_read());
    actions
}

fn connected(state: &mut State, resume: Resume) -> Vec<Action> {
    let was_lost = matches!(state.link, Link::Lost { .. });
    state.link = Link::Up;
    let mut actions = Vec::new();
    if resume != Resume::Ok {
        // What happened meanwhile is not in the stream.
        state.log.forget();
        actions.push(Action::Snapshot);
        actions.push(Action::Page { agent: state.agent.clone(), before: None });
    }
    if was_lost {
        actions.extend(state.resend(true));
    }
    actions
}

fn message_came(state: &mut State, message: Message, new: bool) -> Vec<Action> {
    let agent = message.agent.clone();
    let counts =
        new && message.direction == leo_ipc::chat::Direction::Out && message.kind != MessageKind::System;
    card_changed(state, &message);
    let Some(thread) = state.thread_mut(&agent) else { return vec![Action::Snapshot] };
    if new || thread.last_message.as_ref().is_some_and(|last| last.id == message.id) {
        thread.last_message = Some(message.clone());
    }
    if counts {
        thread.unread += 1;
    }
    if agent == state.agent {
        state.log.put(message);
    } else if let Some(own) = &message.client_msg_id
        && let Some(list) = state.unsent.get_mut(&agent)
    {
        list.retain(|outgoing| outgoing.client_msg_id != *own);
    }
    Vec::new()
}

/// A card that is not open any more needs no form, and gives the keys back.
fn card_changed(state: &mut State, message: &Message) {
    if cards::is_open(message) {
        return;
    }
    let ours = state.forms.remove(&message.id).is_some_and(|form| form.sending);
    if state.focus.as_ref() == Some(&message.id) {
        state.focus = None;
        state.scroll = Scroll::End;
        if !ours {
            state.notify(Tone::Calm, words::ended(message));
        }
    }
}

fn settled(
    state: &mut State,
    agent: &AgentName,
    id: &MessageId,
    result: Result<Box<Message>, NotTaken>,
) -> Vec<Action> {
    let message = match result {
        Ok(message) => message,
        Err(NotTaken { settled: Some(message), .. }) => {
            card_changed(state, &message);
            state.notify(Tone::Alert, format!("somebody was first: {}", words::ended(&message)));
            message
        }
        Err(NotTaken { problem, settled: None }) => {
            if let Some(form) = state.forms.get_mut(id) {
                form.sending = false;
                form.problem = Some(problem);
            } else {
                state.notify(Tone::Bad, problem);
            }
            return Vec::new();
        }
    };
    card_changed(state, &message);
    if *agent == state.agent {
        state.log.settle(*message);
    }
    Vec::new()
}

fn agent_changed(state: &mut State, agent: Agent) -> Vec<Action> {
    let known = state.thread_mut(&agent.name).is_some();
    let stopped = agent.status == leo_ipc::agent::Status::Stopped;
    if let Some(thread) = state.thread_mut(&agent.name) {
        thread.status = Some(agent.status);
        thread.activity = Some(agent.activity);
    }
    let newly_needs = agent.activity == Activity::NeedsInput
        && agent.name != state.agent
        && state.agents.get(&agent.name).is_none_or(|before| before.activity != Activity::NeedsInput);
    if newly_needs {
        state.notify(Tone::Alert, format!("{} needs you", agent.name));
    }
    state.agents.insert(agent.name.clone(), agent);
    // A stopped agent may have been removed, which only the snapshot says.
    if !known || stopped { vec![Action::Snapshot] } else { Vec::new() }
}

fn page_came(
    state: &mut State,
    agent: &AgentName,
    older: bool,
    page: Result<MessagePage, String>,
) -> Vec<Action> {
    // The person may have gone to another thread meanwhile.
    if *agent != state.agent {
        return Vec::new();
    }
    match page {
        Ok(page) => state.log.take(page, older),
        Err(problem) => {
            state.log.loading_older = false;
            state.notify(Tone::Bad, problem);
        }
    }
    Vec::new()
}

fn sent(
    state: &mut State,
    agent: &AgentName,
    client_msg_id: &str,
    result: Result<Box<Message>, Problem>,
) -> Vec<Action> {
    let here = *agent == state.agent;
    match result {
        Ok(message) if here => state.log.put_if_absent(*message),
        Ok(_) => {
            if let Some(list) = state.unsent.get_mut(agent) {
                list.retain(|outgoing| outgoing.client_msg_id != client_msg_id);
            }
        }
        Err(problem) => {
            let list = if here { Some(&mut state.log.outgoing) } else { state.unsent.get_mut(agent) };
            let found = list.and_then(|list| list.iter_mut().find(|o| o.client_msg_id == client_msg_id));
            if let Some(outgoing) = found {
                outgoing.problem = Some(problem);
            }
        }
    }
    Vec::new()
}
