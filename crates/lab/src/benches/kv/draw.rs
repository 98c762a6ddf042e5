//! Which keys a client asks for next.

use super::slots::Map;

pub enum Draw {
    /// Any of all keys; those of one pipeline are of one range, which one server answers for.
    Random(Chance),
    /// Each of these once, range by range.
    Each(Vec<Vec<u32>>),
    /// Nothing more.
    Nothing,
}

impl Draw {
    /// Up to `count` keys of one range; none if there are none left.
    pub fn next(&mut self, map: &Map, count: u32, keys: &mut Vec<u32>) {
        keys.clear();
        match self {
            Draw::Random(chance) => {
                let first = chance.below(map.keys());
                let all = &map.range_of(first).keys;
                let others = (1..count).map(|_| all[chance.below(all.len() as u32) as usize]);
                keys.push(first);
                keys.extend(others);
            }
            Draw::Each(left) => {
                // The fullest first, so that all servers have something to do until the end.
                if let Some(most) = left.iter_mut().max_by_key(|range| range.len()) {
                    let from = most.len().saturating_sub(count as usize);
                    keys.extend(most.drain(from..));
                }
            }
            Draw::Nothing => {}
        }
    }
}

/// Numbers in an order that nobody planned, the same for the same seed.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_drawn_once_and_then_none() {
        let map = Map::one("127.0.0.1:1".parse().unwrap(), 10);
        let mut draw = Draw::Each(vec![vec![1, 2, 3], vec![4, 5]]);
        let (mut drawn, mut keys) = (Vec::new(), Vec::new());
        loop {
            draw.next(&map, 2, &mut keys);
            if keys.is_empty() {
                break;
            }
            drawn.extend(keys.iter().copied());
        }
        drawn.sort_unstable();
        assert_eq!(drawn, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn keys_are_drawn_from_all_and_from_no_others() {
        let map = Map::one("127.0.0.1:1".parse().unwrap(), 10);
        let (mut draw, mut keys) = (Draw::Random(Chance::new(1)), Vec::new());
        let mut seen = [0; 10];
        for _ in 0..100 {
            draw.next(&map, 10, &mut keys);
            assert_eq!(keys.len(), 10);
            keys.iter().for_each(|key| seen[*key as usize] += 1);
        }
        assert!(
            seen.iter().all(|times| (50..200).contains(times)),
            "{seen:?}"
        );
    }
}
