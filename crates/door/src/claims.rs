//! The memory for requests that are not whole: whoever announces a large one claims what it will take, and is read on once there is room.
//!
//! ```text
//!  $67108864 ─ is there room? ─┬─ yes ─▶ granted, until the request is done with
//!                              └─ no  ─▶ its client stands in line, and nothing of it is read
//! ```
//!
//! Requests of a MiB and smaller ones have room of their own: they do not stand behind those of 64 MiB. Where clients keep room and send nothing, those
//! in line may be such as well: then whoever came last is the next.
//!
//! ‡ A client with room of one size has as much more of that size as it needs, at once: two that wait for each other's would wait for ever. One that goes over
//! from small to large does wait, and those with large room do not wait for it.

use std::collections::VecDeque;

use crate::bounds::Bounds;

/// Claims of one size.
struct Size {
    bytes_max: usize,
    granted: usize,
    /// The clients that wait, in the order in which they came.
    line: VecDeque<u64>,
    /// Somebody kept room for nothing when it was looked for last, and the line was not empty since.
    last_comes_first: bool,
}

impl Size {
    fn next(&self) -> Option<u64> {
        let next = match self.last_comes_first {
            true => self.line.back(),
            false => self.line.front(),
        };
        next.copied()
    }

    fn leave_line(&mut self, id: u64) {
        self.line.retain(|other| *other != id);
        self.last_comes_first &= !self.line.is_empty();
    }

    fn of(bytes_max: usize) -> Size {
        Size {
            bytes_max,
            granted: 0,
            line: VecDeque::new(),
            last_comes_first: false,
        }
    }
}

/// The claims of all clients of a door.
pub struct Claims {
    bounds: Bounds,
    sizes: [Size; 2],
}

impl Claims {
    pub fn new(bounds: Bounds) -> Claims {
        Claims {
            bounds,
            sizes: bounds.claims_bytes_max.map(Size::of),
        }
    }

    /// Whether a request of so many bytes claims any.
    pub fn are_needed(&self, bytes: usize) -> bool {
        bytes >= self.bounds.claim_bytes_min
    }

    /// Whether a claim of so many bytes is a large one.
    pub fn is_large(&self, bytes: usize) -> bool {
        bytes > self.bounds.small_claim_bytes
    }

    /// The claims of this size.
    fn size_of(&mut self, bytes: usize) -> Option<&mut Size> {
        let place = usize::from(self.is_large(bytes));
        let is_needed = self.are_needed(bytes);
        self.sizes.get_mut(place).filter(|_| is_needed)
    }

    /// Changes a claim of this client that was granted: whether the new one is. If not, the client is in line, and has what it had.
    pub fn change(&mut self, id: u64, had: usize, wants: usize) -> bool {
        self.give(had);
        let has_place = self.are_needed(had) && self.is_large(had) == self.is_large(wants);
        let Some(size) = self.size_of(wants) else {
            return true;
        };
        let is_new = size.last_comes_first && !size.line.contains(&id);
        let is_next = is_new || size.next().is_none_or(|next| next == id);
        let has_room = size.granted == 0 || size.granted + wants <= size.bytes_max;
        if wants <= had || has_place || (is_next && has_room) {
            size.leave_line(id);
            size.granted += wants;
            return true;
        }
        if !size.line.contains(&id) {
            size.line.push_back(id);
        }
        self.take(had);
        false
    }

    fn take(&mut self, bytes: usize) {
        if let Some(size) = self.size_of(bytes) {
            size.granted += bytes;
        }
    }

    /// Gives back what was granted.
    pub fn give(&mut self, bytes: usize) {
        if let Some(size) = self.size_of(bytes) {
            size.granted -= bytes;
        }
    }

    /// The clients that are the next of a line.
    pub fn next(&self) -> Vec<u64> {
        self.sizes.iter().filter_map(Size::next).collect()
    }

    /// It is looked for clients that keep room and send next to nothing. ‡ Where none is found any more, the first comes first again: it would else never go on.
    pub fn on_look(&mut self) {
        for size in &mut self.sizes {
            size.last_comes_first = false;
        }
    }

