//! The buffers that a kernel lends to receives that bring none.

use ops::{BLOCK, Buffer, LENT_BYTES_MAX, Pool};

/// Idle buffers that are kept of each size, a MiB of each; what is lent beyond that is allocated, and given back to the
/// system.
const IDLE_BLOCKS: usize = 256;
const IDLE_LARGE: usize = 16;

/// A receive of a block or less does not hold the memory of a large one.
pub(crate) struct Lender {
    blocks: Pool,
    large: Pool,
}

impl Lender {
    pub fn new() -> Lender {
        Lender {
            blocks: Pool::new(BLOCK, IDLE_BLOCKS),
            large: Pool::new(LENT_BYTES_MAX, IDLE_LARGE),
        }
    }

    /// A buffer with room for so many bytes, `LENT_BYTES_MAX` at most.
    pub fn lend(&self, bytes: usize) -> Buffer {
        match bytes <= BLOCK {
            true => self.blocks.take(),
            false => self.large.take(),
        }
    }

    /// Buffers that are lent now.
    pub fn lent(&self) -> usize {
        self.blocks.in_use() + self.large.in_use()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_has_room_and_comes_back() {
        let lender = Lender::new();
        for bytes in [1, BLOCK, BLOCK + 1, LENT_BYTES_MAX] {
            let buffer = lender.lend(bytes);
            assert!(buffer.len() >= bytes);
            assert_eq!(lender.lent(), 1);
        }
        assert_eq!(lender.lent(), 0);
    }
}
