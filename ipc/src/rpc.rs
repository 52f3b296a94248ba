//! Requests, replies and streams on one connection, told apart by id.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// What an [`Envelope`] carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A request; the body is the socket's request enum.
    Request,
    /// The one answer to a request, or the body-less end of a stream.
    Reply,
    /// A refusal; the body is a [`Fault`](crate::Fault).
    Fault,
    /// One item of a stream.
    Item,
    /// The caller no longer waits for this id.
    Cancel,
    /// A kind of a newer build; ignored.
    #[serde(other)]
    Unknown,
}

/// One frame after the handshake. The body is MessagePack of its own, so that an unreadable body
/// costs one answer and not the connection's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// What the body is.
    pub kind: Kind,
    /// The request this belongs to, chosen by the caller.
    pub id: u64,
    /// The body.
    #[serde(with = "serde_bytes", default)]
    pub body: Vec<u8>,
}

/// A request type and what answers it. Every request that changes something carries an idempotency
/// key, so that the client may ask again after losing its peer (DESIGN.md, invariant 4).
pub trait Call: Serialize + Send + Sync {
    /// The socket's request enum.
    type Request: Serialize + DeserializeOwned + Send;
    /// The answer.
    type Reply: Serialize + DeserializeOwned + Send;
    /// This request as the socket's enum.
    fn into_request(self) -> Self::Request;
}

/// A request answered by a stream of items.
pub trait Streaming: Serialize + Send + Sync {
    /// The socket's request enum.
    type Request: Serialize + DeserializeOwned + Send;
    /// One item.
    type Item: Serialize + DeserializeOwned + Send;
    /// This request as the socket's enum.
    fn into_request(self) -> Self::Request;
}

/// Declares a socket's request enum from its request structs, internally tagged by `op`, with the
/// reply of each beside it.
macro_rules! requests {
    (
        $(#[$doc:meta])* $enum:ident {
            $( $(#[$vdoc:meta])* $op:literal => $variant:ident($req:ty) -> $reply:ty, )*
        }
        streams {
            $( $(#[$sdoc:meta])* $sop:literal => $svariant:ident($sreq:ty) -> $sitem:ty, )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(tag = "op")]
        #[allow(clippy::large_enum_variant, reason = "a request is made and consumed once, never stored")]
        pub enum $enum {
            $( $(#[$vdoc])* #[serde(rename = $op)] $variant($req), )*
            $( $(#[$sdoc])* #[serde(rename = $sop)] $svariant($sreq), )*
            /// A request of a newer build; refused with `unknown_request`.
            #[serde(other)]
            Unknown,
        }
        impl $enum {
            /// The names on the wire of every request that this build knows.
            pub const OPS: &'static [&'static str] = &[$($op,)* $($sop,)*];
        }
        $(
            impl $crate::Call for $req {
                type Request = $enum;
                type Reply = $reply;
                fn into_request(self) -> $enum { $enum::$variant(self) }
            }
        )*
        $(
            impl $crate::Streaming for $sreq {
                type Request = $enum;
                type Item = $sitem;
                fn into_request(self) -> $enum { $enum::$svariant(self) }
            }
        )*
    };
}
pub(crate) use requests;

/// An answer that says only that the request was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Done {}
