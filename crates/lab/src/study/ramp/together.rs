//! A cluster whose nodes are threads of one process, which has queues between them.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use client::{Client, Timeouts};
use testbed::cluster::log_of;
use testbed::port;

/// Ends with its process.
pub struct Together {
    process: Child,
    addresses: Vec<String>,
}

const POLL: Duration = Duration::from_millis(20);

impl Together {
    /// Returns once all of them vote on the log `main`, which has a leader. Must be called on a thread that lives as long as they.
    pub fn start(
        directory: &Path,
        nodes: u32,
        arguments: &[String],
        patience: Duration,
    ) -> Result<Together> {
        std::fs::create_dir_all(directory)?;
        let ports = port::free(nodes)?;
        let addresses: Vec<String> = ports
            .iter()
            .map(|port| format!("127.0.0.1:{port}"))
            .collect();
        let log = File::create(directory.join("nodes.log"))?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("nodes-together")
            .arg("--directory")
            .arg(directory);
        command.arg("--listen").arg(addresses.join(","));
        command.arg(format!("--parent={}", std::process::id()));
        command.arg("--").args(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let process = command.spawn().context("cannot start the nodes")?;
        let mut together = Together { process, addresses };
        together.wait_ready(directory, patience)?;
        Ok(together)
    }

    pub fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    fn wait_ready(&mut self, directory: &Path, patience: Duration) -> Result<()> {
        let since = Instant::now();
        while let Some(why) = self.why_not_ready() {
            let log = directory.join("nodes.log");
            if let Some(status) = self.process.try_wait()? {
                bail!("the nodes ended ({status}): see {}", log.display());
            }
            if since.elapsed() > patience {
                bail!(
                    "the nodes are not ready after {} s: {why}",
                    patience.as_secs()
                );
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn why_not_ready(&self) -> Option<String> {
        for address in &self.addresses {
            let client = Client::new(vec![address.clone()], Timeouts::default());
            let status = match client.status_of(address) {
                Ok(status) => status,
                Err(error) => return Some(format!("{address} does not answer: {error:#}")),
            };
            if let Some(what) = status.waiting_for.first() {
                return Some(format!("{address} waits for {what}"));
            }
            let Some(main) = log_of(&status, "main") else {
                return Some(format!("{address} does not know the log main"));
            };
            let voters = main.weights.iter().filter(|weight| weight.weight > 0);
            if voters.count() < self.addresses.len() || main.leader.is_none() {
                return Some("not all nodes vote on the log main, or none leads it".to_owned());
            }
        }
        None
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
