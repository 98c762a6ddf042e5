//! The causes of warnings now, as this node sees them.

use std::collections::BTreeSet;
use std::time::Duration;

use commands::Replica;
use formats::LogId;
use paxos::{Configuration, NodeId, Role, Time};
use replica::{Env, Log};

use super::{Board, Code, Warning};
use crate::counts::{NodeCounts, micros};
use crate::directory::{DIRECTORY, Directory};
use crate::hosted::HostedLogs;
use crate::logs::Logs;
use crate::peers::{Peer, Peers};
use crate::wires::Told;

const JUDGED_EVERY: Duration = Duration::from_millis(250);
/// The wait that each log adds: ten thousand are judged every 750 ms.
const JUDGED_LATER: Duration = Duration::from_micros(50);
/// The time without a leader after which there is more to it than an election, which takes some tenths of a second.
const LEADERLESS: Duration = Duration::from_secs(1);
/// A new leader hears within this time what its voters hold.
const UNCOPIED: Duration = Duration::from_secs(1);
/// The number of changes of leader within a time that are too many.
const FLAPS: usize = 3;
const FLAPS_WITHIN: Duration = Duration::from_secs(60);
/// A process that has just started has heard nobody yet, and nobody one that has just come.
const STARTING: Duration = Duration::from_millis(1500);
/// A pair that does not hear each other is told of after this. A node that has just come back says of no node yet that it is
/// silent, and seems to hear those that are dead: it has looked around after `STARTING`, and told within half a second more.
const APART: Duration = Duration::from_secs(3);
/// A write to disk that takes longer is slow.
const SLOW_WRITE: Duration = Duration::from_millis(300);
/// The age at which chosen slots should be on every replica.
/// A node that starts opens its states within this time, and says where they stand.
const STATELESS: Duration = Duration::from_secs(10);
const SPREAD: Duration = Duration::from_secs(1);
/// The wait after which a step of a change of members is held up.
const HELD_UP: Duration = Duration::from_secs(5);
const SLOW_WITHIN: Duration = Duration::from_secs(2);
/// The nodes of a new cluster join within this time.
const GATHERING: Duration = Duration::from_secs(10);
/// The time after which a wish is unheard: a log with a leader hears of it within milliseconds.
const UNHEARD: Duration = Duration::from_secs(1);
/// A certificate that ends within this is told of.
const EXPIRES_SOON: Duration = Duration::from_secs(30 * 86_400);
/// Somebody who came in plain text is told of for so long.
const PLAIN_FOR: Duration = Duration::from_secs(600);
/// What a node that other machines reach lacks, as the amount of a warning: a sum.
pub(super) const LACKS_TLS: u64 = 1;
pub(super) const LACKS_TOKENS: u64 = 2;

/// A node as it shows itself, to be judged.
pub(crate) struct Judged<'a> {
    pub board: &'a mut Board,
    pub env: &'a Env,
    pub logs: &'a mut Logs,
    pub peers: &'a Peers,
    pub directory: &'a Replica<Directory>,
    pub hosted: &'a HostedLogs,
    pub counts: &'a NodeCounts,
    pub started_at: Time,
    /// The node no longer belongs to the cluster.
    pub is_gone: bool,
    /// The logs in which a change of members waits.
    pub waiting: BTreeSet<LogId>,
    /// The logs in which an agreed wish is not in force.
    pub unheard: BTreeSet<LogId>,
    /// Silent nodes that keep the cluster from going on to a newer version.
    pub versions_wait_for: Vec<NodeId>,
    /// The members whose names are not bound, where nodes are taken by certificates alone.
    pub unbound: BTreeSet<NodeId>,
    /// What the process around it knows.
    pub told: Told,
}

