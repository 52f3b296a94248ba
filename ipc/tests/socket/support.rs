//! A server whose requests do one thing each, and a raw peer.

use futures_util::stream;
use interprocess::os::unix::uds_local_socket::tokio::Listener;
use leo_ipc::{
    Done, Envelope, Fault, Generation, IpcError, Kind,
    chat::{Accepted, MessagePage, Threads},
    client::Client,
    codec,
    event::{EventItem, JournalEvent},
    frame::{self, MAX_FRAME},
    hello::{Hello, HelloReply, Role},
    hub::HubRequest,
    server::{Answer, Handler, Peer, serve},
};
use serde::Serialize;
use std::{
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};
use tokio_util::sync::CancellationToken;

/// Nothing here takes as long, unless it is broken.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Size of an item of the endless stream.
pub(crate) const ITEM: usize = 64 * 1024;

/// Counts what the server does.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Calls that hang now.
    pub(crate) hanging: AtomicUsize,
    /// Streams that have not ended.
    pub(crate) streaming: AtomicUsize,
    /// Items that streams have made.
    pub(crate) items: AtomicUsize,
    /// Calls answered.
    pub(crate) answered: AtomicUsize,
}

/// What the requests do: `ListThreads` is answered, `GetMessage` hangs, `GetState` panics,
/// `ListMessages` gets more than a frame holds, `SendMessage` is refused, and [`Endless`] streams.
#[derive(Default)]
pub(crate) struct Odd {
    pub(crate) counts: Counts,
}

struct Hanging<'a>(&'a AtomicUsize);

struct StreamingFrom(Arc<Odd>);

impl Drop for StreamingFrom {
    fn drop(&mut self) {
        self.0.counts.streaming.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Hanging<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Handler for Odd {
    type Request = HubRequest;

    async fn handle(&self, _peer: Peer, request: HubRequest) -> Answer {
        match request {
            HubRequest::ListThreads(_) => {
                self.counts.answered.fetch_add(1, Ordering::SeqCst);
                Answer::of(Ok(Threads { threads: Vec::new() }))
            }
            HubRequest::GetMessage(_) => {
                self.counts.hanging.fetch_add(1, Ordering::SeqCst);
                let _hanging = Hanging(&self.counts.hanging);
                std::future::pending().await
            }
            HubRequest::GetState(_) => panic!("this request panics"),
            HubRequest::ListMessages(_) => Answer::of(Ok("x".repeat(MAX_FRAME))),
            HubRequest::SendMessage(_) => Answer::of::<Accepted>(Err(Fault::new("too_large", "No."))),
            HubRequest::RemoveAgent(_) => Answer::of(Ok(Done {})),
            _ => Answer::unknown_request(),
        }
    }
}

/// An item that says which it is.
pub(crate) fn item(seq: u64) -> EventItem {
    let event = JournalEvent { seq, kind: "k".to_owned(), data: "x".repeat(ITEM) };
    EventItem::Events { events: vec![event] }
}

/// As [`Odd`], but its stream has no end and counts its items.
pub(crate) struct Endless(pub(crate) Arc<Odd>);

impl Handler for Endless {
    type Request = HubRequest;

    async fn handle(&self, peer: Peer, request: HubRequest) -> Answer {
        let HubRequest::SubscribeEvents(_) = request else { return self.0.handle(peer, request).await };
        self.0.counts.streaming.fetch_add(1, Ordering::SeqCst);
        let from = StreamingFrom(self.0.clone());
        Answer::stream(stream::iter((0..).map(move |seq| {
            from.0.counts.items.fetch_add(1, Ordering::SeqCst);
            Ok(item(seq))
        })))
    }
}

/// A served socket, whose listener is held as the supervisor holds it.
pub(crate) struct Scene {
    dir: tempfile::TempDir,
    held: UnixListener,
    pub(crate) odd: Arc<Odd>,
    pub(crate) stop: CancellationToken,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Scene {
    /// A bound socket that nobody serves yet.
    pub(crate) fn held() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let held = UnixListener::bind(dir.path().join("s")).unwrap();
        Scene { dir, held, odd: Arc::default(), stop: CancellationToken::new() }
    }

    /// A socket that is served by this runtime.
    pub(crate) fn served() -> Scene {
        let scene = Scene::held();
        tokio::spawn(serve(scene.listener(), Arc::new(Endless(scene.odd.clone())), scene.stop.clone()));
        scene
    }

    /// A duplicate of the held listener, as a worker gets it. Needs a runtime.
    pub(crate) fn listener(&self) -> Listener {
        Listener::try_from(OwnedFd::from(self.held.try_clone().unwrap())).unwrap()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    pub(crate) fn client(&self) -> Client<HubRequest> {
        Client::new(self.path(), Role::Cli, Generation(0))
    }

    /// A connection that has said nothing.
    pub(crate) async fn stranger(&self) -> Raw {
        Raw(UnixStream::connect(self.path()).await.unwrap())
    }

    /// A connection that has shaken hands.
    pub(crate) async fn raw(&self) -> Raw {
        let mut raw = self.stranger().await;
        raw.send(&Hello::new(Role::Cli, Generation(0))).await;
        let reply: HelloReply = codec::decode(&raw.frame().await.expect("a reply")).unwrap();
        reply.accept().unwrap();
        raw
    }

    /// The others do not notice: somebody else is served as ever.
    pub(crate) async fn assert_alive(&self) {
        let threads = self.client().call(leo_ipc::chat::ListThreads {}, SOON).await.unwrap();
        assert!(threads.threads.is_empty());
    }
}

/// A peer that can say anything.
pub(crate) struct Raw(pub(crate) UnixStream);

impl Raw {
    pub(crate) async fn bytes(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn send(&mut self, value: &impl Serialize) {
        let frame = frame::seal(&codec::encode(value).unwrap(), MAX_FRAME).unwrap();
        self.bytes(&frame).await;
    }

    pub(crate) async fn request(&mut self, id: u64, body: Vec<u8>) {
        self.send(&Envelope { kind: Kind::Request, id, body }).await;
    }

    /// The next frame; `None` when the server has closed.
    pub(crate) async fn frame(&mut self) -> Option<Vec<u8>> {
        tokio::time::timeout(SOON, frame::read(&mut self.0, MAX_FRAME)).await.unwrap().ok().flatten()
    }

    /// The refusal of request `id`.
    pub(crate) async fn fault(&mut self, id: u64) -> Fault {
        let envelope: Envelope = codec::decode(&self.frame().await.expect("an answer")).unwrap();
        assert_eq!((envelope.kind, envelope.id), (Kind::Fault, id));
        codec::decode(&envelope.body).unwrap()
    }

    /// Waits until the server has closed the connection, and says how much it sent before.
    pub(crate) async fn closed(&mut self) -> usize {
        let mut got = Vec::new();
        match tokio::time::timeout(SOON, self.0.read_to_end(&mut got)).await.expect("closed in time") {
            Ok(n) => n,
            // Closed with something of ours unread.
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => got.len(),
            Err(e) => panic!("{e}"),
        }
    }
}

/// Waits for a condition.
pub(crate) async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("waited for: {what}"));
}

/// The page that nobody gets, to name its type.
pub(crate) type NoPage = Result<MessagePage, IpcError>;
