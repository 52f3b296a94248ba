//! The shim's decisions, apart from reading, writing and the clock: which request is answered by whom,
//! and when. Whatever the order in which workers come and go, every request of the client gets exactly
//! one answer, and a cancelled one none.

use super::message::{self, Message};
use crate::protocol;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

/// How long a new call waits for a worker before it is answered `unavailable`.
pub(crate) const NEW_CALL_PATIENCE: Duration = Duration::from_secs(10);

/// How long a call that a worker already had waits for the next worker. Longer, since it may have been
/// carried out and an answer says so; a person who restarts Leo takes no longer.
pub(crate) const OPEN_CALL_PATIENCE: Duration = Duration::from_secs(60);

/// The same for a question to a person, counted from its start: as long as the harness itself waits, and
/// a little less.
pub(crate) const ASK_PATIENCE: Duration = Duration::from_secs(31 * 60);

/// The tool that asks them.
const ASK_TOOL: &str = "leo_chat_ask";

/// How long `tools/list` waits for a worker before the last list that is known is given.
pub(crate) const LIST_PATIENCE: Duration = Duration::from_millis(300);

/// Pause between progress notifications of a call that waits. opencode gives up on a silent call after
/// 60 s, Claude after 30 minutes.
pub(crate) const PROGRESS_EVERY: Duration = Duration::from_secs(15);

/// Most requests without an answer; another is refused at once.
pub(crate) const MAX_OPEN: usize = 256;

/// A worker that dies this soon after it was given a call counts against the call.
pub(crate) const STRIKE_WITHIN: Duration = Duration::from_secs(2);

/// A call that so many workers in a row died of is given up, or it would kill every one to come.
pub(crate) const MAX_STRIKES: u32 = 5;

/// What has happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// A line from the client.
    Client(String),
    /// A line from the client that was too long to keep; its id, when one was found in it.
    ClientTooLong(Option<Value>),
    /// A worker has welcomed us.
    LinkUp,
    /// The worker is gone.
    LinkDown,
    /// There is no use in asking a worker; a sentence why.
    Denied(String),
    /// A line from the worker.
    Worker(String),
    /// Nothing but the time.
    Tick,
}

/// What to do about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Write a line to the client.
    ToClient(String),
    /// Send the worker a line, with the call's key if it is a request of the client's.
    ToWorker {
        /// The line.
        json: String,
        /// The key.
        call_key: Option<String>,
        /// Milliseconds since a worker first had the call.
        age_ms: u64,
    },
    /// Give up this worker and connect anew.
    DropLink,
}

/// What the client asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Call,
    /// A call that only waits for a person: waiting costs nothing, and making it again changes nothing.
    Ask,
    List,
    Other,
}

/// A request without an answer.
#[derive(Debug)]
struct Open {
    id: Value,
    json: String,
    kind: Kind,
    /// When the worker that is there now was given it.
    sent_at: Option<Duration>,
    /// When the first worker was given it.
    first_sent: Option<Duration>,
    /// When to answer without a worker.
    expires: Option<Duration>,
    strikes: u32,
    progress: Option<Progress>,
}

impl Open {
    /// How long ago the first worker was given it.
    fn age(&self, now: Duration) -> Duration {
        self.first_sent.map_or(Duration::ZERO, |at| now.saturating_sub(at))
    }
}

#[derive(Debug)]
struct Progress {
    token: Value,
    count: u64,
    next: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Down,
    /// Up, and the client has not said `initialize` yet.
    Quiet,
    /// `initialize` was replayed and has no answer yet.
    Greeting,
    Ready,
}

/// The session with one client, over any number of workers.
#[derive(Debug)]
pub(crate) struct State {
    /// Beginning of every call key; unique to this process.
    key_prefix: String,
    /// Beginning of our own requests' ids, which no client uses.
    private: String,
    link: Link,
    /// Workers so far, which makes our own requests' ids differ.
    links: u64,
    denied: Option<String>,
    /// Parameters of the client's `initialize`.
    init: Option<Value>,
    open: BTreeMap<u64, Open>,
    next: u64,
    /// Ids of the worker's requests to the client.
    asked: HashSet<String>,
    /// The tools to list while no worker is there.
    known: Value,
    /// The tools that the client was given last.
    shown: Option<Value>,
}

