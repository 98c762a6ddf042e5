//! The memory for requests that are not whole: whoever announces a large one claims what it will take, and is read on once there is room.
//!
//! ```text
//!  $67108864 ─ is there room? ─┬─ yes ─▶ granted, until the request is done with
//!                              └─ no  ─▶ its client stands in line, and nothing of it is read
//! ```
//!
//! Requests of a MiB and smaller ones have room of their own: they do not stand behind those of 64 MiB. Where clients keep room and send nothing, those
//! in line may be such as well: then whoever came last is the next, each second time. ‡ The first is the next between these: it would else never go on.
//!
//! ‡ A client with room of one size needs more of it as its request goes on, and nobody waits for that for ever: such clients come before all others, and one
//! of them at a time may have more than there is. Two that wait for each other's would else wait for good. One that goes over from small to large waits as
//! others do, and those with large room do not wait for it.

use std::collections::VecDeque;

use crate::bounds::Bounds;

/// Claims of one size.
struct Size {
    bytes_max: usize,
    granted: usize,
    /// The clients that wait and have no room of this size, in the order in which they came.
    line: VecDeque<u64>,
    /// Those that have some and need more.
    growing: VecDeque<u64>,
    /// The client that has more than there is. ‡ All others together have no more than there is.
    beyond: Option<u64>,
    /// Somebody kept room for nothing when it was looked for last, and the line was not empty since.
    keeps_for_nothing: bool,
    /// Where that is so, whoever came last comes first each second time.
    is_turn_of_last: bool,
}

impl Size {
    fn of(bytes_max: usize) -> Size {
        Size {
            bytes_max,
            granted: 0,
            line: VecDeque::new(),
            growing: VecDeque::new(),
            beyond: None,
            keeps_for_nothing: false,
            is_turn_of_last: true,
        }
    }

    fn last_comes_first(&self) -> bool {
        self.keeps_for_nothing && self.is_turn_of_last
    }

    fn next(&self) -> Option<u64> {
        let first = match self.last_comes_first() {
            true => self.line.back(),
            false => self.line.front(),
        };
        self.growing.front().or(first).copied()
    }

    fn is_next(&self, id: u64) -> bool {
        let comes_now = !self.line.contains(&id) && !self.growing.contains(&id);
        let is_last = comes_now && self.growing.is_empty() && self.last_comes_first();
        is_last || self.next().is_none_or(|next| next == id)
    }

    fn fits(&self, bytes: usize) -> bool {
        self.granted == 0 || self.granted + bytes <= self.bytes_max
    }

    /// Whether a client that has none of this size is granted so much now.
    fn begins(&self, id: u64, bytes: usize) -> bool {
        self.is_next(id) && self.fits(bytes)
    }

    /// Whether a client that has some is granted so much instead now.
    fn grows(&self, id: u64, bytes: usize) -> bool {
        let is_next = self.growing.front().is_none_or(|first| *first == id);
        is_next && (self.beyond.is_none() || self.fits(bytes))
    }

    fn take(&mut self, id: u64, bytes: usize) {
        self.granted += bytes;
        if self.granted > self.bytes_max {
            self.beyond.get_or_insert(id);
        }
    }

    /// Whether this client was the one that had more than there is.
    fn give(&mut self, id: u64, bytes: usize) -> bool {
        self.granted -= bytes;
        self.beyond.take_if(|beyond| *beyond == id).is_some()
    }

    fn leave_line(&mut self, id: u64) {
        self.growing.retain(|other| *other != id);
        let before = self.line.len();
        self.line.retain(|other| *other != id);
        self.is_turn_of_last ^= self.keeps_for_nothing && self.line.len() < before;
        self.keeps_for_nothing &= !self.line.is_empty();
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
        let was_beyond = self.size_of(had).is_some_and(|size| size.give(id, had));
        let has_place = self.are_needed(had) && self.is_large(had) == self.is_large(wants);
        let Some(size) = self.size_of(wants) else {
            return true;
        };
        let is_granted = match has_place {
            true => wants <= had || was_beyond || size.grows(id, wants),
            false => size.begins(id, wants),
        };
        if is_granted {
            size.leave_line(id);
            size.take(id, wants);
            return true;
        }
        let line = match has_place {
            true => &mut size.growing,
            false => &mut size.line,
        };
        if !line.contains(&id) {
            line.push_back(id);
        }
        if let Some(size) = self.size_of(had) {
            size.take(id, had);
        }
        false
    }

    /// Gives back what was granted to this client.
    pub fn give(&mut self, id: u64, bytes: usize) {
        if let Some(size) = self.size_of(bytes) {
            _ = size.give(id, bytes);
        }
    }

    /// The clients that are the next of a line.
    pub fn next(&self) -> Vec<u64> {
        self.sizes.iter().filter_map(Size::next).collect()
    }

    /// It is looked for clients that keep room and send next to nothing. Where none is found any more, the first comes first again.
    pub fn on_look(&mut self) {
        for size in &mut self.sizes {
            size.keeps_for_nothing = false;
        }
    }

