//! Events on a connection (text/event-stream), written and read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A comment, which keeps a quiet connection open.
pub const COMMENT: &[u8] = b":\n\n";

/// How the bytes of a stream stand in events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As they are. An end of a line of any kind arrives as LF.
    Text,
    /// As an array of messages.
    Json,
    Base64,
}

/// Writes an event whose data is this text. ‡ Whatever the text is, it is data: every end of a line begins another `data:` line.
pub fn event(name: &str, text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    let mut rest = Some(text);
    while let Some(text) = rest {
        let end = text.find(['\r', '\n']);
        let (line, behind) = text.split_at(end.unwrap_or(text.len()));
        out.extend_from_slice(b"\ndata:");
        // A reader takes one space away.
        if line.starts_with(' ') {
            out.push(b' ');
        }
        out.extend_from_slice(line.as_bytes());
        rest = end.map(|_| {
            let without = behind.strip_prefix("\r\n");
            without.unwrap_or_else(|| behind.get(1..).unwrap_or_default())
        });
    }
    out.extend_from_slice(b"\n\n");
}

/// Writes an event whose data are these bytes.
pub fn data(encoding: Encoding, bytes: &[u8], out: &mut Vec<u8>) {
    match encoding {
        Encoding::Base64 => event("data", &STANDARD.encode(bytes), out),
        Encoding::Json => {
            let array = crate::json::array(bytes);
            event("data", &String::from_utf8_lossy(&array), out);
        }
        Encoding::Text => event("data", &String::from_utf8_lossy(bytes), out),
    }
}

/// How many of these bytes are whole characters of UTF-8, or no beginning of one: what follows may be the rest of the last.
pub fn whole_characters(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(3);
    let tail = bytes.get(last..).unwrap_or_default();
    let begins = tail.iter().rposition(|byte| *byte >= 0xc0);
    let Some(at) = begins else {
        return bytes.len();
    };
    let wanted = match tail[at] {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    match tail.len() - at < wanted {
        true => last + at,
        false => bytes.len(),
    }
}

/// An event as it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub name: String,
    pub data: String,
}

/// Reads events from the bytes of a connection, however they are cut.
#[derive(Default)]
pub struct Decoder {
    line: Vec<u8>,
    after_cr: bool,
    event: Event,
    has_data: bool,
}

impl Decoder {
    /// Takes the next bytes, and returns the events that they end.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, *byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\r' | b'\n' => events.extend(self.end_line()),
                byte => self.line.push(*byte),
            }
        }
        events
    }

    fn end_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Vec<Event> {
        Decoder::default().push(bytes)
    }

    #[test]
    fn text_cannot_end_its_event() {
        let mut out = Vec::new();
        event("data", "a\n\nevent: control\r\ndata: x\r\ry", &mut out);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "event: data\ndata:a\ndata:\ndata:event: control\ndata:data: x\ndata:\ndata:y\n\n"
        );
        assert_eq!(read(&out).len(), 1);
        assert_eq!(read(COMMENT), []);
    }

    #[test]
    fn a_character_is_not_cut() {
        assert_eq!(whole_characters("aé".as_bytes()), 3);
        assert_eq!(whole_characters(b"a\xc3"), 1);
        assert_eq!(whole_characters("€".as_bytes()), 3);
        assert_eq!(whole_characters(&"€".as_bytes()[..2]), 0);
        assert_eq!(whole_characters(&"𝄞".as_bytes()[..3]), 0);
        assert_eq!(whole_characters("𝄞".as_bytes()), 4);
        assert_eq!(whole_characters(b""), 0);
        // No character begins so: waiting for its rest would be for ever.
        assert_eq!(whole_characters(b"\x80\x80\x80\x80"), 4);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(texts in prop::collection::vec("[a-z:\u{e9} \r\n]{0,12}", 0..6), cut in 1usize..9) {
            let mut out = Vec::new();
            for text in &texts {
                event("data", text, &mut out);
            }
            let mut decoder = Decoder::default();
            let found: Vec<Event> = out.chunks(cut).flat_map(|bytes| decoder.push(bytes)).collect();
            let expected: Vec<Event> = texts
                .iter()
                .map(|text| Event {
                    name: "data".to_owned(),
                    data: text.replace("\r\n", "\n").replace('\r', "\n"),
                })
                .collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn bytes_survive_base64(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut out = Vec::new();
            data(Encoding::Base64, &bytes, &mut out);
            let events = read(&out);
            prop_assert_eq!(events.len(), 1);
            prop_assert_eq!(STANDARD.decode(&events[0].data).expect("base64"), bytes);
        }

        #[test]
        fn text_in_pieces_is_whole_characters(text in "[a\u{e9}\u{20ac}\u{1d11e}]{0,12}", cut in 0usize..40) {
            let bytes = &text.as_bytes()[..cut.min(text.len())];
            let whole = whole_characters(bytes);
            prop_assert!(std::str::from_utf8(&bytes[..whole]).is_ok());
            prop_assert!(bytes.len() - whole < 4);
        }
    }
}
