//! The warnings that are known: our own, each held for a while after its cause is gone, and the others'.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use formats::LogId;
use formats::frame::{TOLD_MAX, Told};
use paxos::{NodeId, Time};

use super::{Code, Key, State, Warning};

/// The time for which a warning is held, so that somebody who looks a moment later sees it too.
const HELD: Duration = Duration::from_secs(10);
/// The time after which the nodes' words about each other's silence are compared: they do not all notice in
/// the same moment.
const SETTLED: Duration = Duration::from_secs(1);
/// The interval of telling. A warning is some thirty bytes, and over a bad network heartbeats have little
/// room: so not each of them tells, but so often that two may be lost before a node's word is taken for old.
const TOLD_EVERY: Duration = Duration::from_millis(300);

#[derive(Debug, Default)]
pub(crate) struct Board {
    own: BTreeMap<Key, Held>,
    others: BTreeMap<NodeId, BTreeMap<Key, Held>>,
    /// The time when each node last spoke for itself.
    heard: BTreeMap<NodeId, Time>,
    /// The nodes that are known, this one among them, and when each came; none of those that were known when this process began
    /// to look.
    known: Option<BTreeMap<NodeId, Option<Time>>>,
    pub(super) tenures: BTreeMap<LogId, Tenure>,
    /// The time since which changes of members wait.
    pub(super) waiting: BTreeMap<LogId, Time>,
    /// The time since which logs have not heard of what was agreed.
    pub(super) unheard: BTreeMap<LogId, Time>,
    /// The pairs that seem not to hear each other, and since when.
    pub(super) apart: BTreeMap<(NodeId, NodeId), Time>,
    pub(super) next_judgement: Time,
    next_telling: Time,
    /// The counts when they were last looked at.
    pub(super) seen: Seen,
}

/// The tenures of a log's leaders, as this node saw them.
#[derive(Debug, Default)]
pub(super) struct Tenure {
    pub leader: Option<NodeId>,
    pub leaderless_since: Option<Time>,
    /// The times when another node led, or one again.
    pub changes: VecDeque<Time>,
    /// The leaders so far that handed over.
    pub handed_over: u64,
    pub candidacies: u64,
    /// The first unchosen slot, when it was looked at.
    pub chosen: Option<(Time, paxos::Slot)>,
    /// … and a while before that.
    pub chosen_before: paxos::Slot,
    /// Since when nobody who is heard has the state of its machine.
    pub stateless_since: Option<Time>,
    /// Since when fewer voters hold all of the log than it wants copies, as its leader knows.
    pub uncopied_since: Option<Time>,
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    pub gaps: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub warning: Warning,
    /// The time when the warning began to hold, this time.
    pub since: Time,
    /// The time when it last held, or was said to.
    pub last: Time,
    pub is_active: bool,
}

/// A warning as it is to be shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    /// The node whose word it is.
    pub by: NodeId,
    pub held: Held,
    pub state: State,
}

impl Held {
    fn is_over(&self, now: Time) -> bool {
        now > self.last + HELD
    }
}

