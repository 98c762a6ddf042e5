//! The keys of a space's rows. Numbers are big-endian, so that rows lie in the order of their numbers.
//!
//! ```text
//!  'i'                             the next stream's id, and how many streams there are
//!  'n' path                        the id of the stream of this path, a soft-deleted one's too
//!  's' id u64                      what was said when it was made
//!  't' id u64                      its tail
//!  'p' id u64 │ principal 0 │ producer     what this producer appended last
//!  'q' id u64 │ principal          how many producers of this principal are remembered
//!  'd' id u64 │ position u64       bytes of one append
//!  'm' id u64 │ time u64           its tail at that time: what lies before is older
//!  'e' time u64 │ id u64           to be looked at then: it may have expired, or have bytes that are too old
//!  'l'                             the limits of the space
//!  'k'                             how many blocks of bytes all streams have
//!  'h' id u64                      … and one of them that is soft-deleted
//! ```
//!
//! ‡ Ids are never used again: the rows of a stream that is gone are forgotten by prefixes.

pub const NUMBERS: &[u8] = b"i";
const NAME: u8 = b'n';
const STREAM: u8 = b's';
const TAIL: u8 = b't';
const PRODUCER: u8 = b'p';
const PRODUCERS: u8 = b'q';
const DATA: u8 = b'd';
const MARK: u8 = b'm';
const EXPIRY: u8 = b'e';
pub const LIMITS: &[u8] = b"l";
pub const KEPT: &[u8] = b"k";
const HELD: u8 = b'h';

fn of(tag: u8, id: u64) -> Vec<u8> {
    [&[tag][..], &id.to_be_bytes()].concat()
}

pub fn name(path: &str) -> Vec<u8> {
    [&[NAME][..], path.as_bytes()].concat()
}

/// The path in a row of names.
pub fn path_in(key: &[u8]) -> Option<&str> {
    let path = key.strip_prefix(&[NAME])?;
    std::str::from_utf8(path).ok()
}

/// The rows of the stream whose name's row this is: what was said when it was made, and its tail.
pub fn rows_behind(key: &[u8], value: &[u8]) -> Vec<Vec<u8>> {
    match (path_in(key), value.try_into()) {
        (Some(_), Ok(id)) => {
            let id = u64::from_be_bytes(id);
            vec![stream(id), tail(id)]
        }
        _ => Vec::new(),
    }
}

/// The key behind all names.
pub const NAMES_END: &[u8] = &[NAME + 1];

pub fn stream(id: u64) -> Vec<u8> {
    of(STREAM, id)
}

pub fn tail(id: u64) -> Vec<u8> {
    of(TAIL, id)
}

/// The stream whose tail this row is: it was appended to, closed, touched, made or removed. For whoever wakes readers.
pub fn stream_of_tail_row(key: &[u8]) -> Option<u64> {
    let id = key.strip_prefix(&[TAIL])?;
    id.try_into().ok().map(u64::from_be_bytes)
}

/// The blocks of a soft-deleted stream.
pub fn held(id: u64) -> Vec<u8> {
    of(HELD, id)
}

/// All producers of a stream.
pub fn producers(id: u64) -> Vec<u8> {
    of(PRODUCER, id)
}

/// Those of one principal.
pub fn producers_of(id: u64, principal: &str) -> Vec<u8> {
    [&producers(id)[..], principal.as_bytes(), &[0]].concat()
}

pub fn producer(id: u64, principal: &str, producer: &str) -> Vec<u8> {
    [&producers_of(id, principal)[..], producer.as_bytes()].concat()
}

/// The counts of a stream's producers.
pub fn producer_counts(id: u64) -> Vec<u8> {
    of(PRODUCERS, id)
}

pub fn producer_count(id: u64, principal: &str) -> Vec<u8> {
    [&producer_counts(id)[..], principal.as_bytes()].concat()
}

/// All bytes of a stream.
pub fn all_data(id: u64) -> Vec<u8> {
    of(DATA, id)
}

