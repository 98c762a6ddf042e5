//! Clusters whose nodes are of another kind, beside the usual ones: when they prepare, and how they speak.

use anyhow::Result;
use carrier::Lag;
use clap::Args;
use tempfile::TempDir;
use terminal::exit::Failure;

use super::keyed::of_pair;
use super::loads::Keys;
use super::points::{CROWD, Experiment, Load};
use crate::carriers::{PhaseOne, Transport};
use crate::study::ramp::ways;
use crate::study::run::{Checked, Figure, Run};

#[derive(Debug, Args)]
pub struct Others {
    /// Beside the usual: clusters whose leaders do phase 1 so often
    #[arg(long, value_name = "WHEN,…", value_delimiter = ',', value_enum)]
    phase_one: Vec<PhaseOne>,
    /// Beside TCP: clusters whose nodes speak so
    #[arg(long, value_name = "TRANSPORT,…", value_delimiter = ',', value_enum)]
    transports: Vec<Transport>,
    /// A lag on all that nodes send each other, as 20ms or 5ms..38ms
    #[arg(long, value_name = "LAG")]
    lag: Option<Lag>,
}

/// The name of the cluster beside which the others are.
const GROUP: &str = "1 group x 3";

/// Lives as long as the nodes whose sockets are there.
pub type Sockets = Option<TempDir>;

impl Others {
    pub fn has(&self, phase_one: PhaseOne) -> bool {
        self.phase_one.contains(&phase_one)
    }

    /// Groups and replicas of the clusters of each kind: all of the paper's tables, or the smallest.
    pub fn setups(&self, is_quick: bool) -> Vec<(u16, u32)> {
        let are_some =
            !self.phase_one.is_empty() || !self.transports.is_empty() || self.lag.is_some();
        match is_quick && are_some {
            true => vec![(1, 3)],
            false => vec![(1, 3), (1, 10), (3, 3)],
        }
    }

    /// Arguments of every node.
    pub fn lagging(&self) -> Option<String> {
        self.lag.map(|lag| format!("--lag={lag}"))
    }

    /// Errors: a transport is not for nodes that are processes, or this machine does not have it.
    pub fn add_to(&self, experiment: &mut Experiment, is_apart: bool) -> Result<Sockets> {
        let mut sockets = None;
        let phases = self.phase_one.iter();
        let phases = phases.filter(|when| **when != PhaseOne::Once);
        let mut kinds: Vec<(String, Vec<String>)> = phases
            .map(|when| {
                (
                    when.name().to_owned(),
                    vec![format!("--phase-one={}", when.name())],
                )
            })
            .collect();
        for transport in self.transports.iter().filter(|way| **way != Transport::Tcp) {
            if *transport == Transport::Memory || !transport.is_possible() {
                let sentence = format!(
                    "{transport} is nothing for these nodes: say tcp, count, unix, grpc-unary or grpc-stream"
                );
                return Err(Failure::usage(sentence).into());
            }
            let (arguments, place) = ways::arguments(*transport)?;
            sockets = place.or(sockets);
            kinds.push((transport.name().to_owned(), arguments));
        }
        let loads = [(1.0, Load::One), (f64::from(CROWD), Load::Crowd(CROWD))];
        for (kind, arguments) in kinds {
            for (groups, replicas) in self.setups(experiment.is_quick()) {
                let mut setup = experiment.usual(groups, replicas);
                setup.is_apart = is_apart;
                setup.arguments.extend(self.lagging());
                setup.arguments.extend(arguments.clone());
                let group = setup.name();
                let at = experiment.add_setup(setup);
                for keys in [Keys::One, Keys::Many] {
                    let name = format!("{group}, {}, {kind}", keys.name());
                    for (x, load) in loads {
                        experiment.add(name.clone(), x, at, keys, load);
                    }
                }
            }
        }
        Ok(sockets)
    }

    pub fn checks(&self, run: &Run) -> Vec<Checked> {
        let usual = format!("{GROUP}, {}", Keys::Many.name());
        let of = |name, kind: &str, figure, x| {
            let other = name_of(kind);
            of_pair(name, run, figure, (&other, &usual), x)
        };
        let (each, unix) = (PhaseOne::EachBatch.name(), Transport::Unix.name());
        let latency = match self.lag {
            None => "vanilla/leader, latency",
            Some(_) => "vanilla/leader, latency under a lag",
        };
        let mut checks = vec![of(latency, each, Figure::Time, 1.0)];
        if self.lag.is_none() {
            let x = f64::from(CROWD);
            checks.push(of("vanilla/leader, throughput", each, Figure::Rate, x));
            checks.push(of("unix/tcp, keys, latency", unix, Figure::Time, 1.0));
        }
        checks.into_iter().flatten().collect()
    }
}

fn name_of(kind: &str) -> String {
    format!("{GROUP}, {}, {kind}", Keys::Many.name())
}
