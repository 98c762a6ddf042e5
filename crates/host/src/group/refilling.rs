//! Clients who fill an empty state: each step is a command of the host's own ([`crate::filling`]), executed and chosen like any other.

use std::sync::mpsc::{self, Receiver, Sender};

use letters::{Fill, Not, Wish, Word};
use paxos::Time;

use super::saving::not;
use super::{Call, Core, Out, Replier};
use crate::filling::Filled;
use crate::machine::{Command, Outcome};

type Answer = (u64, Outcome);

pub struct Refilling {
    tell: Sender<Answer>,
    told: Receiver<Answer>,
}

impl Default for Refilling {
    fn default() -> Refilling {
        let (tell, told) = mpsc::channel();
        Refilling { tell, told }
    }
}

impl Refilling {
    /// The command for a step.
    pub fn call(&self, now: Time, client: u64, fill: Fill) -> Call {
        let tell = self.tell.clone();
        Call {
            command: Command::Fill(fill),
            // A group that is gone hears nothing more.
            replier: Replier::new(move |outcome| drop(tell.send((client, outcome)))),
            since: now,
            order: None,
            aside: None,
        }
    }

    /// Tells clients what became of their steps.
    pub fn settle(&mut self, core: &Core, out: &mut Out) {
        while let Ok((client, outcome)) = self.told.try_recv() {
            let (why, sentence) = match outcome {
                Outcome::Chosen(answer) => match Filled::decode(&answer) {
                    Some(Filled::Next(next)) => {
                        let word = Word::Filled { next };
                        core.wish(out, Wish::ToClient { client, word });
                        continue;
                    }
                    Some(Filled::NotEmpty) => (
                        Not::Empty,
                        format!(
                            "the machine {} has written something already, and only a new one is filled: delete its log first (`logberg log delete`), or restore to another log that has this machine",
                            core.name
                        ),
                    ),
                    Some(Filled::Before) => (
                        Not::Before,
                        format!(
                            "the machine {} was filled from this backup before, and may have been written since: it is left as it is; to have the backup's rows again, delete its log first (`logberg log delete`)",
                            core.name
                        ),
                    ),
                    Some(Filled::NotNext(why)) => (Not::Allowed, why.to_owned()),
                    None => (Not::Allowed, "nobody understands the answer".to_owned()),
                },
                Outcome::Refused(why) => (Not::Allowed, why),
                Outcome::NotLeader { leader } => {
                    let sentence = format!("another node leads {}: ask there", core.name);
                    (Not::Leading { leader }, sentence)
                }
                Outcome::NotNow(why) => (Not::Now, why),
                Outcome::Unknown | Outcome::NoSession | Outcome::Superseded => (
                    Not::Now,
                    "what became of the step is not known: ask again".to_owned(),
                ),
            };
            not(core, client, why, sentence, out);
        }
    }
}
