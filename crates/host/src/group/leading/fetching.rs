//! Rows that commands lack: fetched together, by lanes of readers, and bounded by bytes.
//!
//! ```text
//!  execute ─ lacks rows ─▶ pending ─▶ fetching ─▶ fetched ─┬─ small ─▶ executed in the next round
//!               │                                          └─ large ─▶ one a round, behind all others
//!               └─ has pinned much already, as others have ─▶ deep: begins anew when one of these is done
//! ```
//!
//! ‡ Nothing leaves the overlay that the rows of one of them may be older than, wherever it is on this way.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use paxos::mutation::{self, Mutation};

use super::super::{Call, Core, Out};
use super::Leading;
use super::executing::Round;
use super::room::Asks;
use crate::jobs::{self, Rows};
use crate::machine::{Command, Outcome};
use crate::state::{Key, Missing, Pinned, State};

/// The commands whose rows are fetched at a time.
const FETCHING_MAX: usize = 1_024;
/// The fetches that are under way: what is missing besides waits, and is fetched together.
const FETCHES_MAX: usize = 4;
/// The keys that are fetched for calls that wait, beside those that commands lack now.
const FORESEEN_MAX: usize = 4_096;
/// A command of which so many bytes were fetched is a large one: others go first, and one of these at a time.
const LARGE_BYTES: usize = 256 << 10;
/// A large command that lacks rows still, or one that fetched so often, may pin many megabytes.
const DEEP_FROM: u32 = 2;
/// Nothing more is fetched while so many bytes wait for their commands to be executed.
const BACKLOG_BYTES_MAX: usize = 32 << 20;
/// A command that needs more rows than these at a time is refused.
const PINNED_BYTES_MAX: usize = 64 << 20;
/// A command that asks for rows so often is refused.
const ROUNDS_MAX: u32 = 1_000;

pub(super) struct Waiting {
    /// Counts calls, so that those that are put back come to their places again.
    pub number: u64,
    pub call: Call,
    /// The rows that were fetched for it, and those that are being fetched.
    pub pinned: Pinned,
    pinned_bytes: usize,
    asked: Vec<Key>,
    asked_rows: Vec<Vec<u8>>,
    /// ‡ The frame that was applied when the first of it was asked for: what was written since is overlaid.
    from: Option<u64>,
    rounds: u32,
    /// It needed many rows once.
    is_deep: bool,
    /// ‡ The same each time that it is executed: a command that looks at a place which it drew would else miss another each time.
    pub random: Option<u64>,
    /// Its answer had no room once.
    pub asks: Asks,
}

impl Waiting {
    pub fn new(number: u64, call: Call) -> Waiting {
        Waiting {
            number,
            call,
            pinned: Pinned::default(),
            pinned_bytes: 0,
            asked: Vec::new(),
            asked_rows: Vec::new(),
            from: None,
            rounds: 0,
            is_deep: false,
            random: None,
            asks: Asks::default(),
        }
    }

    /// The command is executed from its beginning, as one that needs many rows.
    fn anew(self) -> Waiting {
        Waiting {
            is_deep: true,
            random: self.random,
            asks: self.asks,
            ..Waiting::new(self.number, self.call)
        }
    }

    /// The command is executed from its beginning, with the same numbers drawn.
    pub fn later(self) -> Waiting {
        Waiting {
            is_deep: self.is_deep,
            random: self.random,
            ..Waiting::new(self.number, self.call)
        }
    }

    /// Takes of these rows the ones that it asked for, and the pages behind them.
    fn take(&mut self, rows: &Rows) {
        let mut came = false;
        for asked in self.asked.drain(..) {
            let mut next = Some(asked);
            while let Some(asked) = next.take()
                && let Some(fetched) = rows.pages.get(&asked)
            {
                came = true;
                next = asked.behind(&fetched.page);
                self.pinned.pages.insert(asked, fetched.clone());
            }
        }
        for asked in self.asked_rows.drain(..) {
            if let Some(value) = rows.rows.get(&asked) {
                came = true;
                self.pinned.rows.insert(asked, value.clone());
            }
        }
        self.pinned_bytes = self.pinned.bytes();
        // Others' rows took all the room of that fetch.
        self.rounds -= u32::from(!came);
    }
}

