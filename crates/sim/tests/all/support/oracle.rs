//! A log on one node that speaks the client lines, and can be told to break its promises.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use ops::{Buffer, Completion, ConnId, Machine, Op, Slice, Time};
use sim::client::{Line, crc32c};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    None,
    /// A restart forgets the last bytes although they were acknowledged.
    LoseTail,
    /// 1000 bytes of every stream are stored twice.
    Repeat,
    /// One bit of what was stored is wrong when read.
    Flip,
    /// Reads answer with what was known a while ago.
    StaleRead,
    /// Acknowledges what has not been stored.
    AckEarly,
    /// Continues a stream as short as the client says although it is longer.
    Truncate,
}

/// The part that survives restarts. Everything that is stored here counts as chosen.
#[derive(Default)]
pub struct Log {
    streams: Vec<Stream>,
    draws: u64,
}

#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    continued_by: Option<usize>,
    closed: bool,
}

pub struct Oracle {
    log: Rc<RefCell<Log>>,
    lie: Lie,
    ops: VecDeque<Op>,
    conns: BTreeMap<ConnId, Conn>,
    tick: Time,
    stopping: bool,
}

#[derive(Default)]
struct Conn {
    heard: Vec<u8>,
    /// The stream that it appends to, and what was acknowledged.
    appends: Option<(usize, u64)>,
    fin: bool,
    asked: bool,
    ended: bool,
}

fn name(index: usize) -> String {
    format!("1.1.{index}")
}

fn index(name: &str) -> usize {
    name.rsplit('.').next().unwrap().parse().unwrap()
}

impl Oracle {
    pub fn start(log: Rc<RefCell<Log>>, lie: Lie) -> Oracle {
        if lie == Lie::LoseTail {
            for stream in &mut log.borrow_mut().streams {
                let length = stream.bytes.len();
                stream.bytes.truncate(length - length / 50);
            }
        }
        let address = "0.0.0.0:70".to_owned();
        Oracle {
            log,
            lie,
            ops: VecDeque::from([Op::Listen { address }]),
            conns: BTreeMap::new(),
            tick: Time::ZERO,
            stopping: false,
        }
    }

    fn draw(&self, limit: u64) -> u64 {
        let mut log = self.log.borrow_mut();
        log.draws += 1;
        sim::Random::new(log.draws).below(limit)
    }

    fn receive(&mut self, conn: ConnId, buffer: Buffer) {
        let range = 0..buffer.len();
        self.ops.push_back(Op::Receive {
            conn,
            buffer,
            range,
            whole: false,
        });
    }

    fn say(&mut self, conn: ConnId, line: &str) {
        let slices = vec![Slice::copied_from(line.as_bytes())];
        self.ops.push_back(Op::Send { conn, slices });
    }

    fn close(&mut self, conn: ConnId) {
        self.conns.remove(&conn);
        self.ops.push_back(Op::Close { conn, flush: true });
    }

    fn request(&mut self, conn: ConnId, text: &str) {
        let line = Line::parse(text.strip_prefix("logberg/1 ").expect("a request"));
        let error = match self.draw(8) {
            0 => Some("error not-leader leader=node1:70: It is I.\n"),
            1 => Some("error no-quorum: Alone.\n"),
            _ => None,
        };
        let ended = match error {
            Some(error) => {
                self.say(conn, error);
                true
            }
            None => match line.word.as_str() {
                "append" => self.append(conn, &line),
                "close" => self.close_stream(conn, &line),
                "read" => self.read(conn, &line),
                "status" => self.status(conn),
                "streams" => self.streams(conn),
                _ => panic!("{line:?}"),
            },
        };
        if ended {
            self.close(conn);
        }
    }

