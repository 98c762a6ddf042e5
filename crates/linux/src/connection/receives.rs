//! The receives of a connection, and how far the first one got.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use ops::{Buffer, Completion, ConnId, LENT_BYTES_MAX, Received};
use rustix::io::Errno;

pub(super) struct Receives {
    conn: ConnId,
    queue: VecDeque<Receiving>,
    /// The kernel reports an error once; we report it for all later receives.
    failure: Option<Errno>,
    /// The other side's end of stream was told.
    has_ended: bool,
}

pub(super) struct Receiving {
    pub buffer: Buffer,
    pub range: Range<usize>,
    pub count: usize,
    pub whole: bool,
    /// It has no buffer before there are bytes, and so many at most are for it then.
    pub when_there: Option<usize>,
}

impl Receiving {
    pub fn rest(&self) -> Range<usize> {
        self.range.start + self.count..self.range.end
    }

    /// The bytes that it still takes.
    pub fn room(&self) -> usize {
        self.when_there.unwrap_or(self.rest().len())
    }

    /// Its buffer, with so many bytes that are there.
    pub fn lend(&mut self, buffer: Buffer, count: usize) {
        self.buffer = buffer;
        self.range = 0..count;
        self.when_there = None;
    }
}

impl Receives {
    pub fn new(conn: ConnId) -> Receives {
        Receives {
            conn,
            queue: VecDeque::new(),
            failure: None,
            has_ended: false,
        }
    }

    pub fn push(&mut self, buffer: Buffer, range: Range<usize>, whole: bool) {
        self.queue.push_back(Receiving {
            buffer,
            range,
            count: 0,
            whole,
            when_there: None,
        });
    }

    pub fn push_when_there(&mut self, bytes_max: usize) {
        self.queue.push_back(Receiving {
            buffer: Buffer::empty(),
            range: 0..0,
            count: 0,
            whole: false,
            when_there: Some(bytes_max.min(LENT_BYTES_MAX)),
        });
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub fn first(&mut self) -> Option<&mut Receiving> {
        self.queue.front_mut()
    }

    /// The first receive is somebody else's until it is put back.
    pub fn take_first(&mut self) -> Option<Receiving> {
        self.queue.pop_front()
    }

    pub fn put_back(&mut self, receiving: Receiving) {
        self.queue.push_front(receiving);
    }

    /// Nothing is received any more.
    pub fn break_with(&mut self, errno: Errno) {
        self.failure = Some(errno);
    }

    /// Settles what needs no bytes moved, at the front; whether a receive waits for bytes of a
    /// connection that is open.
    pub fn has_range_to_fill(&mut self, open: bool, completions: &mut Vec<Completion>) -> bool {
        loop {
            if let Some(errno) = self.failure {
                self.fail(&|| errno.into(), completions);
                return false;
            }
            match self.queue.front() {
                Some(receiving) if open && receiving.room() == 0 => {
                    self.complete_first(false, completions);
                }
                first => return open && first.is_some(),
            }
        }
    }

    /// The first receive has so many bytes more; none is the end of the stream.
    pub fn on_received(&mut self, count: usize, completions: &mut Vec<Completion>) {
        let Some(receiving) = self.queue.front_mut() else {
            return;
        };
        self.has_ended |= count == 0;
        receiving.count += count;
        if count == 0 || !receiving.whole || receiving.rest().is_empty() {
            self.complete_first(count == 0, completions);
        }
    }

    fn complete_first(&mut self, end: bool, completions: &mut Vec<Completion>) {
        if let Some(done) = self.queue.pop_front() {
            completions.push(Completion::Received {
                conn: self.conn,
                buffer: done.buffer,
                range: done.range,
                result: Ok(Received {
                    count: done.count,
                    end,
                }),
            });
        }
    }

    pub fn fail(&mut self, error: &dyn Fn() -> io::Error, completions: &mut Vec<Completion>) {
        for receiving in self.queue.drain(..) {
            completions.push(Completion::Received {
                conn: self.conn,
                buffer: receiving.buffer,
                range: receiving.range,
                result: Err(error()),
            });
        }
    }
}
