//! `logberg-lab guest-node`: one of the processes of `bench guest`.

pub use crate::benches::guest::node::Arguments;
