//! Records of the other side, opened where they were read.
//!
//! ```text
//!   bytes:  │ opened: text, text … │ sealed: records, and the beginning of one │ room │
//! ```

use std::io;
use std::ops::Range;
use std::sync::Arc;

use rustls::Error;

use crate::handshake::refused;
use crate::keys::Keys;
use crate::record::{self, Content, RECORD_BYTES_MAX, Way, wrong};

/// Read at once.
const BUFFER_BYTES: usize = 16 * RECORD_BYTES_MAX;
/// Until more comes at once.
const BUFFER_BYTES_MIN: usize = 8 << 10;
/// ‡ Texts that are opened before they are taken: the system writes 1,024 pieces in one call.
const TEXTS_MAX: usize = 64;
/// ‡ Records in a row that have no text: they cost their sender little, and fill nothing that would end the work on them.
const WITHOUT_TEXT_MAX: u32 = 32;
/// “I am done.”
const CLOSE_NOTIFY: u8 = 0;
/// Ends nothing: whoever sends it goes on to say that it is done.
const USER_CANCELED: u8 = 90;
/// Messages of a handshake that come after it.
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;

pub struct Incoming {
    way: Way,
    keys: Arc<Keys>,
    bytes: Vec<u8>,
    /// Where in `bytes` is what was read and not opened.
    sealed: Range<usize>,
    /// Where in `bytes` is what was opened and not taken.
    texts: Vec<Range<usize>>,
    /// The last read filled it.
    is_short: bool,
    /// Records in a row that had no text.
    without_text: u32,
    /// Records that were opened.
    opened: u64,
}

/// How far the records that are there were opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// As far as whole ones are there.
    All,
    /// As many as may be at once.
    Some,
    /// The last one was the other side's last word.
    End,
}

impl Incoming {
    /// `unread`: came with the handshake.
    pub fn new(way: Way, keys: Arc<Keys>, unread: &[u8]) -> Incoming {
        let mut bytes = unread.to_vec();
        bytes.resize(unread.len().max(BUFFER_BYTES_MIN), 0);
        Incoming {
            way,
            keys,
            bytes,
            sealed: 0..unread.len(),
            texts: Vec::new(),
            is_short: unread.len() >= BUFFER_BYTES_MIN,
            without_text: 0,
            opened: 0,
        }
    }

    /// Where more may be read. To be asked for when everything that was opened is taken.
    pub fn room(&mut self) -> &mut [u8] {
        debug_assert!(self.texts.is_empty());
        if self.sealed.start > 0 {
            self.bytes.copy_within(self.sealed.clone(), 0);
            self.sealed = 0..self.sealed.len();
        }
        if self.is_short {
            let length = (self.bytes.len() * 4).min(BUFFER_BYTES);
            self.bytes.resize(length.max(self.bytes.len()), 0);
            self.is_short = false;
        }
        &mut self.bytes[self.sealed.end..]
    }

    /// So many bytes were read into the room.
    pub fn on_read(&mut self, count: usize) {
        self.sealed.end += count;
        self.is_short = self.sealed.end == self.bytes.len();
    }

    /// Opens the records that are there.
    ///
    /// Errors: the connection is broken. What was opened before is as it should be.
    pub fn open(&mut self) -> io::Result<Opened> {
        loop {
            let length = record::length(&self.bytes[self.sealed.clone()])?;
            let Some(length) = length.filter(|length| *length <= self.sealed.len()) else {
                return Ok(Opened::All);
            };
            if self.texts.len() == TEXTS_MAX {
                return Ok(Opened::Some);
            }
            let at = self.sealed.start;
            self.sealed.start += length;
            let (content, text) = self.way.open(&mut self.bytes[at..at + length])?;
            let text = at + text.start..at + text.end;
            self.opened += 1;
            self.without_text = match content {
                Content::Data if !text.is_empty() => 0,
                _ => self.without_text + 1,
            };
            if self.without_text > WITHOUT_TEXT_MAX {
                return Err(wrong("a flood of records without text"));
            }
            match content {
                Content::Data if text.is_empty() => {}
                Content::Data => self.texts.push(text),
                Content::Handshake => self.hear(text)?,
                Content::Alert => match self.bytes[text] {
                    [_, CLOSE_NOTIFY] => return Ok(Opened::End),
                    [_, USER_CANCELED] => {}
                    [_, alert] => {
                        return Err(refused(Error::AlertReceived(alert.into())));
                    }
                    _ => return Err(wrong("an alert that is none")),
                },
            }
        }
    }

    /// Messages that come after a handshake.
    fn hear(&mut self, text: Range<usize>) -> io::Result<()> {
        let mut rest = &self.bytes[text];
        loop {
            let Some((&[kind, high, middle, low], behind)) = rest.split_first_chunk() else {
                return Err(wrong("a message of a handshake in pieces"));
            };
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            let Some((message, behind)) = behind.split_at_checked(length) else {
                return Err(wrong("a message of a handshake in pieces"));
            };
            match (kind, message, behind) {
                // Nothing is resumed.
                (NEW_SESSION_TICKET, _, []) => return Ok(()),
                (NEW_SESSION_TICKET, ..) => rest = behind,
                // ‡ The bytes behind it are by another key, so it ends its record.
                (KEY_UPDATE, [asks @ (0 | 1)], []) => {
                    let asks = *asks == 1;
                    self.way = self.keys.next_to_receive()?;
                    if asks {
                        self.keys.ask();
                    }
                    return Ok(());
                }
                _ => return Err(wrong("a message that belongs into a handshake")),
            }
        }
    }

    /// How many records were opened, in all.
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// The texts that were opened and not taken, in their order.
    pub fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.texts.iter().map(|text| &self.bytes[text.clone()])
    }

    pub fn has_texts(&self) -> bool {
        !self.texts.is_empty()
    }

    /// Takes as much of it as there is room for.
    pub fn take(&mut self, into: &mut [u8]) -> usize {
        let (mut taken, mut whole) = (0, 0);
        for text in &mut self.texts {
            let step = text.len().min(into.len() - taken);
            into[taken..][..step].copy_from_slice(&self.bytes[text.start..][..step]);
            taken += step;
            text.start += step;
            if text.start < text.end {
                break;
            }
            whole += 1;
        }
        self.texts.drain(..whole);
        taken
    }

    pub fn take_all(&mut self) {
        self.texts.clear();
    }
}