/// Rows that are to be fetched, and the calls that wait for them.
#[derive(Default)]
pub(super) struct Pending {
    missing: Missing,
    pub calls: Vec<Waiting>,
}

impl Leading {
    /// Executes those again whose rows came, but for large ones, and of those that need many rows as many as may go on.
    pub(super) fn go_on(&mut self, wall_ms: Option<u64>, core: &Core, round: &mut Round) {
        let fetched = std::mem::take(&mut self.fetched).into_iter();
        let (large, small): (VecDeque<Waiting>, VecDeque<Waiting>) =
            fetched.partition(|waiting| waiting.pinned_bytes >= LARGE_BYTES);
        self.fetched = large;
        let going_on = self.fetching.values().flat_map(|(_, waiting)| waiting);
        for waiting in going_on.chain(&round.pending.calls).chain(&self.fetched) {
            let bytes = waiting.pinned_bytes;
            round.deep.add(waiting.number, waiting.is_deep, bytes);
        }
        for waiting in small {
            self.execute_one(waiting, wall_ms, core, round);
        }
        while round.deep.may_begin()
            && let Some(waiting) = self.deep.pop_front()
        {
            self.execute_one(waiting, wall_ms, core, round);
        }
    }

    /// Executes one of the large ones whose rows came.
    pub(super) fn go_on_with_large(
        &mut self,
        wall_ms: Option<u64>,
        core: &Core,
        round: &mut Round,
    ) {
        if let Some(waiting) = self.fetched.pop_front() {
            round.deep.remove(waiting.is_deep, waiting.pinned_bytes);
            self.execute_one(waiting, wall_ms, core, round);
            self.goes_on = !self.fetched.is_empty();
        }
    }

    /// Whether rows may be fetched for a further command.
    pub(super) fn may_fetch(&self, round: &Round) -> bool {
        let fetching = self.fetching.values().map(|(_, waiting)| waiting.len());
        fetching.sum::<usize>() + round.pending.calls.len() < FETCHING_MAX
    }

    /// The command lacks these rows.
    pub(super) fn ask_for(&mut self, mut waiting: Waiting, missing: Missing, round: &mut Round) {
        if waiting.pinned_bytes > PINNED_BYTES_MAX {
            let why = format!(
                "the command reads more than {PINNED_BYTES_MAX} bytes of rows: do it in several"
            );
            return waiting.call.replier.reply(Outcome::Refused(why));
        }
        if waiting.rounds >= ROUNDS_MAX {
            let why = "the command asks for rows without end";
            let outcome = Outcome::Refused(why.to_owned());
            return waiting.call.replier.reply(outcome);
        }
        let pins_much = waiting.rounds >= DEEP_FROM || waiting.pinned_bytes >= LARGE_BYTES;
        let may_go_on = match waiting.is_deep {
            true => round.deep.may_go_on(waiting.number, waiting.pinned_bytes),
            false => !pins_much || round.deep.may_begin(),
        };
        if !may_go_on {
            return self.begin_later(waiting);
        }
        waiting.is_deep |= pins_much;
        let bytes = waiting.pinned_bytes;
        round.deep.add(waiting.number, waiting.is_deep, bytes);
        waiting.rounds += 1;
        waiting.from.get_or_insert(round.applied);
        let asked = missing.ranges.iter().map(|(key, _)| key.clone());
        waiting.asked = asked.collect();
        waiting.asked_rows.clone_from(&missing.keys);
        round.pending.missing.keys.extend(missing.keys);
        round.pending.missing.ranges.extend(missing.ranges);
        let rounds = &mut round.pending.missing.rounds;
        *rounds = waiting.rounds.saturating_sub(1).max(*rounds);
        round.pending.calls.push(waiting);
    }

    /// A command that needs many rows begins anew once others are done.
    fn begin_later(&mut self, waiting: Waiting) {
        let is_before = |other: &Waiting| other.number < waiting.number;
        let at = self.deep.partition_point(is_before);
        self.deep.insert(at, waiting.anew());
    }

