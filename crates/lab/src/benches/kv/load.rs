//! The work of clients, and what came of it.

use std::time::Duration;

use clap::ValueEnum;
use hdrhistogram::Histogram;
use serde::Serialize;

use bench::figures::Figures;
use bench::latency::{histogram, quantile_ms};
use bench::roles::{Role, Spent};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    Set,
    Get,
}

impl Op {
    pub fn name(self) -> &'static str {
        match self {
            Op::Set => "SET",
            Op::Get => "GET",
        }
    }
}

/// Clients of which each sends so many commands at once, and the next when all of them are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    pub op: Op,
    pub clients: u32,
    pub pipeline: u32,
}

impl Load {
    pub fn sentence(self) -> String {
        let Load {
            op,
            clients,
            pipeline,
        } = self;
        let op = op.name();
        match (clients, pipeline) {
            (1, 1) => format!("{op}, 1 client"),
            (clients, 1) => format!("{op}, {clients} clients"),
            (clients, pipeline) => format!("{op}, {clients} clients × {pipeline}"),
        }
    }
}

/// The replies of a while.
pub struct Tally {
    /// From a command's sending to its reply.
    pub micros: Histogram<u64>,
    /// How often replies came: a server that sends several at once spares both sides work.
    deliveries: u64,
    /// Without the reply that was wanted.
    pub failed: u64,
    /// Values that cannot be: another key's, older than one that was answered, damaged.
    pub wrong: u64,
    /// The reason of the last that failed or was wrong.
    pub why: Option<String>,
}

impl Tally {
    pub fn new() -> Tally {
        Tally {
            micros: histogram(),
            deliveries: 0,
            failed: 0,
            wrong: 0,
            why: None,
        }
    }

    pub fn answered(&mut self, count: u64, after: Duration) {
        if count > 0 {
            let micros = (after.as_micros() as u64).max(1);
            self.micros.saturating_record_n(micros, count);
            self.deliveries += 1;
        }
    }

    pub fn failed(&mut self, count: u64, why: impl FnOnce() -> String) {
        self.failed += count;
        self.why = Some(why());
    }

    pub fn wrong(&mut self, why: String) {
        self.wrong += 1;
        self.why = Some(why);
    }
}

/// The figures of one turn. CPU is that of all servers, and of the load apart.
#[derive(Debug)]
pub struct Turn {
    pub figures: Figures,
    pub failed: u64,
    pub wrong: u64,
    pub why: Option<String>,
}

impl Turn {
    pub fn new(tally: Tally, spent: &Spent) -> Turn {
        let answered = tally.micros.len() as f64;
        let mut figures = Figures::default();
        figures.add("ops_per_s", answered / spent.seconds);
        for (name, quantile) in [("p50_ms", 0.5), ("p99_ms", 0.99), ("p999_ms", 0.999)] {
            figures.add(name, quantile_ms(&tally.micros, quantile));
        }
        let each = |time: Duration| time.as_secs_f64() * 1e6 / answered;
        figures.add("replies_at_once", answered / tally.deliveries as f64);
        figures.add("cpu_us_per_op", each(spent.nodes_cpu()));
        if let Some(load) = spent.of(Role::Client) {
            figures.add("load_cpu_us_per_op", each(load.user + load.system));
        }
        // Where groups are led by all nodes, there are no roles.
        if let Some(followers) = spent.of(Role::Follower) {
            for (name, of) in [
                ("leader", spent.of(Role::Leader)),
                ("followers", Some(followers)),
            ] {
                let Some(of) = of else { continue };
                figures.add(format!("{name}_cpu_us_per_op"), each(of.user + of.system));
                figures.add(format!("{name}_system_us_per_op"), each(of.system));
            }
        }
        Turn {
            figures,
            failed: tally.failed,
            wrong: tally.wrong,
            why: tally.why,
        }
    }
}
