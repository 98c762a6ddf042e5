//! The commands that ask keys: by replicas, groups, clients and what is logged.

use anyhow::Result;
use clap::Args;

use super::clusters::Setup;
use super::loads::Keys;
use super::others::Others;
use super::points::{CROWD, Experiment, Keyed, Load, between};
use crate::carriers::PhaseOne;
use crate::study::common::finish;
use crate::study::published;
use crate::study::run::{Checked, Figure, Pair, Published, Run};

pub const KV: &str = "\
Table 1 and table 2 of the paper: one group of three replicas, one of ten, three groups of three. In each round one client sends
twenty commands, one at a time, and then 35 clients ask for a slice of time; every cluster has its turn, in an order that is drawn.
Ours is what the paper calls multipaxos: one phase 1 covers all later slots. Unless --apart is given, groups share their nodes.
With --phase-one there are beside them the same whose leaders do phase 1 for each batch: per-batch is what the paper calls vanilla. With
--transports, those whose nodes speak in another way. With either and --quick there is one group of three alone, of each kind.

Example:
  logberg-lab mex kv --quick --phase-one per-batch --lag 5ms..38ms --report kv.html";

pub const REPLICAS: &str = "\
Figure 1 of the paper: one group of 2 to 10 replicas, all of which vote; all of them share this machine.

Example:
  logberg-lab mex replicas --replicas 3,10 --report replicas.html";

pub const GROUPS: &str = "\
Figure 2 of the paper: 1 to 5 groups of three replicas. The paper had a machine for each replica; ours share two processors and one
disk, so what more groups give here is no more than what one group leaves of them.

Example:
  logberg-lab mex groups --groups 1,3,5 --report groups.html";

pub const CLIENTS: &str = "\
The paper saw throughput saturate at 10 to 50 clients, and fall.

Example:
  logberg-lab mex clients --clients 1,10,35,100 --report clients.html";

pub const LOGGING: &str = "\
The paper lost a factor of ten by simple logging. Three clusters live at once: their nodes log nothing, what is usual (info), and
everything (debug); log lines go to a file.

Example:
  logberg-lab mex logging --quick";

/// Measure one group and several, of few replicas and many (tables 1 and 2)
#[derive(Debug, Args)]
pub struct Kv {
    /// Each group has nodes of its own
    #[arg(long)]
    apart: bool,
    #[command(flatten)]
    others: Others,
    #[command(flatten)]
    keyed: Keyed,
}

/// Measure one group by its number of replicas (figure 1)
#[derive(Debug, Args)]
pub struct Replicas {
    /// Replicas of the group [default: 2, 3, 4, 6, 8 and 10, or 3 and 10 with --quick]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=31))]
    replicas: Vec<u32>,
    #[command(flatten)]
    keyed: Keyed,
}

/// Measure several groups of three replicas (figure 2)
#[derive(Debug, Args)]
pub struct Groups {
    /// Groups [default: 1 to 5, or 1 and 3 with --quick]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=20))]
    groups: Vec<u16>,
    /// Each group has nodes of its own
    #[arg(long)]
    apart: bool,
    #[command(flatten)]
    keyed: Keyed,
}

/// Measure one group of three replicas by its number of clients
#[derive(Debug, Args)]
pub struct Clients {
    /// Clients [default: 1, 2, 5, 10, 20, 35, 50 and 100, or 1, 10 and 100 with --quick]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=2000))]
    clients: Vec<u32>,
    #[command(flatten)]
    keyed: Keyed,
}

/// Measure one group whose nodes log more or less
#[derive(Debug, Args)]
pub struct Logging {
    #[command(flatten)]
    keyed: Keyed,
}

fn or<T: Clone>(given: &[T], quick: bool, few: &[T], all: &[T]) -> Vec<T> {
    match (given, quick) {
        ([], true) => few.to_vec(),
        ([], false) => all.to_vec(),
        (given, _) => given.to_vec(),
    }
}

fn checked(name: &str, found: Option<(f64, f64, f64)>) -> Option<Checked> {
    Checked::of(name, found?)
}

