//! One other node: the way to it, its liveness, its word of itself, and what it was told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use formats::LogId;
use formats::frame::WishTold;
use formats::version::{self, Speaks};
use paxos::{PromisedTerm, Time};
use replica::Limits;
use wire::Standing;

use super::admission::{Admission, SaidOfItself};
use super::way::Way;

pub struct Peer {
    pub way: Way,
    pub admission: Admission,
    pub pulse: Pulse,
    pub said: Said,
    pub told: ToldToIt,
}

impl Peer {
    pub fn new() -> Peer {
        Peer {
            way: Way::new(),
            admission: Admission::new(),
            pulse: Pulse::default(),
            said: Said::new(),
            told: ToldToIt::default(),
        }
    }

    pub fn is_alive(&self) -> bool {
        self.pulse.alive
    }

    /// ‡ Whether the disk that speaks on its control connection has a key, and proved itself by it before it was heard.
    pub fn is_proven(&self) -> bool {
        self.admission.incoming().is_some() && self.admission.proof().is_some()
    }

    /// Whether it is connected, and was heard a moment ago.
    pub fn is_here(&self, now: Time, limits: &Limits) -> bool {
        let is_heard = now < self.pulse.heard_at + 4 * limits.heartbeat_interval;
        self.admission.incoming().is_some() && is_heard
    }
}

/// Whether it is alive.
///
/// ```text
/// alive  =  heard within `peer_timeout`  and  its heartbeats answer ours within `peer_timeout`
/// ```
#[derive(Default)]
pub struct Pulse {
    alive: bool,
    heard_at: Time,
    answered_at: Time,
    /// The time of its last heartbeat, of which nothing is forgiven.
    spoke_at: Time,
    /// The greatest round heard from it, which our heartbeats answer.
    heard_round: u64,
    answered_round: u64,
}

impl Pulse {
    /// Notes a heartbeat. `said`: our last round. An answer to a later one was meant for an earlier process
    /// of this node.
    pub fn on_heartbeat(&mut self, now: Time, round: u64, answers: u64, said: u64) {
        self.heard_at = now;
        self.spoke_at = now;
        self.heard_round = self.heard_round.max(round);
        if answers > self.answered_round && answers <= said {
            self.answered_round = answers;
            self.answered_at = now;
        }
    }

    /// Notes a new control connection: perhaps of a new process, whose rounds begin again.
    pub fn on_greeted(&mut self) {
        self.heard_round = 0;
    }

    /// The round that our next heartbeat answers.
    pub fn answers(&self) -> u64 {
        self.heard_round
    }

    pub fn heard_at(&self) -> Option<Time> {
        Some(self.heard_at).filter(|at| *at > Time::ZERO)
    }

    /// The time at which it was heard last, however long this process stood still since.
    pub fn spoke_at(&self) -> Option<Time> {
        Some(self.spoke_at).filter(|at| *at > Time::ZERO)
    }

    /// Whether it is alive, if that changed. Signs of life before `since` are too old.
    pub fn judge(&mut self, since: Time) -> Option<bool> {
        let recent = |at: Time| at != Time::ZERO && at >= since;
        let alive = recent(self.heard_at) && recent(self.answered_at);
        let before = std::mem::replace(&mut self.alive, alive);
        (alive != before).then_some(alive)
    }

    /// The earlier of its signs of life: from then on it is silent, unless it gives others.
    pub fn lived_at(&self) -> Time {
        self.heard_at.min(self.answered_at)
    }

    /// Forgives silence of this length, which says nothing about the peer.
    pub fn forgive(&mut self, by: Duration) {
        for at in [&mut self.heard_at, &mut self.answered_at] {
            if *at != Time::ZERO {
                *at += by;
            }
        }
    }

    /// Lets the peer fall silent soon, unless it is heard before.
    pub fn shorten(&mut self, now: Time, limits: &Limits) {
        if self.alive {
            let soon = now + limits.peer_reconnect_grace - limits.peer_timeout;
            self.heard_at = self.heard_at.min(soon).max(Time::from_micros(1));
        }
    }
}

/// A peer's word of itself.
pub struct Said {
    /// The address by its last greeting, if the directory knows its disk for its own.
    address: Option<String>,
    /// The address at which it said that it can be dialled, while the directory did not say which disk it has.
    unproven_address: Option<String>,
    /// The standing by its last greeting.
    standing: Option<Standing>,
    /// The versions that it speaks, by its last greeting.
    speaks: Option<Speaks>,
    /// The version in which its disk is written, at least: by its heartbeats.
    disk_version: u8,
    free_bytes: u64,
    /// The reserve of its disk, by its last greeting.
    reserve_bytes: Option<u64>,
    /// Logs of which it lacks bytes, by its last heartbeat.
    lacks: BTreeSet<LogId>,
    /// Logs whose replica there stopped, and when this was heard. It starts no more before its node does.
    stopped: BTreeMap<LogId, Time>,
    /// The groups of keys that it leads and of which this node has no replica, and since when it says so.
    leads: BTreeMap<LogId, Time>,
}

