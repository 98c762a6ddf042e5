//! The one source of chance of a world.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// SplitMix64: a seed gives the same draws on every machine and in every build.
#[derive(Clone, Debug)]
pub struct Random(u64);

/// Parts in a million. A chance of 0 draws nothing, so that turning a fault off does not move the
/// draws of the others more than it must.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PerMillion(pub u32);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed ^ 0x5851_f42d_4c95_7f2d)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// 0 <= result < `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "nothing lies below 0");
        ((u128::from(self.draw()) * u128::from(limit)) >> 64) as u64
    }

    /// Within the range; its start if it is empty.
    pub fn within(&mut self, range: &Range<u64>) -> u64 {
        match range.end.saturating_sub(range.start) {
            0 | 1 => range.start,
            width => range.start + self.below(width),
        }
    }

    pub fn coin(&mut self) -> bool {
        self.draw() & (1 << 40) != 0
    }

    pub fn chance(&mut self, chance: PerMillion) -> bool {
        chance.0 > 0 && self.below(1_000_000) < u64::from(chance.0)
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() {
            return None;
        }
        from.get(self.below(from.len() as u64) as usize)
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            let drawn = self.draw().to_le_bytes();
            part.copy_from_slice(&drawn[..part.len()]);
        }
    }
}

/// The finisher of SplitMix64: a good hash of one number.
pub(crate) fn mixed(number: u64) -> u64 {
    let mut z = number;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_within_their_range_and_reach_its_ends() {
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| random.within(&(3..7))).collect();
        assert_eq!(drawn.iter().min(), Some(&3));
        assert_eq!(drawn.iter().max(), Some(&6));
        assert_eq!(random.within(&(5..5)), 5);
    }

    #[test]
    fn a_chance_comes_true_about_as_often_as_it_says() {
        let mut random = Random::new(2);
        let hits = (0..100_000)
            .filter(|_| random.chance(PerMillion(250_000)))
            .count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
    }
}
