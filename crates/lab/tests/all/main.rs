//! The program of the lab as a user runs it: its searches, its benches, its nodes.

#[path = "../../../cli/tests/all/documented/mod.rs"]
mod documented;
#[path = "../../../cli/tests/all/measured/mod.rs"]
mod measured;

mod bench;
mod carriers;
mod documents;
mod node;
mod sim;
mod study;
mod torture;

const PROGRAM: &str = env!("CARGO_BIN_EXE_logberg-lab");
