//! Drawn sends across each way: they come whole and in order, ends and resets included.

use std::collections::VecDeque;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use linux::{Kernel, KernelConfig, PostOffice};
use ops::{Buffer, Completion, ConnId, Machine, Op, Slice, Time};
use serve::{Carry, Seat};

use super::memory::{Hub, Memory};
use super::{Transport, grpc, unix};
use crate::study::Draw;

/// The side that ends the connection, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Both say all, and end.
    End,
    /// The one that dialled resets when all is sent.
    Reset,
    /// The one that was dialled closes at once, and the other goes on.
    Leave,
}

/// The outcome of one side.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    heard: Vec<u8>,
    ended: bool,
    broke: bool,
    send_failed: bool,
    refused: bool,
}

/// Says what it is to say, hears what there is, and ends.
struct Talker {
    dials: Option<String>,
    ending: Ending,
    draw: Draw,
    says: VecDeque<Vec<u8>>,
    under_way: usize,
    conn: Option<ConnId>,
    ops: VecDeque<Op>,
    found: Found,
    is_finished: bool,
}

const UNDER_WAY: usize = 3;
const BUFFER: usize = 96 << 10;

impl Talker {
    fn new(listens: &str, dials: Option<String>, ending: Ending, seed: u64) -> Talker {
        let listen = Op::Listen {
            address: listens.to_owned(),
        };
        let mut ops = VecDeque::from([listen]);
        if let Some(address) = &dials {
            let (conn, address) = (ConnId(2), address.clone());
            ops.push_back(Op::Connect { conn, address });
        }
        let draw = Draw::new(seed);
        Talker {
            says: said(seed).into(),
            dials,
            ending,
            draw,
            under_way: 0,
            conn: None,
            ops,
            found: Found::default(),
            is_finished: false,
        }
    }

    fn begin(&mut self, conn: ConnId) {
        self.conn = Some(conn);
        self.receive(conn);
        match (self.ending, &self.dials) {
            (Ending::Leave, None) => {}
            _ => self.say(conn),
        }
    }

    fn say(&mut self, conn: ConnId) {
        while self.under_way < UNDER_WAY
            && let Some(piece) = self.says.pop_front()
        {
            if self.ending == Ending::Leave {
                // Until nobody takes it.
                self.says.push_back(piece.clone());
            }
            let cut = self.draw.below(piece.len() as u64 + 1) as usize;
            let slices = [&piece[..cut], &piece[cut..]].map(Slice::copied_from);
            let slices = slices.to_vec();
            self.ops.push_back(Op::Send { conn, slices });
            self.under_way += 1;
        }
        if self.under_way == 0 && self.says.is_empty() {
            let op = match (self.ending, &self.dials) {
                (Ending::Reset, Some(_)) => {
                    self.is_finished = true;
                    Op::Reset { conn }
                }
                _ => Op::ShutdownWrite { conn },
            };
            self.ops.push_back(op);
            self.over(conn);
        }
    }

    fn receive(&mut self, conn: ConnId) {
        let most = 1 + self.draw.below(BUFFER as u64 - 1) as usize;
        let op = match self.draw.below(3) {
            0 => Op::ReceiveWhenThere {
                conn,
                bytes_max: most,
            },
            kind => Op::Receive {
                conn,
                buffer: Buffer::new(BUFFER),
                range: BUFFER - most..BUFFER,
                whole: kind == 1,
            },
        };
        self.ops.push_back(op);
    }

    /// Closes once both sides have ended.
    fn over(&mut self, conn: ConnId) {
        let has_said = self.says.is_empty() && self.under_way == 0;
        if self.found.ended && has_said && !self.is_finished {
            self.ops.push_back(Op::Close { conn, flush: true });
            self.is_finished = true;
        }
    }

    fn hear(&mut self, conn: ConnId, buffer: &Buffer, start: usize, received: ops::Received) {
        let bytes = &buffer[start..start + received.count];
        self.found.heard.extend_from_slice(bytes);
        if self.ending == Ending::Leave && self.dials.is_none() {
            self.ops.push_back(Op::Close { conn, flush: true });
            self.is_finished = true;
        } else if received.end {
            self.found.ended = true;
            self.over(conn);
        } else {
            self.receive(conn);
        }
    }
}

impl Machine for Talker {
    fn handle(&mut self, _: Time, completion: Completion) {
        match completion {
            Completion::Accepted { conn, .. } => self.begin(conn),
            Completion::Connected { conn, result, .. } => match result {
                Ok(()) => self.begin(conn),
                Err(_) => {
                    self.found.refused = true;
                    self.is_finished = true;
                }
            },
            Completion::Sent { conn, result } if Some(conn) == self.conn => {
                self.under_way -= 1;
                match result {
                    Ok(()) if !self.is_finished => self.say(conn),
                    Ok(()) => {}
                    Err(_) => {
                        self.found.send_failed = true;
                        self.says.clear();
                        self.is_finished |= self.ending == Ending::Leave;
                        self.over(conn);
                    }
                }
            }
            Completion::Received {
                conn,
                buffer,
                range,
                result,
            } if Some(conn) == self.conn && !self.is_finished => match result {
                Ok(received) => self.hear(conn, &buffer, range.start, received),
                Err(_) => {
                    self.found.broke = true;
                    self.is_finished = true;
                }
            },
            _ => {}
        }
    }

