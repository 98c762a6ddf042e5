//! Reads that see everything chosen before they came, on any replica.
//!
//! ```text
//!  asked ─ one barrier for all that wait ─▶ passed: the output is `end` long ─▶ taken to `end` ─▶ its frames are on the shelf ─▶ snapshot
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use letters::Wish;
use paxos::Time;
use paxos::mutation::{self, Mutation};

use super::{Core, Glance, Keeping, Out};
use crate::jobs::{self, Look};

/// A read is given up after so long.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);
/// Reads that are on a lane at a time, in groups.
const LANES: usize = jobs::LOOKERS.len();

#[derive(Default)]
pub struct Looking {
    /// They came after the last barrier was asked for.
    waiting: Vec<Glance>,
    /// The barrier that was asked for, and for which.
    asked: Option<(u64, Vec<Glance>)>,
    barriers: u64,
    /// It has passed for these.
    passed: VecDeque<Passed>,
    /// They may be looked at now.
    due: Vec<Look>,
    running: usize,
    next_lane: usize,
    /// The clients who are to be told why they get no rows.
    refused: Vec<(u64, String)>,
}

struct Passed {
    end: u64,
    /// The last frame of the output as far as `end`, once it was taken so far.
    frame: Option<u64>,
    glances: Vec<Glance>,
}

impl Looking {
    pub fn ask(&mut self, glance: Glance) {
        match glance.stale {
            true => self.due.push(glance.look),
            false => self.waiting.push(glance),
        }
    }

    pub fn on_passed(&mut self, barrier: u64, end: u64) {
        let asked = self
            .asked
            .take_if(|(asked, _)| is_of_looks(barrier) && *asked == barrier);
        if let Some((_, glances)) = asked {
            self.passed.push_back(Passed {
                end,
                frame: None,
                glances,
            });
        }
    }

    /// Whether somebody waits until frames are applied.
    pub fn awaits_frames(&self) -> bool {
        !self.passed.is_empty()
    }

    pub fn on_looked(&mut self) {
        self.running -= 1;
    }

    /// The shelf is given up: nobody tells of the looks that are under way there.
    pub fn forget_running(&mut self) {
        self.running = 0;
    }

    pub fn settle(&mut self, now: Time, core: &Core, keeping: &Keeping, out: &mut Out) {
        self.give_up(now, keeping);
        if !core.is_whole() {
            return self.refuse_stale(core);
        }
        if self.asked.is_none() && !self.waiting.is_empty() && core.shelf.is_some() {
            self.barriers += 1;
            let barrier = number_of_looks(self.barriers);
            let glances = std::mem::take(&mut self.waiting);
            if mutation::is(Mutation::HostReadsWithoutBarrier) {
                self.due
                    .extend(glances.into_iter().map(|glance| glance.look));
            } else {
                self.asked = Some((barrier, glances));
                core.wish(out, Wish::Barrier { barrier });
            }
        }
        let decoded = core.intake.decoded().frame;
        for passed in &mut self.passed {
            if passed.frame.is_none() && core.intake.taken() >= passed.end {
                passed.frame = Some(decoded);
            }
        }
        let applied = match mutation::is(Mutation::HostReadsBeforeApplied) {
            true => u64::MAX,
            false => keeping.applied().frame,
        };
        while let Some(passed) = self
            .passed
            .pop_front_if(|passed| passed.frame.is_some_and(|frame| frame <= applied))
        {
            let looks = passed.glances.into_iter().map(|glance| glance.look);
            self.due.extend(looks);
        }
        let Some(shelf) = &core.shelf else {
            return;
        };
        if !self.due.is_empty() && self.running < LANES {
            self.running += 1;
            self.next_lane = (self.next_lane + 1) % LANES;
            let looks = std::mem::take(&mut self.due);
            core.run(out, jobs::LOOKERS[self.next_lane], jobs::look(shelf, looks));
        }
    }

    /// There is nothing to be seen here now. Those that wait for a barrier wait on, for a while.
    fn refuse_stale(&mut self, core: &Core) {
        let why = match (core.is_auxiliary, &core.copying) {
            (true, _) => "this node is an auxiliary of the log, and holds no state: ask another",
            (_, Some(_)) => "the state is being copied to this node: ask another",
            (_, None) => return,
        };
        for look in self.due.drain(..) {
            let client = look.not(why);
            self.refused
                .extend(client.map(|client| (client, why.to_owned())));
        }
        if core.is_auxiliary {
            self.end(why);
        }
    }

    fn give_up(&mut self, now: Time, keeping: &Keeping) {
        let passed = self.passed.iter_mut().map(|passed| &mut passed.glances);
        let asked = self.asked.iter_mut().map(|(_, glances)| glances);
        for glances in passed.chain(asked).chain([&mut self.waiting]) {
            for old in glances.extract_if(.., |glance| now >= glance.since + GIVE_UP_AFTER) {
                let why = "nobody could say within 5 s what is chosen by now: more than half of the log's members must run and reach each other";
                let disk = keeping.trouble().map(|disk| {
                    format!("this node's state is behind, and its disk takes no more: {disk}")
                });
                let why = disk.unwrap_or_else(|| why.to_owned());
                let client = old.look.not(&why);
                self.refused.extend(client.map(|client| (client, why)));
            }
        }
        if self.asked.as_ref().is_some_and(|(_, left)| left.is_empty()) {
            self.asked = None;
        }
    }

    /// Tells all that wait that nothing comes.
    pub fn end(&mut self, why: &str) {
        let passed = self.passed.drain(..).flat_map(|passed| passed.glances);
        let asked = self
            .asked
            .take()
            .into_iter()
            .flat_map(|(_, glances)| glances);
        let glances = passed.chain(asked).chain(self.waiting.drain(..));
        let looks = glances.map(|glance| glance.look).chain(self.due.drain(..));
        for look in looks.collect::<Vec<_>>() {
            let client = look.not(why);
            self.refused
                .extend(client.map(|client| (client, why.to_owned())));
        }
    }

    /// Takes the clients who get no rows, and why.
    pub fn take_refused(&mut self) -> Vec<(u64, String)> {
        std::mem::take(&mut self.refused)
    }

    pub fn deadline(&self) -> Option<Time> {
        let passed = self.passed.iter().flat_map(|passed| &passed.glances);
        let asked = self.asked.iter().flat_map(|(_, glances)| glances);
        let all = passed.chain(asked).chain(&self.waiting);
        all.map(|glance| glance.since + GIVE_UP_AFTER).min()
    }
}

/// Barriers of commands and of looks are told apart by their last bit.
pub(super) fn number_of_commands(count: u64) -> u64 {
    count << 1
}

fn number_of_looks(count: u64) -> u64 {
    count << 1 | 1
}

fn is_of_looks(barrier: u64) -> bool {
    barrier & 1 == 1
}
