//! What other groups ask of one that is led here.

use formats::LogId;
use paxos::NodeId;

use super::outgoing::Out;
use super::standing::founded;
use super::words::{Held, Piece, Step, Told, encode};
use super::{Moving, Round, Whose};

impl Moving {
    pub(super) fn on_asked(
        &mut self,
        log: u32,
        (by, request): (NodeId, u64),
        step: Step,
        round: &mut Round<'_>,
    ) {
        let told = match &step {
            _ if !self.led.contains_key(&log) => Some(Told::NotNow),
            Step::Leave { piece, to, .. } | Step::Freeze { piece, to, .. } => {
                self.contradicts(*piece, *to, round)
            }
            Step::Rows { .. } | Step::Tail { .. } | Step::Release { .. } | Step::Owns { .. } => {
                None
            }
            // The group's own steps are nobody else's.
            _ => return,
        };
        if let Some(told) = told {
            let bytes = encode(&told);
            return round.host.tell_group(LogId(log), by, request, bytes);
        }
        let step = match step {
            Step::Leave { piece, to, .. } => Step::Leave {
                piece,
                to,
                founds: founded(round.host.map(), log, piece.span),
            },
            step => step,
        };
        let whose = Whose::Asked {
            by,
            request,
            step: Box::new(step.clone()),
        };
        self.step(log, whose, &step, None, round);
    }

    /// ‡ What this node's own map says against letting slots go: another's word is not enough.
    fn contradicts(&self, piece: Piece, to: u32, round: &Round<'_>) -> Option<Told> {
        let map = round.host.map();
        if !piece.span.is_sound() || map.version() < piece.wish {
            return Some(Told::NotNow);
        }
        let is_wanted = |slot: u16| {
            let wanted = map.wanted_at(slot);
            wanted.is_some_and(|wanted| (wanted.group, wanted.since) == (to, piece.wish))
        };
        match piece.span.slots().all(is_wanted) {
            true => None,
            false => Some(Told::Superseded),
        }
    }

    pub(super) fn on_asked_done(
        &mut self,
        log: u32,
        (by, request): (NodeId, u64),
        step: Step,
        told: Option<Told>,
        round: &mut Round<'_>,
    ) {
        // Whether it was done nobody knows, or it was not: it may be asked for again.
        let mut told = told.unwrap_or(Told::NotNow);
        if let Told::Rows { is_loaded, .. } = &mut told {
            *is_loaded = round.is_loaded;
        }
        if let Some(led) = self.led.get_mut(&log) {
            if led.is_busy {
                // Which of them was the later one stands in the log.
                led.stand_at = round.now;
            }
            match (&step, &told) {
                (Step::Leave { piece, to, .. }, Told::Leaving { changes }) => {
                    let (to, wish, changes) = (*to, piece.wish, *changes);
                    let held = Held::Leaving { to, wish, changes };
                    led.standing.set(piece.span, held, None);
                }
                (
                    Step::Freeze {
                        piece, to, changes, ..
                    },
                    Told::Tail { .. },
                ) => {
                    let (to, wish, changes) = (*to, piece.wish, *changes);
                    let held = Held::Frozen { to, wish, changes };
                    led.standing.set(piece.span, held, None);
                    let out = Out::new(*piece, to);
                    led.outgoing.entry(piece.span.first).or_insert(out);
                }
                // Which slots that concerns stands in the log.
                (Step::Release { .. }, Told::Done) => led.stand_at = round.now,
                _ => {}
            }
        }
        let bytes = encode(&told);
        round.host.tell_group(LogId(log), by, request, bytes);
    }
}
