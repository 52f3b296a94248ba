//! Golden frames: what this build writes, byte for byte, and what older builds wrote, which must decode
//! for ever. `LEO_BLESS=1 cargo test -p leo-ipc --test golden` writes what is missing; a frame that has
//! changed is kept beside the new one as `<name>~<n>.msgpack`, and stays.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod asks;
mod clients;
mod reminders;
mod tasks;
mod values;

use leo_ipc::codec;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fmt::Debug,
    fs,
    path::{Path, PathBuf},
};
use values::{all, requests};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join("v1")
}

/// Checks one value against its file in a folder, which it writes when told to.
type Check = Box<dyn Fn(&Path, bool)>;

/// One value of the wire: its name, which is its file's, and how it is checked.
struct Golden {
    name: &'static str,
    check: Check,
}

impl Golden {
    /// A value given as the JSON that it reads from.
    fn new<T>(name: &'static str, json: Value) -> Golden
    where
        T: Serialize + DeserializeOwned + PartialEq + Debug + 'static,
    {
        let check = move |folder: &Path, bless: bool| {
            let value: T = serde_json::from_value(json.clone()).unwrap_or_else(|e| panic!("{name}: {e}"));
            let bytes = codec::encode(&value).unwrap();
            assert_eq!(codec::decode::<T>(&bytes).unwrap(), value, "{name}: what we write we must read");
            // An older peer leaves fields out; the table has such values too.
            let sparse = codec::encode(&json).unwrap();
            assert_eq!(codec::decode::<T>(&sparse).unwrap(), value, "{name}: without its defaults");
            assert_survives_strangers::<T>(name, &bytes, &value);
            let file = folder.join(format!("{name}.msgpack"));
            let mut golden = fs::read(&file).ok();
            if bless && golden.as_ref() != Some(&bytes) {
                if golden.is_some() {
                    fs::rename(&file, next_old(folder, name)).unwrap();
                }
                fs::write(&file, &bytes).unwrap();
                golden = Some(bytes.clone());
            }
            let golden = golden.unwrap_or_else(|| panic!("{name}: no frame; write it with LEO_BLESS=1"));
            assert_eq!(codec::decode::<T>(&golden).unwrap(), value, "{name}: the golden frame decodes");
            assert_eq!(
                show(&golden),
                show(&bytes),
                "{name}: the wire has changed; if old builds can read it, LEO_BLESS=1 keeps both frames"
            );
            for old in old_frames(folder, name) {
                let bytes = fs::read(&old).unwrap();
                assert!(codec::decode::<T>(&bytes).is_ok(), "{} must decode for ever", old.display());
            }
        };
        Golden { name, check: Box::new(check) }
    }
}

/// A newer peer may add fields; they are ignored and nothing else changes.
fn assert_survives_strangers<T: DeserializeOwned + PartialEq + Debug>(name: &str, bytes: &[u8], value: &T) {
    // Hello and its reply are frozen, so nobody adds to them; what is not a map has no fields.
    let Some(&first @ 0x80..=0x8e) = bytes.first() else { return };
    let mut longer = vec![first + 1];
    longer.extend_from_slice(&bytes[1..]);
    longer.extend(codec::encode("field_of_tomorrow").unwrap());
    longer.extend(codec::encode(&serde_json::json!({"deep": [1, {"er": null}]})).unwrap());
    let read = codec::decode::<T>(&longer).unwrap_or_else(|e| panic!("{name} with an unknown field: {e}"));
    assert_eq!(&read, value, "{name} with an unknown field");
}

fn old_frames(folder: &Path, name: &str) -> Vec<PathBuf> {
    (1..).map(|n| folder.join(format!("{name}~{n}.msgpack"))).take_while(|path| path.exists()).collect()
}

fn next_old(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}~{}.msgpack", old_frames(folder, name).len() + 1))
}

/// Bytes in a form that a person can compare.
fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes.escape_ascii().collect::<Vec<u8>>()).into_owned()
}

