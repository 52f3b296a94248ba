//! The line to the mod inside Claude: HTTP on a unix socket that the supervisor holds. The mod asks for
//! commands and reports; what it reports goes on to the hub or to the agent's task. Nothing is decided
//! here, and a command that is lost with this process is given again by whoever gave it.

mod links;
mod serve;
mod wire;

pub(crate) use links::Links;
pub(crate) use serve::serve;
pub(crate) use wire::{Ack, AckOutcome, Command, News, Op};
