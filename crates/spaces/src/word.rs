//! What the spaces of two nodes say to each other.

use serde::{Deserialize, Serialize};

/// The answer of the node that was asked to execute a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    Answered(#[serde(with = "serde_bytes")] Vec<u8>),
    /// It was not executed, and never will be.
    NotDone,
    /// It was executed, or never will be.
    Unknown,
    /// It was not executed, and never will be, for this reason.
    NotNow(String),
}

impl Told {
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// `None`: these bytes are no answer.
    pub fn decode(bytes: &[u8]) -> Option<Told> {
        postcard::from_bytes(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::Told;

    #[test]
    fn a_word_is_read_as_it_was_written() {
        for told in [
            Told::Answered(b"answer".to_vec()),
            Told::NotDone,
            Told::Unknown,
            Told::NotNow("full".to_owned()),
        ] {
            let bytes = told.encode();
            assert_eq!(Told::decode(&bytes), Some(told));
        }
        assert_eq!(Told::decode(&[9]), None);
        assert_eq!(Told::decode(&[]), None);
        // Golden bytes: nodes of two versions speak to each other.
        assert_eq!(Told::Answered(b"a".to_vec()).encode(), [0, 1, b'a']);
        assert_eq!(Told::Unknown.encode(), [2]);
        assert_eq!(Told::NotNow("a".to_owned()).encode(), [3, 1, b'a']);
    }
}
