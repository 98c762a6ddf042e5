//! Who is a member of which log with which weight: what is wanted, and the way there.

pub mod plan;
