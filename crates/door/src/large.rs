//! A large value on its way: it goes ahead of the command that sets it, in pieces among the frames of others, so that nobody waits behind it.
//!
//! ```text
//!  SET k 64 MiB ─▶ piece │ piece │ piece │ …  64 KiB each, few under way        below an id that no key has
//!                  all of them are there ─▶ SET k ← that id                     one small frame; its reply is the command's
//!                  one is not            ─▶ its client hears why, or all begins anew under another ticket
//! ```
//!
//! Nothing of it is seen before the command itself is executed. ‡ So a piece of which nobody knows what became of it leaves nothing open:
//! the command was not done. What is never named is forgotten after a minute, wherever the slot is by then.

use std::ops::Range;

use kv::Prepared;
use resp::Protocol;

/// The longest value that is set as a whole.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// Which values go ahead, and how.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    /// A value of so many bytes goes ahead. A smaller one holds up others for less time than its way to a disk takes.
    pub from_bytes: usize,
    /// The bytes of a piece: a whole number of the 4 KiB in which a string lies.
    pub piece_bytes: usize,
}

impl Default for Ahead {
    fn default() -> Ahead {
        Ahead {
            from_bytes: 256 << 10,
            piece_bytes: 64 << 10,
        }
    }
}

/// So many pieces of a value are under way while nobody else asks for anything …
pub const PIECES_ALONE: usize = 4;
/// … and so many beside others, who share cores and disks with it.
pub const PIECES_BESIDE: usize = 1;
/// So many pieces of all values of a door are under way: 4 MiB, where a group takes 64 MiB of commands that wait.
pub const PIECES_OF_ALL: usize = 64;
/// So often a value begins anew.
const ATTEMPTS_MAX: u32 = 3;

/// Its command's words, but for the value.
type Words = Vec<Vec<u8>>;

pub struct Large {
    /// The number of its command's reply.
    pub number: u64,
    pub slot: u16,
    pub protocol: Protocol,
    pub words: Words,
    pub key: Vec<u8>,
    /// The bytes that hold the value, and where it lies in them.
    bytes: Vec<u8>,
    value: Range<usize>,
    ticket: u64,
    /// The bytes of it that were sent.
    sent: usize,
    piece_bytes: usize,
    under_way: usize,
    attempts: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Sending,
    /// The pieces before one are gone.
    Gone,
    /// The command itself is asked for.
    Named,
}

/// The next thing to be done for it.
#[derive(Debug, PartialEq, Eq)]
pub enum Due {
    Nothing,
    /// These bytes of it are to be sent.
    Piece {
        ticket: u64,
        at: Range<usize>,
    },
    /// All is there: the command is to be executed.
    Name(Prepared),
    /// It begins anew, and needs another ticket.
    Anew,
    /// It was tried often enough.
    GivenUp,
}

impl Large {
    /// `words`: those of the command, with nothing in the place of the value.
    pub fn new(
        (number, slot, protocol): (u64, u16, Protocol),
        words: Words,
        key: Vec<u8>,
        (ticket, piece_bytes): (u64, usize),
    ) -> Large {
        Large {
            number,
            slot,
            protocol,
            words,
            key,
            bytes: Vec::new(),
            value: 0..0,
            ticket,
            sent: 0,
            piece_bytes,
            under_way: 0,
            attempts: 1,
            state: State::Sending,
        }
    }

    /// Gives it the bytes that hold its value.
    pub fn fill(&mut self, bytes: Vec<u8>, value: Range<usize>) {
        self.bytes = bytes;
        self.value = value;
    }

    /// Its pieces that are under way.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Its command is asked for: nobody can take that back.
    pub fn is_named(&self) -> bool {
        self.state == State::Named
    }

    /// The memory that it takes.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The next thing to be done, with so many pieces under way at most; one that is told is under way from then on.
    pub fn due(&mut self, pieces_max: usize) -> Due {
        match self.state {
            State::Named => return Due::Nothing,
            State::Gone if self.under_way > 0 => return Due::Nothing,
            State::Gone if self.attempts < ATTEMPTS_MAX => return Due::Anew,
            State::Gone => return Due::GivenUp,
            State::Sending => {}
        }
        let length = self.value.len();
        if self.sent == length {
            if self.under_way > 0 {
                return Due::Nothing;
            }
            self.state = State::Named;
            return Due::Name(Prepared {
                ticket: self.ticket,
                bytes: length as u64,
            });
        }
        if self.under_way >= pieces_max {
            return Due::Nothing;
        }
        let end = length.min(self.sent + self.piece_bytes);
        let at = std::mem::replace(&mut self.sent, end)..end;
        self.under_way += 1;
        let ticket = self.ticket;
        Due::Piece { ticket, at }
    }

