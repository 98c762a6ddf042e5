//! The one workload: real nodes, clients that know what they were promised, and every fault there is.
//!
//! ```text
//! seed ─ draw ─▶ Scenario ─ build ─▶ [well] ─ harm ─ serve ─ whole ─ a new append ─ stop ─ start ─ whole
//!                   ▲                  └────────── after every step: the witness ──────────┘
//!                script                                   └──▶ Report, or Violation
//! ```
//!
//! ```
//! let options = sim::workload::Options {
//!     faults: "kill,losses".parse().unwrap(),
//!     steps_max: Some(2_000),
//!     ..sim::workload::Options::new(1)
//! };
//! let report = sim::workload::run(&options).expect("nothing is wrong");
//! assert!(report.coverage.get("elections") > 0);
//! assert_eq!(sim::workload::run(&options).unwrap(), report, "a seed is the whole story");
//! ```

mod coverage;
mod draw;
#[cfg(test)]
mod heartbeat_tests;
mod nodes;
pub mod script;
mod shrink;
mod violation;
mod watch;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;

pub use coverage::Coverage;
pub use draw::{FaultSet, UnknownFault, draw, names as fault_names};
pub use nodes::small_limits;
pub use shrink::{Shrunk, shrink};
pub use violation::{Checker, Violation};

use crate::client::Ledger;
use crate::host::Status;
use crate::scenario::{Cluster, Scenario};
use crate::world::World;
use violation::{Caught, catch};
use watch::Watcher;

/// The run that is wanted.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    /// The harm ends after so many steps at the latest.
    pub steps_max: Option<u64>,
    pub faults: FaultSet,
}

/// The report of a run that showed nothing wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub seed: u64,
    /// Messages, completions and timers handled by nodes.
    pub steps: u64,
    /// All that happened, in the kernels and clients too.
    pub events: u64,
    pub simulated_us: u64,
    pub acknowledged_bytes: u64,
    pub faults: BTreeMap<&'static str, u64>,
    pub coverage: Coverage,
    /// The hash of everything that happened, in order.
    pub trace_hash: u64,
    /// The turns of the nemesis.
    pub turns: u64,
}

/// The fate of the lines that say what happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lines {
    #[default]
    Nowhere,
    /// To standard error, as it happens.
    Print,
    /// The last so many, to look at afterwards.
    Keep(usize),
}

/// After this much simulated time in peace a new append is acknowledged.
const NEW_APPEND: Duration = Duration::from_secs(60);

impl Options {
    /// All faults, to the end.
    pub fn new(seed: u64) -> Options {
        Options {
            seed,
            steps_max: None,
            faults: FaultSet::all(),
        }
    }

    pub fn scenario(&self) -> Scenario {
        let mut scenario = draw(self.seed);
        self.faults.limit(&mut scenario);
        scenario.harm_steps_max = self.steps_max;
        scenario
    }
}

/// The run of a seed.
pub fn run(options: &Options) -> Result<Report, Violation> {
    run_scenario(&options.scenario())
}

/// The run of a scenario, drawn or written down.
pub fn run_scenario(scenario: &Scenario) -> Result<Report, Violation> {
    look_at(scenario, Lines::Nowhere).0
}

/// As `run_scenario`; also returns the lines that were kept.
pub fn look_at(scenario: &Scenario, lines: Lines) -> (Result<Report, Violation>, Vec<String>) {
    let coverage = Rc::new(RefCell::new(Coverage::default()));
    let mut slot = None;
    let outcome = catch(|| {
        let cluster = slot.insert(begin(scenario, lines, &coverage));
        perform(cluster)
    });
    let result = match (&slot, outcome) {
        (Some(cluster), Ok(Ok(()))) => {
            for process in cluster.world.processes() {
                coverage.borrow_mut().take(process);
            }
            Ok(report(cluster, &coverage.borrow()))
        }
        (cluster, Ok(Err(text))) => {
            let location = String::new();
            let caught = Caught { text, location };
            Err(violation(
                scenario,
                cluster.as_ref(),
                Checker::Liveness,
                caught,
            ))
        }
        (cluster, Err(caught)) => {
            let checker = caught.checker();
            Err(violation(scenario, cluster.as_ref(), checker, caught))
        }
        (None, Ok(Ok(()))) => unreachable!("what came to its end was begun"),
    };
    let kept = slot.map(|mut cluster| cluster.world.trace().lines());
    (result, kept.unwrap_or_default())
}

/// A scenario's cluster with everything that checks it, for tests with a plot of their own.
pub fn build(scenario: &Scenario) -> Cluster {
    begin(scenario, Lines::Nowhere, &Rc::default())
}

fn begin(scenario: &Scenario, lines: Lines, coverage: &Rc<RefCell<Coverage>>) -> Cluster {
    let mut world = World::new(scenario.seed);
    match lines {
        Lines::Nowhere => {}
        Lines::Print => world.trace().print(true),
        Lines::Keep(count) => world.trace().keep(count),
    }
    let ledger = Ledger::default();
    let watcher = Watcher::new(scenario, coverage.clone(), ledger.clone());
    world.watch = Some(Box::new(watcher));
    nodes::build(scenario, world, &ledger)
}

