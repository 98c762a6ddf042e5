//! The usual run: nodes, writers and readers, a nemesis, and an end in peace.
//!
//! ```no_run
//! # use sim::*; use ops::*; use std::io;
//! # struct Node; impl Machine for Node {
//! #     fn handle(&mut self, _: Time, _: Completion) {} fn on_time(&mut self, _: Time) {}
//! #     fn poll_op(&mut self) -> Option<Op> { None } fn deadline(&self) -> Option<Time> { None }
//! #     fn is_finished(&self) -> bool { true } }
//! # impl Node { fn start(_: &mut dyn Disk, _: Time, _: usize, _: &[String]) -> io::Result<Node> { Ok(Node) }
//! #     fn check_invariants(&self) {} }
//! each_seed(0..1000, "-p sim --test three_nodes after_any", |seed| {
//!     let mut cluster = Scenario::draw(seed).build(|index, addresses| {
//!         let addresses = addresses.to_vec();
//!         Box::new(move |disk, now| Ok(Box::new(Node::start(disk, now, index, &addresses)?)))
//!     });
//!     let nodes = cluster.nodes.clone();
//!     cluster.world.after_step(move |world| {
//!         for node in nodes.iter().filter_map(|node| world.machine::<Node>(*node)) {
//!             node.check_invariants();
//!         }
//!     });
//!     cluster.run().unwrap();
//! });
//! ```

use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::client::{
    Appender, AppenderConfig, ByHand, Chain, Churner, Ending, Habits, Ledger, Mover, MoverConfig,
    Operator, OperatorConfig, Reader, ReaderConfig, Retainer, RetainerConfig, SharedChain, Trimmer,
    TrimmerConfig, Visitor, VisitorConfig,
};
use crate::host::{HostId, Start};
use crate::random::Random;
use crate::swarm::Swarm;
use crate::upgrade::{Programs, Upgrade};
use crate::world::{Limits, Outcome, World};

/// When a leader prepares a term for a batch of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchTerms {
    /// When it is to be proposed.
    OnDemand,
    /// When the batch before is chosen.
    Ahead,
}

/// All that a run depends on besides the code: as TOML it is a script that can be replayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub seed: u64,
    pub nodes: usize,
    pub port: u16,
    /// One writer for each; the same log twice makes writers that fight for it.
    pub logs: Vec<String>,
    pub readers_per_writer: usize,
    pub bytes_per_writer: u64,
    /// The share of reads that any node answers.
    pub stale_ppm: u64,
    /// The share of reads that go on with what comes later.
    pub follow_ppm: u64,
    /// Somebody trims what each writer has written, now and then. Each writer has a log of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trims: bool,
    /// The number of times that somebody changes how much of each log is kept. Each writer has a log of its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retentions: u64,
    /// Somebody creates a log, uses it and deletes it, again and again, and others know it by its name.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub churns: u64,
    /// Some of those deletions are of a log that may have lost its quorum: its name is free without its word.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub abandons: bool,
    /// The directory is as long as in production: what it said before is read again at each start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub long_directory: bool,
    /// Somebody moves the leader of the first writer's log, now and then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moves: bool,
    /// Nodes scrub all the time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scrubs: bool,
    /// Some of the nodes receive into their files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lands: bool,
    /// The harm begins when everything is set up and well.
    pub begin_well: bool,
    /// The third node is auxiliary in the log that clients create.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auxiliary: bool,
    /// The number of times that somebody changes weights and members; a few nodes have none in the beginning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub member_changes: u64,
    /// Many of them follow at once upon the one before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_hurry: bool,
    /// The bytes of a log that may be under way; 0 is what small nodes have.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub window_bytes: u64,
    /// Leaders do a phase 1 for each batch of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_terms: Option<BatchTerms>,
    /// Nodes of two program versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
    /// The time for which the nemesis does harm.
    pub harm_us: u64,
    /// At the latest after so many steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harm_steps_max: Option<u64>,
    /// After the harm no node hears another for so long.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dark_us: u64,
    /// Somebody asks one node after the other how much is there, without following any hint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub probes: bool,
    /// The time for which writers wait for an answer before they try another node.
    #[serde(default = "patience_us")]
    pub patience_us: u64,
    /// The longest time in which everything has to become well afterwards.
    pub calm_us: u64,
    /// The events of any one wait: more means that something runs in circles.
    pub events_max: u64,
    pub swarm: Swarm,
}

