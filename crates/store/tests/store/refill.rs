//! A replica that catches up while it takes part: old and new bytes of a stream side by side.

use formats::{RECORD_HEADER, digest};
use ops::Time;
use paxos::StreamPosition;
use store::NewRecord;

use crate::kernel::script::{Truth, content, new_store, read, settle, stream};

const LIVE: u64 = 1 << 30;
const PIECE: u64 = 5_000;

#[test]
fn what_came_while_old_bytes_were_fetched_is_found_at_once() {
    let (mut store, mut kernel) = new_store(5);
    let truth = Truth::default();
    let mut tag = 0;
    while store.segments() < 30 {
        if store.wants_roll() {
            store.roll(&truth.checkpoint(), truth.context());
        }
        for begin in [0, LIVE] {
            let position = begin + tag / 2 * PIECE;
            tag += 1;
            let buffer = content(stream(1), position..position + PIECE);
            let record = NewRecord::Bytes {
                stream: stream(1),
                position: StreamPosition(position),
                length: PIECE as usize,
                digest: digest(&buffer[RECORD_HEADER..][..PIECE as usize]),
                buffer,
            };
            store.append(record, truth.context(), tag);
            settle(&mut store, &mut kernel, Time::ZERO);
        }
    }
    // An index that nobody used of late is not in memory any more; the second finds it there.
    for (position, reads) in [(0, 2), (LIVE, 1)] {
        kernel.reads = 0;
        let count = read(&mut store, &mut kernel, stream(1), position);
        assert_eq!(count.expect("it is sound"), PIECE);
        assert_eq!(kernel.reads, reads, "at {position}");
    }
}
