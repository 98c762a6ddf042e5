//! Clients that know what they sent, and readers that know what they should see.
//!
//! Both are the client that people use, the machines of the crate `talk`, over simulated connections; a part
//! of the writers speaks by hand. They share a [`Chain`]: the one place that remembers what was promised to
//! whom. A notary writes it, which listens to all words on every connection: no client is believed. A broken
//! promise is a panic, at the moment somebody sees it, whether a node broke it or the client.

mod appender;
mod asker;
mod by_hand;
mod chain;
mod churner;
mod content;
mod conversation;
mod ledger;
mod line;
mod mover;
mod notary;
mod operator;
mod phones;
mod proposer;
mod reader;
mod requester;
mod retainer;
mod trimmer;
mod visitor;

pub use appender::{Appender, AppenderConfig, AppenderCounts, Ending};
pub use asker::Asker;
pub use by_hand::ByHand;
pub use chain::{Chain, SharedChain};
pub use churner::{Churner, Habits};
pub use content::{byte_at, crc32c, fill};
pub use ledger::{Answer, Attempt, Entry, Ledger};
pub use line::Line;
pub use mover::{Mover, MoverConfig};
pub use operator::{Operator, OperatorConfig};
pub use proposer::Proposer;
pub use reader::{Reader, ReaderConfig, ReaderCounts};
pub use retainer::{Retainer, RetainerConfig};
pub use trimmer::{Trimmer, TrimmerConfig};
pub use visitor::{Visit, Visitor, VisitorConfig};
