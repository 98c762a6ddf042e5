//! Drawn requests on a space, beside a model that copies what a fork inherits and knows nothing of rows.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Bound;

use proptest::prelude::*;
use streams::{
    Answer, Append, Create, Expected, ForkFrom, Found, From, Lifetime, LimitsChange, MediaType,
    Offset, Page, Path, Producer, Refusal, Request, Rows, View,
};

/// Rows in memory.
#[derive(Clone, Default)]
struct Memory {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    forgotten: Vec<Vec<u8>>,
    time_ms: u64,
}

impl View for Memory {
    type Stop = Infallible;

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Infallible> {
        Ok(self.rows.get(key).cloned())
    }

    fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Infallible> {
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        if from >= to {
            return Ok(Page {
                rows: Vec::new(),
                is_last: true,
            });
        }
        // Pages are short, so that everybody has to read on.
        let rows_max = rows_max.min(3);
        let mut found = self.rows.range::<[u8], _>(bounds);
        let rows: Vec<_> = found
            .by_ref()
            .take(rows_max)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        Ok(Page {
            rows,
            is_last: found.next().is_none(),
        })
    }
}

impl Rows for Memory {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Infallible> {
        let is_below = |prefix: &Vec<u8>| key.starts_with(prefix);
        assert!(
            !self.forgotten.iter().any(is_below),
            "a row is written below a prefix that was forgotten"
        );
        self.rows.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Infallible> {
        self.rows.remove(key);
        Ok(())
    }

    fn forget(&mut self, prefix: &[u8]) -> Result<(), Infallible> {
        self.rows.retain(|key, _| !key.starts_with(prefix));
        self.forgotten.push(prefix.to_vec());
        Ok(())
    }

    fn time_ms(&self) -> u64 {
        self.time_ms
    }
}

/// A stream of the model.
#[derive(Clone, Debug)]
struct Kept {
    made: u64,
    /// Whether its type is JSON or text, or was never said.
    said: Option<bool>,
    is_json: bool,
    bytes: Vec<u8>,
    /// So many of them are those of the streams that it was forked from.
    inherited: usize,
    /// Where its appends end, and inherited ones.
    ends: Vec<usize>,
    /// The offset that was given out for its tail, and for each end before.
    offsets: BTreeMap<usize, Offset>,
    is_closed: bool,
    sequence: Option<String>,
    producers: BTreeMap<String, (u64, u64)>,
    ttl: Option<u64>,
    asked_ttl: Option<u64>,
    touched_ms: u64,
    source: Option<u64>,
    asked_fork: Option<(String, Option<Offset>, u64)>,
    is_deleted: bool,
}

#[derive(Default)]
struct Model {
    by_path: BTreeMap<String, u64>,
    kept: BTreeMap<u64, Kept>,
    made: u64,
}

impl Model {
    fn forks(&self, made: u64) -> usize {
        let kept = self.kept.values();
        kept.filter(|kept| kept.source == Some(made)).count()
    }

    fn remove(&mut self, made: u64) {
        if self.forks(made) > 0 {
            self.kept.get_mut(&made).expect("it is there").is_deleted = true;
            return;
        }
        let gone = self.kept.remove(&made).expect("it is there");
        self.by_path.retain(|_, of| *of != made);
        if let Some(source) = gone.source
            && self.kept.get(&source).is_some_and(|kept| kept.is_deleted)
            && self.forks(source) == 0
        {
            self.remove(source);
        }
    }

    /// Removes the stream of this name if its time is over.
    fn expire(&mut self, path: &str, now_ms: u64) {
        let Some(made) = self.by_path.get(path).copied() else {
            return;
        };
        let kept = &self.kept[&made];
        let is_over = kept
            .ttl
            .is_some_and(|ttl| kept.touched_ms + ttl * 1_000 + ttl * 125 <= now_ms);
        if is_over && !kept.is_deleted {
            self.remove(made);
        }
    }

    fn find(&self, path: &str) -> Option<&Kept> {
        self.kept.get(self.by_path.get(path)?)
    }
}

#[derive(Clone, Debug)]
enum Draw {
    Create {
        path: u8,
        json: Option<bool>,
        ttl: Option<u64>,
        closes: bool,
        messages: u8,
        fork: Option<(u8, Place, u64)>,
        must_be_new: bool,
    },
    Append {
        path: u8,
        json: bool,
        messages: u8,
        closes: bool,
        sequence: Option<u8>,
        producer: Option<(u8, u64, u64)>,
        expected: Option<Place>,
    },
    Delete(u8),
    Touch(u8, bool),
    Sweep,
    Wait(u64),
    /// From one of the ends that were given out.
    Read(u8, Place, usize),
}

#[derive(Clone, Debug)]
enum Place {
    /// One of the offsets that this stream gave out.
    Of(u8, prop::sample::Index),
    Zero(u64),
    Wild(u64, u64),
    Tail,
}

const PATHS: [&str; 4] = ["a", "a/b", "c", "d"];
const MESSAGES: [&str; 4] = [
    "1\n",
    "{\"k\":\"v\"}\n",
    "\"long text of a message\"\n",
    "[]\n",
];

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        6 => (0u8..4, any::<prop::sample::Index>()).prop_map(|(path, at)| Place::Of(path, at)),
        1 => (0u64..60).prop_map(Place::Zero),
        1 => (0u64..9, 0u64..60).prop_map(|(lineage, position)| Place::Wild(lineage, position)),
        2 => Just(Place::Tail),
    ]
}

