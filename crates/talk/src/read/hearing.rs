//! The bytes of a server: lines, and the bytes of chunks behind them.

use std::time::Duration;

use wire::{Answer, ReadEnd};

use super::{Body, Phase, ReadError, ReadOptions, Reader, Reading, error};
use crate::known::Known;
use crate::links::{Input, Link};
use crate::lookout::{OWED, SIGN_OF_LIFE};
use crate::owed::Owed;
use crate::said::{Said, elsewhere};
use crate::search::Backoff;

/// The largest chunk this side takes. The wire's is 4 MiB; this leaves later nodes some room and
/// keeps a wrong length from becoming a large allocation.
const CHUNK_BYTES_MAX: u64 = 16 << 20;

/// Why a line did not bring the read forward.
enum Hindrance {
    Lost(Said),
    Final(ReadError),
}

impl Reader {
    /// The place where the caller may put bytes of this connection directly, if a chunk is on its way there;
    /// then it says so with [`Reader::filled`]. Otherwise they come by [`Input::Received`].
    pub fn room(&mut self, link: Link) -> Option<&mut [u8]> {
        let Phase::Reading(reading) = &mut self.phase else {
            return None;
        };
        let body = reading.body.as_mut().filter(|_| reading.link == link)?;
        Some(&mut body.bytes[body.filled..])
    }

    /// Notes that so many bytes were put into [`Reader::room`].
    pub fn filled(&mut self, now: Duration, known: &mut Known, count: usize) {
        if let Phase::Reading(reading) = &mut self.phase
            && let Some(body) = &mut reading.body
        {
            body.filled = (body.filled + count).min(body.bytes.len());
            reading.owed.came(now, count);
        }
        self.converse(now, known, &Input::Time);
    }

    /// The time for which the server may say nothing before it is left.
    pub(super) fn silence(&self, reading: &Reading) -> Duration {
        // A follower that is owed no bytes is owed a sign of life, each second.
        match self.options.follow && reading.body.is_none() {
            true => self.timeouts.silence.max(SIGN_OF_LIFE),
            false => self.timeouts.silence,
        }
    }

    /// The time before others are asked.
    pub(super) fn patience(&self, reading: &Reading) -> Duration {
        match self.options.follow && reading.body.is_none() {
            true => SIGN_OF_LIFE,
            false => OWED,
        }
    }

    pub(super) fn converse(&mut self, now: Duration, known: &mut Known, input: &Input) {
        let Phase::Reading(reading) = &mut self.phase else {
            return;
        };
        let mut lost = None;
        match input {
            Input::Received(link, bytes) if *link == reading.link => {
                reading.lines.push(bytes);
                if reading.body.is_some() {
                    reading.owed.came(now, bytes.len());
                }
            }
            Input::Lost(link, said) if *link == reading.link => lost = Some(said.clone()),
            _ => {}
        }
        let mut hindrance = None;
        while self.chunk().is_empty() && matches!(self.phase, Phase::Reading(_)) {
            match self.hear(now) {
                Ok(true) => self.lookout.disarm(&mut self.links),
                Ok(false) => break,
                Err(why) => {
                    hindrance = Some(why);
                    break;
                }
            }
        }
        // Lines that came before the end count. Behind a chunk that is not consumed the end is found out again.
        let lost = lost.map(Hindrance::Lost);
        let hindrance = hindrance.or(lost).or_else(|| self.judge(now, known, input));
        match hindrance {
            None => {}
            Some(Hindrance::Final(error)) => self.fail(error),
            Some(Hindrance::Lost(said)) if self.chunk().is_empty() => self.lose(now, known, said),
            Some(Hindrance::Lost(said)) => {
                if let Phase::Reading(reading) = &mut self.phase {
                    reading.lost = Some(said);
                }
            }
        }
    }

    /// Gives a silent server up, and asks others before.
    fn judge(&mut self, now: Duration, known: &mut Known, input: &Input) -> Option<Hindrance> {
        let Phase::Reading(reading) = &self.phase else {
            return None;
        };
        if !self.chunk().is_empty() {
            return None;
        }
        if let Some(said) = &reading.lost {
            return Some(Hindrance::Lost(said.clone()));
        }
        let silent = now.saturating_sub(reading.owed.since());
        let (patience, silence) = (self.patience(reading), self.silence(reading));
        let server = reading.server.clone();
        if self.lookout.handle(now, &mut self.links, known, input) {
            return Some(Hindrance::Lost(Said::Silent));
        }
        if silent >= silence {
            return Some(Hindrance::Lost(Said::Silent));
        }
        if silent >= patience && !self.lookout.is_armed() {
            self.lookout.arm(now, &server);
            self.lookout
                .handle(now, &mut self.links, known, &Input::Time);
        }
        None
    }

