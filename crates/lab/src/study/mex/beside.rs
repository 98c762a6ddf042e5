//! One client that goes on setting keys while something else happens: what it waited, before and meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use resp::Value;
use torture::link::{Link, words};

use crate::benches::kv::slots::Map;
use crate::benches::kv::values::name_of;
use crate::study::rounds::Samples;
use crate::study::statistics;

/// Longer than a node holds a command.
const REPLY_MAX: Duration = Duration::from_secs(5);
const VALUE: &[u8] = b"some bytes";
/// Keys of its own, in every group.
const KEYS: u32 = 1_000;
/// A client that asked all the time would measure what it takes of the machine.
const EVERY: Duration = Duration::from_millis(1);

/// A client on a thread of its own.
pub struct Beside {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Told>>>,
}

/// One command: when it was sent, and how long its answer took.
#[derive(Clone, Copy, Debug)]
struct Told {
    at: Instant,
    took: Duration,
}

/// The time that a client waited.
#[derive(Debug)]
pub struct Waited {
    pub before: Samples,
    pub meanwhile: Samples,
}

impl Beside {
    /// `first`: the first of its keys, which nobody else has. `away`: the node that may die, which it never asks.
    pub fn start(doors: &[String], first: u32, away: &str) -> Result<Beside> {
        let map = Map::of_cluster(doors, first + KEYS)?;
        let mut asked = Vec::new();
        for key in first..first + KEYS {
            let server = map.servers[map.range_of(key).server].to_string();
            if server != away {
                asked.push((key, server));
            }
        }
        if asked.is_empty() {
            bail!("every group is led by the node that is to die");
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || ask(&asked, &stopped));
        Ok(Beside { stop, thread })
    }

    /// Ends it. `meanwhile`: from when to when that went on which it was beside; `before` it, nothing was going on.
    pub fn end(self, before: Instant, meanwhile: (Instant, Instant)) -> Result<Waited> {
        self.stop.store(true, Ordering::Relaxed);
        let told = self
            .thread
            .join()
            .map_err(|_| anyhow!("the client beside it panicked"))??;
        Ok(Waited::of(&told, before, meanwhile))
    }
}

impl Waited {
    fn of(told: &[Told], before: Instant, (from, to): (Instant, Instant)) -> Waited {
        let samples = |is_of: &dyn Fn(&Told) -> bool| {
            let of = told.iter().filter(|one| is_of(one));
            let all: Vec<f64> = of.map(|one| one.took.as_secs_f64() * 1e3).collect();
            Samples {
                rounds: statistics::median(&all).into_iter().collect(),
                all,
            }
        };
        Waited {
            before: samples(&|one| one.at + one.took < before),
            meanwhile: samples(&|one| one.at + one.took >= from && one.at <= to),
        }
    }
}

fn ask(asked: &[(u32, String)], stop: &AtomicBool) -> Result<Vec<Told>> {
    let mut links: Vec<(&str, Link)> = Vec::new();
    let mut told = Vec::new();
    for (key, server) in asked.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if !links.iter().any(|(known, _)| known == server) {
            links.push((server, Link::to(server, REPLY_MAX)?));
        }
        let Some((_, link)) = links.iter_mut().find(|(known, _)| known == server) else {
            continue;
        };
        let at = Instant::now();
        link.send(&[words([b"SET", &name_of(*key)[..], VALUE])])?;
        if let Value::Error(error) = link.receive()? {
            bail!("a command beside a recovery was refused: {error}");
        }
        let took = at.elapsed();
        told.push(Told { at, took });
        thread::sleep(EVERY);
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_before_and_what_overlaps_are_told_apart() {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let told = [(0, 4), (5, 10), (20, 1), (40, 1)].map(|(from, ms)| Told {
            at: at(from),
            took: Duration::from_millis(ms),
        });
        let waited = Waited::of(&told, at(8), (at(10), at(30)));
        assert_eq!(waited.before.all, [4.0]);
        assert_eq!(waited.meanwhile.all, [10.0, 1.0]);
    }
}