fn draw() -> impl Strategy<Value = Draw> {
    let fork = prop::option::of((0u8..4, place(), prop_oneof![3 => Just(0u64), 1 => 0u64..20]));
    let create = (
        0u8..4,
        prop::option::of(any::<bool>()),
        prop_oneof![3 => Just(None), 1 => (0u64..4).prop_map(Some)],
        prop::bool::weighted(0.15),
        0u8..4,
        fork,
        prop::bool::weighted(0.1),
    );
    let append = (
        0u8..4,
        any::<bool>(),
        0u8..5,
        prop::bool::weighted(0.1),
        prop::option::weighted(0.2, 0u8..9),
        prop::option::weighted(0.4, (0u8..2, 0u64..3, 0u64..4)),
        prop::option::weighted(0.2, place()),
    );
    prop_oneof![
        4 => create.prop_map(|(path, json, ttl, closes, messages, fork, must_be_new)| Draw::Create {
            path, json, ttl, closes, messages, fork, must_be_new,
        }),
        8 => append.prop_map(|(path, json, messages, closes, sequence, producer, expected)| Draw::Append {
            path, json, messages, closes, sequence, producer, expected,
        }),
        1 => (0u8..4).prop_map(Draw::Delete),
        1 => (0u8..4, any::<bool>()).prop_map(|(path, uses)| Draw::Touch(path, uses)),
        1 => Just(Draw::Sweep),
        1 => (1u64..3_000).prop_map(Draw::Wait),
        6 => (0u8..4, place(), 1usize..60).prop_map(|(path, place, bytes)| Draw::Read(path, place, bytes)),
    ]
}

struct Run {
    rows: Memory,
    model: Model,
}

fn path_of(path: u8) -> (&'static str, Path) {
    let text = PATHS[usize::from(path)];
    (text, Path::new(text).expect("a name"))
}

fn media(json: bool) -> MediaType {
    let text = if json {
        "application/json"
    } else {
        "text/plain"
    };
    MediaType::new(text).expect("a type")
}

impl Run {
    fn offset(&self, place: &Place) -> Option<Offset> {
        match place {
            Place::Tail => None,
            Place::Zero(position) => Some(Offset {
                lineage: 0,
                position: *position,
            }),
            Place::Wild(lineage, position) => Some(Offset {
                lineage: *lineage,
                position: *position,
            }),
            Place::Of(path, at) => {
                let kept = self.model.find(PATHS[usize::from(*path)])?;
                let offsets: Vec<&Offset> = kept.offsets.values().collect();
                Some(**at.get(&offsets))
            }
        }
    }

    fn execute(&mut self, request: &Request) -> Answer {
        // As it comes over the wire.
        let decoded = Request::decode(&request.encode()).expect("a request");
        assert_eq!(&decoded, request);
        let before = self.rows.clone();
        let Ok(answer) = streams::execute(&mut self.rows, request);
        assert_eq!(Answer::decode(&answer.encode()), Some(answer.clone()));
        if let Answer::Refused(refusal) = &answer {
            let counts = |rows: &Memory| rows.rows.len();
            // Nothing but the removal of what is over.
            assert!(
                counts(&self.rows) <= counts(&before),
                "{refusal:?} wrote something"
            );
            assert_ne!(*refusal, Refusal::Unreadable);
        }
        answer
    }

    /// Where this offset is in a stream, if it is one of its.
    fn position(kept: &Kept, offset: Offset) -> Option<usize> {
        let at = usize::try_from(offset.position).expect("short");
        if at > kept.bytes.len() {
            return None;
        }
        match kept.offsets.get(&at) {
            _ if offset.lineage == 0 => Some(at),
            Some(known) => (*known == offset).then_some(at),
            // Within an append: its end says whose it is.
            None => {
                let end = kept.offsets.range(at..).next().map(|(_, end)| end.lineage);
                (end == Some(offset.lineage)).then_some(at)
            }
        }
    }

