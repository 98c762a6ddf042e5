//! The questions of hosts to each other: pieces of a state, in the order of their keys.
//!
//! ```text
//! question = version u8 (1) │ from u64 │ has a key u8 │ key          rows behind the key, of a state at `from` or above
//! not here = version u8 (1) │ 0
//! piece    = version u8 (1) │ 1 │ question length u32 │ question │ applied 41 bytes │ is last u8 │ rows     all as they stood at `applied`
//! row      = key length u32 │ value length u32 │ key │ value
//! ```
//!
//! All numbers are little-endian.

use shelf::{Applied, Page, Row};
use thiserror::Error;

const VERSION: u8 = 1;

/// Asks for rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// ‡ The state that they are of stands here or above.
    pub from: u64,
    /// Only rows behind this one.
    pub after: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The node that was asked has no whole state, or one that stands lower.
    NotHere,
    /// ‡ It names its question: an answer that comes late is none to another.
    Piece { to: Question, page: Page },
}

/// Why bytes are none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoPiece {
    #[error("it is of version {0}, and this program knows version {VERSION}: start a newer one")]
    Version(u8),
    #[error("it ends too early, or has no sense")]
    Body,
}

impl Question {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.from.to_le_bytes());
        bytes.push(u8::from(self.after.is_some()));
        bytes.extend_from_slice(self.after.as_deref().unwrap_or_default());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Question, NoPiece> {
        let rest = versioned(bytes)?;
        let (from, rest) = rest.split_first_chunk().ok_or(NoPiece::Body)?;
        let (has_key, key) = rest.split_first().ok_or(NoPiece::Body)?;
        let after = match has_key {
            0 if key.is_empty() => None,
            1 => Some(key.to_vec()),
            _ => return Err(NoPiece::Body),
        };
        let from = u64::from_le_bytes(*from);
        Ok(Question { from, after })
    }
}

impl Answer {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        let Answer::Piece { to, page } = self else {
            bytes.push(0);
            return bytes;
        };
        bytes.push(1);
        let question = to.encode();
        bytes.extend_from_slice(&(question.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&question);
        bytes.extend_from_slice(&page.applied.encode());
        bytes.push(u8::from(page.is_last));
        for (key, value) in &page.rows {
            bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(value);
        }
        bytes
    }

    /// ‡ The keys of a piece rise.
    pub fn decode(bytes: &[u8]) -> Result<Answer, NoPiece> {
        let rest = match versioned(bytes)?.split_first() {
            Some((0, [])) => return Ok(Answer::NotHere),
            Some((1, rest)) => rest,
            _ => return Err(NoPiece::Body),
        };
        let (length, rest) = rest.split_first_chunk().ok_or(NoPiece::Body)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (question, rest) = rest.split_at_checked(length).ok_or(NoPiece::Body)?;
        let to = Question::decode(question)?;
        let (applied, rest) = rest
            .split_at_checked(Applied::LENGTH)
            .ok_or(NoPiece::Body)?;
        let applied = Applied::decode(applied).ok_or(NoPiece::Body)?;
        let (is_last, mut rest) = rest.split_first().ok_or(NoPiece::Body)?;
        let mut page = Page {
            rows: Vec::new(),
            applied,
            is_last: *is_last == 1,
        };
        while !rest.is_empty() {
            let (row, behind) = row(rest).ok_or(NoPiece::Body)?;
            if page.rows.last().is_some_and(|last| last.0 >= row.0) {
                return Err(NoPiece::Body);
            }
            page.rows.push(row);
            rest = behind;
        }
        match page.rows.is_empty() && !page.is_last {
            true => Err(NoPiece::Body),
            false => Ok(Answer::Piece { to, page }),
        }
    }
}

fn versioned(bytes: &[u8]) -> Result<&[u8], NoPiece> {
    match bytes.split_first() {
        Some((&VERSION, rest)) => Ok(rest),
        Some((other, _)) => Err(NoPiece::Version(*other)),
        None => Err(NoPiece::Body),
    }
}

fn row(bytes: &[u8]) -> Option<(Row, &[u8])> {
    let (key, rest) = bytes.split_first_chunk()?;
    let (value, rest) = rest.split_first_chunk()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key) as usize)?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value) as usize)?;
    Some(((key.to_vec(), value.to_vec()), rest))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn page() -> impl Strategy<Value = Page> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..20);
        let rows = proptest::collection::btree_map(bytes(), bytes(), 0..8);
        (rows, any::<u64>(), any::<bool>()).prop_map(
            |(rows, position, is_last): (BTreeMap<_, _>, _, _)| Page {
                is_last: is_last || rows.is_empty(),
                rows: rows.into_iter().collect(),
                applied: Applied {
                    position,
                    frame: 7,
                    ..Applied::default()
                },
            },
        )
    }

    proptest! {
        #[test]
        fn pieces_and_questions_come_back(page in page(), from in any::<u64>(), after in any::<Option<Vec<u8>>>()) {
            let question = Question { from, after };
            let to = question.clone();
            prop_assert_eq!(Question::decode(&question.encode()), Ok(question));
            let answer = Answer::Piece { to, page };
            prop_assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Answer::decode(&bytes);
            let _ = Question::decode(&bytes);
            let _ = Answer::decode(&[&[VERSION, 1][..], &bytes].concat());
        }
    }

    #[test]
    fn keys_that_do_not_rise_are_refused() {
        let row = |key: &str| (key.as_bytes().to_vec(), Vec::new());
        let to = Question {
            from: 0,
            after: None,
        };
        let page = Page {
            rows: vec![row("b"), row("a")],
            applied: Applied::default(),
            is_last: true,
        };
        assert_eq!(
            Answer::decode(&Answer::Piece { to, page }.encode()),
            Err(NoPiece::Body)
        );
        assert_eq!(
            Answer::decode(&Answer::NotHere.encode()),
            Ok(Answer::NotHere)
        );
    }
}
