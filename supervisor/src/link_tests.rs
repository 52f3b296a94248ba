use super::*;
use crate::{
    board::{Board, Entry},
    worker::WorkerName,
};
use leo_ipc::{
    control::{WorkerState, WorkerStatus},
    hello::HelloReply,
};

const GENERATION: Generation = Generation(7);

/// The worker's end of a conversation.
struct Worker {
    socket: UnixStream,
    events: mpsc::Receiver<(Generation, Event)>,
    config: watch::Sender<Config>,
    drain: watch::Sender<Option<Duration>>,
    beat: watch::Sender<u64>,
    mcp_agents: watch::Sender<Vec<AgentName>>,
    board: Board,
}

fn start() -> Start {
    Start {
        worker: "agents".to_owned(),
        generation: GENERATION,
        home: "/h".to_owned(),
        boot_id: "b".to_owned(),
        supervisor_pid: 1,
        program: "/leo".to_owned(),
        listeners: vec!["agents".to_owned()],
        heartbeat_s: 5,
        config: Config::default(),
    }
}

fn begin() -> Worker {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (said, events) = mpsc::channel(8);
    let (config, configs) = watch::channel(Config::default());
    let (drain, drained) = watch::channel(None);
    let beat = watch::Sender::new(0);
    let mcp_agents = watch::Sender::new(Vec::new());
    let board = Board::new();
    let told = Told { config: configs, workers: Some(board.watch()), beat: beat.subscribe(), drain: drained };
    let says = Says { events: said, mcp_agents: Some(mcp_agents.clone()) };
    tokio::spawn(converse(ours, start(), told, says));
    Worker { socket: theirs, events, config, drain, beat, mcp_agents, board }
}

impl Worker {
    async fn greet(&mut self, hello: &Hello) -> HelloReply {
        frame::write(&mut self.socket, &codec::encode(hello).unwrap(), MAX_BEFORE_HELLO).await.unwrap();
        let reply = frame::read(&mut self.socket, MAX_BEFORE_HELLO).await.unwrap().unwrap();
        codec::decode(&reply).unwrap()
    }

    async fn hears(&mut self) -> ToWorker {
        let bytes = frame::read(&mut self.socket, MAX_FRAME).await.unwrap().unwrap();
        codec::decode(&bytes).unwrap()
    }

    async fn says(&mut self, message: &FromWorker) {
        frame::write(&mut self.socket, &codec::encode(message).unwrap(), MAX_FRAME).await.unwrap();
    }

    async fn event(&mut self) -> Event {
        let (generation, event) = self.events.recv().await.unwrap();
        assert_eq!(generation, GENERATION);
        event
    }
}

#[tokio::test]
async fn a_worker_is_greeted_and_told_what_changes() {
    let mut worker = begin();
    worker.greet(&Hello::new(Role::Worker, GENERATION)).await.accept().unwrap();
    assert_eq!(worker.hears().await, ToWorker::Start(Box::new(start())));
    assert_eq!(worker.hears().await, ToWorker::Workers { workers: Vec::new() });

    worker.beat.send_modify(|turn| *turn += 1);
    assert_eq!(worker.hears().await, ToWorker::Ping { turn: 1 });
    worker.says(&FromWorker::Heartbeat { turn: 1 }).await;
    worker.says(&FromWorker::Unknown).await;
    worker.says(&FromWorker::McpAgents { agents: vec!["a".parse().unwrap()] }).await;
    worker.says(&FromWorker::ExtendStart { ms: 9, why: "a migration".to_owned() }).await;
    worker.says(&FromWorker::Fatal { reason: "the disk".to_owned() }).await;
    assert_eq!(worker.event().await, Event::Heartbeat);
    assert_eq!(worker.event().await, Event::ExtendStart(Duration::from_millis(9)));
    assert_eq!(worker.event().await, Event::Fatal("the disk".to_owned()));
    assert_eq!(worker.mcp_agents.borrow().len(), 1);

    let status = WorkerStatus {
        name: "hub".to_owned(),
        pid: None,
        state: WorkerState::Failed,
        restarts: 0,
        since: None,
        reason: None,
        rss_bytes: None,
        cpu_percent: None,
    };
    worker.board.put(&WorkerName::Hub, Entry { status: status.clone(), generation: Generation(1) });
    assert_eq!(worker.hears().await, ToWorker::Workers { workers: vec![status] });
    let mut new = Config::default();
    new.chat.enabled = false;
    worker.config.send_replace(new.clone());
    assert_eq!(worker.hears().await, ToWorker::Config { config: Box::new(new) });
    worker.drain.send_replace(Some(Duration::from_secs(5)));
    assert_eq!(worker.hears().await, ToWorker::Drain { within_ms: 5000 });
}

#[tokio::test]
async fn a_stranger_on_the_socket_is_refused_and_reported() {
    for hello in [
        Hello::new(Role::Worker, Generation(6)),
        Hello::new(Role::Cli, GENERATION),
        Hello { min: 900, max: 900, ..Hello::new(Role::Worker, GENERATION) },
    ] {
        let mut worker = begin();
        assert!(worker.greet(&hello).await.accept().is_err(), "{hello:?}");
        assert!(matches!(worker.event().await, Event::Misbehaved(_)), "{hello:?}");
    }
}

#[tokio::test]
async fn a_bad_frame_is_reported_and_an_end_is_not() {
    for (bytes, reported) in [(&b"\0\0\0\x01\xc1"[..], true), (b"\xff\xff\xff\xff", true), (b"\0\0", false)] {
        let mut worker = begin();
        worker.greet(&Hello::new(Role::Worker, GENERATION)).await.accept().unwrap();
        use tokio::io::AsyncWriteExt;
        worker.socket.write_all(bytes).await.unwrap();
        worker.socket.shutdown().await.unwrap();
        drop(worker.socket);
        // The channel ends when the conversation does.
        let event =
            tokio::time::timeout(Duration::from_secs(20), worker.events.recv()).await.expect("in time");
        assert_eq!(matches!(event, Some((_, Event::Misbehaved(_)))), reported, "{bytes:?}: {event:?}");
    }
}