pub(super) fn of_pair(
    name: &str,
    run: &Run,
    figure: Figure,
    (a, b): (&str, &str),
    x: f64,
) -> Option<Checked> {
    Checked::of_pair(name, run.pair_of(figure, (a, b), x)?)
}

impl Kv {
    pub fn run(self, json: bool) -> Result<()> {
        let keyed = &self.keyed;
        let report = keyed.common.report.open()?;
        let mut experiment = Experiment::new("mex kv", "clients", keyed);
        for (groups, replicas) in self.others.setups(keyed.common.quick) {
            let mut setup = Setup {
                is_apart: self.apart,
                ..keyed.setup(groups, replicas)
            };
            setup.arguments.extend(self.others.lagging());
            let name = setup.name();
            let at = experiment.add_setup(setup);
            for (x, load) in [
                (1.0, Load::One),
                (1.0, Load::Crowd(1)),
                (f64::from(CROWD), Load::Crowd(CROWD)),
            ] {
                for keys in [Keys::One, Keys::Many] {
                    experiment.add(format!("{name}, {}", keys.name()), x, at, keys, load);
                }
                if (groups, replicas) == (1, 3) {
                    let again = format!("{name}, {}-again", Keys::Many.name());
                    experiment.add(again, x, at, Keys::Many, load);
                }
            }
        }
        let sockets = self.others.add_to(&mut experiment, self.apart)?;
        for table in ["table 1 vanilla", "table 2 multipaxos"] {
            let mut numbers = of_table(table);
            if table.ends_with("vanilla") && self.others.has(PhaseOne::EachBatch) {
                let name = PhaseOne::EachBatch.name();
                for number in &mut numbers {
                    number.series = format!("{}, {name}", number.series);
                }
            }
            experiment.published.extend(numbers);
        }
        let run = experiment.measure()?;
        drop(sockets);
        finish(run, &keyed.common, (json, report), |run| {
            let mut checks = self.others.checks(run);
            for (name, setup) in [
                ("one/many keys, 3 replicas", "1 group x 3"),
                ("one/many keys, 10 replicas", "1 group x 10"),
            ] {
                let (one, many) = (format!("{setup}, one key"), format!("{setup}, many keys"));
                checks.extend(of_pair(name, run, Figure::Time, (&one, &many), 1.0));
            }
            checks
        })
    }
}

/// The paper's numbers of a table, as our variants and x are named: a latency and a client's throughput are of one client.
fn of_table(item: &str) -> Vec<Published> {
    let numbers = published::of("mex", item);
    let ours = numbers.iter().filter_map(|number| {
        let mut ours = Published::of(number)?;
        let (what, keys) = number.series.split_once(", ")?;
        ours.series = format!("{}, {keys}", number.setup?);
        ours.x = match what.starts_with("system") {
            true => f64::from(CROWD),
            false => 1.0,
        };
        Some(ours)
    });
    ours.collect()
}

impl Replicas {
    pub fn run(self, json: bool) -> Result<()> {
        let keyed = &self.keyed;
        let report = keyed.common.report.open()?;
        let counts = or(
            &self.replicas,
            keyed.common.quick,
            &[3, 10],
            &[2, 3, 4, 6, 8, 10],
        );
        let mut experiment = Experiment::new("mex replicas", "replicas", keyed);
        for count in &counts {
            let setup = experiment.add_setup(keyed.setup(1, *count));
            experiment.add_all(f64::from(*count), setup);
        }
        experiment.publish("figure 1");
        let run = experiment.measure()?;
        finish(run, &keyed.common, (json, report), |run| {
            let far = (10.0, 3.0);
            let latency = between(run, Keys::Many.name(), Figure::Time, far);
            let rate = between(run, Keys::Many.name(), Figure::Rate, far);
            let most = counts.iter().copied().max().map_or(0.0, f64::from);
            let keys = (Keys::One.name(), Keys::Many.name());
            [
                checked("latency, 10/3 replicas", latency),
                checked("throughput, 10/3 replicas", rate),
                of_pair("one/many keys, any replicas", run, Figure::Time, keys, most),
            ]
            .into_iter()
            .flatten()
            .collect()
        })
    }
}