    fn append(&mut self, conn: ConnId, line: &Line) -> bool {
        let mut at = 0;
        let active: Vec<ConnId> = self
            .conns
            .iter()
            .filter(|(_, c)| c.appends.is_some())
            .map(|(c, _)| *c)
            .collect();
        if let Some(continues) = line.key("continues") {
            let (old, position) = continues.split_once('@').unwrap();
            let (old, position) = (index(old), position.parse::<u64>().unwrap());
            let log = self.log.clone();
            let mut log = log.borrow_mut();
            let stream = &mut log.streams[old];
            if self.lie == Lie::Truncate {
                stream.bytes.truncate(position as usize);
            }
            let length = stream.bytes.len();
            if length as u64 != position || stream.continued_by.is_some() {
                let by = stream.continued_by.map(|by| format!(" by={}", name(by)));
                let by = by.unwrap_or_default();
                drop(log);
                self.say(
                    conn,
                    &format!("error continues length={length}{by}: Longer.\n"),
                );
                return true;
            }
            let next = log.streams.len();
            log.streams[old].continued_by = Some(next);
            at = self.base(&log, old) + position;
        } else if !active.is_empty() && line.key("mode") != Some("takeover") {
            self.say(conn, "error busy stream=1.1.0: Wait.\n");
            return true;
        }
        for other in active {
            self.say(other, "error superseded: By another.\n");
            self.close(other);
        }
        let mut log = self.log.borrow_mut();
        log.streams.push(Stream::default());
        let new = log.streams.len() - 1;
        drop(log);
        let state = self.conns.get_mut(&conn).unwrap();
        state.appends = Some((new, 0));
        state.fin = line.key("end") == Some("fin");
        // A lost answer.
        if self.draw(10) == 0 {
            return true;
        }
        self.say(conn, &format!("stream {} at={at}\n", name(new)));
        false
    }

    fn base(&self, log: &Log, index: usize) -> u64 {
        let before = log
            .streams
            .iter()
            .position(|s| s.continued_by == Some(index));
        before.map_or(0, |i| self.base(log, i) + log.streams[i].bytes.len() as u64)
    }

    fn close_stream(&mut self, conn: ConnId, line: &Line) -> bool {
        let at = line.number("at");
        let stream = index(line.key("stream").unwrap());
        let length = self.log.borrow().streams[stream].bytes.len() as u64;
        if length != at {
            self.say(conn, &format!("error continues length={length}: Longer.\n"));
            return true;
        }
        self.log.borrow_mut().streams[stream].closed = true;
        self.say(conn, &format!("closed {at}\n"));
        true
    }

    fn read(&mut self, conn: ConnId, line: &Line) -> bool {
        let from = line.key("from").map_or(0, |from| from.parse().unwrap());
        let mut bytes = Vec::new();
        let log = self.log.clone();
        let log = log.borrow();
        let mut next = Some(index(line.key("stream").unwrap()));
        let mut closed = false;
        while let Some(index) = next {
            bytes.extend_from_slice(&log.streams[index].bytes);
            closed = log.streams[index].closed;
            next = log.streams[index].continued_by;
        }
        if self.lie == Lie::Flip && bytes.len() > 3000 {
            bytes[3000] ^= 4;
        }
        if self.lie == Lie::StaleRead && !closed && line.key("to").is_none() {
            bytes.truncate(bytes.len() - bytes.len() / 10);
        }
        let length = bytes.len();
        if from > length {
            self.say(conn, &format!("error past-end length={length}: Too far.\n"));
            return true;
        }
        self.say(
            conn,
            &format!("reading from={from} length={length} stale=0\n"),
        );
        let mut at = from;
        let to = line.key("to").map(|to| to.parse::<usize>().unwrap());
        let end = to.unwrap_or(length);
        for part in bytes[from..end].chunks(5000) {
            let sum = crc32c(part);
            self.say(conn, &format!("data {at} {} {sum:08x}\n", part.len()));
            let slices = vec![Slice::copied_from(part)];
            self.ops.push_back(Op::Send { conn, slices });
            at += part.len();
        }
        if to.is_some() {
            self.say(conn, &format!("end {end} to\n"));
            return true;
        }
        if line.key("follow").is_some() && !closed {
            // Not this one's field: the connection is lost instead.
            return true;
        }
        let kind = if closed { "closed" } else { "open" };
        self.say(conn, &format!("end {length} {kind}\n"));
        true
    }

    /// Nothing that helps anybody.
    fn status(&mut self, conn: ConnId) -> bool {
        self.say(conn, "ok {\"node\":1}\n");
        true
    }