#[test]
fn every_frame_reads_and_writes_as_it_always_did() {
    let bless = std::env::var_os("LEO_BLESS").is_some();
    let mut names = BTreeSet::new();
    for golden in all() {
        assert!(names.insert(golden.name), "{} is there twice", golden.name);
        (golden.check)(&folder(), bless);
    }
    for file in fs::read_dir(folder()).unwrap() {
        let file = file.unwrap().file_name().into_string().unwrap();
        let name = file.strip_suffix(".msgpack").unwrap_or(&file);
        let name = name.split_once('~').map_or(name, |(name, _)| name);
        assert!(names.contains(name), "{file} belongs to no value: a frame is never taken away");
    }
}

#[test]
fn every_request_has_a_golden_frame() {
    let names: BTreeSet<&str> = all().iter().map(|golden| golden.name).collect();
    for (socket, op) in requests() {
        let name = format!("{socket}.{op}");
        assert!(names.contains(name.as_str()), "{name} has no golden frame");
    }
}

#[test]
fn unknown_variants_are_read_as_unknown_whatever_they_carry() {
    use leo_ipc::{
        Envelope, Kind,
        agent::Wake,
        agents::AgentsRequest,
        ask::{ClosedReason, Decision, InputType},
        chat::MessageKind,
        control::{ControlRequest, FromWorker, ToWorker, WorkerState},
        delivery::Outcome,
        event::{EventItem, Resume},
        hello::Role,
        hub::HubRequest,
        mcp::{FromShim, ToShim},
    };
    fn read<T: DeserializeOwned>(json: impl Into<Value>) -> T {
        codec::decode(&codec::encode(&json.into()).unwrap()).unwrap()
    }
    let carried = serde_json::json!({
        "op": "tomorrow", "decision": "tomorrow", "t": "tomorrow", "item": "tomorrow", "what": "tomorrow", "outcome": "tomorrow",
        "list": [1, [2, {"a": null}]], "map": {"x": {"y": "z"}}, "bytes": [0, 255], "n": -1.5
    });
    assert_eq!(read::<HubRequest>(carried.clone()), HubRequest::Unknown);
    assert_eq!(read::<AgentsRequest>(carried.clone()), AgentsRequest::Unknown);
    assert_eq!(read::<ControlRequest>(carried.clone()), ControlRequest::Unknown);
    assert_eq!(read::<ToWorker>(carried.clone()), ToWorker::Unknown);
    assert_eq!(read::<FromWorker>(carried.clone()), FromWorker::Unknown);
    assert_eq!(read::<FromShim>(carried.clone()), FromShim::Unknown);
    assert_eq!(read::<ToShim>(carried.clone()), ToShim::Unknown);
    assert_eq!(read::<EventItem>(carried.clone()), EventItem::Unknown);
    assert_eq!(read::<Wake>(carried.clone()), Wake::Unknown);
    assert_eq!(read::<Decision>(carried.clone()), Decision::Unknown);
    assert_eq!(read::<Outcome>(carried), Outcome::Unknown);
    assert_eq!(read::<InputType>("tomorrow"), InputType::Unknown);
    assert_eq!(read::<ClosedReason>("tomorrow"), ClosedReason::Unknown);
    assert_eq!(read::<Role>("tomorrow"), Role::Unknown);
    assert_eq!(read::<Kind>("tomorrow"), Kind::Unknown);
    assert_eq!(read::<Resume>("tomorrow"), Resume::Unknown);
    assert_eq!(read::<MessageKind>("tomorrow"), MessageKind::Unknown);
    assert_eq!(read::<WorkerState>("tomorrow"), WorkerState::Unknown);
    let envelope: Envelope = read(serde_json::json!({"kind": "tomorrow", "id": 3, "flags": [1]}));
    assert_eq!(envelope, Envelope { kind: Kind::Unknown, id: 3, body: Vec::new() });
}
