//! Forgetting by size and age ([`wire::Retention`]).
//!
//! The leader of a log looks at it as it grows, and each second. It proposes a trim when the log exceeds its
//! size by a sixteenth, or when a sixteenth of its age has passed: nothing is forgotten too soon, some of it
//! later than it might be.

mod ages;
mod keeping;

pub(crate) use keeping::Keeping;
