//! The MCP server as a harness sees it: a process with JSON-RPC on its standard input and output.

use anyhow::{Context, Result, ensure};
use leo_ipc::id::fresh_token;
use leo_tests::{
    Leo, agents,
    leo::program,
    mcp::{Harness, with_token},
    model::Model,
    procs, wait_for,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

const AGENT: &str = "assistant";
const PANE: &str = "=assistant:";

#[tokio::test]
async fn a_server_without_a_daemon_still_serves_its_harness() -> Result<()> {
    let leo = Leo::builder().prepare()?;
    let mut harness = Harness::shim(&leo, "token")?;
    let probe = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
    ensure!(harness.ask(9, "server/discover", &probe)?["error"]["code"] == -32601, "the probe is refused");
    let init = harness.initialize()?;
    ensure!(init["result"]["protocolVersion"] == "2025-06-18", "{init}");
    ensure!(init["result"]["capabilities"]["tools"]["listChanged"] == true, "{init}");
    let list = harness.ask(1, "tools/list", &json!({}))?;
    let names: Vec<_> =
        list["result"]["tools"].as_array().into_iter().flatten().map(|t| &t["name"]).collect();
    ensure!(names.contains(&&json!("leo_chat_post")), "{list}");
    ensure!(harness.ask(2, "ping", &json!({}))?["result"] == json!({}), "ping");
    harness.say("Content-Length: 3")?;
    harness.say(&format!(
        r#"{{"jsonrpc":"2.0","method":"tools/call","params":"{}","id":3}}"#,
        "x".repeat(17 << 20)
    ))?;
    let refusal = harness.hear()?;
    ensure!(refusal["id"] == 3 && refusal["error"]["code"] == -32600, "{refusal}");
    harness.post(4, "hi")?;
    let answer = harness.hear()?;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    ensure!(answer["result"]["isError"] == true && text.starts_with("unavailable: "), "{answer}");
    Ok(())
}

#[tokio::test]
async fn a_server_ends_with_its_input_and_with_its_parent() -> Result<()> {
    let leo = Leo::builder().prepare()?;
    let mut harness = Harness::shim(&leo, "token")?;
    harness.initialize()?;
    harness.stdin = None;
    let status = wait_for("the server to end", || {
        let ended = harness.child.try_wait().ok().flatten();
        async move { ended }
    })
    .await?;
    ensure!(status.success(), "{status}");

    // A parent that dies while somebody else holds the server's input open.
    let script =
        format!("exec 3<&0; '{}' mcp-server <&3 >/dev/null & echo $!; exec sleep 600", program().display());
    let mut parent = Command::new("/bin/sh")
        .args(["-c", &script])
        .env("LEO_HOME", leo.home.root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let _held = parent.stdin.take();
    let mut pid = String::new();
    BufReader::new(parent.stdout.take().context("a pipe")?).read_line(&mut pid)?;
    let shim: i32 = pid.trim().parse()?;
    ensure!(procs::alive(shim), "the server lives as long as its parent");
    parent.kill()?;
    parent.wait()?;
    wait_for("the server to follow its parent", || async { (!procs::alive(shim)).then_some(()) }).await
}

#[tokio::test]
async fn a_call_that_its_worker_died_of_is_carried_out_once() -> Result<()> {
    let (leo, token) = with_token().await?;
    let api = leo.api().await?;
    let mut harness = Harness::shim(&leo, &token)?;
    harness.initialize()?;
    for round in 0..5 {
        let (hub, worker) = (leo.worker_pid("hub").await?, leo.worker_pid("mcp:assistant").await?);
        // The hub holds its breath, so that the call is open when the worker dies.
        procs::signal(hub, Signal::SIGSTOP);
        harness.post(100 + round, &format!("round {round}"))?;
        let pinged = harness.ask(200 + round, "ping", &json!({}))?;
        ensure!(pinged["result"] == json!({}), "{pinged}");
        procs::signal(worker, Signal::SIGKILL);
        procs::signal(hub, Signal::SIGCONT);
        let answer = harness.hear()?;
        ensure!(answer["id"] == 100 + round && answer["result"]["isError"] == false, "{answer}");
        leo.worker_replaced("mcp:assistant", worker).await?;
    }
    let thread = api.thread(AGENT).await?;
    let posts: Vec<_> =
        thread.iter().filter_map(|m| m["text"].as_str()).filter(|t| t.starts_with("round")).collect();
    ensure!(posts == (0..5).map(|round| format!("round {round}")).collect::<Vec<_>>(), "{posts:?}");
    Ok(())
}

#[tokio::test]
async fn another_token_opens_no_session() -> Result<()> {
    let (leo, _) = with_token().await?;
    let mut harness = Harness::shim(&leo, &fresh_token())?;
    harness.initialize()?;
    harness.post(1, "not mine")?;
    let answer = harness.hear()?;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    ensure!(text.contains("started again or removed"), "{answer}");
    ensure!(leo.api().await?.thread(AGENT).await?.iter().all(|m| m["text"] != "not mine"), "posted");
    Ok(())
}

/// Claude Code's own MCP client, which needs no model for this.
#[tokio::test]
async fn the_real_claude_calls_our_tools() -> Result<()> {
    let Some(bin) = agents::bin_dir_or_skip("the_real_claude_calls_our_tools") else { return Ok(()) };
    let (leo, token) = with_token().await?;
    let env = json!({
        "LEO_HOME": leo.home.root(), "LEO_AGENT": AGENT, "LEO_LAUNCH": "test", "LEO_API_TOKEN": token,
    });
    let server = json!({"command": program(), "args": ["mcp-server"], "env": env, "timeout": 1_920_000});
    let config = json!({"mcpServers": {"leo": server}}).to_string();
    let mut command = Command::new(bin.join("claude"));
    command
        .args(["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"])
        .args(["--strict-mcp-config", "--mcp-config", &config])
        .current_dir(leo.work())
        .env("HOME", leo.user_home())
        .env("ANTHROPIC_API_KEY", "sk-fake")
        .env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
        .env("DISABLE_TELEMETRY", "1")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .stderr(Stdio::null());
    let mut claude = Harness::start(command)?;
    let mut control = |id: &str, request: Value| -> Result<Value> {
        claude.say(&json!({"type": "control_request", "request_id": id, "request": request}).to_string())?;
        loop {
            let line = claude.hear()?;
            if line["type"] == "control_response" && line["response"]["request_id"] == id {
                return Ok(line["response"].clone());
            }
        }
    };
    control("init", json!({"subtype": "initialize"}))?;
    // The servers are connected in the background.
    let mut tools = Value::Null;
    for attempt in 0..200 {
        let status = control(&format!("status-{attempt}"), json!({"subtype": "mcp_status"}))?;
        let leo = &status["response"]["mcpServers"][0];
        if leo["status"] == "connected" {
            tools = leo["tools"].clone();
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let names: Vec<_> = tools.as_array().into_iter().flatten().filter_map(|t| t["name"].as_str()).collect();
    let ours = [
        "leo_chat_post",
        "leo_chat_ask",
        "leo_chat_ask_withdraw",
        "leo_chat_history",
        "leo_chat_schedule",
        "leo_chat_schedule_list",
        "leo_chat_schedule_cancel",
    ];
    ensure!(names == ours, "{tools}");

    let call = |tool: &str, arguments: Value| json!({"subtype": "mcp_call", "tool": format!("mcp__leo__{tool}"), "arguments": arguments});
    let posted = control("post", call("leo_chat_post", json!({"text": "from Claude"})))?;
    let id = &posted["response"]["structuredContent"]["message_id"];
    ensure!(posted["subtype"] == "success" && id.is_string(), "{posted}");
    let history = control("history", call("leo_chat_history", json!({"limit": 1})))?;
    ensure!(history["response"]["structuredContent"]["messages"][0]["id"] == *id, "{history}");
    let wrong = control("wrong", call("leo_chat_history", json!({"limit": 0})))?;
    ensure!(wrong["error"].as_str().unwrap_or_default().contains("at $.limit"), "{wrong}");
    let worker = leo.worker_pid("mcp:assistant").await?;
    procs::signal(worker, Signal::SIGKILL);
    let again = control("again", call("leo_chat_post", json!({"text": "from Claude again"})))?;
    ensure!(again["subtype"] == "success", "{again}");
    Ok(())
}

/// Claude takes prompts before its MCP servers are connected: the first prompt of a launch once came so
/// early that its turn had none of our tools.
#[tokio::test]
async fn the_first_prompt_of_a_launch_finds_our_tools() -> Result<()> {
    let model = Model::start().await?;
    // A paste waits for nothing else of a session that is ready.
    let (test, only) = ("the_first_prompt_of_a_launch_finds_our_tools", "chat: { routes: [paste] }");
    let Some(leo) = Leo::with_claude_and(&model, test, only).await? else { return Ok(()) };
    let api = leo.api().await?;
    // The tools of the next launch are slow to come: its worker stands still.
    let worker = leo.worker_pid(&format!("mcp:{AGENT}")).await?;
    procs::signal(worker, Signal::SIGSTOP);
    let claude = leo.tmux.pane_pid(PANE)?;
    procs::signal(claude, Signal::SIGKILL);
    wait_for("another Claude to be idle", || async {
        let agent = api.agent(AGENT).await.ok()?;
        (agent["restarts"] == 1 && agent["status"] == "running" && agent["activity"] == "idle").then_some(())
    })
    .await?;
    let id = api.send(AGENT, ">>tool leo_chat_history {\"limit\":1}\n>>say looked").await?;
    wait_for("the message to wait for a start", || async {
        let message = api.message(AGENT, &id).await.ok()?;
        (message["delivery"]["waiting_for"] == "start").then_some(())
    })
    .await?;
    procs::signal(worker, Signal::SIGCONT);
    ensure!(leo.reply(AGENT, &id).await?.trim() == "looked");
    let told = model.tool_results();
    ensure!(told.iter().any(|r| r.contains("\"messages\"")), "{told:?}");
    Ok(())
}