pub fn data(id: u64, position: u64) -> Vec<u8> {
    [&all_data(id)[..], &position.to_be_bytes()].concat()
}

/// Positions whose first bytes are the same are forgotten together: so many.
pub const DATA_BLOCK: u64 = 1 << 24;

/// All bytes of appends that begin in this block of a stream.
pub fn data_block(id: u64, block: u64) -> Vec<u8> {
    [&all_data(id)[..], &block.to_be_bytes()[3..]].concat()
}

/// The times at which a stream's tail was noted.
pub fn marks(id: u64) -> Vec<u8> {
    of(MARK, id)
}

pub fn mark(id: u64, time_ms: u64) -> Vec<u8> {
    [&marks(id)[..], &time_ms.to_be_bytes()].concat()
}

/// The position of a row of bytes.
pub fn position_in(key: &[u8]) -> Option<u64> {
    let position = key.get(9..)?;
    position.try_into().ok().map(u64::from_be_bytes)
}

pub fn expiry(time_ms: u64, id: u64) -> Vec<u8> {
    [&of(EXPIRY, time_ms)[..], &id.to_be_bytes()].concat()
}

/// The first row of expiries, and the key behind those of this time and before.
pub fn expiries_until(time_ms: u64) -> (Vec<u8>, Vec<u8>) {
    (vec![EXPIRY], of(EXPIRY, time_ms.saturating_add(1)))
}

/// The time and the stream of a row of expiries.
pub fn expiry_in(key: &[u8]) -> Option<(u64, u64)> {
    let (tag, rest) = key.split_first()?;
    let (time, id) = rest.split_first_chunk::<8>()?;
    let id: [u8; 8] = id.try_into().ok()?;
    (*tag == EXPIRY).then_some((u64::from_be_bytes(*time), u64::from_be_bytes(id)))
}

/// The key behind all that begin with this prefix.
pub fn behind(prefix: &[u8]) -> Vec<u8> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX);
    let mut behind = prefix[..last.map_or(0, |last| last + 1)].to_vec();
    match behind.last_mut() {
        Some(last) => *last += 1,
        // Behind a prefix of 0xff alone: no row of a space begins so.
        None => behind = vec![u8::MAX; prefix.len() + 1],
    }
    behind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_in_the_order_of_their_numbers_and_say_them() {
        assert!(data(1, 255) < data(1, 256) && data(1, u64::MAX) < data(2, 0));
        assert_eq!(position_in(&data(7, 1 << 40)), Some(1 << 40));
        assert_eq!(stream_of_tail_row(&tail(9)), Some(9));
        assert_eq!(stream_of_tail_row(&stream(9)), None);
        assert_eq!(expiry_in(&expiry(5, 6)), Some((5, 6)));
        let (from, to) = expiries_until(5);
        assert!(from < expiry(0, 0) && expiry(5, u64::MAX) < to && to < expiry(6, 0));
        let block = data_block(7, 5);
        assert!(data(7, 5 * DATA_BLOCK).starts_with(&block));
        assert!(data(7, 6 * DATA_BLOCK - 1).starts_with(&block));
        assert!(!data(7, 6 * DATA_BLOCK).starts_with(&block));
        assert!(mark(7, 1) < mark(7, 1 << 41) && mark(7, u64::MAX) < marks(8));
        assert_eq!(path_in(&name("a/ü")), Some("a/ü"));
        let behind_name = rows_behind(&name("a"), &7_u64.to_be_bytes());
        assert_eq!(behind_name, [stream(7), tail(7)]);
        assert!(rows_behind(&name("a"), b"bad").is_empty());
        assert!(rows_behind(&tail(7), &7_u64.to_be_bytes()).is_empty());
        assert!(producer(1, "a", "x") < behind(&producers_of(1, "a")));
        assert!(behind(&producers_of(1, "a")) <= producer(1, "ab", "x"));
        assert_eq!(behind(&[1, 0xff]), [2]);
        assert_eq!(behind(&[0xff]), [0xff, 0xff]);
    }
}
