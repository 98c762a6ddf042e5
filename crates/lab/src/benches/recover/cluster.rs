//! The cluster that is measured.

pub const NODES: u32 = 3;
pub const LOG: &str = "main";
