//! Voice notes: real speech through real programs, and everything that can go wrong with stand-ins.

use anyhow::{Context, Result, ensure};
use leo_tests::{Api, Leo, leo::DEMO, procs, speech, sse::Events, wait::wait_within, wait_for};
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use std::{fs, path::Path, time::Duration};

const AGENT: &str = "assistant";

/// How long real Whisper may take beside other tests on a small machine.
const SLOW: Duration = Duration::from_secs(420);

async fn leo_with(model: &Path, whisper: &Path) -> Result<Leo> {
    let config = format!("{DEMO}chat: {{ whisper_model: {} }}\n", model.display());
    let leo = Leo::builder().config(&config).path(whisper).start().await?;
    leo.agent_idle(AGENT).await?;
    Ok(leo)
}

async fn say(api: &Api, name: &str, mime: &str, bytes: &[u8]) -> Result<String> {
    let file = api.uploaded(AGENT, name, mime, bytes).await?;
    let sent = api.send_files(AGENT, "", &[&file]).await?;
    ensure!(sent["kind"] == "voice" && sent["delivery"]["waiting_for"] == "transcription", "{sent}");
    Ok(sent["id"].as_str().unwrap_or_default().to_owned())
}

/// The message once it is no longer being transcribed.
async fn settled(leo: &Leo, id: &str) -> Result<Value> {
    let api = leo.api().await?;
    let settled = wait_within(SLOW, "the note to be transcribed", || async {
        let message = api.message(AGENT, id).await.ok()?;
        (message["transcript"].is_string() || message["state"] == "failed").then_some(message)
    })
    .await;
    settled.with_context(|| leo.log())
}

/// The newest note of ours in the thread.
async fn last_note(api: &Api) -> Result<String> {
    let thread = api.thread(AGENT).await?;
    let note = thread.iter().rfind(|m| m["kind"] == "system").context("a note")?;
    Ok(note["text"].as_str().unwrap_or_default().to_owned())
}

async fn failed(leo: &Leo, id: &str, says: &str) -> Result<()> {
    let message = settled(leo, id).await?;
    let reason = message["failed_reason"].as_str().unwrap_or_default();
    ensure!(message["state"] == "failed" && reason == "transcription", "{message}");
    let note = last_note(&leo.api().await?).await?;
    ensure!(
        note.contains(says) && note.contains("send the recording as a file"),
        "{says:?} is not in {note:?}"
    );
    Ok(())
}

async fn nothing_reached_the_agent(leo: &Leo) -> Result<()> {
    let thread = leo.api().await?.thread(AGENT).await?;
    let delivered =
        thread.iter().find(|m| m["state"] == "delivered" || (m["direction"] == "out" && m["kind"] == "text"));
    ensure!(delivered.is_none(), "{delivered:?}");
    Ok(())
}

fn words(text: &str) -> String {
    let lower = text.to_lowercase();
    lower.chars().filter(|c| c.is_alphanumeric() || *c == ' ').collect::<String>().trim().to_owned()
}

/// What was spoken reaches the agent as if it had been typed, in every form that apps record.
#[tokio::test]
async fn real_speech_becomes_a_prompt() -> Result<()> {
    const SAID: &str = "please restart the build and send me the log";
    let Some(whisper) = speech::whisper_or_skip("real_speech_becomes_a_prompt") else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let at = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    speech::say(SAID, Path::new(&at("say.wav")))?;
    speech::ffmpeg(&["-i", &at("say.wav"), "-c:a", "aac", "-b:a", "48k", &at("say.m4a")])?;
    // Soft, and as a browser records it.
    speech::ffmpeg(&[
        "-i",
        &at("say.wav"),
        "-af",
        "volume=-25dB",
        "-c:a",
        "libopus",
        "-ar",
        "48000",
        &at("say.webm"),
    ])?;
    let leo = leo_with(&whisper.model, whisper.program.parent().context("a folder")?).await?;
    let api = leo.api().await?;
    let mut events = Events::open(&api, None).await?;
    for (name, mime) in
        [("say.wav", "audio/wav"), ("say.m4a", "audio/mp4"), ("say.webm", "audio/webm;codecs=opus")]
    {
        let id = say(&api, name, mime, &fs::read(at(name))?).await?;
        let message = settled(&leo, &id).await?;
        let transcript = message["transcript"].as_str().with_context(|| format!("{name}: {message}"))?;
        ensure!(words(transcript) == SAID, "{name}: {transcript:?}");
        let reply = leo.reply(AGENT, &id).await?;
        ensure!(words(&reply).contains(SAID), "{reply}");
        ensure!(!reply.contains("Attachments"), "the agent cannot listen: {reply}");
        let change = loop {
            let event = events.next().await?.context("the stream goes on")?;
            if event.kind == "chat.updated" && event.data["change"] == "transcript" {
                break event;
            }
        };
        ensure!(change.data["message"]["transcript"] == transcript, "{:?}", change.data);
    }
    Ok(())
}

