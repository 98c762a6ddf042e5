//! The arguments of a line (docs/wire.md), declared in the crate `wire`.

pub use wire::line::{LINE_BYTES_MAX, LineError, LineWriter, PROTOCOL as VERSION, Words};
pub use wire::{NoStreamName, StreamName, StreamPlace};
