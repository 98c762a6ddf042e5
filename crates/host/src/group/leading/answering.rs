//! Answers to commands that were executed, once they may be given: else the command is executed again, or nobody knows what became of it.

use std::collections::VecDeque;

use paxos::mutation::{self, Mutation};
use paxos::{StreamName, Time};

use super::{Leading, Seen, Sent};
use crate::machine::Outcome;
use crate::room::Answer;

impl Leading {
    /// Whether something that its order asked for behind it wrote, and may be chosen.
    pub(super) fn is_before_a_write(&self, seen: &Seen) -> bool {
        let is_behind = |sent: &Sent| {
            sent.stream == seen.stream
                && sent.number > seen.number
                && sent.call.order == seen.call.order
        };
        seen.call.order.is_some()
            && self.sent.iter().any(is_behind)
            && !mutation::is(Mutation::ReadsOvertaken)
    }

    /// The stream is chosen so far; `frame` is the last whole one.
    pub fn on_chosen(&mut self, stream: StreamName, chosen: u64, frame: u64) {
        self.chosen_frame = frame;
        if let Some(reign) = &mut self.reign
            && reign.stream == stream
        {
            reign.chosen = chosen;
        }
        // ‡ A frame that is made after a read and chosen in its stream proves what a barrier does: nobody led in between.
        for seen in &mut self.seen {
            seen.has_passed |= seen.stream == stream
                && seen.next <= frame
                && !mutation::is(Mutation::ReadsOvertaken);
        }
        self.answer_seen();
        while let Some(sent) = self
            .sent
            .pop_front_if(|sent| sent.stream == stream && sent.end <= chosen)
        {
            sent.call.replier.reply(sent.answer.give());
        }
    }

    /// ‡ Only the end of its stream tells what never will be chosen.
    pub fn on_ended(&mut self, stream: StreamName, length: Option<u64>) {
        let (of_it, others): (VecDeque<Sent>, VecDeque<Sent>) = std::mem::take(&mut self.sent)
            .into_iter()
            .partition(|sent| sent.stream == stream);
        self.sent = others;
        let seen = self.seen_of(stream);
        match length {
            // All below it was handed over, and answered.
            Some(_) => {
                let asked = of_it.into_iter().filter(|sent| !sent.is_forgotten);
                let asked = asked.map(|sent| (sent.number, sent.call));
                let seen = seen.into_iter().map(|seen| (seen.number, seen.call));
                self.again(asked.chain(seen));
            }
            None => {
                let sent = of_it.into_iter().map(|sent| sent.call);
                sent.chain(seen.into_iter().map(|seen| seen.call))
                    .for_each(|call| call.replier.reply(Outcome::Unknown));
            }
        }
    }

    /// Takes the commands away that wrote nothing in this stream, and wait for no reign of it.
    fn seen_of(&mut self, stream: StreamName) -> Vec<Seen> {
        if mutation::is(Mutation::HostAnswersOfOlderReign) {
            return Vec::new();
        }
        let reigns = self.reign.as_ref().map(|reign| reign.stream);
        let is_of_it = |seen: &mut Seen| seen.stream == stream && reigns != Some(stream);
        self.seen.extract_if(.., is_of_it).collect()
    }

    /// ‡ An answer that wrote nothing stands only if the reign in which it was found is still there when its barrier passes.
    pub fn on_passed(&mut self, barrier: u64, stream: Option<StreamName>) {
        for seen in &mut self.seen {
            let stands = stream == Some(seen.stream);
            let stands = stands || mutation::is(Mutation::HostAnswersOfOlderReign);
            seen.has_passed |= seen.barrier == barrier && stands;
        }
        self.answer_seen();
    }

    pub(super) fn answer_seen(&mut self) {
        let chosen = match mutation::is(Mutation::HostShowsUnchosen) {
            true => u64::MAX,
            false => self.chosen_frame,
        };
        let is_due = |seen: &mut Seen| seen.has_passed && seen.frame <= chosen;
        for seen in self.seen.extract_if(.., is_due) {
            seen.call.replier.reply(seen.answer.give());
        }
    }

    pub(super) fn give_up(&mut self, now: Time) {
        while let Some(sent) = self
            .sent
            .pop_front_if(|sent| sent.until.is_some_and(|until| until <= now))
        {
            sent.call.replier.reply(Outcome::Unknown);
            // The rest of that stream is given up in the same loop.
            for seen in self.seen_of(sent.stream) {
                seen.call.replier.reply(Outcome::Unknown);
            }
        }
    }

    /// The bytes of answers that wait.
    pub(super) fn answers_bytes(&self) -> usize {
        let seen = self.seen.iter().map(|seen| &seen.answer);
        let sent = self.sent.iter().map(|sent| &sent.answer);
        seen.chain(sent).map(Answer::bytes).sum()
    }
}