/// What nobody spoke never reaches the agent.
#[tokio::test]
async fn silence_noise_and_broken_files_never_become_a_prompt() -> Result<()> {
    let test = "silence_noise_and_broken_files_never_become_a_prompt";
    let Some(whisper) = speech::whisper_or_skip(test) else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let at = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    speech::say("this file was cut off in the middle of its transfer", Path::new(&at("say.wav")))?;
    speech::ffmpeg(&["-i", &at("say.wav"), "-c:a", "aac", &at("say.m4a")])?;
    let whole = fs::read(at("say.m4a"))?;
    let leo = leo_with(&whisper.model, whisper.program.parent().context("a folder")?).await?;
    let api = leo.api().await?;
    for (name, mime, bytes, says) in [
        ("silence.wav", "audio/wav", speech::wav(&vec![0.0; 80_000]), "No speech was heard"),
        ("noise.wav", "audio/wav", speech::wav(&speech::noise(5.0, 0.3)), "No speech was heard"),
        ("fan.wav", "audio/wav", speech::wav(&speech::noise(5.0, 0.01)), "No speech was heard"),
        ("click.wav", "audio/wav", speech::wav(&speech::click()), "No speech was heard"),
        ("no samples.wav", "audio/wav", speech::wav(&[]), "No speech was heard"),
        ("truncated.m4a", "audio/mp4", whole[..whole.len() / 3].to_vec(), "cannot be read"),
        ("empty.m4a", "audio/mp4", Vec::new(), "it is empty"),
        ("page.mp3", "audio/mpeg", b"this is not sound at all, just text".to_vec(), "cannot be read"),
    ] {
        let id = say(&api, name, mime, &bytes).await?;
        failed(&leo, &id, says).await.with_context(|| name)?;
    }
    nothing_reached_the_agent(&leo).await
}

/// A minute in each of three languages, and a text behind it that does not wait for them.
#[tokio::test]
async fn long_notes_in_three_languages_do_not_block_a_text() -> Result<()> {
    let test = "long_notes_in_three_languages_do_not_block_a_text";
    let Some(whisper) = speech::whisper_or_skip(test) else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let at = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let leo = leo_with(&whisper.model, whisper.program.parent().context("a folder")?).await?;
    let api = leo.api().await?;
    let mut notes = Vec::new();
    for (language, text, expected) in [
        (
            "de",
            "Guten Morgen. Bitte starte den Server neu und schreibe mir danach eine kurze Nachricht.",
            ["bitte", "server"],
        ),
        (
            "fr",
            "Bonjour. Redémarre le serveur s'il te plaît, et envoie-moi ensuite un message.",
            ["serveur", "message"],
        ),
        (
            "es",
            "Buenos días. Por favor reinicia el servidor y después mándame un mensaje.",
            ["servidor", "mensaje"],
        ),
    ] {
        let (spoken, note) = (at(&format!("{language}.wav")), at(&format!("{language}.m4a")));
        speech::say_in(language, text, Path::new(&spoken))?;
        // Said at the start and after half a minute, in a minute of recording.
        let filter = "[0]apad=whole_dur=35[a];[1]apad=whole_dur=25[b];[a][b]concat=n=2:v=0:a=1";
        speech::ffmpeg(&["-i", &spoken, "-i", &spoken, "-filter_complex", filter, "-c:a", "aac", &note])?;
        notes.push((say(&api, &format!("{language}.m4a"), "audio/mp4", &fs::read(&note)?).await?, expected));
    }
    let started = std::time::Instant::now();
    let text = api.send(AGENT, ">>say at once").await?;
    // Thirty seconds for the notes, and what the machine needs.
    let reply = wait_within(Duration::from_secs(90), "the text's reply", || async {
        api.reply(AGENT, &text).await.ok().flatten()
    })
    .await?;
    ensure!(reply["text"].as_str().unwrap_or_default().trim() == "at once", "{reply}");
    let waited = started.elapsed();
    for (id, expected) in notes {
        let message = settled(&leo, &id).await?;
        let heard = words(message["transcript"].as_str().with_context(|| message.to_string())?);
        ensure!(expected.iter().any(|word| heard.contains(word)), "{expected:?} is not in {heard:?}");
        leo.reply(AGENT, &id).await?;
    }
    ensure!(waited < Duration::from_secs(90), "{waited:?}");
    Ok(())
}

