//! Named streams as the rules have them, told once more: a fork copies what it inherits, and there are no rows.
//!
//! Requests are applied in the order of a log. What the streams answered is compared with what this answers.

use std::collections::BTreeMap;

use streams::{
    Answer, Append, BLOCK_BYTES, Create, Expected, ForkFrom, Found, From, Lifetime, Limits,
    MediaType, Offset, Path, Place, Refusal, Request,
};

/// A stream.
#[derive(Clone, Debug)]
struct Kept {
    media: MediaType,
    lifetime: Lifetime,
    asked: Lifetime,
    fork: Option<(ForkFrom, Offset)>,
    source: Option<u64>,
    bytes: Vec<u8>,
    /// The stream that each byte was appended to.
    of: Vec<u64>,
    /// The stream that begins where this begins.
    root: u64,
    /// Where appends end.
    ends: Vec<usize>,
    is_closed: bool,
    sequence: Option<String>,
    producers: BTreeMap<(String, String), (u64, u64)>,
    touched_ms: u64,
    is_deleted: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    names: BTreeMap<String, u64>,
    kept: BTreeMap<u64, Kept>,
    made: u64,
    limits: Limits,
}

/// What a read shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub place: Place,
    pub from: Offset,
    pub next: Offset,
    pub bytes: Vec<u8>,
    pub ends: Vec<usize>,
}

impl Shown {
    pub fn of(read: streams::Read) -> Shown {
        Shown {
            place: read.standing.place,
            from: read.from,
            next: read.next,
            bytes: read.bytes,
            ends: read.ends,
        }
    }
}

/// The same of what was found.
pub fn shown(found: Found<streams::Read>) -> Found<Shown> {
    match found {
        Found::There(read) => Found::There(Shown::of(read)),
        Found::Nothing => Found::Nothing,
        Found::Deleted => Found::Deleted,
        Found::OtherOffset => Found::OtherOffset,
        Found::WrongOffset => Found::WrongOffset,
        Found::Trimmed { first } => Found::Trimmed { first },
    }
}

impl Kept {
    fn offset(&self, id: u64, position: u64) -> Offset {
        let at = position as usize;
        let lineage = match at.checked_sub(1) {
            None => self.root,
            Some(before) => self.of.get(before).copied().unwrap_or(id),
        };
        Offset { lineage, position }
    }

    fn tail(&self, id: u64) -> Offset {
        self.offset(id, self.bytes.len() as u64)
    }

    /// Its own bytes and so many more, in blocks.
    fn kept_bytes(&self, id: u64, more: usize) -> u64 {
        let own = self.of.iter().filter(|of| **of == id).count() + more;
        own.div_ceil(BLOCK_BYTES as usize) as u64 * BLOCK_BYTES
    }

    fn place(&self, id: u64) -> Place {
        Place {
            id,
            media: self.media.clone(),
            tail: self.tail(id),
            is_closed: self.is_closed,
        }
    }

    /// Whether a read may begin here, if positions are whole messages.
    fn is_end(&self, at: usize) -> bool {
        !self.media.is_json() || at == 0 || self.bytes[at - 1] == b'\n'
    }

    fn end_behind(&self, at: usize) -> usize {
        let end = self.ends.iter().find(|end| **end > at);
        end.copied().unwrap_or(at)
    }

    fn grow(&mut self, id: u64, body: &[u8]) {
        if body.is_empty() {
            return;
        }
        self.bytes.extend_from_slice(body);
        self.of.resize(self.bytes.len(), id);
        self.ends.push(self.bytes.len());
    }

    fn ends_ms(&self) -> Option<u64> {
        match self.lifetime {
            Lifetime::Endless => None,
            Lifetime::Until { ms } => Some(ms),
            Lifetime::Idle { seconds } => Some(self.touched_ms + seconds * 1_125),
        }
    }
}

