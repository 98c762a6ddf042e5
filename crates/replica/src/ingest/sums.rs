//! The checksum of a writer's stream, told with its acknowledgements, so that the writer knows that what is chosen is what it
//! sent.
//!
//! Each batch has a digest anyway, over the very bytes that go to the disk and to the followers; those of a stream's batches
//! together are the stream's. So this costs the leader no look at any byte.

use std::collections::VecDeque;

use formats::digest_of_both;
use paxos::Digest;

#[derive(Default)]
pub(super) struct Sums {
    /// The sum of the stream's bytes below this position.
    at: u64,
    sum: Digest,
    /// Batches that are proposed and not acknowledged, by their ends.
    ahead: VecDeque<(u64, Digest)>,
}

impl Sums {
    pub(super) fn proposed(&mut self, end: u64, digest: Digest) {
        self.ahead.push_back((end, digest));
    }

    /// The sum of all below the position; `None` in the middle of a batch.
    pub(super) fn below(&mut self, position: u64) -> Option<Digest> {
        while let Some((end, digest)) = self.ahead.front().copied()
            && end <= position
        {
            self.ahead.pop_front();
            self.sum = digest_of_both(self.sum, digest, (end - self.at) as usize);
            self.at = end;
        }
        (self.at == position).then_some(self.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_together_have_the_sum_of_the_stream() {
        let bytes: Vec<u8> = (0..1000u32).map(|i| (i * 7) as u8).collect();
        let mut sums = Sums::default();
        for end in [100, 101, 1000] {
            let from = [0, 100, 101][[100, 101, 1000].iter().position(|e| *e == end).unwrap()];
            sums.proposed(end as u64, formats::digest(&bytes[from..end]));
        }
        assert_eq!(sums.below(0), Some(Digest(0)));
        assert_eq!(sums.below(50), None);
        assert_eq!(sums.below(101), Some(formats::digest(&bytes[..101])));
        assert_eq!(sums.below(999), None);
        assert_eq!(sums.below(1000), Some(formats::digest(&bytes)));
    }
}
