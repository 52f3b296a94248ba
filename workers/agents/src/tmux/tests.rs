//! Against a real tmux server of the test's own.

use super::{Key, *};
use std::{path::Path, time::Instant};
use tmux_interface::SendKeys;

/// A private server that ends with the test.
struct Server {
    tmux: Tmux,
    folder: tempfile::TempDir,
}

impl Server {
    fn new() -> Server {
        let env: BTreeMap<String, String> = std::env::vars().collect();
        let folder = tempfile::tempdir().unwrap();
        let name = format!("leo-test-{}", folder.path().file_name().unwrap().to_string_lossy());
        Server { tmux: Tmux::new(name, &env), folder }
    }

    /// A program that asks for bracketed paste and writes every byte it gets into a file.
    async fn recorder(&self) -> (String, PathBuf) {
        let file = self.folder.path().join("bytes");
        let script = format!("stty raw -echo; printf '\\033[?2004hready'; exec cat > {}", file.display());
        let argv = ["/bin/sh".to_owned(), "-c".to_owned(), script];
        let (pane, _) = self.start("recorder", "l1", &argv).await.unwrap();
        self.shows(&pane, "ready").await;
        (pane, file)
    }

    async fn start(&self, name: &str, launch: &str, argv: &[String]) -> Result<(String, u32), TmuxError> {
        self.tmux.new_session(NewSession { name, launch, folder: self.folder.path(), argv }).await
    }

    async fn shows(&self, pane: &str, text: &str) {
        wait_for(async || self.tmux.capture(pane).await.is_ok_and(|shown| shown.contains(text))).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::process::Command::new("tmux").args(["-L", &self.tmux.server, "kill-server"]).status();
    }
}

async fn wait_for(mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < Duration::from_secs(20), "the condition did not come true");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn received(file: &Path, end: &str) -> String {
    wait_for(async || std::fs::read(file).is_ok_and(|b| b.ends_with(end.as_bytes()))).await;
    String::from_utf8(std::fs::read(file).unwrap()).unwrap()
}

fn sh(script: &str) -> Vec<String> {
    ["/bin/sh", "-c", script].map(str::to_owned).to_vec()
}

#[test]
fn commands_and_trailing_semicolons() {
    let mut echo = TmuxCommand::new();
    echo.name("display-message").push_param("a;").push_param(";").push_param("b;c");
    assert_eq!(
        argv(&[echo.clone(), echo]),
        ["display-message", "a\\;", "\\;", "b;c", ";", "display-message", "a\\;", "\\;", "b;c"]
    );
}

#[tokio::test]
async fn a_paste_arrives_whole_and_in_brackets() {
    let server = Server::new();
    let (pane, file) = server.recorder().await;
    let text = for_paste("[Leo Chat] one\ntwo ⠋ Ж 😀 'quoted' #{pane_id} $HOME; x\u{1b}[201~y");
    server.tmux.paste(&pane, &text).await.unwrap();
    server.tmux.press(&pane, Key::Enter).await.unwrap();
    let got = received(&file, "\r").await;
    assert_eq!(got, format!("\u{1b}[200~{}\u{1b}[201~\r", text.replace('\n', "\r")));
}

#[tokio::test]
async fn three_hundred_kilobytes_arrive_whole() {
    let server = Server::new();
    let (pane, file) = server.recorder().await;
    let text: String = (0..300 * 1024 / 16).map(|n| format!("{n:015} ")).collect();
    server.tmux.paste(&pane, &text).await.unwrap();
    let got = received(&file, "\u{1b}[201~").await;
    assert!(got == format!("\u{1b}[200~{text}\u{1b}[201~"), "got {} bytes", got.len());
}

#[tokio::test]
async fn copy_mode_is_left_before_pasting() {
    let server = Server::new();
    let (pane, file) = server.recorder().await;
    server
        .tmux
        .run(&[tmux_interface::CopyMode::new().target_pane(pane.as_str()).build()], None)
        .await
        .unwrap();
    server.tmux.paste(&pane, "one\ntwo ").await.unwrap();
    server
        .tmux
        .run(&[tmux_interface::CopyMode::new().target_pane(pane.as_str()).build()], None)
        .await
        .unwrap();
    server.tmux.press(&pane, Key::Enter).await.unwrap();
    assert_eq!(received(&file, "\r").await, "\u{1b}[200~one\rtwo \u{1b}[201~\r");
}