impl Board {
    /// Whether it is time to judge, which looks at all logs.
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.next_judgement
    }

    /// Judges what is wrong on this node now. A warning whose cause is gone is held.
    pub fn judge(&mut self, now: Time, causes: impl IntoIterator<Item = Warning>) {
        let mut so_now = BTreeSet::new();
        for warning in causes {
            so_now.insert(warning.key());
            hold(&mut self.own, now, warning, true);
        }
        for (key, held) in &mut self.own {
            held.is_active = so_now.contains(key);
        }
        self.own.retain(|_, held| !held.is_over(now));
        for others in self.others.values_mut() {
            others.retain(|_, held| !held.is_over(now));
            for held in others.values_mut() {
                // The node that said so is silent.
                held.is_active &= now <= held.last + SETTLED;
            }
        }
        self.others.retain(|_, others| !others.is_empty());
    }

    /// Takes the warnings in a heartbeat of `from`. Words of nodes that nobody `knows` are none.
    pub fn on_told(
        &mut self,
        now: Time,
        own: NodeId,
        from: NodeId,
        told: &[Told],
        knows: impl Fn(NodeId) -> bool,
    ) {
        self.heard.insert(from, now);
        let said_by = told.iter().map(|t| t.by).filter(|by| knows(*by));
        let said_by: BTreeSet<NodeId> = said_by.chain([from]).collect();
        for by in said_by.into_iter().filter(|by| *by != own) {
            // A node's own word is newer than what others say that it said.
            let direct = |at: &Time| now <= *at + SETTLED;
            if by != from && self.heard.get(&by).is_some_and(direct) {
                continue;
            }
            let others = self.others.entry(by).or_default();
            for told in told.iter().filter(|told| told.by == by) {
                let Some(code) = Code::from_number(told.code) else {
                    continue;
                };
                let warning = Warning {
                    code,
                    about: told.about,
                    with: told.with,
                    log: told.log,
                    logs: told.logs,
                    amount: told.amount,
                };
                if others.len() < TOLD_MAX || others.contains_key(&warning.key()) {
                    hold(others, now, warning, told.is_active);
                }
            }
            // The node holds its warnings itself: one that it says no more is over.
            others.retain(|_, held| held.last == now);
        }
    }

    /// Whether the heartbeats of now say what is wrong.
    pub fn is_time_to_tell(&mut self, now: Time) -> bool {
        let due = self.next_telling <= now;
        if due {
            self.next_telling = now + TOLD_EVERY;
        }
        due
    }

    /// The warnings for a heartbeat to `to`: our own, and those of nodes that it does not hear. Only words of
    /// the nodes' own heartbeats of a moment ago are told on: otherwise nodes that do not hear a node would
    /// tell each other of it for ever.
    pub fn to_tell(&self, now: Time, own: NodeId, to: NodeId) -> Vec<Told> {
        let recent = |by: &NodeId| self.heard.get(by).is_some_and(|at| now <= *at + SETTLED);
        let unheard = |by: &NodeId| {
            let said = self.others.get(&to);
            let key = (Code::NodeUnreachable, *by, NodeId(0));
            said.and_then(|said| said.get(&key))
                .is_some_and(|held| held.is_active)
        };
        let others = self.others.iter();
        let others = others.filter(|(by, _)| recent(by) && unheard(by));
        let all = [(&own, &self.own)].into_iter().chain(others);
        let told = all.flat_map(|(by, warnings)| {
            let shared = warnings.values().filter(|held| is_told(held.warning.code));
            shared.map(move |held| Told {
                by: *by,
                code: held.warning.code as u8,
                about: held.warning.about,
                with: held.warning.with,
                log: held.warning.log,
                logs: held.warning.logs,
                amount: held.warning.amount,
                is_active: held.is_active,
            })
        });
        told.take(TOLD_MAX).collect()
    }

    /// Pairs of which one node has said for a while that it does not hear the other, though somebody does.
    /// `hears` are the nodes that we hear, and we.
    pub fn pairs(&self, now: Time, own: NodeId, hears: &BTreeSet<NodeId>) -> Vec<(NodeId, NodeId)> {
        let mut silent: BTreeMap<NodeId, BTreeMap<NodeId, bool>> = BTreeMap::new();
        let all = self.others.iter().filter(|(by, _)| hears.contains(by));
        for (by, warnings) in all.chain([(&own, &self.own)]) {
            for held in warnings.values() {
                let settled = now >= held.since + SETTLED;
                if held.warning.code == Code::NodeUnreachable && held.is_active {
                    let by_whom = silent.entry(held.warning.about).or_default();
                    by_whom.insert(*by, settled);
                }
            }
        }
        let mut pairs = BTreeSet::new();
        for (about, by) in &silent {
            let hears_it = |node: &NodeId| node != about && !by.contains_key(node);
            if hears.iter().any(hears_it) {
                let settled = by.iter().filter(|(_, settled)| **settled);
                pairs.extend(settled.map(|(by, _)| (*by.min(about), *by.max(about))));
            }
        }
        pairs.into_iter().collect()
    }

    /// The warnings to be shown: ours and the others', but of silence only what follows from all words.
    pub(super) fn posted(&self, own: NodeId) -> Vec<Posted> {
        let pair = |a: NodeId, b: NodeId| {
            let key = (Code::PairCannotTalk, a.min(b), a.max(b));
            self.own.contains_key(&key)
        };
        let mut posted: Vec<Posted> = Vec::new();
        let all = [(&own, &self.own)].into_iter().chain(&self.others);
        for (by, warnings) in all {
            for held in warnings.values() {
                let warning = &held.warning;
                if warning.code == Code::NodeUnreachable && pair(*by, warning.about) {
                    continue;
                }
                let state = match held.is_active {
                    true => warning.state(*by == own),
                    false => warning.state_after(),
                };
                let says_same = |other: &Warning| {
                    let logs = (warning.log, warning.logs) == (other.log, other.logs);
                    warning.key() == other.key() && (warning.about != NodeId(0) || logs)
                };
                let same = |other: &&mut Posted| says_same(&other.held.warning);
                match posted.iter_mut().find(same) {
                    // Several nodes say the same: once is enough.
                    Some(other) => {
                        other.state = other.state.max(state);
                        other.held.is_active |= held.is_active;
                        other.held.since = other.held.since.min(held.since);
                    }
                    None => posted.push(Posted {
                        by: *by,
                        held: *held,
                        state,
                    }),
                }
            }
        }
        posted.sort_by_key(|p| (std::cmp::Reverse(p.state), p.held.warning.key(), p.by));
        posted
    }

    /// Notes who is known to this node now.
    pub(super) fn look_at(&mut self, now: Time, nodes: impl Iterator<Item = NodeId>) {
        let nodes: BTreeSet<NodeId> = nodes.collect();
        let is_first = self.known.is_none();
        let known = self.known.get_or_insert_default();
        known.retain(|id, _| nodes.contains(id));
        for id in nodes {
            known.entry(id).or_insert((!is_first).then_some(now));
        }
    }

    /// Whether the cluster got that node so short a while ago: not before this process began to look.
    pub(super) fn is_new(&self, now: Time, node: NodeId, within: Duration) -> bool {
        let came = self.known.as_ref().and_then(|known| *known.get(&node)?);
        came.is_some_and(|came| now < came + within)
    }

    pub(super) fn has_heard(&self, node: NodeId) -> bool {
        self.heard.contains_key(&node)
    }

    pub fn forget(&mut self, node: NodeId) {
        self.others.remove(&node);
        self.heard.remove(&node);
    }
}

