//! The vendor's own server of the protocol, one process on one disk: what appends cost without agreement.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::benches::rivals::service::{Servers, command, find};
use testbed::port;

/// The program that `cargo install durable-streams` makes.
const PROGRAM: &str = "durable-streams-server";
const READY: Duration = Duration::from_secs(20);

/// It runs as long as this is there.
pub struct Floor {
    _servers: Servers,
    pub url: String,
}

/// Errors: it is not there; with the command that gets it.
pub fn found(directory: &Path) -> Result<PathBuf> {
    find(PROGRAM, Some(directory)).with_context(|| {
        let at = directory.display();
        format!("{PROGRAM} is not in {at}: cargo install durable-streams --root {at}")
    })
}

impl Floor {
    /// On an empty directory, with each append on the disk before it is answered.
    pub fn start(program: &Path, directory: &Path) -> Result<Floor> {
        std::fs::create_dir_all(directory)?;
        let port = port::free(1)?[0];
        let mut command = command(program, directory);
        command.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
        command.arg("--data-dir").arg(directory.join("data"));
        command.args(["--durability", "wal"]);
        let mut servers = Servers::default();
        servers.start(command, &directory.join("log"))?;
        servers.wait_listening(&[port], READY)?;
        Ok(Floor {
            _servers: servers,
            url: format!("http://127.0.0.1:{port}/v1/stream"),
        })
    }
}
