//! Memory that bytes travel in: one owner while it is filled, many readers afterwards.
//!
//! One buffer serves the disk and every follower: payload is copied once, on receipt. A [`Buffer`]
//! is unique and writable; [`Buffer::freeze`] turns it into [`Shared`], of which cheap [`Slice`]s
//! go to the disk and to each socket. When the last one is dropped, wherever that is, the memory
//! returns to its [`Pool`], already touched.
//!
//! A kernel may also give a buffer that is a part of a file ([`crate::Landing`]).

use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, Bytes, BytesMut};

use crate::{BLOCK, Landed, Place};

/// Page-aligned memory of a fixed size, zeroed when first allocated.
pub struct Buffer {
    memory: Memory,
    start: usize,
    length: usize,
    home: Option<Arc<Shelf>>,
}

enum Memory {
    /// Memory of its own, longer than `length` by one block, so that an aligned start exists; or an aligned piece.
    Heap(BytesMut),
    /// A part of a file, from its start to its end.
    File(Box<dyn Landed>),
}

type Shelf = Mutex<Vec<BytesMut>>;

/// Blocks that are cut out of one piece of memory: alone, each would take two.
const BLOCKS_AT_ONCE: usize = 8;

/// Buffers of one size, kept for reuse.
#[derive(Clone)]
pub struct Pool {
    length: usize,
    /// Its capacity is how many idle buffers are kept; more are given back to the system.
    shelf: Arc<Shelf>,
}

/// A buffer that no longer changes.
#[derive(Clone)]
pub struct Shared(Arc<Buffer>);

/// A part of a shared buffer.
#[derive(Clone)]
pub struct Slice {
    buffer: Shared,
    start: usize,
    end: usize,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl Pool {
    pub fn new(length: usize, idle_max: usize) -> Pool {
        Pool {
            length,
            shelf: Arc::new(Mutex::new(Vec::with_capacity(idle_max))),
        }
    }

    pub fn take(&self) -> Buffer {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = match shelf.pop() {
            Some(memory) => Buffer::from_memory(memory, self.length),
            None if self.length == BLOCK => Buffer::from_memory(cut_blocks(&mut shelf), BLOCK),
            None => Buffer::new(self.length),
        };
        drop(shelf);
        buffer.home = Some(self.shelf.clone());
        buffer
    }

    /// Buffers that were taken and are in use still. A clone of the pool counts as one.
    pub fn in_use(&self) -> usize {
        Arc::strong_count(&self.shelf) - 1
    }
}

/// A zeroed block. More of the same memory go to the shelf, as many as it has room for.
fn cut_blocks(shelf: &mut Vec<BytesMut>) -> BytesMut {
    let room = shelf.capacity() - shelf.len();
    let count = BLOCKS_AT_ONCE.min(room + 1);
    let mut memory = BytesMut::zeroed((count + 1) * BLOCK);
    memory.advance(memory.as_ptr().align_offset(BLOCK));
    for _ in 1..count {
        shelf.push(memory.split_to(BLOCK));
    }
    memory.split_to(BLOCK)
}

impl Buffer {
    /// A buffer without memory.
    pub fn empty() -> Buffer {
        Buffer {
            memory: Memory::Heap(BytesMut::new()),
            start: 0,
            length: 0,
            home: None,
        }
    }

    pub fn new(length: usize) -> Buffer {
        Buffer::from_memory(BytesMut::zeroed(length + BLOCK), length)
    }

    fn from_memory(memory: BytesMut, length: usize) -> Buffer {
        let start = memory.as_ptr().align_offset(BLOCK);
        assert!(
            start + length <= memory.len(),
            "an aligned start lies within one block"
        );
        Buffer {
            memory: Memory::Heap(memory),
            start,
            length,
            home: None,
        }
    }

    /// A part of a file.
    pub fn landed(memory: Box<dyn Landed>) -> Buffer {
        Buffer {
            start: 0,
            length: memory.bytes().len(),
            memory: Memory::File(memory),
            home: None,
        }
    }

    /// Whether it is, or was, a part of a file.
    #[inline]
    pub fn is_landed(&self) -> bool {
        matches!(self.memory, Memory::File(_))
    }

    /// The place in a file where the received bytes stand.
    #[inline]
    pub fn place(&self) -> Option<Place> {
        match &self.memory {
            Memory::Heap(_) => None,
            Memory::File(memory) => memory.place(),
        }
    }

    /// The buffer's memory, for the kernel that made it.
    pub fn kernels_mut(&mut self) -> Option<&mut dyn Any> {
        match &mut self.memory {
            Memory::Heap(_) => None,
            Memory::File(memory) => Some(&mut **memory),
        }
    }

    /// A part of the buffer, to be changed. In a buffer that is part of a file, opening a part leaves less to
    /// write again than opening all.
    #[inline]
    pub fn part_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        match &mut self.memory {
            Memory::Heap(memory) => &mut memory[self.start..self.start + self.length][range],
            Memory::File(memory) => memory.bytes_mut(range),
        }
    }

    /// A buffer of the least whole number of blocks that holds `bytes`, the rest zero.
    pub fn holding(bytes: &[u8]) -> Buffer {
        let mut buffer = Buffer::new(bytes.len().next_multiple_of(BLOCK).max(BLOCK));
        buffer[..bytes.len()].copy_from_slice(bytes);
        buffer
    }

