//! A server that sends back what it hears, and a client that checks it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ops::{Buffer, Completion, ConnId, Machine, Op, Slice, Time};

#[derive(Default)]
pub struct Echo {
    ops: VecDeque<Op>,
    /// Sends that are not with the kernel yet, and whether the end was seen.
    conns: BTreeMap<ConnId, (usize, bool)>,
    stopping: bool,
}

impl Echo {
    pub fn new() -> Echo {
        let mut echo = Echo::default();
        let address = "0.0.0.0:7".to_owned();
        echo.ops.push_back(Op::Listen { address });
        echo
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

    fn close(&mut self, conn: ConnId, flush: bool) {
        self.ops.push_back(Op::Close { conn, flush });
    }
}

impl Machine for Echo {
    fn handle(&mut self, _now: Time, completion: Completion) {
        match completion {
            Completion::Accepted { conn, .. } => {
                self.conns.insert(conn, (0, false));
                self.receive(conn, Buffer::new(3000));
            }
            Completion::Received {
                conn,
                buffer,
                result,
                ..
            } => match result {
                Ok(received) => {
                    let Some((sends, _)) = self.conns.get_mut(&conn) else {
                        return;
                    };
                    if received.count > 0 {
                        *sends += 1;
                        let slices = vec![Slice::copied_from(&buffer[..received.count])];
                        self.ops.push_back(Op::Send { conn, slices });
                    }
                    if received.end {
                        self.conns.remove(&conn);
                        self.close(conn, true);
                    } else {
                        self.receive(conn, buffer);
                    }
                }
                Err(_) => {
                    if self.conns.remove(&conn).is_some() {
                        self.close(conn, false);
                    }
                }
            },
            Completion::StopRequested => self.stopping = true,
            _ => {}
        }
    }
    fn on_time(&mut self, _now: Time) {}
    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }
    fn deadline(&self) -> Option<Time> {
        None
    }
    fn is_finished(&self) -> bool {
        self.stopping
    }
}

/// Sends `length` bytes, connecting again from the beginning whenever something breaks, until it
/// has heard all of them back.
pub struct Shouter {
    ops: VecDeque<Op>,
    seed: u64,
    length: u64,
    conn: ConnId,
    sent: u64,
    pub heard: u64,
    pub attempts: u64,
    retry_at: Option<Time>,
    /// A server that vanished says nothing: give up on it then.
    patient_until: Time,
    pub finished: bool,
}

pub fn byte(seed: u64, position: u64) -> u8 {
    let word = (position / 8)
        .wrapping_add(seed)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> (position % 8 * 8)) as u8
}

impl Shouter {
    pub fn new(seed: u64, length: u64) -> Shouter {
        Shouter {
            ops: VecDeque::new(),
            seed,
            length,
            conn: ConnId(0),
            sent: 0,
            heard: 0,
            attempts: 0,
            retry_at: Some(Time::ZERO),
            patient_until: Time::ZERO,
            finished: false,
        }
    }

    fn send(&mut self) {
        let end = self.length.min(self.sent + 5000);
        let bytes: Vec<u8> = (self.sent..end).map(|p| byte(self.seed, p)).collect();
        let conn = self.conn;
        if bytes.is_empty() {
            return self.ops.push_back(Op::ShutdownWrite { conn });
        }
        self.sent = end;
        let (first, second) = bytes.split_at(bytes.len() / 3);
        let slices = vec![Slice::copied_from(first), Slice::copied_from(second)];
        self.ops.push_back(Op::Send { conn, slices });
    }

    fn fail(&mut self, now: Time) {
        if self.retry_at.is_none() {
            let conn = self.conn;
            self.ops.push_back(Op::Close { conn, flush: false });
            self.retry_at = Some(now + Duration::from_millis(10));
        }
    }
}

impl Machine for Shouter {
    fn handle(&mut self, now: Time, completion: Completion) {
        self.patient_until = now + Duration::from_secs(30);
        match completion {
            Completion::Connected { conn, result, .. } if conn == self.conn => match result {
                Ok(()) => {
                    self.send();
                    let buffer = Buffer::new(2000);
                    let range = 7..1999;
                    self.ops.push_back(Op::Receive {
                        conn,
                        buffer,
                        range,
                        whole: self.attempts.is_multiple_of(2),
                    });
                }
                Err(_) => self.fail(now),
            },
            Completion::Sent { conn, result } if conn == self.conn => match result {
                Ok(()) if self.retry_at.is_none() => self.send(),
                _ => self.fail(now),
            },
            Completion::Received {
                conn,
                buffer,
                range,
                result,
            } if conn == self.conn => {
                let Ok(received) = result else {
                    return self.fail(now);
                };
                for &heard in &buffer[range.start..range.start + received.count] {
                    assert_eq!(heard, byte(self.seed, self.heard), "at {}", self.heard);
                    self.heard += 1;
                }
                if received.end {
                    // A server that was killed ends too early.
                    if self.heard == self.length {
                        self.ops.push_back(Op::Close { conn, flush: true });
                        self.finished = true;
                    } else {
                        self.fail(now);
                    }
                } else if self.retry_at.is_none() {
                    let whole = self.attempts.is_multiple_of(2);
                    self.ops.push_back(Op::Receive {
                        conn,
                        buffer,
                        range,
                        whole,
                    });
                }
            }
            _ => {}
        }
    }
    fn on_time(&mut self, now: Time) {
        if self.retry_at.is_none() && self.patient_until <= now {
            self.fail(now);
        }
        if self.retry_at.is_some_and(|at| at <= now) && !self.finished {
            self.retry_at = None;
            self.patient_until = now + Duration::from_secs(30);
            self.attempts += 1;
            self.conn = ConnId(self.attempts * 2);
            self.sent = 0;
            self.heard = 0;
            self.ops.push_back(Op::Connect {
                conn: self.conn,
                address: "server:7".to_owned(),
            });
        }
    }
    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }
    fn deadline(&self) -> Option<Time> {
        Some(self.retry_at.unwrap_or(self.patient_until))
    }
    fn is_finished(&self) -> bool {
        self.finished && self.ops.is_empty()
    }
}
