//! What is asked of a space where its log is led, and what it answers.

use paxos::mutation::{self, Mutation};
use serde::{Deserialize, Serialize};

use crate::limits::{Limits, LimitsChange};
use crate::media::MediaType;
use crate::offset::Offset;
use crate::path::Path;

/// A request that may write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    Create(Box<Create>),
    Append(Box<Append>),
    Delete {
        path: Path,
    },
    /// Somebody reads a stream whose time runs from its last use, or has run out.
    Touch {
        path: Path,
        /// Whether that is a use of it.
        uses: bool,
    },
    /// Removes streams whose time has run out: at most so many.
    Sweep {
        streams_max: u32,
    },
    /// Changes the limits of the space.
    Limit(Box<LimitsChange>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Create {
    pub path: Path,
    /// The body is of it, too.
    pub media: Option<MediaType>,
    pub lifetime: Lifetime,
    pub retention: Retention,
    pub closes: bool,
    /// Of JSON: messages as [`json::messages`](crate::json::messages) has them, if the type is said here.
    #[serde(with = "serde_bytes")]
    pub body: Vec<u8>,
    pub fork: Option<ForkFrom>,
    /// Refused if the stream is there, however it was made.
    pub must_be_new: bool,
}

/// How long a stream stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lifetime {
    #[default]
    Endless,
    /// So many seconds from its last use on, and up to an eighth more.
    ///
    /// ‡ A read within an eighth of that time from the last noted use is not noted, so the eighth is added for all.
    Idle { seconds: u64 },
    /// Until this time.
    Until { ms: u64 },
}

/// How much of a stream stays: all of it, unless a bound is set. What is beyond either bound may be taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// The last bytes of it.
    pub bytes: Option<u64>,
    /// The bytes that were appended since.
    pub age_ms: Option<u64>,
}

impl Lifetime {
    /// It is over at this time, if nothing more happens.
    pub fn ends_ms(&self, touched_ms: u64) -> Option<u64> {
        match self {
            Lifetime::Endless => None,
            Lifetime::Until { ms } => Some(*ms),
            Lifetime::Idle { seconds } => {
                let ms = seconds.saturating_mul(1_000);
                let eighth = match mutation::is(Mutation::EighthNotAdded) {
                    true => 0,
                    false => ms / 8,
                };
                Some(touched_ms.saturating_add(ms).saturating_add(eighth))
            }
        }
    }

    /// Whether a use at this time is to be noted.
    pub fn notes_use(&self, touched_ms: u64, now_ms: u64) -> bool {
        match self {
            Lifetime::Idle { seconds } => {
                let eighth = seconds.saturating_mul(1_000) / 8;
                let is_due = now_ms.saturating_sub(touched_ms) >= eighth.max(1);
                is_due && !mutation::is(Mutation::UseNotNoted)
            }
            Lifetime::Endless | Lifetime::Until { .. } => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkFrom {
    pub source: Path,
    /// The source's tail, if none is said.
    pub offset: Option<Offset>,
    /// So much of the append behind it: bytes, or messages of JSON.
    pub sub: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Append {
    pub path: Path,
    /// Who asks: producers of others are others.
    pub principal: String,
    /// There is one if there is a body.
    pub media: Option<MediaType>,
    /// As that of [`Create`].
    #[serde(with = "serde_bytes")]
    pub body: Vec<u8>,
    pub closes: bool,
    /// It is greater than that of the append before, byte by byte.
    pub sequence: Option<String>,
    pub producer: Option<Producer>,
    pub expected: Option<Expected>,
}

/// An append of a producer is applied once, however often it is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Producer {
    pub id: String,
    pub epoch: u64,
    pub sequence: u64,
    /// It asks for nothing twice after so long, and may be forgotten by then if there is no room for another.
    pub kept_ms: Option<u64>,
    /// Other bytes than those that it appended under its last sequence are refused, and not taken for known.
    pub is_compared: bool,
}

/// The tail that an append wants to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expected {
    At(Offset),
    /// Of this stream, by its id, at this position: what the tag of a read says.
    Of {
        id: u64,
        position: u64,
    },
}

/// What everybody may know of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub id: u64,
    pub media: MediaType,
    pub tail: Offset,
    pub is_closed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Created(Place),
    /// It was there, as it was asked for.
    Found(Place),
    Appended {
        place: Place,
        /// The highest sequence of this producer's epoch.
        produced: Option<(u64, u64)>,
    },
    /// It was done before.
    Known {
        place: Place,
        produced: Option<(u64, u64)>,
    },
    Deleted,
    Touched,
    /// So many streams were removed; there may be more.
    Swept {
        streams: u32,
    },
    Refused(Refusal),
    /// The limits as they are now.
    Limits(Box<Limits>),
}

/// Why nothing was done, but that streams whose time was over are gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    NotFound,
    /// It was deleted, and its forks hold its bytes.
    Deleted,
    /// There is one of this name, made otherwise.
    Differs,
    /// It is there, and was to be new.
    Exists,
    SourceNotFound,
    SourceDeleted,
    /// The fork's offset is none of its source's.
    ForkOffset,
    /// The source has not so much behind the fork's offset, in one append.
    ForkSub,
    /// The fork's type is not its source's.
    ForkMedia,
    /// A fork of a fork of a fork …
    ForkDepth,
    Closed(Place),
    Media {
        is: MediaType,
    },
    StaleEpoch {
        current: u64,
    },
    /// A new epoch begins with another sequence than 0.
    EpochBegins,
    Gap {
        expected: u64,
        received: u64,
    },
    /// The tail is another.
    Unexpected(Place),
    Sequence {
        last: String,
    },
    ManyProducers,
    ManyStreams,
    NotJson(String),
    EmptyBody,
    /// The stream has as many bytes as positions have digits for.
    Full,
    /// A row that this program cannot read.
    Unreadable,
    /// The producer appended other bytes under this sequence.
    OtherBody {
        sequence: u64,
    },
    /// The space may have no more streams, by its limits.
    StreamsLimit {
        streams: u64,
    },
    /// … no more bytes.
    ManyBytes {
        bytes: u64,
    },
    /// A change of limits makes no sense, for this reason.
    BadLimits(String),
}

impl Request {
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// `None`: these bytes are no request.
    pub fn decode(bytes: &[u8]) -> Option<Request> {
        postcard::from_bytes(bytes).ok()
    }
}

impl Answer {
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// `None`: these bytes are no answer.
    pub fn decode(bytes: &[u8]) -> Option<Answer> {
        postcard::from_bytes(bytes).ok()
    }
}
