//! How far the state of a log of kind `state` stands on one node.

use crate::codec::{DecodeError, Encode, Reader};

/// A replica's state: the place in its log's output that it stands for.
///
/// Units: bytes of the log's output, from its very beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stand {
    /// All of the output below is applied.
    pub applied: u64,
    /// So far a crash takes it back; at or below `applied`.
    pub durable: u64,
    /// ‡ The log is needed from here on: the last frame that is durable begins here, and shows whoever starts again that the
    /// state is of this log's history. At or below `durable`.
    pub needed_from: u64,
    /// It is exactly what the output below `applied` comes to. One that is being copied is not.
    pub is_whole: bool,
    /// The room that it takes on that node's disk, in bytes. For estimates.
    pub disk_bytes: u64,
    /// The last one that was taken of it.
    pub mark: Option<Mark>,
}

/// All rows of a state after one prefix of its log, in short. Replicas that applied the same have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The end of the prefix, in bytes of the log's output.
    pub position: u64,
    pub rows: u64,
    /// Over each row in the order of keys: the lengths of its key and its value, u32 little-endian, and both.
    pub crc32c: u32,
}

impl Stand {
    /// The log holds this state itself, by snapshots: bytes that were trimmed are in none.
    pub const IN_LOG: Stand = Stand {
        applied: u64::MAX,
        durable: u64::MAX,
        needed_from: u64::MAX,
        is_whole: true,
        disk_bytes: 0,
        mark: None,
    };

    /// Whether it stands for all of the output below this position, whatever crashes.
    pub fn holds(&self, position: u64) -> bool {
        self.is_whole && self.durable >= position
    }
}

impl Encode for Stand {
    const BYTES_MIN: usize = 34;
    fn put(&self, out: &mut Vec<u8>) {
        self.applied.put(out);
        self.durable.put(out);
        self.needed_from.put(out);
        self.is_whole.put(out);
        self.disk_bytes.put(out);
        self.mark.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<Stand, DecodeError> {
        let stand = Stand {
            applied: u64::parse(from)?,
            durable: u64::parse(from)?,
            needed_from: u64::parse(from)?,
            is_whole: bool::parse(from)?,
            disk_bytes: u64::parse(from)?,
            mark: Option::parse(from)?,
        };
        match stand.needed_from <= stand.durable && stand.durable <= stand.applied {
            true => Ok(stand),
            false => Err(DecodeError::Invalid(
                "a state that is durable and not applied",
            )),
        }
    }
}

impl Encode for Mark {
    const BYTES_MIN: usize = 20;
    fn put(&self, out: &mut Vec<u8>) {
        self.position.put(out);
        self.rows.put(out);
        self.crc32c.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<Mark, DecodeError> {
        Ok(Mark {
            position: u64::parse(from)?,
            rows: u64::parse(from)?,
            crc32c: u32::parse(from)?,
        })
    }
}
