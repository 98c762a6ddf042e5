//! The row of a slot: how many keys it has, the next id, and how many sessions.

use crate::fail::{Fail, fail};
use crate::rows::meta::FORM;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub keys: u64,
    /// ‡ It never goes back, also when all keys go: below an id that was forgotten nothing may be written.
    pub next_id: u64,
    pub sessions: u64,
}

impl Header {
    pub fn encode(&self) -> Vec<u8> {
        let mut row = vec![FORM];
        row.extend_from_slice(&self.keys.to_be_bytes());
        row.extend_from_slice(&self.next_id.to_be_bytes());
        // Few slots have any.
        if self.sessions > 0 {
            row.extend_from_slice(&self.sessions.to_be_bytes());
        }
        row
    }

    /// A slot without a row has no keys yet.
    pub fn decode(row: Option<&[u8]>) -> Result<Header, Fail> {
        let Some(row) = row else {
            return Ok(Header::default());
        };
        let numbers = row.strip_prefix(&[FORM]);
        let numbers = numbers.and_then(|row| row.split_first_chunk::<8>());
        let Some((keys, rest)) = numbers else {
            return fail("ERR the row of this slot has a form that this version does not know");
        };
        let Some((next_id, rest)) = rest.split_first_chunk::<8>() else {
            return fail("ERR the row of this slot is too short");
        };
        let sessions = rest.first_chunk::<8>();
        Ok(Header {
            keys: u64::from_be_bytes(*keys),
            next_id: u64::from_be_bytes(*next_id),
            sessions: sessions.map_or(0, |bytes| u64::from_be_bytes(*bytes)),
        })
    }
}