fn perform(cluster: &mut Cluster) -> Result<(), String> {
    let told = |failure: crate::Failure| format!("{failure:?}");
    if cluster.scenario().begin_well {
        wait_until_whole(cluster)?;
        // Common knowledge need not be on every disk yet: of the last configuration of two members both must
        // remember that they chose the one of three.
        cluster.world.run_for(SETTLE, u64::MAX);
    }
    cluster.suffer().map_err(told)?;
    if let Some(programs) = &cluster.programs {
        programs.borrow_mut().keep();
    }
    if cluster.scenario().dark_us > 0 {
        cluster.darken();
    }
    cluster.serve().map_err(told)?;
    do_without_the_dead(cluster)?;
    leave_out_the_damaged(cluster)?;
    wait_until_whole(cluster)?;
    append_anew(cluster)?;
    wait_until_whole(cluster)?;
    cluster.stop().map_err(told)?;
    if let Some(programs) = &cluster.programs {
        programs.borrow_mut().finish();
    }
    for node in cluster.nodes.clone() {
        let started = cluster.world.restart(node);
        started.map_err(|e| format!("a node that stopped in peace does not start: {e}"))?;
    }
    wait_until_whole(cluster)?;
    go_on_in_the_newer_version(cluster)
}

/// Waits until every node has the newer program; no node is waited for that never comes.
fn go_on_in_the_newer_version(cluster: &mut Cluster) -> Result<(), String> {
    let scenario = cluster.scenario();
    let upgrade = scenario.upgrade.as_ref();
    if !upgrade.is_some_and(|upgrade| upgrade.to_the_end) || scenario.damaged_node().is_some() {
        return Ok(());
    }
    let nodes = cluster.nodes.clone();
    let waited = cluster.wait("the newer version to be agreed on", |world| {
        nodes::agree_on_the_newest(world, &nodes)
    });
    waited.map_err(|failure| format!("{failure:?}"))?;
    append_anew(cluster)?;
    wait_until_whole(cluster)
}

/// Checks that the work which a minority of dead nodes must not hinder went on without them; now they come back.
fn do_without_the_dead(cluster: &mut Cluster) -> Result<(), String> {
    let is_dead = |node: &&crate::HostId| cluster.world.status(**node) == Status::Crashed;
    let dead: Vec<_> = cluster.nodes.iter().filter(is_dead).copied().collect();
    if dead.is_empty() {
        return Ok(());
    }
    append_anew(cluster)?;
    for node in dead {
        let started = cluster.world.restart(node);
        started.map_err(|e| format!("a node that was dead does not start in peace: {e}"))?;
    }
    Ok(())
}

/// Longer than any record takes to its disk.
const SETTLE: Duration = Duration::from_secs(2);

/// Longer than it takes until a node that did not start is started again.
const START_AGAIN: Duration = Duration::from_secs(2);

/// A disk that was damaged may be beyond use; it is one node's only.
fn leave_out_the_damaged(cluster: &mut Cluster) -> Result<(), String> {
    if cluster.scenario().damaged_node().is_none() {
        return Ok(());
    }
    // A node whose program was too old for its disk is started again with a newer one in a moment.
    cluster.world.run_for(START_AGAIN, u64::MAX);
    let well = |node: &crate::HostId| cluster.world.status(*node) != Status::FailedToStart;
    let (well, lost): (Vec<_>, Vec<_>) = cluster.nodes.iter().copied().partition(well);
    if lost.len() > 1 {
        return Err("only one disk is bad, and more than one node does not start".to_owned());
    }
    cluster.nodes = well;
    Ok(())
}

/// Waits in peace until every replica takes part, knows all that is chosen, holds its bytes, and
/// leads or follows.
pub fn wait_until_whole(cluster: &mut Cluster) -> Result<(), String> {
    let nodes = cluster.nodes.clone();
    // Else they are what somebody wanted.
    let all_vote = cluster.scenario().member_changes == 0;
    let members = all_vote.then_some(cluster.addresses.len());
    let waited = cluster.wait("the nodes to be whole", |world| {
        nodes::is_whole(world, &nodes, members)
    });
    waited.map_err(|failure| {
        let picture = nodes::picture(&cluster.world, &nodes);
        format!("{failure:?}\n{picture}")
    })?;
    nodes::leave_out_the_removed(&cluster.world, &mut cluster.nodes);
    let nodes = cluster.nodes.clone();
    cluster.world.they_are_whole(&nodes);
    Ok(())
}

/// The cluster takes new bytes, on every log, within a bound.
fn append_anew(cluster: &mut Cluster) -> Result<(), String> {
    let began = cluster.world.now();
    let mut logs = cluster.scenario().logs.clone();
    logs.dedup();
    logs.extend(draw::MORE_LOGS.map(str::to_owned));
    let writers: Vec<_> = logs.iter().map(|log| cluster.add_new_writer(log)).collect();
    let waited = cluster.wait("new bytes to be acknowledged", |world| {
        writers.iter().all(|writer| !world.is_running(*writer))
    });
    waited.map_err(|failure| format!("{failure:?}"))?;
    let took = cluster.world.now() - began;
    if took > NEW_APPEND {
        return Err(format!("a new append in peace took {took:?}"));
    }
    Ok(())
}

fn report(cluster: &Cluster, coverage: &Coverage) -> Report {
    let world = &cluster.world;
    let chains = cluster.chains.iter();
    Report {
        seed: world.seed(),
        steps: world.steps(),
        events: world.events(),
        simulated_us: world.now().as_micros(),
        acknowledged_bytes: chains.map(|chain| chain.borrow().acknowledged).sum(),
        faults: world.faults(),
        coverage: coverage.clone(),
        trace_hash: world.trace_hash(),
        turns: world.turns(),
    }
}

fn violation(
    scenario: &Scenario,
    cluster: Option<&Cluster>,
    checker: Checker,
    caught: Caught,
) -> Violation {
    let world = cluster.map(|cluster| &cluster.world);
    Violation {
        seed: scenario.seed,
        step: world.map_or(0, |world| world.steps()),
        simulated_us: world.map_or(0, |world| world.now().as_micros()),
        checker,
        text: caught.text,
        location: caught.location,
        turns: world.map_or(0, |world| world.turns()),
    }
}
