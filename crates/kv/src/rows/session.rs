//! The row of a session: the last command that was executed for it, and the reply to that.

use crate::fail::{Fail, fail};
use crate::rows::meta::FORM;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// The last sequence that was executed; 0: none was.
    pub sequence: u64,
    /// When it was used last, to the second.
    pub used: u64,
    /// In RESP, as its client reads it.
    pub reply: Vec<u8>,
}

impl Session {
    pub fn encode(&self) -> Vec<u8> {
        let mut row = vec![FORM];
        row.extend_from_slice(&self.sequence.to_be_bytes());
        row.extend_from_slice(&self.used.to_be_bytes());
        row.extend_from_slice(&self.reply);
        row
    }

    pub fn decode(row: &[u8]) -> Result<Session, Fail> {
        let Some((sequence, row)) = row
            .strip_prefix(&[FORM])
            .and_then(|row| row.split_first_chunk())
        else {
            return fail("ERR the row of this session has a form that this version does not know");
        };
        let Some((used, reply)) = row.split_first_chunk() else {
            return fail("ERR the row of this session is too short");
        };
        Ok(Session {
            sequence: u64::from_be_bytes(*sequence),
            used: u64::from_be_bytes(*used),
            reply: reply.to_vec(),
        })
    }
}