    /// Takes in one line, or what has come of a chunk. False: there is nothing whole.
    fn hear(&mut self, now: Duration) -> Result<bool, Hindrance> {
        let Phase::Reading(reading) = &mut self.phase else {
            return Ok(false);
        };
        if let Some(body) = &mut reading.body {
            body.filled += reading.lines.take_into(&mut body.bytes[body.filled..]);
            if body.filled < body.bytes.len() {
                return Ok(false);
            }
            return self.on_chunk(now).map(|()| true);
        }
        let garbled = |server: &str, what: String| {
            Hindrance::Final(ReadError::Garbled {
                server: server.to_owned(),
                what,
            })
        };
        let here = self.position;
        let answer = match reading.lines.answer() {
            Ok(None) => return Ok(false),
            Ok(Some(answer)) => answer,
            Err(error) => return Err(Hindrance::Lost(Said::Garbled(error.to_string()))),
        };
        reading.owed = Owed::from(now);
        match answer {
            Answer::Data {
                position,
                count,
                crc32c,
            } => {
                if position != here || count > CHUNK_BYTES_MAX {
                    let what = format!("{count} bytes at {position}, not at {here}");
                    return Err(garbled(&reading.server, what));
                }
                let after = position.checked_add(count);
                if after.is_none() || self.options.to.is_some_and(|to| after > Some(to)) {
                    let what = format!("{count} bytes at {position}, past the end");
                    return Err(garbled(&reading.server, what));
                }
                let mut bytes = std::mem::take(&mut reading.room);
                bytes.resize(count as usize, 0);
                reading.body = Some(Body {
                    bytes,
                    filled: 0,
                    crc32c,
                });
                Ok(true)
            }
            Answer::End { position, end } if position == here => {
                if let Some(what) = contradiction(&self.options, self.length, here, end) {
                    return Err(garbled(&reading.server, what));
                }
                self.leave();
                self.end = Some(end);
                Ok(false)
            }
            Answer::Error(refusal) => Err(match elsewhere(&refusal) {
                Some(said) => Hindrance::Lost(said),
                None => Hindrance::Final(error::refused(
                    &self.options,
                    here,
                    &reading.server,
                    refusal,
                )),
            }),
            other => {
                let line = other.to_line();
                let what = format!("{:?} at {here}", line.trim_end());
                Err(garbled(&reading.server, what))
            }
        }
    }

    /// A follower is owed what was known chosen when it was answered. Another reader is owed an end, too.
    pub(super) fn is_owed_bytes(&self) -> bool {
        let known = self
            .options
            .to
            .map_or(self.length, |to| to.min(self.length));
        !self.options.follow || self.position < known
    }

    /// A chunk is whole: it is verified before anybody sees it.
    fn on_chunk(&mut self, now: Duration) -> Result<(), Hindrance> {
        let Phase::Reading(reading) = &mut self.phase else {
            return Ok(());
        };
        let Some(Body { bytes, crc32c, .. }) = reading.body.take() else {
            return Ok(());
        };
        let found = crc32c::crc32c(&bytes);
        let count = bytes.len() as u64;
        if found != crc32c {
            return Err(Hindrance::Final(ReadError::Corrupt {
                server: reading.server.clone(),
                position: self.position,
                count,
                expected: crc32c,
                found,
            }));
        }
        reading.owed = Owed::from(now);
        // The chunk before was consumed: its room is used again.
        reading.room = std::mem::replace(&mut self.chunk, bytes);
        self.taken = 0;
        self.position += count;
        // A sign of life helps nobody who is owed bytes.
        if count > 0 || !self.is_owed_bytes() {
            self.progress = now;
        } else if now.saturating_sub(self.progress) >= self.timeouts.total {
            return Err(Hindrance::Lost(Said::NotHere));
        }
        self.backoff = Backoff::graceful();
        Ok(())
    }
}

/// What keeps this from being the end of what was asked for, if anything does. `length` bytes were known chosen.
fn contradiction(options: &ReadOptions, length: u64, here: u64, end: ReadEnd) -> Option<String> {
    let all = options.to.map_or(length, |to| to.min(length));
    match end {
        _ if here < all => Some(format!("an end at {here} ({end}) of {length} bytes")),
        ReadEnd::To if options.to != Some(here) => {
            Some(format!("an end at {here} that was asked for"))
        }
        ReadEnd::Open if options.follow && options.to.is_none() => {
            Some(format!("an end at {here} of what is open and followed"))
        }
        _ => None,
    }
}
