//! A peer's answer to our first line: `ok version=N challenge=HEX`, the version of all frames that follow and
//! what the first of them is to sign, or a refusal. Bytes behind the line do not belong to it.

use formats::proof::Challenge;
use formats::version::Speaks;
use formats::{hex, parse_hex};

#[derive(Debug, PartialEq, Eq)]
pub enum Welcome {
    /// The line is not there whole.
    NotYet,
    Taken {
        version: u8,
        /// The challenge of a program that asks for proof, on a control connection.
        challenge: Option<Challenge>,
    },
    /// A refusal: the code and what follows it.
    Refused(String),
    Nonsense,
}

pub fn line(version: u8) -> Vec<u8> {
    format!("ok version={version}\n").into_bytes()
}

pub fn challenging_line(version: u8, challenge: Challenge) -> Vec<u8> {
    format!("ok version={version} challenge={}\n", hex(&challenge.0)).into_bytes()
}

/// Reads the line. Unknown words are a newer peer's, and are passed over.
pub fn read(speaks: Speaks, bytes: &[u8]) -> Welcome {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return Welcome::NotYet;
    };
    let line = String::from_utf8_lossy(&bytes[..end]);
    if let Some(said) = line.strip_prefix("error ") {
        return Welcome::Refused(said.to_owned());
    }
    let mut words = line.split(' ');
    if words.next() != Some("ok") {
        return Welcome::Nonsense;
    }
    let version = words.find_map(|word| word.strip_prefix("version=")?.parse().ok());
    let mut words = line.split(' ');
    let challenge = words.find_map(|word| parse_hex(word.strip_prefix("challenge=")?));
    match version.filter(|version| speaks.has(*version)) {
        Some(version) => Welcome::Taken {
            version,
            challenge: challenge.map(Challenge),
        },
        None => Welcome::Nonsense,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_waited_for_whole_and_names_a_version_that_we_speak() {
        let speaks: Speaks = "1-2".parse().unwrap();
        let taken = |version| Welcome::Taken {
            version,
            challenge: None,
        };
        assert_eq!(read(speaks, &line(2)), taken(2));
        let challenge = Challenge([0xa5; 16]);
        let challenged = Welcome::Taken {
            version: 2,
            challenge: Some(challenge),
        };
        assert_eq!(read(speaks, &challenging_line(2, challenge)), challenged);
        assert_eq!(read(speaks, b"ok version=2 challenge=a5\n"), taken(2));
        assert_eq!(read(speaks, b"ok later=words version=1\nLBct"), taken(1));
        for cut in 0..line(2).len() {
            assert_eq!(read(speaks, &line(2)[..cut]), Welcome::NotYet);
        }
        for nonsense in [
            "ok\n",
            "ok version=3\n",
            "ok version=x\n",
            "okay version=1\n",
            "\n",
        ] {
            assert_eq!(read(speaks, nonsense.as_bytes()), Welcome::Nonsense);
        }
        let refused = read(speaks, b"error removed: so it is\n");
        assert_eq!(refused, Welcome::Refused("removed: so it is".into()));
    }
}
