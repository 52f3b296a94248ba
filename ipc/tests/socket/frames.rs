//! Round trips of whatever a frame may hold, and decoders that take whatever comes.

use leo_ipc::{
    CallKey, Envelope, Fault, IpcError, Kind,
    chat::{AgentPost, SendMessage},
    codec,
    frame::{self, MAX_FRAME},
    hello::{Hello, HelloReply},
    hook::HookEvent,
    hub::HubRequest,
    mcp::FromShim,
};
use proptest::prelude::*;
use serde_json::Value;

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no such number", |f| f.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Request),
        Just(Kind::Reply),
        Just(Kind::Fault),
        Just(Kind::Item),
        Just(Kind::Cancel)
    ]
}

proptest! {
    #[test]
    fn values_survive(value in json()) {
        prop_assert_eq!(&codec::decode::<Value>(&codec::encode(&value).unwrap()).unwrap(), &value);
        let fault = Fault::new("code", "message").with_data(value);
        let read: Fault = codec::decode(&codec::encode(&fault).unwrap()).unwrap();
        // An absent value and a null are one on this wire.
        prop_assert_eq!(read.data.unwrap_or_default(), fault.data.unwrap_or_default());
    }

    #[test]
    fn envelopes_and_requests_survive(
        kind in kind(),
        id in any::<u64>(),
        text in any::<String>(),
        key in any::<String>(),
        reply_to in any::<Option<String>>(),
        files in prop::collection::vec(any::<String>(), 0..4),
        body in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let envelope = Envelope { kind, id, body };
        prop_assert_eq!(codec::decode::<Envelope>(&codec::encode(&envelope).unwrap()).unwrap(), envelope);
        let reply_to = reply_to.as_deref().map(Into::into);
        for request in [
            HubRequest::SendMessage(SendMessage { steer: false,
                agent: "a".parse().unwrap(),
                text: text.clone(),
                reply_to: reply_to.clone(),
                attachments: files.clone(),
                client_msg_id: Some(key.clone()),
                key: CallKey(key.clone()),
            }),
            HubRequest::AgentPost(AgentPost {
                agent: "a".parse().unwrap(),
                launch: None,
                call_key: CallKey(key),
                text,
                files,
                reply_to,
                run: None,
            }),
        ] {
            prop_assert_eq!(&codec::decode::<HubRequest>(&codec::encode(&request).unwrap()).unwrap(), &request);
        }
    }

    #[test]
    fn frames_survive_however_they_are_cut(bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..6), cut in any::<prop::sample::Index>()) {
        let stream: Vec<u8> = bodies.iter().flat_map(|body| frame::seal(body, MAX_FRAME).unwrap()).collect();
        let mut reader = stream.as_slice();
        for body in &bodies {
            let read = frame::read_blocking(&mut reader, MAX_FRAME).unwrap();
            prop_assert_eq!(read.as_ref(), Some(body));
        }
        prop_assert!(frame::read_blocking(&mut reader, MAX_FRAME).unwrap().is_none());

        // Cut anywhere, the last frame is missing, never wrong.
        let mut reader = &stream[..cut.index(stream.len() + 1)];
        let mut whole = 0;
        let end = loop {
            match frame::read_blocking(&mut reader, MAX_FRAME) {
                Ok(Some(read)) => {
                    prop_assert_eq!(&read, &bodies[whole]);
                    whole += 1;
                }
                Ok(None) => break None,
                Err(e) => break Some(e),
            }
        };
        prop_assert!(end.is_none() || matches!(end, Some(IpcError::Closed)), "{:?}", end);
    }

    #[test]
    fn nothing_makes_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = codec::decode::<HubRequest>(&bytes);
        let _ = codec::decode::<Envelope>(&bytes);
        let _ = codec::decode::<Hello>(&bytes);
        let _ = codec::decode::<HelloReply>(&bytes);
        let _ = codec::decode::<FromShim>(&bytes);
        let _ = codec::decode::<Value>(&bytes);
        let _ = HookEvent::from_json(&bytes);
        let _ = frame::read_blocking(&mut bytes.as_slice(), MAX_FRAME);
    }

    #[test]
    fn a_mangled_request_is_refused_or_another_request(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let request = HubRequest::SendMessage(SendMessage { steer: false,
            agent: "a".parse().unwrap(),
            text: "hello".into(),
            reply_to: None,
            attachments: Vec::new(),
            client_msg_id: None,
            key: CallKey("k".into()),
        });
        let mut bytes = codec::encode(&request).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(read) = codec::decode::<HubRequest>(&bytes) {
            prop_assert_eq!(codec::decode::<HubRequest>(&codec::encode(&read).unwrap()).unwrap(), read);
        }
    }
}

#[test]
fn claims_of_length_cost_nothing() {
    // str32, bin32, array32 and map32 of 4 GiB, without the bytes.
    for first in [0xdb, 0xc6, 0xdd, 0xdf] {
        let bytes = [first, 0xff, 0xff, 0xff, 0xff];
        assert!(codec::decode::<Value>(&bytes).is_err(), "{first:#x}");
        assert!(codec::decode::<Envelope>(&bytes).is_err(), "{first:#x}");
    }
}
