use super::{MAX_UNSENT, place};
use crate::tests::{Bed, a, bed};
use leo_ipc::{
    CallKey, Fault,
    attachment::{AddUpload, BeginUpload, Prunable, PruneAttachments, Uploaded},
    chat::*,
    event::ListEvents,
};
use std::{fs, path::Path, sync::atomic::Ordering};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

impl Bed {
    async fn upload(
        &self,
        key: &str,
        agent: Option<&str>,
        name: &str,
        bytes: &[u8],
    ) -> Result<Uploaded, Fault> {
        let id = uuid::Uuid::now_v7().hyphenated().to_string();
        fs::create_dir_all(self.hub.home.uploads()).unwrap();
        fs::write(self.hub.home.upload_part(&id), bytes).unwrap();
        let agent = agent.map(|name| name.parse().unwrap());
        let (filename, bytes, sha256) = (name.to_owned(), bytes.len() as u64, "00".to_owned());
        self.ask(AddUpload { id, key: key.into(), agent, filename, mime: None, bytes, sha256 }).await
    }

    async fn file(&self, name: &str) -> Attachment {
        self.upload(CallKey::fresh().as_str(), Some("a"), name, PNG).await.unwrap().attachment
    }

    async fn send_files(
        &self,
        to: &str,
        text: &str,
        ids: &[&str],
        own: Option<&str>,
    ) -> Result<Accepted, Fault> {
        self.ask(SendMessage {
            steer: false,
            agent: to.parse().unwrap(),
            text: text.into(),
            reply_to: None,
            attachments: ids.iter().map(|id| (*id).to_owned()).collect(),
            client_msg_id: own.map(Into::into),
            key: CallKey::fresh(),
        })
        .await
    }

    async fn path_of(&self, id: &str) -> String {
        self.ask(GetAttachment { id: id.into() }).await.unwrap().path
    }

    async fn prune(&self, removed: &[&str]) -> Prunable {
        let removed = removed.iter().map(|id| (*id).to_owned()).collect();
        self.ask(PruneAttachments { removed }).await.unwrap()
    }

