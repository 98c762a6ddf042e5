//! The experiments of three papers, again, on this engine: what was claimed, what was published, and what is so here.
//!
//! ```text
//!   catalogue ── every table, figure and claim: its command, or what is missing ─┐
//!   published ── the papers' numbers ────────────────────────────────────────────┤
//!   rounds ───── each round one turn of every variant, in drawn order ──► run ───┴─► a table, a page, JSON
//!                                 statistics: ratios of rounds, and their interval
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `catalogue` | the rows and the checks; `list`, `show` and docs/lab.md are printed from them |
//! | `published` | the numbers of the papers, and how they were had |
//! | `statistics` | medians, and intervals of them without an assumption |
//! | `rounds` | variants that live at once and take turns |
//! | `common` | the options of all experiments, and how one ends |
//! | `run` | what a run found, as JSON |
//! | `tables`, `plots` | its tables and plots |
//! | `page` | the same for people |
//! | `paper` | the page that is made of kept runs |
//! | `zcp` | Zero-copy Paxos' grid |
//! | `ramp` | The RAM-ified Part-Time Parliament's experiments |
//! | `mex` | those of the sharded key/value store of 6.824 |

pub mod catalogue;
mod common;
pub mod mex;
mod page;
pub mod paper;
mod plots;
mod published;
pub mod ramp;
mod rounds;
pub mod run;
mod statistics;
mod tables;
pub mod zcp;

#[cfg(test)]
pub use rounds::Draw;
