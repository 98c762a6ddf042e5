//! The replies of a connection: each has its place from its request on, may come at any time, and is sent in its order.
//!
//! ```text
//!  places ─ settle ─▶ small: one after the other ─▶ open ─┐
//!                     large: as it is ───────────────────▶ closed ─ cut ─▶ pieces that are being sent ─▶ taken
//! ```
//!
//! ‡ A piece is a part of its reply's memory, which is freed with the last of them: a reply counts wholly until all of it is taken.

use std::collections::VecDeque;

use ops::Slice;
use paxos::mutation::{self, Mutation};

/// A connection is not read while so much of it is unanswered.
#[derive(Clone, Copy, Debug)]
pub struct UnderWay {
    pub commands: usize,
    /// The bytes of all its commands. One is taken whatever it has.
    pub bytes: usize,
}

/// A connection is not read either while it has so many bytes of replies that it did not take, those to come among them.
#[derive(Clone, Copy, Debug)]
pub struct Unread {
    pub all: usize,
    /// … of those that are not small.
    pub sized: Sized,
}

impl Default for Unread {
    fn default() -> Unread {
        Unread::of(UNREAD_MIN, [0; 2])
    }
}

impl Unread {
    /// A share of what is free: whoever reads nothing leaves as much to others, and more of them have less each. ‡ Nobody has less than the
    /// least: he would else never go on.
    pub fn of(free: usize, free_sized: Sized) -> Unread {
        let share = |free: usize| UNREAD_MIN.max(free / UNREAD_PART);
        Unread {
            all: share(free),
            sized: free_sized.map(share),
        }
    }
}

impl Unread {
    pub fn least(&self, other: &Unread) -> Unread {
        let ([a, b], [c, d]) = (self.sized, other.sized);
        Unread {
            all: self.all.min(other.all),
            sized: [a.min(c), b.min(d)],
        }
    }

    /// Whether it is more than that in any way.
    pub fn exceeds(&self, other: &Unread) -> bool {
        let is_more = |(own, other): (&usize, &usize)| own > other;
        self.all > other.all || self.sized.iter().zip(&other.sized).any(is_more)
    }
}

/// The most that a connection may have.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    pub under_way: UnderWay,
    pub unread: Unread,
    /// The bytes that are received of it while its next request waits.
    pub ahead_bytes: usize,
}

/// A connection may always have so many bytes unread …
const UNREAD_MIN: usize = 1 << 20;
/// … and this part of what others leave.
const UNREAD_PART: usize = 4;
/// A connection has never more commands under way.
const WINDOW_MAX: usize = 1_024;
/// A new connection has so many commands under way, and one more with each reply: nobody knows yet how large its replies are.
const UNANSWERED_FIRST: usize = 16;

/// Replies are sent in pieces of so many bytes, so that it shows how much its client takes …
const PIECE_BYTES: usize = 256 << 10;
/// … and so many bytes at a time.
const SENDING_BYTES: usize = 1 << 20;
/// A reply of so many bytes is sent as it is; smaller ones are put together.
const ALONE_BYTES: usize = 64 << 10;

/// A reply that is to come.
enum Reply {
    /// `is_wanted`: its client asked for it, when he asked.
    Awaited {
        is_wanted: bool,
        /// Those of the command.
        bytes: usize,
    },
    Here(Vec<u8>),
    /// Nobody knows what became of the command: the connection ends without a word.
    Never,
}

/// How far replies went on to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The next one is to come.
    Waits,
    All,
    /// The next one never comes, and neither do those behind it.
    Never,
}