impl Model {
    pub fn execute(&mut self, request: &Request, now_ms: u64) -> Answer {
        let done = match request {
            Request::Limit(change) => {
                let changed = self.limits.change(change);
                changed.expect("changes make sense");
                Ok(Answer::Limits(Box::new(self.limits.clone())))
            }
            Request::Create(create) => self.create(create, now_ms),
            Request::Append(append) => self.append(append, now_ms),
            Request::Delete { path } => self.there(path, now_ms).map(|id| {
                self.remove(id);
                Answer::Deleted
            }),
            Request::Touch { path, uses } => self.there(path, now_ms).map(|id| {
                let kept = self.kept.get_mut(&id).expect("it is there");
                if let (true, Lifetime::Idle { seconds }) = (*uses, kept.lifetime)
                    && now_ms >= kept.touched_ms + (seconds * 125).max(1)
                {
                    kept.touched_ms = now_ms;
                }
                Answer::Touched
            }),
            Request::Sweep { .. } => {
                let names: Vec<String> = self.names.keys().cloned().collect();
                let before = self.kept.len();
                for name in names {
                    self.expire(&name, now_ms);
                }
                let streams = (before - self.kept.len()) as u32;
                Ok(Answer::Swept { streams })
            }
        };
        done.unwrap_or_else(Answer::Refused)
    }

    /// What a read shows, of a stream that is not removed.
    pub fn read(&self, path: &Path, from: From, bytes_max: usize) -> Found<Shown> {
        let Some((id, kept)) = self.find(path.as_str()) else {
            return Found::Nothing;
        };
        if kept.is_deleted {
            return Found::Deleted;
        }
        let from = match from {
            From::Start => kept.offset(id, 0),
            From::Tail => kept.tail(id),
            From::At(offset) => {
                let known = kept.offset(id, offset.position);
                if offset.lineage != 0 && offset != known {
                    return Found::OtherOffset;
                }
                if offset.position > kept.bytes.len() as u64 {
                    return Found::WrongOffset;
                }
                known
            }
        };
        let begin = from.position as usize;
        if !kept.is_end(begin) {
            return Found::WrongOffset;
        }
        let (mut at, mut ends) = (begin, Vec::new());
        while at < kept.bytes.len() && at - begin < bytes_max {
            at = kept.end_behind(at);
            ends.push(at - begin);
        }
        Found::There(Shown {
            place: kept.place(id),
            from,
            next: kept.offset(id, at as u64),
            bytes: kept.bytes[begin..at].to_vec(),
            ends,
        })
    }

    /// The bytes of all streams that are there or held by others, each counted once.
    pub fn own_bytes(&self) -> usize {
        let own = |(id, kept): (&u64, &Kept)| kept.of.iter().filter(|of| *of == id).count();
        self.kept.iter().map(own).sum()
    }

    /// The same, in blocks.
    pub fn kept_bytes(&self) -> u64 {
        self.kept
            .iter()
            .map(|(id, kept)| kept.kept_bytes(*id, 0))
            .sum()
    }

    /// Errors: with so many more bytes there are more than there may be.
    fn check_kept(&self, id: u64, kept: &Kept, more: usize) -> Result<(), Refusal> {
        let begun = kept.kept_bytes(id, more) - kept.kept_bytes(id, 0);
        match self.limits.bytes {
            Some(bytes) if begun > 0 && self.kept_bytes() + begun > bytes => {
                Err(Refusal::ManyBytes { bytes })
            }
            _ => Ok(()),
        }
    }

    pub fn streams(&self) -> usize {
        self.kept.len()
    }

    fn find(&self, name: &str) -> Option<(u64, &Kept)> {
        let id = self.names.get(name)?;
        Some((*id, &self.kept[id]))
    }

    fn expire(&mut self, name: &str, now_ms: u64) {
        let Some((id, kept)) = self.find(name) else {
            return;
        };
        if !kept.is_deleted && kept.ends_ms().is_some_and(|ends| ends <= now_ms) {
            self.remove(id);
        }
    }

    fn there(&mut self, path: &Path, now_ms: u64) -> Result<u64, Refusal> {
        self.expire(path.as_str(), now_ms);
        match self.find(path.as_str()) {
            None => Err(Refusal::NotFound),
            Some((_, kept)) if kept.is_deleted => Err(Refusal::Deleted),
            Some((id, _)) => Ok(id),
        }
    }

