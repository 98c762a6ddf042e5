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
/// So much is read of what a place says of the cluster.
const INFO_BYTES_MAX: u64 = 1 << 10;
const INFO_LINES: usize = 3;
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

fn heard(place: &str) -> io::Result<Vec<u8>> {
    conversation(dial(place)?)
}

/// A connection to a place. Whoever waits on it is patient for a second.
pub fn dial(place: &str) -> io::Result<TcpStream> {
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

/// Whether a place says of itself that it does not serve all slots. One that is not reached from here says nothing.
pub fn lacks_slots(place: &str) -> bool {
    let asked = dial(place).and_then(|mut stream| {
        stream.write_all(b"*2\r\n$7\r\nCLUSTER\r\n$4\r\nINFO\r\n")?;
        Ok(stream)
    });
    let Ok(stream) = asked else { return false };
    // Its state stands in one of the first lines; a stranger's lines need not end.
    let lines = BufReader::new(stream.take(INFO_BYTES_MAX)).lines();
    let mut first = lines.take(INFO_LINES).map_while(Result::ok);
    first.find_map(|line| {
        line.strip_prefix("cluster_state:")
            .map(|state| state == "fail")
    }) == Some(true)
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