    fn create(&mut self, draw: &Draw) {
        let Draw::Create {
            path,
            json,
            ttl,
            closes,
            messages,
            fork,
            must_be_new,
        } = draw
        else {
            return;
        };
        let (name, path) = path_of(*path);
        let body = MESSAGES[..usize::from(*messages)].concat();
        let fork = fork.as_ref().map(|(source, place, sub)| {
            let offset = self.offset(place);
            let sub = if offset.is_some() { *sub } else { 0 };
            (path_of(*source), offset, sub)
        });
        // A body whose type only the source tells comes as it was sent.
        let source = fork
            .as_ref()
            .and_then(|((source, _), ..)| self.model.find(source));
        let is_raw = json.is_none() && source.is_some_and(|source| source.is_json);
        let sent = match is_raw && !body.is_empty() {
            true => streams::json::array(body.as_bytes()),
            false => body.clone().into_bytes(),
        };
        let request = Request::Create(Box::new(Create {
            path,
            media: json.map(media),
            lifetime: ttl.map_or(Lifetime::Endless, |seconds| Lifetime::Idle { seconds }),
            retention: streams::Retention::default(),
            closes: *closes,
            body: sent,
            fork: fork.clone().map(|((_, source), offset, sub)| ForkFrom {
                source,
                offset,
                sub,
            }),
            must_be_new: *must_be_new,
        }));
        let answer = self.execute(&request);
        let now_ms = self.rows.time_ms;
        self.model.expire(name, now_ms);
        let expected_fork = fork
            .clone()
            .map(|((source, _), offset, sub)| (source.to_owned(), offset, sub));
        if let Some(kept) = self.model.find(name) {
            let is_same_fork = match (&kept.asked_fork, &expected_fork) {
                (None, None) => true,
                (Some((source, made, sub)), Some((other, asked, other_sub))) => {
                    // Another spelling of the same offset is the same.
                    let is_same_offset = match (made, asked) {
                        (None, Some(_)) | (Some(_), None) => None,
                        (made, asked) if made == asked => Some(true),
                        (Some(made), Some(asked)) => {
                            (made.position != asked.position).then_some(false)
                        }
                        (None, None) => Some(true),
                    };
                    match is_same_offset {
                        Some(is) => is && source == other && sub == other_sub,
                        // Whether it is the same is told by the answer alone.
                        None => matches!(answer, Answer::Found(_)),
                    }
                }
                _ => false,
            };
            // Bytes of no said type are octets.
            let is_same_type = match (json, &expected_fork) {
                (None, Some(_)) => true,
                (json, _) => *json == kept.said,
            };
            match answer {
                _ if kept.is_deleted => assert_eq!(answer, Answer::Refused(Refusal::Differs)),
                _ if *must_be_new => assert_eq!(answer, Answer::Refused(Refusal::Exists)),
                Answer::Found(place) => {
                    assert!(is_same_fork && is_same_type, "{draw:?}");
                    assert_eq!(kept.asked_ttl, *ttl);
                    assert_eq!(kept.is_closed, *closes);
                    assert_eq!(place.tail, kept.offsets[&kept.bytes.len()]);
                }
                Answer::Refused(Refusal::Differs) => {
                    let is_same = is_same_fork
                        && is_same_type
                        && kept.asked_ttl == *ttl
                        && kept.is_closed == *closes;
                    assert!(!is_same, "{draw:?} on {kept:?}");
                }
                other => panic!("{other:?} to {draw:?}"),
            }
            return;
        }
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        let mut offsets = BTreeMap::new();
        let (mut source_made, mut said, mut own_ttl) = (None, *json, *ttl);
        if let Some(((source, _), offset, sub)) = &fork {
            self.model.expire(source, now_ms);
            let Some(kept) = self.model.find(source) else {
                return assert_eq!(answer, Answer::Refused(Refusal::SourceNotFound));
            };
            if kept.is_deleted {
                return assert_eq!(answer, Answer::Refused(Refusal::SourceDeleted));
            }
            let at = match offset {
                None => Some(kept.bytes.len()),
                Some(offset) => Run::position(kept, *offset),
            };
            let is_end = |at: usize| at == 0 || kept.bytes[at - 1] == b'\n';
            let Some(at) = at.filter(|at| !kept.is_json || is_end(*at)) else {
                return assert_eq!(answer, Answer::Refused(Refusal::ForkOffset));
            };
            let end = kept
                .ends
                .iter()
                .find(|end| **end > at)
                .copied()
                .unwrap_or(at);
            let behind = &kept.bytes[at..end];
            let length = match (kept.is_json, *sub) {
                (_, 0) => Some(0),
                (true, sub) => {
                    let mut lines = behind
                        .iter()
                        .enumerate()
                        .filter(|(_, byte)| **byte == b'\n');
                    let end = lines.nth(sub as usize - 1);
                    end.map(|(end, _)| end + 1)
                }
                (false, sub) => Some(sub as usize).filter(|sub| *sub <= behind.len()),
            };
            let Some(length) = length else {
                return assert_eq!(answer, Answer::Refused(Refusal::ForkSub));
            };
            if json.is_some() && *json != kept.said {
                return assert_eq!(answer, Answer::Refused(Refusal::ForkMedia));
            }
            let at = at + length;
            bytes.extend_from_slice(&kept.bytes[..at]);
            ends.extend(kept.ends.iter().copied().filter(|end| *end < at));
            if at > 0 {
                ends.push(at);
            }
            offsets.extend(kept.offsets.range(..=at).map(|(at, offset)| (*at, *offset)));
            let lineage = kept.offsets.range(at..).next().map(|(_, end)| end.lineage);
            offsets.insert(
                at,
                Offset {
                    lineage: lineage.expect("the tail at least"),
                    position: at as u64,
                },
            );
            said = kept.said;
            source_made = Some(self.model.by_path[*source]);
            own_ttl = ttl.or(kept.ttl);
        }
        let Answer::Created(place) = answer else {
            panic!("{answer:?} to {draw:?}");
        };
        let inherited = bytes.len();
        if !body.is_empty() {
            bytes.extend_from_slice(body.as_bytes());
            ends.push(bytes.len());
        }
        if fork.is_none() {
            offsets.insert(
                0,
                Offset {
                    lineage: place.id,
                    position: 0,
                },
            );
        }
        offsets.entry(bytes.len()).or_insert(place.tail);
        assert_eq!(place.tail, offsets[&bytes.len()]);
        assert_eq!(place.is_closed, *closes);
        if !body.is_empty() {
            assert_eq!(place.tail.lineage, place.id);
        }
        self.model.made += 1;
        let made = self.model.made;
        self.model.by_path.insert(name.to_owned(), made);
        self.model.kept.insert(
            made,
            Kept {
                made,
                said,
                is_json: said == Some(true),
                bytes,
                inherited,
                ends,
                offsets,
                is_closed: *closes,
                sequence: None,
                producers: BTreeMap::new(),
                ttl: own_ttl,
                asked_ttl: *ttl,
                touched_ms: now_ms,
                source: source_made,
                asked_fork: expected_fork,
                is_deleted: false,
            },
        );
    }

