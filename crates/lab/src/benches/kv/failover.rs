//! `--failover`: how long clients of one group wait for their next answer when its leader's process is killed.
//!
//! ```text
//!  SETs to one group ── kill -9 ─────────── first answer of another node ── restarted ── whole ── led as before
//!                        └────── measured ──────┘                                          (next round)
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use resp::Value;
use serde::Serialize;
use torture::link::{Link, words};

use super::nodes::Nodes;
use super::values::name_of;
use bench::latency::{median, ms, rounded};
use testbed::scratch::go_on;
use testbed::watch::{Watch, sleep_until};

#[derive(Debug, Serialize)]
pub struct Failover {
    pub times: u32,
    pub median_ms: f64,
    pub max_ms: f64,
    pub all_ms: Vec<f64>,
    /// Keys that were answered, and are not there when their node is back.
    pub lost: u64,
}

const CLIENTS: usize = 4;
const BEFORE: Duration = Duration::from_millis(1000);
const AFTER: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(60);
/// A client's patience with one reply: longer than a door holds a command.
const REPLY_MAX: Duration = Duration::from_millis(2500);
/// After every node was asked in vain, once.
const PAUSE: Duration = Duration::from_millis(1);
const POLL: Duration = Duration::from_micros(200);

pub fn measure(nodes: &Nodes, keys: u32, times: u32, watch: &Watch) -> Result<Failover> {
    let group = nodes.groups.first().context("there is no group")?;
    let keys = keys_of_first_group(nodes, keys)?;
    let (mut all, mut lost) = (Vec::new(), 0);
    for round in 1..=times {
        watch.says(format!("leader {round} of {times} is killed"));
        let one = one_round(nodes, group, &keys);
        let (took, gone) = one.with_context(|| format!("round {round} of {times}"))?;
        all.push(rounded(ms(took)));
        lost += gone;
        nodes.spread()?;
        watch.step(1);
    }
    Ok(Failover {
        times,
        median_ms: rounded(median(all.iter().copied())),
        max_ms: all.iter().copied().fold(0.0, f64::max),
        all_ms: all,
        lost,
    })
}

/// A key of the first group for each client.
fn keys_of_first_group(nodes: &Nodes, keys: u32) -> Result<Vec<u32>> {
    let map = super::slots::Map::of_cluster(&nodes.doors, keys)?;
    let Some(keys) = map.ranges[0].keys.first_chunk::<CLIENTS>() else {
        bail!("the first group has fewer than {CLIENTS} keys: ask for more with --keys");
    };
    Ok(keys.to_vec())
}

fn one_round(nodes: &Nodes, group: &str, keys: &[u32]) -> Result<(Duration, u64)> {
    let callers = Callers::start(nodes, keys)?;
    sleep_until(Instant::now() + BEFORE)?;
    let leader = nodes.leader(group).context("the group has no leader")?;
    let door = nodes.door(leader);
    if callers.heard().door.as_deref() != Some(door) {
        bail!("node {leader} leads the group, and no client was answered there");
    }
    callers.heard().dead = Some(door.to_owned());
    let began = Instant::now();
    nodes.cluster.kill(leader)?;
    let first = loop {
        if let Some(first) = callers.heard().first {
            break first;
        }
        go_on()?;
        if began.elapsed() > PATIENCE {
            bail!("nothing was answered for {} s", PATIENCE.as_secs());
        }
        thread::sleep(POLL);
    };
    sleep_until(Instant::now() + AFTER)?;
    nodes.cluster.restart(leader)?;
    let written = callers.end()?;
    nodes.wait_whole(PATIENCE)?;
    let lost = written.iter().filter(|written| !written.is_there(nodes));
    Ok((first - began, lost.count() as u64))
}

/// Clients that write again and again, each its key, and go to another node at once where one does not answer.
struct Callers {
    stop: Arc<AtomicBool>,
    heard: Arc<Mutex<Heard>>,
    threads: Vec<JoinHandle<Result<Written>>>,
}

