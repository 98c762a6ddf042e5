//! Requests that clients of named streams draw, by what they were told before.

use std::collections::BTreeMap;

use streams::{
    Answer, Append, BLOCK_BYTES, Create, Expected, ForkFrom, From, Lifetime, LimitsChange,
    MediaType, Offset, Path, Place, Producer, Request, Retention,
};

/// The first two stay mostly; the second is of JSON; the third and the fourth are often made anew, as forks of others; the time of the last is over when
/// nobody uses it.
pub const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const JSON: usize = 1;
const FORKS: [usize; 2] = [2, 3];
pub const IDLE: usize = 4;
pub const IDLE_SECONDS: u64 = 2;
const PRINCIPALS: [&str; 2] = ["", "other"];
const OFFSETS_KEPT: usize = 24;

/// What clients were told.
#[derive(Default)]
pub struct Known {
    /// Places of streams, by name; the latest is the last.
    places: BTreeMap<String, Vec<(u64, Offset)>>,
    /// Epoch and sequence of producers, by stream, principal and id.
    producers: BTreeMap<(String, String, String), (u64, u64)>,
    medias: BTreeMap<String, MediaType>,
    tokens: u64,
}

type Below<'a> = &'a mut dyn FnMut(u64) -> u64;

pub fn path(text: &str) -> Path {
    Path::new(text).expect("a name")
}

fn media(name: usize) -> MediaType {
    let text = match name == JSON {
        true => "application/json",
        false => "text/plain",
    };
    MediaType::new(text).expect("a type")
}

/// Limits: mostly there is none, and no other keeps the streams from their work for long.
pub fn limit(below: Below<'_>) -> Request {
    Request::Limit(Box::new(LimitsChange {
        streams: Some((below(3) == 0).then(|| 3 + below(4))),
        bytes: Some((below(3) == 0).then(|| BLOCK_BYTES * (3 + below(4)))),
        ..LimitsChange::default()
    }))
}

impl Known {
    pub fn on_answer(&mut self, request: &Request, answer: &Answer) {
        let place = match answer {
            Answer::Created(place) | Answer::Found(place) => place,
            Answer::Appended { place, .. } | Answer::Known { place, .. } => place,
            _ => return,
        };
        let path = match request {
            Request::Create(create) => &create.path,
            Request::Append(append) => &append.path,
            _ => return,
        };
        self.on_place(path.as_str(), place);
        if let (Request::Append(append), Answer::Appended { produced, .. }) = (request, answer)
            && let (Some(producer), Some(produced)) = (&append.producer, produced)
        {
            let name = path.as_str().to_owned();
            let of = (name, append.principal.clone(), producer.id.clone());
            let known = self.producers.entry(of).or_default();
            *known = (*known).max(*produced);
        }
    }

    pub fn on_place(&mut self, name: &str, place: &Place) {
        let places = self.places.entry(name.to_owned()).or_default();
        places.push((place.id, place.tail));
        if places.len() > OFFSETS_KEPT {
            places.remove(0);
        }
        self.medias.insert(name.to_owned(), place.media.clone());
    }

    /// A place that was given out: mostly of this stream, and often its latest.
    fn place(&self, below: Below<'_>, name: &str) -> Option<(u64, Offset)> {
        let places = self.places.get(name)?;
        let back = match below(2) {
            0 => 0,
            _ => below(places.len() as u64) as usize,
        };
        places.get(places.len() - 1 - back).copied()
    }

    fn offset(&self, below: Below<'_>, name: &str) -> Option<Offset> {
        let (_, offset) = self.place(below, name)?;
        Some(match below(8) {
            0 => Offset {
                lineage: 0,
                ..offset
            },
            // Within an append, perhaps.
            1 => Offset {
                position: offset.position.saturating_sub(1 + below(4)),
                ..offset
            },
            2 => Offset {
                lineage: 1 + below(9),
                ..offset
            },
            _ => offset,
        })
    }

    fn body(&mut self, below: Below<'_>, is_json: bool) -> Vec<u8> {
        let mut body = String::new();
        for _ in 0..1 + below(3) {
            self.tokens += 1;
            let token = self.tokens;
            match is_json {
                true => body += &format!("\"t{token}\"\n"),
                false => body += &format!("t{token},"),
            }
        }
        body.into_bytes()
    }

    fn is_json(&self, name: &str, is_else: bool) -> bool {
        let media = self.medias.get(name);
        media.map_or(is_else, MediaType::is_json)
    }

