//! Protocol versions. Every wire change that an older peer could notice adds a constant here with
//! the reason, and a golden frame; nothing else may break.

/// Version 1: the first wire. Requests are internally tagged maps inside an [`Envelope`](crate::Envelope).
pub const V1: u16 = 1;

/// The oldest version this build can speak.
pub const MIN: u16 = V1;

/// The newest version this build can speak.
pub const MAX: u16 = V1;

/// What this build calls itself in handshakes and logs.
pub const BUILD: &str = env!("CARGO_PKG_VERSION");
