//! The log of the fake cluster, and the rules by which it grows.

use std::collections::{BTreeMap, VecDeque};

use client::Mode;
use client::admin::{Continues, StreamEnd, StreamInfo};
use client::answer::{Code, Refusal};
use client::line::{StreamName, StreamPlace};

use super::{AppendFault, CloseFault, ReadFault};

#[derive(Default)]
pub struct Truth {
    pub streams: Vec<FakeStream>,
    pub logs: Vec<String>,
    pub leader: usize,
    /// The cluster that its nodes say they are of, if any.
    pub cluster: String,
    /// Requests may name it.
    pub understands: bool,
    /// Those that requests named.
    pub named: Vec<String>,
    /// Counts the elections.
    pub term: u64,
    /// Nodes that believe in another leader and term in their status.
    pub views: BTreeMap<usize, (usize, u64)>,
    /// The index of the stream being written.
    pub active: Option<usize>,
    pub append_plan: VecDeque<AppendFault>,
    pub close_plan: VecDeque<CloseFault>,
    pub read_plan: VecDeque<ReadFault>,
    /// Every request line that was understood, with the node that got it.
    pub requests: Vec<(usize, String)>,
    /// The leader that each node names, if not the true one.
    pub hints: Vec<String>,
    /// The next creation is answered with this instead.
    pub create_answer: Option<&'static str>,
    /// Streams by their places, and lengths with which they are listed that are not their own.
    pub listed_lengths: Vec<(usize, u64)>,
    /// A node that says that the cluster removed it.
    pub removed: Option<usize>,
}

pub struct FakeStream {
    pub name: StreamName,
    pub label: Option<String>,
    pub bytes: Vec<u8>,
    pub end: StreamEnd,
    pub continues: Option<StreamPlace>,
    pub continued_by: Option<StreamName>,
    pub base: u64,
}

impl FakeStream {
    pub fn info(&self) -> StreamInfo {
        StreamInfo {
            name: self.name.to_string(),
            label: self.label.clone(),
            length: self.bytes.len() as u64,
            trimmed: 0,
            end: self.end,
            continues: self.continues.map(|place| Continues {
                stream: place.stream.to_string(),
                at: place.position,
            }),
            continued_by: self.continued_by.map(|name| name.to_string()),
        }
    }
}

impl Truth {
    pub fn find(&self, name: StreamName) -> Option<usize> {
        self.streams.iter().position(|stream| stream.name == name)
    }

    /// Opens a stream as the log would, or says why not.
    pub fn open(
        &mut self,
        log: &str,
        label: Option<String>,
        continues: Option<StreamPlace>,
        mode: Mode,
    ) -> Result<usize, Refusal> {
        if log != "main" {
            return Err(Refusal::new(Code::UnknownLog, "There is no such log."));
        }
        let mut base = 0;
        if let Some(place) = continues {
            let Some(index) = self.find(place.stream) else {
                return Err(Refusal::new(
                    Code::UnknownStream,
                    "There is no such stream.",
                ));
            };
            let old = &self.streams[index];
            let length = old.bytes.len() as u64;
            if length != place.position || old.continued_by.is_some() {
                let refusal = Refusal::new(Code::Continues, "It ends elsewhere.");
                let refusal = refusal.key("length", length);
                return Err(match old.continued_by {
                    Some(by) => refusal.key("by", by),
                    None => refusal,
                });
            }
            base = old.base + length;
        }
        if let Some(active) = self.active {
            let own = continues.is_some_and(|place| place.stream == self.streams[active].name);
            if !own && mode != Mode::TakeOver {
                let refusal = Refusal::new(Code::Busy, "Somebody writes.");
                return Err(refusal.key("stream", self.streams[active].name));
            }
            self.cut(active);
        }
        let name = StreamName {
            owner: self.leader as u64 + 1,
            incarnation: 1,
            counter: self.streams.len() as u64 + 1,
        };
        if let Some(place) = continues {
            let index = self.find(place.stream).expect("found above");
            self.streams[index].continued_by = Some(name);
        }
        self.streams.push(FakeStream {
            name,
            label,
            bytes: Vec::new(),
            end: StreamEnd::Open,
            continues,
            continued_by: None,
            base,
        });
        self.active = Some(self.streams.len() - 1);
        Ok(self.streams.len() - 1)
    }

    /// The stream's writer is gone, or another took over.
    pub fn cut(&mut self, index: usize) {
        if self.streams[index].end == StreamEnd::Open {
            self.streams[index].end = StreamEnd::Cut;
        }
        if self.active == Some(index) {
            self.active = None;
        }
    }

    pub fn close(&mut self, at: StreamPlace) -> Result<u64, Refusal> {
        let Some(index) = self.find(at.stream) else {
            return Err(Refusal::new(
                Code::UnknownStream,
                "There is no such stream.",
            ));
        };
        let stream = &mut self.streams[index];
        let length = stream.bytes.len() as u64;
        if length != at.position {
            return Err(Refusal::new(Code::Continues, "It ends elsewhere.").key("length", length));
        }
        if stream.end == StreamEnd::Cut {
            return Err(Refusal::new(Code::Superseded, "It was cut."));
        }
        stream.end = StreamEnd::Closed;
        if self.active == Some(index) {
            self.active = None;
        }
        Ok(length)
    }

    /// The chain that begins with `name`; all outputs without one. With its last stream's end.
    pub fn chain(&self, name: Option<StreamName>) -> Option<(Vec<u8>, StreamEnd)> {
        let Some(name) = name else {
            let bytes = self
                .streams
                .iter()
                .flat_map(|stream| stream.bytes.clone())
                .collect();
            let end = self
                .streams
                .last()
                .map_or(StreamEnd::Open, |stream| stream.end);
            return Some((bytes, end));
        };
        let mut stream = &self.streams[self.find(name)?];
        let mut bytes = stream.bytes.clone();
        while let Some(next) = stream.continued_by {
            stream = &self.streams[self.find(next)?];
            bytes.extend_from_slice(&stream.bytes);
        }
        Some((bytes, stream.end))
    }

    /// The number of times that this node was asked for its status.
    pub fn status_asked(&self, node: usize) -> usize {
        let asked = |(of, line): &&(usize, String)| *of == node && line == "logberg/1 status";
        self.requests.iter().filter(asked).count()
    }

    pub fn asked(&self, verb: &str) -> usize {
        let verb = format!("logberg/1 {verb}");
        self.requests
            .iter()
            .filter(|(_, line)| line.starts_with(&verb))
            .count()
    }
}
