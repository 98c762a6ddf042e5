//! The lines on letters, work and the clock, and the other machine of the process.

use std::collections::VecDeque;

use ops::{Completion, Lane, Letter, Machine, MachineId, Op, Time, Token, Work};

use super::Performer;
use crate::script::Line;

pub const OTHER: MachineId = MachineId(1);
const NOBODY: MachineId = MachineId(7);

/// It carries the number of the line that wrote it.
#[derive(Debug)]
struct Note(usize);

/// Asks the other machine to be finished.
#[derive(Debug)]
struct End;

impl Performer {
    pub(super) fn post(&mut self, line: &Line, number: usize) {
        let to = who(line.word(1));
        self.posts.entry(to).or_default().push_back(number);
        let letter = Letter::new(Note(number));
        self.put(Op::Post { to, letter });
    }

    pub(super) fn end_other(&mut self, line: &Line) {
        let to = who(line.word(1));
        self.gone.insert(to);
        let letter = Letter::new(End);
        self.put(Op::Post { to, letter });
    }

    pub(super) fn run_in_lane(&mut self, line: &Line, number: usize) {
        let token = self.errand_token(number);
        let lane = Lane(line.number(1, self.much) as u16);
        self.lanes.entry(lane).or_default().push_back(token);
        let panics = line.word(2) == "panic";
        let work = Work::new(move || match panics {
            true => panic!("line {number} panics"),
            false => Note(number),
        });
        self.put(Op::Run { token, lane, work });
    }

    pub(super) fn ask_the_clock(&mut self, number: usize) {
        let token = self.errand_token(number);
        self.put(Op::WallClock { token });
    }

    fn errand_token(&mut self, number: usize) -> Token {
        self.next_number += 1;
        let token = Token(self.next_number);
        self.tokens.insert(token, number);
        token
    }

    /// Some letter will still be answered.
    pub(super) fn awaits_letters(&self) -> bool {
        let posts = self.posts.iter();
        let mut lively = posts.filter(|(to, _)| **to != NOBODY && !self.gone.contains(to));
        lively.any(|(_, lines)| !lines.is_empty())
    }

    pub(super) fn on_delivered(&mut self, from: MachineId, letter: Letter) {
        let Note(number) = letter.open().expect("the answers are what was written");
        let given = self.posts.get_mut(&from).and_then(VecDeque::pop_front);
        self.outcomes[number] = match given == Some(number) {
            true => format!("from {}", name(from)),
            false => "out of order".to_string(),
        };
    }

    pub(super) fn on_ran(&mut self, token: Token, result: Result<Letter, String>) {
        let number = self.tokens[&token];
        let lanes = self.lanes.values_mut();
        let mut of_it = lanes.filter(|lane| lane.contains(&token));
        let lane = of_it.next().expect("a lane that was given work");
        let in_order = lane.front() == Some(&token);
        lane.retain(|other| *other != token);
        let outcome = match result {
            _ if !in_order => "out of order".to_string(),
            Ok(letter) => match letter.open::<Note>() {
                Ok(Note(of)) if of == number => "ran".to_string(),
                other => format!("{other:?}"),
            },
            Err(message) if message == format!("line {number} panics") => "panicked".to_string(),
            Err(message) => message,
        };
        self.on_done(token, outcome);
    }
}

fn who(word: &str) -> MachineId {
    match word {
        "self" => MachineId::NODE,
        "other" => OTHER,
        "nobody" => NOBODY,
        other => panic!("no such machine: {other}"),
    }
}

fn name(machine: MachineId) -> &'static str {
    match machine {
        MachineId::NODE => "self",
        OTHER => "other",
        _ => "nobody",
    }
}

/// The other machine: it sends every letter back.
#[derive(Default)]
pub struct Other {
    ops: VecDeque<Op>,
    finished: bool,
}

impl Machine for Other {
    fn handle(&mut self, _now: Time, completion: Completion) {
        match completion {
            Completion::Delivered { letter, .. } if letter.holds::<End>() => self.finished = true,
            Completion::Delivered { from, letter } => {
                self.ops.push_back(Op::Post { to: from, letter });
            }
            Completion::StopRequested => self.finished = true,
            other => panic!("{other:?}"),
        }
    }

    fn on_time(&mut self, _now: Time) {}

    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}
