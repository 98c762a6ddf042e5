//! Listens to what a writer says and hears, and keeps its chain by that: it believes no client.
//!
//! ```text
//!   writer ──► request, bytes ──► cluster        each byte is the one that stands there in the chain
//!          ◄── stream, ack, continues, closed    each promise is one that the chain can have
//! ```

use std::collections::BTreeMap;

use talk::Link;
use wire::line::LINE_BYTES_MAX;
use wire::told::{StreamEnd, StreamInfo};
use wire::{Answer, Ask, Code, Refusal, StreamName, StreamPlace};

use super::chain::SharedChain;
use super::content;

pub(crate) struct Notary {
    chain: SharedChain,
    links: BTreeMap<Link, Record>,
    /// Heard of another writer.
    pub busy: u64,
    pub superseded: u64,
}

/// The words said and heard on one connection.
#[derive(Default)]
struct Record {
    /// Once the request line was sent.
    ask: Option<Ask>,
    /// The place in the chain where the stream begins that is written here.
    begins: Option<u64>,
    /// Bytes behind the request line.
    sent: u64,
    heard: Vec<u8>,
    over: bool,
}

impl Notary {
    pub fn new(chain: SharedChain) -> Notary {
        Notary {
            chain,
            links: BTreeMap::new(),
            busy: 0,
            superseded: 0,
        }
    }

    /// The machine whose connections these were is gone.
    pub fn forget(&mut self) {
        self.links.clear();
    }

    /// The place where the chain goes on, as far as it is known; none before it began.
    pub fn place(&self) -> Option<StreamPlace> {
        let chain = self.chain.borrow();
        let (name, begins) = chain.streams.last()?;
        Some(StreamPlace {
            stream: name.parse().expect("it was written as a name"),
            position: chain.acknowledged - begins,
        })
    }

    /// The stream that is written on this connection is open.
    pub fn is_open(&self, link: Link) -> bool {
        let record = self.links.get(&link);
        record.is_some_and(|record| record.begins.is_some())
    }

    pub fn is_of_the_chain(&self, stream: StreamName) -> bool {
        let name = stream.to_string();
        let chain = self.chain.borrow();
        chain.streams.iter().any(|(known, _)| *known == name)
    }

    fn begins(&self, stream: StreamName) -> u64 {
        let name = stream.to_string();
        let chain = self.chain.borrow();
        let found = chain.streams.iter().find(|(known, _)| *known == name);
        found
            .unwrap_or_else(|| panic!("{name} is no stream of {chain:?}"))
            .1
    }

