//! The row of a key: what it is, until when, and its value or where that lies.

use crate::fail::{Fail, fail};

/// The form of the values of rows, their first byte. A row of another form is another program's.
pub(crate) const FORM: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    List,
    Hash,
    Set,
    Sorted,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Kind::String => b's',
            Kind::List => b'l',
            Kind::Hash => b'h',
            Kind::Set => b'e',
            Kind::Sorted => b'z',
        }
    }

    fn of(byte: u8) -> Option<Kind> {
        match byte {
            b's' => Some(Kind::String),
            b'l' => Some(Kind::List),
            b'h' => Some(Kind::Hash),
            b'e' => Some(Kind::Set),
            b'z' => Some(Kind::Sorted),
            _ => None,
        }
    }

    /// The word that TYPE says.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Hash => "hash",
            Kind::Set => "set",
            Kind::Sorted => "zset",
        }
    }
}

/// A value in rows of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Big {
    /// Its rows are those below this. It never comes back in this slot.
    pub id: u64,
    /// Members; of a string, bytes.
    pub count: u64,
    /// The index of a list's first item; the others follow one another.
    pub first: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Inline(Vec<u8>),
    Rows(Big),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub kind: Kind,
    pub deadline: Option<u64>,
    pub place: Place,
}

/// The key as it was before a command wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    pub exists: bool,
    pub deadline: Option<u64>,
}

impl Before {
    pub fn of(meta: Option<&Meta>) -> Before {
        Before {
            exists: meta.is_some(),
            deadline: meta.and_then(|meta| meta.deadline),
        }
    }
}

/// No deadline.
const NEVER: u64 = u64::MAX;
const INLINE: u8 = 0;
const ROWS: u8 = 1;

impl Meta {
    pub fn inline(kind: Kind, deadline: Option<u64>, bytes: Vec<u8>) -> Meta {
        let place = Place::Inline(bytes);
        Meta {
            kind,
            deadline,
            place,
        }
    }

    pub fn rows(kind: Kind, deadline: Option<u64>, big: Big) -> Meta {
        let place = Place::Rows(big);
        Meta {
            kind,
            deadline,
            place,
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut row = vec![FORM, self.kind.byte()];
        row.extend_from_slice(&self.deadline.unwrap_or(NEVER).to_be_bytes());
        match &self.place {
            Place::Inline(bytes) => {
                row.push(INLINE);
                row.extend_from_slice(bytes);
            }
            Place::Rows(big) => {
                row.push(ROWS);
                for number in [big.id, big.count, big.first] {
                    row.extend_from_slice(&number.to_be_bytes());
                }
            }
        }
        row
    }

    pub fn decode(row: &[u8]) -> Result<Meta, Fail> {
        match Meta::parse(row) {
            Some(meta) => Ok(meta),
            None => fail("ERR the row of this key has a form that this version does not know"),
        }
    }

    fn parse(row: &[u8]) -> Option<Meta> {
        let [FORM, kind, rest @ ..] = row else {
            return None;
        };
        let kind = Kind::of(*kind)?;
        let (deadline, rest) = number(rest)?;
        let deadline = (deadline != NEVER).then_some(deadline);
        match rest {
            [INLINE, bytes @ ..] => Some(Meta::inline(kind, deadline, bytes.to_vec())),
            [ROWS, rest @ ..] => {
                let (id, rest) = number(rest)?;
                let (count, rest) = number(rest)?;
                let (first, rest) = number(rest)?;
                let big = Big { id, count, first };
                rest.is_empty().then(|| Meta::rows(kind, deadline, big))
            }
            _ => None,
        }
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written_and_no_other_is_read() {
        let big = Big {
            id: 1,
            count: 2,
            first: 3,
        };
        for meta in [
            Meta::inline(Kind::String, None, b"abc".to_vec()),
            Meta::inline(Kind::Hash, Some(7), Vec::new()),
            Meta::rows(Kind::Sorted, Some(0), big),
        ] {
            let row = meta.encode();
            assert_eq!(Meta::parse(&row), Some(meta));
            for cut in 0..row.len().min(11) {
                assert_eq!(Meta::parse(&row[..cut]), None);
            }
        }
        assert_eq!(
            Meta::parse(&[2, b's', 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            None,
            "another form"
        );
    }

    #[test]
    fn the_bytes_are_these() {
        let meta = Meta::inline(Kind::String, None, b"v".to_vec());
        assert_eq!(meta.encode(), b"\x01s\xff\xff\xff\xff\xff\xff\xff\xff\x00v");
        let big = Big {
            id: 1,
            count: 2,
            first: 3,
        };
        let row = Meta::rows(Kind::List, Some(5), big).encode();
        assert_eq!(row[..11], *b"\x01l\0\0\0\0\0\0\0\x05\x01");
        assert_eq!(
            row[11..],
            [
                [0, 0, 0, 0, 0, 0, 0, 1],
                [0, 0, 0, 0, 0, 0, 0, 2],
                [0, 0, 0, 0, 0, 0, 0, 3]
            ]
            .concat()
        );
    }
}
