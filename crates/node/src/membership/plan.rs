//! From a log's configuration to the one that is wanted, in legal steps.
//!
//! ```text
//!   (1,1,1,-) ─+4─► (1,1,1,1) ─−3─► (1,1,-,1)                       node 3 is silent
//!   (1,1,1,-) ─×2─► (2,2,2,-) ─+4─► (2,2,2,1) ─−3─► (2,2,1,1)       all are well: each era can begin by a
//!              ─+4─► (2,2,1,2) ─−3─► (2,2,-,2) ─÷2─► (1,1,-,1)      casting vote, which four equal votes cannot
//! ```
//!
//! A path scales the weights, takes one step after the other towards a multiple of what is wanted, and scales
//! them back. The best of a few such paths is taken, and only its first step: the next leader works out the
//! rest anew. That ends, because the rest of the best path is one of the paths at the next step, and the cost
//! of a path is the sum of the costs of its steps.
//!
//! Units:  weights; a step is one `Change`.
//! Errors: none; a goal that cannot be reached within the limits has no path.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use paxos::{Change, Configuration, NodeId, WEIGHT_TOTAL_MAX};

use crate::split::has_active_quorum;

/// The greatest factor by which weights are scaled on the way.
const FACTOR_MAX: u32 = 4;
/// The length of the longest path: smaller weights say the same as a longer one.
pub const STEPS_MAX: usize = 200;

/// The goal of a log.
#[derive(Clone, Copy, Debug)]
pub struct Goal<'a> {
    /// Every weight is positive.
    pub weights: &'a BTreeMap<u32, u32>,
    /// The zones of those nodes that have one.
    pub zones: &'a BTreeMap<u32, String>,
    /// The nodes that do not answer now: the votes of the others begin an era.
    pub silent: &'a BTreeSet<u32>,
}

/// Weights of the nodes that matter, in the order of a [`Ground`].
type Weights = Vec<u32>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Give(usize),
    Take(usize),
    Multiply(u32),
    Divide(u32),
}

/// The cost of a path: the evils to avoid, worst first; then the number of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    /// Configurations in which one node alone is a quorum, though in the end none is.
    ruled_by_one: usize,
    /// Failures that are survived less than in the end, over all configurations.
    intolerance: usize,
    /// Configurations in which a zone has half of the weight, though in the end none has.
    lopsided: usize,
    /// Eras that cannot begin by a casting vote, so that appends wait for a round trip.
    stalls: usize,
    steps: usize,
}

/// The nodes of a plan, and their zones.
struct Ground {
    nodes: Vec<NodeId>,
    silent: Vec<bool>,
    zones: Vec<Option<usize>>,
    zone_count: usize,
}

impl Ground {
    fn new(configuration: &Configuration, goal: Goal) -> (Ground, Weights, Weights) {
        let members = configuration.members().iter().map(|member| member.node);
        let nodes: BTreeSet<NodeId> = members
            .chain(goal.weights.keys().copied().map(NodeId))
            .collect();
        let names: BTreeSet<&String> = nodes.iter().filter_map(|n| goal.zones.get(&n.0)).collect();
        let names: Vec<&String> = names.into_iter().collect();
        let zone_of = |node: &NodeId| {
            let name = goal.zones.get(&node.0)?;
            names.iter().position(|known| *known == name)
        };
        let now = nodes.iter().map(|node| configuration.weight(*node));
        let end = nodes.iter().map(|n| goal.weights.get(&n.0).copied());
        let (now, end) = (now.collect(), end.map(Option::unwrap_or_default).collect());
        let ground = Ground {
            zones: nodes.iter().map(zone_of).collect(),
            zone_count: names.len(),
            silent: nodes.iter().map(|n| goal.silent.contains(&n.0)).collect(),
            nodes: nodes.into_iter().collect(),
        };
        (ground, now, end)
    }

    fn is_lopsided(&self, weights: &[u32]) -> bool {
        let total = total(weights);
        let heavy = |zone: usize| {
            let within = self.zones.iter().zip(weights);
            let within = within.filter(|(of, _)| **of == Some(zone));
            2 * within.map(|(_, weight)| u64::from(*weight)).sum::<u64>() >= total
        };
        self.zone_count > 1 && (0..self.zone_count).any(heavy)
    }

    /// Whether the heaviest node that answers, if it leads, can have two quorums that only it is in both of.
    /// The others are dealt out, the heaviest first, each to the lighter side; that finds nearly all.
    fn has_casting_vote(&self, weights: &[u32]) -> bool {
        let answering = weights.iter().zip(&self.silent);
        let answering = answering.filter(|(_, silent)| !**silent);
        let mut votes: Vec<u64> = answering.map(|(weight, _)| u64::from(*weight)).collect();
        votes.sort_unstable_by_key(|weight| Reverse(*weight));
        let Some((leader, others)) = votes.split_first() else {
            return false;
        };
        let (mut one, mut other) = (0, 0);
        for weight in others {
            *if one <= other { &mut one } else { &mut other } += weight;
        }
        2 * (leader + one.min(other)) > total(weights)
    }

