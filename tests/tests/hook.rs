//! `leo hook` as a harness meets it: silent, successful and soon over, whatever is wrong.

use anyhow::{Context, Result, ensure};
use leo_tests::{Leo, wait_for};
use std::{
    io::Write,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

/// A hook takes a second at most; the rest is for a busy machine.
const WITHIN: Duration = Duration::from_secs(5);

fn hook(mut command: Command, input: &[u8]) -> Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // A hook that has nothing to do may be gone before it is written to.
    let _ = child.stdin.take().context("a pipe")?.write_all(input);
    Ok(child.wait_with_output()?)
}

fn assert_silent(what: &str, output: &Output) -> Result<()> {
    ensure!(output.status.success(), "{what}: {}", output.status);
    ensure!(output.stdout.is_empty() && output.stderr.is_empty(), "{what}: {output:?}");
    Ok(())
}

#[tokio::test]
async fn a_hook_is_silent_and_succeeds_whatever_it_is_given() -> Result<()> {
    let leo = Leo::builder().prepare()?;
    let event = br#"{"hook_event_name":"Stop","session_id":"s","last_assistant_message":"hi"}"#;
    let large = format!(r#"{{"hook_event_name":"PostToolUse","tool_response":"{}"}}"#, "x".repeat(40 << 20));
    let deep = "[".repeat(100_000);
    let inputs: [(&str, &[u8]); 7] = [
        ("an event", event),
        ("nothing", b""),
        ("no JSON", b"\xff\xfe{"),
        ("no object", b"[1,2]"),
        ("no name", b"{\"a\":1}"),
        ("deep", deep.as_bytes()),
        ("too much", large.as_bytes()),
    ];
    for (what, input) in inputs {
        let mut command = leo.command(&["hook"]);
        command.env("LEO_API_TOKEN", "t");
        assert_silent(what, &hook(command, input)?)?;
        // Not ours: no token, no home, a home that is no path, arguments that nobody knows.
        assert_silent(what, &hook(leo.command(&["hook"]), input)?)?;
        for (key, value) in [("LEO_HOME", ""), ("LEO_HOME", "relative"), ("LEO_HOME", "/nowhere/at/all")] {
            let mut command = leo.command(&["hook", "--what", "ever"]);
            command.env("LEO_API_TOKEN", "t").env(key, value);
            assert_silent(what, &hook(command, input)?)?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_hook_does_not_wait_for_an_input_that_never_ends() -> Result<()> {
    let leo = Leo::builder().prepare()?;
    let mut command = leo.command(&["hook"]);
    let start = Instant::now();
    let mut child = command.env("LEO_API_TOKEN", "t").stdin(Stdio::piped()).spawn()?;
    let _held = child.stdin.take();
    let status = child.wait()?;
    ensure!(status.success() && start.elapsed() < WITHIN, "{status} after {:?}", start.elapsed());
    Ok(())
}

#[tokio::test]
async fn what_a_hook_could_not_report_is_read_at_the_next_start() -> Result<()> {
    let mut leo = Leo::with_demo().await?;
    let spooled = |leo: &Leo| std::fs::read_dir(leo.home.spool()).map_or(0, Iterator::count);
    leo.kill_supervisor()?;
    leo.tmux.type_text("=assistant:", "typed while nobody listens")?;
    leo.tmux.keys("=assistant:", &["Enter"])?;
    // Its UserPromptSubmit and its Stop.
    wait_for("two events in the spool", || async { (spooled(&leo) == 2).then_some(()) }).await?;
    leo.start().await?;
    wait_for("an empty spool", || async { (spooled(&leo) == 0).then_some(()) }).await
}