    fn append(&mut self, draw: &Draw) {
        let Draw::Append {
            path,
            json,
            messages,
            closes,
            sequence,
            producer,
            expected,
        } = draw
        else {
            return;
        };
        let (name, path) = path_of(*path);
        let body = MESSAGES[..usize::from(*messages).min(4)].concat();
        let producer = producer.map(|(id, epoch, sequence)| Producer {
            id: format!("p{id}"),
            epoch,
            sequence,
            ..Producer::default()
        });
        let wanted = expected.as_ref().and_then(|place| self.offset(place));
        let request = Request::Append(Box::new(Append {
            path,
            principal: String::new(),
            media: Some(media(*json)),
            body: body.clone().into_bytes(),
            closes: *closes,
            sequence: sequence.map(|sequence| sequence.to_string()),
            producer: producer.clone(),
            expected: wanted.map(Expected::At),
        }));
        let answer = self.execute(&request);
        let now_ms = self.rows.time_ms;
        self.model.expire(name, now_ms);
        let Some(made) = self.model.by_path.get(name).copied() else {
            return assert_eq!(answer, Answer::Refused(Refusal::NotFound));
        };
        let kept = self.model.kept.get_mut(&made).expect("it is there");
        if kept.is_deleted {
            return assert_eq!(answer, Answer::Refused(Refusal::Deleted));
        }
        let tail = kept.offsets[&kept.bytes.len()];
        let before = producer
            .as_ref()
            .and_then(|producer| kept.producers.get(&producer.id).copied());
        if let (Some(producer), Some((epoch, last))) = (&producer, before) {
            if producer.epoch < epoch {
                return assert_eq!(
                    answer,
                    Answer::Refused(Refusal::StaleEpoch { current: epoch })
                );
            }
            if producer.epoch == epoch && producer.sequence <= last {
                let Answer::Known { place, produced } = answer else {
                    panic!("{answer:?} to {draw:?}");
                };
                assert_eq!((place.tail, produced), (tail, Some((epoch, last))));
                return;
            }
        }
        if kept.is_closed {
            match *closes && body.is_empty() && producer.is_none() {
                true => assert!(matches!(answer, Answer::Known { .. }), "{answer:?}"),
                false => {
                    let Answer::Refused(Refusal::Closed(place)) = answer else {
                        panic!("{answer:?} to {draw:?}");
                    };
                    assert_eq!(place.tail, tail);
                }
            }
            return;
        }
        if body.is_empty() && !closes {
            return assert_eq!(answer, Answer::Refused(Refusal::EmptyBody));
        }
        if !body.is_empty() && kept.said != Some(*json) {
            let is_told = matches!(answer, Answer::Refused(Refusal::Media { .. }));
            return assert!(is_told, "{answer:?}");
        }
        if let Some(producer) = &producer {
            let next = match before {
                Some((epoch, last)) if epoch == producer.epoch => last + 1,
                Some(_) if producer.sequence != 0 => {
                    return assert_eq!(answer, Answer::Refused(Refusal::EpochBegins));
                }
                _ => 0,
            };
            if producer.sequence != next {
                let gap = Refusal::Gap {
                    expected: next,
                    received: producer.sequence,
                };
                return assert_eq!(answer, Answer::Refused(gap));
            }
        }
        if let Some(wanted) = wanted {
            let is_it = match wanted.lineage {
                0 => wanted.position == tail.position,
                _ => wanted == tail,
            };
            if !is_it {
                let is_told = matches!(answer, Answer::Refused(Refusal::Unexpected(_)));
                return assert!(is_told, "{answer:?}");
            }
        }
        let sequence = sequence.map(|sequence| sequence.to_string());
        if let (Some(sequence), Some(last)) = (&sequence, &kept.sequence)
            && sequence <= last
        {
            let last = last.clone();
            return assert_eq!(answer, Answer::Refused(Refusal::Sequence { last }));
        }
        let Answer::Appended { place, produced } = answer else {
            panic!("{answer:?} to {draw:?} on {kept:?}");
        };
        kept.bytes.extend_from_slice(body.as_bytes());
        if !body.is_empty() {
            kept.ends.push(kept.bytes.len());
            assert_eq!(place.tail.lineage, place.id, "its own bytes end there");
        }
        assert_eq!(place.tail.position, kept.bytes.len() as u64);
        let known = kept.offsets.entry(kept.bytes.len()).or_insert(place.tail);
        assert_eq!(*known, place.tail);
        assert_eq!(
            produced,
            producer
                .as_ref()
                .map(|producer| (producer.epoch, producer.sequence))
        );
        if let Some(producer) = producer {
            kept.producers
                .insert(producer.id, (producer.epoch, producer.sequence));
        }
        kept.sequence = sequence.or(kept.sequence.take());
        kept.is_closed = *closes;
        kept.touched_ms = now_ms;
    }

