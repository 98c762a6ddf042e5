//! Records of TLS 1.3 with the keys of a connection whose handshake is done: sealed and opened where they lie.
//!
//! ```text
//!   23 · 3 3 · length │ text …… │ type (and zeros) │ tag          of one record; its header is proved by the tag, too
//!   └── HEADER_BYTES ─┘         └─────── TAIL_BYTES ┘
//! ```
//!
//! The buffered connections of `rustls` copy each byte twice here, and read the socket by 4 KiB; decision 66 has the figures.

use std::io;
use std::ops::Range;

use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, Tag,
    UnboundKey,
};
use rustls::ConnectionTrafficSecrets;

pub const HEADER_BYTES: usize = 5;
const TAG_BYTES: usize = 16;
/// The bytes behind the text in a record that this program seals: its type, and the tag.
pub const TAIL_BYTES: usize = 1 + TAG_BYTES;
/// ‡ No record has more text.
pub const TEXT_BYTES_MAX: usize = 1 << 14;
/// And none is longer, with what others may add to hide how much text it has.
pub const RECORD_BYTES_MAX: usize = HEADER_BYTES + TEXT_BYTES_MAX + 256;

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

/// The content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Alert,
    Handshake,
    Data,
}

impl Content {
    fn number(self) -> u8 {
        match self {
            Content::Alert => ALERT,
            Content::Handshake => HANDSHAKE,
            Content::Data => DATA,
        }
    }
}

/// The key of one way, and the number of the next record.
///
/// ‡ No number is used twice with one key: it is counted up before anything can go wrong.
pub struct Way {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    next: u64,
}

impl Way {
    pub fn new(next: u64, secrets: &ConnectionTrafficSecrets) -> io::Result<Way> {
        let (algorithm, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(wrong("a cipher that this program does not have")),
        };
        let key = UnboundKey::new(algorithm, key.as_ref());
        let key = key.map_err(|_| wrong("a key of another length"))?;
        let iv = iv.as_ref().try_into();
        Ok(Way {
            key: LessSafeKey::new(key),
            iv: iv.map_err(|_| wrong("a nonce of another length"))?,
            next,
        })
    }

    /// Records that were sealed or opened with this key.
    pub fn count(&self) -> u64 {
        self.next
    }

    fn nonce(&mut self) -> io::Result<Nonce> {
        let number = self.next;
        let next = number.checked_add(1);
        self.next = next.ok_or_else(|| wrong("too many records by one key"))?;
        let mut nonce = self.iv;
        for (at, byte) in nonce[NONCE_LEN - 8..].iter_mut().zip(number.to_be_bytes()) {
            *at ^= byte;
        }
        Ok(Nonce::assume_unique_for_key(nonce))
    }

    /// Seals a record. Its text stands between [`HEADER_BYTES`] and [`TAIL_BYTES`] that are written here.
    pub fn seal(&mut self, content: Content, record: &mut [u8]) -> io::Result<()> {
        let nonce = self.nonce()?;
        let (header, rest) = record.split_at_mut(HEADER_BYTES);
        header.copy_from_slice(&header_of(rest.len())?);
        let (text, tag_at) = rest.split_at_mut(rest.len() - TAG_BYTES);
        if let Some(last) = text.last_mut() {
            *last = content.number();
        }
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(&*header), text);
        let tag: Tag = tag.map_err(|_| wrong("a record cannot be sealed"))?;
        tag_at.copy_from_slice(tag.as_ref());
        Ok(())
    }

    /// Opens a whole record. Returns where in it the text stands.
    ///
    /// Errors: nobody who has the key made it, or it is not for this place.
    pub fn open(&mut self, record: &mut [u8]) -> io::Result<(Content, Range<usize>)> {
        let nonce = self.nonce()?;
        let (header, sealed) = record.split_at_mut(HEADER_BYTES);
        // Nothing but sealed data comes after a handshake.
        if header[0] != DATA {
            return Err(wrong("a record that is not sealed"));
        }
        let text = self.key.open_in_place(nonce, Aad::from(&*header), sealed);
        let text = text.map_err(|_| wrong("a record that nobody sealed"))?;
        if text.len() > TEXT_BYTES_MAX + 1 {
            return Err(wrong("a record that is too long"));
        }
        // Zeros hide how long it is.
        let last = text.iter().rposition(|byte| *byte != 0);
        let last = last.ok_or_else(|| wrong("a record without a type"))?;
        let content = match text[last] {
            ALERT => Content::Alert,
            HANDSHAKE => Content::Handshake,
            DATA => Content::Data,
            _ => return Err(wrong("a record of an unknown type")),
        };
        Ok((content, HEADER_BYTES..HEADER_BYTES + last))
    }
}