#[tokio::test]
async fn no_buffer_stays_behind() {
    let server = Server::new();
    let (pane, file) = server.recorder().await;
    server.tmux.paste(&pane, "one ").await.unwrap();
    received(&file, "\u{1b}[201~").await;
    assert!(server.tmux.paste("%999", "lost ").await.is_err_and(|e| e.is_absent()));
    let mut list = TmuxCommand::new();
    list.name("list-buffers");
    assert_eq!(server.tmux.run(&[list], None).await.unwrap(), "");
}

#[tokio::test]
async fn sessions_know_their_launch_and_their_last_words() {
    let server = Server::new();
    assert_eq!(server.tmux.panes().await.unwrap(), []);
    assert!(!server.tmux.has_session("a").await.unwrap());
    let (pane, pid) =
        server.start("a", "launch-1", &sh("echo ⠋ last words; sleep 0.2; exit 3")).await.unwrap();
    wait_for(async || {
        server.tmux.collect().await;
        server.tmux.panes().await.unwrap().iter().any(|p| p.dead && p.exit_status.is_some())
    })
    .await;
    let found = server.tmux.panes().await.unwrap();
    let info = found.iter().find(|p| p.id == pane).unwrap();
    assert_eq!(
        (info.pid, info.exit_status, info.launch.as_str(), info.session.as_str()),
        (pid, Some(3), "launch-1", "a")
    );
    let words = server.tmux.history(&pane, 100).await.unwrap();
    assert!(words.contains("⠋ last words"), "{words:?}");

    let again = server.start("a", "launch-2", &sh("exec sleep 60")).await;
    assert!(again.is_err_and(|e| e.is_duplicate()), "a name is never taken over");
    server.tmux.kill_session("a", "launch-2").await.unwrap();
    assert!(server.tmux.has_session("a").await.unwrap(), "a foreign launch is left alone");
    server.tmux.kill_session("a", "launch-1").await.unwrap();
    assert!(!server.tmux.has_session("a").await.unwrap());
}

#[tokio::test]
async fn the_only_session_can_be_replaced_at_once() {
    let server = Server::new();
    for n in 0..5 {
        let launch = format!("launch-{n}");
        server.start("a", &launch, &sh("exec sleep 60")).await.unwrap();
        server.tmux.kill_session("a", &launch).await.unwrap();
    }
}

#[tokio::test]
async fn a_pane_is_large_and_its_environment_is_ours() {
    let server = Server::new();
    let (pane, _) =
        server.start("a", "l", &sh("stty size; env | sort; printf END; exec sleep 60")).await.unwrap();
    server.shows(&pane, "END").await;
    let shown = server.tmux.history(&pane, 100).await.unwrap();
    assert!(shown.starts_with("50 160\n"), "{shown}");
    assert!(shown.contains("UTF-8") || shown.contains("utf8"), "{shown}");
    // Cargo sets many variables in the test's own environment; none may leak into the server.
    assert!(!shown.contains("CARGO"), "{shown}");
}

#[tokio::test]
async fn a_pane_is_large_again_when_its_last_person_leaves() {
    let (server, person) = (Server::new(), Server::new());
    let (pane, _) = server.start("a", "l", &sh("exec sleep 60")).await.unwrap();
    let size = async || {
        let mut ask = TmuxCommand::new();
        ask.name("display-message").push_flag("-p").push_flag("-t").push_param(pane.as_str());
        ask.push_param("#{pane_width}x#{pane_height}");
        server.tmux.run(&[ask], None).await.unwrap().trim().to_owned()
    };
    for _ in 0..2 {
        // The person sits in a terminal of another server, 60 columns wide.
        let attach = server.tmux.attach_argv("a").join(" ");
        let (terminal, _) = person
            .start("p", "l", &sh(&format!("stty cols 60 rows 20; env -u TMUX {attach}")))
            .await
            .unwrap();
        wait_for(async || size().await == "60x19").await;
        person
            .tmux
            .run(&[SendKeys::new().target_pane(terminal.as_str()).key("C-b").key("d").build()], None)
            .await
            .unwrap();
        wait_for(async || size().await == "160x50").await;
        person.tmux.kill_session("p", "l").await.unwrap();
    }
}

#[tokio::test]
async fn a_name_is_not_a_prefix() {
    let server = Server::new();
    server.start("agent-two", "l", &sh("exec sleep 60")).await.unwrap();
    assert!(!server.tmux.has_session("agent").await.unwrap());
    server.tmux.kill_session("agent", "l").await.unwrap();
    assert!(server.tmux.has_session("agent-two").await.unwrap());
}
