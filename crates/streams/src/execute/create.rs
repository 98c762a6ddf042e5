//! Streams are made, out of nothing or out of others.

use paxos::mutation::{self, Mutation};

use super::{End, Named, Outcome, Space, There};
use crate::json;
use crate::keys;
use crate::media::MediaType;
use crate::offset::POSITION_MAX;
use crate::request::{Answer, Create, ForkFrom, Lifetime, Refusal};
use crate::rows::Rows;
use crate::stored::{Asked, AskedFork, Closed, Numbers, Segment, Stream, Tail};

/// More streams than that are not made in a millisecond. Of 16 digits half are left to the time, which lasts until 2128; then ids are counted on.
const IDS_PER_MS: u64 = 1_000;
/// Streams in a space.
pub const STREAMS_MAX: u64 = 100_000_000;
/// … where no limit of the space says otherwise.
pub const STREAMS_USUAL: u64 = 1_000_000;
/// A fork has the bytes of so many other streams at most.
pub const FORK_DEPTH_MAX: usize = 64;

/// What a fork takes from its source.
struct Taken {
    asked: AskedFork,
    source: u64,
    inherited: Vec<Segment>,
    position: u64,
    /// The first of them that is left.
    first: u64,
    media: MediaType,
    lifetime: Lifetime,
}

