//! Slots that come to a group: its leader asks the group that has them, page by page, and then change by change.
//!
//! ```text
//!  Leave ─▶ Rows … ─▶ Tail … ─ little is left ─▶ Freeze, with the last of it ─▶ owned
//!    a newer wish, or the source knows nothing of it any more: Release ─▶ dropped, and perhaps begun anew
//! ```

use std::time::Duration;

use ::slots::Map;
use formats::LogId;
use ops::Time;
use paxos::mutation::{self, Mutation};

use super::standing::{PIECE_MAX, Wanted};
use super::words::{Frozen, Held, Incoming, Piece, Span, Step, Told, Word, encode};
use super::{AGAIN_AFTER, Led, Moving, Round, Whose};

/// How slots come beside clients, and where there are none.
struct Gait {
    /// The pieces that come to a group at a time, and the slots of each.
    pieces: usize,
    slots: u16,
    /// A page is about so long: what stands behind it in the log waits for no more.
    page_bytes: u64,
    /// A step is followed by a rest of so many times as long.
    rests: u32,
}

const BESIDE_CLIENTS: Gait = Gait {
    pieces: 1,
    slots: 64,
    page_bytes: 64 << 10,
    rests: 8,
};
const AT_REST: Gait = Gait {
    pieces: 8,
    slots: PIECE_MAX,
    page_bytes: 512 << 10,
    rests: 0,
};
const REST_MAX: Duration = Duration::from_millis(250);
const FIRST_PAGE_ROWS: u32 = 64;
const PAGE_ROWS_MAX: u32 = 2_048;
/// After so many pages the changes since are taken: the list of them is short, however long a copy takes.
const PAGES_PER_TAIL: u32 = 16;
/// With fewer changes than that the slots are frozen, …
const FEW_CHANGES: usize = 64;
/// … or after so many batches of them: there may never be fewer.
const TAILS_MAX: u32 = 8;

/// What the leader does with a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The source is to note changes.
    Leave,
    Rows,
    Tail {
        batches: u32,
    },
    Freeze,
    /// The source is to forget it.
    Release,
    Drop,
}

pub struct In {
    pub piece: Piece,
    pub from: u32,
    copy: Option<Incoming>,
    phase: Phase,
    /// `None`: a question, or a step of its own, is under way; and the number of that.
    at: Option<Time>,
    number: u64,
    /// It is frozen for this group: it comes, whatever is wanted since.
    is_bound: bool,
    rows_max: u32,
    /// The pages since changes were asked for.
    pages: u32,
    /// When the last page was asked for.
    asked_at: Time,
    /// The step that is under way, and what it comes to.
    becomes: Option<Becomes>,
}

/// What a step of the own group comes to.
enum Becomes {
    Copy(Box<Incoming>, Phase),
    Owned,
    Dropped,
}

impl In {
    fn new(wanted: Wanted) -> In {
        In {
            piece: wanted.piece,
            from: wanted.from,
            copy: None,
            phase: Phase::Leave,
            at: Some(Time::ZERO),
            number: 0,
            is_bound: false,
            rows_max: FIRST_PAGE_ROWS,
            pages: 0,
            asked_at: Time::ZERO,
            becomes: None,
        }
    }

    /// A copy that stands in the log.
    pub fn of(copy: Incoming) -> In {
        let phase = match copy.is_read {
            true => Phase::Tail { batches: 0 },
            false => Phase::Rows,
        };
        let (piece, from) = (copy.piece, copy.from);
        In {
            copy: Some(copy),
            phase,
            ..In::new(Wanted { piece, from })
        }
    }

    /// Whether this is the number of what is under way.
    fn awaits(&self, number: u64) -> bool {
        self.at.is_none() && self.number == number
    }

    pub fn is_idle(&self) -> bool {
        self.at.is_some()
    }

