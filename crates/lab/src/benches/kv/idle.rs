//! `--idle`: the memory that connections take which say nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Resource, getrlimit, setrlimit};
use serde::Serialize;

use super::nodes::Nodes;
use super::slots::address_of;
use bench::latency::rounded;
use terminal::exit::{Failure, Kind};
use testbed::process::rss_bytes;
use testbed::scratch::go_on;
use testbed::watch::{Watch, sleep_until};

#[derive(Debug, Serialize)]
pub struct Idle {
    pub connections: u32,
    pub before_mb: f64,
    pub after_mb: f64,
    pub added_mb: f64,
    pub bytes_per_connection: f64,
}

/// Files that we and a node have open beside connections.
const OTHER_FILES: u64 = 1000;
/// The first of them in each so many is waited for, to say how far it is.
const SAYS_EVERY: u32 = 1000;
const PATIENCE: Duration = Duration::from_secs(5);
/// Until the memory of the node is looked at.
const SETTLE: Duration = Duration::from_secs(1);

/// Lets this process, and the nodes that it starts from now on, have so many connections.
pub fn allow(connections: u32) -> Result<()> {
    let needed = u64::from(connections) + OTHER_FILES;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(most) = limit.maximum.filter(|most| *most < needed) {
        let sentence = format!(
            "{connections} connections need {needed} open files, and {most} are allowed: \
             say `ulimit -n {needed}` as root before, or ask for fewer with --idle"
        );
        return Err(Failure::new(Kind::Refused, sentence).into());
    }
    limit.current = Some(needed);
    setrlimit(Resource::Nofile, limit).context("the number of open files cannot be raised")
}

/// Connections to node 1, each of which was answered once.
pub fn measure(nodes: &Nodes, connections: u32, watch: &Watch) -> Result<Idle> {
    let (pid, address) = (nodes.pid(1)?, address_of(nodes.door(1))?);
    sleep_until(Instant::now() + SETTLE)?;
    let before = rss_bytes(pid)? as f64;
    let mut idle = Vec::new();
    for number in 0..connections {
        if number % SAYS_EVERY == 0 {
            go_on()?;
            watch.says(format!("{number} of {connections} idle connections"));
        }
        let connected = TcpStream::connect_timeout(&address, PATIENCE);
        let mut stream = connected.with_context(|| format!("connection {}", number + 1))?;
        let pong = ping(&mut stream);
        pong.with_context(|| format!("connection {}", number + 1))?;
        idle.push(stream);
    }
    thread::sleep(SETTLE);
    let after = rss_bytes(pid)? as f64;
    // All are still there, and the node answers the last as it did the first.
    for stream in [0, idle.len().saturating_sub(1)] {
        let stream = idle.get_mut(stream).context("there is no connection")?;
        ping(stream).context("an idle connection")?;
    }
    Ok(Idle {
        connections,
        before_mb: rounded(before / 1e6),
        after_mb: rounded(after / 1e6),
        added_mb: rounded((after - before) / 1e6),
        bytes_per_connection: rounded((after - before) / f64::from(connections)),
    })
}

fn ping(stream: &mut TcpStream) -> Result<()> {
    const PONG: &[u8; 7] = b"+PONG\r\n";
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
    let mut reply = *PONG;
    stream
        .read_exact(&mut reply)
        .context("PING is not answered")?;
    if reply != *PONG {
        bail!("PING is answered {:?}", String::from_utf8_lossy(&reply));
    }
    Ok(())
}