    fn days_later(&self, days: i64) {
        self.clock.fetch_add(days * 24 * 3600 * 1000, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn an_upload_becomes_a_file_of_the_first_message_that_sends_it() {
    let bed = bed().await;
    let name = "Screenshot 1\u{202f}AM, \"x\".png";
    let file = bed.upload("k1", None, name, PNG).await.unwrap().attachment;
    assert_eq!((file.filename.as_str(), file.mime.as_str(), file.bytes), (name, "image/png", 16));
    let before = bed.path_of(&file.id).await;
    assert_eq!(fs::read(&before).unwrap(), PNG);

    let sent = bed.send_files("a", "", &[&file.id], Some("c1")).await.unwrap();
    assert_eq!((sent.message.kind, &sent.message.attachments), (MessageKind::File, &vec![file.clone()]));
    let path = bed.path_of(&file.id).await;
    let expected = bed.hub.home.attachment_file(&a(), &file.id, name);
    assert_eq!(Path::new(&path), expected);
    assert!(path.ends_with("/Screenshot_1_AM___x_.png") && !Path::new(&before).exists(), "{path}");
    assert_eq!(fs::read(&path).unwrap(), PNG);
    assert_eq!(bed.next().await.delivery.unwrap().prompt, format!("[Leo Chat] \nAttachments: {path}"));

    // The same again is the same message; anybody else comes too late.
    let again = bed.send_files("a", "", &[&file.id], Some("c1")).await.unwrap();
    assert!(!again.created && again.message == sent.message);
    let other = bed.send_files("a", "", &["other"], Some("c1")).await.unwrap_err();
    assert_eq!(other.code, "idempotency_conflict");
    let taken = bed.send_files("a", "mine", &[&file.id], None).await.unwrap_err();
    assert_eq!(
        (taken.code.as_str(), taken.message.contains("$.attachments[0]")),
        ("attachment_in_use", true)
    );
    assert_eq!(bed.thread().await.len(), 1);
}

#[tokio::test]
async fn what_is_refused_changes_nothing() {
    let bed = bed().await;
    bed.put("b").await;
    let (own, free) =
        (bed.file("x.png").await, bed.upload("k", None, "y.png", PNG).await.unwrap().attachment);
    for (to, ids, code) in [
        ("b", vec![own.id.as_str()], "attachment_in_use"),
        ("a", vec![&own.id, &own.id], "attachment_in_use"),
        ("a", vec![&free.id, "019ad2f0-0000-7000-8000-000000000000"], "unknown_attachment"),
        ("a", vec![own.id.as_str(); 11], "bad_request"),
        ("a", vec![], "bad_request"),
    ] {
        assert_eq!(bed.send_files(to, "", &ids, None).await.unwrap_err().code, code, "{ids:?}");
    }
    let there = bed.hub.home.attachment_dir(&a(), &free.id);
    assert!(!there.exists(), "a file of a refused message goes back");
    let sent = bed.send_files("a", "both", &[&free.id, &own.id], None).await.unwrap().message;
    assert_eq!(sent.attachments, [free, own], "in the order of the message");
}

#[tokio::test]
async fn of_two_messages_one_gets_the_file() {
    let bed = bed().await;
    bed.put("b").await;
    for n in 0..10 {
        let file = bed.upload(&format!("k{n}"), None, "x.png", PNG).await.unwrap().attachment;
        let ids = [file.id.as_str()];
        let (one, two) =
            tokio::join!(bed.send_files("a", "one", &ids, None), bed.send_files("b", "two", &ids, None));
        assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
        assert_eq!(fs::read(bed.path_of(&file.id).await).unwrap(), PNG);
    }
}

#[tokio::test]
async fn the_same_key_is_the_same_upload() {
    let bed = bed().await;
    let first = bed.upload("k", Some("a"), "x.png", PNG).await.unwrap();
    let again = bed.upload("k", Some("a"), "x.png", PNG).await.unwrap();
    assert!(first.created && !again.created && first.attachment == again.attachment);
    let begun = bed.ask(BeginUpload { key: "k".into(), agent: None }).await.unwrap();
    assert_eq!(begun.existing, Some(first.attachment.clone()));
    let kept = fs::read_dir(bed.hub.home.attachments().join("a")).unwrap().count();
    assert_eq!(kept, 1, "the second copy is gone");
    assert!(Path::new(&bed.path_of(&first.attachment.id).await).exists());
}

#[tokio::test]
async fn uploads_that_nobody_sends_are_bounded_and_dropped_after_a_day() {
    let bed = bed().await;
    for n in 0..MAX_UNSENT {
        bed.upload(&format!("k{n}"), None, "x.png", b"").await.unwrap();
    }
    assert_eq!(bed.upload("more", None, "x.png", b"").await.unwrap_err().code, "uploads_full");
    assert_eq!(
        bed.ask(BeginUpload { key: "more".into(), agent: None }).await.unwrap_err().code,
        "uploads_full"
    );
    let unknown = BeginUpload { key: "more".into(), agent: Some("nobody".parse().unwrap()) };
    assert_eq!(bed.ask(unknown).await.unwrap_err().code, "unknown_agent");

    bed.days_later(2);
    let mut removed: Vec<String> = Vec::new();
    let mut all = 0;
    loop {
        let ids: Vec<&str> = removed.iter().map(String::as_str).collect();
        let batch = bed.prune(&ids).await.folders;
        if batch.is_empty() {
            break;
        }
        for folder in &batch {
            fs::remove_dir_all(&folder.path).unwrap();
        }
        all += batch.len() as u64;
        removed = batch.into_iter().map(|folder| folder.id).collect();
    }
    assert_eq!(all, MAX_UNSENT);
    assert_eq!(fs::read_dir(bed.hub.home.uploads()).unwrap().count(), 0);
    bed.upload("more", None, "x.png", b"").await.unwrap();
}

#[tokio::test]
async fn files_end_after_90_days_and_their_rows_stay() {
    let bed = bed().await;
    let file = bed.file("old.png").await;
    let sent = bed.send_files("a", "look", &[&file.id], None).await.unwrap().message;
    bed.days_later(89);
    let young = bed.file("young.png").await;
    bed.send_files("a", "look", &[&young.id], None).await.unwrap();
    assert_eq!(bed.prune(&[]).await, Prunable::default());
    bed.days_later(2);

    // Whoever removes the files may die before or after it: it is asked again until it says so.
    let first = bed.prune(&[]).await;
    assert_eq!(first.folders.iter().map(|f| f.id.as_str()).collect::<Vec<_>>(), [file.id.as_str()]);
    let message = bed.message(&sent.id).await;
    assert_eq!(message.attachments, [Attachment { available: false, ..file.clone() }]);
    let events = bed.ask(ListEvents { after: 0, limit: 1000 }).await.unwrap().events;
    let changes = events.iter().filter(|e| e.data.contains("\"change\":\"attachment\"")).count();
    assert_eq!(changes, 1, "told once");

    let bed = bed.restarted();
    assert_eq!(bed.prune(&[]).await, first, "not told yet that it is gone");
    fs::remove_dir_all(&first.folders[0].path).unwrap();
    assert_eq!(bed.prune(&[]).await, first, "removed, and not told");
    assert_eq!(bed.prune(&[&file.id]).await, Prunable::default());
    assert!(Path::new(&bed.path_of(&young.id).await).exists());
    assert_eq!(bed.prune(&["nonsense", &young.id]).await, Prunable::default());
    assert!(bed.ask(GetAttachment { id: young.id }).await.unwrap().attachment.available);
}

#[tokio::test]
async fn files_without_a_row_are_orphans_once_they_are_old() {
    let bed = bed().await;
    let kept = bed.file("kept.png").await;
    let orphan = |name: &str| bed.hub.home.attachment_dir(&a(), name).join("x");
    for name in ["old", "fresh"] {
        fs::create_dir_all(orphan(name).parent().unwrap()).unwrap();
        fs::write(orphan(name), "x").unwrap();
    }
    let part = bed.hub.home.upload_part("dead");
    fs::create_dir_all(bed.hub.home.uploads()).unwrap();
    fs::write(&part, "x").unwrap();
    let two_days_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 24 * 3600);
    for path in [
        orphan("old").parent().unwrap().to_owned(),
        part.clone(),
        bed.hub.home.attachment_dir(&a(), &kept.id),
    ] {
        fs::File::open(path).unwrap().set_modified(two_days_ago).unwrap();
    }
    bed.prune(&[]).await;
    assert!(!orphan("old").exists() && !part.exists());
    assert!(orphan("fresh").exists() && Path::new(&bed.path_of(&kept.id).await).exists());
}

#[tokio::test]
async fn a_hub_that_dies_between_the_file_and_its_row_is_asked_again() {
    let bed = bed().await;
    let id = uuid::Uuid::now_v7().hyphenated().to_string();
    fs::create_dir_all(bed.hub.home.uploads()).unwrap();
    fs::write(bed.hub.home.upload_part(&id), PNG).unwrap();
    let add = AddUpload {
        id: id.clone(),
        key: "k".into(),
        agent: Some(a()),
        filename: "x.png".into(),
        mime: None,
        bytes: 16,
        sha256: "00".into(),
    };
    // As far as the first hub came.
    place::settle(&bed.hub.home.upload_part(&id), &bed.hub.home.attachment_file(&a(), &id, "x.png")).unwrap();
    let bed = bed.restarted();
    assert_eq!(bed.ask(add).await.unwrap().attachment.id, id);

    let bad = AddUpload {
        id: "../../x".into(),
        key: "k2".into(),
        agent: None,
        filename: "x".into(),
        mime: None,
        bytes: 1,
        sha256: "00".into(),
    };
    assert_eq!(bed.ask(bad).await.unwrap_err().code, "bad_request");
}

#[tokio::test]
async fn a_sound_makes_a_voice_note() {
    let bed = bed().await;
    let wav = b"RIFF\x24\0\0\0WAVEfmt ";
    let sound = bed.upload("k", Some("a"), "note.wav", wav).await.unwrap().attachment;
    let sent = bed.send_files("a", "", &[&sound.id], None).await.unwrap().message;
    assert_eq!(sent.kind, MessageKind::Voice);
}
