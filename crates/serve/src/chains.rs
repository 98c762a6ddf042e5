//! Which streams of a log form which chain, by its list of streams.

use std::collections::BTreeMap;

use client::admin::{StreamEnd, StreamInfo};
use client::{AdminError, Client, Part, StreamName};
use http_door::log::{Last, Place};

/// Streams that are asked for at a time.
const PAGE: u64 = 1_000;

/// The end of a list of streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chains {
    pub last: Option<Last>,
    /// The last stream before that chain.
    pub before: Option<StreamName>,
}

/// A chain whose end may be continued yet.
#[derive(Clone, Debug)]
struct Chain {
    first: String,
    /// Bytes before the stream at its end.
    base: u64,
    before: Option<StreamName>,
}

/// Reads a list of streams, of which the last chain is kept and no more than that needs.
#[derive(Debug, Default)]
struct Reading {
    /// Of streams that others continue: by their names, until those come.
    continued: BTreeMap<String, Chain>,
    found: Chains,
    /// The last stream that was read.
    seen: Option<StreamName>,
}

impl Reading {
    /// The next stream. `false`: it continues one that was not read.
    fn take(&mut self, stream: &StreamInfo) -> bool {
        let chain = match &stream.continues {
            None => Chain {
                first: stream.name.clone(),
                base: 0,
                before: self.seen,
            },
            Some(continues) => match self.continued.remove(&continues.stream) {
                Some(chain) => Chain {
                    base: chain.base + continues.at,
                    ..chain
                },
                None => {
                    self.found = Chains::default();
                    self.seen = stream.name.parse().ok();
                    return false;
                }
            },
        };
        self.found = Chains {
            last: Some(Last {
                first: chain.first.clone(),
                bytes: chain.base + stream.length,
                open_at: (stream.end != StreamEnd::Closed).then(|| Place {
                    stream: stream.name.clone(),
                    position: stream.length,
                }),
            }),
            before: chain.before,
        };
        if stream.continued_by.is_some() {
            self.continued.insert(stream.name.clone(), chain);
        }
        self.seen = stream.name.parse().ok();
        true
    }
}

/// The chain that a log's last stream is of. `None`: there is no stream behind `after`, or it continues one that is not behind it.
///
/// Errors: as those of the list; also if `after` is not there any more.
pub fn read(client: &Client, log: &str, after: Option<StreamName>) -> Result<Chains, AdminError> {
    let mut reading = Reading {
        seen: after,
        ..Reading::default()
    };
    each(client, log, after, |stream| {
        reading.take(stream);
        true
    })?;
    Ok(reading.found)
}

/// Whether bytes of others stand between a chain's first and its last stream.
#[derive(Debug)]
struct Between<'a> {
    first: &'a str,
    last: &'a str,
    own: Vec<String>,
    has_others: bool,
    is_over: bool,
}

impl<'a> Between<'a> {
    fn new(first: &'a str, last: &'a str) -> Between<'a> {
        Between {
            first,
            last,
            own: Vec::new(),
            has_others: false,
            is_over: false,
        }
    }

    /// The next stream. `false`: no more are wanted.
    fn take(&mut self, stream: &StreamInfo) -> bool {
        let continues = stream.continues.as_ref();
        let is_own = stream.name == self.first
            || continues.is_some_and(|continues| self.own.contains(&continues.stream));
        if is_own {
            self.own.push(stream.name.clone());
        } else if !self.own.is_empty() {
            self.has_others |= stream.length > 0;
        }
        self.is_over = is_own && stream.name == self.last;
        !self.is_over && !self.has_others
    }

    /// ‡ A list in which the chain is not whole says nothing.
    fn are_together(&self) -> bool {
        self.is_over && !self.has_others
    }
}

/// Whether no bytes of others stand between a chain's first and its last stream.
pub fn are_together(
    client: &Client,
    log: &str,
    first: StreamName,
    last: StreamName,
) -> Result<bool, AdminError> {
    let (first, last) = (first.to_string(), last.to_string());
    let mut between = Between::new(&first, &last);
    each(client, log, None, |stream| between.take(stream))?;
    Ok(between.are_together())
}

/// Each stream behind `after`, as long as more are wanted.
fn each(
    client: &Client,
    log: &str,
    mut after: Option<StreamName>,
    mut wants: impl FnMut(&StreamInfo) -> bool,
) -> Result<(), AdminError> {
    loop {
        let limit = Some(PAGE);
        let page = client.streams_part(log, Part { after, limit })?;
        if !page.iter().all(&mut wants) {
            return Ok(());
        }
        let is_whole = (page.len() as u64) < PAGE;
        after = page.last().and_then(|stream| stream.name.parse().ok());
        if is_whole || after.is_none() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use client::admin::Continues;

    use super::*;

    fn stream(name: &str, length: u64, continues: Option<(&str, u64)>) -> StreamInfo {
        StreamInfo {
            name: name.to_owned(),
            label: None,
            length,
            trimmed: 0,
            end: StreamEnd::Closed,
            continues: continues.map(|(stream, at)| Continues {
                stream: stream.to_owned(),
                at,
            }),
            continued_by: None,
        }
    }

    #[test]
    fn the_last_chain_is_found_with_all_its_bytes() {
        let mut reading = Reading::default();
        let continued = |stream: StreamInfo| StreamInfo {
            continued_by: Some("x".to_owned()),
            ..stream
        };
        assert!(reading.take(&stream("1.1.1", 7, None)));
        assert!(reading.take(&continued(stream("1.1.2", 10, None))));
        assert!(reading.take(&continued(stream("2.1.1", 5, Some(("1.1.2", 10))))));
        // Another writer came in between.
        assert!(reading.take(&stream("1.1.3", 3, None)));
        assert_eq!(reading.found.before, "2.1.1".parse().ok());
        let cut = StreamInfo {
            end: StreamEnd::Cut,
            ..stream("2.1.2", 4, Some(("2.1.1", 5)))
        };
        assert!(reading.take(&cut));
        let last = reading.found.last.clone().expect("a chain");
        assert_eq!((&*last.first, last.bytes), ("1.1.2", 19));
        let place = last.open_at.expect("it was cut");
        assert_eq!(place.to_string(), "2.1.2@4");
        assert_eq!(reading.found.before, "1.1.1".parse().ok());
        // A list that begins behind what a chain continues does not know it.
        let mut late = Reading::default();
        assert!(!late.take(&cut));
        assert_eq!(late.found, Chains::default());
    }
    #[test]
    fn others_bytes_within_a_chain_are_seen() {
        let together = |streams: &[StreamInfo]| {
            let mut between = Between::new("1.1.2", "2.1.2");
            let _ = streams.iter().all(|stream| between.take(stream));
            between.are_together()
        };
        let first = stream("1.1.2", 10, None);
        let second = stream("2.1.1", 0, Some(("1.1.2", 10)));
        let last = stream("2.1.2", 5, Some(("2.1.1", 0)));
        let before = stream("1.1.1", 7, None);
        let other = |length| stream("1.1.3", length, None);
        let chain = [before.clone(), first.clone(), second.clone(), last.clone()];
        assert!(together(&chain));
        let empty = [first.clone(), other(0), second.clone(), last.clone()];
        assert!(together(&empty));
        let parted = [first.clone(), second.clone(), other(3), last.clone()];
        assert!(!together(&parted));
        assert!(!together(&[before, second, last]), "it is not all there");
        assert!(!together(&[first]));
    }
}