impl<R: Rows> Space<'_, R> {
    pub(super) fn create(&mut self, create: &Create) -> Outcome<Answer, R> {
        match self.named(&create.path)? {
            Named::Nothing => {}
            Named::Deleted if mutation::is(Mutation::HeldNameFree) => {}
            // Its name is not free before its forks are gone.
            Named::Deleted => return Err(End::Refused(Refusal::Differs)),
            Named::There(_) if create.must_be_new => return Err(End::Refused(Refusal::Exists)),
            Named::There(there) => return self.found(&there, create),
        }
        let taken = match &create.fork {
            Some(fork) => Some(self.take(fork)?),
            None => None,
        };
        if let (Some(taken), Some(media)) = (&taken, &create.media)
            && !taken.media.is_same(media)
        {
            return Err(End::Refused(Refusal::ForkMedia));
        }
        let media = match (&create.media, &taken) {
            (Some(media), _) => media.clone(),
            (None, Some(taken)) => taken.media.clone(),
            (None, None) => MediaType::unsaid(),
        };
        // The door knows the type of a body only if the request says it.
        let is_raw = create.media.is_none() && media.is_json() && !create.body.is_empty();
        let messages = match is_raw {
            true => json::messages(&create.body),
            false => Ok(create.body.clone()),
        };
        let body = messages.map_err(|error| End::Refused(Refusal::NotJson(error.to_string())))?;
        let mut numbers: Numbers = self.row(keys::NUMBERS)?.unwrap_or_default();
        let limits = self.limits()?;
        if numbers.streams >= limits.streams_max() {
            return Err(End::Refused(match limits.streams {
                None => Refusal::ManyStreams,
                Some(streams) => Refusal::StreamsLimit { streams },
            }));
        }
        let now_ms = self.rows.time_ms();
        // ‡ An id is never that of another stream, though the rows were brought back from a backup, or the space was deleted and made again: it
        // begins behind the time, which went on meanwhile. In a space that counted on from where it stood an old offset was read as one of a new stream.
        let by_time = match mutation::is(Mutation::IdUsedAgain) {
            true => 0,
            false => now_ms.saturating_mul(IDS_PER_MS).min(POSITION_MAX / 2),
        };
        let id = numbers.next.max(by_time);
        numbers.next = id + 1;
        numbers.streams += 1;
        let lifetime = match (create.lifetime, &taken) {
            (Lifetime::Endless, Some(taken)) => taken.lifetime,
            (lifetime, _) => lifetime,
        };
        let mut tail = Tail {
            position: taken.as_ref().map_or(0, |taken| taken.position),
            closed: create.closes.then(Closed::default),
            sequence: None,
            touched_ms: now_ms,
            first: taken.as_ref().map_or(0, |taken| taken.first),
            marked_ms: 0,
            appended_ms: now_ms,
        };
        Self::check_room(&tail, &body)?;
        let queued_ms = lifetime.ends_ms(now_ms);
        let mut stream = Stream {
            path: create.path.as_str().to_owned(),
            media,
            lifetime,
            asked: Asked {
                lifetime: create.lifetime,
                fork: taken.as_ref().map(|taken| taken.asked.clone()),
            },
            source: taken.as_ref().map(|taken| taken.source),
            inherited: taken.map_or_else(Vec::new, |taken| taken.inherited),
            forks: 0,
            is_deleted: false,
            queued_ms,
            retention: create.retention,
        };
        self.count_bytes(&stream, &tail, body.len())?;
        self.mark(id, &stream, &mut tail)?;
        self.write(id, &mut tail, &body)?;
        self.queue_for_age(id, &mut stream, &tail)?;
        if let Some(source) = stream.source {
            let mut counted = self.stream(source)?;
            counted.forks += u32::from(!mutation::is(Mutation::ForkNotCounted));
            self.put(&keys::stream(source), &counted)?;
        }
        if let Some(queued_ms) = queued_ms {
            self.put_bytes(&keys::expiry(queued_ms, id), &[])?;
        }
        self.put_bytes(&keys::name(create.path.as_str()), &id.to_be_bytes())?;
        self.put(keys::NUMBERS, &numbers)?;
        self.put(&keys::stream(id), &stream)?;
        self.put(&keys::tail(id), &tail)?;
        let there = There { id, stream, tail };
        Ok(Answer::Created(there.place()))
    }

    /// The stream is there already: as it is asked for, or otherwise.
    fn found(&mut self, there: &There, create: &Create) -> Outcome<Answer, R> {
        let There { stream, tail, .. } = there;
        let media = match (&create.media, &create.fork) {
            (Some(media), _) => media.clone(),
            (None, Some(_)) => stream.media.clone(),
            (None, None) => MediaType::unsaid(),
        };
        let is_same_fork = match (&stream.asked.fork, &create.fork) {
            (None, None) => true,
            (Some(made), Some(asked)) => {
                let offset = asked.offset.map(|offset| match offset.lineage {
                    0 => made.resolved.position == offset.position,
                    _ => made.resolved == offset,
                });
                made.source == asked.source.as_str()
                    && made.sub == asked.sub
                    && offset.unwrap_or(made.offset.is_none())
            }
            _ => false,
        };
        let is_same = media.is_same(&stream.media)
            && create.lifetime == stream.asked.lifetime
            && create.retention == stream.retention
            && create.closes == tail.closed.is_some()
            && is_same_fork;
        match is_same {
            true => Ok(Answer::Found(there.place())),
            false => Err(End::Refused(Refusal::Differs)),
        }
    }

    fn take(&mut self, fork: &ForkFrom) -> Outcome<Taken, R> {
        let source = match self.named(&fork.source)? {
            Named::Nothing => return Err(End::Refused(Refusal::SourceNotFound)),
            Named::Deleted => return Err(End::Refused(Refusal::SourceDeleted)),
            Named::There(there) => there,
        };
        let chain = source.chain();
        let wrong = || End::Refused(Refusal::ForkOffset);
        let resolved = match fork.offset {
            None => chain.offset(source.tail.position),
            Some(offset) => {
                let known = chain.offset(offset.position);
                let is_known = offset.lineage == 0 || offset == known;
                let is_there =
                    (source.tail.first..=source.tail.position).contains(&offset.position);
                match is_known && is_there {
                    true => known,
                    false => return Err(wrong()),
                }
            }
        };
        let mut position = resolved.position;
        let is_json = source.stream.media.is_json();
        if is_json {
            let ends = chain.ends_message(self.rows, position);
            if !ends.map_err(End::Stop)? {
                return Err(wrong());
            }
        }
        if fork.sub > 0 {
            let append = chain.append_at(self.rows, position).map_err(End::Stop)?;
            let length = match is_json {
                true => end_of_message(&append, fork.sub),
                false => Some(fork.sub).filter(|sub| {
                    *sub <= append.len() as u64 || mutation::is(Mutation::SubPastAppend)
                }),
            };
            position += length.ok_or(End::Refused(Refusal::ForkSub))?;
        }
        let inherited = chain.until(position);
        if inherited.len() > FORK_DEPTH_MAX {
            return Err(End::Refused(Refusal::ForkDepth));
        }
        Ok(Taken {
            asked: AskedFork {
                source: fork.source.as_str().to_owned(),
                offset: fork.offset,
                resolved,
                sub: fork.sub,
            },
            source: source.id,
            inherited,
            position,
            first: source.tail.first,
            media: source.stream.media.clone(),
            lifetime: source.stream.lifetime,
        })
    }
}

/// Where so many messages end.
fn end_of_message(messages: &[u8], count: u64) -> Option<u64> {
    let ends = messages
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n');
    let at = usize::try_from(count).ok()?.checked_sub(1)?;
    let (end, _) = ends.clone().nth(at)?;
    Some(end as u64 + 1)
}
