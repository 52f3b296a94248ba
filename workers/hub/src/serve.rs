//! The hub's socket: each request to its work, writes through the writer, reads through the pool.

use crate::{
    agent, api_client,
    ask::{agent as asks, permission, person},
    attachment::{self, place, prune},
    chat, delivery,
    error::Outcome,
    hook,
    journal::{self, Cursor, Journal},
    message, note, post,
    reader::Readers,
    reminder, session, spool, state, suspend, task, voice,
    watch::Watchers,
    writer::{Tx, Writer},
};
use futures_util::stream;
use jiff::tz::TimeZone;
use leo_ipc::{
    Done, Fault,
    agent::Wake,
    ask::{AskPermission, AskResult, Decision, WaitAsk},
    attachment::{AddUpload, Prunable, PruneAttachments, Uploaded},
    chat::{Accepted, Posted, SendMessage},
    config::Config,
    event::EventItem,
    hook::ReportHook,
    hub::HubRequest,
    paths::Home,
    reminder::NextReminder,
    server::{Answer, Handler, Peer},
    task::TasksChanged,
    voice::{Note, TakeNote},
};
use rusqlite::Connection;
use serde::Serialize;
use std::{sync::Arc, time::SystemTime};
use tokio::sync::{Mutex, watch};

/// The hub.
#[derive(Clone)]
pub(crate) struct Hub {
    pub(crate) home: Home,
    pub(crate) tmux_socket: Arc<str>,
    pub(crate) writer: Writer,
    pub(crate) readers: Readers,
    pub(crate) journal: Arc<Journal>,
    pub(crate) watchers: Arc<Watchers>,
    /// Counts up whenever an ask changed.
    pub(crate) asks: watch::Sender<u64>,
    /// Counts up whenever a task or a run changed.
    pub(crate) tasks: watch::Sender<u64>,
    /// Counts up whenever a reminder changed.
    pub(crate) reminders: watch::Sender<u64>,
    pub(crate) config: watch::Receiver<Config>,
    pub(crate) clock: crate::writer::Clock,
    /// One reader of the spool at a time, so that its order is kept.
    pub(crate) spooling: Arc<Mutex<()>>,
    /// One message at a time that takes uploads without a thread, so that two of them never put the
    /// same file in place and away.
    pub(crate) binding: Arc<Mutex<()>>,
}

impl Handler for Hub {
    type Request = HubRequest;

