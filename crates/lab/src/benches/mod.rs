//! The benches that are not shipped, on the instruments of `bench`.
//!
//! ```text
//!   what is promised, held to it      rivals      for who works on this program
//!   move  auxiliary  memory           rivals      instructions
//!   catch-up  many-logs
//!   reconfigure  elections  recover
//!   shelf  guest  kv  http  waited
//! ```
//!
//! `raw`: appends that are waited for, beside which others are measured.

pub mod auxiliary;
pub mod catch_up;
pub mod elections;
pub mod guest;
pub mod http;
pub mod kv;
pub mod many_logs;
pub mod memory;
pub mod moves;
pub mod reconfigure;
pub mod recover;
pub mod shelf;
pub mod waited;

pub mod rivals;

pub mod instructions;

mod raw;
