//! Slots that a group has frozen for another: their rows go once that one owns them.

use std::time::Duration;

use ops::Time;
use paxos::mutation::{self, Mutation};

use super::words::{Held, Piece, Run, Step, Told};
use super::{Moving, Round, Whose};

/// Whoever is to have them is asked again after so long.
const ASK_EVERY: Duration = Duration::from_millis(20);

pub struct Out {
    pub piece: Piece,
    pub to: u32,
    /// `None`: a question, or the last step, is under way.
    at: Option<Time>,
    /// The number of that.
    number: u64,
}

impl Out {
    pub fn new(piece: Piece, to: u32) -> Out {
        Out {
            piece,
            to,
            at: Some(Time::ZERO),
            number: 0,
        }
    }

    /// Whether this is the number of what is under way.
    pub fn awaits(&self, number: u64) -> bool {
        self.at.is_none() && self.number == number
    }

    pub fn of(run: &Run) -> Option<(u16, Out)> {
        let Held::Frozen { to, wish, .. } = run.token else {
            return None;
        };
        let span = run.span;
        Some((span.first, Out::new(Piece { span, wish }, to)))
    }

    pub fn look_now(&mut self) {
        if self.at.is_some() {
            self.at = Some(Time::ZERO);
        }
    }

    pub fn deadline(&self) -> Option<Time> {
        self.at
    }
}

impl Moving {
    pub(super) fn look_out(&mut self, log: u32, round: &mut Round<'_>) {
        let Some(led) = self.led.get_mut(&log) else {
            return;
        };
        let mut due = Vec::new();
        for (first, out) in &mut led.outgoing {
            if out.at.take_if(|at| *at <= round.now).is_some() {
                due.push((*first, out.piece, out.to));
            }
        }
        for (first, piece, to) in due {
            let number = self.await_out(log, first);
            let whose = Whose::Out(first, number);
            match mutation::is(Mutation::GoneUnasked) {
                true => self.step(log, whose, &Step::Gone { piece, to }, None, round),
                false => self.ask(log, to, whose, Step::Owns { piece }, round),
            }
        }
    }

    /// A number for what the piece awaits now.
    fn await_out(&mut self, log: u32, first: u16) -> u64 {
        let number = self.next_number();
        let led = self.led.get_mut(&log);
        if let Some(out) = led.and_then(|led| led.outgoing.get_mut(&first)) {
            out.number = number;
        }
        number
    }

    /// ‡ The rows go on the word of the other group's chosen state, and of that of nobody else.
    pub(super) fn on_target_told(
        &mut self,
        log: u32,
        (first, number): (u16, u64),
        told: &Told,
        round: &mut Round<'_>,
    ) {
        let led = self.led.get_mut(&log);
        let out = led.and_then(|led| led.outgoing.get_mut(&first));
        let Some(out) = out.filter(|out| out.awaits(number)) else {
            return;
        };
        if *told != Told::Owns(true) {
            out.at = Some(round.now + ASK_EVERY);
            return;
        }
        let (piece, to) = (out.piece, out.to);
        // Commands that wait for these slots may go there at once.
        self.arrived.note(piece);
        let number = self.await_out(log, first);
        let whose = Whose::Out(first, number);
        self.step(log, whose, &Step::Gone { piece, to }, None, round);
    }
}
