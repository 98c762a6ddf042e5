//! The values of a space's rows: a byte with their version, then their fields.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::media::MediaType;
use crate::offset::Offset;
use crate::request::{Lifetime, Retention};

const VERSION: u8 = 1;

/// Bytes of appends begin with one of these.
pub const BEGINS: u8 = 0;
pub const GOES_ON: u8 = 1;

pub fn encode(value: &impl Serialize) -> Vec<u8> {
    // Into memory, of types that have a form in it: there is nothing that could fail.
    postcard::to_extend(value, vec![VERSION]).unwrap_or_default()
}

/// `None`: a newer program wrote it, or nothing of ours did.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let fields = bytes.strip_prefix(&[VERSION])?;
    postcard::from_bytes(fields).ok()
}

/// The row of [`NUMBERS`](crate::keys::NUMBERS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    /// Ids begin at 1, and are not below the time at which they are given.
    pub next: u64,
    /// Soft-deleted ones too.
    pub streams: u64,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers {
            next: 1,
            streams: 0,
        }
    }
}

/// What stays of a stream from its making on, but for its forks and its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    pub path: String,
    pub media: MediaType,
    pub lifetime: Lifetime,
    pub asked: Asked,
    /// Whose bytes come before its own, in order: those of the streams that it was forked from.
    pub inherited: Vec<Segment>,
    /// The stream that it was forked from, which stays while it is counted there.
    pub source: Option<u64>,
    /// Streams that were forked from it, and are there.
    pub forks: u32,
    pub is_deleted: bool,
    /// Where its row of expiries stands.
    pub queued_ms: Option<u64>,
    pub retention: Retention,
}

impl Stream {
    /// `None`: as [`decode`] says.
    pub fn decode(bytes: &[u8]) -> Option<Stream> {
        // An older program wrote no retention behind the rest.
        decode(bytes).or_else(|| decode(&[bytes, &encode(&Retention::default())[1..]].concat()))
    }
}

/// What the request said that made it: another that says the same finds it as it wants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    pub lifetime: Lifetime,
    pub fork: Option<AskedFork>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedFork {
    pub source: String,
    pub offset: Option<Offset>,
    /// Where that was.
    pub resolved: Offset,
    pub sub: u64,
}

/// Bytes of another stream: from the end of the segment before up to this position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    pub id: u64,
    pub to: u64,
}

/// What an append changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tail {
    /// Bytes from the beginning, inherited ones too.
    pub position: u64,
    pub closed: Option<Closed>,
    /// The last `Stream-Seq`.
    pub sequence: Option<String>,
    /// When it was read or written last, by the log's time; see [`Lifetime`].
    pub touched_ms: u64,
    /// The position of the first byte that is left.
    pub first: u64,
    /// When its last mark was made, of a stream whose bytes have an age.
    pub marked_ms: u64,
    /// When something was appended last. ‡ A read is a use, and makes no byte younger.
    pub appended_ms: u64,
}

impl Tail {
    /// `None`: as [`decode`] says.
    pub fn decode(bytes: &[u8]) -> Option<Tail> {
        // An older program took nothing away, and wrote nothing of it behind the rest.
        decode(bytes).or_else(|| decode(&[bytes, &[0, 0, 0]].concat()))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// The producer that did: its principal, its id, epoch and sequence.
    pub by: Option<(String, String, u64, u64)>,
}

/// What a producer appended last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Produced {
    pub epoch: u64,
    pub sequence: u64,
    pub used_ms: u64,
    /// CRC-32C of the bytes of that append. `None`: an older program wrote the row.
    pub digest: Option<u32>,
}

impl Produced {
    /// `None`: as [`decode`] says.
    pub fn decode(bytes: &[u8]) -> Option<Produced> {
        let before = || {
            let (epoch, sequence, used_ms) = decode(bytes)?;
            Some(Produced {
                epoch,
                sequence,
                used_ms,
                digest: None,
            })
        };
        decode(bytes).or_else(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_is_read_and_what_is_newer_is_not() {
        let tail = Tail {
            position: 7,
            closed: Some(Closed {
                by: Some(("me".to_owned(), "p".to_owned(), 1, 2)),
            }),
            sequence: Some("a".to_owned()),
            touched_ms: 1 << 41,
            first: 0,
            marked_ms: 0,
            appended_ms: 0,
        };
        let bytes = encode(&tail);
        assert_eq!(Tail::decode(&bytes), Some(tail.clone()));
        // As it was written before streams could be trimmed.
        assert_eq!(Tail::decode(&bytes[..bytes.len() - 3]), Some(tail.clone()));
        let first = Tail {
            first: 300,
            ..tail.clone()
        };
        assert_eq!(Tail::decode(&encode(&first)), Some(first));
        assert_eq!(decode::<Tail>(&bytes[..bytes.len() - 1]), None);
        assert_eq!(decode::<Tail>(&[&[2], &bytes[1..]].concat()), None);
        assert_eq!(decode::<Tail>(&[]), None);
        let produced = Produced {
            epoch: 1,
            sequence: 300,
            used_ms: 5,
            digest: Some(7),
        };
        // Golden bytes: rows on disks are read by later programs.
        assert_eq!(encode(&produced), [1, 1, 0xac, 2, 5, 1, 7]);
        assert_eq!(Produced::decode(&encode(&produced)), Some(produced));
        let digest = None;
        let before = Produced { digest, ..produced };
        assert_eq!(Produced::decode(&[1, 1, 0xac, 2, 5]), Some(before));
        assert_eq!(Produced::decode(&[1, 1, 0xac]), None);
        assert_eq!(encode(&Numbers::default()), [1, 1, 0]);
    }
}
