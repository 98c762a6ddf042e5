//! A client's requests (docs/wire.md), declared in the crate `wire`.

pub use wire::{Ask as Request, Before, ConnectionEnd, Format, Mode, NoPlace, NodeIds};
