//! Reads and lists, as of one moment.

use paxos::mutation::{self, Mutation};

use crate::chain::Chain;
use crate::keys;
use crate::limits::{BLOCK_BYTES, Limits, Usage};
use crate::offset::{From, Offset};
use crate::path::Path;
use crate::request::{Lifetime, Place, Retention};
use crate::rows::View;
use crate::stored::{self, Numbers, Stream, Tail};

/// A read ends behind the append with which it has so many bytes.
pub const READ_BYTES_MAX: usize = 1 << 20;
/// … or behind so many appends.
pub const READ_ROWS_MAX: usize = 16_384;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    Nothing,
    /// It was deleted, and its forks hold its bytes.
    Deleted,
    /// The offset is of another stream, or of one of this name before.
    OtherOffset,
    /// The offset is before what is left of the stream.
    Trimmed {
        first: Offset,
    },
    /// The offset is behind the tail, or within a message.
    WrongOffset,
    There(T),
}

/// A stream as it is known to all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub place: Place,
    /// The rest that is left begins there.
    pub first: Offset,
    pub retention: Retention,
    pub lifetime: Lifetime,
    pub touched_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub standing: Standing,
    pub from: Offset,
    pub bytes: Vec<u8>,
    /// Where each append ends, counted from the beginning of the bytes. The last is their length.
    pub ends: Vec<usize>,
    pub next: Offset,
    chain: Chain,
}

impl Read {
    /// The offset behind so many of the bytes.
    pub fn offset_at(&self, bytes: usize) -> Offset {
        self.chain.offset(self.from.position + bytes as u64)
    }

    /// The offset at this position of the stream.
    pub fn offset_of(&self, position: u64) -> Offset {
        self.chain.offset(position)
    }

    pub fn is_at_tail(&self) -> bool {
        self.next == self.standing.place.tail
    }

    /// Nothing follows, ever.
    pub fn is_last(&self) -> bool {
        self.is_at_tail() && self.standing.place.is_closed
    }
}

impl Standing {
    /// Whether its time is over, by this clock.
    pub fn is_over(&self, now_ms: u64) -> bool {
        let ends = self.lifetime.ends_ms(self.touched_ms);
        ends.is_some_and(|ends| ends <= now_ms)
    }

    /// Whether a read at this time has to be noted where the log is led before it is answered.
    pub fn notes_use(&self, now_ms: u64) -> bool {
        self.lifetime.notes_use(self.touched_ms, now_ms)
    }
}

/// Why a read has no answer.
#[derive(Debug)]
pub enum Failed<S> {
    Stop(S),
    /// A row that this program cannot read.
    Unreadable,
}

type Outcome<T, V> = Result<T, Failed<<V as View>::Stop>>;

struct There {
    id: u64,
    stream: Stream,
    tail: Tail,
}

impl There {
    fn chain(&self) -> Chain {
        Chain::of(self.id, &self.stream, self.tail.position)
    }

    fn standing(&self) -> Standing {
        Standing {
            place: Place {
                id: self.id,
                media: self.stream.media.clone(),
                tail: self.chain().offset(self.tail.position),
                is_closed: self.tail.closed.is_some(),
            },
            first: self.chain().offset(self.tail.first),
            retention: self.stream.retention,
            lifetime: self.stream.lifetime,
            touched_ms: self.tail.touched_ms,
        }
    }
}

fn row<V: View, T: serde::de::DeserializeOwned>(view: &mut V, key: &[u8]) -> Outcome<Option<T>, V> {
    let Some(bytes) = view.get(key).map_err(Failed::Stop)? else {
        return Ok(None);
    };
    let decoded = stored::decode(&bytes).ok_or(Failed::Unreadable);
    decoded.map(Some)
}

fn find<V: View>(view: &mut V, path: &Path) -> Outcome<Found<There>, V> {
    let name = view.get(&keys::name(path.as_str())).map_err(Failed::Stop)?;
    let Some(name) = name else {
        return Ok(Found::Nothing);
    };
    let id = name.try_into().map_err(|_| Failed::Unreadable)?;
    of_id(view, u64::from_be_bytes(id))
}

fn of_id<V: View>(view: &mut V, id: u64) -> Outcome<Found<There>, V> {
    let bytes = view.get(&keys::stream(id)).map_err(Failed::Stop)?;
    let stream = bytes.and_then(|bytes| Stream::decode(&bytes));
    let stream = stream.ok_or(Failed::Unreadable)?;
    if stream.is_deleted {
        return Ok(Found::Deleted);
    }
    let bytes = view.get(&keys::tail(id)).map_err(Failed::Stop)?;
    let tail = bytes.and_then(|bytes| Tail::decode(&bytes));
    let tail = tail.ok_or(Failed::Unreadable)?;
    Ok(Found::There(There { id, stream, tail }))
}

/// The stream of this name.
///
/// Errors: those of the rows.
pub fn stand<V: View>(view: &mut V, path: &Path) -> Outcome<Found<Standing>, V> {
    Ok(match find(view, path)? {
        Found::There(there) => Found::There(there.standing()),
        Found::Deleted => Found::Deleted,
        _ => Found::Nothing,
    })
}