    /// A step before the changes are caught up with waits for the end of a rest.
    pub fn deadline(&self, rests_until: Time) -> Option<Time> {
        let rests = matches!(self.phase, Phase::Leave | Phase::Rows);
        self.at.map(|at| match rests {
            true => at.max(rests_until),
            false => at,
        })
    }

    pub fn bytes(&self) -> u64 {
        self.copy.as_ref().map_or(0, |copy| copy.bytes)
    }

    /// The next question to the source, or a step of the own group.
    fn next(&self, log: u32) -> Option<Step> {
        let (piece, to) = (self.piece, log);
        if let Phase::Leave = self.phase {
            let founds = Vec::new();
            return Some(Step::Leave { piece, to, founds });
        }
        let copy = self.copy.as_ref()?;
        let changes = copy.changes;
        Some(match self.phase {
            Phase::Rows => Step::Rows {
                piece,
                to,
                changes,
                after: copy.after.clone(),
                rows_max: self.rows_max,
            },
            Phase::Tail { .. } => Step::Tail {
                piece,
                to,
                changes,
                from: copy.tail,
            },
            Phase::Freeze => Step::Freeze {
                piece,
                to,
                changes,
                from: copy.tail,
            },
            Phase::Release => Step::Release { piece, to, changes },
            Phase::Leave | Phase::Drop => return None,
        })
    }
}

fn is_wanted(map: &Map, log: u32, piece: Piece) -> bool {
    piece.span.slots().all(|slot| {
        let wanted = map.wanted_at(slot);
        wanted.is_some_and(|wanted| (wanted.group, wanted.since) == (log, piece.wish))
    })
}

impl Moving {
    pub(super) fn look_in(&mut self, log: u32, map: &Map, round: &mut Round<'_>) {
        let now = round.now;
        let Some(led) = self.led.get_mut(&log) else {
            return;
        };
        let gait = led.gait(round.is_loaded);
        let room = gait.pieces.saturating_sub(led.incoming.len());
        if room > 0 {
            let spans: Vec<Span> = led.incoming.values().map(|copy| copy.piece.span).collect();
            // ‡ Of two pieces with one slot each would end what the other began.
            let is_free =
                |wanted: &&Wanted| !spans.iter().any(|span| span.meets(wanted.piece.span));
            for wanted in led.standing.wanted().iter().filter(is_free).take(room) {
                let mut wanted = *wanted;
                let span = &mut wanted.piece.span;
                span.last = span.last.min(span.first + (gait.slots - 1));
                led.incoming.insert(span.first, In::new(wanted));
            }
        }
        // What was only asked for, and is not wanted any more, is nobody's.
        led.incoming.retain(|_, incoming| {
            let is_asked_only = incoming.copy.is_none() && incoming.at.is_some();
            !is_asked_only || is_wanted(map, log, incoming.piece)
        });
        let mut due = Vec::new();
        for (first, incoming) in &mut led.incoming {
            let goes_on = matches!(incoming.phase, Phase::Rows | Phase::Tail { .. });
            let is_over = !incoming.is_bound && !is_wanted(map, log, incoming.piece);
            if goes_on && is_over && incoming.at.is_some() {
                incoming.phase = Phase::Release;
            }
            let is_due = incoming
                .deadline(led.rests_until)
                .is_some_and(|at| at <= now);
            if is_due {
                incoming.at = None;
                incoming.asked_at = now;
                due.extend(incoming.next(log).map(|step| (*first, incoming.from, step)));
            }
        }
        for (first, from, step) in due {
            tracing::debug!(log, from, first, step = step.name(), "asks for slots");
            let number = self.await_in(log, first);
            self.ask(log, from, Whose::In(first, number), step, round);
        }
    }

    /// A number for what the piece awaits now.
    fn await_in(&mut self, log: u32, first: u16) -> u64 {
        let number = self.next_number();
        let led = self.led.get_mut(&log);
        if let Some(incoming) = led.and_then(|led| led.incoming.get_mut(&first)) {
            incoming.number = number;
        }
        number
    }

