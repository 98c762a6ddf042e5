//! What is queued to be sent, and which bytes go out in one call.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::OwnedFd;

use ops::Slice;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use crate::landing::{self, Region};
use crate::limits::SLICES_MAX;

pub(super) enum Sending {
    /// Everything before byte `offset` of slice `first` is with the kernel.
    Bytes {
        slices: Vec<Slice>,
        first: usize,
        offset: usize,
    },
    Shutdown,
}

/// Sends what is next in the queue, at most `bytes_max`; returns how much that was to be.
pub(super) fn send_next(
    socket: &OwnedFd,
    sends: &VecDeque<Sending>,
    bytes_max: usize,
) -> (usize, Result<usize, Errno>) {
    // What is in a file goes out in a call of its own, and follows at once.
    let mut in_file = None;
    let (slices, length) = gather(sends, bytes_max, |slice, range| {
        in_file = region_in_file(slice, &range);
        in_file.is_none().then(|| IoSlice::new(&slice[range]))
    });
    let mut flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match in_file {
        Some((region, range)) if slices.is_empty() => {
            return (range.len(), region.send(socket, range));
        }
        Some(_) => flags |= SendFlags::MORE,
        None if slices.is_empty() => return (0, Ok(0)),
        None => {}
    }
    let sent = sendmsg(socket, &slices, &mut SendAncillaryBuffer::default(), flags);
    (length, sent)
}

/// Less than that is sent from memory.
const IN_FILE_MIN: usize = 4096;

/// The part of a file that these bytes are, and which of its bytes.
fn region_in_file<'a>(
    slice: &'a Slice,
    range: &Range<usize>,
) -> Option<(&'a Region, Range<usize>)> {
    if range.len() < IN_FILE_MIN {
        return None;
    }
    let (region, start) = landing::region_of(slice)?;
    region.stands_at()?;
    Some((region, start + range.start..start + range.end))
}

/// The unsent bytes of the queue up to `bytes_max`, up to the next shutdown and as long as `part` takes
/// them, and their number.
pub(super) fn gather<'a, T>(
    sends: &'a VecDeque<Sending>,
    bytes_max: usize,
    mut part: impl FnMut(&'a Slice, Range<usize>) -> Option<T>,
) -> (Vec<T>, usize) {
    let mut gathered = Vec::with_capacity(16);
    let mut length = 0;
    for sending in sends {
        let Sending::Bytes {
            slices,
            first,
            offset,
        } = sending
        else {
            break;
        };
        let mut skip = *offset;
        for slice in &slices[*first..] {
            let end = slice.len().min(skip + bytes_max - length);
            if skip < end {
                let Some(part) = part(slice, skip..end) else {
                    return (gathered, length);
                };
                gathered.push(part);
                length += end - skip;
            }
            skip = 0;
            if length == bytes_max || gathered.len() == SLICES_MAX {
                return (gathered, length);
            }
        }
    }
    (gathered, length)
}

#[cfg(test)]
mod tests {
    use ops::ConnId;

    use super::super::{Connection, Phase};
    use super::*;

    fn sends(lengths: &[&[usize]]) -> VecDeque<Sending> {
        lengths
            .iter()
            .map(|lengths| Sending::Bytes {
                slices: lengths
                    .iter()
                    .map(|length| Slice::copied_from(&vec![1; *length]))
                    .collect(),
                first: 0,
                offset: 0,
            })
            .collect()
    }

    fn parts(sends: &VecDeque<Sending>, bytes_max: usize) -> (Vec<Range<usize>>, usize) {
        gather(sends, bytes_max, |_, range| Some(range))
    }

    #[test]
    fn several_sends_go_out_in_one_call_up_to_the_limit() {
        let mut queue = sends(&[&[10, 0, 20], &[30]]);
        assert_eq!(parts(&queue, 1000).1, 60);
        assert_eq!(
            parts(&queue, 1000).0.len(),
            3,
            "the empty slice is left out"
        );
        assert_eq!(parts(&queue, 35).1, 35);
        queue.insert(1, Sending::Shutdown);
        assert_eq!(parts(&queue, 1000).1, 30, "nothing overtakes a shutdown");
    }

    #[test]
    fn partial_sends_are_continued_where_they_stopped() {
        for first in 0..=60 {
            let mut connection = Connection::new(ConnId(0), Phase::Resolving);
            connection.sends = sends(&[&[10, 0, 20], &[], &[30]]);
            connection.on_sent(first);
            assert_eq!(parts(&connection.sends, 1000).1, 60 - first);
        }
    }
}
