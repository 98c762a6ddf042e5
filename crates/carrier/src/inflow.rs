//! One connection's bytes on their way in, and the receives that wait for them.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use ops::{Buffer, Completion, ConnId, LENT_BYTES_MAX, Pool, Received, Slice};

/// Buffers for receives that bring none; small ones for what peers say most of the time.
pub(crate) struct Lent {
    small: Pool,
    large: Pool,
}

const SMALL: usize = 4 << 10;
const IDLE_MAX: usize = 64;

impl Lent {
    pub fn new() -> Lent {
        Lent {
            small: Pool::new(SMALL, IDLE_MAX),
            large: Pool::new(LENT_BYTES_MAX, IDLE_MAX),
        }
    }

    fn lend(&self, bytes: usize) -> Buffer {
        match bytes <= SMALL {
            true => self.small.take(),
            false => self.large.take(),
        }
    }
}

/// How a connection stands that may bring more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Ended,
    Broken,
}

#[derive(Debug)]
struct Wanted {
    buffer: Buffer,
    range: Range<usize>,
    count: usize,
    whole: bool,
    /// It brought no buffer, and takes so many bytes.
    when_there: Option<usize>,
}

pub(crate) struct Inflow {
    conn: ConnId,
    chunks: VecDeque<Slice>,
    wanted: VecDeque<Wanted>,
    state: State,
}

impl Inflow {
    pub fn new(conn: ConnId) -> Inflow {
        Inflow {
            conn,
            chunks: VecDeque::new(),
            wanted: VecDeque::new(),
            state: State::Open,
        }
    }

    pub fn want(&mut self, buffer: Buffer, range: Range<usize>, whole: bool) {
        self.wanted.push_back(Wanted {
            buffer,
            range,
            count: 0,
            whole,
            when_there: None,
        });
    }

    pub fn want_when_there(&mut self, bytes_max: usize) {
        self.wanted.push_back(Wanted {
            buffer: Buffer::empty(),
            range: 0..0,
            count: 0,
            whole: false,
            when_there: Some(bytes_max.min(LENT_BYTES_MAX)),
        });
    }

    pub fn arrived(&mut self, slice: Slice) {
        if !slice.is_empty() && self.state == State::Open {
            self.chunks.push_back(slice);
        }
    }

    pub fn end(&mut self) {
        if self.state == State::Open {
            self.state = State::Ended;
        }
    }

    /// Bytes that arrived before are read first, as from a socket.
    pub fn break_off(&mut self) {
        self.state = State::Broken;
    }

    pub fn has_unread(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// Completes what can be completed; returns the bytes that were taken.
    pub fn fill(&mut self, lent: &Lent, told: &mut VecDeque<Completion>) -> usize {
        let mut taken = 0;
        while let Some(first) = self.wanted.front_mut() {
            if let Some(bytes_max) = first.when_there
                && !self.chunks.is_empty()
            {
                let there: usize = self.chunks.iter().map(|chunk| chunk.len()).sum();
                let most = there.min(bytes_max);
                first.buffer = lent.lend(most);
                first.range = 0..most;
                first.when_there = None;
            }
            let room = first.range.len() - first.count;
            let before = first.count;
            copy(&mut self.chunks, first, room);
            taken += first.count - before;
            let is_done = match first.when_there {
                Some(_) => false,
                None if first.whole => first.count == first.range.len(),
                None => first.count > 0 || first.range.is_empty(),
            };
            let end = match (is_done, self.state) {
                (true, _) => false,
                (false, State::Open) => break,
                (false, State::Ended) => true,
                (false, State::Broken) => {
                    self.fail(&|| io::ErrorKind::ConnectionReset.into(), told);
                    break;
                }
            };
            if let Some(done) = self.wanted.pop_front() {
                let count = done.count;
                told.push_back(Completion::Received {
                    conn: self.conn,
                    buffer: done.buffer,
                    range: done.range,
                    result: Ok(Received { count, end }),
                });
            }
        }
        taken
    }

    /// Answers all receives with an error.
    pub fn fail(&mut self, error: &dyn Fn() -> io::Error, told: &mut VecDeque<Completion>) {
        told.extend(self.wanted.drain(..).map(|wanted| Completion::Received {
            conn: self.conn,
            buffer: wanted.buffer,
            range: wanted.range,
            result: Err(error()),
        }));
    }
}

fn copy(chunks: &mut VecDeque<Slice>, into: &mut Wanted, room: usize) {
    let mut left = room;
    while left > 0
        && let Some(chunk) = chunks.front_mut()
    {
        let count = chunk.len().min(left);
        let start = into.range.start + into.count;
        let part = into.buffer.part_mut(start..start + count);
        part.copy_from_slice(&chunk[..count]);
        into.count += count;
        left -= count;
        match count == chunk.len() {
            true => drop(chunks.pop_front()),
            false => *chunk = chunk.after(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(told: &mut VecDeque<Completion>) -> Vec<String> {
        let all = told.drain(..).map(|completion| match completion {
            Completion::Received {
                buffer,
                range,
                result: Ok(Received { count, end }),
                ..
            } => {
                let bytes = &buffer[range.start..range.start + count];
                format!("{} {end}", String::from_utf8_lossy(bytes))
            }
            _ => "error".to_owned(),
        });
        all.collect()
    }

    #[test]
    fn receives_are_filled_in_their_order_as_a_socket_fills_them() {
        let lent = Lent::new();
        let mut told = VecDeque::new();
        let mut inflow = Inflow::new(ConnId(1));
        inflow.want(Buffer::new(10), 2..6, true);
        inflow.want_when_there(100);
        inflow.want(Buffer::new(10), 0..3, false);
        inflow.want(Buffer::new(10), 0..3, true);
        assert_eq!(inflow.fill(&lent, &mut told), 0);
        inflow.arrived(Slice::copied_from(b"ab"));
        assert_eq!(inflow.fill(&lent, &mut told), 2);
        assert!(told.is_empty(), "it wants all of its four bytes");
        inflow.arrived(Slice::copied_from(b"cdefg"));
        inflow.arrived(Slice::copied_from(b"h"));
        assert_eq!(inflow.fill(&lent, &mut told), 6);
        assert_eq!(shown(&mut told), ["abcd false", "efgh false"]);
        inflow.arrived(Slice::copied_from(b"ijk"));
        inflow.arrived(Slice::copied_from(b"lm"));
        inflow.end();
        assert_eq!(inflow.fill(&lent, &mut told), 5);
        assert_eq!(shown(&mut told), ["ijk false", "lm true"]);
        inflow.want_when_there(7);
        inflow.want(Buffer::new(4), 0..0, false);
        inflow.want(Buffer::new(4), 0..4, false);
        inflow.fill(&lent, &mut told);
        assert_eq!(shown(&mut told), [" true", " false", " true"]);
    }

    #[test]
    fn what_came_before_a_break_is_read_and_then_all_fails() {
        let lent = Lent::new();
        let mut told = VecDeque::new();
        let mut inflow = Inflow::new(ConnId(1));
        inflow.arrived(Slice::copied_from(b"last"));
        inflow.break_off();
        for _ in 0..2 {
            inflow.want_when_there(100);
        }
        inflow.fill(&lent, &mut told);
        assert_eq!(shown(&mut told), ["last false", "error"]);
    }
}
