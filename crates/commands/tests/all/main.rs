//! A state machine on a log, from its frames to its snapshots.

#[path = "../../examples/bank.rs"]
mod bank;
mod replica;
mod snapshots;