    /// The source's answer.
    pub(super) fn on_source_told(
        &mut self,
        log: u32,
        (first, number): (u16, u64),
        told: Told,
        round: &mut Round<'_>,
    ) {
        let now = round.now;
        let Some(led) = self.led.get_mut(&log) else {
            return;
        };
        led.look_at = now;
        let incoming = led.incoming.get_mut(&first);
        let Some(incoming) = incoming.filter(|incoming| incoming.awaits(number)) else {
            return;
        };
        let piece = incoming.piece;
        tracing::debug!(log, first, phase = ?incoming.phase, told = told.name(), "was told of slots");
        let (phase, copy) = (incoming.phase, incoming.copy.clone());
        let step = match (phase, told, copy) {
            (Phase::Leave, Told::Leaving { changes }, _) => {
                let from = incoming.from;
                let begun = Incoming {
                    piece,
                    from,
                    changes,
                    after: None,
                    is_read: false,
                    tail: 0,
                    bytes: 0,
                };
                incoming.becomes = Some(Becomes::Copy(Box::new(begun), Phase::Rows));
                (
                    Step::Come {
                        piece,
                        from,
                        changes,
                    },
                    None,
                )
            }
            // What is to be asked, and whom, follows from the map anew.
            (Phase::Leave, _, _) => {
                led.incoming.remove(&first);
                led.look_at = now + AGAIN_AFTER;
                return;
            }
            (
                Phase::Rows,
                Told::Rows {
                    rows,
                    last,
                    is_last,
                    is_loaded,
                },
                Some(copy),
            ) => {
                led.is_source_loaded = is_loaded;
                let page_bytes = led.gait(round.is_loaded).page_bytes;
                let incoming = led.incoming.get_mut(&first);
                let Some(incoming) = incoming else {
                    return;
                };
                let bytes = rows
                    .iter()
                    .map(|row| (row.rest.len() + row.value.len()) as u64);
                let bytes: u64 = bytes.sum();
                let average = bytes / (rows.len() as u64).max(1);
                let fit = (page_bytes / average.max(1)).clamp(16, u64::from(PAGE_ROWS_MAX));
                incoming.rows_max = fit as u32;
                incoming.pages += 1;
                self.taken_bytes += bytes;
                let taken = Incoming {
                    after: last.clone(),
                    is_read: is_last,
                    bytes: copy.bytes + bytes,
                    ..copy.clone()
                };
                let is_time = incoming.pages >= PAGES_PER_TAIL;
                let phase = match is_last || is_time {
                    true => Phase::Tail { batches: 0 },
                    false => Phase::Rows,
                };
                incoming.becomes = Some(Becomes::Copy(Box::new(taken), phase));
                let after = copy.after;
                (
                    Step::TakeRows {
                        piece,
                        after,
                        rows,
                        last,
                        is_last,
                    },
                    None,
                )
            }
            (
                Phase::Tail { .. } | Phase::Freeze,
                Told::Tail {
                    tail,
                    next,
                    is_all,
                    frozen,
                },
                Some(copy),
            ) => {
                let from = copy.tail;
                let batches = match phase {
                    Phase::Tail { batches } => batches,
                    _ => 0,
                };
                let frozen = match mutation::is(Mutation::OwnedBeforeFrozen) {
                    true => frozen.or(Some(Frozen {
                        time_ms: 0,
                        used: piece.span.slots().map(|slot| (slot, true)).collect(),
                    })),
                    false => frozen,
                };
                match frozen {
                    Some(frozen)
                        if copy.is_read && is_all || mutation::is(Mutation::OwnedWithoutTail) =>
                    {
                        let tail = match mutation::is(Mutation::OwnedWithoutTail) {
                            true => Vec::new(),
                            false => tail,
                        };
                        let time_ms = match mutation::is(Mutation::TimeLeftBehind) {
                            true => 0,
                            false => frozen.time_ms,
                        };
                        incoming.becomes = Some(Becomes::Owned);
                        let used = frozen.used;
                        (
                            Step::Own {
                                piece,
                                from,
                                tail,
                                used,
                            },
                            Some(time_ms),
                        )
                    }
                    _ => {
                        let is_enough = tail.len() < FEW_CHANGES || batches + 1 >= TAILS_MAX;
                        incoming.pages = 0;
                        let phase = match (is_all, copy.is_read) {
                            (true, false) => Phase::Rows,
                            (true, true) if is_enough => Phase::Freeze,
                            _ => Phase::Tail {
                                batches: batches + 1,
                            },
                        };
                        let taken = Incoming { tail: next, ..copy };
                        incoming.becomes = Some(Becomes::Copy(Box::new(taken), phase));
                        (
                            Step::TakeTail {
                                piece,
                                from,
                                tail,
                                next,
                            },
                            None,
                        )
                    }
                }
            }
            // The source knows nothing of it any more, or it is not wanted.
            (Phase::Rows | Phase::Tail { .. } | Phase::Freeze, Told::Superseded, _) => {
                incoming.phase = Phase::Release;
                incoming.at = Some(now);
                return;
            }
            (Phase::Release, Told::Done, _) => {
                incoming.phase = Phase::Drop;
                incoming.becomes = Some(Becomes::Dropped);
                (Step::Drop { piece }, None)
            }
            // It is frozen for this group: it comes, and goes on from here.
            (Phase::Release, Told::Elsewhere { group }, _) if group == log => {
                incoming.phase = Phase::Tail { batches: 0 };
                incoming.is_bound = true;
                incoming.at = Some(now);
                return;
            }
            _ => {
                incoming.at = Some(now + AGAIN_AFTER);
                return;
            }
        };
        let (step, not_before) = step;
        let number = self.await_in(log, first);
        self.step(log, Whose::In(first, number), &step, not_before, round);
    }

