//! The bytes of a chain: made from its key and the position alone, so that every byte that is read
//! can be checked, and told from another chain's.

/// splitmix64, finalized.
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The key of chain `number` of log `log`.
pub fn key(seed: u64, log: usize, number: u32) -> u64 {
    mix(mix(seed ^ mix(log as u64)) ^ u64::from(number))
}

/// Fills `into` with the bytes from `position` on.
pub fn fill(key: u64, position: u64, into: &mut [u8]) {
    let mut at = position;
    let mut rest = into;
    while !rest.is_empty() {
        let inside = (at % 8) as usize;
        let count = (8 - inside).min(rest.len());
        let word = mix(key.wrapping_add(at / 8)).to_le_bytes();
        rest[..count].copy_from_slice(&word[inside..inside + count]);
        at += count as u64;
        rest = &mut rest[count..];
    }
}

/// The number of `bytes` that are the chain's from `position` on, before the first that is not.
pub fn matching(key: u64, position: u64, bytes: &[u8]) -> usize {
    let mut expected = [0; 4096];
    let mut matched = 0;
    for piece in bytes.chunks(expected.len()) {
        let expected = &mut expected[..piece.len()];
        fill(key, position + matched as u64, expected);
        if expected != piece {
            let same = expected.iter().zip(piece).take_while(|(a, b)| a == b);
            return matched + same.count();
        }
        matched += piece.len();
    }
    matched
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_can_be_made_alone() {
        let mut whole = [0; 9000];
        fill(7, 0, &mut whole);
        for (from, to) in [(0, 9000), (1, 8), (7, 17), (4095, 4098)] {
            assert_eq!(matching(7, from as u64, &whole[from..to]), to - from);
        }
        whole[8000] ^= 1;
        assert_eq!(matching(7, 5, &whole[5..]), 7995);
    }

    #[test]
    fn chains_differ() {
        let mut bytes = [0; 64];
        fill(key(1, 0, 1), 0, &mut bytes);
        for other in [key(1, 0, 2), key(1, 1, 1), key(2, 0, 1)] {
            assert!(matching(other, 0, &bytes) < 4);
        }
    }
}
