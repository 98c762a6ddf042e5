//! The streams of a log as its list names them, held beside the log's output.
//!
//! A list that is too short would make a backup that is whole and lacks acknowledged bytes. A read of the log counts them by itself:
//! both come from the same leader, by different ways, and what lies between may change an answer.

use super::take::TakeError;
use crate::admin::StreamInfo;
use crate::{Client, ReadError, ReadOptions};

/// A log that is trimmed each time it is looked at is looked at so often.
const LOOKS_MAX: u32 = 3;

/// The part of a log's output that is left, in bytes of all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    from: u64,
    to: u64,
}

impl Client {
    /// The streams of a log, which together are as long as what was chosen of it.
    pub(super) fn listed(&self, log: &str) -> Result<Vec<StreamInfo>, TakeError> {
        for _ in 0..LOOKS_MAX {
            let before = self.extent(log)?;
            let streams = self.streams(log)?;
            let after = self.extent(log)?;
            if before.from != after.from {
                continue;
            }
            // A node's lengths may have no sum at all.
            let listed = streams.iter().try_fold(0u64, |sum, info| {
                sum.checked_add(info.length.checked_sub(info.trimmed)?)
            });
            let bounds = before.to - before.from..=after.to - after.from;
            return match listed {
                Some(listed) if bounds.contains(&listed) => Ok(streams),
                listed => Err(TakeError::Contradiction {
                    log: log.to_owned(),
                    listed: listed.unwrap_or(0),
                    held: *bounds.end(),
                }),
            };
        }
        Err(TakeError::Trimmed)
    }

    fn extent(&self, log: &str) -> Result<Extent, TakeError> {
        let mut from = 0;
        for _ in 0..LOOKS_MAX {
            // Its length is asked for, and none of its bytes.
            let options = ReadOptions {
                from,
                to: Some(from),
                ..ReadOptions::default()
            };
            match self.read(log, options) {
                Ok(reader) => {
                    let to = reader.length().max(from);
                    return Ok(Extent { from, to });
                }
                Err(ReadError::Trimmed { from: left }) if left > from => from = left,
                Err(error) => return Err(TakeError::Read(error)),
            }
        }
        Err(TakeError::Trimmed)
    }
}