    pub fn request(&mut self, below: Below<'_>) -> Request {
        let at = below(NAMES.len() as u64) as usize;
        let name = NAMES[at];
        match below(24) {
            0..=4 => self.create(below, at),
            5..=20 => self.append(below, at),
            21 if at > JSON || below(4) == 0 => Request::Delete { path: path(name) },
            _ => Request::Touch {
                path: path(NAMES[IDLE]),
                uses: below(4) > 0,
            },
        }
    }

    fn create(&mut self, below: Below<'_>, at: usize) -> Request {
        let source = below(NAMES.len() as u64 - 1) as usize;
        let is_fork = FORKS.contains(&at) && below(3) > 0;
        let fork = is_fork.then(|| {
            let offset = self.offset(below, NAMES[source]);
            let has_sub = offset.is_some() && below(3) == 0;
            ForkFrom {
                source: path(NAMES[source]),
                offset: offset.filter(|_| has_sub || below(3) > 0),
                sub: if has_sub { 1 + below(8) } else { 0 },
            }
        });
        let media = match &fork {
            Some(fork) => {
                let known = self.medias.get(fork.source.as_str()).cloned();
                known.unwrap_or_else(|| media(source))
            }
            None => media(at),
        };
        let is_json = media.is_json();
        let lifetime = match at == IDLE {
            true => Lifetime::Idle {
                seconds: IDLE_SECONDS,
            },
            false => Lifetime::Endless,
        };
        Request::Create(Box::new(Create {
            path: path(NAMES[at]),
            media: Some(media),
            lifetime,
            retention: Retention::default(),
            closes: below(40) == 0,
            body: match below(2) {
                0 => self.body(below, is_json),
                _ => Vec::new(),
            },
            fork,
            must_be_new: below(8) == 0,
        }))
    }

    fn append(&mut self, below: Below<'_>, at: usize) -> Request {
        let name = NAMES[at];
        let is_json = self.is_json(name, at == JSON);
        let producer = (below(3) == 0).then(|| {
            let principal = PRINCIPALS[below(2) as usize];
            let id = format!("p{}", below(2));
            let of = (name.to_owned(), principal.to_owned(), id.clone());
            let known = self.producers.get(&of).copied();
            let (epoch, sequence) = match (known, below(8)) {
                (None, 0) => (0, 1),
                (None, _) => (0, 0),
                // Again, or a later one than the next.
                (Some((epoch, sequence)), 0 | 1) => (epoch, sequence),
                (Some((epoch, sequence)), 2) => (epoch, sequence + 2),
                (Some((epoch, _)), 3) => (epoch + 1, below(2)),
                (Some((epoch, sequence)), 4) => (epoch.saturating_sub(1), sequence + 1),
                (Some((epoch, sequence)), _) => (epoch, sequence + 1),
            };
            let producer = Producer {
                id,
                epoch,
                sequence,
                ..Producer::default()
            };
            (principal.to_owned(), producer)
        });
        let (principal, producer) = match producer {
            Some((principal, producer)) => (principal, Some(producer)),
            None => (String::new(), None),
        };
        let expected = match below(6) {
            0 => self.offset(below, name).map(Expected::At),
            1 => self.place(below, name).map(|(id, offset)| Expected::Of {
                id,
                position: offset.position,
            }),
            _ => None,
        };
        let sequence =
            (below(6) == 0).then(|| format!("{:04}", self.tokens.saturating_sub(below(60))));
        let is_other = below(24) == 0;
        let closes = below(80) == 0;
        Request::Append(Box::new(Append {
            path: path(name),
            principal,
            media: Some(match is_json != is_other {
                true => media(JSON),
                false => media(IDLE),
            }),
            body: match closes && below(2) == 0 {
                true => Vec::new(),
                false => self.body(below, is_json),
            },
            closes,
            sequence,
            producer,
            expected,
        }))
    }

    /// Where somebody reads: which stream, from where, and how much.
    pub fn read(&mut self, below: Below<'_>, names: usize) -> (&'static str, From, usize) {
        let name = NAMES[below(names as u64) as usize];
        let of = match below(6) {
            0 => NAMES[below(NAMES.len() as u64) as usize],
            _ => name,
        };
        let from = match below(8) {
            0 => From::Start,
            1 => From::Tail,
            _ => self.offset(below, of).map_or(From::Start, From::At),
        };
        (name, from, 1 + below(60) as usize)
    }
}
