//! Chosen bytes become frames, and frames a batch for the shelf.

use std::collections::VecDeque;
use std::time::Duration;

use letters::CREDIT_BYTES;
use paxos::StreamName;
use paxos::mutation::{self, Mutation};
use shelf::{Applied, Batch};

use crate::frame::{Decoder, Frame};

/// The place up to which a log was handed over and decoded. What is applied lags behind it.
#[derive(Debug, Default)]
pub struct Intake {
    decoder: Decoder,
    /// The position of the log's output up to which its bytes were handed over.
    taken: u64,
    /// The end of the last whole frame.
    decoded: Applied,
    /// ‡ The last frame that the state has is not compared with the log's yet: until it is, nothing is applied.
    awaits_witness: bool,
    /// The frames that are not on their way to the shelf, and how many bytes of the output they are.
    batch: Batch,
    batch_bytes: u64,
    /// Those up to marks, which are applied before.
    marked: VecDeque<Load>,
    /// A mark is taken once the log's time passes a multiple of this, in milliseconds.
    mark_every_ms: u64,
    /// Bytes that were handed over, and nobody has given credit for again.
    owed: u64,
}

/// The frames that are applied together.
#[derive(Debug)]
pub struct Load {
    pub batch: Batch,
    pub applied: Applied,
    /// The credit that is given once they are applied.
    pub bytes: u64,
    /// A mark is taken of the state after them.
    pub is_marked: bool,
}

impl Intake {
    /// The log is taken from [`Intake::begins_at`] on.
    pub fn from(applied: Applied, mark_every: Duration) -> Intake {
        let frame_bytes = u64::from(applied.frame_bytes);
        Intake {
            taken: applied.position - frame_bytes.min(applied.position),
            awaits_witness: frame_bytes > 0,
            decoded: applied,
            mark_every_ms: mark_every.as_millis() as u64,
            ..Intake::default()
        }
    }

    /// The position from which bytes are taken.
    pub fn begins_at(&self) -> u64 {
        self.taken
    }

    /// Whether the log's bytes are still to tell that the state is one of its history.
    pub fn awaits_witness(&self) -> bool {
        self.awaits_witness
    }

    /// The log begins at the state's position, or between: what it had before nobody can compare. ‡ A part of that frame may have come before the log
    /// was trimmed: it is dropped, or what follows would be read as its end.
    pub fn without_witness(&mut self) {
        self.awaits_witness = false;
        self.decoder.clear();
        self.taken = self.decoded.position;
    }

    /// ‡ Compares the log's frame with the last one that the state has. Of a log or a state that was restored from another time it differs.
    fn compare(&self, frame: &Frame, end: u64) -> Result<(), String> {
        let has = self.decoded;
        let is_same = (frame.number, end, self.decoder.checksum())
            == (has.frame, has.position, has.frame_crc32c);
        match is_same || mutation::is(Mutation::HistoryNotCompared) {
            true => Ok(()),
            false => Err(format!(
                "the state has frame {} up to position {}, and the log has another one there: the state or the log was restored from another time",
                has.frame, has.position
            )),
        }
    }

    /// Takes the next bytes. `on_frame` sees each frame that is whole now.
    ///
    /// Errors: a sentence about bytes that cannot be applied. Nothing behind them is.
    pub fn take(
        &mut self,
        stream: StreamName,
        at: u64,
        bytes: &[u8],
        mut on_frame: impl FnMut(&Frame),
    ) -> Result<(), String> {
        if at != self.taken {
            return Err(format!(
                "the log goes on at {at}, and not at {}",
                self.taken
            ));
        }
        self.decoder.push(bytes);
        self.taken += bytes.len() as u64;
        self.owed += bytes.len() as u64;
        loop {
            let position = self.taken - self.decoder.waiting() as u64;
            let at_position = |error| format!("position {position}: {error}");
            let frame = self.decoder.next_frame();
            let Some(frame) = frame.map_err(|error| at_position(error.to_string()))? else {
                return Ok(());
            };
            if self.awaits_witness {
                self.compare(&frame, self.taken - self.decoder.waiting() as u64)?;
                self.awaits_witness = false;
                continue;
            }
            // ‡ A shelf is the state after exactly one prefix of the log.
            if frame.number != self.decoded.frame + 1 {
                return Err(at_position(format!(
                    "frame {} stands where frame {} should",
                    frame.number,
                    self.decoded.frame + 1
                )));
            }
            if frame.time_ms < self.decoded.time_ms {
                return Err(at_position(format!(
                    "the time of frame {} goes back",
                    frame.number
                )));
            }
            on_frame(&frame);
            let end = self.taken - self.decoder.waiting() as u64;
            // ‡ By what the frames say alone.
            let period = |time_ms: u64| time_ms.checked_div(self.mark_every_ms);
            let is_marked =
                self.decoded.frame > 0 && period(frame.time_ms) != period(self.decoded.time_ms);
            self.batch_bytes += end - position;
            self.decoded = Applied {
                position: end,
                stream: name_bytes(stream),
                frame: frame.number,
                time_ms: frame.time_ms,
                frame_bytes: u32::try_from(end - position).unwrap_or(0),
                frame_crc32c: self.decoder.checksum(),
            };
            let is_skipped =
                mutation::is(Mutation::FrameSkipped) && frame.number.is_multiple_of(16);
            for write in frame.writes.into_iter().filter(|_| !is_skipped) {
                self.batch.push(write);
            }
            if is_marked {
                let load = self.close_batch(true);
                self.marked.push_back(load);
            }
        }
    }