/// A scenario that was set up and not yet run: add checks, or look around.
pub struct Cluster {
    pub world: World,
    pub nodes: Vec<HostId>,
    /// `HOST:PORT` of each node.
    pub addresses: Vec<String>,
    pub writers: Vec<HostId>,
    pub readers: Vec<HostId>,
    pub chains: Vec<SharedChain>,
    pub(crate) programs: Option<Programs>,
    /// The questions and answers of all clients that ask for something.
    pub(crate) ledger: Ledger,
    scenario: Scenario,
}

/// A part of a run that did not come to a good end.
pub struct Failure {
    what: String,
    outcome: Outcome,
    state: String,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn patience_us() -> u64 {
    AppenderConfig::default().patience_us
}

/// Clients of a log that comes and goes.
const VISITORS: u64 = 2;

/// The bytes of a writer that comes when all is well.
const NEW_BYTES: u64 = 5_000;

impl Scenario {
    /// Three nodes, one log, and whatever swarm the seed draws.
    pub fn draw(seed: u64) -> Scenario {
        Scenario {
            seed,
            nodes: 3,
            port: 7000,
            logs: vec!["1".to_owned()],
            readers_per_writer: 2,
            bytes_per_writer: 300_000,
            stale_ppm: 200_000,
            follow_ppm: 200_000,
            trims: false,
            retentions: 0,
            churns: 0,
            abandons: false,
            long_directory: false,
            moves: false,
            scrubs: false,
            lands: false,
            begin_well: false,
            auxiliary: false,
            member_changes: 0,
            changes_hurry: false,
            window_bytes: 0,
            batch_terms: None,
            upgrade: None,
            harm_us: 10_000_000,
            harm_steps_max: None,
            dark_us: 0,
            probes: false,
            patience_us: patience_us(),
            calm_us: 120_000_000,
            events_max: 20_000_000,
            swarm: Swarm::draw(seed, 3),
        }
    }

    /// The one node whose disk is damaged, if any: more than a minority of bad disks is more than
    /// can be survived.
    pub fn damaged_node(&self) -> Option<HostId> {
        let damages = self.swarm.acts.iter().any(|(act, _)| act.is_damage());
        damages.then_some(HostId((self.seed % self.nodes as u64) as u32))
    }

    /// `start` makes what starts the node of an index, given the addresses of all.
    pub fn build(&self, start: impl FnMut(usize, &[String]) -> Start) -> Cluster {
        self.build_in(World::new(self.seed), Ledger::default(), start)
    }

