//! Pieces of the state for other nodes, which copy it.
//!
//! A question names the position below which a piece is of no use: as far as its node has applied the log. Where less is
//! applied, the question waits, for the log comes to all of them; elsewhere it would be asked again, and again too early.

use std::time::Duration;

use letters::Wish;
use paxos::{NodeId, Time};

use super::{Core, Keeping, Out};
use crate::jobs;
use crate::piece::{Answer, Question};

/// So many questions wait or are answered at a time.
const QUESTIONS_MAX: usize = 4;
/// A question waits for so long. Whoever asked asks somebody else after twice as long.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub struct Giving {
    waiting: Vec<Waiting>,
    /// Pieces that are being read.
    reading: usize,
}

#[derive(Debug)]
struct Waiting {
    to: NodeId,
    request: u64,
    question: Question,
    until: Time,
}

impl Giving {
    /// Takes a question, or `None` if nothing is to be given.
    pub fn on_asked(
        &mut self,
        now: Time,
        (to, request): (NodeId, u64),
        bytes: Option<&[u8]>,
        core: &Core,
        out: &mut Out,
    ) {
        // A node that asks again gave its earlier question up.
        self.waiting.retain(|waiting| waiting.to != to);
        let has_room = self.waiting.len() + self.reading < QUESTIONS_MAX;
        let question = bytes.filter(|_| has_room);
        match question.and_then(|bytes| Question::decode(bytes).ok()) {
            Some(question) => self.waiting.push(Waiting {
                to,
                request,
                question,
                until: now + PATIENCE,
            }),
            None => not_here(core, to, request, out),
        }
    }

    /// Another state is on the shelf, or none. What is read of the earlier one is nobody's.
    pub fn on_given_up(&mut self) {
        self.reading = 0;
    }

    pub fn on_read(
        &mut self,
        to: NodeId,
        request: u64,
        bytes: Vec<u8>,
        core: &Core,
        out: &mut Out,
    ) {
        self.reading -= 1;
        core.wish(out, Wish::TellPiece { to, request, bytes });
    }

    pub fn settle(&mut self, now: Time, core: &Core, keeping: &Keeping, out: &mut Out) {
        let applied = keeping.applied().position;
        let whole = core.shelf.as_ref().filter(|_| core.is_whole());
        for waiting in std::mem::take(&mut self.waiting) {
            let Waiting { to, request, .. } = waiting;
            match whole {
                Some(shelf) if waiting.question.from <= applied => {
                    self.reading += 1;
                    let lane = jobs::READERS[request as usize % jobs::READERS.len()];
                    let bytes_max = core.bounds.piece_bytes;
                    let question = waiting.question;
                    let work = jobs::read_piece(shelf, to, request, question, bytes_max);
                    core.run(out, lane, work);
                }
                Some(_) if now < waiting.until => self.waiting.push(waiting),
                _ => not_here(core, to, request, out),
            }
        }
    }

    pub fn deadline(&self) -> Option<Time> {
        self.waiting.iter().map(|waiting| waiting.until).min()
    }
}

fn not_here(core: &Core, to: NodeId, request: u64, out: &mut Out) {
    let bytes = Answer::NotHere.encode();
    core.wish(out, Wish::TellPiece { to, request, bytes });
}