    /// Some bytes of the value.
    pub fn piece(&self, at: Range<usize>) -> &[u8] {
        let value = self.bytes.get(self.value.clone()).unwrap_or_default();
        value.get(at).unwrap_or_default()
    }

    /// Begins anew under a ticket that nothing was sent under.
    pub fn begin_anew(&mut self, ticket: u64) {
        self.ticket = ticket;
        self.attempts += 1;
        self.sent = 0;
        self.state = State::Sending;
    }

    /// A piece is there, or what came before it is gone.
    pub fn on_piece(&mut self, is_there: bool) {
        self.under_way -= 1;
        if !is_there {
            self.state = State::Gone;
        }
    }

    /// The command itself found that its value is gone.
    pub fn on_gone(&mut self) {
        self.state = State::Gone;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE_BYTES: usize = 8 << 10;

    fn large(bytes: usize) -> Large {
        let words = vec![b"SET".to_vec(), b"k".to_vec(), Vec::new()];
        let whose = (3, 7, Protocol::Resp2);
        let mut large = Large::new(whose, words, b"k".to_vec(), (5, PIECE_BYTES));
        let mut held = vec![b'x'; bytes + 20];
        for (number, byte) in held.iter_mut().enumerate() {
            *byte = (number / PIECE_BYTES) as u8;
        }
        large.fill(held, 10..10 + bytes);
        large
    }

    /// The pieces that are due.
    fn pieces(large: &mut Large) -> Vec<Range<usize>> {
        let mut pieces = Vec::new();
        while let Due::Piece { ticket, at } = large.due(PIECES_ALONE) {
            assert_eq!(ticket, 5);
            let piece = large.piece(at.clone());
            assert_eq!(piece.len(), at.len());
            // The bytes before the value are no part of it.
            assert_eq!(
                piece.first(),
                Some(&(((at.start + 10) / PIECE_BYTES) as u8))
            );
            pieces.push(at);
        }
        pieces
    }

    #[test]
    fn a_value_is_named_once_all_its_pieces_are_there() {
        let bytes = 5 * PIECE_BYTES + 1;
        let mut large = large(bytes);
        let at = |number: usize| number * PIECE_BYTES;
        assert!(matches!(large.due(PIECES_BESIDE), Due::Piece { .. }));
        assert_eq!(large.due(PIECES_BESIDE), Due::Nothing);
        large.on_piece(true);
        let first = pieces(&mut large);
        let expected: Vec<_> = (1..5).map(|number| at(number)..at(number + 1)).collect();
        assert_eq!(first, expected);
        large.on_piece(true);
        large.on_piece(true);
        assert_eq!(pieces(&mut large), vec![at(5)..bytes]);
        for _ in 0..3 {
            assert_eq!(large.due(PIECES_ALONE), Due::Nothing);
            large.on_piece(true);
        }
        let bytes = bytes as u64;
        assert_eq!(
            large.due(PIECES_ALONE),
            Due::Name(Prepared { ticket: 5, bytes })
        );
        assert_eq!(large.due(PIECES_ALONE), Due::Nothing);
    }

    #[test]
    fn a_value_begins_anew_under_another_ticket_and_not_for_ever() {
        let mut large = large(2 * PIECE_BYTES);
        assert_eq!(pieces(&mut large).len(), 2);
        large.on_piece(false);
        assert_eq!(
            large.due(PIECES_ALONE),
            Due::Nothing,
            "another one is under way"
        );
        large.on_piece(true);
        for _ in 1..ATTEMPTS_MAX {
            assert_eq!(large.due(PIECES_ALONE), Due::Anew);
            large.begin_anew(5);
            assert_eq!(pieces(&mut large).len(), 2);
            large.on_piece(true);
            large.on_piece(true);
            assert!(matches!(large.due(PIECES_ALONE), Due::Name(_)));
            large.on_gone();
        }
        assert_eq!(large.due(PIECES_ALONE), Due::GivenUp);
    }
}