    async fn handle(&self, _peer: Peer, request: HubRequest) -> Answer {
        use HubRequest as R;
        let hub = self;
        match request {
            R::ListThreads(_) => hub.read(chat::threads).await,
            R::ListMessages(r) => hub.read(move |db| chat::messages(db, &r)).await,
            R::GetMessage(r) => {
                hub.read(move |db| {
                    agent::must_have_thread(db, &r.agent)?;
                    message::find(db, &r.agent, &r.id)
                })
                .await
            }
            R::SendMessage(r) => Answer::of(hub.send(r).await),
            R::RetryMessage(r) => hub.write(move |tx, _| chat::retry(tx, &r)).await,
            R::CancelMessage(r) => hub.write(move |tx, _| chat::cancel(tx, &r)).await,
            R::MarkRead(r) => hub.write(move |tx, _| chat::mark_read(tx, &r)).await,
            R::AgentPost(r) => Answer::of(hub.post(r).await),
            R::PostNote(r) => hub.write(move |tx, _| note::request(tx, &r)).await,
            R::OpenAsk(r) => hub.write(move |tx, _| asks::open(tx, &r)).await,
            R::WaitAsk(r) => Answer::of(hub.wait_ask(r).await),
            R::StopWaiting(r) => hub.write(move |tx, _| asks::stop_waiting(tx, &r).map(|_| Done {})).await,
            R::WithdrawAsk(r) => hub.write(move |tx, _| asks::withdraw(tx, &r)).await,
            R::AnswerAsk(r) => hub.write(move |tx, _| person::answer(tx, &r)).await,
            R::DismissAsk(r) => hub.write(move |tx, _| person::dismiss(tx, &r)).await,
            R::AskPermission(r) => Answer::of(hub.ask_permission(r).await),
            R::PermissionGone(r) => hub.write(move |tx, _| permission::gone(tx, &r).map(|()| Done {})).await,
            R::GetAttachment(r) => hub.read(move |db| attachment::find(db, &r)).await,
            R::BeginUpload(r) => hub.read(move |db| attachment::begin(db, &r)).await,
            R::AddUpload(r) => Answer::of(hub.add_upload(r).await),
            R::PruneAttachments(r) => Answer::of(hub.prune_attachments(r).await),
            R::ScheduleReminder(r) => {
                hub.write(move |tx, _| reminder::schedule(tx, &r, &TimeZone::system())).await
            }
            R::ListReminders(r) => hub.read(move |db| reminder::list(db, &r, &TimeZone::system())).await,
            R::CancelReminder(r) => hub.write(move |tx, _| reminder::cancel(tx, &r)).await,
            R::FireReminders(_) => hub.write(move |tx, _| reminder::fire(tx, &TimeZone::system())).await,
            R::PruneReminders(_) => hub.write(move |tx, _| reminder::prune(tx).map(|()| Done {})).await,
            R::WatchReminders(_) => hub.watch_reminders(),
            R::AddClient(r) => {
                let config = hub.config();
                hub.write(move |tx, _| api_client::add(tx, &config, &r)).await
            }
            R::ListClients(_) => {
                let config = hub.config();
                hub.read(move |db| api_client::list(db, &config)).await
            }
            R::RemoveClient(r) => hub.write(move |tx, _| api_client::remove(tx, &r).map(|()| Done {})).await,
            R::AuthClient(r) => hub.read(move |db| api_client::authenticate(db, &r)).await,
            R::ClientMessage(r) => {
                let config = hub.config();
                hub.write(move |tx, _| api_client::send(tx, &config, &r)).await
            }
            R::ThreadPost(r) => {
                let config = hub.config();
                hub.write(move |tx, _| api_client::post(tx, &config, &r)).await
            }
            R::TakeNote(r) => Answer::of(hub.take_note(r).await),
            R::CheckNote(r) => hub.read(move |db| voice::check(db, &r)).await,
            R::EndNote(r) => hub.write(move |tx, _| voice::end(tx, &r).map(|()| Done {})).await,
            R::PutAgent(r) => hub.write(move |tx, tmux| agent::put(tx, tmux, &r)).await,
            R::ListAgents(_) => {
                let tmux = hub.tmux_socket.clone();
                hub.read(move |db| agent::list(db, &tmux)).await
            }
            R::GetAgent(r) => {
                let tmux = hub.tmux_socket.clone();
                hub.read(move |db| agent::load(db, &tmux, &r.name)).await
            }
            R::RemoveAgent(r) => {
                hub.write(move |tx, tmux| agent::remove(tx, tmux, &r.name).map(|()| Done {})).await
            }
            R::SetDesired(r) => hub.write(move |tx, tmux| agent::set_desired(tx, tmux, &r)).await,
            R::BeginLaunch(r) => hub.write(move |tx, tmux| agent::begin_launch(tx, tmux, &r)).await,
            R::ReportAgent(r) => hub.write(move |tx, tmux| agent::report(tx, tmux, &r)).await,
            R::EndLaunch(r) => hub.write(move |tx, tmux| agent::end_launch(tx, tmux, &r)).await,
            R::SuspendAgent(r) => hub.write(move |tx, tmux| suspend::suspend(tx, tmux, &r)).await,
            // Nothing that has to be remembered: whoever missed it waits no longer than a bound.
            R::ToolsListed(r) => {
                hub.watchers.publish(&[Wake::Tools { name: r.name, launch: r.launch }]);
                Answer::of(Ok::<_, Fault>(Done {}))
            }
            R::ListSessions(r) => hub.read(move |db| session::newest(db, &r)).await,
            R::SetWaiting(r) => hub.write(move |tx, _| agent::set_waiting(tx, &r).map(|()| Done {})).await,
            R::AuthAgent(r) => hub.read(move |db| agent::authenticate(db, &r)).await,
            R::NextDelivery(r) => hub.read(move |db| delivery::next(db, &r.agent)).await,
            R::BeginHandover(r) => hub.write(move |tx, tmux| delivery::begin(tx, tmux, &r)).await,
            R::ReportOutcome(r) => {
                // A hook that could not reach us may have left as a file what says the contrary.
                if !matches!(r.outcome, leo_ipc::delivery::Outcome::Delivered { .. }) {
                    hub.drain_spool().await;
                }
                hub.write(move |tx, _| delivery::outcome(tx, &r)).await
            }
            R::OpenTurns(r) => hub.read(move |db| delivery::open_turns(db, &r)).await,
            R::BindTurn(r) => hub.write(move |tx, _| delivery::bind(tx, &r).map(|()| Done {})).await,
            R::PromptRefused(r) => {
                hub.write(move |tx, tmux| delivery::refused(tx, tmux, &r).map(|()| Done {})).await
            }
            R::TurnInterrupted(r) => {
                hub.write(move |tx, tmux| delivery::interrupted(tx, tmux, &r).map(|()| Done {})).await
            }
            R::ListTasks(_) => {
                let config = hub.config();
                hub.read(move |db| task::list(db, &config)).await
            }
            R::ListRuns(r) => {
                let config = hub.config();
                hub.read(move |db| task::list_runs(db, &config, &r)).await
            }
            R::EnableTask(r) => {
                let config = hub.config();
                hub.write(move |tx, _| task::enable(tx, &config, &r)).await
            }
            R::SyncTasks(r) => {
                let config = hub.config();
                hub.write(move |tx, _| task::sync(tx, &config, &r)).await
            }
            R::ClaimRun(r) => {
                let config = hub.config();
                hub.write(move |tx, _| task::claim(tx, &config, &r)).await
            }
            R::BeginRun(r) => {
                let config = hub.config();
                hub.write(move |tx, _| task::begin(tx, &config, &r)).await
            }
            R::NoteAttempt(r) => hub.write(move |tx, _| task::attempt(tx, &r).map(|()| Done {})).await,
            R::EndRun(r) => {
                let config = hub.config();
                hub.write(move |tx, _| task::end(tx, &config, &r)).await
            }
            R::ReportTaskFailure(r) => {
                let config = hub.config();
                hub.write(move |tx, _| task::report_failure(tx, &config, &r)).await
            }
            R::WatchTasks(_) => {
                let mut changes = hub.tasks.subscribe();
                // The first item comes at once: whoever asks has seen nothing yet.
                changes.mark_changed();
                Answer::stream(stream::unfold(changes, |mut changes| async move {
                    changes.changed().await.ok()?;
                    Some((Ok(TasksChanged {}), changes))
                }))
            }
            R::ReportHook(r) => Answer::of(hub.hook(r).await),
            R::ListEvents(r) => {
                let epoch = hub.journal.epoch().to_owned();
                let limit = usize::try_from(r.limit).unwrap_or(journal::PAGE_EVENTS);
                hub.read(move |db| journal::page(db, &epoch, r.after, limit)).await
            }
            R::GetState(_) => {
                let (epoch, tmux) = (hub.journal.epoch().to_owned(), hub.tmux_socket.clone());
                hub.read(move |db| state::snapshot(db, &epoch, &tmux)).await
            }
            R::SubscribeEvents(r) => hub.subscribe(r.since).await,
            R::WatchAgents(_) => {
                let watch = hub.watchers.subscribe();
                Answer::stream(stream::unfold(watch, |watch| async move {
                    let wake = watch.next().await;
                    Some((Ok(wake), watch))
                }))
            }
            R::Unknown => Answer::unknown_request(),
        }
    }
}

