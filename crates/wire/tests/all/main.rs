//! The page, golden lines and the declarations are compared with each other.

/// Tests call it as the workspace does, which has some of them elsewhere, too.
extern crate logberg_wire as wire;

mod answers;
mod page;
mod requests;