#[derive(Default)]
struct Heard {
    /// Where somebody was answered last.
    door: Option<String>,
    /// The node that was killed.
    dead: Option<String>,
    /// When another one first answered.
    first: Option<Instant>,
}

/// The numbers that one client wrote to its key.
struct Written {
    key: u32,
    /// The last that was answered, and the last that was sent.
    answered: u64,
    sent: u64,
}

impl Callers {
    fn start(nodes: &Nodes, keys: &[u32]) -> Result<Callers> {
        let mut callers = Callers {
            stop: Arc::default(),
            heard: Arc::default(),
            threads: Vec::new(),
        };
        for key in keys {
            let mut caller = Caller {
                doors: nodes.doors.clone(),
                next: *key as usize,
                link: None,
                written: Written {
                    key: *key,
                    answered: 0,
                    sent: 0,
                },
            };
            let (stop, heard) = (callers.stop.clone(), callers.heard.clone());
            let thread = thread::Builder::new().name("bench-caller".to_owned());
            callers.threads.push(thread.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    caller.write(&heard)?;
                }
                Ok(caller.written)
            })?);
        }
        Ok(callers)
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(mut self) -> Result<Vec<Written>> {
        self.stop.store(true, Ordering::Relaxed);
        let joined = self.threads.drain(..).map(|thread| match thread.join() {
            Ok(written) => written,
            Err(_) => Err(anyhow!("a client panicked")),
        });
        joined.collect()
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Caller {
    doors: Vec<String>,
    /// The number of the door that is asked next.
    next: usize,
    link: Option<(String, Link)>,
    written: Written,
}

impl Caller {
    /// Writes the next number. Where no node does it now, another is asked at the next call.
    fn write(&mut self, heard: &Mutex<Heard>) -> Result<()> {
        let (door, mut link) = match self.link.take() {
            Some(link) => link,
            None => {
                let door = self.doors[self.next % self.doors.len()].clone();
                self.next += 1;
                match Link::to(&door, REPLY_MAX) {
                    Ok(link) => (door, link),
                    Err(_) => {
                        if self.next.is_multiple_of(self.doors.len()) {
                            thread::sleep(PAUSE);
                        }
                        return Ok(());
                    }
                }
            }
        };
        self.written.sent += 1;
        let number = self.written.sent.to_string();
        let set = words([&b"SET"[..], &name_of(self.written.key), number.as_bytes()]);
        let reply = link.send(&[set]).and_then(|()| link.receive());
        let at = Instant::now();
        match reply {
            Ok(Value::Simple(_)) => {
                self.written.answered = self.written.sent;
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                if heard.dead.as_ref().is_some_and(|dead| *dead != door) {
                    heard.first.get_or_insert(at);
                }
                heard.door = Some(door.clone());
                drop(heard);
                self.link = Some((door, link));
            }
            Ok(Value::Error(error)) => match error.strip_prefix("MOVED ") {
                Some(to) => {
                    let to = to.split(' ').nth(1).context("a MOVED without a place")?;
                    if let Ok(link) = Link::to(to, REPLY_MAX) {
                        self.link = Some((to.to_owned(), link));
                    }
                }
                None => thread::sleep(PAUSE),
            },
            Ok(other) => bail!("a SET is answered {other:?}"),
            Err(_) => {}
        }
        Ok(())
    }
}

impl Written {
    /// Whether the number that was answered last, or a later one, is what a read shows.
    fn is_there(&self, nodes: &Nodes) -> bool {
        let read = |door: &String| {
            let mut link = Link::to(door, REPLY_MAX).ok()?;
            link.send(&[words([&b"GET"[..], &name_of(self.key)])])
                .ok()?;
            match link.receive().ok()? {
                Value::Bulk(value) => std::str::from_utf8(&value).ok()?.parse().ok(),
                _ => None,
            }
        };
        let shown: Option<u64> = nodes.doors.iter().find_map(read);
        shown.is_some_and(|number| (self.answered..=self.sent).contains(&number))
    }
}