    fn on_time(&mut self, _: Time) {}

    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn is_finished(&self) -> bool {
        self.is_finished && self.ops.is_empty()
    }
}

/// The pieces that the side with this seed says.
fn said(seed: u64) -> Vec<Vec<u8>> {
    let mut draw = Draw::new(seed ^ 0xABCD);
    let pieces = 20 + draw.below(40);
    let piece = |draw: &mut Draw| {
        let most = [20, 3_000, 300_000][draw.below(3) as usize];
        let length = 1 + draw.below(most) as usize;
        (0..length).map(|_| draw.below(256) as u8).collect()
    };
    (0..pieces).map(|_| piece(&mut draw)).collect()
}

/// Runs a side until it is finished. Its address is told once it listens.
fn side(
    mut carry: Option<Box<dyn Carry>>,
    (dials, ending, seed): (Option<String>, Ending, u64),
    listens: Sender<String>,
) -> Found {
    let office = PostOffice::default();
    let config = KernelConfig {
        signals: false,
        office: office.clone(),
        ..KernelConfig::default()
    };
    let mut kernel = Kernel::new(config).expect("a kernel");
    let bound = kernel.bind("127.0.0.1:0").expect("a port");
    let listen = bound.to_string();
    if let Some(carry) = &mut carry {
        let seat = Seat {
            listen: listen.clone(),
            bound,
            office,
        };
        carry.set_up(&mut kernel, &seat).expect("set up");
    }
    listens.send(listen.clone()).expect("somebody waits");
    let mut talker = Talker::new(&listen, dials, ending, seed);
    match &mut carry {
        Some(carry) => {
            let mut machine = carry.around(&mut talker).expect("around");
            kernel.run(&mut *machine).expect("it runs");
        }
        None => kernel.run(&mut talker).expect("it runs"),
    }
    talker.found
}

/// The side that dialled, and the other one.
fn both(make: &dyn Fn() -> Option<Box<dyn Carry>>, ending: Ending, seed: u64) -> (Found, Found) {
    let (listens, heard) = channel();
    let (dialled, dials) = (make(), make());
    thread::scope(|scope| {
        let other = {
            let listens = listens.clone();
            scope.spawn(move || side(dialled, (None, ending, seed + 1), listens))
        };
        let address = heard.recv().expect("it listens");
        let one = scope.spawn(move || side(dials, (Some(address), ending, seed), listens));
        (
            one.join().expect("no panic"),
            other.join().expect("no panic"),
        )
    })
}

/// Everything that is known to hold of a socket holds of each way.
fn holds(make: &dyn Fn() -> Option<Box<dyn Carry>>) {
    holds_but_for_resets(make);
    let (_, other) = both(make, Ending::Reset, 40);
    assert!(other.broke && !other.ended, "a reset is no end");
}

/// A Unix socket has no reset: the other side may take it for an end. Frames say by themselves whether they are whole.
fn holds_but_for_resets(make: &dyn Fn() -> Option<Box<dyn Carry>>) {
    for seed in [10, 20, 30] {
        let (one, other) = both(make, Ending::End, seed);
        for (found, seed) in [(one, seed + 1), (other, seed)] {
            let all = said(seed).concat();
            assert!(found.heard == all, "{} of {}", found.heard.len(), all.len());
            assert!(found.ended && !found.broke && !found.send_failed, "{seed}");
        }
    }
    let (_, other) = both(make, Ending::Reset, 40);
    let all = said(40).concat();
    assert!(other.broke || other.ended);
    assert!(
        all.starts_with(&other.heard),
        "a reset takes from the end alone"
    );
    let (one, _) = both(make, Ending::Leave, 50);
    // Whichever of both is told first: what is sent is not taken, or what was to come is broken off.
    assert!(one.send_failed || one.broke, "nobody takes it any more");
    let (listens, _heard) = channel();
    let nobody = Some("127.0.0.1:9".to_owned());
    let found = side(make(), (nobody, Ending::End, 60), listens);
    assert!(found.refused, "nobody is there");
}

#[test]
fn the_kernels_own_connections_keep_to_it() {
    holds(&|| None);
}

#[test]
fn a_connection_that_is_counted_keeps_to_it() {
    holds(&|| Transport::Count.carry(None).expect("counts"));
}

#[test]
fn unix_sockets_keep_to_it() {
    let place = tempfile::tempdir().expect("a place");
    holds_but_for_resets(&|| Some(Box::new(unix::Unix::new(place.path().to_owned()))));
}

#[test]
fn queues_keep_to_it() {
    let hub = Hub::default();
    holds(&|| Some(Box::new(Memory::new(&hub))));
}

#[test]
fn calls_keep_to_it() {
    holds(&|| Some(Box::new(grpc::Grpc::new(grpc::Use::Unary))));
}

#[test]
fn streams_keep_to_it() {
    holds(&|| Some(Box::new(grpc::Grpc::new(grpc::Use::Stream))));
}