impl Said {
    fn new() -> Said {
        Said {
            address: None,
            unproven_address: None,
            standing: None,
            speaks: None,
            disk_version: version::FIRST,
            free_bytes: u64::MAX,
            reserve_bytes: None,
            lacks: BTreeSet::new(),
            stopped: BTreeMap::new(),
            leads: BTreeMap::new(),
        }
    }

    pub fn on_greeting(&mut self, said: SaidOfItself) {
        self.standing = Some(said.standing);
        self.speaks = said.speaks.or(self.speaks);
        self.reserve_bytes = said.reserve_bytes.or(self.reserve_bytes);
        (self.address, self.unproven_address) = match said.is_listed {
            true => (Some(said.address), None),
            false => (None, Some(said.address)),
        };
    }

    pub fn on_heartbeat(
        &mut self,
        disk_version: u8,
        free_bytes: u64,
        lacks: impl Iterator<Item = LogId>,
    ) {
        self.disk_version = self.disk_version.max(disk_version);
        self.free_bytes = free_bytes;
        self.lacks.clear();
        self.lacks.extend(lacks);
    }

    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// Whether it gave an address, and nothing was known of its disk.
    pub fn is_unproven(&self) -> bool {
        self.unproven_address.is_some()
    }

    /// Takes that address for its word now that the directory says that the disk is its own. The leader of
    /// log 0 has it agreed from there: a greeting that came before the directory was read counts as one after.
    pub fn on_proven(&mut self) -> Option<String> {
        self.address = self.unproven_address.take();
        self.address.clone()
    }

    /// Drops that address, which another disk gave.
    pub fn on_disproven(&mut self) {
        self.unproven_address = None;
    }

    pub fn standing(&self) -> Option<&Standing> {
        self.standing.as_ref()
    }

    pub fn speaks(&self) -> Option<Speaks> {
        self.speaks
    }

    pub fn disk_version(&self) -> u8 {
        self.disk_version
    }

    /// The free bytes of its disk; `u64::MAX` until it said how many.
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// The free bytes below which its disk takes no clients' bytes; none if it did not say.
    pub fn reserve_bytes(&self) -> Option<u64> {
        self.reserve_bytes
    }

    /// Notes that a replica of it stopped. False if that was known.
    pub fn on_stopped(&mut self, now: Time, log: LogId) -> bool {
        let is_news = !self.stopped.contains_key(&log);
        self.stopped.entry(log).or_insert(now);
        is_news
    }

    /// Forgets that: it greets, perhaps as a new process, and says it again if it is so.
    pub fn take_stopped(&mut self) -> BTreeMap<LogId, Time> {
        std::mem::take(&mut self.stopped)
    }

    /// Since when its replica of the log is known to have stopped.
    pub fn stopped_at(&self, log: LogId) -> Option<Time> {
        self.stopped.get(&log).copied()
    }

    pub fn on_leads(&mut self, now: Time, groups: impl Iterator<Item = LogId>) {
        let before = std::mem::take(&mut self.leads);
        let since = |group: &LogId| before.get(group).copied().unwrap_or(now);
        self.leads = groups.map(|group| (group, since(&group))).collect();
    }

    /// Since when it says that it leads that group of keys.
    pub fn leads_since(&self, group: LogId) -> Option<Time> {
        self.leads.get(&group).copied()
    }

    pub fn lacks(&self) -> &BTreeSet<LogId> {
        &self.lacks
    }
}

/// The last words and questions to it on our connection.
#[derive(Default)]
pub struct ToldToIt {
    /// Logs about which it sent its leader status since our last heartbeat.
    status_wanted: BTreeSet<LogId>,
    promises: BTreeMap<LogId, PromisedTerm>,
    /// The wishes of logs that it, leading the directory, was told.
    wishes: BTreeMap<LogId, WishTold>,
    leads: Vec<LogId>,
}

impl ToldToIt {
    pub fn want_status(&mut self, log: LogId) {
        self.status_wanted.insert(log);
    }

    /// Takes the logs that are told with this heartbeat.
    pub fn take_status_wanted(&mut self) -> BTreeSet<LogId> {
        std::mem::take(&mut self.status_wanted)
    }

    pub fn knows_promise(&self, log: LogId, promised: PromisedTerm) -> bool {
        self.promises.get(&log) == Some(&promised)
    }

    pub fn on_promise(&mut self, log: LogId, promised: PromisedTerm) {
        self.promises.insert(log, promised);
    }

    /// Notes a wish that it is told. True if it is news.
    pub fn on_wish(&mut self, now: WishTold) -> bool {
        self.wishes.insert(now.log, now) != Some(now)
    }

    /// Notes the groups of keys that it is told this node leads. True if they are news.
    pub fn on_leads(&mut self, groups: &[LogId]) -> bool {
        let is_news = self.leads != groups;
        self.leads = groups.to_vec();
        is_news
    }

    pub fn forget_wishes(&mut self) {
        self.wishes.clear();
    }

    /// Forgets what it was told: the connection is another, with perhaps another process at its end.
    pub fn forget(&mut self) {
        self.promises.clear();
        self.wishes.clear();
        self.leads.clear();
    }
}