    fn remove(&mut self, id: u64) {
        let is_held = self.kept.values().any(|kept| kept.source == Some(id));
        if is_held {
            self.kept.get_mut(&id).expect("it is there").is_deleted = true;
            return;
        }
        self.names.retain(|_, of| *of != id);
        let gone = self.kept.remove(&id).expect("it is there");
        if let Some(source) = gone.source
            && self.kept[&source].is_deleted
        {
            self.remove(source);
        }
    }

    fn create(&mut self, create: &Create, now_ms: u64) -> Result<Answer, Refusal> {
        match self.there(&create.path, now_ms) {
            Err(Refusal::Deleted) => return Err(Refusal::Differs),
            Err(_) => {}
            Ok(_) if create.must_be_new => return Err(Refusal::Exists),
            Ok(id) => return self.found(id, create),
        }
        let media = create.media.clone().expect("each request says one");
        // Numbered by the time, a thousand to a millisecond, and one after the other where more are made.
        let id = (self.made + 1).max(now_ms * 1_000);
        let mut kept = match &create.fork {
            None => Kept {
                media,
                lifetime: create.lifetime,
                asked: create.lifetime,
                fork: None,
                source: None,
                bytes: Vec::new(),
                of: Vec::new(),
                root: id,
                ends: Vec::new(),
                is_closed: false,
                sequence: None,
                producers: BTreeMap::new(),
                touched_ms: 0,
                is_deleted: false,
            },
            Some(fork) => self.fork(fork, media, create.lifetime, now_ms)?,
        };
        let streams_max = self.limits.streams_max();
        if self.streams() as u64 >= streams_max {
            let streams = streams_max;
            return Err(Refusal::StreamsLimit { streams });
        }
        self.check_kept(id, &kept, create.body.len())?;
        kept.grow(id, &create.body);
        kept.is_closed = create.closes;
        kept.touched_ms = now_ms;
        self.made = id;
        self.names.insert(create.path.as_str().to_owned(), id);
        let place = kept.place(id);
        self.kept.insert(id, kept);
        Ok(Answer::Created(place))
    }

    fn found(&self, id: u64, create: &Create) -> Result<Answer, Refusal> {
        let kept = &self.kept[&id];
        let is_same_fork = match (&kept.fork, &create.fork) {
            (None, None) => true,
            (Some((made, resolved)), Some(asked)) => {
                made.source == asked.source
                    && made.sub == asked.sub
                    && match asked.offset {
                        None => made.offset.is_none(),
                        Some(offset) if offset.lineage == 0 => offset.position == resolved.position,
                        Some(offset) => offset == *resolved,
                    }
            }
            _ => false,
        };
        let media = create.media.as_ref().expect("each request says one");
        let is_same = is_same_fork
            && media.is_same(&kept.media)
            && create.lifetime == kept.asked
            && create.closes == kept.is_closed;
        match is_same {
            true => Ok(Answer::Found(kept.place(id))),
            false => Err(Refusal::Differs),
        }
    }

