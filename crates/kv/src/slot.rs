//! The slot of a key, and the lives of slots.

/// How many slots there are.
pub const SLOTS: u16 = 16_384;

/// The slot of a key, as all Redis Cluster clients reckon it: CRC-16 (XMODEM) of the key, or of what stands between its first `{` and the
/// `}` behind that, if that is anything.
///
/// ```
/// assert_eq!(kv::slot_of(b"123456789"), 0x31c3);
/// assert_eq!(kv::slot_of(b"{user1000}.following"), kv::slot_of(b"user1000"));
/// assert_eq!(kv::slot_of(b"foo{}{bar}"), kv::checksum(b"foo{}{bar}") % kv::SLOTS);
/// ```
pub fn slot_of(key: &[u8]) -> u16 {
    checksum(hashed(key)) % SLOTS
}

fn hashed(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else {
        return key;
    };
    let behind = key.get(open + 1..).unwrap_or_default();
    match behind.iter().position(|byte| *byte == b'}') {
        Some(close) if close > 0 => behind.get(..close).unwrap_or_default(),
        _ => key,
    }
}

/// CRC-16 with the polynomial 0x1021, from 0, not reflected.
pub fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |checksum, byte| {
        let index = (checksum >> 8) as u8 ^ byte;
        (checksum << 8) ^ TABLE[usize::from(index)]
    })
}

const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut checksum = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let carry = checksum & 0x8000 != 0;
            checksum <<= 1;
            if carry {
                checksum ^= 0x1021;
            }
            bit += 1;
        }
        table[index] = checksum;
        index += 1;
    }
    table
}

/// One life of a slot at one owner. All rows of it begin with it; when it ends, they are forgotten at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life {
    pub slot: u16,
    /// The version of the map for which the slot came to its owner.
    pub epoch: u32,
    /// Grows with each copy that began anew, and each FLUSHALL.
    pub round: u64,
}

impl Life {
    pub const BYTES: usize = 2 + 4 + 8;

    /// The beginning of its rows' keys.
    pub fn prefix(&self) -> [u8; Life::BYTES] {
        let mut prefix = [0; Life::BYTES];
        prefix[..2].copy_from_slice(&self.slot.to_be_bytes());
        prefix[2..6].copy_from_slice(&self.epoch.to_be_bytes());
        prefix[6..].copy_from_slice(&self.round.to_be_bytes());
        prefix
    }

    pub fn next(self) -> Life {
        let round = self.round + 1;
        Life { round, ..self }
    }
}
