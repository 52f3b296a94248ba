use super::{HOLD_MS, MAX_TRIES};
use crate::tests::{Bed, a, bed};
use leo_ipc::{
    CallKey, MessageId,
    attachment::AddUpload,
    chat::*,
    delivery::{NextDelivery, Outcome},
    voice::{CheckNote, EndNote, Note, NoteEnd, TakeNote},
};
use std::{fs, sync::atomic::Ordering, time::Duration};

const WAV: &[u8] = b"RIFF\x24\0\0\0WAVEfmt ";

impl Bed {
    async fn sound(&self, name: &str, bytes: &[u8]) -> String {
        let id = uuid::Uuid::now_v7().hyphenated().to_string();
        fs::create_dir_all(self.hub.home.uploads()).unwrap();
        fs::write(self.hub.home.upload_part(&id), bytes).unwrap();
        let add = AddUpload {
            id,
            key: CallKey::fresh(),
            agent: Some(a()),
            filename: name.into(),
            mime: None,
            bytes: bytes.len() as u64,
            sha256: "00".into(),
        };
        self.ask(add).await.unwrap().attachment.id
    }

    async fn say(&self, text: &str, names: &[&str]) -> Message {
        let mut attachments = Vec::new();
        for name in names {
            let bytes = if name.ends_with(".wav") { WAV } else { b"text".as_slice() };
            attachments.push(self.sound(name, bytes).await);
        }
        let (text, key) = (text.to_owned(), CallKey::fresh());
        let send = SendMessage {
            steer: false,
            agent: a(),
            text,
            reply_to: None,
            attachments,
            client_msg_id: None,
            key,
        };
        self.ask(send).await.unwrap().message
    }

    async fn take(&self, key: &str) -> Note {
        self.ask(TakeNote { key: key.into() }).await.unwrap()
    }

    async fn end_note(&self, note: &Note, end: NoteEnd) {
        let (message_id, attempt) = (note.message_id.clone(), note.attempt);
        self.ask(EndNote { message_id, attempt, end }).await.unwrap();
    }

    async fn wanted(&self, note: &Note) -> bool {
        let (message_id, attempt) = (note.message_id.clone(), note.attempt);
        self.ask(CheckNote { message_id, attempt }).await.unwrap().wanted
    }

    async fn retry(&self, id: &MessageId, as_file: bool) -> Result<Message, leo_ipc::Fault> {
        self.ask(RetryMessage { agent: a(), id: id.clone(), key: CallKey::fresh(), as_file }).await
    }

    async fn next_id(&self) -> Option<MessageId> {
        self.ask(NextDelivery { agent: a() }).await.unwrap().delivery.map(|d| d.message_id)
    }

    async fn notes(&self) -> Vec<String> {
        let thread = self.thread().await;
        thread.into_iter().filter(|m| m.kind == MessageKind::System).map(|m| m.text).collect()
    }

    async fn tick_voice(&self) {
        self.hub.writer.run(super::tick).await.unwrap();
    }
}

fn heard(text: &str) -> NoteEnd {
    NoteEnd::Speech { text: text.into() }
}

fn waits(message: &Message) -> Option<WaitingFor> {
    message.delivery.as_ref().unwrap().waiting_for
}

#[tokio::test]
async fn a_note_becomes_the_prompt_that_was_spoken() {
    let bed = bed().await;
    let sent = bed.say("", &["note.wav"]).await;
    assert_eq!(
        (sent.kind, sent.state, waits(&sent)),
        (MessageKind::Voice, MessageState::Pending, Some(WaitingFor::Transcription))
    );
    assert_eq!(bed.next_id().await, None);
    let note = bed.take("k").await;
    assert_eq!((note.attempt, &note.message_id), (1, &sent.id));
    assert_eq!(fs::read(&note.recordings[0]).unwrap(), WAV);
    assert_eq!(bed.take("k").await, note, "the same key takes the same note once");
    assert!(bed.wanted(&note).await);

    bed.end_note(&note, heard(" Restart the build. \n")).await;
    let message = bed.message(&sent.id).await;
    assert_eq!(
        (message.transcript.as_deref(), message.state),
        (Some("Restart the build."), MessageState::Pending)
    );
    assert_eq!(bed.next().await.delivery.unwrap().prompt, "[Leo Chat] Restart the build.");
    assert!(!bed.wanted(&note).await);
    // A second end of the same attempt says nothing any more.
    bed.end_note(&note, NoteEnd::Silence {}).await;
    assert_eq!(bed.message(&sent.id).await.state, MessageState::Pending);
    let delivery = bed.hand_over().await;
    assert_eq!(
        bed.end(&delivery, Outcome::Delivered { prompt_id: None }).await.unwrap().state,
        MessageState::Delivered
    );
}

