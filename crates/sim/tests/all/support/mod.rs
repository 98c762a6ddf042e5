//! Small machines that use the kernel in every way a node would.
#![allow(dead_code, reason = "each test file uses some of them")]

pub mod echo;
pub mod logger;
pub mod oracle;
pub mod puppet;
