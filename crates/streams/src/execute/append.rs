//! Bytes are appended, and streams closed.

use paxos::mutation::{self, Mutation};

use super::trim::ROWS_MAX;
use super::{End, Outcome, Space, There};
use crate::keys;
use crate::request::{Answer, Append, Expected, Producer, Refusal};
use crate::rows::Rows;
use crate::stored::{Closed, Produced};

/// Producers of one principal that a stream remembers.
pub const PRODUCERS_MAX: u32 = 1_000;
/// A producer that was not used for so long is forgotten if there is no room for another: 7 days.
pub const PRODUCER_KEPT_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

impl<R: Rows> Space<'_, R> {
    /// ‡ In this order: a stale epoch, what is known, a closed stream, the type, a gap, the tail that was expected, the sequence.
    pub(super) fn append(&mut self, append: &Append) -> Outcome<Answer, R> {
        let mut there = self.there(&append.path)?;
        let refuse = |refusal| Err(End::Refused(refusal));
        let principal = match mutation::is(Mutation::ProducersShared) {
            true => "",
            false => &append.principal,
        };
        if mutation::is(Mutation::ClosedBeforeKnown) && there.tail.closed.is_some() {
            return refuse(Refusal::Closed(there.place()));
        }
        if let Some(expected) = append.expected
            && mutation::is(Mutation::TailBeforeKnown)
            && !is_expected(&there, expected)
        {
            return refuse(Refusal::Unexpected(there.place()));
        }
        let before = match &append.producer {
            Some(producer) => {
                let key = keys::producer(there.id, principal, &producer.id);
                self.produced(&key)?
            }
            None => None,
        };
        if let (Some(producer), Some(before)) = (&append.producer, before) {
            if producer.epoch < before.epoch && !mutation::is(Mutation::StaleEpochAppends) {
                let current = before.epoch;
                return refuse(Refusal::StaleEpoch { current });
            }
            let is_known = producer.epoch == before.epoch && producer.sequence <= before.sequence;
            // ‡ Numbers are a producer's own: whoever counts another input in the same way would have it passed over without a word.
            let is_other = producer.is_compared
                && producer.sequence == before.sequence
                && before
                    .digest
                    .is_some_and(|digest| digest != crc32c::crc32c(&append.body));
            if is_known && is_other {
                let sequence = before.sequence;
                return refuse(Refusal::OtherBody { sequence });
            }
            if is_known && !mutation::is(Mutation::KnownAppendedAgain) {
                return Ok(Answer::Known {
                    place: there.place(),
                    produced: Some((before.epoch, before.sequence)),
                });
            }
        }
        if there.tail.closed.is_some() && !mutation::is(Mutation::ClosedGrows) {
            let only_closes = append.closes && append.body.is_empty();
            return match only_closes && append.producer.is_none() {
                true => Ok(Answer::Known {
                    place: there.place(),
                    produced: None,
                }),
                false => refuse(Refusal::Closed(there.place())),
            };
        }
        if append.body.is_empty() && !append.closes {
            return refuse(Refusal::EmptyBody);
        }
        if let Some(media) = &append.media
            && !append.body.is_empty()
            && !there.stream.media.is_same(media)
        {
            let is = there.stream.media.clone();
            return refuse(Refusal::Media { is });
        }
        if let Some(producer) = &append.producer {
            check_sequence(producer, before).map_err(End::Refused)?;
        }
        if let Some(expected) = append.expected
            && !is_expected(&there, expected)
        {
            return refuse(Refusal::Unexpected(there.place()));
        }
        if let (Some(sequence), Some(last)) = (&append.sequence, &there.tail.sequence)
            && sequence.as_bytes() <= last.as_bytes()
            && !mutation::is(Mutation::SequenceNotCompared)
        {
            let last = last.clone();
            return refuse(Refusal::Sequence { last });
        }
        Self::check_room(&there.tail, &append.body)?;
        self.count_bytes(&there.stream, &there.tail, append.body.len())?;
        let now_ms = self.rows.time_ms();
        let There { id, tail, stream } = &mut *there;
        self.mark(*id, stream, tail)?;
        if let Some(producer) = &append.producer {
            let digest = crc32c::crc32c(&append.body);
            self.remember(*id, (principal, producer), digest, before.is_none())?;
        }
        self.write(*id, tail, &append.body)?;
        if !mutation::is(Mutation::AppendIsNoUse) {
            tail.touched_ms = now_ms;
        }
        if !append.body.is_empty() {
            tail.appended_ms = now_ms;
        }
        if let Some(sequence) = &append.sequence {
            tail.sequence = Some(sequence.clone());
        }
        if append.closes {
            let by = append.producer.as_ref().map(|producer| {
                let Producer {
                    id,
                    epoch,
                    sequence,
                    ..
                } = producer.clone();
                (append.principal.clone(), id, epoch, sequence)
            });
            tail.closed = Some(Closed { by });
        }
        self.trim(*id, stream, tail, ROWS_MAX)?;
        self.queue_for_age(*id, stream, tail)?;
        self.put(&keys::tail(*id), tail)?;
        let produced = append.producer.as_ref();
        Ok(Answer::Appended {
            place: there.place(),
            produced: produced.map(|producer| (producer.epoch, producer.sequence)),
        })
    }

    /// ‡ With the bytes of the append, in one frame.
    fn remember(
        &mut self,
        id: u64,
        (principal, producer): (&str, &Producer),
        digest: u32,
        is_new: bool,
    ) -> Outcome<(), R> {
        let now_ms = self.rows.time_ms();
        if is_new {
            let count = keys::producer_count(id, principal);
            let mut producers: u32 = self.row(&count)?.unwrap_or(0);
            if producers >= PRODUCERS_MAX {
                producers -= self.forget_producers(id, principal, now_ms)?;
            }
            if producers >= PRODUCERS_MAX {
                return Err(End::Refused(Refusal::ManyProducers));
            }
            self.put(&count, &(producers + 1))?;
        }
        // Whoever wants to be kept for less was used as much earlier.
        let kept_ms = producer.kept_ms.unwrap_or(PRODUCER_KEPT_MS);
        let earlier_ms = PRODUCER_KEPT_MS.saturating_sub(kept_ms);
        let produced = Produced {
            epoch: producer.epoch,
            sequence: producer.sequence,
            used_ms: now_ms.saturating_sub(earlier_ms),
            digest: Some(digest),
        };
        let key = keys::producer(id, principal, &producer.id);
        self.put(&key, &produced)
    }

    fn produced(&mut self, key: &[u8]) -> Outcome<Option<Produced>, R> {
        let Some(bytes) = self.rows.get(key).map_err(End::Stop)? else {
            return Ok(None);
        };
        let decoded = Produced::decode(&bytes).ok_or(End::Refused(Refusal::Unreadable));
        decoded.map(Some)
    }

    /// Forgets those that were not used for long; returns how many.
    fn forget_producers(&mut self, id: u64, principal: &str, now_ms: u64) -> Outcome<u32, R> {
        let prefix = keys::producers_of(id, principal);
        let (mut from, to) = (prefix.clone(), keys::behind(&prefix));
        let mut forgotten = 0;
        loop {
            let page = self.range(&from, &to, PRODUCERS_MAX as usize)?;
            for (key, value) in &page.rows {
                let produced = Produced::decode(value);
                let is_old =
                    produced.is_some_and(|produced| produced.used_ms + PRODUCER_KEPT_MS < now_ms);
                if is_old {
                    self.delete_row(key)?;
                    forgotten += 1;
                }
            }
            match page.rows.last() {
                Some((last, _)) if !page.is_last => from = [last, &[0][..]].concat(),
                _ => return Ok(forgotten),
            }
        }
    }
}

/// The sequence of an append that is new.
fn check_sequence(producer: &Producer, before: Option<Produced>) -> Result<(), Refusal> {
    let expected = match before {
        _ if mutation::is(Mutation::GapTaken) => producer.sequence,
        // It is asked for again.
        Some(before)
            if mutation::is(Mutation::KnownAppendedAgain)
                && producer.sequence <= before.sequence =>
        {
            producer.sequence
        }
        Some(before) if before.epoch == producer.epoch => before.sequence + 1,
        Some(_) if producer.sequence != 0 => return Err(Refusal::EpochBegins),
        _ => 0,
    };
    match producer.sequence == expected {
        true => Ok(()),
        false => Err(Refusal::Gap {
            expected,
            received: producer.sequence,
        }),
    }
}

fn is_expected(there: &There, expected: Expected) -> bool {
    if mutation::is(Mutation::TailNotCompared) {
        return true;
    }
    let tail = there.chain().offset(there.tail.position);
    match expected {
        Expected::At(offset) => match offset.lineage {
            0 => offset.position == tail.position,
            _ => offset == tail,
        },
        Expected::Of { id, position } => id == there.id && position == tail.position,
    }
}