    /// As `build`, in a world where nothing has happened yet.
    pub(crate) fn build_in(
        &self,
        mut world: World,
        ledger: Ledger,
        mut start: impl FnMut(usize, &[String]) -> Start,
    ) -> Cluster {
        if std::env::var_os("TRACE").is_some() {
            world.trace().print(true);
        }
        let names: Vec<String> = (1..=self.nodes).map(|n| format!("node{n}")).collect();
        let nodes: Vec<HostId> = names.iter().map(|name| world.add_host(name)).collect();
        let with_port = |name: &String| format!("{name}:{}", self.port);
        let addresses: Vec<String> = names.iter().map(with_port).collect();
        for (index, node) in nodes.iter().enumerate() {
            let start = start(index, &addresses);
            world.count(*node);
            world.disk_mut(*node).offers_landing =
                self.lands && !(self.seed + index as u64).is_multiple_of(3);
            let started = world.start(*node, start);
            started.expect("an empty disk in peace is enough to start");
        }
        let mut cluster = Cluster {
            world,
            nodes,
            addresses,
            writers: Vec::new(),
            readers: Vec::new(),
            chains: Vec::new(),
            programs: None,
            ledger,
            scenario: self.clone(),
        };
        for log in &self.logs {
            cluster.add_writer(log);
        }
        cluster
    }
}

impl Cluster {
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// A writer with its readers. How they behave is drawn from the seed.
    pub fn add_writer(&mut self, log: &str) {
        let scenario = self.scenario.clone();
        let number = self.writers.len() as u64;
        let seed = scenario.seed.wrapping_mul(1000) + number;
        let random = &mut Random::new(seed);
        let chain = Chain::shared(seed, scenario.bytes_per_writer);
        // Most of it is written while the nemesis is there, or all of it right at the beginning.
        let chunk_bytes_max = 1 << random.within(&(8..16));
        let chunks = 1 + 2 * scenario.bytes_per_writer / chunk_bytes_max;
        let hurry = 10_u64.pow(random.below(3) as u32);
        let pace_us_max = 2 * scenario.harm_us / chunks / hurry;
        let config = AppenderConfig {
            log: log.to_owned(),
            nodes: self.addresses.clone(),
            ending: Ending::Close,
            by_hand: random.coin().then(|| ByHand {
                eager: random.coin(),
                fin: random.coin(),
            }),
            chunk_bytes: 1..chunk_bytes_max,
            pace_us: 0..pace_us_max,
            patience_us: scenario.patience_us,
            ..AppenderConfig::default()
        };
        self.start_writer(seed, config, &chain);
        let config = ReaderConfig {
            log: log.to_owned(),
            nodes: self.addresses.clone(),
            stale_ppm: scenario.stale_ppm,
            follow_ppm: scenario.follow_ppm,
            ..ReaderConfig::default()
        };
        for reader in 0..scenario.readers_per_writer as u64 {
            let name = format!("reader{number}-{reader}");
            self.add_reader(&name, seed ^ (reader << 32), config.clone(), &chain);
        }
        if scenario.probes && number == 0 {
            let config = ReaderConfig {
                probes: true,
                stale_ppm: 0,
                follow_ppm: 0,
                rest_us: 5_000..100_000,
                // A node that stands still is asked again, with what is known by then.
                patience_us: 150_000 + 4 * scenario.swarm.network.latency_us.end,
                ..config
            };
            self.add_reader("prober", seed ^ (1 << 48), config, &chain);
        }
        if scenario.trims {
            self.add_trimmer(log, number, chain.clone());
        }
        if scenario.retentions > 0 {
            self.add_retainer(log, number, chain.clone());
        }
        if scenario.moves && number == 0 {
            self.add_mover(log, chain.clone());
        }
        self.chains.push(chain);
    }

    fn add_reader(&mut self, name: &str, seed: u64, config: ReaderConfig, chain: &SharedChain) {
        let shared = chain.clone();
        let host = self.world.add_host(name);
        let started = self.world.start(host, move |_disk, _now| {
            Ok(Box::new(Reader::new(seed, config.clone(), shared.clone())))
        });
        started.expect("a reader always starts");
        self.readers.push(host);
    }

    /// Comes and goes with the readers.
    fn add_trimmer(&mut self, log: &str, number: u64, chain: SharedChain) {
        let seed = self.scenario.seed.wrapping_mul(1000) + number;
        let config = TrimmerConfig {
            log: log.to_owned(),
            nodes: self.addresses.clone(),
            rest_us: 1_000..self.scenario.harm_us / 4,
            patience_us: 10_000_000,
        };
        let host = self.world.add_host(&format!("trimmer{number}"));
        let ledger = self.ledger.clone();
        let started = self.world.start(host, move |_disk, _now| {
            let trimmer = Trimmer::new(seed, config.clone(), chain.clone());
            Ok(Box::new(trimmer.in_ledger(&ledger)))
        });
        started.expect("it needs no disk");
        self.readers.push(host);
    }

    /// Comes and goes with the readers.
    fn add_retainer(&mut self, log: &str, number: u64, chain: SharedChain) {
        let seed = self.scenario.seed.wrapping_mul(1000) + number;
        let config = RetainerConfig {
            log: log.to_owned(),
            nodes: self.addresses.clone(),
            changes: self.scenario.retentions,
            rest_us: 1_000..2 * self.scenario.harm_us / (1 + self.scenario.retentions),
            patience_us: 10_000_000,
        };
        let host = self.world.add_host(&format!("retainer{number}"));
        let ledger = self.ledger.clone();
        let started = self.world.start(host, move |_disk, _now| {
            let retainer = Retainer::new(seed, config.clone(), chain.clone());
            Ok(Box::new(retainer.in_ledger(&ledger)))
        });
        started.expect("it needs no disk");
        self.readers.push(host);
    }