#[tokio::test]
async fn words_files_and_several_recordings_go_together() {
    let bed = bed().await;
    let sent = bed.say("About this:", &["one.wav", "plan.txt", "two.wav"]).await;
    let note = bed.take("k").await;
    assert_eq!(note.recordings.len(), 2);
    bed.end_note(&note, heard("first\nsecond")).await;
    let plan = bed.ask(GetAttachment { id: sent.attachments[1].id.clone() }).await.unwrap().path;
    let prompt = bed.next().await.delivery.unwrap().prompt;
    assert_eq!(prompt, format!("[Leo Chat] About this:\nfirst\nsecond\nAttachments: {plan}"));
}

#[tokio::test]
async fn silence_and_failure_are_said_and_offer_two_ways() {
    let bed = bed().await;
    let sent = bed.say("", &["note.wav"]).await;
    let note = bed.take("k1").await;
    bed.end_note(&note, NoteEnd::Silence {}).await;
    let failed = bed.message(&sent.id).await;
    assert_eq!(
        (failed.state, failed.failed_reason),
        (MessageState::Failed, Some(FailedReason::Transcription))
    );
    assert_eq!(bed.next_id().await, None);

    // Tried again, it is a new attempt; the old one's end is too late.
    let again = bed.retry(&sent.id, false).await.unwrap();
    assert_eq!((again.state, waits(&again)), (MessageState::Pending, Some(WaitingFor::Transcription)));
    let second = bed.take("k2").await;
    assert_eq!(second.attempt, 2);
    bed.end_note(&note, heard("too late")).await;
    bed.end_note(&second, NoteEnd::Failed { why: "There is no ffmpeg.".into() }).await;
    let notes = bed.notes().await;
    assert_eq!(
        notes,
        [
            "No speech was heard in the voice note, so the agent got nothing. Try again, or send the recording as a file.",
            "There is no ffmpeg. Try again, or send the recording as a file.",
        ]
    );

    bed.retry(&sent.id, true).await.unwrap();
    let path = &note.recordings[0];
    assert_eq!(bed.next().await.delivery.unwrap().prompt, format!("[Leo Chat] \nAttachments: {path}"));
    assert_eq!(bed.message(&sent.id).await.transcript, None);
}

#[tokio::test]
async fn only_voice_notes_are_sent_as_files() {
    let bed = bed().await;
    let sent = bed.send("text", None).await.unwrap().message;
    bed.ask(CancelMessage { agent: a(), id: sent.id.clone() }).await.unwrap();
    assert_eq!(bed.retry(&sent.id, true).await.unwrap_err().code, "bad_request");
    assert_eq!(bed.message(&sent.id).await.state, MessageState::Failed);
}

#[tokio::test]
async fn a_note_whose_workers_die_is_taken_again_a_few_times() {
    let bed = bed().await;
    let sent = bed.say("", &["note.wav"]).await;
    for n in 1..=MAX_TRIES {
        assert_eq!(bed.take(&format!("k{n}")).await.attempt, n);
    }
    let bed = bed.restarted();
    let none =
        tokio::time::timeout(Duration::from_millis(300), bed.ask(TakeNote { key: "more".into() })).await;
    assert!(none.is_err(), "{none:?}");
    assert_eq!(bed.message(&sent.id).await.failed_reason, Some(FailedReason::Transcription));
    assert!(bed.notes().await[0].contains("broke off 5 times"));
    // A person may ask for it again.
    bed.retry(&sent.id, false).await.unwrap();
    assert_eq!(bed.take("again").await.attempt, MAX_TRIES + 1);
}