impl Hub {
    /// The configuration as it is now.
    fn config(&self) -> Config {
        self.config.borrow().clone()
    }

    async fn read<T, F>(&self, work: F) -> Answer
    where
        T: Serialize + Send + 'static,
        F: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    {
        Answer::of(self.readers.read(work).await)
    }

    async fn write<T, F>(&self, work: F) -> Answer
    where
        T: Serialize + Send + 'static,
        F: FnOnce(&mut Tx<'_>, &str) -> Outcome<T> + Send + 'static,
    {
        let tmux = self.tmux_socket.clone();
        Answer::of(self.writer.run(move |tx| work(tx, &tmux)).await)
    }

    /// Accepts a message. Uploads that get their thread by it have their files in the thread's folder
    /// before it is stored, so that the agent never reads of a path that is not there.
    async fn send(&self, request: SendMessage) -> Result<Accepted, Fault> {
        let home = self.home.clone();
        if request.attachments.is_empty() {
            return self.writer.run(move |tx| chat::send(tx, &home, &request)).await;
        }
        let _one = self.binding.lock().await;
        let (asked, there) = (request.clone(), home.clone());
        let moves = self.readers.read(move |db| attachment::moves(db, &there, &asked)).await?;
        let linked = moves.clone();
        blocking(move || place::link(&linked))
            .await?
            .map_err(|e| Fault::internal(format!("a file cannot be put into its thread's folder: {e}")))?;
        let sent = self.writer.run(move |tx| chat::send(tx, &home, &request)).await;
        let stored = sent.is_ok();
        blocking(move || place::unlink(&moves, stored)).await?;
        sent
    }

    /// Stores an upload: its file first, then its row.
    async fn add_upload(&self, request: AddUpload) -> Result<Uploaded, Fault> {
        let path = attachment::check(&self.home, &request)?;
        let (part, asked) = (self.home.upload_part(&request.id), request.clone());
        let file = blocking(move || {
            place::settle(&part, &path)?;
            let head = place::head(&path)?;
            let mime = attachment::mime::of(asked.mime.as_deref(), &asked.filename, &head);
            let AddUpload { id, filename, bytes, sha256, .. } = asked;
            std::io::Result::Ok(attachment::File { id, filename, mime, bytes, sha256: Some(sha256), path })
        })
        .await?
        .map_err(|e| Fault::internal(format!("an upload cannot be put into its place: {e}")))?;
        let folder = file.path.parent().map(std::path::Path::to_owned);
        let stored = self.writer.run(move |tx| attachment::add(tx, &request, &file)).await;
        // A second copy of what the same key has uploaded before, or an upload that was refused.
        if !stored.as_ref().is_ok_and(|uploaded| uploaded.created)
            && let Some(folder) = folder
        {
            let repeated = stored.as_ref().ok().map(|uploaded| uploaded.attachment.id.clone());
            let same = repeated.is_some_and(|id| folder.ends_with(id));
            if !same {
                blocking(move || place::remove_orphans(&[folder])).await?;
            }
        }
        stored
    }

    async fn prune_attachments(&self, request: PruneAttachments) -> Result<Prunable, Fault> {
        let prunable = self.writer.run(move |tx| prune::prune(tx, &request)).await?;
        if prunable.folders.is_empty() {
            let home = self.home.clone();
            let old = blocking(move || place::old_folders(&home, SystemTime::now())).await?;
            let orphans = self.readers.read(move |db| prune::unknown(db, old)).await?;
            blocking(move || place::remove_orphans(&orphans)).await?;
        }
        Ok(prunable)
    }

    async fn post(&self, request: leo_ipc::chat::AgentPost) -> Result<Posted, Fault> {
        post::check(&request)?;
        if request.files.is_empty() {
            return self.writer.run(move |tx| post::store(tx, &request, &[])).await;
        }
        // A call that was asked again must not copy its files again.
        let asked = request.clone();
        if let Some(posted) = self.readers.read(move |db| post::repeated(db, &asked)).await? {
            return Ok(posted);
        }
        let (home, asked) = (self.home.clone(), request.clone());
        let staged = tokio::task::spawn_blocking(move || post::stage(&home, &asked))
            .await
            .map_err(|_| Fault::internal("copying files ended abnormally"))??;
        let kept = staged.clone();
        let stored = self.writer.run(move |tx| post::store(tx, &request, &staged)).await;
        if stored.is_err() {
            let _ = tokio::task::spawn_blocking(move || post::discard(&kept)).await;
        }
        stored
    }

    /// Records a hook's event, after whatever was spooled before it. An event that only says that the
    /// agent is at work is answered before it is on disk: it comes at every tool call, which must not
    /// wait for our disk, and losing it loses nothing.
    async fn hook(&self, request: ReportHook) -> Result<Done, Fault> {
        if hook::is_passing(&request.event) {
            let tmux = self.tmux_socket.clone();
            self.writer.submit(move |tx| hook::report(tx, &tmux, &request)).await?;
            return Ok(Done {});
        }
        self.drain_spool().await;
        self.record(request).await.map(|()| Done {})
    }

    async fn record(&self, request: ReportHook) -> Result<(), Fault> {
        let tmux = self.tmux_socket.clone();
        self.writer.run(move |tx| hook::report(tx, &tmux, &request)).await
    }

    /// Records spooled events and deletes their files. What the database refuses for good is deleted
    /// too; what fails for now stays.
    pub(crate) async fn drain_spool(&self) {
        let _one = self.spooling.lock().await;
        let dir = self.home.spool();
        let spooled = tokio::task::spawn_blocking(move || spool::read(&dir)).await.unwrap_or_default();
        for one in spooled {
            let keep = match one.report {
                None => {
                    tracing::warn!("a spooled hook event cannot be read; dropped");
                    false
                }
                Some(report) => match self.record(report).await {
                    Ok(()) => false,
                    Err(fault) => fault.code != "unauthorized" && fault.code != "bad_request",
                },
            };
            if keep {
                return;
            }
            let _ = std::fs::remove_file(&one.path);
        }
    }

    /// Waits until there is a voice note to transcribe.
    async fn take_note(&self, request: TakeNote) -> Result<Note, Fault> {
        let mut changed = self.asks.subscribe();
        loop {
            changed.borrow_and_update();
            // Only a look costs nothing: every ask that changes wakes this, too.
            if self.readers.read(voice::any).await? {
                let asked = request.clone();
                if let Some(note) = self.writer.run(move |tx| voice::take(tx, &asked)).await? {
                    return Ok(note);
                }
            }
            changed.changed().await.map_err(|_| Fault::unavailable("the hub is stopping"))?;
        }
    }

    /// Waits until an ask is settled. The wait is on the database's state plus a wake-up, so that it
    /// survives a restart of whoever waits and of this process.
    async fn wait_ask(&self, request: WaitAsk) -> Result<AskResult, Fault> {
        let mut changed = self.asks.subscribe();
        let asked = request.clone();
        self.writer.run(move |tx| asks::begin_wait(tx, &asked)).await?;
        loop {
            changed.borrow_and_update();
            let asked = request.clone();
            if let Some(result) = self.readers.read(move |db| asks::settled(db, &asked)).await? {
                self.writer.run(move |tx| asks::collect(tx, &request)).await?;
                return Ok(result);
            }
            changed.changed().await.map_err(|_| Fault::unavailable("the hub is stopping"))?;
        }
    }

    /// Holds a harness's hook until its prompt is settled.
    async fn ask_permission(&self, request: AskPermission) -> Result<Decision, Fault> {
        self.drain_spool().await;
        let mut changed = self.asks.subscribe();
        let key = request.hook_key.as_str().to_owned();
        let chat = self.config.borrow().chat.clone();
        if !self.writer.run(move |tx| permission::open(tx, &chat, &request)).await? {
            return Ok(Decision::Nothing {});
        }
        // Whatever ends this wait without a decision is a hook that is no longer connected.
        let mut held = Held { writer: self.writer.clone(), hook_key: Some(key.clone()) };
        loop {
            changed.borrow_and_update();
            let asked = key.clone();
            if let Some(decision) = self.readers.read(move |db| permission::decision(db, &asked)).await? {
                held.hook_key = None;
                return Ok(decision);
            }
            changed.changed().await.map_err(|_| Fault::unavailable("the hub is stopping"))?;
        }
    }

    /// The next due time, now and after each change of a reminder.
    fn watch_reminders(&self) -> Answer {
        let mut changed = self.reminders.subscribe();
        changed.mark_changed();
        let readers = self.readers.clone();
        Answer::stream(stream::unfold((changed, readers), |(mut changed, readers)| async move {
            changed.changed().await.ok()?;
            let item = readers.read(reminder::next_due).await.map(|next| NextReminder { next });
            Some((item, (changed, readers)))
        }))
    }

    async fn subscribe(&self, since: Option<leo_ipc::EventId>) -> Answer {
        let started = Cursor::start(self.journal.clone(), self.readers.clone(), since).await;
        let (cursor, start) = match started {
            Ok(started) => started,
            Err(fault) => return Answer::Fault(fault),
        };
        let events = stream::unfold(cursor, |mut cursor| async move {
            match cursor.next().await {
                Ok(Some(events)) => Some((Ok(EventItem::Events { events }), cursor)),
                Ok(None) => None,
                Err(fault) => Some((Err(fault), cursor)),
            }
        });
        Answer::stream(futures_util::StreamExt::chain(stream::iter([Ok(start)]), events))
    }
}

/// Notes that a hook has left when its wait is dropped.
struct Held {
    writer: Writer,
    hook_key: Option<String>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(key) = self.hook_key.take() {
            let writer = self.writer.clone();
            tokio::spawn(async move { writer.submit(move |tx| permission::detached(tx, &key)).await });
        }
    }
}

/// Work with the disk, beside the runtime's threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Fault::internal("work with files ended abnormally"))
}