/// A machine with a stand-in for Whisper; `None` without ffmpeg.
struct Bed {
    leo: Leo,
    api: Api,
    dir: tempfile::TempDir,
}

async fn bed(test: &str, whisper: &str) -> Result<Option<Bed>> {
    if !speech::ffmpeg_or_skip(test) {
        return Ok(None);
    }
    let dir = tempfile::Builder::new().prefix("leo-w").tempdir_in("/tmp")?;
    speech::fake_whisper(dir.path(), whisper)?;
    let leo = leo_with(&speech::fake_model(dir.path())?, dir.path()).await?;
    let api = leo.api().await?;
    Ok(Some(Bed { leo, api, dir }))
}

impl Bed {
    async fn say(&self, samples: &[f32]) -> Result<String> {
        say(&self.api, "note.wav", "audio/wav", &speech::wav(samples)).await
    }

    async fn retry(&self, id: &str, body: Option<Value>) -> Result<Value> {
        let path = format!("/api/v1/chat/{AGENT}/messages/{id}/retry");
        let answer = self.api.ask(Method::POST, &path, body).await?;
        ensure!(answer.status == 202, "{answer:?}");
        Ok(answer.data().clone())
    }
}

/// What Whisper does wrong ends as a note, never as a prompt; what it hears in a voice is believed.
#[tokio::test]
async fn voice_gate() -> Result<()> {
    let Some(bed) = bed("voice_gate", "exit 0").await? else { return Ok(()) };
    let (loud, faint) = (speech::voice(3.0, 0.4), {
        // Something that is no voice: bursts of noise.
        let mut bursts = speech::noise(3.0, 0.3);
        bursts.chunks_mut(6400).skip(1).step_by(2).for_each(|chunk| chunk.fill(0.0));
        bursts
    });
    for (whisper, samples, says) in [
        ("kill -SEGV $$", &loud, "signal 11"),
        ("exit 3", &loud, "whisper-cli failed"),
        ("echo \"error: failed to read WAV file\" >&2; exit 0", &loud, "error: failed to read WAV file"),
        (
            "echo \"error: unknown language\" >&2; printf '{\"transcription\":[]}' > $out.json",
            &loud,
            "unknown language",
        ),
        ("head -c 2000 /dev/urandom > $out.json", &loud, "cannot be read"),
        ("exit 0", &loud, "whisper-cli failed"),
        ("heard '[BLANK_AUDIO]'", &loud, "No speech was heard"),
        ("heard ''", &loud, "No speech was heard"),
        ("heard '1/2 tbc'", &loud, "No speech was heard"),
        ("heard 'Thank you for watching.'", &loud, "No speech was heard"),
        ("heard 'Untertitel der Amara.org-Community'", &loud, "No speech was heard"),
        ("heard '* Musik *'", &faint, "No speech was heard"),
        ("heard 'you'", &faint, "No speech was heard"),
        ("heard 'Thank you.'", &faint, "No speech was heard"),
    ] {
        speech::fake_whisper(bed.dir.path(), whisper)?;
        let id = bed.say(samples).await?;
        failed(&bed.leo, &id, says).await.with_context(|| whisper)?;
    }
    nothing_reached_the_agent(&bed.leo).await?;
    // The same words from somebody who speaks are believed, in the language that was set.
    for (whisper, heard) in
        [("heard 'Thank you.'", "Thank you."), ("heard \"Sprache $language\"", "Sprache auto")]
    {
        speech::fake_whisper(bed.dir.path(), whisper)?;
        let id = bed.say(&loud).await?;
        let message = settled(&bed.leo, &id).await?;
        ensure!(message["transcript"] == heard, "{message}");
        bed.leo.reply(AGENT, &id).await?;
    }
    let left = fs::read_dir(bed.leo.home.state().join("transcribe")).map_or(0, Iterator::count);
    ensure!(left == 0, "recordings lie about");
    Ok(())
}