impl Judged<'_> {
    /// Judges what the node says of itself, and what it sees.
    pub fn judge(mut self) {
        let now = self.env.now;
        self.board.next_judgement = now + JUDGED_EVERY + JUDGED_LATER * self.logs.len() as u32;
        self.look_at_peers();
        self.look_at_leaders();
        self.look_at_waiting();
        self.look_at_unheard();
        let mut causes = Vec::new();
        self.membership_causes(&mut causes);
        if self.env.own.identity.node != NodeId(0) && !self.is_gone && !self.env.stopping {
            self.leader_causes(&mut causes);
            self.peer_causes(&mut causes);
            self.disk_causes(&mut causes);
            self.copies_causes(&mut causes);
            self.change_causes(&mut causes);
            self.wish_causes(&mut causes);
            if self.directory.halted().is_some() {
                let own = self.env.own.identity.node;
                let halted = Warning::new(Code::CommandsHalted).about(own);
                causes.push(halted.of(DIRECTORY));
            }
            let halted = Warning::new(Code::StateHalted).about(self.env.own.identity.node);
            let halted = self.hosted.halted().fold(halted, |halted, (log, _)| {
                // Nobody serves the logs that it leads.
                let leads = self.logs.get(&log).is_some_and(Log::is_leading);
                let halted = halted.of(log);
                halted.amount(halted.amount + u64::from(leads))
            });
            causes.extend(Some(halted).filter(|halted| halted.logs > 0));
            self.wire_causes(&mut causes);
            self.machine_causes(&mut causes);
            self.restore_causes(now, &mut causes);
        }
        let gaps = std::mem::replace(&mut self.board.seen.gaps, self.counts.gaps);
        if self.counts.gaps > gaps {
            causes.push(Warning::new(Code::ProcessPaused).amount(self.counts.gap_us));
        }
        let limit = self.env.limits.connections_max;
        if self.env.conns.count() >= limit - limit / 8 {
            causes
                .push(Warning::new(Code::ConnectionsCrowded).amount(self.env.conns.count() as u64));
        }
        self.board.judge(now, causes);
    }

    /// Who may come in, and how.
    fn wire_causes(&self, causes: &mut Vec<Warning>) {
        let own = self.env.own.identity.node;
        if let Some(first) = self.unbound.first() {
            let unbound = Warning::new(Code::NamesNotBound).about(*first);
            causes.push(unbound.amount(self.unbound.len() as u64));
        }
        let Some(now_s) = self.env.moments.calendar.second(self.env.now) else {
            return;
        };
        let told = &self.told;
        if let Some(until_s) = told.holds_until_s {
            let left = Duration::from_secs(until_s.saturating_sub(now_s));
            if left.is_zero() {
                causes.push(Warning::new(Code::CertificateExpired).about(own));
            } else if left <= EXPIRES_SOON {
                let soon = Warning::new(Code::CertificateExpires).about(own);
                causes.push(soon.amount(micros(left)));
            }
        }
        let is_recent = |at_s: u64| now_s <= at_s + PLAIN_FOR.as_secs();
        if !told.is_tls_required && told.plain_at_s.is_some_and(is_recent) {
            causes.push(Warning::new(Code::PlainConnections).about(own));
        }
        let is_plain = told.certificate.is_none();
        // With TLS beside it plain text is taken still.
        if told.open_at.is_some() && !told.is_tls_required && told.is_plain_private {
            causes.push(Warning::new(Code::PlainIsPrivate).about(own));
        }
        let lacks_tls = u64::from(is_plain && !told.is_plain_private);
        let lacks_tokens = u64::from(!self.directory.rights.switch.on);
        let lacks = lacks_tls * LACKS_TLS + lacks_tokens * LACKS_TOKENS;
        if told.open_at.is_some() && lacks > 0 {
            causes.push(Warning::new(Code::Insecure).about(own).amount(lacks));
        }
    }

    /// Logs of machines that this node leads, and has no machine for: nobody executes their commands.
    fn machine_causes(&self, causes: &mut Vec<Warning>) {
        let missing = Warning::new(Code::MachineMissing).about(self.env.own.identity.node);
        let led = self.logs.iter().filter(|(id, log)| {
            !log.kind().is_bytes()
                && **id != DIRECTORY
                && log.is_leading()
                && !self.hosted.has(**id)
        });
        let missing = led.fold(missing, |missing, (id, _)| missing.of(*id));
        causes.extend(Some(missing).filter(|missing| missing.logs > 0));
    }

    /// Logs that this node leads, and whose states a restore left half filled: nothing of them is served.
    fn restore_causes(&self, now: Time, causes: &mut Vec<Warning>) {
        let stopped = Warning::new(Code::RestoreStopped).about(self.env.own.identity.node);
        let leads = |id: &LogId| self.logs.get(id).is_some_and(Log::is_leading);
        let led = self.hosted.half_filled(now).filter(leads);
        let stopped = led.fold(stopped, |stopped, id| stopped.of(id));
        causes.extend(Some(stopped).filter(|stopped| stopped.logs > 0));
    }

    fn membership_causes(&self, causes: &mut Vec<Warning>) {
        if self.env.own.identity.node == NodeId(0) {
            causes.push(Warning::new(Code::NotJoined));
        } else if self.is_gone {
            causes.push(Warning::new(Code::Removed).about(self.env.own.identity.node));
        }
    }

    fn look_at_peers(&mut self) {
        let own = self.env.own.identity.node;
        let others = self.env.peers.addresses.keys().copied();
        let all = others.chain([own]).filter(|id| *id != NodeId(0));
        self.board.look_at(self.env.now, all);
    }

    fn look_at_leaders(&mut self) {
        let now = self.env.now;
        self.board
            .tenures
            .retain(|id, _| self.logs.contains_key(id));
        for (id, log) in self.logs.iter_mut() {
            let tenure = self.board.tenures.entry(*id).or_default();
            let leader = log.engine().leader().map(|(node, _)| node);
            if leader.is_some() && leader != tenure.leader {
                // A leader that handed over was asked to, or stops: that is no sign of trouble, however often it comes.
                let counts = log.counts();
                let handed_over = counts.handed_over + counts.stepped_down_when_asked;
                let is_planned = handed_over > tenure.handed_over;
                tenure.handed_over = handed_over;
                if tenure.leader.is_some() && !is_planned {
                    tenure.changes.push_back(now);
                }
                tenure.leader = leader;
            }
            match leader {
                Some(_) => tenure.leaderless_since = None,
                None => drop(tenure.leaderless_since.get_or_insert(now)),
            }
            match log.is_state_lost() {
                true => drop(tenure.stateless_since.get_or_insert(now)),
                false => tenure.stateless_since = None,
            }
            match log.is_leading() && !log.engine().has_copies() {
                true => drop(tenure.uncopied_since.get_or_insert(now)),
                false => tenure.uncopied_since = None,
            }
            let recent = |at: &Time| now <= *at + FLAPS_WITHIN;
            while tenure.changes.len() > FLAPS || tenure.changes.front().is_some_and(|t| !recent(t))
            {
                tenure.changes.pop_front();
            }
            let next = log.engine().first_unchosen();
            match tenure.chosen {
                Some((at, chosen)) if now >= at + SPREAD => {
                    tenure.chosen_before = chosen;
                    tenure.chosen = Some((now, next));
                }
                None => tenure.chosen = Some((now, next)),
                Some(_) => {}
            }
        }
    }

    fn leader_causes(&mut self, causes: &mut Vec<Warning>) {
        let now = self.env.now;
        let mut election = Warning::new(Code::Election);
        let mut leaderless = Warning::new(Code::NoLeader);
        let mut flapping = Warning::new(Code::LeaderFlapping);
        let mut stateless = Warning::new(Code::StateLost);
        let mut uncopied = Warning::new(Code::TooFewCopies);
        for (id, log) in self.logs.iter().filter(|(_, log)| !log.is_stopped()) {
            let Some(tenure) = self.board.tenures.get_mut(id) else {
                continue;
            };
            let before = std::mem::replace(&mut tenure.candidacies, log.counts().candidacies);
            if log.role() == Role::Candidate || log.counts().candidacies > before {
                election = election.of(*id);
            }
            if tenure
                .leaderless_since
                .is_some_and(|since| now >= since + LEADERLESS)
            {
                leaderless = leaderless.of(*id);
            }
            let since = tenure.stateless_since;
            if since.is_some_and(|since| now >= since + STATELESS) {
                stateless = stateless.of(*id);
            }
            if tenure
                .uncopied_since
                .is_some_and(|since| now >= since + UNCOPIED)
            {
                uncopied = uncopied
                    .of(*id)
                    .amount(uncopied.amount.max(log.engine().whole_copies() as u64));
            }
            // A node that lacks the state hands over whenever it leads.
            if tenure.changes.len() >= FLAPS && since.is_none() {
                flapping = flapping.of(*id);
            }
        }
        causes.extend(
            [election, leaderless, flapping, stateless, uncopied]
                .into_iter()
                .filter(|w| w.logs > 0),
        );
    }

    fn peer_causes(&mut self, causes: &mut Vec<Warning>) {
        let now = self.env.now;
        let own = self.env.own.identity.node;
        if now < self.started_at + STARTING {
            return;
        }
        let mut hears = BTreeSet::from([own]);
        for id in self.env.peers.addresses.keys() {
            let peer = self.peers.get(*id);
            match peer.is_some_and(Peer::is_alive) {
                true => drop(hears.insert(*id)),
                // One that is about to join the others.
                false if self.board.is_new(now, *id, STARTING) && !self.board.has_heard(*id) => {}
                false => causes.push(Warning::new(Code::NodeUnreachable).about(*id)),
            }
            if peer.is_some_and(|peer| peer.way.refuses_us().is_some()) {
                causes.push(Warning::new(Code::NodeRefused).about(*id));
            }
        }
        let pairs = self.board.pairs(now, own, &hears);
        self.board.apart.retain(|pair, _| pairs.contains(pair));
        for pair in pairs {
            let since = *self.board.apart.entry(pair).or_insert(now);
            if now >= since + APART {
                causes.push(
                    Warning::new(Code::PairCannotTalk)
                        .about(pair.0)
                        .with(pair.1),
                );
            }
        }
        for node in &self.versions_wait_for {
            causes.push(Warning::new(Code::VersionHeldBack).about(*node));
        }
        self.hosts_causes(&hears, causes);
    }

    /// Judges logs that live elsewhere, or whose replica here stopped, of whose weight too little is heard.
    fn hosts_causes(&self, hears: &BTreeSet<NodeId>, causes: &mut Vec<Warning>) {
        let mut down = Warning::new(Code::HostsDown);
        for id in self.directory.logs.keys() {
            let wanted = self.directory.members.wanted.get(&id.0);
            let here = self.logs.get(id);
            let Some(wanted) = wanted.filter(|_| here.is_none_or(Log::is_stopped)) else {
                continue;
            };
            let weights = wanted.weights.iter();
            let all: u64 = weights.clone().map(|(_, weight)| u64::from(*weight)).sum();
            let own = self.env.own.identity.node;
            let runs = |node: NodeId| {
                let peer = self.peers.get(node);
                hears.contains(&node)
                    && node != own
                    && peer.is_none_or(|peer| peer.said.stopped_at(*id).is_none())
            };
            let heard = weights.filter(|(node, _)| runs(NodeId(**node)));
            let heard: u64 = heard.map(|(_, weight)| u64::from(*weight)).sum();
            if 2 * heard <= all {
                down = down.of(*id);
            }
        }
        causes.extend(Some(down).filter(|w| w.logs > 0));
    }

    fn disk_causes(&mut self, causes: &mut Vec<Warning>) {
        let now = self.env.now;
        let own = self.env.own.identity.node;
        let mut slow = Warning::new(Code::DiskSlow).about(own);
        let mut stalled = Warning::new(Code::DiskStalled).about(own);
        let mut stopped = Warning::new(Code::ReplicaStopped).about(own);
        for (id, log) in self.logs.iter_mut() {
            if log.is_stopped() {
                stopped = stopped.of(*id);
                continue;
            }
            let since = log.store().oldest_write_since();
            let since = since.map(|at| at.max(self.env.moments.resumed_at));
            let waits = since.map_or(Duration::ZERO, |at| now - at);
            let took = log.take_slowest_write();
            if waits > self.env.limits.disk_stall {
                stalled = stalled
                    .of(*id)
                    .amount(stalled.amount.max(waits.as_micros() as u64));
            } else if waits.max(took) > SLOW_WRITE {
                let waits_us = waits.max(took).as_micros() as u64;
                slow = slow.of(*id).amount(slow.amount.max(waits_us));
            }
        }
        causes.extend([slow, stalled, stopped].into_iter().filter(|w| w.logs > 0));
        if self.env.room.own_is_full {
            let full = Warning::new(Code::DiskFull).about(own);
            let refusing = self.logs.iter().filter(|(_, log)| log.is_full(self.env));
            let refusing = refusing.fold(full, |full, (id, _)| full.of(*id));
            causes.push(refusing.amount(self.env.room.free_bytes));
        }
    }

    /// Whether more nodes are about to get a vote: the cluster has just begun, and was asked for more voters.
    fn gathers(&self, configuration: &Configuration) -> bool {
        let voters = configuration.members().iter().filter(|m| m.weight > 0);
        let wanted = self.directory.voters as usize;
        // How many are wanted is the first thing that the directory agrees on.
        let is_short = wanted == 0 || voters.count() < wanted;
        self.env.now < self.started_at + GATHERING && is_short
    }

    /// Judges, as the leader of each log, whether one failure more could be borne.
    fn copies_causes(&mut self, causes: &mut Vec<Warning>) {
        let now = self.env.now;
        let own = self.env.own.identity.node;
        let mut at_risk = Warning::new(Code::QuorumAtRisk);
        let mut few = Warning::new(Code::FewCopies);
        let mut differ = Warning::new(Code::ReplicasDiffer);
        let mut lacking: Vec<Warning> = Vec::new();
        let mut zones: Vec<Warning> = Vec::new();
        let mut slow: Vec<Warning> = Vec::new();
        let mut states: Vec<Warning> = Vec::new();
        for (id, log) in self.logs.iter().filter(|(_, log)| !log.is_stopped()) {
            let lost = log.lost_bytes();
            let lost: u64 = lost.iter().map(|(_, range)| range.end - range.start).sum();
            if lost > 0 {
                merge(&mut lacking, own, Code::BytesLost, *id, lost);
            }
            let is_filled_first = self.board.is_new(now, own, GATHERING);
            if log.lacks_bytes() && log.missing_bytes() > lost && !is_filled_first {
                let missing = log.missing_bytes() - lost;
                merge(&mut lacking, own, Code::BytesNotEverywhere, *id, missing);
            }
            if !log.is_leading() {
                continue;
            }
            if log.scrub_differences() > 0 {
                differ = differ
                    .of(*id)
                    .amount(differ.amount + log.scrub_differences());
            }
            for node in log.states_differ() {
                merge(&mut states, node, Code::StatesDiffer, *id, 0);
            }
            let configuration = &log.engine().state().configuration;
            let alive = |node: NodeId| node == own || log.alive().contains(&node);
            if !survives_any(configuration, |_| true) {
                few = match self.gathers(configuration) {
                    true => few,
                    false => few.of(*id),
                };
            } else if !survives_any(configuration, alive) {
                at_risk = at_risk.of(*id);
            }
            if let Some(node) = self.fatal_zone(configuration) {
                merge(&mut zones, node, Code::ZoneAtRisk, *id, 0);
            }
            for (node, lag) in self.lagging(*id, log) {
                merge(&mut lacking, node, Code::BytesNotEverywhere, *id, lag);
            }
            for (node, took) in log.pulse().slow(now, SLOW_WITHIN) {
                merge(
                    &mut slow,
                    node,
                    Code::ReplicaSlow,
                    *id,
                    took.as_micros() as u64,
                );
            }
        }
        causes.extend([at_risk, few, differ].into_iter().filter(|w| w.logs > 0));
        causes.extend(lacking.into_iter().chain(zones).chain(slow).chain(states));
    }

    /// Replicas that do not hold slots chosen a while ago, and how many bytes they lack; for a silent one, by
    /// its last word.
    fn lagging(&self, id: LogId, log: &Log) -> Vec<(NodeId, u64)> {
        let tenure = self.board.tenures.get(&id);
        let before = tenure.map_or_else(Default::default, |tenure| tenure.chosen_before);
        let next = log.engine().first_unchosen();
        let configuration = &log.engine().state().configuration;
        let mut lagging = Vec::new();
        let hosts =
            self.env.peers.addresses.keys().filter(|node| {
                self.directory.hosts(id, **node) && !configuration.is_auxiliary(**node)
            });
        // One that has just come is given what there is: it is no copy yet that anybody counted on.
        let now = self.env.now;
        for node in hosts.filter(|node| !self.board.is_new(now, **node, GATHERING)) {
            let missing = log.engine().peer_missing_bytes(*node).unwrap_or(0);
            let behind = match log.engine().peer_accepted_up_to(*node) {
                Some(accepted) if accepted < before => next.0 - accepted.0,
                // The replica may have held all before it was lost, and this leader was not there.
                None if !log.alive().contains(node) && next.0 > 0 => 1,
                _ => 0,
            };
            if missing.max(behind) > 0 {
                lagging.push((*node, missing.max(behind)));
            }
        }
        lagging
    }

    /// A member whose zone's loss would leave no quorum, if zones were declared.
    fn fatal_zone(&self, configuration: &Configuration) -> Option<NodeId> {
        let zones = &self.directory.members.zones;
        let members = configuration.members().iter().map(|member| member.node);
        let zone = |node: NodeId| zones.get(&node.0);
        let mut declared = members.filter(|node| zone(*node).is_some());
        declared.find(|node| !configuration.is_quorum(|other| zone(other) != zone(*node)))
    }

    fn look_at_waiting(&mut self) {
        let now = self.env.now;
        let waits = &self.waiting;
        self.board.waiting.retain(|id, _| waits.contains(id));
        for id in waits {
            self.board.waiting.entry(*id).or_insert(now);
        }
    }

    fn change_causes(&self, causes: &mut Vec<Warning>) {
        let now = self.env.now;
        let waiting = self.board.waiting.iter();
        let long = waiting.filter(|(_, since)| now >= **since + HELD_UP);
        let held_up = long.fold(Warning::new(Code::ChangeHeldUp), |w, (id, _)| w.of(*id));
        causes.extend(Some(held_up).filter(|w| w.logs > 0));
    }

    fn look_at_unheard(&mut self) {
        let now = self.env.now;
        let unheard = &self.unheard;
        self.board.unheard.retain(|id, _| unheard.contains(id));
        for id in unheard {
            self.board.unheard.entry(*id).or_insert(now);
        }
    }

    fn wish_causes(&self, causes: &mut Vec<Warning>) {
        let now = self.env.now;
        let unheard = self.board.unheard.iter();
        let long = unheard.filter(|(_, since)| now >= **since + UNHEARD);
        let unheard = long.fold(Warning::new(Code::NotInForce), |w, (id, _)| w.of(*id));
        causes.extend(Some(unheard).filter(|w| w.logs > 0));
    }
}