    fn read(&mut self, path: u8, place: &Place, bytes_max: usize) {
        let (name, path) = path_of(path);
        let from = match place {
            Place::Zero(0) => From::Start,
            Place::Tail => From::Tail,
            place => self.offset(place).map_or(From::Start, From::At),
        };
        let found = streams::read(&mut self.rows, &path, from, bytes_max);
        let Ok(found) = found else {
            panic!("unreadable");
        };
        let Some(kept) = self.model.find(name) else {
            return assert_eq!(found, Found::Nothing);
        };
        if kept.is_deleted {
            return assert_eq!(found, Found::Deleted);
        }
        let at = match from {
            From::Start => Some(0),
            From::Tail => Some(kept.bytes.len()),
            From::At(offset) => Run::position(kept, offset),
        };
        let is_end = |at: usize| at == 0 || kept.bytes[at - 1] == b'\n';
        let Some(at) = at.filter(|at| !kept.is_json || is_end(*at)) else {
            let is_refused = matches!(found, Found::OtherOffset | Found::WrongOffset);
            return assert!(is_refused, "{found:?}");
        };
        let Found::There(read) = found else {
            panic!("{found:?} from {from:?} of {kept:?}");
        };
        let rest = &kept.bytes[at..];
        assert!(rest.starts_with(&read.bytes), "of stream {}", kept.made);
        assert_eq!(read.is_at_tail(), read.bytes.len() == rest.len());
        assert_eq!(read.is_last(), read.is_at_tail() && kept.is_closed);
        let ends: Vec<usize> = kept.ends.iter().copied().filter(|end| *end > at).collect();
        let expected: Vec<usize> = ends
            .iter()
            .map(|end| end - at)
            .take(read.ends.len())
            .collect();
        assert_eq!(read.ends, expected, "whole appends");
        assert!(read.bytes.len() >= bytes_max || read.is_at_tail());
        let before_last = read.ends.len().checked_sub(2).map(|last| read.ends[last]);
        assert!(before_last.is_none_or(|end| end < bytes_max));
        let to = at + read.bytes.len();
        if let Some(known) = kept.offsets.get(&to) {
            assert_eq!(read.next, *known);
        }
        assert_eq!(read.standing.place.tail, kept.offsets[&kept.bytes.len()]);
    }

