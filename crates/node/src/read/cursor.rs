//! A place in a chain of continued streams, or in all outputs of a log one after the other.

use paxos::{LogState, StreamEnd, StreamName};

/// A place in a chain of streams.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    pub(super) target: Target,
    pub(super) at: u64,
    /// The stream that `at` is in, and where that stream begins.
    pub(super) stream: Option<StreamName>,
    pub(super) base: u64,
    /// Its index among all streams of the log, trimmed ones included.
    pub(super) index: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Everything,
    Chain(StreamName),
}

/// What the cursor points at.
pub(super) struct Spot {
    pub(super) stream: StreamName,
    pub(super) position: u64,
    /// Chosen bytes from there to the stream's end.
    pub(super) available: u64,
    pub(super) trimmed: u64,
    pub(super) end: StreamEnd,
    /// A later stream of the chain was entered to get here.
    pub(super) moved: bool,
}

impl Cursor {
    pub(super) fn new(target: Target, at: u64) -> Cursor {
        Cursor {
            target,
            at,
            stream: None,
            base: 0,
            index: 0,
        }
    }

    /// `None` while there is nothing at all, or the chain's first stream is unknown.
    pub(super) fn spot(&mut self, state: &LogState) -> Option<Spot> {
        let mut moved = false;
        loop {
            let stream = match (self.target, self.stream) {
                (Target::Chain(first), None) => state.stream(first)?,
                (Target::Chain(_), Some(name)) => state.stream(name)?,
                (Target::Everything, _) => {
                    self.index = self.index.max(state.streams_trimmed);
                    state
                        .streams
                        .get((self.index - state.streams_trimmed) as usize)?
                }
            };
            self.stream = Some(stream.name);
            let length = stream.length.0;
            if self.at >= self.base + length && stream.end != StreamEnd::Open {
                let next = match self.target {
                    Target::Chain(_) => stream.continued_by,
                    Target::Everything => state
                        .streams
                        .get((self.index + 1 - state.streams_trimmed) as usize)
                        .map(|s| s.name),
                };
                if let Some(next) = next {
                    self.base += length;
                    self.index += 1;
                    self.stream = Some(next);
                    moved = true;
                    continue;
                }
            }
            let position = self.at.saturating_sub(self.base);
            return Some(Spot {
                stream: stream.name,
                position,
                available: length.saturating_sub(position),
                trimmed: stream.trimmed.0,
                end: stream.end,
                moved,
            });
        }
    }

    /// Chosen bytes from the chain's beginning to its end so far.
    pub(super) fn length(&self, state: &LogState) -> Option<u64> {
        match self.target {
            Target::Everything => Some(state.streams.iter().map(|s| s.length.0).sum()),
            Target::Chain(first) => {
                let mut length = 0;
                let mut name = Some(first);
                while let Some(n) = name {
                    let stream = state.stream(n)?;
                    length += stream.length.0;
                    name = stream.continued_by;
                }
                Some(length)
            }
        }
    }
}
