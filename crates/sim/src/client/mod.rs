//! Clients that know what they sent, and readers that know what they should see.
//!
//! Both speak the client lines of the wire over simulated connections. They share a [`Chain`]: the
//! one place that remembers what was promised to whom. A broken promise is a panic, at the moment
//! somebody sees it.

mod appender;
mod asker;
mod chain;
mod churner;
mod content;
mod conversation;
mod line;
mod mover;
mod operator;
mod reader;
mod requester;
mod trimmer;

pub use appender::{Appender, AppenderConfig, AppenderCounts, Ending};
pub use asker::Asker;
pub use chain::{Chain, SharedChain};
pub use churner::Churner;
pub use content::{byte_at, crc32c, fill};
pub use line::Line;
pub use mover::{Mover, MoverConfig};
pub use operator::{Operator, OperatorConfig};
pub use reader::{Reader, ReaderConfig, ReaderCounts};
pub use trimmer::{Trimmer, TrimmerConfig};