impl Groups {
    pub fn run(self, json: bool) -> Result<()> {
        let keyed = &self.keyed;
        let report = keyed.common.report.open()?;
        let counts = or(&self.groups, keyed.common.quick, &[1, 3], &[1, 2, 3, 4, 5]);
        let mut experiment = Experiment::new("mex groups", "groups", keyed);
        for count in &counts {
            let setup = Setup {
                is_apart: self.apart,
                ..keyed.setup(*count, 3)
            };
            let setup = experiment.add_setup(setup);
            experiment.add_all(f64::from(*count), setup);
        }
        experiment.publish("figure 2");
        let run = experiment.measure()?;
        finish(run, &keyed.common, (json, report), |run| {
            let of = |far| between(run, Keys::Many.name(), Figure::Rate, far);
            [
                checked("throughput, 3/1 groups", of((3.0, 1.0))),
                checked("throughput, 5/1 groups", of((5.0, 1.0))),
            ]
            .into_iter()
            .flatten()
            .collect()
        })
    }
}

impl Clients {
    pub fn run(self, json: bool) -> Result<()> {
        let keyed = &self.keyed;
        let report = keyed.common.report.open()?;
        let all = [1, 2, 5, 10, 20, 35, 50, 100];
        let counts = or(&self.clients, keyed.common.quick, &[1, 10, 100], &all);
        let mut experiment = Experiment::new("mex clients", "clients", keyed);
        let setup = experiment.add_setup(keyed.setup(1, 3));
        for count in &counts {
            let load = Load::Crowd(*count);
            for keys in [Keys::One, Keys::Many] {
                experiment.add(keys.name(), f64::from(*count), setup, keys, load);
            }
            let again = format!("{}-again", Keys::Many.name());
            experiment.add(again, f64::from(*count), setup, Keys::Many, load);
        }
        let run = experiment.measure()?;
        finish(run, &keyed.common, (json, report), |run| {
            let many = run
                .rates
                .iter()
                .filter(|rate| rate.variant == Keys::Many.name());
            let best = many.max_by(|a, b| a.per_s.total_cmp(&b.per_s));
            let found =
                best.and_then(|best| between(run, &best.variant, Figure::Rate, (100.0, best.x)));
            checked("throughput, 100 clients/best", found)
                .into_iter()
                .collect()
        })
    }
}

impl Logging {
    pub fn run(self, json: bool) -> Result<()> {
        let keyed = &self.keyed;
        let report = keyed.common.report.open()?;
        let mut experiment = Experiment::new("mex logging", "clients", keyed);
        for (name, log) in [
            ("info", "info"),
            ("off", "off"),
            ("debug", "debug"),
            ("info-again", "info"),
        ] {
            let setup = Setup {
                log: Some(log),
                ..keyed.setup(1, 3)
            };
            let setup = experiment.add_setup(setup);
            for (x, load) in [(1.0, Load::One), (f64::from(CROWD), Load::Crowd(CROWD))] {
                experiment.add(name, x, setup, Keys::Many, load);
            }
        }
        let mut run = experiment.measure()?;
        let mut pairs = Vec::new();
        for rate in &run.rates {
            let mut others = run.rates.iter();
            let info = others.find(|other| other.variant == "info" && other.x == rate.x);
            let pair =
                info.filter(|info| info.variant != rate.variant && rate.variant != "info-again");
            pairs.extend(pair.and_then(|info| Pair::of_rates(rate, info, true)));
        }
        run.pairs.extend(pairs);
        finish(run, &keyed.common, (json, report), |run| {
            let of = |name, log| of_pair(name, run, Figure::Rate, (log, "info"), f64::from(CROWD));
            [
                of("throughput, debug/info", "debug"),
                of("throughput, off/info", "off"),
            ]
            .into_iter()
            .flatten()
            .collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_tables_lie_beside_variants_of_ours() {
        for table in ["table 1 vanilla", "table 2 multipaxos"] {
            let numbers = of_table(table);
            assert!(numbers.len() >= 17, "{}", numbers.len());
            for number in numbers {
                assert!(number.x == 1.0 || number.x == 35.0, "{number:?}");
                assert!(number.series.contains(" x "), "{number:?}");
            }
        }
    }
}
