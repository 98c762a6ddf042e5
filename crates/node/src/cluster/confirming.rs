//! Whether this node knows the cluster's directory as it is, or only as it once was.
//!
//! ```text
//!   start, or another leader of log 0 ─▶ a read barrier of log 0 ─▶ all below it applied ─▶ confirmed
//!                     └──── a replay: it changes tables, and proposes nothing ────┘
//! ```
//!
//! ‡ A node may read a directory a year old in log 0 after a start, and acts that cannot be undone follow
//! from it. So nothing is proposed by it before a barrier, begun after the start, has passed; and an answer
//! stands behind a barrier that was begun after its request.

use formats::version::{BARRIERS, WISHES};
use paxos::mutation::{self, Mutation};
use paxos::{ReadId, Role, Time};
use replica::Env;
use std::time::Duration;
use wire::Refusal;

use super::Cluster;
use crate::directory::DIRECTORY;
use crate::greeting::still_joining;
use crate::lent::Lent;
use crate::logs::Logs;
use crate::logs::due::Due;

/// A barrier of log 0 that somebody waits for. If it fails, as leaders change, another is asked for.
#[derive(Clone, Copy, Default)]
pub struct Asked {
    barrier: Option<ReadId>,
    again_at: Time,
}

#[derive(Default)]
pub struct Confirming {
    confirmed: bool,
    /// It was so once since this start.
    before: bool,
    asked: Asked,
    /// The time since which this node follows a leader of log 0 whose program is too old to be asked.
    follows_since: Option<Time>,
}

/// The least time between two questions for a barrier that fails.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// The time after which a follower of a program without barriers takes what it has read of log 0 for current.
/// That is as much as the cluster knew before, and it lasts until the leader of log 0 is a newer program.
const OLD_LEADER_SETTLES: Duration = Duration::from_secs(2);

impl Asked {
    /// ‡ Whether all that was chosen of the directory when this was first looked at is applied here.
    pub fn has_passed(&mut self, lent: &mut Lent<'_>) -> bool {
        let log = lent.logs.directory();
        let failed = |barrier| log.is_none_or(|log| log.has_failed(barrier));
        if self.barrier.is_none_or(failed) && lent.env.now >= self.again_at {
            self.again_at = lent.env.now + ASK_AGAIN;
            self.barrier = ask_directory(lent);
        }
        let current = self.barrier.is_some_and(|barrier| {
            let log = lent.logs.directory();
            log.is_some_and(|log| log.has_passed(barrier) && log.guest_is_current())
        });
        current || mutation::is(Mutation::DirectoryAnsweredWithoutBarrier)
    }
}

fn ask_directory(lent: &mut Lent<'_>) -> Option<ReadId> {
    let log = lent.logs.get_mut(&DIRECTORY)?;
    let barrier = log.ask_barrier(lent.env).ok()?;
    lent.due.touch(DIRECTORY);
    Some(barrier)
}

/// The reason why no barrier of log 0 can be asked for now.
pub fn check_directory(logs: &Logs, env: &Env) -> Result<(), Refusal> {
    let log = logs.directory().ok_or_else(still_joining)?;
    log.check_barrier(env)
}

impl Cluster {
    /// ‡ Whether what this node has read of the directory may be acted on.
    pub fn is_confirmed(&self) -> bool {
        self.confirming.confirmed || mutation::is(Mutation::ReplayActs)
    }

    /// Confirms anew what this node knows of log 0, which has another leader.
    pub fn doubt_directory(&mut self, due: &mut Due) {
        due.awake.wake_all();
        self.confirming = Confirming {
            before: self.was_confirmed(),
            ..Confirming::default()
        };
    }

    /// Nothing that this node knows of log 0 is current any more, as after a start.
    pub fn forget_confirmation(&mut self, due: &mut Due) {
        due.awake.wake_all();
        self.confirming = Confirming::default();
    }

    /// Whether all that was chosen before this start was read, and perhaps more was chosen since.
    pub fn was_confirmed(&self) -> bool {
        self.confirming.confirmed || self.confirming.before
    }

    pub fn confirm_directory(&mut self, lent: &mut Lent<'_>) {
        if self.confirming.confirmed {
            return;
        }
        self.confirming.confirmed = self.confirming.asked.has_passed(lent);
        self.confirming.confirmed |= self.follows_an_old_leader(lent);
        if self.confirming.confirmed {
            lent.due.awake.wake_all();
        }
    }

    fn follows_an_old_leader(&mut self, lent: &Lent<'_>) -> bool {
        let Some(log) = lent.logs.directory() else {
            return false;
        };
        let old = match log.engine().role() {
            Role::Follower { leader, .. } if lent.env.version.logs < WISHES => {
                let link = lent.env.peers.links.get(&leader);
                link.is_some_and(|version| *version < BARRIERS)
            }
            _ => false,
        };
        let now = lent.env.now;
        let since = &mut self.confirming.follows_since;
        match old && log.guest_is_current() {
            true => now >= *since.get_or_insert(now) + OLD_LEADER_SETTLES,
            false => {
                *since = None;
                false
            }
        }
    }
}
