use super::{
    events::{Action, Event},
    tests::*,
};
use leo_ipc::chat::{Attachment, Direction, FailedReason, Message, MessageKind, MessageState};
use std::path::PathBuf;

fn sound() -> Attachment {
    Attachment {
        id: "a1".into(),
        filename: "voice note.m4a".into(),
        mime: "audio/mp4".into(),
        bytes: 2048,
        available: true,
    }
}

fn voice(id: &str) -> Message {
    Message { kind: MessageKind::Voice, attachments: vec![sound()], ..message(id, Direction::In, "") }
}

#[test]
fn files_are_sent_with_what_is_said_about_them() {
    let mut state = filled((80, 24), vec![]);
    let sent = write(&mut state, "/file '/tmp/my plan.pdf' what about this?");
    let Some(Action::Send { text, files, .. }) = sent.first() else { panic!("{sent:?}") };
    assert_eq!(
        (text.as_str(), files.as_slice()),
        ("what about this?", &[PathBuf::from("/tmp/my plan.pdf")][..])
    );
    let rows = drawn(&state);
    assert!(contains(&rows, "[my plan.pdf]") && contains(&rows, "sending…"), "{rows:#?}");
    // Where this program was started.
    let sent = write(&mut state, "/file notes.txt");
    let here = std::env::current_dir().unwrap().join("notes.txt");
    assert!(matches!(&sent[0], Action::Send { files, .. } if files[0] == here), "{sent:?}");
    assert!(write(&mut state, "/file").is_empty());
    assert!(contains(&drawn(&state), "which file?"));
}

#[test]
fn a_voice_note_shows_what_was_heard() {
    let heard = Message { transcript: Some("Restart the build.".into()), ..voice("m1") };
    let rows = drawn(&filled((80, 24), vec![heard]));
    assert!(contains(&rows, "[voice note.m4a]") && contains(&rows, "▏ Restart the build."), "{rows:#?}");
    assert!(contains(&rows, "/h/attachments/assistant/a1/voice_note.m4a"), "where it lies: {rows:#?}");
}

#[test]
fn a_voice_note_that_failed_can_go_as_a_file() {
    let failed_reason = Some(FailedReason::Transcription);
    let failed = Message { state: MessageState::Failed, failed_reason, ..voice("m1") };
    let mut state = filled((80, 24), vec![failed]);
    assert!(contains(&drawn(&state), "/retry or /asfile"), "{:#?}", drawn(&state));
    let me = name("assistant");
    assert_eq!(write(&mut state, "/asfile"), [Action::AsFile(me.clone(), "m1".into())]);
    assert_eq!(write(&mut state, "/retry"), [Action::Retry(me, "m1".into())]);
    let sent = Message { state: MessageState::Delivered, ..voice("m1") };
    tell(&mut state, Event::Message { message: Box::new(sent), new: false });
    assert!(write(&mut state, "/asfile").is_empty());
}
