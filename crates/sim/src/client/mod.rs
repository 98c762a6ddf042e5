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
mod ledger;
mod line;
mod mover;
mod operator;
mod reader;
mod requester;
mod retainer;
mod trimmer;
mod visitor;

pub use appender::{Appender, AppenderConfig, AppenderCounts, Ending};
pub use asker::Asker;
pub use chain::{Chain, SharedChain};
pub use churner::Churner;
pub use content::{byte_at, crc32c, fill};
pub use ledger::{Answer, Attempt, Entry, Ledger};
pub use line::Line;
pub use mover::{Mover, MoverConfig};
pub use operator::{Operator, OperatorConfig};
pub use reader::{Reader, ReaderConfig, ReaderCounts};
pub use retainer::{Retainer, RetainerConfig};
pub use trimmer::{Trimmer, TrimmerConfig};
pub use visitor::{Visit, Visitor, VisitorConfig};
