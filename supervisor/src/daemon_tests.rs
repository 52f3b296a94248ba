//! The daemon with a shell script for its workers: what it does with real processes, sockets and
//! signals, without what workers do.

use super::*;
use crate::board::Entry;
use leo_ipc::{
    Generation, IpcError,
    client::Client,
    control::{ControlRequest, GetStatus, RestartWorker},
    hello::Role,
};
use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{fs, os::unix::fs::PermissionsExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PATIENCE: Duration = Duration::from_secs(20);

/// A home with a program for its workers, and a daemon that runs there.
struct Running {
    dir: tempfile::TempDir,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<ExitCode>,
}

/// Each worker is ready at once, starts a child in its group, notes the child's pid, and lives until
/// its lifeline ends. A file `exit-KIND` makes it end with that code instead.
fn script(dir: &tempfile::TempDir) -> PathBuf {
    let program = dir.path().join("worker.sh");
    let text = format!(
        "#!/bin/sh\ncd {dir}\n[ -e exit-$2 ] && exit $(cat exit-$2)\n\
         sleep 1000 <&- >&- 2>&- 3<&- 4<&- 5<&- &\necho $! > child-$2.new; mv child-$2.new child-$2\n\
         echo >&5; exec 5>&-; echo hello from $2 >&2; read x <&4\n",
        dir = dir.path().display()
    );
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

fn home(dir: &tempfile::TempDir) -> Home {
    let home = Home::at(dir.path().join("h")).unwrap();
    sockets::prepare_folders(&home).unwrap();
    fs::write(home.config(), "web: {port: 0}\n").unwrap();
    home
}

fn prepare(dir: &tempfile::TempDir) -> Result<Daemon, StartError> {
    let home = home(dir);
    let logs = Logs::start(home.logs()).unwrap();
    Daemon::prepare(home, logs, script(dir))
}

fn start(dir: tempfile::TempDir) -> Running {
    let daemon = prepare(&dir).unwrap();
    let shared = daemon.shared();
    Running { dir, shared, task: tokio::spawn(daemon.run()) }
}

impl Running {
    async fn wait_for(&self, name: &WorkerName, what: impl Fn(&Entry) -> bool) -> Entry {
        let mut board = self.shared.board.watch();
        let seen = board.wait_for(|entries| entries.get(name).is_some_and(&what));
        tokio::time::timeout(PATIENCE, seen).await.expect("in time").unwrap()[name].clone()
    }

    async fn running(&self, name: &WorkerName, after: u64) -> Entry {
        self.wait_for(name, |entry| entry.is_ready_after(Generation(after))).await
    }

    fn client(&self) -> Client<ControlRequest> {
        Client::new(self.shared.home.control_socket(), Role::Cli, Generation(0))
    }

    fn child_of(&self, kind: &str) -> Pid {
        let text = fs::read_to_string(self.dir.path().join(format!("child-{kind}"))).unwrap();
        Pid::from_raw(text.trim().parse().unwrap())
    }

    /// Asks twice, as an impatient person does: the scripts do not drain.
    async fn stop(self) -> (ExitCode, tempfile::TempDir) {
        self.shared.stop.cancel();
        let orders = self.shared.orders.clone();
        let impatient = tokio::spawn(async move {
            loop {
                let (told, _) = oneshot::channel();
                if orders.send(Order::Tell { who: None, event: Event::KillNow, told }).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let code = tokio::time::timeout(PATIENCE, self.task).await.expect("in time").unwrap();
        impatient.abort();
        (code, self.dir)
    }
}

fn is_gone(pid: Pid) -> bool {
    kill(pid, None) == Err(Errno::ESRCH)
}

async fn until(what: impl Fn() -> bool) {
    let waiting = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("in time");
}

#[tokio::test]
async fn a_killed_worker_is_back_and_what_it_started_is_gone() {
    let running = start(tempfile::tempdir().unwrap());
    let mut generation = 0;
    for _ in 0..12 {
        let entry = running.running(&WorkerName::Http, generation).await;
        generation = entry.generation.0;
        let child = running.child_of("http");
        kill(Pid::from_raw(entry.status.pid.unwrap().cast_signed()), Signal::SIGKILL).unwrap();
        running.wait_for(&WorkerName::Http, |e| e.generation.0 > generation).await;
        // An orphan is reaped by init in its own time; it is not running any more.
        until(|| is_gone(child) || is_zombie(child)).await;
    }
    let entry = running.running(&WorkerName::Http, generation).await;
    assert_eq!(entry.status.restarts, 12);
    let (code, dir) = running.stop().await;
    assert_eq!(code, ExitCode::Ok);
    let left: Vec<_> =
        fs::read_dir(dir.path().join("h/run")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["supervisor.lock"], "every socket is unlinked");
    assert!(!dir.path().join("h/state/leo.sock").exists());
    let log = fs::read_to_string(dir.path().join("h/state/logs/http.log")).unwrap();
    assert!(log.contains("hello from http"));
    // The lock is free again, and a start finds everything in order.
    drop(prepare(&dir).unwrap());
}

fn is_zombie(pid: Pid) -> bool {
    let state = std::process::Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output();
    state.is_ok_and(|out| out.stdout.first() == Some(&b'Z'))
}

#[tokio::test]
async fn a_failed_worker_is_answered_for_and_tried_again_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let exit = dir.path().join("exit-http");
    fs::write(&exit, "78").unwrap();
    let running = start(dir);
    let failed = running.wait_for(&WorkerName::Http, Entry::is_failed).await;
    assert!(failed.status.reason.unwrap().contains("exited with code 78"));
    // The others are not held back.
    running.running(&WorkerName::Hub, 0).await;
    running.running(&WorkerName::Agents, 0).await;
    for name in [WorkerName::Reminders, WorkerName::Tasks, WorkerName::Transcribe] {
        running.running(&name, 0).await;
    }

    let mut tcp = tokio::net::TcpStream::connect(running.shared.tcp.unwrap()).await.unwrap();
    tcp.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("\"unavailable\""), "{answer}");

    let ask = || RestartWorker { name: "http".to_owned() };
    let again = running.client().call(ask(), PATIENCE).await.unwrap_err();
    assert!(again.to_string().contains("http failed: it exited with code 78"), "{again}");
    fs::remove_file(&exit).unwrap();
    running.client().call(ask(), PATIENCE).await.unwrap();
    let status = running.client().call(GetStatus { measure: true }, PATIENCE).await.unwrap();
    let names: Vec<&str> = status.workers.iter().map(|w| w.name.as_str()).collect();
    assert_eq!(names, ["hub", "http", "agents", "reminders", "tasks", "transcribe"]);
    assert!(status.workers.iter().all(|w| w.state == WorkerState::Running && w.rss_bytes.is_some()));
    assert!(status.rss_bytes.is_some_and(|rss| rss > 0));

    let unknown = running.client().call(RestartWorker { name: "htpt".to_owned() }, PATIENCE).await;
    let Err(IpcError::Fault(fault)) = unknown else { panic!("{unknown:?}") };
    assert_eq!(
        fault.message,
        "there is no worker `htpt`; there are: hub, http, agents, reminders, tasks, transcribe"
    );
    running.stop().await;
}

#[tokio::test]
async fn mcp_workers_come_and_go_with_their_agents() {
    let running = start(tempfile::tempdir().unwrap());
    let agent: AgentName = "assistant".parse().unwrap();
    let name = WorkerName::Mcp(agent.clone());
    let socket = running.shared.home.mcp_socket(&agent);
    running.running(&WorkerName::Agents, 0).await;
    for name in [WorkerName::Reminders, WorkerName::Tasks, WorkerName::Transcribe] {
        running.running(&name, 0).await;
    }
    let mcp_agents = |agents: &[AgentName]| running.shared.mcp_agents.send_replace(agents.to_vec());
    let stopping = |entry: &Entry| entry.status.state == WorkerState::Stopping;
    let end = async || {
        let (told, _) = oneshot::channel();
        let order = Order::Tell { who: Some(name.to_string()), event: Event::KillNow, told };
        running.shared.orders.send(order).await.unwrap();
    };
    mcp_agents(std::slice::from_ref(&agent));
    running.running(&name, 0).await;
    assert!(socket.exists());
    // Back before its process has ended: its listener stays, and a new process follows.
    mcp_agents(&[]);
    running.wait_for(&name, stopping).await;
    mcp_agents(std::slice::from_ref(&agent));
    end().await;
    running.running(&name, 1).await;
    assert!(socket.exists());
    // Gone for good, and back much later.
    mcp_agents(&[]);
    running.wait_for(&name, stopping).await;
    end().await;
    until(|| !socket.exists()).await;
    mcp_agents(std::slice::from_ref(&agent));
    let before = running.running(&name, 0).await;
    assert!(socket.exists());
    // A headless run in its name keeps it, whatever becomes of the agent.
    running.shared.mcp_runs.send_replace(vec![agent.clone()]);
    mcp_agents(&[]);
    let marker: AgentName = "marker".parse().unwrap();
    running.shared.mcp_runs.send_replace(vec![agent.clone(), marker.clone()]);
    running.running(&WorkerName::Mcp(marker), 0).await;
    assert_eq!(running.running(&name, 0).await.status.pid, before.status.pid);
    running.shared.mcp_runs.send_replace(Vec::new());
    running.wait_for(&name, stopping).await;
    running.stop().await;
}

#[tokio::test]
async fn a_second_supervisor_is_refused_and_disturbs_nothing() {
    let running = start(tempfile::tempdir().unwrap());
    let entry = running.running(&WorkerName::Http, 0).await;
    let refused = prepare(&running.dir).err().unwrap();
    assert_eq!(refused.exit_code(), ExitCode::Temporary);
    assert!(refused.to_string().contains(&format!("(pid {})", std::process::id())), "{refused}");
    let status = running.client().call(GetStatus::default(), PATIENCE).await.unwrap();
    let http = status.workers.iter().find(|w| w.name == "http").unwrap();
    assert_eq!(http.pid, entry.status.pid);
    running.stop().await;
}

#[tokio::test]
async fn a_bad_configuration_leaves_the_last_good_one_in_force() {
    let running = start(tempfile::tempdir().unwrap());
    running.running(&WorkerName::Agents, 0).await;
    for name in [WorkerName::Reminders, WorkerName::Tasks, WorkerName::Transcribe] {
        running.running(&name, 0).await;
    }
    let file = running.shared.home.config();
    fs::write(&file, "web: {port: 0}\nchat: {enabeld: false}\n").unwrap();
    let refused = running.client().call(leo_ipc::control::Reload {}, PATIENCE).await.unwrap_err().to_string();
    assert!(refused.contains("leo.yaml:2: unknown key `enabeld`; did you mean `enabled`?"), "{refused}");
    let status = running.client().call(GetStatus::default(), PATIENCE).await.unwrap();
    assert!(status.config_error.is_some());
    assert!(running.shared.config.borrow().chat.enabled);

    fs::write(&file, "web: {port: 1}\nchat: {enabled: false}\n").unwrap();
    let done = running.client().call(leo_ipc::control::Reload {}, PATIENCE).await.unwrap();
    assert_eq!(done.needs_restart, ["web.port"]);
    assert!(!running.shared.config.borrow().chat.enabled);
    assert_eq!(running.shared.config_error(), None);
    running.stop().await;
}

#[tokio::test]
async fn a_supervisor_that_cannot_start_says_why_and_leaves_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let home = home(&dir);
    fs::write(home.hub_socket(), "a file").unwrap();
    let refused = prepare(&dir).err().unwrap();
    assert_eq!(refused.exit_code(), ExitCode::Config);
    assert!(refused.to_string().ends_with("hub.sock is not a socket: move it away"), "{refused}");
    fs::remove_file(home.hub_socket()).unwrap();
    drop(prepare(&dir).unwrap());
}
