//! `leo hook`: one event from a harness to the hub, without an async runtime or an argument parser.
//! It must never disturb the harness: it is silent, always succeeds, and takes at most a second.

mod settings;

pub use settings::{CLAUDE_EVENTS, claude_settings};
