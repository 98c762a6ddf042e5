//! The scrubber: bytes on the disks are read before somebody needs them, and compared.
//!
//! ```text
//! leader    next piece ─▶ read here ─▶ ask every replica ─▶ compare ─▶ next, at a bounded rate
//! replica                 read there ─▶ its digest, or that it is damaged
//! ```
//!
//! A piece is at most one MiB of a stream. Reading checks every record against its checksum, so
//! the reader finds rot: the record is given up and fetched from a peer, as for any other reader. A replica
//! that holds *other* bytes than the rest escapes its checksums; that shows when digests of a piece are
//! compared. ‡ Such a difference is read a second time, told, and nothing else is done: each side's checksums
//! are right, so nothing here says which of them was acknowledged, and a majority of replicas that agree may
//! as well all have been filled from the wrong one.
//!
//! Units:  bytes; a piece at a time per log, its reads one after the other.
//! Errors: a peer that does not answer, or does not hold the piece, is asked once more at the end of the
//!         pass; a piece that could not be compared then is counted as unchecked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use formats::Frame;
use formats::frame::{AskDigest, Examined, PIECE_BYTES_MAX, TellDigest};
use paxos::{Digest, NodeId, Slot, StreamName, StreamPosition, Time};

use crate::catch_up::CatchUp;
use crate::env::Env;
use crate::lent::{Asker, Core};

mod examine;
mod pass;
mod report;

use examine::Examination;
use pass::Pass;
pub(crate) use report::{Difference, Report};

#[derive(Default)]
pub(crate) struct Scrub {
    /// The pieces being read here, by the node that wants to know.
    examined: BTreeMap<Asker, Examination>,
    pass: Option<Pass>,
    /// The report of the last pass that came to its end while this replica led.
    last: Option<Report>,
    /// The passes begun, since this replica started.
    passes: u64,
    last_request: u64,
    /// The time when the next pass begins by itself, while this replica leads.
    due: Option<Time>,
    /// The places found damaged here, and not held again yet.
    damaged: Vec<(StreamName, u64)>,
    /// The differences of the newest pass that met them.
    differences: Vec<Difference>,
    /// The time that is owed for the bytes read for the last piece.
    owed: Duration,
}

/// The next step of a log's pass.
pub enum Progress {
    /// The pass reads, or waits for answers.
    Busy,
    /// The pass goes on later, when damaged pieces may have been repaired.
    Waits,
    Over,
}

/// The most places that are remembered until they are held again; more of them are counted only.
const DAMAGED_MAX: usize = 1024;

/// The most differences that are told one by one.
const DIFFERENCES_MAX: usize = 16;

/// The time for which pieces are looked at again until they are good, and the rest after the last one that was not.
const REPAIR_WAIT: Duration = Duration::from_secs(30);
const REST_AFTER_DAMAGE: Duration = Duration::from_millis(500);

/// The piece that is compared now.
struct Piece {
    stream: StreamName,
    bytes: Range<u64>,
    request: u64,
    /// The time when the others were asked.
    asked_at: Option<Time>,
    answers: BTreeMap<NodeId, Option<Examined>>,
    /// The number of replicas damaged when the piece was looked at before, if it was.
    again: Option<usize>,
}

impl Scrub {
    /// Begins a pass over all that is chosen by now, at so many bytes a second. A pass that somebody asked
    /// for goes on; one that runs by itself makes way.
    pub fn begin(&mut self, core: &Core, env: &Env, rate: u64, asked: bool) {
        let goes_on = |pass: &Pass| pass.report.asked || !asked;
        if self.pass.as_ref().is_some_and(goes_on) {
            return;
        }
        self.passes += 1;
        let state = core.engine.state();
        self.pass = Some(Pass::new(self.passes, state, rate, asked, env.now));
        tracing::debug!(log = core.id.0, rate, asked, "a scrub begins");
    }

