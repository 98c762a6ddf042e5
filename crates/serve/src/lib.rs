//! A node as a process: what `logberg node` is, and what a program of its own that runs nodes is made of.
//!
//! ```text
//!   arguments ─┐
//!   settings ──┴─► config ─► process ─┬─ node over linux, until SIGTERM
//!   (environment, file)               └─ admin: /metrics, /healthz, /livez over HTTP
//! ```
//!
//! The caller hands in the kernel's configuration. The settings change its mover and its ink and nothing
//! else: no argument, no file and no environment variable that is read here makes a disk fail. Nor does any carry what
//! nodes say by another way than the kernel's: who hands in a [`Carry`] does.

mod altered;
mod arguments;
mod carry;
mod chains;
mod config;
mod door;
mod listening;
mod logs;
mod settings;
mod sockets;
mod streams;

mod in_memory;
mod process;
mod secure;

mod admin;

use std::sync::LazyLock;

pub use arguments::{Arguments, HELP};
pub use carry::{Carry, Seat};

/// The program's version, and that of all it writes and sends.
pub fn version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let program = env!("CARGO_PKG_VERSION");
        format!("{program} (speaks version {})", formats::Speaks::THIS)
    });
    &TEXT
}