/// Whether those `within` are a quorum still without any one of them.
fn survives_any(configuration: &Configuration, within: impl Fn(NodeId) -> bool) -> bool {
    let members = configuration.members().iter().map(|member| member.node);
    let mut within_members = members.filter(|node| within(*node));
    within_members.all(|lost| configuration.is_quorum(|node| node != lost && within(node)))
}

/// Merges a warning of one log: there is one for each node, of all logs.
fn merge(warnings: &mut Vec<Warning>, about: NodeId, code: Code, log: LogId, amount: u64) {
    let position = warnings.iter().position(|warning| warning.about == about);
    let before = position.map(|at| warnings.swap_remove(at));
    let warning = before.unwrap_or(Warning::new(code).about(about)).of(log);
    let amount = match code {
        Code::BytesNotEverywhere => warning.amount.saturating_add(amount),
        _ => warning.amount.max(amount),
    };
    warnings.push(warning.amount(amount));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_survive_any_one_and_two_survive_none() {
        let of = |count: u32| Configuration::equal((1..=count).map(NodeId)).unwrap();
        assert!(survives_any(&of(3), |_| true));
        assert!(!survives_any(&of(3), |node| node != NodeId(2)));
        assert!(survives_any(&of(5), |node| node != NodeId(2)));
        assert!(!survives_any(&of(2), |_| true));
        assert!(!survives_any(&of(1), |_| true));
    }

    #[test]
    fn logs_of_one_node_make_one_warning() {
        let mut warnings = Vec::new();
        let code = Code::BytesNotEverywhere;
        for (node, log, bytes) in [(2, 1, 10), (3, 1, 5), (2, 4, 7)] {
            merge(&mut warnings, NodeId(node), code, LogId(log), bytes);
        }
        warnings.sort_by_key(|w| w.about);
        let seen: Vec<_> = warnings
            .iter()
            .map(|w| (w.log.0, w.logs, w.amount))
            .collect();
        assert_eq!(seen, [(1, 2, 17), (1, 1, 5)]);
    }
}
