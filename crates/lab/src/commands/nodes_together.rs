//! `logberg-lab nodes-together`: the nodes of a cluster as threads of one process.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, Parser};
use client::{Client, Timeouts};
use linux::KernelConfig;

use crate::carriers::memory::{Hub, Memory};

/// Run a cluster whose nodes are threads of this process, with queues between them
#[derive(Debug, Args)]
#[command(after_help = "\
Node n has the directory DIR/node-n, and clients reach it at the nth address. It ends when the process that started it does.

Example:
  logberg-lab nodes-together --directory c1 --listen 127.0.0.1:7117,127.0.0.1:7118,127.0.0.1:7119")]
#[group(skip)]
pub struct Arguments {
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
    /// The address of each node
    #[arg(
        long,
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        required = true
    )]
    listen: Vec<String>,
    /// The process that starts it
    #[arg(long, value_name = "PID")]
    parent: Option<i32>,
    /// Given to every node, as to `logberg node`
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// A node's own arguments, as a line of words.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    node: serve::Arguments,
}

const JOINED: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

impl Arguments {
    /// Until the first node ends: then all of them do.
    pub fn run(self) -> Result<()> {
        if let Some(parent) = self.parent {
            linux::die_with_parent().context("cannot be tied to the starting process")?;
            let now = rustix::process::getppid().map(rustix::process::Pid::as_raw_nonzero);
            if now.is_none_or(|now| now.get() != parent) {
                bail!("the process that started these nodes has ended");
            }
        }
        let hub = Hub::default();
        let (ended, first) = channel();
        for (at, listen) in self.listen.iter().enumerate() {
            let data = self.directory.join(format!("node-{}", at + 1));
            let line = Line::try_parse_from(self.words(at, listen, &data))?;
            let carry = Box::new(Memory::new(&hub));
            let kernel = KernelConfig {
                signals: false,
                ..KernelConfig::default()
            };
            let (ended, number) = (ended.clone(), at + 1);
            std::thread::Builder::new()
                .name(format!("node {number}"))
                .spawn(move || {
                    let result = line.node.run_carried(kernel, None, Some(carry));
                    // Nobody listens when the process ends.
                    let _ = ended.send((number, result));
                })?;
            wait_joined(number, listen, &first)?;
        }
        let (number, result) = first.recv()?;
        result?;
        bail!("node {number} ended")
    }

    fn words(&self, at: usize, listen: &str, data: &Path) -> Vec<String> {
        let mut words = vec!["node".to_owned()];
        let mut say = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
        say(&["--data", &data.display().to_string(), "--listen", listen]);
        let others: Vec<&str> = self.listen.iter().map(String::as_str).collect();
        let others: Vec<&str> = others
            .into_iter()
            .filter(|other| *other != listen)
            .collect();
        match at {
            0 => say(&["--bootstrap", "--voters", &self.listen.len().to_string()]),
            _ => say(&["--join", &others.join(",")]),
        }
        words.extend(self.arguments.iter().cloned());
        words
    }
}

/// A node's end, and why.
type Ended = (usize, Result<()>);

/// Waits until the node has its id: a cluster gives them out in the order of joining.
fn wait_joined(number: usize, address: &str, ended: &Receiver<Ended>) -> Result<()> {
    let client = Client::new(vec![address.to_owned()], Timeouts::default());
    let since = Instant::now();
    loop {
        if let Ok((number, result)) = ended.try_recv() {
            result?;
            bail!("node {number} ended");
        }
        if client
            .status_of(address)
            .is_ok_and(|status| status.node > 0)
        {
            return Ok(());
        }
        if since.elapsed() > JOINED {
            bail!("node {number} has not joined after {} s", JOINED.as_secs());
        }
        std::thread::sleep(POLL);
    }
}
