//! Questions to a place where clients of keys are told to go.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// A client is patient for so long here.
const PATIENCE: Duration = Duration::from_secs(1);
/// Why a place is not reached that takes connections.
pub const SILENT: &str = "it says nothing within a second";
const QUESTION: &[u8] = b"*1\r\n$4\r\nPING\r\n*2\r\n$7\r\nCLUSTER\r\n$4\r\nMYID\r\n";
/// An answer about a slot.
const ANSWER_LINE_BYTES_MAX: u64 = 4 << 10;
/// `+PONG`, and the 40 digits of an id.
const ANSWER_BYTES: usize = 7 + 5 + 40 + 2;

/// The answer from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A node, by its number; 0: it has no group yet, and does not know.
    Node(u64),
    /// Something that asks for a token, and so does not say who it is. ‡ It is shown none: it may be anybody.
    Guarded,
    /// Something that is no node of ours.
    Other,
    /// Nothing, for this reason.
    Unreachable(String),
}

/// As `{"answers": "node" | "guarded" | "other" | "nobody", "node", "why"}`.
impl Serialize for Probe {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (answers, node, why) = match self {
            Probe::Node(node) => ("node", Some(node), None),
            Probe::Guarded => ("guarded", None, None),
            Probe::Other => ("other", None, None),
            Probe::Unreachable(why) => ("nobody", None, Some(why)),
        };
        let mut shown = serializer.serialize_struct("Probe", 3)?;
        shown.serialize_field("answers", answers)?;
        shown.serialize_field("node", &node)?;
        shown.serialize_field("why", &why)?;
        shown.end()
    }
}

pub fn ask(place: &str) -> Probe {
    match heard(place) {
        Ok(answer) if answer.starts_with(b"-NOAUTH ") => Probe::Guarded,
        Ok(answer) => node_of(&answer).map_or(Probe::Other, Probe::Node),
        Err(error) => Probe::Unreachable(error.to_string()),
    }
}

/// Asks a door for something of each of these slots. By slot, in their order: the words with which it serves nothing of it.
pub fn refusals(place: &str, slots: &[u16]) -> io::Result<Vec<Option<String>>> {
    let question = |slot: &u16| {
        let slot = slot.to_string();
        format!(
            "*3\r\n$7\r\nCLUSTER\r\n$15\r\nCOUNTKEYSINSLOT\r\n${}\r\n{slot}\r\n",
            slot.len()
        )
    };
    let questions: String = slots.iter().map(question).collect();
    let mut stream = dial(place)?;
    stream.write_all(questions.as_bytes())?;
    // A stranger's line need not end.
    let bounded = stream.take(ANSWER_LINE_BYTES_MAX * slots.len() as u64);
    let answers = BufReader::new(bounded).lines().take(slots.len());
    let refusal = |answer: String| answer.strip_prefix("-CLUSTERDOWN ").map(str::to_owned);
    answers.map(|answer| answer.map(refusal)).collect()
}

fn heard(place: &str) -> io::Result<Vec<u8>> {
    conversation(dial(place)?)
}

fn dial(place: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in place.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn conversation(mut stream: TcpStream) -> io::Result<Vec<u8>> {
    stream.write_all(QUESTION)?;
    let mut answer = Vec::new();
    let mut buffer = [0; ANSWER_BYTES];
    while answer.len() < ANSWER_BYTES {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, SILENT));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}

fn node_of(answer: &[u8]) -> Option<u64> {
    let answer = std::str::from_utf8(answer).ok()?;
    let id = answer.strip_prefix("+PONG\r\n$40\r\n")?.get(..40)?;
    // The cluster's id, and the node's.
    u64::from_str_radix(id.get(32..)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_who_it_is() {
        let answer = format!("+PONG\r\n$40\r\n{}0000002a\r\n", "ab".repeat(16));
        assert_eq!(node_of(answer.as_bytes()), Some(42));
        for other in ["-NOAUTH\r\n", "+PONG\r\n$3\r\nabc\r\n", ""] {
            assert_eq!(node_of(other.as_bytes()), None, "{other}");
        }
    }
}
