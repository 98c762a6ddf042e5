//! The open stream: what was sent is acknowledged, or its connection is lost.

use std::time::Duration;

use paxos::mutation::{self, Mutation};
use wire::{Answer, Code, Refusal, StreamName, StreamPlace};

use super::error::final_error;
use super::{AppendError, Appender, Phase};
use crate::known::Known;
use crate::links::{Input, Lines, Link};
use crate::lookout::OWED;
use crate::said::{Said, elsewhere};

#[derive(Debug)]
pub(super) struct Writing {
    pub server: String,
    pub link: Link,
    pub lines: Lines,
}

/// Why a conversation is over.
enum Over {
    /// Elsewhere, or here again.
    Lost(Said),
    /// For good.
    Failed(AppendError),
}

impl Appender {
    pub(super) fn begin_to_write(&mut self, now: Duration, known: &mut Known, writing: Writing) {
        self.writing = Some(writing);
        self.phase = Phase::Writing;
        self.progress.heard = now;
        // Answers may have come together with the line that opened the stream.
        self.converse(now, known, &Input::Time);
    }

    pub(super) fn writing_deadline(&self) -> Option<Duration> {
        let ring = &self.progress.ring;
        let waits = ring.sent() > ring.acknowledged() || self.progress.has_to_send();
        let until = match self.lookout.is_armed() {
            true => self.timeouts.silence,
            false => self.timeouts.silence.min(OWED),
        };
        let silent = waits.then(|| self.progress.heard + until);
        let look = self.lookout.deadline();
        silent.into_iter().chain(look).min()
    }

    pub(super) fn converse(&mut self, now: Duration, known: &mut Known, input: &Input) {
        let Some(writing) = &mut self.writing else {
            return;
        };
        let mut lost = None;
        match input {
            Input::Received(link, bytes) if *link == writing.link => writing.lines.push(bytes),
            Input::Lost(link, said) if *link == writing.link => lost = Some(said.clone()),
            _ => {}
        }
        // Lines that came before the end count.
        let over = match self.hear(now) {
            Ok(()) => lost.map(Over::Lost),
            Err(over) => Some(over),
        };
        match over.or_else(|| self.judge(now, known, input)) {
            Some(Over::Lost(said)) => return self.lose(now, known, said),
            Some(Over::Failed(error)) => return self.fail(error),
            None => {}
        }
        if self.progress.closing_since.is_some() && self.progress.all_acknowledged() {
            self.begin_to_close(now, known);
        }
    }

    /// Gives a silent server up, and asks others before.
    fn judge(&mut self, now: Duration, known: &mut Known, input: &Input) -> Option<Over> {
        if self.lookout.handle(now, &mut self.links, known, input) {
            return Some(Over::Lost(Said::Silent));
        }
        let ring = &self.progress.ring;
        let waits = ring.sent() > ring.acknowledged() || self.progress.has_to_send();
        let silent = now.saturating_sub(self.progress.heard);
        if !waits {
            return None;
        }
        if silent >= self.timeouts.silence {
            return Some(Over::Lost(Said::Silent));
        }
        if silent >= OWED && !self.lookout.is_armed() {
            let server = self.writing.as_ref().map(|writing| writing.server.clone());
            self.lookout.arm(now, &server.unwrap_or_default());
            self.lookout
                .handle(now, &mut self.links, known, &Input::Time);
        }
        None
    }

    /// Takes in every whole answer that was received.
    fn hear(&mut self, now: Duration) -> Result<(), Over> {
        let Some(writing) = &mut self.writing else {
            return Ok(());
        };
        let server = &writing.server;
        let garbled = |what: String| {
            Over::Failed(AppendError::Garbled {
                server: server.clone(),
                what,
            })
        };
        let (mut acknowledged, mut sum) = (None, None);
        let over = loop {
            match writing.lines.answer() {
                Ok(None) => break None,
                Ok(Some(Answer::Ack(position))) => (acknowledged, sum) = (Some(position), None),
                Ok(Some(Answer::Checked { position, crc32c })) => {
                    (acknowledged, sum) = (Some(position), Some(crc32c));
                }
                Ok(Some(Answer::Error(refusal))) => {
                    break Some(match elsewhere(&refusal) {
                        Some(said) => Over::Lost(said),
                        None if was_cut_off(&refusal) => Over::Lost(Said::Lost),
                        None => Over::Failed(final_error(&self.options.log, server, refusal)),
                    });
                }
                Ok(Some(Answer::Closed(position))) => {
                    (acknowledged, sum) = (Some(position), None);
                    break Some(Over::Failed(AppendError::Closed));
                }
                Ok(Some(other)) => break Some(garbled(other.to_line().trim_end().to_owned())),
                Err(error) => break Some(garbled(error.to_string())),
            }
        };
        // Acknowledgements are cumulative: of those that came together the last says all, and
        // what was acknowledged before an error stays.
        if let Some(position) = acknowledged {
            let base = self.chain.as_ref().map_or(0, |chain| chain.base);
            let before = self.progress.ring.acknowledged();
            let mut below = base.saturating_add(position);
            if mutation::is(Mutation::EarlierStreamsCounted) {
                below = self.progress.ring.sent().min(below.saturating_add(base));
            }
            if !self.progress.ring.acknowledge(below) {
                let what = format!("it acknowledges {position}, which was not sent");
                return Err(garbled(what));
            }
            if let (Some(expected), Some(chain)) = (sum, &self.chain)
                && self.options.checked
                && self.progress.ring.sum() != expected
            {
                return Err(Over::Failed(AppendError::Damaged {
                    server: server.clone(),
                    place: StreamPlace {
                        stream: chain.last,
                        position,
                    },
                    sent: self.progress.ring.sum(),
                    stored: expected,
                }));
            }
            if self.progress.ring.acknowledged() > before {
                self.progress.acknowledged(now);
                self.lookout.disarm(&mut self.links);
            }
        }
        over.map_or(Ok(()), Err)
    }
}

/// A change of leader ended the stream, and no other writer: the chain goes on, as after a loss.
/// Should another have come meanwhile, the resumption is told.
fn was_cut_off(refusal: &Refusal) -> bool {
    refusal.code == Code::Superseded && refusal.value::<StreamName>("stream").is_none()
}