    /// The own group has taken a step.
    pub(super) fn on_own_step(
        &mut self,
        log: u32,
        (first, number): (u16, u64),
        told: Told,
        round: &mut Round<'_>,
    ) {
        let now = round.now;
        let Some(led) = self.led.get_mut(&log) else {
            return;
        };
        let rests = led.gait(round.is_loaded).rests;
        let Some(incoming) = led.incoming.get_mut(&first) else {
            return;
        };
        if !incoming.awaits(number) {
            return;
        }
        tracing::debug!(log, first, phase = ?incoming.phase, told = told.name(), "took a step with slots");
        let becomes = incoming.becomes.take();
        let (piece, from) = (incoming.piece, incoming.from);
        let took = now - incoming.asked_at;
        led.rests_until = now + (took * rests).min(REST_MAX);
        match (told, becomes) {
            (Told::Done, Some(Becomes::Copy(copy, phase))) => {
                if incoming.copy.is_none() {
                    let wish = piece.wish;
                    led.standing.set(piece.span, Held::Coming { wish }, None);
                }
                incoming.copy = Some(*copy);
                incoming.phase = phase;
                incoming.at = Some(now);
            }
            (Told::Done, Some(Becomes::Owned)) => {
                led.incoming.remove(&first);
                led.standing.set(piece.span, Held::Owned, Some(piece.wish));
                led.serves_at = now;
                self.owned_slots += piece.span.slots().count() as u64;
                let number = self.next_number();
                let look = encode(&Word::Look);
                round.host.ask_group(LogId(from), number, look);
            }
            (Told::Done, Some(Becomes::Dropped)) => {
                led.incoming.remove(&first);
                led.standing.set(piece.span, Held::Gone, None);
            }
            // ‡ What stands in the log is another thing than was thought here.
            _ => led.read_again(now + AGAIN_AFTER),
        }
    }
}

impl Led {
    fn gait(&self, is_loaded: bool) -> Gait {
        match is_loaded || self.is_source_loaded {
            true => BESIDE_CLIENTS,
            false => AT_REST,
        }
    }
}