    /// Somebody who creates and deletes a log, and some who use it by its name. Come and go with the
    /// readers.
    pub(crate) fn add_churners(&mut self, log: &str) {
        let (seed, churns) = (self.scenario.seed, self.scenario.churns);
        // A log of one node ends with that node's disk, and its name with nobody.
        let swarm = &self.scenario.swarm;
        let habits = Habits {
            rounds: churns as u32,
            on_all: swarm.leaves_dead || swarm.acts.iter().any(|(act, _)| act.is_damage()),
            abandons: self.scenario.abandons,
        };
        let over = Rc::new(Cell::new(false));
        let config = |who: u64| VisitorConfig {
            log: log.to_owned(),
            nodes: self.addresses.clone(),
            rest_us: 1_000..self.scenario.harm_us / (2 + churns),
            patience_us: self.scenario.patience_us,
            first_client: (1 << 40) + who * 1_000_000,
        };
        let configs: Vec<VisitorConfig> = (0..=VISITORS).map(config).collect();
        for (who, config) in (0..).zip(configs) {
            let name = match who {
                0 => "churner".to_owned(),
                _ => format!("visitor{who}"),
            };
            let host = self.world.add_host(&name);
            let (ledger, over) = (self.ledger.clone(), over.clone());
            let started = self.world.start(host, move |_disk, _now| {
                let (config, over) = (config.clone(), over.clone());
                Ok(match who {
                    0 => Box::new(Churner::new(seed, config, habits, &ledger, over)),
                    _ => Box::new(Visitor::new(seed + who, config, &ledger, over)),
                })
            });
            started.expect("it needs no disk");
            self.readers.push(host);
        }
    }

    /// Somebody who changes weights and members of these logs. Comes and goes with the readers.
    pub(crate) fn add_operator(&mut self, logs: Vec<String>) {
        let scenario = &self.scenario;
        let seed = scenario.seed;
        let config = OperatorConfig {
            nodes: self.addresses.clone(),
            logs,
            removes: seed % 8 == 2,
            changes: scenario.member_changes,
            hurries: scenario.changes_hurry,
            rest_us: 1_000..2 * scenario.harm_us / (1 + scenario.member_changes),
            patience_us: 10_000_000,
        };
        let host = self.world.add_host("operator");
        let ledger = self.ledger.clone();
        let started = self.world.start(host, move |_disk, _now| {
            let operator = Operator::new(seed, config.clone());
            Ok(Box::new(operator.in_ledger(&ledger)))
        });
        started.expect("it needs no disk");
        self.readers.push(host);
    }

    /// Comes and goes with the readers.
    fn add_mover(&mut self, log: &str, chain: SharedChain) {
        let seed = self.scenario.seed;
        let config = MoverConfig {
            log: log.to_owned(),
            nodes: self.addresses.clone(),
            rest_us: 1_000..self.scenario.harm_us / 4,
            patience_us: 10_000_000,
        };
        let host = self.world.add_host("mover");
        let started = self.world.start(host, move |_disk, _now| {
            Ok(Box::new(Mover::new(seed, config.clone(), chain.clone())))
        });
        started.expect("it needs no disk");
        self.readers.push(host);
    }

    /// A writer that comes when all is well, with little to say and nobody who reads it.
    pub(crate) fn add_new_writer(&mut self, log: &str) -> HostId {
        let number = self.writers.len() as u64;
        let seed = self.scenario.seed.wrapping_mul(1000) + number;
        let chain = Chain::shared(seed, NEW_BYTES);
        let config = AppenderConfig {
            log: log.to_owned(),
            nodes: self.addresses.clone(),
            ending: Ending::Vanish,
            ..AppenderConfig::default()
        };
        let writer = self.start_writer(seed, config, &chain);
        self.chains.push(chain);
        writer
    }

    fn start_writer(&mut self, seed: u64, config: AppenderConfig, chain: &SharedChain) -> HostId {
        let shared = chain.clone();
        let writer = self
            .world
            .add_host(&format!("writer{}", self.writers.len()));
        let started = self.world.start(writer, move |_disk, _now| {
            let appender = Appender::new(seed, config.clone(), shared.clone());
            Ok(Box::new(appender))
        });
        started.expect("a writer always starts");
        self.writers.push(writer);
        writer
    }

    /// Harm, then peace, until every client has what it came for; then every node stops.
    pub fn run(&mut self) -> Result<(), Failure> {
        self.suffer()?;
        self.serve()?;
        self.stop()
    }

