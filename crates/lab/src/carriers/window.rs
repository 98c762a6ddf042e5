//! How much is under way on a connection: a way takes so much, as a socket does.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// About what a socket of loopback takes when nobody reads.
pub const WINDOW: usize = 4 << 20;

/// One direction of a connection, shared by both of its ends.
#[derive(Debug, Default)]
pub struct Window {
    under_way: AtomicUsize,
    /// A sender wants to be told of room.
    waits: AtomicBool,
}

impl Window {
    /// Takes bytes in; true if there is room for more.
    pub fn add(&self, bytes: usize) -> bool {
        if self.under_way.fetch_add(bytes, SeqCst) + bytes <= WINDOW {
            return true;
        }
        self.waits.store(true, SeqCst);
        // ‡ The last bytes may have gone before it was said that somebody waits.
        self.has_room() && self.waits.swap(false, SeqCst)
    }

    /// Lets bytes go; true if a sender is to be told of room, once.
    pub fn take(&self, bytes: usize) -> bool {
        self.under_way.fetch_sub(bytes, SeqCst);
        self.has_room() && self.waits.swap(false, SeqCst)
    }

    pub fn has_room(&self) -> bool {
        self.under_way.load(SeqCst) <= WINDOW / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_that_filled_it_is_told_once_that_there_is_room() {
        let window = Window::default();
        assert!(window.add(WINDOW));
        assert!(!window.add(1));
        assert!(!window.take(WINDOW / 4));
        assert!(window.take(WINDOW / 4 + 1));
        assert!(!window.take(1), "nobody waits any more");
    }
}