    fn streams(&mut self, conn: ConnId) -> bool {
        let log = self.log.clone();
        let log = log.borrow();
        let active = |index| {
            let writes = |conn: &Conn| conn.appends.is_some_and(|(stream, _)| stream == index);
            self.conns.values().any(writes)
        };
        let entries = log.streams.iter().enumerate().map(|(index, stream)| {
            let end = match stream.closed {
                true => "closed",
                false if active(index) => "open",
                false => "cut",
            };
            let by = stream.continued_by.map(|by| format!("\"{}\"", name(by)));
            format!(
                "{{\"name\":\"{}\",\"length\":{},\"end\":\"{end}\",\"continued_by\":{}}}",
                name(index),
                stream.bytes.len(),
                by.as_deref().unwrap_or("null"),
            )
        });
        let entries: Vec<String> = entries.collect();
        let line = format!("ok [{}]\n", entries.join(","));
        self.say(conn, &line);
        true
    }

    fn take(&mut self, conn: ConnId) {
        let Some(state) = self.conns.get_mut(&conn) else {
            return;
        };
        if !state.asked {
            let Some(end) = state.heard.iter().position(|b| *b == b'\n') else {
                return;
            };
            state.asked = true;
            let rest = state.heard.split_off(end + 1);
            let line = std::mem::replace(&mut state.heard, rest);
            let line = String::from_utf8(line).unwrap();
            self.request(conn, line.trim_end());
        }
        let Some(state) = self.conns.get_mut(&conn) else {
            return;
        };
        let Some((stream, _)) = state.appends else {
            return;
        };
        let mut log = self.log.borrow_mut();
        let stored = &mut log.streams[stream].bytes;
        let mut heard = std::mem::take(&mut state.heard);
        if self.lie == Lie::AckEarly && stored.len() > 5000 {
            heard.truncate(heard.len() - heard.len() / 7);
        }
        let before = stored.len();
        stored.extend_from_slice(&heard);
        if self.lie == Lie::Repeat && before < 2000 && stored.len() >= 2000 {
            stored.extend_from_within(1000..2000);
        }
    }

    fn acknowledge(&mut self) {
        let mut lines = Vec::new();
        let mut log = self.log.borrow_mut();
        for (conn, state) in &mut self.conns {
            let Some((stream, acknowledged)) = &mut state.appends else {
                continue;
            };
            let length = log.streams[*stream].bytes.len() as u64;
            if state.ended && state.fin {
                log.streams[*stream].closed = true;
                lines.push((*conn, format!("closed {length}\n"), true));
            } else if state.ended {
                lines.push((*conn, String::new(), true));
            } else if length > *acknowledged {
                *acknowledged = length;
                lines.push((*conn, format!("ack {length}\n"), false));
            }
        }
        drop(log);
        for (conn, line, last) in lines {
            self.say(conn, &line);
            if last {
                self.close(conn);
            }
        }
    }
}

impl Machine for Oracle {
    fn handle(&mut self, _now: Time, completion: Completion) {
        match completion {
            Completion::Accepted { conn, .. } => {
                self.conns.insert(conn, Conn::default());
                self.receive(conn, Buffer::new(8192));
            }
            Completion::Received {
                conn,
                buffer,
                result,
                ..
            } => {
                let Some(state) = self.conns.get_mut(&conn) else {
                    return;
                };
                let Ok(received) = result else {
                    return self.close(conn);
                };
                state.heard.extend_from_slice(&buffer[..received.count]);
                self.take(conn);
                let Some(state) = self.conns.get_mut(&conn) else {
                    return;
                };
                state.ended |= received.end;
                if received.end && state.appends.is_none() {
                    self.close(conn);
                } else if !received.end {
                    self.receive(conn, buffer);
                }
            }
            Completion::StopRequested => self.stopping = true,
            _ => {}
        }
    }
    fn on_time(&mut self, now: Time) {
        if self.tick <= now {
            self.tick = now + Duration::from_millis(3);
            self.acknowledge();
        }
    }
    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }
    fn deadline(&self) -> Option<Time> {
        Some(self.tick)
    }
    fn is_finished(&self) -> bool {
        self.stopping
    }
}
