//! A hub that knows one agent and one message, keeps a journal, and can be killed.

use leo_ipc::{
    Fault, MessageId,
    agent::{AgentIdentity, AgentRecords},
    ask::{AskResult, ClosedReason},
    attachment::{UploadBegun, Uploaded},
    chat::{
        Accepted, Attachment, AttachmentFile, DeliveryInfo, Direction, Message, MessageKind, MessagePage,
        MessageState, Posted, Threads,
    },
    event::{EventItem, EventPage, JournalEvent, Resume, State, StateMeta},
    hub::HubRequest,
    paths::Home,
    server::{Answer, Handler, Peer, serve},
};
use std::sync::{Arc, Mutex};
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

pub(super) const MESSAGE: &str = "019ad2f0-0000-7000-8000-000000000001";

/// An open ask, an open questions card, and an ask that was answered.
pub(super) const ASK: &str = "019ad2f0-0000-7000-8000-000000000002";
pub(super) const CARD: &str = "019ad2f0-0000-7000-8000-000000000003";
pub(super) const SETTLED: &str = "019ad2f0-0000-7000-8000-000000000004";

pub(super) struct FakeHub {
    home: Home,
    pub(super) agent_token_hash: Mutex<String>,
    epoch: Mutex<String>,
    /// Events, and how many of the oldest were pruned.
    journal: Mutex<(Vec<JournalEvent>, usize)>,
    head: watch::Sender<u64>,
    running: Mutex<Option<(JoinHandle<()>, CancellationToken)>>,
    /// How the open ask ends, for whoever waits for it.
    pub(super) outcome: watch::Sender<Option<AskResult>>,
    /// What was asked, by its `op`.
    pub(super) asked: Mutex<Vec<HubRequest>>,
}

struct Serving(Arc<FakeHub>, CancellationToken);

impl FakeHub {
    pub(super) fn start(home: &Home) -> Arc<FakeHub> {
        let hub = Arc::new(FakeHub {
            home: home.clone(),
            agent_token_hash: Mutex::default(),
            epoch: Mutex::new("e1".into()),
            journal: Mutex::default(),
            head: watch::Sender::new(0),
            running: Mutex::default(),
            outcome: watch::Sender::new(None),
            asked: Mutex::default(),
        });
        hub.revive();
        hub
    }

    /// Ends the process, so to speak: the socket goes, and every connection with it.
    pub(super) fn kill(&self) {
        if let Some((task, life)) = self.running.lock().unwrap().take() {
            life.cancel();
            task.abort();
        }
        let _ = std::fs::remove_file(self.home.hub_socket());
    }

    pub(super) fn revive(self: &Arc<FakeHub>) {
        let std = std::os::unix::net::UnixListener::bind(self.home.hub_socket()).unwrap();
        let listener = std::os::fd::OwnedFd::from(std).try_into().expect("a listener");
        let life = CancellationToken::new();
        let handler = Arc::new(Serving(self.clone(), life.clone()));
        let task = tokio::spawn(serve(listener, handler, life.clone()));
        *self.running.lock().unwrap() = Some((task, life));
    }

    pub(super) fn publish(&self, payload: &str) -> u64 {
        let mut journal = self.journal.lock().unwrap();
        let seq = journal.0.len() as u64 + 1;
        let data = format!("{{\"seq\":{seq},\"x\":\"{payload}\"}}");
        journal.0.push(JournalEvent { seq, kind: "chat.message".into(), data });
        self.head.send_replace(seq);
        seq
    }

    pub(super) fn prune(&self, up_to: usize) {
        self.journal.lock().unwrap().1 = up_to;
    }

    /// Another database.
    pub(super) fn new_epoch(&self, epoch: &str) {
        *self.epoch.lock().unwrap() = epoch.into();
        *self.journal.lock().unwrap() = (Vec::new(), 0);
        self.head.send_replace(0);
    }

    fn page(&self, after: u64, limit: usize) -> EventPage {
        let journal = self.journal.lock().unwrap();
        let (events, pruned) = &*journal;
        let from = usize::try_from(after).unwrap().max(*pruned).min(events.len());
        let head = events.len() as u64;
        EventPage {
            epoch: self.epoch.lock().unwrap().clone(),
            oldest: if events.is_empty() { 0 } else { *pruned as u64 + 1 },
            head,
            events: events[from..].iter().take(limit).cloned().collect(),
        }
    }

