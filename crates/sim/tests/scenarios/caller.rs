//! One connection to one node, which says what the script says and keeps what it hears.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use ops::{Buffer, Completion, ConnId, Machine, Op, Slice, Time};
use sim::{HostId, World};

const CONN: ConnId = ConnId(2);
const RECEIVE_BYTES: usize = 16 << 10;

#[derive(Default)]
struct Line {
    ops: VecDeque<Op>,
    heard: Vec<u8>,
    over: bool,
    broken: bool,
}

struct Phone(Rc<RefCell<Line>>);

/// The script's end of it. It has a host of its own, so that paths to it can be cut.
pub struct Caller {
    line: Rc<RefCell<Line>>,
    pub host: HostId,
    /// Bytes of content said so far.
    pub said: u64,
    content: u64,
}

impl Caller {
    /// Calls a node and says a request line.
    pub fn call(world: &mut World, name: &str, address: &str, request: &str) -> Caller {
        let caller = Caller::dial(world, name, address);
        caller.send(world, format!("logberg/1 {request}\n").as_bytes());
        caller
    }

    /// Connects, and says nothing.
    pub fn dial(world: &mut World, name: &str, address: &str) -> Caller {
        let line = Rc::<RefCell<Line>>::default();
        let host = world.add_host(name);
        let shared = line.clone();
        let phone = world.start(host, move |_, _| Ok(Box::new(Phone(shared.clone()))));
        phone.expect("it needs no disk");
        let caller = Caller {
            line,
            host,
            said: 0,
            content: u64::from(host.0),
        };
        let address = address.to_owned();
        caller.give(
            world,
            Op::Connect {
                conn: CONN,
                address,
            },
        );
        caller.receive();
        caller
    }

    /// Says so many bytes of this caller's content.
    pub fn say(&mut self, world: &mut World, count: u64) {
        let bytes = self.content(self.said..self.said + count);
        self.said += count;
        self.send(world, &bytes);
    }

    /// The bytes that `say` said there.
    pub fn content(&self, range: std::ops::Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        sim::client::fill(self.content, range.start, &mut bytes);
        bytes
    }

    pub fn heard(&self) -> Vec<u8> {
        self.line.borrow().heard.clone()
    }

    /// For answers that are lines.
    pub fn text(&self) -> String {
        String::from_utf8(self.heard()).expect("lines are text")
    }

    pub fn is_over(&self) -> bool {
        self.line.borrow().over
    }

    /// Not by an end.
    pub fn is_broken(&self) -> bool {
        self.line.borrow().broken
    }

    pub fn is_open(&self) -> bool {
        let line = self.line.borrow();
        line.heard.starts_with(b"stream ") && line.heard.contains(&b'\n')
    }

    pub fn acknowledged(&self) -> u64 {
        let text = self.text();
        let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
        let mut acks = whole.lines().filter_map(|line| line.strip_prefix("ack "));
        let last = acks.next_back().unwrap_or("0");
        last.parse().expect("a position")
    }

    pub fn has_all(&self) -> bool {
        self.acknowledged() == self.said
    }

    fn give(&self, world: &mut World, op: Op) {
        self.line.borrow_mut().ops.push_back(op);
        world.poke(self.host);
    }

    pub fn send(&self, world: &mut World, bytes: &[u8]) {
        let slices = vec![Slice::copied_from(bytes)];
        self.give(world, Op::Send { conn: CONN, slices });
    }

    /// No more is said; it still hears.
    pub fn half_close(&self, world: &mut World) {
        self.give(world, Op::ShutdownWrite { conn: CONN });
    }

    /// Something between the two resets the connection.
    pub fn reset(&self, world: &mut World) {
        world.reset(self.host, CONN);
    }

    /// The name of the stream that was opened for it.
    pub fn stream(&self) -> String {
        let text = self.text();
        let name = text.strip_prefix("stream ").expect("it is open");
        name.split(' ').next().expect("a name").to_owned()
    }

    fn receive(&self) {
        self.line.borrow_mut().receive();
    }
}

impl Line {
    fn receive(&mut self) {
        self.ops.push_back(Op::Receive {
            conn: CONN,
            buffer: Buffer::new(RECEIVE_BYTES),
            range: 0..RECEIVE_BYTES,
            whole: false,
        });
    }
}

impl Machine for Phone {
    fn handle(&mut self, _: Time, completion: Completion) {
        let line = &mut *self.0.borrow_mut();
        match completion {
            Completion::Received { buffer, result, .. } => match result {
                Ok(received) => {
                    line.heard.extend_from_slice(&buffer[..received.count]);
                    line.over |= received.end;
                    if !received.end {
                        line.receive();
                    }
                }
                Err(_) => (line.over, line.broken) = (true, true),
            },
            Completion::Connected { result, .. } => line.over |= result.is_err(),
            _ => {}
        }
    }

    fn on_time(&mut self, _: Time) {}

    fn poll_op(&mut self) -> Option<Op> {
        self.0.borrow_mut().ops.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn is_finished(&self) -> bool {
        false
    }
}