    /// One was found that kept so much.
    pub fn on_kept(&mut self, bytes: usize) {
        if let Some(size) = self.size_of(bytes) {
            size.keeps_for_nothing = !size.line.is_empty();
        }
    }

    /// Whether anybody waits.
    pub fn are_waited_for(&self) -> bool {
        self.sizes.iter().any(|size| size.next().is_some())
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
        claims.give(1, LARGE);
        assert!(!claims.change(4, 0, 2 << 20));
        assert!(claims.change(3, 0, LARGE) && claims.change(4, 0, 2 << 20));
        assert!(!claims.are_waited_for());
        for (id, bytes) in [(2, LARGE), (3, LARGE), (4, 2 << 20), (5, 1 << 20)] {
            claims.give(id, bytes);
        }
        assert_eq!(claims.sizes.each_ref().map(|size| size.granted), [0, 0]);
    }

    #[test]
    fn those_who_have_room_never_wait_for_each_other() {
        let mut claims = Claims::new(Bounds::default());
        const SOME: usize = 192 << 10;
        let all: Vec<u64> = (0..(48 << 20) / SOME as u64).collect();
        assert!(all.iter().all(|id| claims.change(*id, 0, SOME)));
        assert!(!claims.change(1_000, 0, SOME));
        // One has more than there is, and the others wait for it, before those who have nothing.
        assert!(claims.change(0, SOME, 3 * SOME));
        assert!(!claims.change(1, SOME, 5 * SOME) && !claims.change(2, SOME, 2 * SOME));
        assert!(claims.change(0, 3 * SOME, 5 * SOME), "it goes on");
        assert_eq!(claims.next(), [1]);
        assert!(!claims.change(1, SOME, 5 * SOME) && !claims.change(2, SOME, 2 * SOME));
        // Larger claims have another line, which those in the first do not hold up.
        assert!(claims.change(1_001, 0, LARGE) && claims.change(1_002, 0, LARGE));
        assert!(!claims.change(0, 5 * SOME, LARGE));
        claims.give(1_001, LARGE);
        assert!(claims.change(0, 5 * SOME, LARGE));
        claims.leave_line(1_000);
        for id in &all[1..] {
            assert!(claims.change(*id, SOME, 5 * SOME), "{id}");
            let most = Bounds::default().claims_bytes_max[0] + 4 * SOME;
            assert!(claims.sizes[0].granted <= most);
            claims.give(*id, 5 * SOME);
        }
        assert_eq!(claims.sizes[0].granted, 0);
        assert!(!claims.are_waited_for() && claims.sizes[0].beyond.is_none());
    }

    #[test]
    fn whoever_has_more_than_there_is_keeps_that_place_until_it_has_nothing() {
        let mut claims = Claims::new(Bounds::default());
        assert!([1, 2, 3].map(|id| claims.change(id, 0, 50 << 20)) == [true; 3]);
        assert!(claims.change(1, 50 << 20, LARGE), "it is beyond");
        assert!(claims.change(1, LARGE, 61 << 20), "and so with less");
        assert!(!claims.change(2, 50 << 20, LARGE));
        assert!(claims.change(1, 61 << 20, 65 << 20));
        assert!(claims.change(1, 65 << 20, 50 << 20), "all is within");
        assert!(claims.change(2, 50 << 20, LARGE));
        assert!(!claims.change(1, 50 << 20, LARGE) && !claims.change(3, 50 << 20, LARGE));
        claims.give(2, LARGE);
        assert_eq!(claims.next(), [1]);
        assert!(claims.change(1, 50 << 20, LARGE) && claims.change(3, 50 << 20, LARGE));
        assert!(!claims.are_waited_for());
    }

    #[test]
    fn the_last_comes_first_each_second_time_where_room_is_kept_for_nothing() {
        let mut claims = Claims::new(Bounds::default());
        assert!(claims.change(1, 0, LARGE) && claims.change(2, 0, LARGE));
        assert!([3, 4, 5, 6].map(|id| claims.change(id, 0, LARGE)) == [false; 4]);
        claims.on_kept(LARGE);
        claims.give(1, LARGE);
        assert_eq!(claims.next(), [6]);
        assert!(!claims.change(3, 0, LARGE) && claims.change(6, 0, LARGE));
        assert!(!claims.change(7, 0, 2 << 20), "it is the turn of the first");
        claims.give(2, LARGE);
        assert_eq!(claims.next(), [3]);
        assert!(claims.change(3, 0, LARGE));
        assert!(claims.change(8, 0, 2 << 20), "it has room, and came last");
        for id in [6, 3] {
            claims.give(id, LARGE);
        }
        assert!(claims.change(7, 0, 2 << 20) && claims.change(4, 0, LARGE));
        assert!(claims.change(5, 0, LARGE));
        assert!(!claims.change(9, 0, LARGE) && !claims.change(10, 0, LARGE));
        assert_eq!(claims.next(), [9], "the line was empty");
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
        claims.give(2, LARGE);
        assert!(claims.change(2, 0, 2 * (160 << 20)));
    }
}