    /// The stream that was taken is over: a frame that is not all there never will be.
    pub fn end_stream(&mut self) {
        self.decoder.clear();
    }

    /// Takes the frames that are not on their way yet.
    pub fn load(&mut self) -> Option<Load> {
        if let Some(load) = self.marked.pop_front() {
            return Some(load);
        }
        (self.batch_bytes > 0).then(|| self.close_batch(false))
    }

    fn close_batch(&mut self, is_marked: bool) -> Load {
        self.batch_bytes = 0;
        Load {
            batch: std::mem::take(&mut self.batch),
            applied: self.decoded,
            bytes: self.owed_but(self.decoder.waiting() as u64),
            is_marked,
        }
    }

    /// Whether something is there to be applied.
    pub fn has_load(&self) -> bool {
        !self.marked.is_empty() || self.batch_bytes > 0
    }

    /// Credit for bytes that nothing is applied for: a frame that is longer than all credit would else never be whole.
    pub fn credit_for_waiting(&mut self) -> u64 {
        match self.owed >= CREDIT_BYTES / 2 && self.batch_bytes == 0 && self.marked.is_empty() {
            true => self.owed_but(0),
            false => 0,
        }
    }

    fn owed_but(&mut self, kept: u64) -> u64 {
        let kept = kept.min(self.owed);
        let given = self.owed - kept;
        self.owed = kept;
        given
    }

    pub fn taken(&self) -> u64 {
        self.taken
    }

    pub fn decoded(&self) -> Applied {
        self.decoded
    }
}

/// A stream's name as shelves keep it.
fn name_bytes(name: StreamName) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&name.owner.0.to_le_bytes());
    bytes[4..8].copy_from_slice(&name.sequence.incarnation.to_le_bytes());
    bytes[8..12].copy_from_slice(&name.sequence.counter.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use paxos::{NodeId, StreamSequence};
    use shelf::Write;

    use super::*;

    const STREAM: StreamName = StreamName {
        owner: NodeId(1),
        sequence: StreamSequence {
            incarnation: 1,
            counter: 1,
        },
    };

    fn frame(number: u64, value: &str) -> Vec<u8> {
        let frame = Frame {
            number,
            time_ms: number,
            writes: vec![Write::Put {
                key: b"key".to_vec(),
                value: value.into(),
            }],
        };
        frame.encode()
    }

    /// The state after two frames, and the bytes of a third.
    fn after_two(third: &str) -> (Applied, Vec<u8>) {
        let mut intake = Intake::default();
        let bytes = [frame(1, "a"), frame(2, "b")].concat();
        intake
            .take(STREAM, 0, &bytes, |_| ())
            .expect("they are frames");
        (intake.decoded(), frame(3, third))
    }

    #[test]
    fn a_state_goes_on_behind_its_last_frame() {
        let (applied, third) = after_two("c");
        let mut intake = Intake::from(applied, Duration::ZERO);
        let second = frame(2, "b");
        assert_eq!(intake.begins_at(), frame(1, "a").len() as u64);
        let mut at = intake.begins_at();
        for part in [&second[..5], &second[5..], &third] {
            intake
                .take(STREAM, at, part, |_| ())
                .expect("they are frames");
            at += part.len() as u64;
        }
        let load = intake.load().expect("the third frame");
        assert_eq!((load.batch.writes().len(), load.applied.frame), (1, 3));
    }

    #[test]
    fn a_state_of_another_history_takes_nothing() {
        let (applied, third) = after_two("c");
        for other in [frame(2, "x"), frame(2, "longer"), frame(7, "b"), third] {
            let mut intake = Intake::from(applied, Duration::ZERO);
            let at = intake.begins_at();
            let taken = intake.take(STREAM, at, &[other, frame(3, "c")].concat(), |_| ());
            assert!(taken.is_err_and(|why| why.contains("restored from another time")));
            assert!(intake.awaits_witness() && intake.load().is_none());
        }
    }

    #[test]
    fn a_log_that_begins_at_the_state_is_taken_as_it_is() {
        let (applied, third) = after_two("c");
        let mut intake = Intake::from(applied, Duration::ZERO);
        intake.without_witness();
        let at = intake.begins_at();
        assert_eq!(at, applied.position);
        intake
            .take(STREAM, at, &third, |_| ())
            .expect("it is the next one");
        assert_eq!(intake.decoded().frame, 3);
    }

    #[test]
    fn a_log_that_is_trimmed_within_the_last_frame_is_taken_from_behind_it() {
        let (applied, third) = after_two("c");
        let mut intake = Intake::from(applied, Duration::ZERO);
        let at = intake.begins_at();
        intake
            .take(STREAM, at, &frame(2, "b")[..9], |_| ())
            .expect("a part of a frame");
        intake.without_witness();
        intake
            .take(STREAM, applied.position, &third, |_| ())
            .expect("it is the next one");
        assert_eq!(intake.decoded().frame, 3);
    }
}
