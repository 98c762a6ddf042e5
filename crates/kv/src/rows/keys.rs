//! The keys of rows. The bytes stand in the head of the crate.

use crate::slot::Life;

pub(crate) const HEADER: u8 = b'H';
const META: u8 = b'M';
const MEMBER: u8 = b'E';
const SORTED: u8 = b'Z';
const CHUNK: u8 = b'S';
const PREPARED: u8 = b'W';
/// Behind [`PREPARED`], so that one range has both.
const DEADLINE: u8 = b'X';
const SESSION: u8 = b'O';
const USED: u8 = b'U';

/// Six bytes by which keys, and members, are scattered: a row is found again from them alone, and a random place is as good as another.
///
/// It is stable for ever. It need not be secret: rows with equal hashes stand beside each other, and cost nothing more.
pub(crate) fn hash48(bytes: &[u8]) -> u64 {
    // FNV-1a, whose upper bits SplitMix64's finish makes depend on all.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash ^ (hash >> 31)) >> 16
}

fn hash_bytes(hash: u64) -> [u8; 6] {
    let [_, _, bytes @ ..] = hash.to_be_bytes();
    bytes
}

pub(crate) fn header(life: &Life) -> Vec<u8> {
    tagged(life, HEADER)
}

fn tagged(life: &Life, tag: u8) -> Vec<u8> {
    let mut row = Vec::with_capacity(Life::BYTES + 40);
    row.extend_from_slice(&life.prefix());
    row.push(tag);
    row
}

pub(crate) fn meta(life: &Life, key: &[u8]) -> Vec<u8> {
    let mut row = tagged(life, META);
    row.extend_from_slice(&hash_bytes(hash48(key)));
    row.extend_from_slice(key);
    row
}

pub(crate) fn keys_prefix(life: &Life) -> Vec<u8> {
    tagged(life, META)
}

/// The range of the keys whose hash is at least this.
pub(crate) fn keys_range(life: &Life, hash: u64) -> (Vec<u8>, Vec<u8>) {
    let mut from = tagged(life, META);
    from.extend_from_slice(&hash_bytes(hash));
    (from, tagged(life, META + 1))
}

/// The hash and the name in the row's key of a key, or of a member, behind a prefix of this length.
pub(crate) fn name_of(row: &[u8], prefix: usize) -> Option<(u64, &[u8])> {
    let (hash, name) = row.get(prefix..)?.split_at_checked(6)?;
    let mut bytes = [0; 8];
    bytes[2..].copy_from_slice(hash);
    Some((u64::from_be_bytes(bytes), name))
}

fn of_id(life: &Life, tag: u8, id: u64) -> Vec<u8> {
    let mut row = tagged(life, tag);
    row.extend_from_slice(&id.to_be_bytes());
    row
}

pub(crate) fn members_prefix(life: &Life, id: u64) -> Vec<u8> {
    of_id(life, MEMBER, id)
}

/// The range of the members, or of the items, below this id.
pub(crate) fn members_of(life: &Life, id: u64) -> (Vec<u8>, Vec<u8>) {
    (members_prefix(life, id), members_prefix(life, id + 1))
}

pub(crate) fn member(life: &Life, id: u64, member: &[u8]) -> Vec<u8> {
    let mut row = of_id(life, MEMBER, id);
    row.extend_from_slice(&hash_bytes(hash48(member)));
    row.extend_from_slice(member);
    row
}

/// The range of the members whose hash is at least this.
pub(crate) fn members_range(life: &Life, id: u64, hash: u64) -> (Vec<u8>, Vec<u8>) {
    let mut from = members_prefix(life, id);
    from.extend_from_slice(&hash_bytes(hash));
    (from, members_prefix(life, id + 1))
}

pub(crate) fn item(life: &Life, id: u64, index: u64) -> Vec<u8> {
    let mut row = of_id(life, MEMBER, id);
    row.extend_from_slice(&index.to_be_bytes());
    row
}

pub(crate) fn sorted_prefix(life: &Life, id: u64) -> Vec<u8> {
    of_id(life, SORTED, id)
}

pub(crate) fn sorted(life: &Life, id: u64, score: f64, member: &[u8]) -> Vec<u8> {
    let mut row = sorted_prefix(life, id);
    row.extend_from_slice(&order_of(score).to_be_bytes());
    row.extend_from_slice(member);
    row
}