pub struct Replies {
    places: VecDeque<Reply>,
    /// The bytes of those that are here.
    here_bytes: usize,
    here_sized: Sized,
    /// The bytes of the commands that are not answered.
    under_way_bytes: usize,
    /// So many commands may be unanswered at present.
    window: usize,
    /// The latest replies had about so many bytes at most. Those to come are taken to be as large.
    expected_bytes: usize,
    /// The number of the first place.
    first: u64,
    /// Small replies that are to be sent.
    open: Vec<u8>,
    /// The replies that are to be sent before these.
    closed: VecDeque<Slice>,
    /// The memory of these, and of those that are being sent: how much of each is not taken, its bytes, and whether it is one
    /// reply, which is not small.
    memory: VecDeque<(usize, usize, bool)>,
    memory_bytes: usize,
    /// Those of replies that are not small.
    memory_sized: Sized,
    /// The lengths of the pieces that are being sent.
    sending: VecDeque<usize>,
    sending_bytes: usize,
    /// The bytes that the client has taken.
    taken_bytes: u64,
}

impl Default for Replies {
    fn default() -> Replies {
        Replies {
            places: VecDeque::new(),
            here_bytes: 0,
            here_sized: [0; 2],
            under_way_bytes: 0,
            window: UNANSWERED_FIRST,
            expected_bytes: 0,
            first: 0,
            open: Vec::new(),
            closed: VecDeque::new(),
            memory: VecDeque::new(),
            memory_bytes: 0,
            memory_sized: [0; 2],
            sending: VecDeque::new(),
            sending_bytes: 0,
            taken_bytes: 0,
        }
    }
}

impl Replies {
    /// The memory of replies that the client has not taken.
    pub fn unsent_bytes(&self) -> usize {
        self.due_bytes() + self.here_bytes
    }

    /// … of replies that are not small: of middling ones, and of large ones.
    pub fn unsent_sized(&self) -> Sized {
        let ([middling, large], memory) = (self.here_sized, self.memory_sized);
        [middling + memory[0], large + memory[1]]
    }

    /// … of those that no other reply keeps from going.
    pub fn due_bytes(&self) -> usize {
        self.open.len() + self.memory_bytes
    }

    /// The bytes that the client has taken, all in all.
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// Whether one more may be asked for. Replies take memory until their client has taken them, so few are made ahead where they are large.
    pub fn have_room(&self, most: Most) -> bool {
        self.are_few_under_way(most.under_way) && self.are_few_unread(most.unread)
    }

    pub fn are_few_under_way(&self, most: UnderWay) -> bool {
        self.places.len() < self.window.min(most.commands) && self.under_way_bytes < most.bytes
    }

    fn are_few_unread(&self, most: Unread) -> bool {
        let to_come = self.places.len() * self.expected_bytes;
        let mut sized = self.unsent_sized();
        if let Some(of_it) = size_of(&mut sized, self.expected_bytes) {
            *of_it += to_come;
        }
        let are_few = |(has, most): (&usize, &usize)| has < most;
        self.unsent_bytes() + to_come < most.all && sized.iter().zip(&most.sized).all(are_few)
    }