/// Whole appends of this stream, from a place on: as many as have so many bytes together, and at least one if there is one.
///
/// Errors: those of the rows.
pub fn read<V: View>(
    view: &mut V,
    path: &Path,
    from: From,
    bytes_max: usize,
) -> Outcome<Found<Read>, V> {
    let there = match find(view, path)? {
        Found::There(there) => there,
        Found::Deleted => return Ok(Found::Deleted),
        _ => return Ok(Found::Nothing),
    };
    let (chain, tail) = (there.chain(), there.tail.position);
    let first = there.tail.first;
    let from = match from {
        From::Start => chain.offset(first),
        From::Tail => chain.offset(tail),
        From::At(offset) => {
            let known = chain.offset(offset.position);
            let is_of_other = offset.lineage != 0 && offset != known;
            if is_of_other && !mutation::is(Mutation::LineageIgnored) {
                return Ok(Found::OtherOffset);
            }
            if offset.position > tail {
                return Ok(Found::WrongOffset);
            }
            if offset.position < first && !mutation::is(Mutation::TrimmedIsEmpty) {
                let first = chain.offset(first);
                return Ok(Found::Trimmed { first });
            }
            known
        }
    };
    let is_json = there.stream.media.is_json();
    if is_json {
        let ends = chain.ends_message(view, from.position);
        if !ends.map_err(Failed::Stop)? {
            return Ok(Found::WrongOffset);
        }
    }
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    let rows_first = READ_ROWS_MAX.min(bytes_max / 64 + 1);
    chain
        .read(view, from.position, rows_first, |piece| {
            if piece.begins && !bytes.is_empty() {
                ends.push(bytes.len());
                if bytes.len() >= bytes_max || ends.len() >= READ_ROWS_MAX {
                    return false;
                }
            }
            bytes.extend_from_slice(piece.bytes);
            true
        })
        .map_err(Failed::Stop)?;
    if !bytes.is_empty() && ends.last() != Some(&bytes.len()) {
        ends.push(bytes.len());
    }
    let next = chain.offset(from.position + bytes.len() as u64);
    Ok(Found::There(Read {
        standing: there.standing(),
        from,
        bytes,
        ends,
        next,
        chain,
    }))
}

/// A stream in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub path: String,
    pub standing: Standing,
}

/// Streams in the order of their names, whose names begin so and come after another: at most so many; and the name that the last one looked at has, if
/// there are more. Soft-deleted ones are left out.
///
/// Errors: those of the rows.
pub fn list<V: View>(
    view: &mut V,
    prefix: &str,
    after: Option<&str>,
    streams_max: usize,
) -> Outcome<(Vec<Listed>, Option<String>), V> {
    let begin = keys::name(prefix);
    let to = match prefix.is_empty() {
        true => keys::NAMES_END.to_vec(),
        false => keys::behind(&begin),
    };
    let from = match after.map(keys::name) {
        Some(after) if after >= begin => [&after[..], &[0]].concat(),
        _ => begin,
    };
    let page = view.range(&from, &to, streams_max).map_err(Failed::Stop)?;
    let mut listed = Vec::new();
    for (key, id) in &page.rows {
        let path = keys::path_in(key).ok_or(Failed::Unreadable)?;
        let id: [u8; 8] = id[..].try_into().map_err(|_| Failed::Unreadable)?;
        if let Found::There(there) = of_id(view, u64::from_be_bytes(id))? {
            listed.push(Listed {
                path: path.to_owned(),
                standing: there.standing(),
            });
        }
    }
    let last = page.rows.last().filter(|_| !page.is_last);
    let last = last.and_then(|(key, _)| keys::path_in(key));
    Ok((listed, last.map(str::to_owned)))
}

/// Whether streams are to be looked after by this time: theirs may be over.
///
/// Errors: those of the rows.
pub fn due<V: View>(view: &mut V, now_ms: u64) -> Outcome<bool, V> {
    let (from, to) = keys::expiries_until(now_ms);
    let page = view.range(&from, &to, 1).map_err(Failed::Stop)?;
    Ok(!page.rows.is_empty())
}

/// The limits of the space.
///
/// Errors: those of the rows.
pub fn limits<V: View>(view: &mut V) -> Outcome<Limits, V> {
    let limits = row(view, keys::LIMITS)?;
    Ok(limits.unwrap_or_default())
}

/// The limits of the space, and how much of them is used.
///
/// Errors: those of the rows.
pub fn usage<V: View>(view: &mut V) -> Outcome<Usage, V> {
    let limits = limits(view)?;
    let numbers: Option<Numbers> = row(view, keys::NUMBERS)?;
    let kept: Option<u64> = row(view, keys::KEPT)?;
    Ok(Usage {
        limits,
        streams: numbers.unwrap_or_default().streams,
        bytes: kept.unwrap_or(0).saturating_mul(BLOCK_BYTES),
    })
}
