//! Streams, and places in them, as lines name them.

use std::fmt;
use std::str::FromStr;

/// The name of a stream: the node that opened it, that node's incarnation, a counter. Each is a number
/// of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName {
    pub owner: u64,
    pub incarnation: u64,
    pub counter: u64,
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.owner, self.incarnation, self.counter)
    }
}

/// The text is not `owner.incarnation.counter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoStreamName;

impl fmt::Display for NoStreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a stream's name is owner.incarnation.counter, three decimal numbers, such as 1.4.2",
        )
    }
}

impl std::error::Error for NoStreamName {}

impl FromStr for StreamName {
    type Err = NoStreamName;

    fn from_str(text: &str) -> Result<Self, NoStreamName> {
        Ok(parse_stream(text).ok_or(NoStreamName)?.into())
    }
}

impl From<paxos::StreamName> for StreamName {
    fn from(name: paxos::StreamName) -> Self {
        Self {
            owner: name.owner.0.into(),
            incarnation: name.sequence.incarnation.into(),
            counter: name.sequence.counter.into(),
        }
    }
}

/// `owner.incarnation.counter`, in its one spelling.
pub fn parse_stream(text: &str) -> Option<paxos::StreamName> {
    let mut parts = text.split('.');
    let mut next = || {
        let part = parts.next()?;
        let number: u32 = part.parse().ok()?;
        // `parse` would take a sign and zeros in front.
        (number.to_string() == part).then_some(number)
    };
    let (owner, incarnation, counter) = (next()?, next()?, next()?);
    if parts.next().is_some() {
        return None;
    }
    Some(paxos::StreamName {
        owner: paxos::NodeId(owner),
        sequence: paxos::StreamSequence {
            incarnation,
            counter,
        },
    })
}

/// `NAME@POSITION`.
pub fn parse_place(text: &str) -> Option<(paxos::StreamName, u64)> {
    let (name, position) = text.split_once('@')?;
    Some((parse_stream(name)?, position.parse().ok()?))
}

/// A place in one stream, written `NAME@POSITION`. The position counts the bytes of that stream
/// alone, not of the chain it may belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamPlace {
    pub stream: StreamName,
    pub position: u64,
}

impl fmt::Display for StreamPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.stream, self.position)
    }
}

/// The text is not `NAME@POSITION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoStreamPlace;

impl fmt::Display for NoStreamPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a place in a stream is written NAME@POSITION, such as 1.4.2@1000000")
    }
}

impl std::error::Error for NoStreamPlace {}

impl FromStr for StreamPlace {
    type Err = NoStreamPlace;

    fn from_str(text: &str) -> Result<Self, NoStreamPlace> {
        let (name, position) = parse_place(text).ok_or(NoStreamPlace)?;
        let stream = name.into();
        Ok(Self { stream, position })
    }
}

/// The point before which a log is to be trimmed. Written `@BYTES`, `STREAM`, `STREAM@BYTES` or `slot:N`.
///
/// A bare number is none: it might be meant as bytes or as slots, and what is trimmed by mistake is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// All slots below this one.
    Slot(u64),
    /// All bytes before this position in the log's output, trimmed ones counted.
    Output(u64),
    /// Everything before this place in a stream: at position 0, before the stream.
    Stream(StreamPlace),
}

/// A text that was meant to be a [`Before`] and is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPlace;

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a place is @BYTES of the log's output, STREAM, STREAM@BYTES or slot:N, such as @1000000 or 1.4.2@1000000",
        )
    }
}

impl std::error::Error for NoPlace {}

impl fmt::Display for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(slot) => write!(f, "slot:{slot}"),
            Self::Output(position) => write!(f, "@{position}"),
            Self::Stream(place) if place.position == 0 => write!(f, "{}", place.stream),
            Self::Stream(place) => write!(f, "{place}"),
        }
    }
}

impl FromStr for Before {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let number = |text: &str| text.parse().map_err(|_| NoPlace);
        if let Some(slot) = text.strip_prefix("slot:") {
            return number(slot).map(Self::Slot);
        }
        if let Some(position) = text.strip_prefix('@') {
            return number(position).map(Self::Output);
        }
        if let Ok(stream) = text.parse() {
            let position = 0;
            return Ok(Self::Stream(StreamPlace { stream, position }));
        }
        text.parse().map(Self::Stream).map_err(|_| NoPlace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_names_have_one_spelling() {
        let name: StreamName = "1.20.3".parse().unwrap();
        assert_eq!(name.to_string(), "1.20.3");
        for text in [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "1.2.x",
            "1.+2.3",
            "01.2.3",
            "1.02.3",
            "1..3",
            "1.2.4294967296",
        ] {
            assert!(text.parse::<StreamName>().is_err(), "{text}");
        }
        let place: StreamPlace = "1.2.3@77".parse().unwrap();
        assert_eq!(place.to_string(), "1.2.3@77");
    }

    #[test]
    fn the_place_of_a_trim_has_one_spelling() {
        for text in ["slot:17", "@99", "1.2.3", "1.2.3@45"] {
            let before: Before = text.parse().unwrap();
            assert_eq!(before.to_string(), text);
        }
        assert_eq!("1.2.3@0".parse::<Before>(), "1.2.3".parse());
        for text in [
            "", "-1", "17", "1.2", "1.2.3@", "main", "@", "@x", "slot:", "slot:-1",
        ] {
            assert_eq!(text.parse::<Before>(), Err(NoPlace), "{text}");
        }
    }
}