/// The member in the row's key of a sorted set.
pub(crate) fn sorted_member(row: &[u8]) -> &[u8] {
    row.get(Life::BYTES + 1 + 8 + 8..).unwrap_or_default()
}

/// A number that is in the order of scores. Both zeros are one.
pub(crate) fn order_of(score: f64) -> u64 {
    let score = if score == 0.0 { 0.0 } else { score };
    let bits = score.to_bits();
    match bits >> 63 {
        0 => bits | 1 << 63,
        _ => !bits,
    }
}

pub(crate) fn chunks_prefix(life: &Life, id: u64) -> Vec<u8> {
    of_id(life, CHUNK, id)
}

pub(crate) fn chunk(life: &Life, id: u64, number: u64) -> Vec<u8> {
    let mut row = chunks_prefix(life, id);
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    row.extend_from_slice(&number.to_be_bytes());
    row
}

pub(crate) fn deadline(life: &Life, deadline_ms: u64, key: &[u8]) -> Vec<u8> {
    let mut row = tagged(life, DEADLINE);
    row.extend_from_slice(&deadline_ms.to_be_bytes());
    row.extend_from_slice(key);
    row
}

/// The range of all that time ends: values that were prepared, then deadlines.
pub(crate) fn timed(life: &Life) -> (Vec<u8>, Vec<u8>) {
    (tagged(life, PREPARED), tagged(life, DEADLINE + 1))
}

pub(crate) fn prepared(life: &Life, ticket: u64) -> Vec<u8> {
    of_id(life, PREPARED, ticket)
}

/// The ticket in the row's key of a prepared value.
pub(crate) fn ticket_of(row: &[u8]) -> Option<u64> {
    let ticket = row.get(Life::BYTES + 1..)?.try_into().ok()?;
    Some(u64::from_be_bytes(ticket))
}

pub(crate) fn is_prepared(row: &[u8]) -> bool {
    row.get(Life::BYTES) == Some(&PREPARED)
}

/// The deadline and the key of such a row.
pub(crate) fn deadline_of(row: &[u8]) -> Option<(u64, &[u8])> {
    let (deadline, key) = row.get(Life::BYTES + 1..)?.split_first_chunk()?;
    Some((u64::from_be_bytes(*deadline), key))
}

pub(crate) fn session(life: &Life, session: u64) -> Vec<u8> {
    of_id(life, SESSION, session)
}

/// The place of a session among those of its slot, in the order in which they were used.
pub(crate) fn used(life: &Life, used_ms: u64, session: u64) -> Vec<u8> {
    let mut row = of_id(life, USED, used_ms);
    row.extend_from_slice(&session.to_be_bytes());
    row
}

/// The range of all uses.
pub(crate) fn uses(life: &Life) -> (Vec<u8>, Vec<u8>) {
    (tagged(life, USED), tagged(life, USED + 1))
}

/// When the session in such a row was used, and its number.
pub(crate) fn use_of(row: &[u8]) -> Option<(u64, u64)> {
    let (used, session) = row.get(Life::BYTES + 1..)?.split_first_chunk()?;
    let session = session.first_chunk()?;
    Some((u64::from_be_bytes(*used), u64::from_be_bytes(*session)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_and_their_rows_have_one_order() {
        let scores = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -1.0,
            -5e-324,
            0.0,
            5e-324,
            1.0,
            f64::MAX,
            f64::INFINITY,
        ];
        assert!(scores.is_sorted_by(|a, b| order_of(*a) < order_of(*b)));
        assert_eq!(order_of(-0.0), order_of(0.0));
    }

    /// The bytes of keys lie on disks: a hash that changed would lose all keys.
    #[test]
    fn hashes_stay_what_they_are() {
        let life = Life {
            slot: 0x0102,
            epoch: 3,
            round: 4,
        };
        let hashes = [hash48(b""), hash48(b"a"), hash48(b"foo")];
        assert!(hashes.iter().all(|hash| hash >> 48 == 0));
        let row = meta(&life, b"foo");
        assert_eq!(row[..14], [1, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4]);
        assert_eq!(row[14], b'M');
        assert_eq!(name_of(&row, 15), Some((hash48(b"foo"), &b"foo"[..])));
        assert_eq!(hashes, GOLDEN);
    }

    const GOLDEN: [u64; 3] = [269_561_105_066_421, 3_026_840_406_036, 118_953_002_155_547];
}
