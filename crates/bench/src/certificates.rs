//! Certificates for the nodes of one bench, made as operators make them: by `logberg certs`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use client::Transport;
use tls::Trust;

const HOST: &str = "127.0.0.1";

/// An authority, and what it gave to each node.
pub struct Certificates {
    directory: PathBuf,
}

impl Certificates {
    pub fn make(directory: PathBuf, nodes: u32) -> Result<Certificates> {
        certs(&directory, &["init"])?;
        for node in 1..=nodes {
            certs(&directory, &["node", &name(node), "--host", HOST])?;
        }
        Ok(Certificates { directory })
    }

    /// Those with which that node takes and makes connections by TLS alone.
    pub fn arguments(&self, node: u32) -> Vec<String> {
        let own = self.directory.join(name(node));
        vec![
            "--tls=require".to_owned(),
            format!("--tls-dir={}", own.display()),
        ]
    }

    /// For clients of these nodes.
    pub fn transport(&self) -> Result<Arc<dyn Transport>> {
        Ok(Arc::new(Trust::read(&self.directory.join(tls::CA_FILE))?))
    }
}

fn name(node: u32) -> String {
    format!("node-{node}")
}

fn certs(directory: &Path, words: &[&str]) -> Result<()> {
    let program = std::env::current_exe().context("cannot find our own program")?;
    let made = Command::new(program)
        .arg("certs")
        .args(words)
        .arg("--dir")
        .arg(directory)
        .stdin(Stdio::null())
        .output()
        .context("cannot start our own program")?;
    if !made.status.success() {
        let why = String::from_utf8_lossy(&made.stderr);
        bail!("no certificates could be made: {}", why.trim());
    }
    Ok(())
}