    /// Whether a pass is to begin by itself. A replica that does not lead has none.
    pub fn is_due(&mut self, core: &Core, env: &Env) -> bool {
        if !core.is_leading() || env.stopping {
            self.pass = None;
            self.due = None;
            return false;
        }
        let first = env.now + env.limits.scrub_interval / 24;
        let due = *self.due.get_or_insert(first);
        env.limits.scrub_bytes_per_second > 0 && self.pass.is_none() && due <= env.now
    }

    /// Goes on with the pass. Bytes read since must be paid for first: see [`Scrub::take_debt`].
    pub fn go_on(&mut self, core: &mut Core, catch_up: &CatchUp, env: &mut Env) -> Progress {
        let Some(pass) = &mut self.pass else {
            return Progress::Over;
        };
        if pass.piece.is_some() {
            return Progress::Busy;
        }
        let state = core.engine.state();
        if env.now < pass.rest_until {
            return Progress::Waits;
        }
        if let Some((stream, bytes, again)) = pass.next(state) {
            self.last_request += 1;
            let request = self.last_request;
            pass.piece = Some(Piece {
                stream,
                bytes: bytes.clone(),
                request,
                asked_at: None,
                answers: BTreeMap::new(),
                again,
            });
            self.examine(
                core,
                catch_up,
                env,
                Asker::Own,
                Examination::new(request, stream, bytes),
            );
            return Progress::Busy;
        }
        // The damaged pieces get their time.
        if pass.begin_second(env.now) {
            return Progress::Waits;
        }
        self.end_pass(core, env);
        Progress::Over
    }

    /// The pause that this log's scrub owes for the bytes it read. Nobody scrubs on this node for so long.
    pub fn take_debt(&mut self) -> Duration {
        std::mem::take(&mut self.owed)
    }

    fn end_pass(&mut self, core: &mut Core, env: &Env) {
        let Some(pass) = self.pass.take() else {
            return;
        };
        let report = pass.report.ended(env.now);
        self.due = Some(env.now + env.limits.scrub_interval);
        core.counts.scrub_passes += 1;
        tracing::info!(
            log = core.id.0,
            name = core.name,
            bytes = report.bytes,
            compared = report.compared_bytes,
            damaged = report.damaged,
            repaired = report.repaired,
            different = report.different,
            unchecked = report.unchecked_bytes,
            "a scrub is over"
        );
        self.last = Some(report);
    }

    /// Asks every replica for the piece that was read here, now that its length is known.
    fn on_own_examined(
        &mut self,
        core: &mut Core,
        catch_up: &CatchUp,
        env: &mut Env,
        examination: &Examination,
    ) {
        let own = core.engine.node();
        let configuration = &core.engine.state().configuration;
        let Some(pass) = &mut self.pass else {
            return;
        };
        let rate = pass.report.rate.max(1);
        let Some(piece) = pass
            .piece
            .as_mut()
            .filter(|p| p.request == examination.request)
        else {
            return;
        };
        let owed_us = examination.read_bytes.saturating_mul(1_000_000) / rate;
        self.owed = Duration::from_micros(owed_us);
        piece.bytes.end = examination.next;
        piece.answers.insert(own, Some(examination.outcome()));
        piece.asked_at = Some(env.now);
        let peers = core
            .alive
            .iter()
            .filter(|peer| env.peers.compares.contains(peer));
        for &peer in peers.filter(|peer| !configuration.is_auxiliary(**peer)) {
            piece.answers.insert(peer, None);
            let ask = Frame::AskDigest(AskDigest {
                log: core.id,
                request: piece.request,
                stream: piece.stream,
                from: StreamPosition(piece.bytes.start),
                to: StreamPosition(piece.bytes.end),
            });
            env.out.outbox.push_back((peer, ask));
        }
        self.compare(core, catch_up, env);
    }