    fn step(&mut self, draw: &Draw) {
        match draw {
            Draw::Create { .. } => self.create(draw),
            Draw::Append { .. } => self.append(draw),
            Draw::Read(path, place, bytes_max) => self.read(*path, place, *bytes_max),
            Draw::Wait(ms) => self.rows.time_ms += ms,
            Draw::Delete(path) => {
                let (name, path) = path_of(*path);
                let answer = self.execute(&Request::Delete { path });
                self.model.expire(name, self.rows.time_ms);
                match self.model.find(name).map(|kept| kept.is_deleted) {
                    None => assert_eq!(answer, Answer::Refused(Refusal::NotFound)),
                    Some(true) => assert_eq!(answer, Answer::Refused(Refusal::Deleted)),
                    Some(false) => {
                        assert_eq!(answer, Answer::Deleted);
                        self.model.remove(self.model.by_path[name]);
                    }
                }
            }
            Draw::Touch(path, uses) => {
                let (name, path) = path_of(*path);
                let uses = *uses;
                let answer = self.execute(&Request::Touch { path, uses });
                let now_ms = self.rows.time_ms;
                self.model.expire(name, now_ms);
                let made = self.model.by_path.get(name).copied();
                let kept = made.and_then(|made| self.model.kept.get_mut(&made));
                match kept {
                    None => assert_eq!(answer, Answer::Refused(Refusal::NotFound)),
                    Some(kept) if kept.is_deleted => {
                        assert_eq!(answer, Answer::Refused(Refusal::Deleted));
                    }
                    Some(kept) => {
                        assert_eq!(answer, Answer::Touched);
                        // What is used within an eighth is not noted.
                        let is_noted = kept
                            .ttl
                            .is_some_and(|ttl| now_ms - kept.touched_ms >= (ttl * 125).max(1));
                        if uses && is_noted {
                            kept.touched_ms = now_ms;
                        }
                    }
                }
            }
            Draw::Sweep => {
                // Until nothing is left to be done.
                let now_ms = self.rows.time_ms;
                for _ in 0..20 {
                    self.execute(&Request::Sweep { streams_max: 2 });
                }
                assert!(matches!(streams::due(&mut self.rows, now_ms), Ok(false)));
                for name in PATHS {
                    self.model.expire(name, now_ms);
                }
            }
        }
    }