    /// Whether nothing gets worse by a step that need not.
    fn is_good(&self, next: &[u32], now: &[u32], end: &[u32]) -> bool {
        let ruled = is_ruled_by_one(next) && !is_ruled_by_one(now) && !is_ruled_by_one(end);
        let lopsided = self.is_lopsided(next) && !self.is_lopsided(now) && !self.is_lopsided(end);
        !ruled && !lopsided && tolerance(next) >= tolerance(now).min(tolerance(end))
    }

    /// The next step towards `end`. The weight of the lightest grows first and that of the heaviest shrinks
    /// first: then no node becomes a quorum of its own that is none in the end.
    fn step(&self, now: &[u32], end: &[u32]) -> Option<Step> {
        if now == end {
            return None;
        }
        if let Some(step) = scaling(now, end) {
            return Some(step);
        }
        let all = 0..now.len();
        let mut up: Vec<usize> = all.clone().filter(|n| now[*n] < end[*n]).collect();
        up.sort_by_key(|n| (now[*n], *n));
        let mut down: Vec<usize> = all.filter(|n| now[*n] > end[*n]).collect();
        down.sort_by_key(|n| (Reverse(now[*n]), *n));
        let steps = up.into_iter().map(Step::Give);
        let steps: Vec<Step> = steps.chain(down.into_iter().map(Step::Take)).collect();
        let good = |step: &&Step| take(**step, now).is_some_and(|x| self.is_good(&x, now, end));
        let smooth = |step: &&Step| take(**step, now).is_some_and(|x| self.has_casting_vote(&x));
        let fair = |step: &&Step| take(**step, now).is_some_and(|x| !is_ruled_by_one(&x));
        let legal = |step: &&Step| take(**step, now).is_some();
        let found = steps.iter().find(|step| good(step) && smooth(step));
        let found = found.or_else(|| steps.iter().find(good));
        let found = found.or_else(|| steps.iter().find(fair));
        found.or_else(|| steps.iter().find(legal)).copied()
    }

    /// The path that is scaled first by `before`, then to `factor` times the goal, and back.
    fn path(&self, now: &[u32], end: &[u32], before: &[Step], factor: u32) -> Option<Vec<Step>> {
        let mut steps = Vec::new();
        let mut weights = now.to_vec();
        for step in before {
            weights = take(*step, &weights)?;
            steps.push(*step);
        }
        let target = take(Step::Multiply(factor), end)?;
        while let Some(step) = self.step(&weights, &target) {
            weights = take(step, &weights)?;
            steps.push(step);
            if steps.len() > STEPS_MAX {
                return None;
            }
        }
        if weights != target {
            return None;
        }
        if factor > 1 {
            steps.push(Step::Divide(factor));
        }
        Some(steps)
    }

    fn cost(&self, now: &[u32], end: &[u32], steps: &[Step]) -> Cost {
        let (fair, balanced) = (!is_ruled_by_one(end), !self.is_lopsided(end));
        let wanted = tolerance(end);
        let mut weights = now.to_vec();
        let mut cost = Cost {
            steps: steps.len(),
            ..Cost::default()
        };
        for step in steps {
            let Some(next) = take(*step, &weights) else {
                break; // a path has legal steps alone
            };
            weights = next;
            cost.ruled_by_one += usize::from(fair && is_ruled_by_one(&weights));
            cost.intolerance += wanted.saturating_sub(tolerance(&weights));
            cost.lopsided += usize::from(balanced && self.is_lopsided(&weights));
            cost.stalls += usize::from(!self.has_casting_vote(&weights));
        }
        cost
    }

    fn best(&self, now: &[u32], end: &[u32]) -> Option<Vec<Step>> {
        let divisor = common_divisor(now);
        let divided = (divisor > 1).then_some(Step::Divide(divisor));
        let mut best: Option<(Cost, Vec<Step>)> = None;
        for first in [None, divided] {
            for factor in 1..=FACTOR_MAX {
                let multiplied = (factor > 1).then_some(Step::Multiply(factor));
                let before: Vec<Step> = first.into_iter().chain(multiplied).collect();
                for factor in 1..=FACTOR_MAX {
                    let Some(path) = self.path(now, end, &before, factor) else {
                        continue;
                    };
                    let cost = self.cost(now, end, &path);
                    if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                        best = Some((cost, path));
                    }
                }
            }
            if divided.is_none() {
                break;
            }
        }
        best.map(|(_, path)| path)
    }

    fn change(&self, step: Step) -> Change {
        match step {
            Step::Give(n) => Change::Increment(self.nodes[n]),
            Step::Take(n) => Change::Decrement(self.nodes[n]),
            Step::Multiply(factor) => Change::Multiply(factor),
            Step::Divide(factor) => Change::Divide(factor),
        }
    }
}

