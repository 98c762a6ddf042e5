//! The members of each log and their weights: the wanted ones, and the way there.

mod bytes;
pub mod change;
mod naming;
pub mod plan;