impl State {
    /// A session whose calls get keys that begin with `key_prefix` (one per process), and that lists
    /// `tools` until a worker has said which there are.
    pub(crate) fn new(key_prefix: String, tools: Value) -> State {
        State {
            private: format!("{key_prefix}:shim:"),
            key_prefix,
            link: Link::Down,
            links: 0,
            denied: None,
            init: None,
            open: BTreeMap::new(),
            next: 0,
            asked: HashSet::new(),
            known: tools,
            shown: None,
        }
    }

    /// Whether a request waits for its answer.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }

    /// When [`Event::Tick`] is due, if ever.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let progress = self.open.values().filter_map(|open| open.progress.as_ref().map(|p| p.next));
        self.open.values().filter_map(|open| open.expires).chain(progress).min()
    }

    /// Takes in an event at `now`, a time since any fixed moment.
    pub(crate) fn step(&mut self, event: Event, now: Duration) -> Vec<Action> {
        let mut out = Vec::new();
        match event {
            Event::Client(line) => self.client(line, now, &mut out),
            Event::ClientTooLong(id) => {
                let text = format!("a message may have {} bytes; this one has more", leo_ipc::mcp::MAX_LINE);
                out.push(to_client(message::error(&id.unwrap_or(Value::Null), message::INVALID, &text)));
            }
            Event::LinkUp => {
                self.links += 1;
                self.link = Link::Quiet;
                self.greet(&mut out);
            }
            Event::LinkDown => self.link_down(now, &mut out),
            Event::Denied(reason) => {
                self.denied = Some(reason);
                self.link = Link::Down;
                for (_, open) in std::mem::take(&mut self.open) {
                    out.push(self.answer_alone(&open));
                }
            }
            Event::Worker(line) => self.worker(line, now, &mut out),
            Event::Tick => {}
        }
        self.tick(now, &mut out);
        out
    }

    fn tick(&mut self, now: Duration, out: &mut Vec<Action>) {
        let expired: Vec<u64> =
            self.open.iter().filter(|(_, o)| is_due(o.expires, now)).map(|(n, _)| *n).collect();
        for open in expired.iter().filter_map(|n| self.open.remove(n)).collect::<Vec<_>>() {
            out.push(self.answer_alone(&open));
        }
        for progress in self.open.values_mut().filter_map(|open| open.progress.as_mut()) {
            if progress.next <= now {
                progress.count += 1;
                progress.next = now + PROGRESS_EVERY;
                let params = json!({ "progressToken": progress.token, "progress": progress.count });
                out.push(to_client(message::notification("notifications/progress", &params)));
            }
        }
    }

    fn client(&mut self, line: String, now: Duration, out: &mut Vec<Action>) {
        match message::parse(&line) {
            Message::Request { id, method, params } => self.request(line, id, &method, params, now, out),
            Message::Notification { method, params } => match method.as_str() {
                "notifications/initialized" => {}
                "notifications/cancelled" => self.cancelled(line, &params, out),
                _ => self.pass(line, out),
            },
            Message::Response { id, .. } => {
                if self.asked.remove(&id.to_string()) {
                    self.pass(line, out);
                }
            }
            Message::Invalid { id } => {
                let text = "this is not a JSON-RPC request";
                out.push(to_client(message::error(&id, message::INVALID, text)));
            }
            // Other servers ignore what is not JSON too: an answer could start an endless exchange.
            Message::Garbage => {}
        }
    }

    fn pass(&self, json: String, out: &mut Vec<Action>) {
        if self.link == Link::Ready {
            out.push(Action::ToWorker { json, call_key: None, age_ms: 0 });
        }
    }

    fn request(
        &mut self,
        json: String,
        id: Value,
        method: &str,
        params: Value,
        now: Duration,
        out: &mut Vec<Action>,
    ) {
        let kind = match method {
            "initialize" => {
                out.push(to_client(message::result(&id, &protocol::initialize_result(&params))));
                self.init = Some(params);
                return self.greet(out);
            }
            "ping" => return out.push(to_client(message::result(&id, &json!({})))),
            "tools/call" if params.get("name").is_some_and(|name| name == ASK_TOOL) => Kind::Ask,
            "tools/call" => Kind::Call,
            "tools/list" => Kind::List,
            _ => Kind::Other,
        };
        let refusal = if method == "server/discover" || (kind == Kind::Other && self.link != Link::Ready) {
            Some((message::NO_METHOD, format!("method not found: {method}")))
        } else if self.init.is_none() {
            Some((message::INVALID, "the first request must be initialize".to_owned()))
        } else if self.open.values().any(|open| open.id == id) {
            Some((message::INVALID, format!("a request with the id {id} is still open")))
        } else if self.open.len() >= MAX_OPEN {
            Some((message::INTERNAL, format!("{MAX_OPEN} requests are open; wait for one to end")))
        } else {
            None
        };
        if let Some((code, text)) = refusal {
            return out.push(to_client(message::error(&id, code, &text)));
        }
        let token =
            params.pointer("/_meta/progressToken").filter(|t| t.is_string() || t.is_number()).cloned();
        let progress = token.filter(|_| matches!(kind, Kind::Call | Kind::Ask)).map(|token| Progress {
            token,
            count: 0,
            next: now + PROGRESS_EVERY,
        });
        let mut open =
            Open { id, json, kind, sent_at: None, first_sent: None, expires: None, strikes: 0, progress };
        if self.denied.is_some() {
            return out.push(self.answer_alone(&open));
        }
        let number = self.next;
        self.next += 1;
        if self.link == Link::Ready {
            out.push(send(&self.key_prefix, number, &mut open, now));
        } else {
            open.expires = Some(now + if kind == Kind::List { LIST_PATIENCE } else { NEW_CALL_PATIENCE });
        }
        self.open.insert(number, open);
    }

    fn cancelled(&mut self, line: String, params: &Value, out: &mut Vec<Action>) {
        let Some(id) = params.get("requestId") else { return };
        let Some(number) = self.open.iter().find(|(_, open)| open.id == *id).map(|(n, _)| *n) else { return };
        // The answer that may be on its way finds nobody: a cancelled request has none.
        if self.open.remove(&number).is_some_and(|open| open.sent_at.is_some()) {
            self.pass(line, out);
        }
    }

    /// Opens the session with the worker, once both are there, in the client's words.
    fn greet(&mut self, out: &mut Vec<Action>) {
        let (Link::Quiet, Some(params)) = (self.link, &self.init) else { return };
        let mut params = params.clone();
        if let Some(version) = params.get_mut("protocolVersion") {
            *version = Value::from(protocol::negotiate(version.as_str().unwrap_or_default()));
        }
        let id = Value::from(self.private_id("initialize"));
        out.push(Action::ToWorker {
            json: message::request(&id, "initialize", &params),
            call_key: None,
            age_ms: 0,
        });
        self.link = Link::Greeting;
    }

    fn private_id(&self, what: &str) -> String {
        format!("{}{what}:{}", self.private, self.links)
    }

    fn worker(&mut self, line: String, now: Duration, out: &mut Vec<Action>) {
        match message::parse(&line) {
            Message::Response { id, result } => {
                if id.as_str().is_some_and(|id| id.starts_with(&self.private)) {
                    return self.private_response(&id, result, now, out);
                }
                let Some(number) = self.open.iter().find(|(_, open)| open.id == id).map(|(n, _)| *n) else {
                    return;
                };
                let open = self.open.remove(&number);
                if open.is_some_and(|open| open.kind == Kind::List)
                    && let Some(tools) = result.and_then(|mut r| r.get_mut("tools").map(Value::take))
                {
                    self.known = tools.clone();
                    self.shown = Some(tools);
                }
                out.push(to_client(line));
            }
            Message::Request { id, .. } => {
                self.asked.insert(id.to_string());
                out.push(to_client(line));
            }
            Message::Notification { .. } => out.push(to_client(line)),
            // A worker that talks nonsense would leave its calls without an answer.
            Message::Invalid { .. } | Message::Garbage => out.push(Action::DropLink),
        }
    }

    fn private_response(&mut self, id: &Value, result: Option<Value>, now: Duration, out: &mut Vec<Action>) {
        if *id == self.private_id("initialize") && self.link == Link::Greeting {
            if result.is_none() {
                return out.push(Action::DropLink);
            }
            self.link = Link::Ready;
            let json = message::notification("notifications/initialized", &json!({}));
            out.push(Action::ToWorker { json, call_key: None, age_ms: 0 });
            for (number, open) in &mut self.open {
                out.push(send(&self.key_prefix, *number, open, now));
            }
            if self.shown.is_some() {
                let id = Value::from(self.private_id("tools"));
                let json = message::request(&id, "tools/list", &json!({}));
                out.push(Action::ToWorker { json, call_key: None, age_ms: 0 });
            }
        } else if *id == self.private_id("tools")
            && let Some(tools) = result.and_then(|mut r| r.get_mut("tools").map(Value::take))
        {
            if self.shown.as_ref().is_some_and(|shown| *shown != tools) {
                out.push(to_client(message::notification("notifications/tools/list_changed", &json!({}))));
            }
            self.known = tools;
        }
    }

    fn link_down(&mut self, now: Duration, out: &mut Vec<Action>) {
        self.link = Link::Down;
        self.asked.clear();
        let mut ended = Vec::new();
        for (number, open) in &mut self.open {
            if let Some(sent_at) = open.sent_at.take() {
                open.strikes = if now < sent_at + STRIKE_WITHIN { open.strikes + 1 } else { 0 };
                open.expires = Some(
                    now + match open.kind {
                        Kind::Call => OPEN_CALL_PATIENCE,
                        Kind::Ask => ASK_PATIENCE.saturating_sub(open.age(now)),
                        Kind::List => LIST_PATIENCE,
                        Kind::Other => Duration::ZERO,
                    },
                );
            }
            if open.strikes >= MAX_STRIKES && open.kind != Kind::Ask {
                ended.push(*number);
            }
        }
        for open in ended.iter().filter_map(|number| self.open.remove(number)).collect::<Vec<_>>() {
            out.push(self.answer_alone(&open));
        }
    }

    /// The answer to a request that no worker answers.
    fn answer_alone(&mut self, open: &Open) -> Action {
        to_client(match open.kind {
            Kind::Call | Kind::Ask => message::tool_error(&open.id, &self.unavailable(open)),
            Kind::List => {
                self.shown = Some(self.known.clone());
                message::result(&open.id, &json!({ "tools": self.known }))
            }
            Kind::Other => message::error(&open.id, message::INTERNAL, &self.unavailable(open)),
        })
    }

    fn unavailable(&self, open: &Open) -> String {
        let tail = if open.first_sent.is_some() {
            "this call may or may not have been carried out, so look before you make it again"
        } else {
            "this call was not carried out; try again in a minute"
        };
        match &self.denied {
            Some(reason) => format!("unavailable: {reason}"),
            None if open.strikes >= MAX_STRIKES && open.kind != Kind::Ask => {
                format!("unavailable: Leo failed {MAX_STRIKES} times in a row on this call; {tail}")
            }
            None => format!("unavailable: Leo is not running or is being restarted; {tail}"),
        }
    }
}

fn send(key_prefix: &str, number: u64, open: &mut Open, now: Duration) -> Action {
    // At least a millisecond: that it is not the first time matters too.
    let age = if open.first_sent.is_some() { open.age(now).as_millis().max(1) } else { 0 };
    open.sent_at = Some(now);
    open.first_sent.get_or_insert(now);
    open.expires = None;
    Action::ToWorker {
        json: open.json.clone(),
        call_key: Some(format!("{key_prefix}:{number}")),
        age_ms: u64::try_from(age).unwrap_or(u64::MAX),
    }
}

fn is_due(at: Option<Duration>, now: Duration) -> bool {
    at.is_some_and(|at| at <= now)
}

fn to_client(json: String) -> Action {
    Action::ToClient(json)
}

#[cfg(test)]
mod tests;
