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
    /// It is exactly what the output below `applied` comes to. One that is being copied is not.
    pub is_whole: bool,
}

impl Stand {
    /// The log holds this state itself, by snapshots: bytes that were trimmed are in none.
    pub const IN_LOG: Stand = Stand {
        applied: u64::MAX,
        durable: u64::MAX,
        is_whole: true,
    };

    /// Whether it stands for all of the output below this position, whatever crashes.
    pub fn holds(&self, position: u64) -> bool {
        self.is_whole && self.durable >= position
    }
}

impl Encode for Stand {
    const BYTES_MIN: usize = 17;
    fn put(&self, out: &mut Vec<u8>) {
        self.applied.put(out);
        self.durable.put(out);
        self.is_whole.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<Stand, DecodeError> {
        let stand = Stand {
            applied: u64::parse(from)?,
            durable: u64::parse(from)?,
            is_whole: bool::parse(from)?,
        };
        match stand.durable <= stand.applied {
            true => Ok(stand),
            false => Err(DecodeError::Invalid(
                "a state that is durable and not applied",
            )),
        }
    }
}
