//! Files in both directions: whatever they are called and whoever dies meanwhile.

use anyhow::{Context, Result, ensure};
use leo_tests::{Leo, leo::DEMO, model::Model, procs, wait_for};
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::json;
use std::{fs, path::Path, process::Command, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const AGENT: &str = "assistant";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8\xff\xff?\0\x05\xfe\x02\xfe\xa75\x81\x84\0\0\0\0IEND\xaeB`\x82";

/// The paths that a prompt lists, as an agent that splits at the commas would read them.
fn paths(prompt: &str) -> Vec<String> {
    let line = prompt.lines().find_map(|line| line.trim().strip_prefix("Attachments: "));
    line.map(|line| line.split(", ").map(str::to_owned).collect()).unwrap_or_default()
}

/// Names come back as they were given, and an agent opens each path with no quotes at all.
#[tokio::test]
async fn name_zoo() -> Result<()> {
    let leo = Leo::with_demo().await?;
    let api = leo.api().await?;
    let long = format!("{}.png", "漢".repeat(100));
    let marked = format!("{}.txt", "e\u{323}\u{302}".repeat(80));
    let names = [
        "../../x",
        "/etc/passwd",
        "a/b",
        "..",
        ".",
        " ",
        &long,
        &marked,
        "Screenshot 2026-11-30 at 9.41.05\u{202f}AM.png",
        "invoice\u{202e}fdp.exe",
        "nul\0byte.txt",
        "line\nbreak\ttab.txt",
        "-rf",
        "CON",
        ".hidden",
        "same.txt",
        "same.txt",
        "😀👩‍👩‍👧.png",
        "it's \"quoted\" $(touch pwned) `x`; & a, b.txt",
        "Größe हिन्दी.pdf",
        "a\u{200b}b",
        "plain-name_1.tar.gz",
    ];
    for (n, chunk) in names.chunks(8).enumerate() {
        let mut ids = Vec::new();
        for (i, name) in chunk.iter().enumerate() {
            let bytes = format!("file {n} {i}");
            let answer =
                api.upload((i % 2 == 0).then_some(AGENT), name, "text/plain", bytes.as_bytes()).await?;
            ensure!(answer.status == 201 && answer.data()["filename"] == *name, "{name:?}: {answer:?}");
            ids.push(answer.data()["id"].as_str().context("an id")?.to_owned());
        }
        let refs: Vec<&str> = ids.iter().map(String::as_str).collect();
        let sent = api.send_files(AGENT, &format!("batch {n}"), &refs).await?;
        ensure!(sent["kind"] == "file" && sent["state"] == "pending", "{sent}");
        let reply = leo.reply(AGENT, sent["id"].as_str().unwrap_or_default()).await?;
        // The demo agent repeats its prompt, in the words that it was given.
        let opened = paths(&reply);
        ensure!(opened.len() == chunk.len(), "{reply}");
        for ((i, path), (id, name)) in opened.iter().enumerate().zip(ids.iter().zip(chunk)) {
            let read = Command::new("sh").arg("-c").arg(format!("cat {path}")).output()?;
            ensure!(read.stdout == format!("file {n} {i}").as_bytes(), "{name:?} at {path}: {read:?}");
            let folder = leo.home.attachment_dir(&AGENT.parse()?, id);
            ensure!(Path::new(path).parent() == Some(&folder), "{path} is not in {}", folder.display());
            ensure!(Path::new(path).file_name().is_some_and(|n| n.len() <= 255), "{path}");
            let (head, bytes) = api.download(id, None).await?;
            ensure!(bytes == format!("file {n} {i}").as_bytes());
            let disposition = head.headers["content-disposition"].to_str()?;
            let encoded = disposition.split("filename*=UTF-8''").nth(1).context("filename*")?;
            ensure!(percent_encoding::percent_decode_str(encoded).decode_utf8()? == *name, "{disposition}");
        }
    }
    ensure!(!leo.work().join("pwned").exists());
    Ok(())
}

/// What a file may be and when it is refused, from an app's side.
#[tokio::test]
async fn a_file_belongs_to_one_message() -> Result<()> {
    let config = "agents: { assistant: { harness: demo, workspace: $WORK }, other: { harness: demo, workspace: $WORK } }\n";
    let leo = Leo::builder().config(config).start().await?;
    leo.agent_idle(AGENT).await?;
    let api = leo.api().await?;
    // No caption is a message, too.
    let id = api.uploaded(AGENT, "dot.png", "application/octet-stream", PNG).await?;
    let sent = api.send_files(AGENT, "", &[&id]).await?;
    ensure!(sent["kind"] == "file" && sent["attachments"][0]["mime"] == "image/png", "{sent}");
    let message = leo.message_state(AGENT, sent["id"].as_str().unwrap_or_default(), "delivered").await?;
    ensure!(message["attachments"] == sent["attachments"], "{message}");

    let path = format!("/api/v1/chat/{AGENT}/messages");
    let own = api.uploaded("other", "x.txt", "text/plain", b"x").await?;
    for (ids, status, code) in [
        (json!([id]), 400, "attachment_in_use"),
        (json!([own]), 400, "attachment_in_use"),
        (json!(["01ARZ3NDEKTSV4RRFFQ69G5FAV"]), 404, "unknown_attachment"),
        (json!(["../x"]), 404, "unknown_attachment"),
        (json!([]), 400, "bad_request"),
        (json!(vec![own.clone(); 11]), 400, "bad_request"),
    ] {
        let body = json!({ "text": "", "attachments": ids });
        let answer = api.ask(Method::POST, &path, Some(body)).await?;
        ensure!(answer.status == status && answer.code() == code, "{ids}: {answer:?}");
    }
    let unknown = api.upload(Some("nobody"), "x", "text/plain", b"x").await?;
    ensure!(unknown.status == 404 && unknown.code() == "unknown_agent", "{unknown:?}");

    // A message that is sent again with its own id is the same message, files included.
    let again = api.uploaded(AGENT, "y.txt", "text/plain", b"y").await?;
    let body = json!({ "text": "y", "attachments": [again], "client_msg_id": "c1" });
    let first = api.ask(Method::POST, &path, Some(body.clone())).await?;
    let second = api.ask(Method::POST, &path, Some(body)).await?;
    ensure!(first.status == 202 && second.status == 200, "{first:?} {second:?}");
    ensure!(first.data()["id"] == second.data()["id"]);

    // An upload that is repeated with its key is stored once.
    let upload = || {
        api.request(Method::POST, "/api/v1/chat/uploads?filename=k")
            .header("idempotency-key", "one")
            .body("same")
            .send()
    };
    let (one, two) = (upload().await?, upload().await?);
    ensure!(one.status() == 201 && two.status() == 200);
    let ids = [one.json::<serde_json::Value>().await?, two.json().await?];
    ensure!(ids[0]["data"]["id"] == ids[1]["data"]["id"], "{ids:?}");
    Ok(())
}

#[tokio::test]
async fn downloads_come_in_ranges_and_boxed_in() -> Result<()> {
    let leo = Leo::with_demo().await?;
    let api = leo.api().await?;
    let html = b"<!DOCTYPE html><script>alert(1)</script>";
    let id = api.uploaded(AGENT, "p\u{e4}ge.html", "text/html", html).await?;
    for (range, status, bytes) in [
        (None, 200, &html[..]),
        (Some("bytes=0-8"), 206, &html[..9]),
        (Some("bytes=-3"), 206, &html[html.len() - 3..]),
        (Some("bytes=9000-"), 416, &[]),
    ] {
        let (head, body) = api.download(&id, range).await?;
        ensure!(head.status == status, "{range:?}: {head:?}");
        let header = |name: &str| head.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
        ensure!(header("x-content-type-options") == "nosniff", "{head:?}");
        if status == 416 {
            continue;
        }
        ensure!(body == bytes, "{range:?}");
        ensure!(header("content-security-policy").starts_with("sandbox"), "{head:?}");
        ensure!(header("content-disposition").starts_with("attachment"), "{head:?}");
    }
    // What says that it is a picture and is a page is no picture.
    let lie = api.upload(Some(AGENT), "x.png", "image/png", html).await?;
    ensure!(lie.data()["mime"] == "text/html", "{lie:?}");
    let nobody = leo_tests::Api::new(api.base.clone(), "")?;
    let (head, _) = nobody.download(&id, None).await?;
    ensure!(head.status == 401, "{head:?}");
    Ok(())
}

/// Files below the folder of uploads and attachments, unfinished ones included.
fn stored(leo: &Leo) -> usize {
    let mut count = 0;
    let mut folders = vec![leo.home.uploads(), leo.home.attachments()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() { folders.push(entry.path()) } else { count += 1 }
        }
    }
    count
}

/// The head of an upload that announces `length` bytes, on a connection of its own.
async fn begin_upload(leo: &Leo, length: u64) -> Result<TcpStream> {
    let api = leo.api().await?;
    let address = api.base.trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).await?;
    let head = format!(
        "POST /api/v1/chat/uploads?filename=big.bin HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n\
         content-length: {length}\r\n\r\n",
        api.token
    );
    stream.write_all(head.as_bytes()).await?;
    Ok(stream)
}

async fn nothing_stored(leo: &Leo) -> Result<()> {
    wait_for("the disk to be clean", || async { (stored(leo) == 0).then_some(()) }).await
}

#[tokio::test]
async fn what_is_cut_off_or_too_large_leaves_nothing() -> Result<()> {
    const MAX: u64 = leo_ipc::attachment::MAX_UPLOAD_BYTES;
    let leo = Leo::builder().config(DEMO).start().await?;
    let api = leo.api().await?;
    // The sender leaves in the middle.
    let mut stream = begin_upload(&leo, 1_000_000).await?;
    stream.write_all(&[7; 300_000]).await?;
    wait_for("the upload to begin", || async { (stored(&leo) == 1).then_some(()) }).await?;
    drop(stream);
    nothing_stored(&leo).await?;

    // The worker dies in the middle.
    let mut stream = begin_upload(&leo, 1_000_000).await?;
    stream.write_all(&[7; 300_000]).await?;
    wait_for("the upload to begin", || async { (stored(&leo) == 1).then_some(()) }).await?;
    let old = leo.worker_pid("http").await?;
    procs::signal(old, Signal::SIGKILL);
    leo.worker_replaced("http", old).await?;
    nothing_stored(&leo).await?;

    // Announced too large: refused before anything is read.
    let mut stream = begin_upload(&leo, MAX + 1).await?;
    let mut head = [0; 15];
    stream.read_exact(&mut head).await?;
    ensure!(head.starts_with(b"HTTP/1.1 413"), "{}", String::from_utf8_lossy(&head));

    // Not announced: refused when it has become so.
    let chunk = bytes::Bytes::from(vec![7u8; 1024 * 1024]);
    let chunks = |count: u64| {
        let chunk = chunk.clone();
        let stream = futures_util::stream::iter((0..count).map(move |_| std::io::Result::Ok(chunk.clone())));
        api.request(Method::POST, "/api/v1/chat/uploads?filename=big.bin")
            .body(reqwest::Body::wrap_stream(stream))
            .timeout(Duration::from_secs(120))
            .send()
    };
    let refused = chunks(101).await?;
    ensure!(refused.status() == 413, "{refused:?}");
    nothing_stored(&leo).await?;

    // Exactly as much as is possible: taken, in a worker that has not grown by it.
    let taken = chunks(100).await?;
    ensure!(taken.status() == 201, "{taken:?}");
    let data: serde_json::Value = taken.json().await?;
    ensure!(data["data"]["bytes"] == MAX, "{data}");
    let status = fs::read_to_string(format!("/proc/{}/status", leo.worker_pid("http").await?));
    if let Ok(status) = status {
        let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        let peak: u64 = peak.context("a peak")?.trim().parse()?;
        ensure!(peak < 60 * 1024, "the worker's memory went up to {peak} KiB");
    }
    Ok(())
}

/// What was uploaded and sent is there after the death of everything.
#[tokio::test]
async fn files_survive_the_death_of_everything() -> Result<()> {
    let mut leo = Leo::with_demo().await?;
    let api = leo.api().await?;
    let kept = api.uploaded(AGENT, "kept.txt", "text/plain", b"kept").await?;
    let old = leo.worker_pid("hub").await?;
    procs::signal(old, Signal::SIGKILL);
    let sent = api.send_files(AGENT, "before", &[&kept]).await?;
    let waiting = api.uploaded(AGENT, "waiting.txt", "text/plain", b"waiting").await?;
    leo.reply(AGENT, sent["id"].as_str().unwrap_or_default()).await?;
    leo.kill_supervisor()?;
    leo.start().await?;
    let api = leo.api().await?;
    let sent = api.send_files(AGENT, "after", &[&waiting]).await?;
    let reply = leo.reply(AGENT, sent["id"].as_str().unwrap_or_default()).await?;
    ensure!(fs::read(paths(&reply).first().context("a path")?)? == b"waiting", "{reply}");
    ensure!(api.download(&kept, None).await?.1 == b"kept");
    Ok(())
}

/// A picture without a caption reaches the model by a path that Claude's own tool opens.
#[tokio::test]
async fn claude_reads_what_was_sent() -> Result<()> {
    let model = Model::start().await?;
    let Some(leo) = Leo::with_claude(&model, "claude_reads_what_was_sent").await? else { return Ok(()) };
    let api = leo.api().await?;
    let name = "notes at 9.41\u{202f}AM, \"final\".txt";
    let id = api.uploaded(AGENT, name, "text/plain", b"the secret word is xylophone").await?;
    let sent = api.send_files(AGENT, "", &[&id]).await?;
    leo.message_state(AGENT, sent["id"].as_str().unwrap_or_default(), "delivered").await?;
    let prompt = wait_for("the prompt", || async {
        model.prompts().into_iter().find(|prompt| prompt.contains("Attachments: "))
    })
    .await?;
    let path = paths(&prompt).first().context("a path")?.trim().to_owned();
    ensure!(fs::read(&path)? == b"the secret word is xylophone", "{prompt}");
    Ok(())
}

/// The agent's files are copies, whatever happens to the originals.
#[tokio::test]
async fn an_agents_files_are_copied_and_checked() -> Result<()> {
    let leo = Leo::with_demo().await?;
    let api = leo.api().await?;
    let work = leo.work();
    fs::write(work.join("real.txt"), "first")?;
    std::os::unix::fs::symlink("real.txt", work.join("link.txt"))?;
    std::os::unix::fs::symlink("/dev/zero", work.join("endless"))?;
    std::os::unix::fs::symlink("nowhere", work.join("dangling"))?;
    fs::create_dir(work.join("folder"))?;
    fs::File::create(work.join("huge"))?.set_len(leo_ipc::chat::MAX_POST_FILE_BYTES + 1)?;
    let post = |files: serde_json::Value| {
        let call = json!({ "text": "here", "files": files });
        format!(">>tool leo_chat_post {call}")
    };
    for (file, says) in [
        ("endless", "not a regular file"),
        ("dangling", "does not exist"),
        ("folder", "not a regular file"),
        ("huge", "100 MiB"),
        ("../work/missing", "does not exist"),
    ] {
        let id = api.send(AGENT, &post(json!([file]))).await?;
        leo.reply(AGENT, &id).await?;
        // The agent reads the refusal in its terminal, where it is broken into lines.
        let squeezed = |text: &str| text.split_whitespace().collect::<String>();
        wait_for(&format!("{file}: {says}"), || async {
            squeezed(&leo.tmux.screen("=assistant:").ok()?).contains(&squeezed(says)).then_some(())
        })
        .await
        .with_context(|| leo.tmux.screen("=assistant:").unwrap_or_default())?;
        leo.agent_idle(AGENT).await?;
        leo.tmux.keys("=assistant:", &["C-l"])?;
    }
    let id = api.send(AGENT, &post(json!(["link.txt"]))).await?;
    leo.message_state(AGENT, &id, "delivered").await?;
    let posted = wait_for("the post", || async {
        api.thread(AGENT).await.ok()?.into_iter().find(|m| m["text"] == "here" && m["direction"] == "out")
    })
    .await?;
    fs::write(work.join("real.txt"), "second")?;
    ensure!(posted["attachments"][0]["filename"] == "link.txt" && posted["kind"] == "file", "{posted}");
    let file = posted["attachments"][0]["id"].as_str().unwrap_or_default();
    ensure!(api.download(file, None).await?.1 == b"first");
    let on_disk = leo.home.attachment_file(&AGENT.parse()?, file, "link.txt");
    ensure!(fs::symlink_metadata(on_disk)?.is_file());
    Ok(())
}

/// After 90 days the file is gone, the row stays, and whoever asks is told so.
#[tokio::test]
async fn old_files_are_no_longer_kept() -> Result<()> {
    use leo_ipc::{Generation, attachment::PruneAttachments, client::Client, hello::Role, hub::HubRequest};
    let mut leo = Leo::with_demo().await?;
    let api = leo.api().await?;
    let id = api.uploaded(AGENT, "old.txt", "text/plain", b"old").await?;
    let sent = api.send_files(AGENT, "keep this", &[&id]).await?;
    let message = sent["id"].as_str().unwrap_or_default().to_owned();
    leo.reply(AGENT, &message).await?;
    // A hundred days go by while Leo is down.
    leo.stop().await?;
    let db = rusqlite::Connection::open(leo.home.database())?;
    db.execute("UPDATE messages SET ts = ts - 100 * 86400000", [])?;
    drop(db);
    leo.start().await?;
    let api = leo.api().await?;
    // What the reminders worker asks for once a day.
    let hub = Client::<HubRequest>::new(leo.home.hub_socket(), Role::Worker, Generation(0));
    let due = hub.call(PruneAttachments::default(), Duration::from_secs(10)).await?;
    ensure!(due.folders.len() == 1 && due.folders[0].id == id, "{due:?}");
    let (head, body) = api.download(&id, None).await?;
    ensure!(head.status == 410 && String::from_utf8_lossy(&body).contains("attachment_pruned"), "{head:?}");
    let kept = api.message(AGENT, &message).await?;
    ensure!(kept["attachments"][0]["available"] == false && kept["text"] == "keep this", "{kept}");
    fs::remove_dir_all(&due.folders[0].path)?;
    let removed = due.folders.into_iter().map(|folder| folder.id).collect();
    let rest = hub.call(PruneAttachments { removed }, Duration::from_secs(10)).await?;
    ensure!(rest.folders.is_empty(), "{rest:?}");
    Ok(())
}