    #[inline]
    pub fn freeze(self) -> Shared {
        Shared(Arc::new(self))
    }
}

impl Deref for Buffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.memory {
            Memory::Heap(memory) => &memory[self.start..self.start + self.length],
            Memory::File(memory) => memory.bytes(),
        }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.part_mut(0..self.length)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let (Some(home), Memory::Heap(memory)) = (self.home.take(), &mut self.memory) else {
            return;
        };
        let mut shelf = home.lock().unwrap_or_else(|e| e.into_inner());
        if shelf.len() < shelf.capacity() {
            shelf.push(std::mem::take(memory));
        }
    }
}

impl Shared {
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> Slice {
        assert!(range.start <= range.end && range.end <= self.0.length);
        Slice {
            buffer: self.clone(),
            start: range.start,
            end: range.end,
        }
    }
}

impl Deref for Shared {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Slice {
    /// A slice of its own small buffer: for lines and frame headers.
    pub fn copied_from(bytes: &[u8]) -> Slice {
        let buffer = Buffer {
            memory: Memory::Heap(BytesMut::from(bytes)),
            start: 0,
            length: bytes.len(),
            home: None,
        };
        buffer.freeze().slice(0..bytes.len())
    }

    /// A slice of these bytes, which are not copied.
    pub fn from_vec(bytes: Vec<u8>) -> Slice {
        let length = bytes.len();
        let buffer = Buffer {
            memory: Memory::Heap(BytesMut::from(Bytes::from(bytes))),
            start: 0,
            length,
            home: None,
        };
        buffer.freeze().slice(0..length)
    }

    /// The memory that this slice keeps from being reused. The rest of a file's buffer is in the page cache.
    #[inline]
    pub fn pinned_bytes(&self) -> usize {
        match &self.buffer.0.memory {
            Memory::Heap(memory) => memory.len(),
            Memory::File(_) => self.len(),
        }
    }

    /// The memory, for the kernel that made the buffer, and where in the buffer this slice begins.
    pub fn kernels(&self) -> Option<(&dyn Any, usize)> {
        match &self.buffer.0.memory {
            Memory::Heap(_) => None,
            Memory::File(memory) => Some((&**memory, self.start)),
        }
    }

    /// The part of the slice within the range.
    #[inline]
    pub fn within(&self, range: Range<usize>) -> Slice {
        assert!(range.start <= range.end && range.end <= self.len());
        Slice {
            buffer: self.buffer.clone(),
            start: self.start + range.start,
            end: self.start + range.end,
        }
    }

    /// The part of the slice from `from` on.
    #[inline]
    pub fn after(&self, from: usize) -> Slice {
        assert!(from <= self.len());
        Slice {
            buffer: self.buffer.clone(),
            start: self.start + from,
            end: self.end,
        }
    }
}

impl Deref for Slice {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.length)
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slice({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_slice_returns_its_memory_to_the_pool() {
        let pool = Pool::new(8192, 2);
        let address = {
            let buffer = pool.take();
            let address = buffer.as_ptr();
            let slice = buffer.freeze().slice(0..10);
            assert_ne!(pool.take().as_ptr(), address, "still in use");
            drop(slice);
            address
        };
        let first = pool.take();
        let second = pool.take();
        assert!([first.as_ptr(), second.as_ptr()].contains(&address));
    }

    #[test]
    fn a_pool_knows_how_many_of_its_buffers_are_in_use() {
        let pool = Pool::new(BLOCK, 1);
        assert_eq!(pool.in_use(), 0);
        let taken = [pool.take(), pool.take()];
        assert_eq!(pool.in_use(), 2);
        let slices = taken.map(|buffer| buffer.freeze().slice(1..2));
        let again = slices.clone();
        drop(slices);
        assert_eq!(pool.in_use(), 2, "slices are left");
        drop(again);
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn an_empty_buffer_has_no_memory() {
        let mut buffer = Buffer::empty();
        assert!(buffer.is_empty() && buffer.part_mut(0..0).is_empty());
        assert_eq!(buffer.freeze().slice(0..0).pinned_bytes(), 0);
    }

    #[test]
    fn blocks_share_memory_and_none_of_their_bytes() {
        let pool = Pool::new(BLOCK, 20);
        let mut blocks: Vec<Buffer> = (0..30).map(|_| pool.take()).collect();
        for (number, block) in blocks.iter_mut().enumerate() {
            assert_eq!(block.as_ptr() as usize % BLOCK, 0);
            assert!(block.len() == BLOCK && block.iter().all(|byte| *byte == 0));
            block.fill(number as u8 + 1);
        }
        for (number, block) in blocks.iter().enumerate() {
            assert!(block.iter().all(|byte| *byte == number as u8 + 1));
        }
        drop(blocks);
        let kept = pool.shelf.lock().unwrap().len();
        assert_eq!(kept, 20);
    }

    #[test]
    fn buffers_start_at_a_block() {
        for length in [1, 4096, 5000] {
            assert_eq!(Buffer::new(length).as_ptr() as usize % BLOCK, 0);
        }
    }
}
