//! One replica against hand-made messages: each rule of the contract as a fact.

mod barriers;
mod candidates;
mod choosing;
mod handing_over;
mod holding;
mod impossible_messages;
mod level;
mod permits;
mod phase_one;
mod promises;
mod reads;
mod recovery;
mod restart;
mod strangers;
