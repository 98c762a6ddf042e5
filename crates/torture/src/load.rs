//! The clients: writers that take over from each other, and readers of three kinds, on every log.
//!
//! ```text
//!   per log:  2 writers ─┐                      ┌─ reader      linearizable, from near the end
//!                        ├──► the cluster ◄─────┼─ asker       any node, which may be behind
//!                        └─► ledger ◄───────────┴─ follower    what is chosen, as it is chosen
//! ```
//!
//! Every load is bounded: writers keep to a rate, readers to some reads a second.

mod readers;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use client::{Client, Timeouts};

use super::conduct::Clients;
use super::ledger::Ledger;
use super::schedule::Chance;
use super::secured::Keys;
use testbed::scratch::go_on;
use wire::quantity;

#[derive(Clone, Debug)]
pub struct LoadPlan {
    pub seed: u64,
    /// Bytes per second of each log.
    pub rate: u64,
    /// The nodes, as clients know them.
    pub servers: Vec<String>,
    /// Readers that ask for linearizable reads ask for stale ones instead: to see that it is seen.
    pub reads_are_stale: bool,
    /// The credentials that clients show, if they have to.
    pub keys: Option<Arc<Keys>>,
}

/// Clients that append to these logs and read them.
pub struct Appending {
    pub load: Load,
    pub ledgers: Vec<Arc<Ledger>>,
}

impl Clients for Appending {
    fn check(&mut self) -> Result<()> {
        self.load.check()
    }

    fn so_far(&self) -> String {
        let acked = self.ledgers.iter().map(|ledger| ledger.acked_bytes()).sum();
        format!("{} acknowledged", quantity::shown(acked))
    }
}

/// Threads that end when they are told to. Dropped, they are told, and not waited for.
pub struct Load {
    stop: Arc<Stop>,
    ledgers: Vec<Arc<Ledger>>,
    threads: Vec<(String, JoinHandle<()>)>,
}

#[derive(Default)]
struct Stop {
    writers: AtomicBool,
    readers: AtomicBool,
}

/// The things that each client's thread has.
struct Job {
    ledger: Arc<Ledger>,
    plan: LoadPlan,
    client: Client,
    /// Its number in the history.
    number: u32,
    chance: Chance,
    stop: Arc<Stop>,
}

/// No operation waits longer than this for a cluster that does not answer.
const PATIENCE: Duration = Duration::from_secs(15);
const WRITERS: u32 = 2;

impl Load {
    pub fn start(plan: &LoadPlan, ledgers: &[Arc<Ledger>]) -> Result<Load> {
        let mut load = Load {
            stop: Arc::default(),
            ledgers: ledgers.to_vec(),
            threads: Vec::new(),
        };
        let mut number = 0;
        for ledger in ledgers {
            for _ in 0..WRITERS {
                number += 1;
                load.spawn("writer", plan, ledger, number, writer::run)?;
            }
            type Client = fn(Job);
            let readers: [(&str, Client); 3] = [
                ("reader", readers::read),
                ("asker", readers::ask),
                ("follower", readers::follow),
            ];
            for (name, run) in readers {
                number += 1;
                load.spawn(name, plan, ledger, number, run)?;
            }
        }
        Ok(load)
    }

    fn spawn(
        &mut self,
        name: &str,
        plan: &LoadPlan,
        ledger: &Arc<Ledger>,
        number: u32,
        run: fn(Job),
    ) -> Result<()> {
        let job = Job {
            ledger: ledger.clone(),
            client: client(plan, number),
            number,
            chance: Chance::new(plan.seed, 1000 + u64::from(number)),
            stop: self.stop.clone(),
            plan: plan.clone(),
        };
        let name = format!("{name}-{}", ledger.log);
        let thread = std::thread::Builder::new().name(name.clone());
        self.threads.push((name, thread.spawn(move || run(job))?));
        Ok(())
    }

    /// The first client that panicked, if one did.
    pub fn check(&mut self) -> Result<()> {
        let ended = self.threads.iter().position(|(_, t)| t.is_finished());
        if let Some(at) = ended {
            let (name, thread) = self.threads.swap_remove(at);
            match thread.join() {
                Ok(()) => bail!("the client {name} ended before its time"),
                Err(_) => bail!("the client {name} panicked; its words stand above"),
            }
        }
        Ok(())
    }

    /// Has the writers end their streams, and then the readers stop; waits for both.
    ///
    /// Errors: a writer gets no end to its stream in a cluster that is whole.
    pub fn finish(mut self, patience: Duration) -> Result<()> {
        self.stop_writers();
        self.wait(|name| name.starts_with("writer"), patience)?;
        self.stop.readers.store(true, Ordering::Release);
        // A follower of a log that does not grow any more waits for ever, and has nothing to tell.
        self.wait(|name| !name.starts_with("follower"), patience)
    }

    /// ‡ Stalls are counted while writers write: the ledgers are told before the writers are.
    fn stop_writers(&self) {
        for ledger in &self.ledgers {
            ledger.writers_stop();
        }
        self.stop.writers.store(true, Ordering::Release);
    }

    fn wait(&mut self, whom: impl Fn(&str) -> bool, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            let late = self
                .threads
                .iter()
                .find(|(name, thread)| whom(name) && !thread.is_finished());
            let Some((name, _)) = late else { break };
            if Instant::now() >= deadline {
                let seconds = patience.as_secs();
                bail!("the client {name} does not come to its end within {seconds} s");
            }
            go_on()?;
            std::thread::sleep(Duration::from_millis(20));
        }
        for at in (0..self.threads.len()).rev() {
            if whom(&self.threads[at].0) {
                let (name, thread) = self.threads.swap_remove(at);
                if thread.join().is_err() {
                    bail!("the client {name} panicked; its words stand above");
                }
            }
        }
        Ok(())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop_writers();
        self.stop.readers.store(true, Ordering::Release);
    }
}

fn client(plan: &LoadPlan, number: u32) -> Client {
    let timeouts = Timeouts {
        total: PATIENCE,
        ..Timeouts::default()
    };
    match &plan.keys {
        None => Client::new(plan.servers.clone(), timeouts),
        Some(keys) => keys.client(&plan.servers, number, timeouts),
    }
}

impl Job {
    /// Shows what is good by now, from the next connection on.
    fn renew(&mut self) {
        if self.plan.keys.is_some() {
            self.client = client(&self.plan, self.number);
        }
    }

    fn writers_stop(&self) -> bool {
        self.stop.writers.load(Ordering::Acquire)
    }

    fn readers_stop(&self) -> bool {
        self.stop.readers.load(Ordering::Acquire)
    }

    fn pause(&mut self, low_ms: u64, high_ms: u64) {
        std::thread::sleep(self.chance.millis(low_ms, high_ms));
    }
}