fn total(weights: &[u32]) -> u64 {
    weights.iter().map(|weight| u64::from(*weight)).sum()
}

fn is_ruled_by_one(weights: &[u32]) -> bool {
    let most = weights.iter().max().copied().unwrap_or_default();
    2 * u64::from(most) > total(weights)
}

/// The number of nodes that may fail, whichever they are.
pub(super) fn tolerance(weights: &[u32]) -> usize {
    let all = total(weights);
    let mut heaviest = weights.to_vec();
    heaviest.sort_unstable_by_key(|weight| Reverse(*weight));
    let mut left = all;
    let lost = heaviest.iter().take_while(|weight| {
        left -= u64::from(**weight);
        2 * left > all
    });
    lost.count()
}

fn common_divisor(weights: &[u32]) -> u32 {
    let divisor = |mut a: u32, mut b: u32| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    weights.iter().fold(0, |all, weight| divisor(all, *weight))
}

/// The step of scaling, if nothing else is between the two.
fn scaling(now: &[u32], end: &[u32]) -> Option<Step> {
    let (a, b) = (common_divisor(now), common_divisor(end));
    if a == 0 || b == 0 || !now.iter().zip(end).all(|(x, y)| x / a == y / b) {
        return None;
    }
    Some(match (a % b, b % a) {
        (0, _) => Step::Divide(a / b),
        (_, 0) => Step::Multiply(b / a),
        _ => Step::Divide(a),
    })
}

/// The weights one step further, if that is legal.
fn take(step: Step, now: &[u32]) -> Option<Weights> {
    let mut next = now.to_vec();
    match step {
        Step::Give(n) => next[n] = next[n].checked_add(1)?,
        Step::Take(n) => next[n] = next[n].checked_sub(1)?,
        Step::Multiply(factor) => {
            for weight in &mut next {
                *weight = weight.checked_mul(factor)?;
            }
        }
        Step::Divide(factor) => {
            for weight in &mut next {
                if !weight.is_multiple_of(factor) {
                    return None;
                }
                *weight /= factor;
            }
        }
    }
    let legal = 1..=u64::from(WEIGHT_TOTAL_MAX);
    legal.contains(&total(&next)).then_some(next)
}

/// Makes room where auxiliaries are in the way of a step: the active members of what follows must be a quorum.
fn make_room(configuration: &Configuration, change: Change, goal: Goal) -> Change {
    let next = configuration.apply(change);
    if next.is_ok_and(|next| has_active_quorum(&next)) {
        return change;
    }
    let auxiliaries = configuration.members().iter().filter(|m| m.auxiliary);
    let stays = |node: NodeId| goal.weights.contains_key(&node.0);
    let heaviest = auxiliaries.max_by_key(|m| (stays(m.node), m.weight, Reverse(m.node)));
    heaviest.map_or(change, |member| Change::UnmarkAuxiliary(member.node))
}

/// The next step from this configuration to the goal; `None` if it is reached, or cannot be. Nodes for
/// which `may_gain` does not hold cannot be given weight now: another one may be, as long as nothing
/// gets worse by it.
pub fn next_step(
    configuration: &Configuration,
    goal: Goal,
    may_gain: impl Fn(NodeId) -> bool,
) -> Option<Change> {
    let (ground, now, end) = Ground::new(configuration, goal);
    if now == end {
        return None;
    }
    let first = *ground.best(&now, &end)?.first()?;
    let blocked = |step: Step| matches!(step, Step::Give(n) if !may_gain(ground.nodes[n]));
    let mut step = first;
    if blocked(first) {
        let others = (0..now.len()).filter(|n| now[*n] < end[*n]);
        let mut others = others.map(Step::Give).filter(|step| !blocked(*step));
        let good = |step: &Step| take(*step, &now).is_some_and(|x| ground.is_good(&x, &now, &end));
        step = others.find(good).unwrap_or(first);
    }
    Some(make_room(configuration, ground.change(step), goal))
}

/// All steps from this configuration to the goal, if all goes well. `None` if there is no way within
/// [`STEPS_MAX`] steps and the limits of weights.
pub fn plan(configuration: &Configuration, goal: Goal) -> Option<Vec<Change>> {
    let (ground, now, end) = Ground::new(configuration, goal);
    let mut at = configuration.clone();
    let mut changes = Vec::new();
    for step in ground.best(&now, &end)? {
        let step = ground.change(step);
        loop {
            let change = make_room(&at, step, goal);
            at = at.apply(change).ok()?;
            changes.push(change);
            if change == step {
                break;
            }
        }
    }
    Some(changes)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
