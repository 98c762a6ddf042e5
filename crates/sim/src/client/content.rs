//! The bytes that clients write: a function of the client and the position, so that nobody has to keep them.

use crate::random::mixed;

pub fn byte_at(client: u64, position: u64) -> u8 {
    (word(client, position / 8) >> (position % 8 * 8)) as u8
}

/// The client's bytes from `position` on.
pub fn fill(client: u64, position: u64, bytes: &mut [u8]) {
    let mut position = position;
    let mut rest = bytes;
    while !rest.is_empty() {
        let skip = (position % 8) as usize;
        let word = word(client, position / 8).to_le_bytes();
        let count = rest.len().min(8 - skip);
        let (part, after) = rest.split_at_mut(count);
        part.copy_from_slice(&word[skip..skip + count]);
        position += count as u64;
        rest = after;
    }
}

fn word(client: u64, index: u64) -> u64 {
    mixed(index.wrapping_add(mixed(client ^ 0x6c6f_6762_6572_6700)))
}

/// Castagnoli's, reflected: as on the wire. Byte by byte, for few bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let mut value = index as u32;
            let mut bit = 0;
            while bit < 8 {
                value = (value >> 1) ^ (0x82f6_3b78 & (value & 1).wrapping_neg());
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };
    let step = |crc: u32, byte: &u8| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)];
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn any_part_of_the_content_is_the_same_content() {
        let mut whole = [0; 100];
        fill(7, 0, &mut whole);
        let mut part = [0; 30];
        fill(7, 13, &mut part);
        assert_eq!(part, whole[13..43]);
        assert_eq!(byte_at(7, 42), whole[42]);
        assert_ne!(byte_at(8, 42), byte_at(9, 42));
    }
}