    /// One was found that kept so much.
    pub fn on_kept(&mut self, bytes: usize) {
        if let Some(size) = self.size_of(bytes) {
            size.last_comes_first = !size.line.is_empty();
        }
    }

    /// Whether anybody waits.
    pub fn are_waited_for(&self) -> bool {
        self.sizes.iter().any(|size| !size.line.is_empty())
    }

    /// Takes a client out of all lines.
    pub fn leave_line(&mut self, id: u64) {
        for size in &mut self.sizes {
            size.leave_line(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 64 << 20;

    #[test]
    fn large_requests_wait_for_room_in_their_order_and_small_ones_do_not_wait_for_them() {
        let mut claims = Claims::new(Bounds::default());
        assert!(claims.change(1, 0, LARGE) && claims.change(2, 0, LARGE));
        assert!(!claims.change(3, 0, LARGE));
        assert!(!claims.change(4, 0, 2 << 20), "3 is before it");
        assert!(claims.change(5, 0, 1 << 20) && claims.change(6, 0, 100));
        assert!(!claims.change(4, 0, 2 << 20), "it stands in line once");
        assert_eq!(claims.next(), [3]);
        claims.give(LARGE);
        assert!(!claims.change(4, 0, 2 << 20));
        assert!(claims.change(3, 0, LARGE) && claims.change(4, 0, 2 << 20));
        assert!(!claims.are_waited_for());
        for bytes in [LARGE, LARGE, 2 << 20, 1 << 20] {
            claims.give(bytes);
        }
        assert_eq!(claims.sizes.each_ref().map(|size| size.granted), [0, 0]);
    }

    #[test]
    fn those_who_have_room_never_wait_for_each_other() {
        let mut claims = Claims::new(Bounds::default());
        const SOME: usize = 200 << 10;
        let all: Vec<u64> = (0..(48 << 20) / SOME as u64).collect();
        assert!(all.iter().all(|id| claims.change(*id, 0, SOME)));
        assert!(!claims.change(1_000, 0, SOME));
        assert!(all.iter().all(|id| claims.change(*id, SOME, 5 * SOME)));
        // Larger claims have another line, which those in the first do not hold up.
        assert!(claims.change(1_001, 0, LARGE) && claims.change(1_002, 0, LARGE));
        assert!(!claims.change(0, 5 * SOME, LARGE));
        assert!(claims.change(1_001, LARGE, LARGE + 1));
        claims.give(LARGE + 1);
        assert!(claims.change(0, 5 * SOME, LARGE));
    }

    #[test]
    fn the_last_comes_first_where_room_is_kept_for_nothing() {
        let mut claims = Claims::new(Bounds::default());
        assert!(claims.change(1, 0, LARGE) && claims.change(2, 0, LARGE));
        assert!(!claims.change(3, 0, LARGE) && !claims.change(4, 0, LARGE));
        claims.on_kept(LARGE);
        claims.give(LARGE);
        assert_eq!(claims.next(), [4]);
        assert!(!claims.change(3, 0, LARGE) && claims.change(4, 0, LARGE));
        assert!(claims.change(5, 0, 2 << 20), "it has room, and came last");
        claims.give(LARGE);
        assert!(claims.change(3, 0, LARGE));
        assert!(!claims.change(6, 0, LARGE) && !claims.change(7, 0, LARGE));
        assert_eq!(claims.next(), [6], "the line was empty");
    }

    #[test]
    fn what_is_there_is_counted_whoever_waits() {
        let mut claims = Claims::new(Bounds::default());
        assert!(claims.change(1, 0, LARGE) && claims.change(2, 0, LARGE));
        assert!(!claims.change(3, 0, LARGE));
        assert!(claims.change(1, LARGE, LARGE / 2), "its own becomes less");
        assert!(claims.change(1, LARGE / 2, LARGE), "and more again");
        claims.leave_line(3);
        assert!(claims.change(1, LARGE, 1 << 20), "it is a small one");
        assert_eq!(
            claims.sizes.each_ref().map(|size| size.granted),
            [1 << 20, LARGE]
        );
        // One that is larger than all room is granted when it is alone.
        claims.give(LARGE);
        assert!(claims.change(2, 0, 2 * (160 << 20)));
    }
}