/// Whether a code is told to others. Each node works out by itself what follows from all words; and whether a
/// node belongs to the cluster is nothing that it tells them.
fn is_told(code: Code) -> bool {
    !matches!(code, Code::PairCannotTalk | Code::NotJoined | Code::Removed)
}

fn hold(warnings: &mut BTreeMap<Key, Held>, now: Time, warning: Warning, is_active: bool) {
    let before = warnings.get(&warning.key());
    let before = before.filter(|before| before.is_active || !is_active);
    let since = before.map_or(now, |before| before.since);
    let held = Held {
        warning,
        since,
        last: now,
        is_active,
    };
    warnings.insert(warning.key(), held);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn silent(about: u32) -> Warning {
        Warning::new(Code::NodeUnreachable).about(NodeId(about))
    }

    fn codes(board: &Board) -> Vec<(Code, bool)> {
        let posted = board.posted(NodeId(1)).into_iter();
        posted
            .map(|p| (p.held.warning.code, p.held.is_active))
            .collect()
    }

    #[test]
    fn a_warning_is_held_for_ten_seconds_after_its_cause() {
        let mut board = Board::default();
        board.judge(Time::from_micros(SECOND), [Warning::new(Code::DiskSlow)]);
        board.judge(Time::from_micros(2 * SECOND), []);
        assert_eq!(codes(&board), [(Code::DiskSlow, false)]);
        board.judge(Time::from_micros(11 * SECOND), []);
        assert_eq!(codes(&board), [(Code::DiskSlow, false)]);
        board.judge(Time::from_micros(11 * SECOND + 1), []);
        assert!(codes(&board).is_empty());
    }

    #[test]
    fn what_another_says_is_shown_until_it_says_it_no_more_or_is_silent_for_long() {
        let mut other = Board::default();
        other.judge(Time::ZERO, [Warning::new(Code::DiskFull)]);
        let mut board = Board::default();
        let told = other.to_tell(Time::ZERO, NodeId(2), NodeId(1));
        board.on_told(Time::ZERO, NodeId(1), NodeId(2), &told, |_| true);
        board.judge(Time::ZERO, []);
        assert_eq!(codes(&board), [(Code::DiskFull, true)]);
        board.judge(Time::from_micros(2 * SECOND), []);
        assert_eq!(codes(&board), [(Code::DiskFull, false)], "its last word");
        board.judge(Time::from_micros(11 * SECOND), []);
        assert!(codes(&board).is_empty(), "it is silent");
        board.on_told(
            Time::from_micros(12 * SECOND),
            NodeId(1),
            NodeId(2),
            &told,
            |_| true,
        );
        board.on_told(
            Time::from_micros(13 * SECOND),
            NodeId(1),
            NodeId(2),
            &[],
            |_| true,
        );
        assert!(codes(&board).is_empty(), "it held it itself");
    }

    #[test]
    fn words_of_nodes_that_nobody_knows_are_not_kept() {
        let mut third = Board::default();
        third.judge(Time::ZERO, [Warning::new(Code::DiskFull)]);
        let told = third.to_tell(Time::ZERO, NodeId(3), NodeId(1));
        assert!(!told.is_empty());
        let mut board = Board::default();
        let knows = |node| node == NodeId(2);
        board.on_told(Time::ZERO, NodeId(1), NodeId(2), &told, knows);
        board.judge(Time::ZERO, []);
        assert!(codes(&board).is_empty());
        board.on_told(Time::ZERO, NodeId(1), NodeId(2), &told, |_| true);
        board.judge(Time::ZERO, []);
        assert_eq!(codes(&board), [(Code::DiskFull, true)]);
    }

    /// Node 1 hears 2 and 3, and 2 does not hear 3.
    #[test]
    fn a_pair_that_cannot_talk_is_told_from_a_dead_node() {
        let hears = |nodes: &[u32]| nodes.iter().copied().map(NodeId).collect::<BTreeSet<_>>();
        let mut second = Board::default();
        second.judge(Time::ZERO, [silent(3)]);
        let told = second.to_tell(Time::ZERO, NodeId(2), NodeId(1));
        let mut board = Board::default();
        board.on_told(Time::ZERO, NodeId(1), NodeId(2), &told, |_| true);
        let all = hears(&[1, 2, 3]);
        let pairs =
            |board: &Board, now, hears| board.pairs(Time::from_micros(now), NodeId(1), hears);
        assert!(
            pairs(&board, 0, &all).is_empty(),
            "the others may notice soon"
        );
        board.on_told(
            Time::from_micros(SECOND),
            NodeId(1),
            NodeId(2),
            &told,
            |_| true,
        );
        assert_eq!(pairs(&board, SECOND, &all), [(NodeId(2), NodeId(3))]);
        // Nobody hears 3.
        board.judge(Time::from_micros(2 * SECOND), [silent(3)]);
        board.judge(Time::from_micros(3 * SECOND), [silent(3)]);
        board.on_told(
            Time::from_micros(3 * SECOND),
            NodeId(1),
            NodeId(2),
            &told,
            |_| true,
        );
        assert!(pairs(&board, 3 * SECOND, &hears(&[1, 2])).is_empty());
    }

    #[test]
    fn who_does_not_hear_a_node_is_told_what_it_says_by_those_that_do() {
        let mut third = Board::default();
        third.judge(Time::ZERO, [Warning::new(Code::DiskSlow), silent(1)]);
        let mut second = Board::default();
        let told = third.to_tell(Time::ZERO, NodeId(3), NodeId(2));
        second.on_told(Time::ZERO, NodeId(2), NodeId(3), &told, |_| true);
        assert!(second.to_tell(Time::ZERO, NodeId(2), NodeId(1)).is_empty());
        let mut first = Board::default();
        first.judge(Time::ZERO, [silent(3)]);
        let told = first.to_tell(Time::ZERO, NodeId(1), NodeId(2));
        second.on_told(Time::ZERO, NodeId(2), NodeId(1), &told, |_| true);
        let relayed = second.to_tell(Time::ZERO, NodeId(2), NodeId(1));
        first.on_told(Time::ZERO, NodeId(1), NodeId(2), &relayed, |_| true);
        assert!(codes(&first).contains(&(Code::DiskSlow, true)));
        // The node is dead: nobody keeps its words alive by telling them on.
        let later = Time::from_micros(2 * SECOND);
        assert!(second.to_tell(later, NodeId(2), NodeId(1)).is_empty());
    }

    #[test]
    fn a_node_is_new_if_it_came_while_somebody_looked() {
        let mut board = Board::default();
        let second = Duration::from_secs(1);
        let nodes = |count: u32| (1..=count).map(NodeId);
        board.look_at(Time::ZERO, nodes(2));
        let (one, two) = (Time::from_micros(SECOND), Time::from_micros(2 * SECOND));
        board.look_at(one, nodes(3));
        assert!(!board.is_new(one, NodeId(2), second), "it was there");
        assert!(board.is_new(one, NodeId(3), second));
        board.look_at(two, nodes(3));
        assert!(!board.is_new(two, NodeId(3), second));
        board.look_at(two, nodes(2));
        board.look_at(two, nodes(3));
        assert!(board.is_new(two, NodeId(3), second), "it came again");
    }

    #[test]
    fn a_code_of_a_newer_node_is_passed_over() {
        let mut board = Board::default();
        let mut other = Board::default();
        other.judge(Time::ZERO, [Warning::new(Code::DiskFull)]);
        let mut told = other.to_tell(Time::ZERO, NodeId(2), NodeId(1));
        told[0].code = 250;
        board.on_told(Time::ZERO, NodeId(1), NodeId(2), &told, |_| true);
        assert!(codes(&board).is_empty());
    }
}