    /// The nemesis comes, does harm, and leaves.
    pub fn suffer(&mut self) -> Result<(), Failure> {
        let harm_until = self.world.now() + Duration::from_micros(self.scenario.harm_us);
        let swarm = self.scenario.swarm.clone();
        self.world.unleash(swarm, &self.nodes, harm_until);
        let limits = Limits {
            until: harm_until + Duration::from_micros(1),
            events_max: self.scenario.events_max,
        };
        let steps = self.scenario.harm_steps_max.unwrap_or(u64::MAX);
        let enough = self.world.steps().saturating_add(steps);
        let over = |world: &World| world.is_peace() || world.steps() >= enough;
        let outcome = self.world.run_until(limits, over);
        if outcome == Outcome::Reached && !self.world.is_peace() {
            self.world.end_harm();
        }
        let outcome = self.world.run_until(limits, World::is_peace);
        self.expect("the nemesis to leave", outcome)
    }

    /// No node hears another for a while; then all do again.
    pub(crate) fn darken(&mut self) {
        for &from in &self.nodes {
            for &to in self.nodes.iter().filter(|to| **to != from) {
                self.world.cut(from, to);
            }
        }
        let limits = Limits {
            until: self.world.now() + Duration::from_micros(self.scenario.dark_us),
            events_max: self.scenario.events_max,
        };
        self.world.run_until(limits, |_| false);
        self.world.heal_all();
    }

    /// In peace, until every client has what it came for.
    pub fn serve(&mut self) -> Result<(), Failure> {
        let clients = [&self.writers[..], &self.readers[..]].concat();
        self.wait("the clients to finish in peace", |world| {
            clients.iter().all(|client| !world.is_running(*client))
        })
    }

    /// Every node is asked to stop, and does.
    pub fn stop(&mut self) -> Result<(), Failure> {
        for node in self.nodes.clone() {
            self.world.stop(node);
        }
        let nodes = self.nodes.clone();
        self.wait("the nodes to stop when asked", |world| {
            nodes.iter().all(|node| !world.is_running(*node))
        })
    }

    /// In peace that does not take longer than `calm_us`.
    pub fn wait(&mut self, what: &str, reached: impl FnMut(&World) -> bool) -> Result<(), Failure> {
        let limits = Limits {
            until: self.world.now() + Duration::from_micros(self.scenario.calm_us),
            events_max: self.scenario.events_max,
        };
        let outcome = self.world.run_until(limits, reached);
        self.expect(what, outcome)
    }

    fn expect(&self, what: &str, outcome: Outcome) -> Result<(), Failure> {
        if outcome == Outcome::Reached {
            return Ok(());
        }
        Err(Failure {
            what: what.to_owned(),
            outcome,
            state: format!("{self:#?}"),
        })
    }
}

/// Runs seeds until one panics, and says how to run that one alone. `SEED=n` runs only that;
/// with `TRACE=1` a scenario prints all that happens. `SEEDS=a..b` runs all of those, whatever
/// happens, and tells at the end which failed.
///
/// `test` is what follows `cargo test --release`.
pub fn each_seed(seeds: Range<u64>, test: &str, run: impl Fn(u64)) {
    let number = |text: &str| text.parse::<u64>().ok();
    let asked = |key| std::env::var(key).ok();
    let one = asked("SEED").and_then(|seed| number(&seed));
    let many = asked("SEEDS");
    let many = many.as_deref().and_then(|range| range.split_once(".."));
    let many = many.and_then(|(first, end)| Some(number(first)?..number(end)?));
    let all = one.is_none() && many.is_some();
    let seeds = one.map_or(many.unwrap_or(seeds), |seed| seed..seed + 1);
    let mut failed = Vec::new();
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            eprintln!("replay: SEED={seed} cargo test --release {test}");
            if !all {
                resume_unwind(panic);
            }
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "these seeds failed: {failed:?}");
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let world = &self.world;
        write!(
            f,
            "seed {} at {} µs, ",
            world.seed(),
            world.now().as_micros()
        )?;
        writeln!(f, "{} steps, {} acts", world.steps(), world.acts())?;
        for host in [&self.nodes[..], &self.writers, &self.readers].concat() {
            let (name, status) = (world.name(host), world.status(host));
            writeln!(f, "{name}: {status:?}, {} starts", world.starts(host))?;
        }
        for chain in &self.chains {
            writeln!(f, "{:?}", chain.borrow())?;
        }
        write!(f, "{:?}", self.scenario.swarm)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?} while waiting for {}", self.outcome, self.what)?;
        f.write_str(&self.state)
    }
}
