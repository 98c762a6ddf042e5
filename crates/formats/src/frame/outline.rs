//! The kind and the length of a frame, for whoever counts frames and reads none.

use super::control::{self, CONTROL_PREFIX};
use super::data::{self, DATA_HEADER};
use crate::message;

/// The first bytes of a frame, which tell its length.
pub const OUTLINE: usize = 16;
/// So many bytes tell the kind of an engine's message, too.
pub const OUTLINE_MAX: usize = CONTROL_PREFIX + 1;

/// A frame, seen from outside: nothing of it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// A word for people; "unknown" where this program knows no such kind.
    pub kind: &'static str,
    /// All of the frame, its beginning included.
    pub length: usize,
}

impl Outline {
    /// `None`: no frame begins so, or not so many bytes are there.
    pub fn of(bytes: &[u8]) -> Option<Outline> {
        let first: &[u8; OUTLINE] = bytes.first_chunk()?;
        let [magic @ .., _, kind, _, _, _, _, _, _, _, _, _, _] = first;
        let [.., a, b, c, d] = *first;
        let body = u32::from_le_bytes([a, b, c, d]) as usize;
        let (kind, before) = match magic {
            b"LBct" => match (*kind, bytes.get(CONTROL_PREFIX)) {
                (control::ENGINE, Some(tag)) => (message::tag_name(*tag), CONTROL_PREFIX),
                (kind, _) => (control::kind_name(kind), CONTROL_PREFIX),
            },
            b"LBdt" => (data::kind_name(*kind), DATA_HEADER),
            _ => return None,
        };
        Some(Outline {
            kind,
            length: before + body,
        })
    }
}

#[cfg(test)]
mod tests {
    use paxos::{Message, Term};

    use super::*;
    use crate::LogId;
    use crate::frame::{Frame, encode_control};

    #[test]
    fn a_frame_is_as_long_as_its_outline_says() {
        let log = LogId(3);
        let term = Term::default();
        let message = Message::Prepare { term };
        for (frame, kind) in [
            (Frame::Engine { log, message }, "prepare"),
            (Frame::Leads(vec![log]), "leads"),
        ] {
            let bytes = encode_control(1, &frame);
            let outline = Outline::of(&bytes).expect("a frame");
            assert_eq!((outline.kind, outline.length), (kind, bytes.len()));
            let short = Outline::of(&bytes[..OUTLINE]).expect("enough for the length");
            assert_eq!(short.length, bytes.len());
        }
        assert_eq!(Outline::of(b"logberg/1 peer kind=data"), None);
        assert_eq!(Outline::of(b"LBct"), None);
    }
}
