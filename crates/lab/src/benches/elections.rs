//! `bench elections`: a cluster that is merely busy elects nobody.
//!
//! Every core has a thread that wants all of it, and a writer appends; the nodes are asked again
//! and again under which term they live. One election more than none is a failure: a timeout that
//! cannot tell work from death takes writers down when they are needed most.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use client::{Client, Timeouts};
use serde::Serialize;

use bench::latency::{quantile_ms, rounded};
use bench::load::{Content, Plan, Writer};
use terminal::show;
use testbed::cluster::{LocalCluster, LocalOptions};
use testbed::environment::Machine;
use testbed::level;
use testbed::scratch::{Place, Scratch};
use testbed::watch::{Watch, sleep_until};
use wire::quantity;

const HELP: &str = "\
Ends with 1 if any log of any node changed its term.

Example: ten busy minutes
  logberg-lab bench elections --minutes 10";

/// Count elections while every core is busy and appends go on: there must be none
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    #[arg(long, value_name = "M", default_value = "5", value_parser = quantity::seconds)]
    minutes: f64,
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=9))]
    nodes: u32,
    /// Bytes per second appended
    #[arg(long, value_name = "RATE", default_value = "10M", value_parser = quantity::bytes_per_second)]
    rate: u64,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    minutes: f64,
    busy_threads: usize,
    elections: u64,
    /// Questions for a status that got no answer within a second.
    unanswered: u64,
    asked: u64,
    acked_bytes: u64,
    reconnects: u64,
    ack_p50_ms: f64,
    ack_p99_ms: f64,
    ack_max_ms: f64,
    machine: Machine,
}

/// Threads that want a core each until this is dropped.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn start(threads: usize) -> Busy {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..threads {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let mut x = 1u64;
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..10_000 {
                        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                    }
                }
            });
        }
        Busy(stop)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The newest term seen of each log, and how often it became newer.
#[derive(Default)]
struct Terms {
    newest: BTreeMap<String, Vec<u64>>,
    changes: u64,
    asked: u64,
    unanswered: u64,
}

impl Terms {
    fn look(&mut self, addresses: &[String]) {
        for address in addresses {
            self.asked += 1;
            let Some(status) = level::status(address) else {
                self.unanswered += 1;
                continue;
            };
            for log in status.logs {
                self.see(log.name, level::term(&log.term));
            }
        }
    }

    fn see(&mut self, log: String, term: Vec<u64>) {
        let newest = self.newest.entry(log).or_insert_with(|| term.clone());
        if term > *newest {
            *newest = term;
            self.changes += 1;
        }
    }
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let length = Duration::from_secs_f64(self.minutes * 60.0);
        let seconds = length.as_secs_f64() + 5.0;
        // Small batches are padded: up to a block for each of some thousand per second.
        let bytes = (self.rate as f64 * 1.1 + 20e6) * seconds * f64::from(self.nodes);
        let scratch = self.place.make(bytes as u64)?;
        let machine = Machine::look(scratch.path())?;
        let report = self.watch(&scratch, length, machine)?;
        match json {
            true => show::print_json(&report)?,
            false => report.print()?,
        }
        match report.elections {
            0 => Ok(()),
            n => bail!("{n} elections on a machine that was merely busy"),
        }
    }

    fn watch(&self, scratch: &Scratch, length: Duration, machine: Machine) -> Result<Report> {
        let directory = scratch.path().join("cluster");
        let cluster = LocalCluster::start(LocalOptions::new(directory, self.nodes))?;
        cluster.wait_ready(Duration::from_secs(30))?;
        let addresses = cluster.addresses();
        let client = Client::new(addresses.clone(), Timeouts::default());
        let mut terms = Terms::default();
        terms.look(&addresses);
        let plan = Plan {
            write_bytes: 4096,
            rate: Some(self.rate),
            buffer_bytes: 64 << 20,
            content: Content::Numbered,
        };
        let mut writer = Writer::start(&client, "main", &plan)?;
        let began = Instant::now();
        writer.latencies().set_window(began, began + length);
        let busy = Busy::start(machine.cores);
        let bar = Watch::new(length.as_secs());
        let mut told = 0;
        while began.elapsed() < length {
            sleep_until(Instant::now() + Duration::from_millis(500))?;
            writer.check()?;
            scratch.check_space()?;
            terms.look(&addresses);
            let elapsed = began.elapsed().as_secs();
            bar.step(elapsed - told);
            told = elapsed;
            bar.says(format!("{} elections", terms.changes));
        }
        drop(busy);
        drop(bar);
        let (micros, reconnects) = (writer.latencies().micros(), writer.reconnects());
        let closed = writer.finish()?;
        terms.look(&addresses);
        Ok(Report {
            bench: "elections",
            minutes: rounded(self.minutes),
            busy_threads: machine.cores,
            elections: terms.changes,
            unanswered: terms.unanswered,
            asked: terms.asked,
            acked_bytes: closed.position,
            reconnects,
            ack_p50_ms: rounded(quantile_ms(&micros, 0.5)),
            ack_p99_ms: rounded(quantile_ms(&micros, 0.99)),
            ack_max_ms: rounded(quantile_ms(&micros, 1.0)),
            machine,
        })
    }
}

impl Report {
    fn print(&self) -> Result<()> {
        let headings = ["minutes", "elections", "ack p50 ms", "p99 ms", "max ms"];
        let mut table = show::table(&headings);
        let cells = [
            self.minutes,
            self.elections as f64,
            self.ack_p50_ms,
            self.ack_p99_ms,
            self.ack_max_ms,
        ];
        table.add_row(cells.map(show::number).to_vec());
        show::print(show::lines(&table))?;
        show::print(format!(
            "{} acknowledged beside {} busy threads; {}",
            quantity::shown(self.acked_bytes),
            self.busy_threads,
            self.machine.sentence()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_term_is_one_election_whoever_says_it() {
        let mut terms = Terms::default();
        for term in ["3.1.2", "3.1.2", "3.2.1", "3.1.2", "3.2.1"] {
            terms.see("main".to_owned(), level::term(term));
        }
        terms.see("other".to_owned(), level::term("1.1.1"));
        assert_eq!(
            terms.changes, 1,
            "3.2.1, said twice; an old one is only late"
        );
    }
}