    /// Takes the question of a leader's pass.
    pub fn on_ask_digest(
        &mut self,
        core: &mut Core,
        catch_up: &CatchUp,
        env: &mut Env,
        peer: NodeId,
        ask: &AskDigest,
    ) {
        if core.stopped.is_none() {
            let bytes = ask.from.0..ask.to.0;
            let examination = Examination::new(ask.request, ask.stream, bytes);
            self.examine(core, catch_up, env, Asker::Peer(peer), examination);
        }
    }

    pub fn on_tell_digest(
        &mut self,
        core: &mut Core,
        catch_up: &CatchUp,
        env: &mut Env,
        peer: NodeId,
        told: &TellDigest,
    ) {
        let piece = self.pass.as_mut().and_then(|pass| pass.piece.as_mut());
        let Some(piece) = piece.filter(|piece| piece.request == told.request) else {
            return;
        };
        if let Some(answer) = piece.answers.get_mut(&peer) {
            *answer = Some(told.found);
            self.compare(core, catch_up, env);
        }
    }

    pub fn deadline(&self, env: &Env) -> Option<Time> {
        let piece = self.pass.as_ref()?.piece.as_ref()?;
        Some(piece.asked_at? + env.limits.fetch_timeout)
    }

    /// Stops waiting for late answers, and looks again at damaged pieces, which may be whole again.
    pub fn settle(&mut self, core: &mut Core, catch_up: &CatchUp, env: &mut Env) {
        if self.deadline(env).is_some_and(|due| due <= env.now) {
            self.judge(core, catch_up, env);
        }
        let holdings = core.store.holdings();
        let before = self.damaged.len();
        self.damaged.retain(|(stream, position)| {
            let byte = StreamPosition(*position)..StreamPosition(position + 1);
            !holdings.holds(*stream, byte)
        });
        let repaired = before - self.damaged.len();
        if repaired > 0 {
            core.counts.scrub_repaired += repaired as u64;
            tracing::info!(
                log = core.id.0,
                repaired,
                "what a scrub found damaged here is whole again"
            );
        }
    }

    fn compare(&mut self, core: &mut Core, catch_up: &CatchUp, env: &mut Env) {
        let piece = self.pass.as_ref().and_then(|pass| pass.piece.as_ref());
        if piece.is_some_and(|piece| piece.answers.values().all(Option::is_some)) {
            self.judge(core, catch_up, env);
        }
    }

    /// Judges the answers.
    fn judge(&mut self, core: &mut Core, catch_up: &CatchUp, env: &mut Env) {
        let lost = catch_up.lost_bytes(core);
        let Some(pass) = &mut self.pass else {
            return;
        };
        let Some(piece) = pass.piece.take() else {
            return;
        };
        let lost: u64 = lost
            .iter()
            .filter(|(stream, _)| *stream == piece.stream)
            .map(|(_, lost)| {
                lost.end
                    .min(piece.bytes.end)
                    .saturating_sub(lost.start.max(piece.bytes.start))
            })
            .sum();
        let length = piece.bytes.end - piece.bytes.start;
        let found = Found::of(&piece.answers);
        let report = &mut pass.report;
        if piece.again.is_none() {
            pass.position = piece.bytes.end;
            report.bytes += length;
            core.counts.scrub_bytes += length;
            report.damaged += found.damaged.len() as u64;
            if !found.damaged.is_empty() {
                tracing::error!(
                    log = core.id.0,
                    stream = %piece.stream,
                    from = piece.bytes.start,
                    to = piece.bytes.end,
                    nodes = ?found.damaged,
                    "a scrub found damaged records; they are fetched from a peer"
                );
            }
        }
        let at = (piece.stream, piece.bytes.clone());
        if found.is_good() {
            self.differences
                .retain(|d| (d.stream, d.bytes.start) != (at.0, at.1.start));
            report.compared_bytes += if found.digests.len() > 1 { length } else { 0 };
            report.repaired += piece.again.unwrap_or(0) as u64;
        } else if found.differs() && piece.again.is_some() {
            report.different += 1;
            core.counts.scrub_differences += 1;
            let (stream, bytes) = at;
            let digests = found.digests;
            self.tell_difference(
                core,
                Difference {
                    stream,
                    bytes,
                    digests,
                },
            );
        } else if piece.again.is_none() {
            pass.look_again(at.0, at.1, found.damaged.len());
        } else if lost > 0 && found.digests.is_empty() {
            report.lost_bytes += lost;
            tracing::error!(
                log = core.id.0,
                stream = %piece.stream,
                from = piece.bytes.start,
                to = piece.bytes.end,
                bytes = lost,
                "bytes that were chosen are lost: no member holds them"
            );
        } else if env.now < pass.second_at + REPAIR_WAIT {
            pass.look_again(at.0, at.1, piece.again.unwrap_or(0));
            pass.rest_until = env.now + REST_AFTER_DAMAGE;
        } else {
            report.unchecked_bytes += length;
        }
    }