/// A person can try again or send the recording itself, and whoever asks twice is answered twice.
#[tokio::test]
async fn a_failed_note_is_tried_again_or_sent_as_a_file() -> Result<()> {
    let Some(bed) = bed("a_failed_note_is_tried_again_or_sent_as_a_file", "exit 3").await? else {
        return Ok(());
    };
    let sound = speech::voice(2.0, 0.4);
    let first = bed.say(&sound).await?;
    failed(&bed.leo, &first, "whisper-cli failed").await?;
    speech::fake_whisper(bed.dir.path(), "heard 'second time lucky'")?;
    let again = bed.retry(&first, None).await?;
    ensure!(again["state"] == "pending" && again["delivery"]["waiting_for"] == "transcription", "{again}");
    ensure!(settled(&bed.leo, &first).await?["transcript"] == "second time lucky");
    bed.leo.reply(AGENT, &first).await?;

    let second = bed.say(&vec![0.0; 32_000]).await?;
    failed(&bed.leo, &second, "No speech").await?;
    bed.retry(&second, Some(json!({ "as_file": true }))).await?;
    let reply = bed.leo.reply(AGENT, &second).await?;
    let path = reply.lines().find_map(|l| l.trim().strip_prefix("Attachments: ")).context("a path")?;
    ensure!(fs::read(path)? == speech::wav(&vec![0.0; 32_000]), "{reply}");
    let text = bed.api.send(AGENT, ">>say x").await?;
    bed.leo.reply(AGENT, &text).await?;
    let path = format!("/api/v1/chat/{AGENT}/messages/{text}/retry");
    let refused = bed.api.ask(Method::POST, &path, Some(json!({ "as_file": true }))).await?;
    ensure!(refused.status == 409 && refused.code() == "not_failed", "{refused:?}");
    Ok(())
}

/// What is missing is named with its cure, and counts as soon as it is there.
#[tokio::test]
async fn what_is_missing_is_named_and_found_without_a_restart() -> Result<()> {
    let test = "what_is_missing_is_named_and_found_without_a_restart";
    if !speech::ffmpeg_or_skip(test) {
        return Ok(());
    }
    let dir = tempfile::Builder::new().prefix("leo-w").tempdir_in("/tmp")?;
    let leo = Leo::builder().config(DEMO).path(dir.path()).start().await?;
    leo.agent_idle(AGENT).await?;
    let api = leo.api().await?;
    let bytes = speech::wav(&speech::voice(2.0, 0.4));
    let id = say(&api, "note.wav", "audio/wav", &bytes).await?;
    for says in ["whisper-cli", "no Whisper model is set", "curl -L -o ~/.leo/models/ggml-large-v3-turbo.bin"]
    {
        failed(&leo, &id, says).await?;
    }
    speech::fake_whisper(dir.path(), "heard \"now it works in $language\"")?;
    let model = speech::fake_model(dir.path())?;
    let config = fs::read_to_string(leo.home.config())?;
    let chat = format!("chat: {{ whisper_model: {}, whisper_language: de }}\n", model.display());
    fs::write(leo.home.config(), format!("{config}{chat}"))?;
    // The file is noticed by itself; until then the note fails as before.
    let transcript = wait_for("the new configuration", || async {
        let message = api.message(AGENT, &id).await.ok()?;
        if message["state"] == "failed" {
            let path = format!("/api/v1/chat/{AGENT}/messages/{id}/retry");
            api.ask(Method::POST, &path, None).await.ok()?;
        }
        message["transcript"].as_str().map(str::to_owned)
    })
    .await?;
    ensure!(transcript == "now it works in de", "{transcript}");
    let pid = leo.worker_pid("transcribe").await?;
    fs::write(leo.home.config(), format!("{config}chat: {{ whisper_modle: x }}\n"))?;
    wait_for("the mistake to be told", || async {
        leo.status().await.ok()?.config_error.filter(|e| e.contains("did you mean `whisper_model`"))
    })
    .await?;
    ensure!(leo.worker_pid("transcribe").await? == pid, "nothing was restarted");
    Ok(())
}

/// Processes whose arguments hold one of these texts.
fn running(marks: &[&str]) -> usize {
    let found = procs::list().unwrap_or_default();
    found.iter().filter(|p| marks.iter().any(|mark| p.command.contains(mark))).count()
}