fn header_of(sealed: usize) -> io::Result<[u8; HEADER_BYTES]> {
    let length = u16::try_from(sealed).map_err(|_| wrong("a record that is too long"))?;
    let [high, low] = length.to_be_bytes();
    Ok([DATA, 3, 3, high, low])
}

/// The length of the record that begins here, with its header. `None`: its header is not there yet.
///
/// Errors: none is so long.
pub fn length(bytes: &[u8]) -> io::Result<Option<usize>> {
    let Some(&[_, _, _, high, low]) = bytes.first_chunk() else {
        return Ok(None);
    };
    let whole = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
    match whole > RECORD_BYTES_MAX {
        true => Err(wrong("a record that is too long")),
        false => Ok(Some(whole)),
    }
}

/// Why a connection cannot go on.
pub fn wrong(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustls::crypto::cipher::{AeadKey, Iv};

    fn ways() -> (Way, Way) {
        let secrets = || ConnectionTrafficSecrets::Chacha20Poly1305 {
            key: AeadKey::from([5; 32]),
            iv: Iv::from([9; NONCE_LEN]),
        };
        let way = || Way::new(3, &secrets()).expect("a key");
        (way(), way())
    }

    fn sealed(by: &mut Way, content: Content, text: &[u8]) -> Vec<u8> {
        let mut record = vec![0; HEADER_BYTES + text.len() + TAIL_BYTES];
        record[HEADER_BYTES..][..text.len()].copy_from_slice(text);
        by.seal(content, &mut record).expect("it fits");
        record
    }

    proptest! {
        #[test]
        fn drawn_texts_are_opened_as_they_were_sealed(texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..2000), 1..5)) {
            let (mut sends, mut receives) = ways();
            for text in texts {
                let mut record = sealed(&mut sends, Content::Data, &text);
                prop_assert_eq!(length(&record).expect("short"), Some(record.len()));
                let (content, at) = receives.open(&mut record).expect("sealed");
                prop_assert_eq!(content, Content::Data);
                prop_assert_eq!(&record[at], &text[..]);
            }
        }

        #[test]
        fn drawn_damage_is_seen(at in 0..60_usize, by in 1..=255_u8) {
            let (mut sends, mut receives) = ways();
            let mut record = sealed(&mut sends, Content::Handshake, &[7; 38]);
            record[at] ^= by;
            prop_assert!(receives.open(&mut record).is_err());
        }

        #[test]
        fn drawn_bytes_end_nothing(bytes in prop::collection::vec(any::<u8>(), HEADER_BYTES..500)) {
            let (_, mut receives) = ways();
            let _ = length(&bytes);
            prop_assert!(receives.open(&mut bytes.clone()).is_err());
        }
    }

    #[test]
    fn a_record_is_opened_once_and_in_its_place() {
        let (mut sends, mut receives) = ways();
        let first = sealed(&mut sends, Content::Data, b"first");
        let second = sealed(&mut sends, Content::Data, b"second");
        assert!(receives.open(&mut second.clone()).is_err());
        let (_, mut receives) = ways();
        assert!(receives.open(&mut first.clone()).is_ok());
        assert!(receives.open(&mut first.clone()).is_err());
    }
}