#[tokio::test]
async fn what_comes_after_a_note_waits_for_a_while_and_no_longer() {
    let bed = bed().await;
    let before = bed.send("before", None).await.unwrap().message;
    let note = bed.say("", &["note.wav"]).await;
    let after = bed.send("after", None).await.unwrap().message;
    assert_eq!(bed.next_id().await, Some(before.id.clone()), "what came before does not wait");
    let first = bed.hand_over().await;
    bed.end(&first, Outcome::Delivered { prompt_id: None }).await.unwrap();
    assert_eq!(bed.next_id().await, None);
    assert_eq!(waits(&bed.message(&after.id).await), Some(WaitingFor::Queue));
    bed.tick_voice().await;
    assert_eq!(bed.next_id().await, None, "not yet");

    bed.clock.fetch_add(HOLD_MS + 1, Ordering::Relaxed);
    bed.tick_voice().await;
    assert_eq!(bed.next_id().await, Some(after.id.clone()));
    assert_eq!(waits(&bed.message(&after.id).await), None);
    assert!(bed.notes().await[0].contains("more than 30 s"), "{:?}", bed.notes().await);

    // The note follows when it is ready, before anything that came later.
    let taken = bed.take("k").await;
    bed.end_note(&taken, heard("spoken")).await;
    assert_eq!(bed.next_id().await, Some(note.id), "older than what waits");
}

#[tokio::test]
async fn a_note_in_time_keeps_its_place() {
    let bed = bed().await;
    let note = bed.say("", &["note.wav"]).await;
    let after = bed.send("after", None).await.unwrap().message;
    let taken = bed.take("k").await;
    bed.end_note(&taken, heard("spoken")).await;
    assert_eq!(bed.next_id().await, Some(note.id));
    let first = bed.hand_over().await;
    bed.end(&first, Outcome::Delivered { prompt_id: None }).await.unwrap();
    assert_eq!(bed.next_id().await, Some(after.id));
    bed.clock.fetch_add(HOLD_MS + 1, Ordering::Relaxed);
    bed.tick_voice().await;
    assert!(bed.notes().await.is_empty());
}

#[tokio::test]
async fn a_note_that_fails_or_is_taken_back_lets_the_others_go() {
    let bed = bed().await;
    for taken_back in [false, true] {
        let note = bed.say("", &["note.wav"]).await;
        let after = bed.send("after", None).await.unwrap().message;
        let taken = bed.take(CallKey::fresh().as_str()).await;
        if taken_back {
            bed.ask(CancelMessage { agent: a(), id: note.id.clone() }).await.unwrap();
            assert!(!bed.wanted(&taken).await);
            bed.end_note(&taken, heard("too late")).await;
            assert_eq!(bed.message(&note.id).await.failed_reason, Some(FailedReason::Cancelled));
        } else {
            bed.end_note(&taken, NoteEnd::Silence {}).await;
        }
        assert_eq!(bed.next_id().await, Some(after.id));
        let first = bed.hand_over().await;
        bed.end(&first, Outcome::Delivered { prompt_id: None }).await.unwrap();
    }
}

#[tokio::test]
async fn removing_the_agent_ends_its_notes() {
    let bed = bed().await;
    let note = bed.say("", &["note.wav"]).await;
    let after = bed.send("after", None).await.unwrap().message;
    let taken = bed.take("k").await;
    bed.ask(leo_ipc::agent::RemoveAgent { name: a() }).await.unwrap();
    for id in [&note.id, &after.id] {
        assert_eq!(bed.message(id).await.failed_reason, Some(FailedReason::AgentUnreachable));
    }
    assert!(!bed.wanted(&taken).await);
}