/// A Whisper that hangs: killed with all that it started when its note is taken back or its worker dies,
/// and a note whose worker died is taken up again.
#[tokio::test]
async fn a_hanging_whisper_outlives_neither_its_note_nor_its_worker() -> Result<()> {
    let test = "a_hanging_whisper_outlives_neither_its_note_nor_its_worker";
    // A time to sleep that nobody else has.
    let long = format!("9{:07}", std::process::id());
    let Some(bed) = bed(test, &format!("sleep {long} & sleep {long}")).await? else { return Ok(()) };
    let folder = bed.dir.path().to_string_lossy().into_owned();
    let marks = [folder.as_str(), &long];
    let sound = speech::voice(2.0, 0.4);
    let hangs = || wait_for("Whisper to hang", || async { (running(&marks) >= 4).then_some(()) });
    let gone = || wait_for("Whisper to be gone", || async { (running(&marks) == 0).then_some(()) });

    let taken_back = bed.say(&sound).await?;
    hangs().await?;
    bed.api.post(&format!("/api/v1/chat/{AGENT}/messages/{taken_back}/cancel"), json!({})).await?;
    gone().await?;

    let note = bed.say(&sound).await?;
    hangs().await?;
    let old = bed.leo.worker_pid("transcribe").await?;
    // The next one answers.
    speech::fake_whisper(bed.dir.path(), "heard 'the second worker heard it'")?;
    procs::signal(old, Signal::SIGKILL);
    gone().await?;
    let message = settled(&bed.leo, &note).await?;
    ensure!(message["transcript"] == "the second worker heard it", "{message}");
    bed.leo.reply(AGENT, &note).await?;

    // The hub may die, too, while a note is being heard.
    speech::fake_whisper(bed.dir.path(), "sleep 1; heard 'over a dead hub'")?;
    let note = bed.say(&sound).await?;
    let hub = bed.leo.worker_pid("hub").await?;
    procs::signal(hub, Signal::SIGKILL);
    ensure!(settled(&bed.leo, &note).await?["transcript"] == "over a dead hub");
    bed.leo.reply(AGENT, &note).await?;
    Ok(())
}

/// Text behind a note waits for it, and not for long; the thread says so.
#[tokio::test]
async fn text_behind_a_slow_note_goes_ahead_after_a_bound() -> Result<()> {
    let test = "text_behind_a_slow_note_goes_ahead_after_a_bound";
    let body = "while [ ! -e \"$(dirname \"$0\")/go\" ]; do sleep 0.1; done; heard 'at last'";
    let Some(bed) = bed(test, body).await? else { return Ok(()) };
    let note = bed.say(&speech::voice(2.0, 0.4)).await?;
    let text = bed.api.send(AGENT, ">>say ahead").await?;
    let waiting = bed.api.message(AGENT, &text).await?;
    ensure!(waiting["state"] == "pending" && waiting["delivery"]["waiting_for"] == "queue", "{waiting}");
    let reply = wait_within(Duration::from_secs(90), "the text's reply", || async {
        bed.api.reply(AGENT, &text).await.ok().flatten()
    })
    .await?;
    ensure!(reply["text"].as_str().unwrap_or_default().trim() == "ahead", "{reply}");
    ensure!(last_note(&bed.api).await?.contains("more than 30 s"), "{}", last_note(&bed.api).await?);
    fs::write(bed.dir.path().join("go"), "")?;
    bed.leo.reply(AGENT, &note).await?;
    Ok(())
}

/// Three quarters of an hour: read, judged and given to Whisper like any other.
#[tokio::test]
async fn forty_five_minutes_are_a_note_like_any_other() -> Result<()> {
    let test = "forty_five_minutes_are_a_note_like_any_other";
    let Some(bed) = bed(test, "heard 'a long story'").await? else { return Ok(()) };
    let at = |name: &str| bed.dir.path().join(name).to_string_lossy().into_owned();
    fs::write(at("voice.wav"), speech::wav(&speech::voice(5.0, 0.4)))?;
    let long = |minutes: &str, to: &str| {
        speech::ffmpeg(&[
            "-stream_loop",
            "-1",
            "-i",
            &at("voice.wav"),
            "-t",
            minutes,
            "-c:a",
            "flac",
            "-ar",
            "8000",
            &at(to),
        ])
    };
    long("2700", "long.flac")?;
    let id = say(&bed.api, "long.flac", "audio/flac", &fs::read(at("long.flac"))?).await?;
    ensure!(settled(&bed.leo, &id).await?["transcript"] == "a long story");
    bed.leo.reply(AGENT, &id).await?;
    long("3700", "longer.flac")?;
    let id = say(&bed.api, "longer.flac", "audio/flac", &fs::read(at("longer.flac"))?).await?;
    failed(&bed.leo, &id, "longer than 60 minutes").await
}