    /// A request line, and what is said behind it.
    pub fn on_said(&mut self, link: Link, bytes: &[u8]) {
        let record = self.links.entry(link).or_default();
        if record.ask.is_some() {
            return self.on_content(link, bytes);
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let end = end.expect("a request line is said in one piece") + 1;
        let (line, rest) = bytes.split_at(end);
        assert!(line.len() <= LINE_BYTES_MAX);
        let mut request = wire::Request::parse(line).expect("a request is a line of the grammar");
        request.take("cluster");
        let ask = Ask::read(&request).expect("a request is one of the grammar");
        match &ask {
            Ask::Append { .. } => self.chain.borrow_mut().attempts += 1,
            Ask::Close { at, .. } => {
                let begins = self.begins(at.stream);
                let mut chain = self.chain.borrow_mut();
                assert_eq!(
                    begins + at.position,
                    chain.total,
                    "closed too early: {chain:?}"
                );
                chain.close_asked = true;
            }
            _ => {}
        }
        self.links.entry(link).or_default().ask = Some(ask);
        if !rest.is_empty() {
            self.on_content(link, rest);
        }
    }

    /// The place of the bytes that are said next on this connection.
    fn place_of(&self, link: Link) -> u64 {
        let record = &self.links[&link];
        let begins = record.begins.unwrap_or_else(|| match &record.ask {
            // It is said before the stream is open.
            Some(Ask::Append {
                continues: Some(place),
                ..
            }) => self.begins(place.stream) + place.position,
            Some(Ask::Append { .. }) => 0,
            other => panic!("bytes behind {other:?}"),
        });
        begins + record.sent
    }

    fn on_content(&mut self, link: Link, bytes: &[u8]) {
        let at = self.place_of(link);
        let mut chain = self.chain.borrow_mut();
        let mut expected = vec![0; bytes.len()];
        content::fill(chain.client, at, &mut expected);
        assert!(
            bytes == expected,
            "the writer says other bytes at {at} than stand there: {chain:?}"
        );
        let end = at + bytes.len() as u64;
        assert!(end <= chain.total, "{end} bytes are said of {chain:?}");
        chain.sent = chain.sent.max(end);
        drop(chain);
        let record = self.links.entry(link).or_default();
        record.sent += bytes.len() as u64;
    }

    /// A half-close says that these were all the bytes.
    pub fn on_half_close(&mut self) {
        self.chain.borrow_mut().close_asked = true;
    }

    pub fn on_heard(&mut self, link: Link, bytes: &[u8]) {
        let record = self.links.entry(link).or_default();
        record.heard.extend_from_slice(bytes);
        loop {
            let Some(record) = self.links.get_mut(&link).filter(|record| !record.over) else {
                return;
            };
            let Some(end) = record.heard.iter().position(|byte| *byte == b'\n') else {
                return;
            };
            let rest = record.heard.split_off(end + 1);
            let line = std::mem::replace(&mut record.heard, rest);
            let answer = Answer::parse(&line);
            let answer = answer.unwrap_or_else(|error| {
                panic!("{:?}: {error}", String::from_utf8_lossy(&line));
            });
            self.on_answer(link, answer);
        }
    }

    fn on_answer(&mut self, link: Link, answer: Answer) {
        let record = self.links.entry(link).or_default();
        match (&record.ask, answer) {
            (Some(Ask::Append { .. }), Answer::Waiting) => {}
            (Some(Ask::Append { .. }), Answer::Stream { name, at }) => {
                let expected = self.place_of(link);
                let record = self.links.entry(link).or_default();
                let expected = expected - record.sent;
                record.begins = Some(at);
                let eager = record.sent > 0;
                assert_eq!(at, expected, "where {name} begins");
                self.opened(name, at, eager);
            }
            (
                Some(Ask::Append { .. }),
                Answer::Ack(position) | Answer::Checked { position, .. },
            ) => {
                let begins = record.begins.expect("acks are of a stream");
                assert!(
                    position <= record.sent,
                    "ack {position} of {} said",
                    record.sent
                );
                self.chain.borrow_mut().acknowledge(begins + position);
            }
            (Some(Ask::Append { .. }), Answer::Closed(position)) => {
                let begins = record.begins.expect("it is a stream's end");
                record.over = true;
                self.chain.borrow_mut().close(begins + position);
            }
            (Some(Ask::Close { at, .. }), Answer::Closed(position)) => {
                let stream = at.stream;
                record.over = true;
                let begins = self.begins(stream);
                self.chain.borrow_mut().close(begins + position);
            }
            (Some(Ask::Append { .. } | Ask::Close { .. }), Answer::Error(refusal)) => {
                record.over = true;
                self.on_refused(link, &refusal);
            }
            (Some(Ask::Streams { .. }), Answer::Ok(json)) => {
                record.over = true;
                self.on_streams(&json);
            }
            (Some(Ask::Status { .. } | Ask::Streams { .. }), Answer::Ok(_) | Answer::Error(_)) => {
                record.over = true;
            }
            (ask, answer) => panic!("{answer:?} in answer to {ask:?}"),
        }
    }

    /// The answer to a close may be lost, and its effect be seen in the list.
    fn on_streams(&mut self, json: &str) {
        let streams: Vec<StreamInfo> = serde_json::from_str(json).expect("a list of streams");
        let Some(place) = self.place() else { return };
        let name = place.stream.to_string();
        let closed = |stream: &&StreamInfo| stream.end == StreamEnd::Closed;
        let last = streams.iter().find(|stream| stream.name == name);
        if let Some(stream) = last.filter(closed) {
            let begins = self.begins(place.stream);
            self.chain.borrow_mut().close(begins + stream.length);
        }
    }

    fn opened(&mut self, name: StreamName, at: u64, eager: bool) {
        let mut chain = self.chain.borrow_mut();
        // The bytes of a client that says them early may be seen before it hears that its stream is open.
        assert!(
            eager || chain.observed <= at,
            "bytes were seen that are not in the chain: {name} begins at {at} of {chain:?}"
        );
        chain.opened(&name.to_string(), at);
    }

    fn on_refused(&mut self, link: Link, refusal: &Refusal) {
        let ask = self.links[&link].ask.clone();
        match (&refusal.code, ask) {
            (
                Code::Continues,
                Some(Ask::Append {
                    continues: Some(place),
                    ..
                }),
            ) => {
                let length: u64 = refusal.value("length").expect("it says how long it is");
                let length = self.begins(place.stream) + length;
                self.chain.borrow_mut().acknowledge(length);
                if let Some(by) = refusal.value("by") {
                    // Nobody else continues it: it was opened here, and that was not heard.
                    self.opened(by, length, true);
                }
            }
            (Code::Continues, Some(Ask::Close { .. })) => {}
            (Code::Busy, _) => self.busy += 1,
            (Code::Superseded, _) => self.superseded += 1,
            (
                Code::NotLeader
                | Code::NoQuorum
                | Code::Full
                | Code::ShuttingDown
                | Code::UnknownLog,
                _,
            ) => {}
            _ if came_too_late(refusal) => {}
            (_, ask) => panic!("{refusal:?} in answer to an honest {ask:?}"),
        }
    }
}

/// The request was on its way for longer than the node waited for it.
pub(crate) fn came_too_late(refusal: &Refusal) -> bool {
    refusal.code == Code::TooLate
}
