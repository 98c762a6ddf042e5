//! The way in which the commands of `logberg` and `logberg-lab` speak to people and programs.
//!
//! ```text
//!   program   a command line that makes no sense, and log lines on standard error
//!   exit      errors: one sentence, as text or JSON, and the process's exit code
//!   show      answers: tables and JSON on standard output
//!   moving    arguments of every command that starts nodes: --mover, --ink
//! ```

pub mod exit;
pub mod moving;
pub mod program;
pub mod show;
