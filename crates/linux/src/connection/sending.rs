//! What is queued to be sent, and which bytes go out in one call.

use std::collections::VecDeque;
use std::ops::Range;

use node::buffer::Slice;

use super::SLICES_MAX;

pub(super) enum Sending {
    /// Everything before byte `offset` of slice `first` is with the kernel.
    Bytes {
        slices: Vec<Slice>,
        first: usize,
        offset: usize,
    },
    Shutdown,
}

/// The unsent bytes of the queue up to `bytes_max` and up to the next shutdown, and their number.
pub(super) fn gather<'a, T>(
    sends: &'a VecDeque<Sending>,
    bytes_max: usize,
    part: impl Fn(&'a Slice, Range<usize>) -> T,
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
                gathered.push(part(slice, skip..end));
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
    use super::super::{Connection, Phase};
    use super::*;
    use node::op::ConnId;

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
        gather(sends, bytes_max, |_, range| range)
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
