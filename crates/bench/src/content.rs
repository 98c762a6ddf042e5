//! Bytes that say by themselves where they stand: a reader needs no copy to compare them with, and a hole, a
//! repeat or a swap shows.

/// The word at `position / 8` (splitmix64 of its number).
fn word(number: u64) -> [u8; 8] {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).to_le_bytes()
}

/// Fills `into` with the bytes from `position` on.
pub fn fill(position: u64, into: &mut [u8]) {
    let mut at = position;
    let mut rest = into;
    while !rest.is_empty() {
        let inside = (at % 8) as usize;
        let count = (8 - inside).min(rest.len());
        rest[..count].copy_from_slice(&word(at / 8)[inside..inside + count]);
        at += count as u64;
        rest = &mut rest[count..];
    }
}

/// The first difference of `bytes`, said to begin at `position`, from what belongs there.
pub fn first_difference(position: u64, bytes: &[u8]) -> Option<u64> {
    let mut expected = [0; 4096];
    for (index, piece) in bytes.chunks(expected.len()).enumerate() {
        let at = position + (index * expected.len()) as u64;
        let expected = &mut expected[..piece.len()];
        fill(at, expected);
        if expected != piece {
            let differs = |(a, b): (&u8, &u8)| a != b;
            let inside = expected.iter().zip(piece).position(differs).unwrap_or(0);
            return Some(at + inside as u64);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_the_content_can_be_made_alone() {
        let mut whole = [0; 9000];
        fill(0, &mut whole);
        for (from, to) in [(0, 9000), (1, 8), (7, 17), (8, 16), (4095, 4098)] {
            let mut part = vec![0; to - from];
            fill(from as u64, &mut part);
            assert_eq!(part, &whole[from..to]);
            assert_eq!(first_difference(from as u64, &part), None);
        }
    }

    #[test]
    fn one_wrong_byte_is_found() {
        let mut bytes = vec![0; 9000];
        fill(5, &mut bytes);
        bytes[8000] ^= 1;
        assert_eq!(first_difference(5, &bytes), Some(8005));
        assert_eq!(first_difference(13, &bytes), Some(13), "shifted by a word");
    }
}