    fn end(mut self) {
        let Ok((listed, more)) = streams::list(&mut self.rows, "", None, 3) else {
            panic!("unreadable");
        };
        let there: Vec<&String> = self
            .model
            .by_path
            .iter()
            .filter(|(_, made)| !self.model.kept[made].is_deleted)
            .map(|(path, _)| path)
            .collect();
        let listed: Vec<&String> = listed.iter().map(|listed| &listed.path).collect();
        assert_eq!(listed, there[..listed.len()]);
        assert!(more.is_some() || listed.len() == there.len());
        let blocks = |kept: &Kept| {
            (kept.bytes.len() - kept.inherited).div_ceil(streams::BLOCK_BYTES as usize)
        };
        let blocks: usize = self.model.kept.values().map(blocks).sum();
        let Ok(usage) = streams::usage(&mut self.rows) else {
            panic!("unreadable");
        };
        assert_eq!(usage.bytes, blocks as u64 * streams::BLOCK_BYTES);
        assert_eq!(usage.streams, self.model.kept.len() as u64);
        // All deleted, nothing is left but the numbers.
        for _ in 0..2 {
            for path in 0..4 {
                let (_, path) = path_of(path);
                self.execute(&Request::Delete { path });
            }
        }
        let tags: Vec<u8> = self.rows.rows.keys().map(|key| key[0]).collect();
        assert!(tags.iter().all(|tag| *tag == b'i'), "{tags:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn a_space_does_as_the_model_says(draws in prop::collection::vec(draw(), 1..60)) {
        let mut run = Run { rows: Memory::default(), model: Model::default() };
        run.rows.time_ms = 1_000_000;
        for draw in &draws {
            run.step(draw);
        }
        run.end();
    }
}

fn executed(rows: &mut Memory, request: Request) -> Answer {
    let Ok(answer) = streams::execute(rows, &request);
    answer
}

fn created(rows: &mut Memory, path: &str, body: &[u8]) -> Answer {
    executed(
        rows,
        Request::Create(Box::new(Create {
            path: Path::new(path).expect("a name"),
            media: Some(media(false)),
            lifetime: Lifetime::Endless,
            retention: streams::Retention::default(),
            closes: false,
            body: body.to_vec(),
            fork: None,
            must_be_new: false,
        })),
    )
}

#[test]
fn a_long_append_is_one_however_many_rows_it_has() {
    let mut rows = Memory::default();
    let long: Vec<u8> = (0..3 * streams::CHUNK_BYTES + 7)
        .map(|at| at as u8)
        .collect();
    created(&mut rows, "a", b"short");
    let path = Path::new("a").expect("a name");
    let append = Append {
        path: path.clone(),
        principal: String::new(),
        media: Some(media(false)),
        body: long.clone(),
        closes: false,
        sequence: None,
        producer: None,
        expected: None,
    };
    executed(&mut rows, Request::Append(Box::new(append)));
    let Ok(Found::There(read)) = streams::read(&mut rows, &path, From::Start, 6) else {
        panic!("it is there");
    };
    assert_eq!(read.ends, [5, 5 + long.len()]);
    assert_eq!(read.bytes[5..], long);
    // From within a row, and from within a later one.
    for at in [1, 6, 5 + streams::CHUNK_BYTES as u64 + 1] {
        let offset = Offset {
            lineage: 0,
            position: at,
        };
        let Ok(Found::There(read)) = streams::read(&mut rows, &path, From::At(offset), 1 << 30)
        else {
            panic!("it is there");
        };
        let all = [b"short", &long[..]].concat();
        assert_eq!(read.bytes, all[at as usize..]);
    }
}

#[test]
fn the_thousand_and_first_producer_takes_the_place_of_one_that_is_long_unused() {
    let mut rows = Memory::default();
    created(&mut rows, "a", b"");
    let append = |id: u32| {
        Request::Append(Box::new(Append {
            path: Path::new("a").expect("a name"),
            principal: String::new(),
            media: Some(media(false)),
            body: b"x".to_vec(),
            closes: false,
            sequence: None,
            producer: Some(Producer {
                id: id.to_string(),
                epoch: 0,
                sequence: 0,
                ..Producer::default()
            }),
            expected: None,
        }))
    };
    for id in 0..streams::PRODUCERS_MAX {
        rows.time_ms += 1;
        let answer = executed(&mut rows, append(id));
        assert!(matches!(answer, Answer::Appended { .. }));
    }
    let before = rows.rows.clone();
    let refused = executed(&mut rows, append(5_000));
    assert_eq!(refused, Answer::Refused(Refusal::ManyProducers));
    assert_eq!(rows.rows, before);
    // The first half is old now.
    rows.time_ms += streams::PRODUCER_KEPT_MS - 500;
    for id in 5_000..5_400 {
        let answer = executed(&mut rows, append(id));
        assert!(matches!(answer, Answer::Appended { .. }), "{id}");
    }
    let Answer::Known { .. } = executed(&mut rows, append(999)) else {
        panic!("the younger half is remembered");
    };
}

#[test]
fn an_offset_of_a_stream_that_was_made_again_is_refused() {
    let mut rows = Memory::default();
    let Answer::Created(place) = created(&mut rows, "a", b"before") else {
        panic!("it is made");
    };
    let path = Path::new("a").expect("a name");
    executed(&mut rows, Request::Delete { path: path.clone() });
    created(&mut rows, "a", b"longer than before");
    let from = From::At(place.tail);
    let found = streams::read(&mut rows, &path, from, 100);
    assert!(matches!(found, Ok(Found::OtherOffset)));
}

fn appended(path: &str, body: &[u8], producer: Producer) -> Request {
    Request::Append(Box::new(Append {
        path: Path::new(path).expect("a name"),
        principal: String::new(),
        media: Some(media(false)),
        body: body.to_vec(),
        closes: false,
        sequence: None,
        producer: Some(producer),
        expected: None,
    }))
}

#[test]
fn a_producer_that_tries_for_a_short_time_makes_room_soon() {
    let mut rows = Memory {
        time_ms: 10 * streams::PRODUCER_KEPT_MS,
        ..Memory::default()
    };
    created(&mut rows, "a", b"");
    let once = |id: u32| {
        let producer = Producer {
            id: id.to_string(),
            kept_ms: Some(600_000),
            ..Producer::default()
        };
        appended("a", b"x", producer)
    };
    for id in 0..streams::PRODUCERS_MAX {
        executed(&mut rows, once(id));
    }
    rows.time_ms += 600_000;
    let refused = executed(&mut rows, once(5_000));
    assert_eq!(refused, Answer::Refused(Refusal::ManyProducers));
    let Answer::Known { .. } = executed(&mut rows, once(7)) else {
        panic!("it is remembered for as long as it tries");
    };
    rows.time_ms += 1;
    let answer = executed(&mut rows, once(5_000));
    assert!(matches!(answer, Answer::Appended { .. }), "{answer:?}");
}

#[test]
fn other_bytes_under_a_known_number_are_refused_where_that_is_asked_for() {
    let mut rows = Memory::default();
    created(&mut rows, "a", b"");
    let number = |sequence, is_compared| Producer {
        id: "p".to_owned(),
        sequence,
        is_compared,
        ..Producer::default()
    };
    executed(&mut rows, appended("a", b"first", number(0, true)));
    executed(&mut rows, appended("a", b"second", number(1, true)));
    let before = rows.rows.clone();
    let refused = executed(&mut rows, appended("a", b"2nd", number(1, true)));
    assert_eq!(refused, Answer::Refused(Refusal::OtherBody { sequence: 1 }));
    for known in [
        appended("a", b"second", number(1, true)),
        // The protocol compares no bytes.
        appended("a", b"2nd", number(1, false)),
    ] {
        let answer = executed(&mut rows, known);
        assert!(matches!(answer, Answer::Known { .. }), "{answer:?}");
    }
    assert_eq!(rows.rows, before);
}

#[test]
fn an_offset_of_a_space_that_was_brought_back_is_none_of_a_new_stream() {
    let mut rows = Memory {
        time_ms: 1_000_000,
        ..Memory::default()
    };
    let backup = rows.rows.clone();
    let place = |answer: Answer| match answer {
        Answer::Created(place) => place,
        other => panic!("{other:?}"),
    };
    let old = place(created(&mut rows, "a", b"one;two;three;"));
    // The rows are those of the backup again, and time went on.
    rows.rows = backup;
    rows.time_ms += 1;
    let new = place(created(&mut rows, "a", b"other;bytes;here;"));
    assert!(old.id < new.id);
    let path = Path::new("a").expect("a name");
    let from = From::At(old.tail);
    let read = streams::read(&mut rows, &path, from, 1 << 20).expect("rows");
    assert_eq!(read, Found::OtherOffset);
}

#[test]
fn a_space_keeps_as_much_as_its_limits_say_and_what_is_known_is_answered_above_them() {
    let mut rows = Memory::default();
    let limit = |rows: &mut Memory, streams: Option<u64>, bytes: Option<u64>| {
        let change = LimitsChange {
            streams: Some(streams),
            bytes: Some(bytes),
            ..LimitsChange::default()
        };
        executed(rows, Request::Limit(Box::new(change)))
    };
    let used = |rows: &mut Memory| {
        let Ok(usage) = streams::usage(rows) else {
            panic!("unreadable");
        };
        (usage.streams, usage.bytes)
    };
    let by = |sequence| Producer {
        id: "p".to_owned(),
        sequence,
        ..Producer::default()
    };
    let Answer::Limits(limits) = limit(&mut rows, Some(2), Some(3 * 4_096)) else {
        panic!("they make sense");
    };
    assert_eq!((limits.streams, limits.bytes), (Some(2), Some(3 * 4_096)));
    created(&mut rows, "a", b"x");
    created(&mut rows, "b", b"");
    assert_eq!(used(&mut rows), (2, 4_096));
    let before = rows.rows.clone();
    let refused = created(&mut rows, "c", b"");
    assert_eq!(
        refused,
        Answer::Refused(Refusal::StreamsLimit { streams: 2 })
    );
    assert_eq!(rows.rows, before);
    let two = vec![b'y'; 2 * 4_096];
    let Answer::Appended { .. } = executed(&mut rows, appended("b", &two, by(0))) else {
        panic!("there is room");
    };
    assert_eq!(used(&mut rows), (2, 3 * 4_096));
    let before = rows.rows.clone();
    let refused = executed(&mut rows, appended("b", b"z", by(1)));
    assert_eq!(
        refused,
        Answer::Refused(Refusal::ManyBytes { bytes: 3 * 4_096 })
    );
    assert_eq!(rows.rows, before);
    // What is known takes nothing, and the block that was begun has room.
    let known = executed(&mut rows, appended("b", &two, by(0)));
    assert!(matches!(known, Answer::Known { .. }), "{known:?}");
    let within = executed(&mut rows, appended("a", b"z", by(0)));
    assert!(matches!(within, Answer::Appended { .. }), "{within:?}");
    // Less than there is: nothing goes, and nothing comes.
    limit(&mut rows, None, Some(1));
    assert_eq!(used(&mut rows), (2, 3 * 4_096));
    let path = Path::new("b").expect("a name");
    executed(&mut rows, Request::Delete { path });
    assert_eq!(used(&mut rows), (1, 4_096));
    let refused = created(&mut rows, "c", b"x");
    assert_eq!(refused, Answer::Refused(Refusal::ManyBytes { bytes: 1 }));
    limit(&mut rows, None, None);
    created(&mut rows, "c", b"x");
    let wrong = limit(&mut rows, Some(0), None);
    assert!(matches!(wrong, Answer::Refused(Refusal::BadLimits(_))));
}
