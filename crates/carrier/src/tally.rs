//! Counts, by kind, of all that goes through connections between nodes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use formats::frame::{OUTLINE, OUTLINE_MAX, Outline};
use ops::Slice;

/// Frames of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    pub frames: u64,
    pub bytes: u64,
}

/// Counts of all that a node has sent to other nodes, by kind. Clones are the same counts; anybody may look at any time.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Mutex<BTreeMap<&'static str, Amount>>>);

/// The first line of a connection.
const GREETING: &str = "greeting";
/// The bytes behind some that are no frame.
const STRANGE: &str = "no frame";

impl Counts {
    pub fn so_far(&self) -> BTreeMap<&'static str, Amount> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn add(&self, kind: &'static str, frames: u64, bytes: usize) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let amount = all.entry(kind).or_default();
        amount.frames += frames;
        amount.bytes += bytes as u64;
    }
}

/// Where one connection is between two frames.
#[derive(Debug)]
enum Place {
    /// The greeting, so many bytes of which are there.
    Line(usize),
    /// The beginning of a frame.
    Head(Vec<u8>),
    /// So many bytes of a frame that is counted.
    Rest(usize),
    Strange,
}

/// Reads one connection's bytes as they are sent.
#[derive(Debug)]
pub struct Reading {
    place: Place,
}

impl Default for Reading {
    fn default() -> Reading {
        Reading::new()
    }
}

impl Reading {
    /// A connection on which nothing was sent yet.
    pub fn new() -> Reading {
        Reading {
            place: Place::Line(0),
        }
    }

    /// Counts the frames of a send, which may end within one.
    pub fn read(&mut self, slices: &[Slice], counts: &Counts) {
        for slice in slices {
            let mut bytes: &[u8] = slice;
            while !bytes.is_empty() {
                bytes = self.step(bytes, counts);
            }
        }
    }

    fn step<'b>(&mut self, bytes: &'b [u8], counts: &Counts) -> &'b [u8] {
        match &mut self.place {
            Place::Line(said) => {
                let end = bytes.iter().position(|byte| *byte == b'\n');
                let length = end.map_or(bytes.len(), |end| end + 1);
                *said += length;
                if end.is_some() {
                    counts.add(GREETING, 1, *said);
                    self.place = Place::Head(Vec::with_capacity(OUTLINE_MAX));
                }
                &bytes[length..]
            }
            Place::Head(head) => {
                // All that a short frame has.
                let wanted = match Outline::of(head) {
                    Some(outline) => outline.length.min(OUTLINE_MAX),
                    None => OUTLINE,
                };
                let length = bytes.len().min(wanted.saturating_sub(head.len()));
                head.extend_from_slice(&bytes[..length]);
                match Outline::of(head) {
                    Some(outline) if head.len() >= outline.length.min(OUTLINE_MAX) => {
                        counts.add(outline.kind, 1, outline.length);
                        let rest = outline.length - head.len();
                        head.clear();
                        if rest > 0 {
                            self.place = Place::Rest(rest);
                        }
                    }
                    None if head.len() >= OUTLINE => {
                        counts.add(STRANGE, 1, head.len());
                        self.place = Place::Strange;
                    }
                    _ => {}
                }
                &bytes[length..]
            }
            Place::Rest(left) => {
                let length = bytes.len().min(*left);
                *left -= length;
                if *left == 0 {
                    self.place = Place::Head(Vec::with_capacity(OUTLINE_MAX));
                }
                &bytes[length..]
            }
            Place::Strange => {
                counts.add(STRANGE, 0, bytes.len());
                &[]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use formats::LogId;
    use formats::frame::{Frame, encode_control};

    use super::*;

    #[test]
    fn frames_are_counted_wherever_a_send_cuts_them() {
        let leads = encode_control(2, &Frame::Leads(vec![LogId(7); 3]));
        let wants = encode_control(2, &Frame::WantSlots(Vec::new()));
        let greeting = b"logberg/1 peer kind=control\n";
        let all = [greeting, &*leads, &*wants, &*leads].concat();
        for cut in 1..all.len() {
            let counts = Counts::default();
            let mut reading = Reading::new();
            for piece in all.chunks(cut) {
                reading.read(&[Slice::copied_from(piece)], &counts);
            }
            let amount = |frames, bytes: usize| Amount {
                frames,
                bytes: bytes as u64,
            };
            let wanted = [
                ("greeting", amount(1, greeting.len())),
                ("leads", amount(2, leads.len() * 2)),
                ("want slots", amount(1, wants.len())),
            ];
            assert_eq!(counts.so_far(), BTreeMap::from(wanted), "by {cut}");
        }
    }

    #[test]
    fn what_is_no_frame_is_counted_so() {
        let counts = Counts::default();
        let text = Slice::copied_from(b"line\nsomething else, and more of it");
        Reading::new().read(&[text], &counts);
        assert_eq!(counts.so_far()["no frame"].bytes, 30);
    }
}
