//! Who is a member of which log with which weight: what is wanted, and the way there.

mod bytes;
pub mod change;
pub mod plan;
