//! Tasks: prompts on a schedule, run in coding agents without a terminal. The worker follows the
//! schedules; running one is a library, since `leo run` does the same in the foreground.
//!
//! A run dies with whoever holds it and is recorded as interrupted at the next look: what it would have
//! done is unknown, so nothing is done twice, and no agent works on with nobody to see it. What was run
//! and how it ended is kept by the hub, never here.

mod guard;
mod hold;
mod plan;
mod platform;
mod run;
mod schedule;
mod worker;

pub use guard::guard;
pub use hold::{Hold, HoldError, Outcome, Recorded, hold};
pub use run::{Ended, Job, Live, Lock, LockError, Stream, prompt, run};
pub use schedule::{BadSchedule, Schedule, in_words};
pub use worker::worker;
