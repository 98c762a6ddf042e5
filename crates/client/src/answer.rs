//! A node's answers (docs/wire.md), declared in the crate `wire`.

pub use wire::{Answer, Code, ReadEnd, Refusal};