    fn subscribe(self: Arc<FakeHub>, since: Option<leo_ipc::EventId>, life: CancellationToken) -> Answer {
        let page = self.page(0, 0);
        let (at, resume) = match since {
            None => (page.head, Resume::None),
            Some(id) if id.epoch != page.epoch || id.seq > page.head => (page.head, Resume::Gap),
            Some(id) if id.seq + 1 >= page.oldest => (id.seq, Resume::Ok),
            Some(_) => (page.head, Resume::Gap),
        };
        let start = EventItem::Start { epoch: page.epoch, head: page.head, resume };
        let head = self.head.subscribe();
        let items = futures_util::stream::unfold((self, head, at), |(hub, mut head, at)| async move {
            loop {
                let events = hub.page(at, 100).events;
                if let Some(last) = events.last() {
                    let next = last.seq;
                    return Some((Ok(EventItem::Events { events }), (hub, head, next)));
                }
                head.changed().await.ok()?;
            }
        });
        let first = futures_util::stream::once(async move { Ok(start) });
        let items = futures_util::StreamExt::chain(first, items);
        Answer::stream(futures_util::StreamExt::take_until(items, life.cancelled_owned()))
    }
}

pub(super) fn message(id: &str, text: &str) -> Message {
    Message {
        text: text.into(),
        state: MessageState::Pending,
        delivery: Some(DeliveryInfo { route: None, attempts: 0, at: None, waiting_for: None }),
        ..Message::bare(MessageId(id.into()), "assistant".parse().unwrap(), Direction::In)
    }
}

fn known(agent: &leo_ipc::AgentName) -> Result<(), Fault> {
    if agent.as_str() == "assistant" {
        Ok(())
    } else {
        Err(Fault::new("unknown_agent", "There is no such agent."))
    }
}

fn the_message(agent: &leo_ipc::AgentName, id: &MessageId) -> Result<Message, Fault> {
    known(agent)?;
    let ask = |state| Message { kind: MessageKind::Ask, state, ..message(id.as_str(), "Ship it?") };
    match id.as_str() {
        MESSAGE => Ok(message(MESSAGE, "x")),
        ASK | CARD => Ok(ask(MessageState::Open)),
        SETTLED => Ok(ask(MessageState::Answered)),
        _ => Err(Fault::new("unknown_message", "There is no such message.")),
    }
}

/// The ask, when it can still be settled.
fn open_ask(agent: &leo_ipc::AgentName, id: &MessageId) -> Result<Message, Fault> {
    let found = the_message(agent, id)?;
    match found.state {
        MessageState::Open => Ok(found),
        MessageState::Answered => {
            let data = serde_json::to_value(&found).unwrap();
            Err(Fault::new("already_settled", "Somebody answered before.").with_data(data))
        }
        _ => Err(Fault::new("not_open", "This message asks nothing.")),
    }
}

fn answered(r: leo_ipc::ask::AnswerAsk) -> Result<Message, Fault> {
    let open = open_ask(&r.agent, &r.message_id)?;
    if r.answer.values == ["maybe"] {
        return Err(Fault::new("bad_answer", "maybe is not one of the options."));
    }
    let answered_by = Some(r.by);
    Ok(Message { state: MessageState::Answered, answer: Some(r.answer), answered_by, ..open })
}

fn dismissed(r: &leo_ipc::ask::DismissAsk) -> Result<Message, Fault> {
    let open = open_ask(&r.agent, &r.message_id)?;
    if r.message_id.as_str() != CARD {
        return Err(Fault::new("not_a_questions_card", "Only a questions card can be dismissed."));
    }
    let closed_reason = Some(ClosedReason::Dismissed);
    Ok(Message { state: MessageState::Expired, closed_reason, ..open })
}

fn withdrawn(r: &leo_ipc::ask::WithdrawAsk) -> Result<Message, Fault> {
    match r.message_id.as_str() {
        CARD => Err(Fault::new("not_your_ask", "This is no ask of yours.")),
        SETTLED => Err(Fault::new("not_open", "This ask is not open any more.")),
        _ => open_ask(&r.agent, &r.message_id),
    }
}

impl Handler for Serving {
    type Request = HubRequest;

