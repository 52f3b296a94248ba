//! One agent: its life, its deliveries, and the task that carries out what they decide.
//!
//! The task owns everything about its agent; others only write to its mailbox. It decides nothing by
//! itself: `life`, `watch` and `delivery::route` do, and it performs their actions one after another.

mod bridge;
mod command;
mod context;
mod deliver;
mod idle;
mod life;
mod live;
mod look;
mod rest;
mod shared;
mod steer;
mod task;
mod watch;
mod words;

pub(crate) use command::{Command, Mail};
pub(crate) use context::Change;
pub(crate) use shared::{Pids, Shared, Told};
pub(crate) use task::{Handle, spawn};