    fn fork(
        &mut self,
        fork: &ForkFrom,
        media: MediaType,
        asked: Lifetime,
        now_ms: u64,
    ) -> Result<Kept, Refusal> {
        let source = match self.there(&fork.source, now_ms) {
            Err(Refusal::Deleted) => return Err(Refusal::SourceDeleted),
            Err(_) => return Err(Refusal::SourceNotFound),
            Ok(source) => source,
        };
        let from = &self.kept[&source];
        let resolved = match fork.offset {
            None => from.tail(source),
            Some(offset) => {
                let known = from.offset(source, offset.position);
                let is_known = offset.lineage == 0 || offset == known;
                if !is_known || offset.position > from.bytes.len() as u64 {
                    return Err(Refusal::ForkOffset);
                }
                known
            }
        };
        let mut at = resolved.position as usize;
        if !from.is_end(at) {
            return Err(Refusal::ForkOffset);
        }
        if fork.sub > 0 {
            let rest = &from.bytes[at..from.end_behind(at)];
            let sub = fork.sub as usize;
            let mut ends = (1..=rest.len()).filter(|end| {
                let is_message = rest[end - 1] == b'\n';
                !from.media.is_json() || is_message
            });
            at += ends.nth(sub - 1).ok_or(Refusal::ForkSub)?;
        }
        if !media.is_same(&from.media) {
            return Err(Refusal::ForkMedia);
        }
        let mut ends: Vec<usize> = from.ends.iter().copied().filter(|end| *end < at).collect();
        ends.extend((at > 0).then_some(at));
        Ok(Kept {
            media,
            lifetime: match asked {
                Lifetime::Endless => from.lifetime,
                asked => asked,
            },
            asked,
            fork: Some((fork.clone(), resolved)),
            source: Some(source),
            bytes: from.bytes[..at].to_vec(),
            of: from.of[..at].to_vec(),
            root: from.root,
            ends,
            is_closed: false,
            sequence: None,
            producers: BTreeMap::new(),
            touched_ms: now_ms,
            is_deleted: false,
        })
    }

    fn append(&mut self, append: &Append, now_ms: u64) -> Result<Answer, Refusal> {
        let id = self.there(&append.path, now_ms)?;
        let has_room = self.check_kept(id, &self.kept[&id], append.body.len());
        let kept = self.kept.get_mut(&id).expect("it is there");
        let producer = append.producer.as_ref();
        let of = producer.map(|producer| (append.principal.clone(), producer.id.clone()));
        let before = of.as_ref().and_then(|of| kept.producers.get(of)).copied();
        if let (Some(producer), Some((epoch, sequence))) = (producer, before) {
            if producer.epoch < epoch {
                return Err(Refusal::StaleEpoch { current: epoch });
            }
            if producer.epoch == epoch && producer.sequence <= sequence {
                return Ok(Answer::Known {
                    place: kept.place(id),
                    produced: before,
                });
            }
        }
        if kept.is_closed {
            let is_known = append.closes && append.body.is_empty() && producer.is_none();
            return match is_known {
                true => Ok(Answer::Known {
                    place: kept.place(id),
                    produced: None,
                }),
                false => Err(Refusal::Closed(kept.place(id))),
            };
        }
        if append.body.is_empty() && !append.closes {
            return Err(Refusal::EmptyBody);
        }
        if let Some(media) = &append.media
            && !append.body.is_empty()
            && !media.is_same(&kept.media)
        {
            let is = kept.media.clone();
            return Err(Refusal::Media { is });
        }
        if let Some(producer) = producer {
            let expected = match before {
                Some((epoch, sequence)) if epoch == producer.epoch => sequence + 1,
                Some(_) if producer.sequence > 0 => return Err(Refusal::EpochBegins),
                _ => 0,
            };
            if producer.sequence != expected {
                return Err(Refusal::Gap {
                    expected,
                    received: producer.sequence,
                });
            }
        }
        let tail = kept.tail(id);
        let is_expected = match append.expected {
            None => true,
            Some(Expected::At(offset)) if offset.lineage == 0 => offset.position == tail.position,
            Some(Expected::At(offset)) => offset == tail,
            Some(Expected::Of { id: of, position }) => of == id && position == tail.position,
        };
        if !is_expected {
            return Err(Refusal::Unexpected(kept.place(id)));
        }
        if let (Some(sequence), Some(last)) = (&append.sequence, &kept.sequence)
            && sequence <= last
        {
            let last = last.clone();
            return Err(Refusal::Sequence { last });
        }
        has_room?;
        kept.grow(id, &append.body);
        kept.is_closed |= append.closes;
        kept.touched_ms = now_ms;
        if append.sequence.is_some() {
            kept.sequence.clone_from(&append.sequence);
        }
        let produced = producer.map(|producer| (producer.epoch, producer.sequence));
        if let (Some(of), Some(produced)) = (of, produced) {
            kept.producers.insert(of, produced);
        }
        Ok(Answer::Appended {
            place: kept.place(id),
            produced,
        })
    }
}
