//! The random part of backoffs: a seed goes in, so equal runs are equal.

use core::time::Duration;

use crate::time::whole_micros;

/// splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform enough, in whole microseconds, from one of them to `bound`.
    pub(crate) fn duration_up_to(&mut self, bound: Duration) -> Duration {
        Duration::from_micros(self.up_to(whole_micros(bound)))
    }

    /// Uniform enough, in `1..=bound`.
    fn up_to(&mut self, bound: u64) -> u64 {
        1 + self.next() % bound.max(1)
    }
}
