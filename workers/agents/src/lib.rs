//! The sole speaker to tmux: launches, adopts, stops and watches agents, and hands messages to them.
//! It must not keep messages.

mod agent;
mod delivery;
mod env;
mod harness;
mod tmux;