    async fn handle(&self, _: Peer, request: HubRequest) -> Answer {
        let hub = &self.0;
        hub.asked.lock().unwrap().push(request.clone());
        match request {
            HubRequest::ListThreads(_) => Answer::of(Ok(Threads { threads: Vec::new() })),
            HubRequest::ListMessages(r) => Answer::of(
                known(&r.agent)
                    .map(|()| MessagePage { messages: vec![message(MESSAGE, "x")], has_more: false }),
            ),
            HubRequest::GetMessage(r) => Answer::of(the_message(&r.agent, &r.id)),
            HubRequest::CancelMessage(r) => Answer::of(the_message(&r.agent, &r.id)),
            HubRequest::RetryMessage(r) => Answer::of(the_message(&r.agent, &r.id)),
            HubRequest::SendMessage(r) if !r.attachments.is_empty() => {
                let code =
                    if r.attachments[0] == "file" { "attachment_in_use" } else { "unknown_attachment" };
                Answer::Fault(Fault::new(code, "at $.attachments[0]: no."))
            }
            HubRequest::BeginUpload(r) => {
                let full = Fault::new("uploads_full", "There are too many.");
                Answer::of(if r.key.as_str() == "http:full" { Err(full) } else { Ok(UploadBegun::default()) })
            }
            HubRequest::AddUpload(r) => Answer::of(Ok(Uploaded {
                attachment: Attachment {
                    id: r.id,
                    filename: r.filename,
                    mime: r.mime.unwrap_or_default(),
                    bytes: r.bytes,
                    available: true,
                },
                created: true,
            })),
            HubRequest::SendMessage(r) => Answer::of(known(&r.agent).map(|()| Accepted {
                created: r.client_msg_id.as_deref() != Some("again"),
                message: message(MESSAGE, &r.text),
            })),
            HubRequest::AgentPost(r) => {
                Answer::of(known(&r.agent).map(|()| Posted { message_id: MessageId(MESSAGE.into()) }))
            }
            HubRequest::OpenAsk(r) => Answer::of(the_message(&r.agent, &ASK.into())),
            HubRequest::WaitAsk(_) => {
                let mut outcome = hub.outcome.subscribe();
                match outcome.wait_for(Option::is_some).await.map(|found| found.clone()) {
                    Ok(Some(found)) => Answer::of(Ok(found)),
                    _ => Answer::Fault(Fault::unavailable("Gone.")),
                }
            }
            HubRequest::StopWaiting(_) => Answer::of(Ok(leo_ipc::Done {})),
            HubRequest::WithdrawAsk(r) => Answer::of(withdrawn(&r)),
            HubRequest::AnswerAsk(r) => Answer::of(answered(r)),
            HubRequest::DismissAsk(r) => Answer::of(dismissed(&r)),
            HubRequest::AuthAgent(r) if r.token_hash == *hub.agent_token_hash.lock().unwrap() => {
                Answer::of(Ok(AgentIdentity {
                    name: "assistant".parse().unwrap(),
                    launch: "l1".into(),
                    run: None,
                }))
            }
            HubRequest::AuthClient(_) => Answer::Fault(Fault::new("unauthorized", "Not known.")),
            HubRequest::AuthAgent(_) => Answer::Fault(Fault::new("unauthorized", "Not known.")),
            HubRequest::GetAttachment(r) => Answer::of(attachment(&hub.home, &r.id)),
            HubRequest::ListAgents(_) => Answer::of(Ok(AgentRecords { agents: Vec::new() })),
            HubRequest::GetAgent(_) => Answer::Fault(Fault::new("unknown_agent", "There is no such agent.")),
            HubRequest::GetState(_) => Answer::of(Ok(State {
                meta: StateMeta { epoch: hub.page(0, 0).epoch, seq: hub.page(0, 0).head },
                agents: Vec::new(),
                threads: Vec::new(),
            })),
            HubRequest::ListEvents(r) => Answer::of(Ok(hub.page(r.after, r.limit as usize))),
            HubRequest::SubscribeEvents(r) => hub.clone().subscribe(r.since, self.1.clone()),
            HubRequest::PutAgent(_) => Answer::Fault(Fault::new("agent_exists", "There is one already.")),
            _ => Answer::unknown_request(),
        }
    }
}

fn attachment(home: &Home, id: &str) -> Result<AttachmentFile, Fault> {
    let file = |available, path| AttachmentFile {
        attachment: Attachment {
            id: id.into(),
            filename: "päge.html".into(),
            mime: "text/html".into(),
            bytes: 10,
            available,
        },
        path,
    };
    let path = home.state().join("file").display().to_string();
    match id {
        "file" => Ok(file(true, path)),
        "pruned" => Ok(file(false, path)),
        "lost" => Ok(file(true, format!("{path}.gone"))),
        _ => Err(Fault::new("unknown_attachment", "There is no such attachment.")),
    }
}