    /// ‡ Tells a difference, and does nothing else.
    fn tell_difference(&mut self, core: &Core, difference: Difference) {
        tracing::error!(
            log = core.id.0,
            name = core.name,
            "nodes hold different bytes: {difference}; nothing is changed, since the checksums are right on \
             all of them: read that range with `logberg read --from-node` at each, and replace the node whose bytes are \
             wrong by an empty one (logberg members replace)"
        );
        let known = |d: &Difference| {
            (d.stream, d.bytes.start) == (difference.stream, difference.bytes.start)
        };
        let differences = &mut self.differences;
        match differences.iter().position(known) {
            Some(at) => differences[at] = difference,
            None if differences.len() < DIFFERENCES_MAX => differences.push(difference),
            None => {}
        }
    }
}

/// The answers to one question, put together.
struct Found {
    digests: BTreeMap<NodeId, Digest>,
    damaged: BTreeSet<NodeId>,
    /// Some replica does not hold the piece, or did not answer.
    incomplete: bool,
}

impl Found {
    fn of(answers: &BTreeMap<NodeId, Option<Examined>>) -> Found {
        let mut found = Found {
            digests: BTreeMap::new(),
            damaged: BTreeSet::new(),
            incomplete: false,
        };
        for (&node, answer) in answers {
            match answer {
                Some(Examined::Digest(digest)) => drop(found.digests.insert(node, *digest)),
                Some(Examined::Damaged) => drop(found.damaged.insert(node)),
                Some(Examined::NotHere) | None => found.incomplete = true,
            }
        }
        found
    }

    fn differs(&self) -> bool {
        let mut digests = self.digests.values();
        let first = digests.next();
        digests.any(|digest| Some(digest) != first)
    }

    fn is_good(&self) -> bool {
        !self.differs() && self.damaged.is_empty() && !self.incomplete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(answers: &[Option<Examined>]) -> Found {
        let answers = answers.iter().enumerate();
        Found::of(
            &answers
                .map(|(at, answer)| (NodeId(at as u32 + 1), *answer))
                .collect(),
        )
    }

    fn digest(value: u32) -> Option<Examined> {
        Some(Examined::Digest(Digest(value)))
    }

    #[test]
    fn only_equal_digests_of_all_who_were_asked_are_good() {
        assert!(found(&[digest(1), digest(1), digest(1)]).is_good());
        assert!(
            found(&[digest(1)]).is_good(),
            "who is alone agrees with himself"
        );
        for other in [
            Some(Examined::Damaged),
            Some(Examined::NotHere),
            None,
            digest(2),
        ] {
            assert!(
                !found(&[digest(1), digest(1), other]).is_good(),
                "{other:?}"
            );
        }
    }

    #[test]
    fn what_is_damaged_or_not_there_is_no_difference() {
        assert!(
            !found(&[
                digest(1),
                Some(Examined::Damaged),
                Some(Examined::NotHere),
                None
            ])
            .differs()
        );
        assert!(found(&[digest(1), digest(2), None]).differs());
    }
}
