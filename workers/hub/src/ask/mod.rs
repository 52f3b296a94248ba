//! Asks, permission prompts and question cards: one state machine (`machine.rs`), the rules of what may
//! be asked and answered (`input.rs`, `answer.rs`, `card.rs`), and the requests about them.

pub(crate) mod agent;
mod answer;
mod card;
pub(crate) mod clock;
mod input;
pub(crate) mod machine;
pub(crate) mod permission;
pub(crate) mod person;
pub(crate) mod settle;
pub(crate) mod store;
#[cfg(test)]
mod tests;