    /// Whether all that was asked is answered.
    pub fn is_idle(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether all that was asked is answered, and taken by the client.
    pub fn are_over(&self) -> bool {
        self.places.is_empty() && self.due_bytes() == 0
    }

    /// A reply that is here at once.
    pub fn put(&mut self, bytes: Vec<u8>) {
        self.expect(bytes.len());
        self.come(bytes.len());
        self.places.push_back(Reply::Here(bytes));
    }

    /// A reply that is to come, to a command of so many bytes: its number.
    pub fn wait(&mut self, is_wanted: bool, bytes: usize) -> u64 {
        self.under_way_bytes += bytes;
        self.places.push_back(Reply::Awaited { is_wanted, bytes });
        self.first + self.places.len() as u64 - 1
    }

    /// The number of the last one, if it is to come or to be sent.
    pub fn last(&self) -> Option<u64> {
        let last = self.places.len().checked_sub(1)?;
        Some(self.first + last as u64)
    }

    /// The reply of that number; `None` if there will be none.
    pub fn take(&mut self, number: u64, bytes: Option<Vec<u8>>) {
        self.expect(bytes.as_ref().map_or(0, Vec::len));
        let at = number.wrapping_sub(self.first) as usize;
        let Some(reply) = self.places.get_mut(at) else {
            return;
        };
        let mut is_wanted = true;
        if let Reply::Awaited {
            is_wanted: was_wanted,
            bytes,
        } = reply
        {
            is_wanted = *was_wanted;
            self.under_way_bytes -= *bytes;
        }
        *reply = match bytes {
            None => Reply::Never,
            Some(bytes) if is_wanted => {
                self.here_bytes += bytes.len();
                add(&mut self.here_sized, bytes.len());
                Reply::Here(bytes)
            }
            Some(_) => Reply::Here(Vec::new()),
        };
    }

    /// Counts a reply that is here.
    fn come(&mut self, bytes: usize) {
        self.here_bytes += bytes;
        add(&mut self.here_sized, bytes);
    }

    /// Counts a reply that is on its way now.
    fn go(&mut self, bytes: usize) {
        self.here_bytes -= bytes;
        subtract(&mut self.here_sized, bytes);
    }

    /// Takes note of how large a reply was.
    fn expect(&mut self, bytes: usize) {
        let before = self.expected_bytes;
        self.expected_bytes = bytes.max(before - before.div_ceil(8));
    }

    /// Moves what is answered, in its order, to what is sent.
    pub fn settle(&mut self) -> Settled {
        if mutation::is(Mutation::RepliesOutOfOrder) {
            for reply in &mut self.places {
                if let Reply::Here(bytes) = reply {
                    self.here_bytes -= bytes.len();
                    subtract(&mut self.here_sized, bytes.len());
                    self.open.append(bytes);
                }
            }
        }
        while let Some(reply) = self.places.front_mut() {
            match reply {
                Reply::Awaited { .. } => return Settled::Waits,
                Reply::Here(bytes) => {
                    let mut bytes = std::mem::take(bytes);
                    self.go(bytes.len());
                    if bytes.len() >= ALONE_BYTES {
                        self.close();
                        add(&mut self.memory_sized, bytes.len());
                        self.put_behind(bytes, true);
                    } else if self.open.is_empty() {
                        self.open = bytes;
                    } else {
                        self.open.append(&mut bytes);
                    }
                }
                Reply::Never => {
                    self.places.clear();
                    (self.here_bytes, self.here_sized) = (0, [0; 2]);
                    self.under_way_bytes = 0;
                    return Settled::Never;
                }
            }
            self.places.pop_front();
            self.first += 1;
            self.window = WINDOW_MAX.min(self.window + 1);
        }
        Settled::All
    }

    /// Nothing is put to the small replies any more that are here.
    fn close(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let bytes = std::mem::take(&mut self.open);
        self.put_behind(bytes, false);
    }

    fn put_behind(&mut self, bytes: Vec<u8>, is_alone: bool) {
        self.memory.push_back((bytes.len(), bytes.len(), is_alone));
        self.memory_bytes += bytes.len();
        self.closed.push_back(Slice::from_vec(bytes));
    }

    /// The next piece to be sent, if not enough is being sent already.
    pub fn take_output(&mut self) -> Option<Vec<Slice>> {
        if self.sending_bytes >= SENDING_BYTES {
            return None;
        }
        self.close();
        let (mut slices, mut bytes) = (Vec::new(), 0);
        while bytes < PIECE_BYTES
            && let Some(next) = self.closed.pop_front()
        {
            let room = PIECE_BYTES - bytes;
            let next = match next.len() > room {
                true => {
                    self.closed.push_front(next.after(room));
                    next.within(0..room)
                }
                false => next,
            };
            bytes += next.len();
            slices.push(next);
        }
        if slices.is_empty() {
            return None;
        }
        self.sending.push_back(bytes);
        self.sending_bytes += bytes;
        Some(slices)
    }

    /// The client has taken the first piece of those that are being sent.
    pub fn on_sent(&mut self) {
        let mut taken = self.sending.pop_front().unwrap_or_default();
        self.sending_bytes -= taken;
        self.taken_bytes += taken as u64;
        while let Some((left, bytes, is_alone)) = self.memory.front_mut() {
            if *left > taken {
                *left -= taken;
                break;
            }
            taken -= *left;
            self.memory_bytes -= *bytes;
            if *is_alone {
                subtract(&mut self.memory_sized, *bytes);
            }
            self.memory.pop_front();
        }
    }
}

/// Bytes of middling replies, and of large ones.
pub type Sized = [usize; 2];

/// The place of a reply's bytes; small ones have none.
fn size_of(sized: &mut Sized, bytes: usize) -> Option<&mut usize> {
    let [middling, large] = sized;
    let of_it = match bytes >= host::LARGE_ANSWER_BYTES {
        true => large,
        false => middling,
    };
    (bytes >= ALONE_BYTES).then_some(of_it)
}

fn add(sized: &mut Sized, bytes: usize) {
    size_of(sized, bytes)
        .into_iter()
        .for_each(|of_it| *of_it += bytes);
}

fn subtract(sized: &mut Sized, bytes: usize) {
    size_of(sized, bytes)
        .into_iter()
        .for_each(|of_it| *of_it -= bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bounds;

    fn alone() -> Most {
        Most {
            under_way: Bounds::default().alone,
            unread: Unread::default(),
            ahead_bytes: 0,
        }
    }

    fn beside() -> Most {
        Most {
            under_way: Bounds::default().beside,
            ..alone()
        }
    }

    /// As many as are asked for at once.
    fn under_way(replies: &mut Replies, most: Most) -> Vec<u64> {
        let numbers = std::iter::from_fn(|| {
            let room = replies.have_room(most);
            room.then(|| replies.wait(true, 10))
        });
        numbers.collect()
    }

    fn answered(replies: &mut Replies, numbers: &[u64], bytes: usize) {
        for number in numbers {
            replies.take(*number, Some(vec![0; bytes]));
        }
        replies.settle();
        while replies.take_output().is_some() {}
    }

    /// All that was sent is taken, and what is to be sent then.
    fn taken(replies: &mut Replies) {
        while !replies.sending.is_empty() {
            replies.on_sent();
            while replies.take_output().is_some() {}
        }
    }

    /// The commands of which all but 65 are answered.
    const LEFT: usize = WINDOW_MAX - 65;

    #[test]
    fn few_large_commands_are_under_way_beside_others() {
        let mut replies = Replies::default();
        let half = beside().under_way.bytes / 2;
        let numbers = [half, half - 1, 5 * half].map(|bytes| {
            assert!(replies.have_room(beside()));
            replies.wait(true, bytes)
        });
        assert!(!replies.have_room(beside()) && replies.have_room(alone()));
        answered(&mut replies, &numbers[1..], 0);
        assert!(replies.have_room(beside()), "one of them is left");
        replies.take(numbers[0], None);
        assert_eq!(
            (replies.settle(), replies.under_way_bytes),
            (Settled::Never, 0)
        );
    }

    #[test]
    fn few_commands_with_large_replies_are_under_way() {
        let mut replies = Replies::default();
        let first = under_way(&mut replies, alone());
        assert_eq!(first.len(), UNANSWERED_FIRST);
        answered(&mut replies, &first, 100 << 10);
        assert!(!replies.have_room(alone()), "1.6 MiB are not taken");
        taken(&mut replies);
        let second = under_way(&mut replies, alone());
        assert_eq!(second.len(), 11, "1.1 MiB");
        answered(&mut replies, &second, 1);
        taken(&mut replies);
        // Small replies let it go on as before, and further.
        for _ in 0..20 {
            let some = under_way(&mut replies, alone());
            assert!(!some.is_empty());
            answered(&mut replies, &some, 5);
            taken(&mut replies);
        }
        let all = under_way(&mut replies, alone());
        assert_eq!(all.len(), WINDOW_MAX);
        // Another client comes: no more is asked for until few are under way.
        answered(&mut replies, &all[..LEFT], 5);
        taken(&mut replies);
        assert_eq!(under_way(&mut replies, beside()).len(), 0);
        answered(&mut replies, &all[LEFT..LEFT + 5], 5);
        replies.on_sent();
        assert_eq!(under_way(&mut replies, beside()).len(), 4);
    }

    #[test]
    fn a_client_that_never_reads_is_not_read() {
        let mut replies = Replies::default();
        while replies.have_room(alone()) {
            replies.put(vec![0; 1000]);
            replies.settle();
            _ = replies.take_output();
        }
        assert_eq!(replies.unsent_bytes() >> 20, 1);
        assert_eq!(replies.sending_bytes >> 20, 1);
        taken(&mut replies);
        assert!(replies.have_room(alone()));
    }

    #[test]
    fn a_client_that_reads_later_leaves_as_much_to_others() {
        const MIB: usize = 1 << 20;
        let all = [160, 40, 200].map(|all| all * MIB);
        // MiB that one client holds at last, and twelve: of small replies, of middling ones, and of large ones.
        for (bytes, alone, twelve) in [(1_000, 32, 120), (100 << 10, 8, 30), (MIB, 32, 120)] {
            for (clients, expected) in [(1, alone), (12, twelve)] {
                let mut held: Vec<Replies> = (0..clients).map(|_| Replies::default()).collect();
                let mut goes_on = true;
                while std::mem::take(&mut goes_on) {
                    for at in 0..held.len() {
                        let unsent: usize = held.iter().map(Replies::unsent_bytes).sum();
                        let sized = held.iter().map(Replies::unsent_sized);
                        let sized = sized.fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
                        let free = [all[1] - sized[0], all[2] - sized[1]];
                        let most = Most {
                            unread: Unread::of(all[0] - unsent, free),
                            ..super::tests::alone()
                        };
                        if held[at].have_room(most) {
                            goes_on = true;
                            held[at].put(vec![0; bytes]);
                            held[at].settle();
                        }
                    }
                }
                let held: usize = held.iter().map(Replies::unsent_bytes).sum();
                assert_eq!(
                    held.div_ceil(MIB).abs_diff(expected) / 3,
                    0,
                    "{bytes} {held}"
                );
            }
        }
        assert_eq!(Unread::of(0, [0, 3 * MIB]).sized, [MIB, MIB]);
    }

    #[test]
    fn replies_are_sent_in_pieces_and_count_until_all_of_each_is_taken() {
        let mut replies = Replies::default();
        let sizes = [5, 3 << 20, 100, 64 << 10, 7, 1 << 20, 0, 9];
        let mut expected = Vec::new();
        for (number, size) in sizes.into_iter().enumerate() {
            let bytes: Vec<u8> = (0..size)
                .map(|at| (at ^ at >> 8) as u8 ^ number as u8)
                .collect();
            expected.extend_from_slice(&bytes);
            replies.put(bytes);
        }
        replies.settle();
        let all = expected.len();
        assert_eq!(replies.unsent_bytes(), all);
        assert_eq!(replies.unsent_sized(), [64 << 10, (3 << 20) + (1 << 20)]);
        let (mut sent, mut taken, mut lengths) = (Vec::new(), 0, VecDeque::new());
        loop {
            while let Some(slices) = replies.take_output() {
                let piece: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
                assert!(piece.len() <= PIECE_BYTES);
                lengths.push_back(piece.len());
                sent.extend(piece);
            }
            assert!(sent.len() - taken <= SENDING_BYTES);
            let Some(length) = lengths.pop_front() else {
                break;
            };
            replies.on_sent();
            taken += length;
            assert_eq!(replies.taken_bytes(), taken as u64);
            // The large one is in memory as long as a part of it is.
            let counted = match taken {
                ..5 => all,
                taken if taken < 5 + (3 << 20) => all - 5,
                taken => all - taken,
            };
            let unsent = replies.unsent_bytes();
            assert!(
                unsent >= all - taken && unsent >= counted,
                "{unsent} {taken}"
            );
        }
        assert!(sent == expected);
        assert_eq!((replies.unsent_bytes(), replies.sending_bytes), (0, 0));
        assert_eq!(replies.unsent_sized(), [0; 2]);
        assert!(replies.are_over());
    }
}
