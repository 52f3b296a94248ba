//! The client and the server halves over real sockets, with peers that behave and peers that do not.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod abuse;
mod calls;
mod frames;
mod support;
