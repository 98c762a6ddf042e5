//! The decision about a log's directory at a start: one function from the word or the silence of each block
//! to what may have been promised, accepted and chosen.
//!
//! ```text
//!  blocks ──▶ whose is each file ──▶ was the last one born ──▶ newest whole checkpoint ──▶ walk ──▶ Verdict
//!             (uses)                 (birth)                   (decide)                    (walk)   or a Refusal
//! ```
//!
//! Nothing here touches a disk, and nothing is changed before the verdict is known. [`Blocks`] answers the
//! questions, block by block, so that a start reads no more than it must; the verdict follows from the
//! answers alone. The node's start, `logberg verify`, `logberg doctor` and a rescue all ask [`decide`], and
//! `tests/small_disks` asks it about every small disk there is. Which of the losses are still damage they ask
//! [`Verdict::damage`].
//!
//! Its guarantee: every answer given before (a promise told, an acceptance told) is in the verdict, or below
//! [`Verdict::learn_past`], or there is a [`Refusal`]. The exception is a write of the last moments that
//! nothing on the disk bears witness to: it looks like one that a crash tore.

mod birth;
mod blocks;
mod damage;
mod decide;
mod refusal;
mod uses;
mod verdict;
mod walk;

pub use blocks::{Blocks, First, Said, Taken};
pub use damage::{Damage, Inventory};
pub use decide::{Depth, decide};
pub use refusal::{Refusal, Stop};
pub use verdict::{Aside, Expected, Lost, Segment, Verdict};