    /// A call has to wait for one of its order: what it will read is fetched meanwhile, with the rows of that one. ‡ What comes of that is known to
    /// all, and not to this call alone: what the calls before it write is newer.
    pub(super) fn foresee(&self, waiting: &Waiting, core: &Core, round: &mut Round) {
        let keys = &mut round.pending.missing.keys;
        let Command::Plain(command) = &waiting.call.command else {
            return;
        };
        if keys.len() >= FORESEEN_MAX {
            return;
        }
        let pinned = Pinned::default();
        let mut state = State::new(&self.overlay, &pinned, 0, 0);
        let foreseen = catch_unwind(AssertUnwindSafe(|| {
            core.machine.foresee(&mut state, command)
        }));
        if foreseen.is_ok() {
            keys.extend(state.missing.keys.into_iter().take(FORESEEN_MAX));
        }
    }

    /// Fetches what is missing, if not too much is on its way already.
    pub(super) fn fetch(&mut self, applied: u64, core: &Core, out: &mut Out) {
        let backlog: usize = self.fetched.iter().map(|w| w.pinned_bytes).sum();
        if let Some(shelf) = &core.shelf
            && !self.pending.missing.is_empty()
            && self.fetching.len() < FETCHES_MAX
            && backlog < BACKLOG_BYTES_MAX
        {
            self.fetches += 1;
            let Pending { missing, calls } = std::mem::take(&mut self.pending);
            let from = calls.iter().filter_map(|waiting| waiting.from).min();
            self.fetching
                .insert(self.fetches, (from.unwrap_or(applied), calls));
            let lane = jobs::READERS[self.fetches as usize % jobs::READERS.len()];
            let work = jobs::fetch(shelf, &core.machine, self.fetches, missing);
            core.run(out, lane, work);
        }
    }

    /// Whoever asked has the rows himself. Others have them from the overlay, as long as that leaves room for what is written.
    pub fn on_fetched(&mut self, fetch: u64, rows: Rows, core: &Core) {
        let Some((_, mut waiting)) = self.fetching.remove(&fetch) else {
            return; // The reign in which it was asked for is over.
        };
        waiting.iter_mut().for_each(|waiting| waiting.take(&rows));
        let room = core.bounds.overlay_bytes_max / 2 + self.kept_bytes;
        for (key, value) in rows.rows {
            if self.overlay.bytes() >= room && !mutation::is(Mutation::LargeWaitsForItself) {
                break;
            }
            self.overlay.learn(rows.applied.frame, &key, value);
        }
        self.fetched.extend(waiting);
    }

    pub fn on_fetch_failed(&mut self, fetch: u64) {
        if self.fetching.contains_key(&fetch) {
            self.give_fetches_up();
        }
    }

    /// Commands that rows were fetched for, and those behind them, are executed again from their beginning.
    pub(super) fn give_fetches_up(&mut self) {
        let fetching = std::mem::take(&mut self.fetching).into_values();
        let fetching = fetching.flat_map(|(_, waiting)| waiting);
        let held = std::mem::take(&mut self.held).into_values();
        let held = held.flat_map(|held| held.behind);
        let fetched = std::mem::take(&mut self.fetched);
        let pending = std::mem::take(&mut self.pending).calls;
        let deep = std::mem::take(&mut self.deep);
        let all = fetching.chain(held).chain(fetched);
        let parked = std::mem::take(&mut self.parked);
        let all = all.chain(pending).chain(deep).chain(parked);
        let all = all.chain(self.roomless.take_all());
        self.again(all.map(|waiting| (waiting.number, waiting.call)));
    }

    /// The frame that was applied when the oldest read began that is under way.
    pub(super) fn read_from(&self, pending: &Pending) -> Option<u64> {
        let fetching = self.fetching.values().map(|(from, _)| *from);
        let here = self.fetched.iter().chain(&pending.calls);
        let all = fetching.chain(here.filter_map(|waiting| waiting.from));
        all.min()
    }

    /// Lets rows go that the shelf has, and no read that is under way may have missed.
    pub fn shrink(&mut self, applied: u64, kept_bytes: usize) {
        let oldest = self
            .read_from(&self.pending)
            .filter(|_| !mutation::is(Mutation::HostForgetsLaterWrites));
        let until = oldest.unwrap_or(u64::MAX).min(applied);
        self.kept_bytes = kept_bytes;
        self.overlay.shrink(until, kept_bytes);
    }
}
