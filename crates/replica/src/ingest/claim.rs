//! The first claim on a log whose leader is new: its writer is on the way, and goes before others.
//!
//! ```text
//!  a new leader, a stream is open ──── writer_claim ───▶ whoever asks next takes the log over
//!      ├─ an append that continues it      opened at once
//!      ├─ mode=wait                        hears `waiting`
//!      ├─ mode=refuse                      is held, and hears `busy` if the writer comes
//!      └─ mode=takeover                    opened at once, as always
//! ```
//!
//! Without it the one that reaches the new leader first would win, and a planned move would take the log from a
//! writer that is alive. A leader that saw its own writer's connection end grants no claim.
//!
//! Units: the time counts from when this leader, able to propose, knew all that was proposed before it.

use paxos::mutation::{self, Mutation};
use paxos::{Slot, StreamName, Time};

use super::Log;
use super::state::Append;
use crate::env::Env;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Claim {
    /// This replica has not proposed since its role changed.
    #[default]
    Unseen,
    /// An opening below this slot may be the writer's, and is not known chosen yet.
    Settling {
        below: Slot,
    },
    Held {
        stream: StreamName,
        until: Time,
    },
    Over,
}

impl Log {
    /// Whether this append, which continues that stream, has to let the log's writer go first.
    pub(super) fn is_claimed(
        &mut self,
        env: &Env,
        append: &Append,
        continues: Option<StreamName>,
    ) -> bool {
        if !append.waits_for_claims() || mutation::is(Mutation::FirstClaimIgnored) {
            return false;
        }
        match self.look_at_claim(env) {
            Claim::Unseen | Claim::Over => false,
            Claim::Settling { .. } => continues.is_none(),
            Claim::Held { stream, .. } => {
                let state = self.core.engine.state().stream(stream);
                let before = state
                    .and_then(|state| state.continues)
                    .map(|(name, _)| name);
                continues.is_none_or(|name| name != stream && before != Some(name))
            }
        }
    }

    fn look_at_claim(&mut self, env: &Env) -> Claim {
        let engine = &self.core.engine;
        let claim = &mut self.ingest.claim;
        if *claim == Claim::Unseen {
            let below = engine.proposed_up_to();
            *claim = Claim::Settling { below };
        }
        let current = engine.state().current;
        match *claim {
            Claim::Settling { below } if below <= engine.first_unchosen() => {
                *claim = match current {
                    Some(stream) => Claim::Held {
                        stream,
                        until: env.now + env.limits.writer_claim,
                    },
                    None => Claim::Over,
                };
            }
            Claim::Held { stream, until } if until <= env.now || current != Some(stream) => {
                *claim = Claim::Over;
            }
            _ => {}
        }
        *claim
    }
}
