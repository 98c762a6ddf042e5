//! The sends of a connection, and which bytes go out in one call.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ops::{Completion, ConnId, Slice};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sendmsg, shutdown};

use crate::handed::Seal;
use crate::landing::{self, Region};
use crate::limits::SLICES_MAX;

pub(super) struct Sends {
    conn: ConnId,
    queue: VecDeque<Sending>,
    /// The kernel reports an error once; we report it for all later sends.
    failure: Option<Errno>,
    /// Our end of the stream is said; later sends fail, and that is no failure of the connection.
    shut: bool,
}

enum Sending {
    /// Everything before byte `offset` of slice `first` is with the kernel.
    Bytes {
        slices: Vec<Slice>,
        first: usize,
        offset: usize,
    },
    Shutdown,
}

impl Sends {
    pub fn new(conn: ConnId) -> Sends {
        Sends {
            conn,
            queue: VecDeque::new(),
            failure: None,
            shut: false,
        }
    }

    pub fn push(&mut self, slices: Vec<Slice>) {
        self.queue.push_back(Sending::Bytes {
            slices,
            first: 0,
            offset: 0,
        });
    }

    pub fn push_shutdown(&mut self) {
        self.queue.push_back(Sending::Shutdown);
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Nothing is sent any more.
    pub fn break_with(&mut self, errno: Errno) {
        self.failure = Some(errno);
    }

    /// Settles what needs no bytes moved, at the front; whether there are bytes then that the socket, if
    /// there is one, may send.
    pub fn has_bytes(
        &mut self,
        socket: Option<&Arc<OwnedFd>>,
        seal: &mut Option<Box<dyn Seal>>,
        completions: &mut Vec<Completion>,
    ) -> bool {
        loop {
            if let Some(errno) = self.failure {
                self.fail(&|| errno.into(), completions);
                return false;
            }
            let Some(socket) = socket else {
                return false;
            };
            match self.queue.front() {
                None => return false,
                Some(Sending::Shutdown) => {
                    // Fails only on a connection that is gone, and then nobody waits for our end.
                    match seal {
                        Some(seal) => _ = seal.seal_end(),
                        None => _ = shutdown(socket, Shutdown::Write),
                    }
                    self.shut = true;
                    self.queue.pop_front();
                }
                Some(Sending::Bytes { .. }) if self.shut => {
                    self.fail(&|| Errno::PIPE.into(), completions);
                    return false;
                }
                Some(Sending::Bytes { slices, first, .. }) if *first == slices.len() => {
                    self.queue.pop_front();
                    completions.push(Completion::Sent {
                        conn: self.conn,
                        result: Ok(()),
                    });
                }
                Some(Sending::Bytes { .. }) => return true,
            }
        }
    }

    /// Sends what is next, at most `bytes_max`; returns how much that was to be.
    pub fn send_next(&self, socket: &OwnedFd, bytes_max: usize) -> (usize, Result<usize, Errno>) {
        send_next(socket, &self.queue, bytes_max)
    }

    /// Seals what is next in the place of `send_next`: the connection flushes it.
    pub fn seal_next(
        &self,
        seal: &mut dyn Seal,
        bytes_max: usize,
    ) -> (usize, Result<usize, Errno>) {
        let (slices, length) = gather(&self.queue, bytes_max, |slice, range| {
            Some(IoSlice::new(&slice[range]))
        });
        match length {
            0 => (0, Ok(0)),
            // It takes some. Whether the socket takes more, it is not asked.
            _ => match seal.seal(&slices) {
                Ok(count) => (count, Ok(count)),
                Err(errno) => (length, Err(errno)),
            },
        }
    }

    /// The next slices, `bytes_max` bytes at most, and their length.
    pub fn slices(&self, bytes_max: usize) -> (Vec<Slice>, usize) {
        gather(&self.queue, bytes_max, |slice, range| {
            Some(slice.within(range))
        })
    }

    /// Moves the mark over `count` bytes, and over empty slices behind them.
    pub fn on_sent(&mut self, mut count: usize) {
        for sending in &mut self.queue {
            let Sending::Bytes {
                slices,
                first,
                offset,
            } = sending
            else {
                break;
            };
            while let Some(slice) = slices.get(*first) {
                let step = count.min(slice.len() - *offset);
                count -= step;
                *offset += step;
                if *offset < slice.len() {
                    return;
                }
                *first += 1;
                *offset = 0;
            }
        }
    }

    pub fn fail(&mut self, error: &dyn Fn() -> io::Error, completions: &mut Vec<Completion>) {
        for sending in self.queue.drain(..) {
            if let Sending::Bytes { .. } = sending {
                completions.push(Completion::Sent {
                    conn: self.conn,
                    result: Err(error()),
                });
            }
        }
    }
}

/// Sends what is next in the queue, at most `bytes_max`; returns how much that was to be.
fn send_next(
    socket: &OwnedFd,
    sends: &VecDeque<Sending>,
    bytes_max: usize,
) -> (usize, Result<usize, Errno>) {
    // A part of a file goes out in a call of its own, and follows at once.
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
fn gather<'a, T>(
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
            let mut given = Sends::new(ConnId(0));
            given.queue = sends(&[&[10, 0, 20], &[], &[30]]);
            given.on_sent(first);
            assert_eq!(parts(&given.queue, 1000).1, 60 - first);
        }
    }
}
