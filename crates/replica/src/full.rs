//! A replica whose disk is almost full. Where the log can do without it, it stands back: it is sent no more bytes,
//! does not stand for election, and hands over if it leads. The others go on, and it is filled once there is space.
//!
//! ```text
//!   the members that have room are ── a quorum ─────▶ the full ones are left behind, and lead nothing
//!                                  └─ no quorum ────▶ appends are refused (`full`); the reserve takes what is
//!                                                     under way, and the trims that free space
//! ```
//!
//! Each node judges its own disk and says how it stands: its reserve in its greeting, its free bytes in every
//! heartbeat. A word that is late costs some of the reserve and nothing else.

use std::time::Duration;

use paxos::{Input, NodeId, Proposal, Time, Value};

use crate::env::Env;
use crate::lent::Core;

const WARN_EVERY: Duration = Duration::from_secs(10);
/// The time until the next attempt to hand over.
const HAND_OVER_AGAIN_AFTER: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(crate) struct Full {
    warned_at: Option<Time>,
    tried_at: Option<Time>,
}

impl Full {
    /// Declines clients' bytes as an auxiliary, to keep the reserve: promises, states and other logs need it. An
    /// active member takes what it is sent: its leader sends it nothing that others can take, and where this
    /// replica hears a member that the leader does not hear, the leader knows better.
    pub fn declines(&mut self, core: &mut Core, env: &Env, proposal: &Proposal) -> bool {
        let content = matches!(proposal.value, Value::Content { .. });
        if !content || core.uses_reserve || !core.engine.is_auxiliary() || !env.is_full() {
            return false;
        }
        if self.warned_at.is_none_or(|at| env.now > at + WARN_EVERY) {
            self.warned_at = Some(env.now);
            tracing::warn!(
                log = core.id.0,
                name = core.name,
                free_bytes = env.room.free_bytes,
                reserve = env.limits.disk_reserve_bytes,
                "this auxiliary's disk is almost full: it takes no bytes until there is space; bring the active nodes back or free space"
            );
        }
        core.counts.proposals_declined += 1;
        true
    }

    /// Has a leader whose disk is almost full hand over to the one with room that lacks least.
    pub fn hand_over(&mut self, core: &mut Core, env: &Env) {
        if !env.is_full() || !core.can_propose() || core.engine.is_abdicating() {
            return;
        }
        let waits = self.tried_at.map(|at| at + HAND_OVER_AGAIN_AFTER);
        if waits.is_some_and(|until| env.now < until) || !core.stands_back(env) {
            return;
        }
        if let Some(to) = successor(core, env) {
            self.tried_at = Some(env.now);
            core.input(env, Input::Abdicate { to: Some(to) });
        }
    }
}

fn successor(core: &Core, env: &Env) -> Option<NodeId> {
    let configuration = &core.engine.state().configuration;
    let may = |node: &&NodeId| {
        let member = configuration.member(**node);
        member.is_some_and(|member| !member.auxiliary) && !env.room.full_peers.contains(*node)
    };
    let lag = |node: &NodeId| {
        let accepted = core.engine.peer_accepted_up_to(*node)?;
        let lag = core.engine.proposed_up_to().0.saturating_sub(accepted.0);
        let lag = lag.max(core.engine.peer_missing_bytes(*node)?);
        (lag <= env.limits.unchosen_bytes_max / 4).then_some((lag, *node))
    };
    let able = core.alive.iter().filter(may).filter_map(lag);
    able.min().map(|(_, node)| node)
}
