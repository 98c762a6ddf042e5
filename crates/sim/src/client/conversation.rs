//! One connection at a time, with lines to take out of it.

use std::collections::VecDeque;

use ops::{Buffer, Completion, ConnId, Op, Slice};

const RECEIVE_BYTES: usize = 16 << 10;

/// Forgets a connection as soon as it is closed: what still completes for it is dropped.
#[derive(Default)]
pub(crate) struct Conversation {
    ops: VecDeque<Op>,
    conns: u64,
    conn: Option<ConnId>,
    heard: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Connected,
    /// More is with the kernel.
    Sent,
    /// There is more to take.
    Heard,
    /// The end of the stream, or an error. Lines that were heard before can still be taken.
    Over,
}

impl Conversation {
    /// The next one of somebody who forgot this one: none of its connections is taken for one of these.
    pub fn successor(&self) -> Conversation {
        Conversation {
            conns: self.conns,
            ..Conversation::default()
        }
    }

    pub fn connect(&mut self, address: &str) {
        self.close();
        self.conns += 1;
        let conn = ConnId(self.conns * 2);
        let address = address.to_owned();
        self.conn = Some(conn);
        self.ops.push_back(Op::Connect { conn, address });
    }

    pub fn is_open(&self) -> bool {
        self.conn.is_some()
    }

    pub fn close(&mut self) {
        if let Some(conn) = self.conn.take() {
            self.ops.push_back(Op::Close { conn, flush: false });
        }
        self.heard.clear();
    }

    /// Goes away without a word: for whom a clean end would say too much.
    pub fn abandon(&mut self) {
        self.conn = None;
        self.close();
    }

    pub fn send(&mut self, bytes: &[u8]) {
        let Some(conn) = self.conn else { return };
        let slices = vec![Slice::copied_from(bytes)];
        self.ops.push_back(Op::Send { conn, slices });
    }

    pub fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }

    pub fn handle(&mut self, completion: Completion) -> Option<News> {
        match completion {
            Completion::Connected { conn, result, .. } if self.conn == Some(conn) => match result {
                Ok(()) => {
                    self.receive(conn, Buffer::new(RECEIVE_BYTES));
                    Some(News::Connected)
                }
                Err(_) => Some(News::Over),
            },
            Completion::Sent { conn, result } if self.conn == Some(conn) => {
                // An error will be heard too, behind what the other side said before it.
                result.is_ok().then_some(News::Sent)
            }
            Completion::Received {
                conn,
                buffer,
                range,
                result,
            } if self.conn == Some(conn) => {
                let Ok(received) = result else {
                    return Some(News::Over);
                };
                let bytes = &buffer[range.start..range.start + received.count];
                self.heard.extend_from_slice(bytes);
                if received.end {
                    return Some(News::Over);
                }
                self.receive(conn, buffer);
                Some(News::Heard)
            }
            _ => None,
        }
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

    /// Without its LF.
    pub fn line(&mut self) -> Option<String> {
        let length = self.heard.iter().position(|byte| *byte == b'\n')?;
        let rest = self.heard.split_off(length + 1);
        let mut line = std::mem::replace(&mut self.heard, rest);
        line.pop();
        Some(String::from_utf8(line).expect("lines are UTF-8"))
    }

    /// Exactly so many bytes.
    pub fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        if self.heard.len() < count {
            return None;
        }
        let rest = self.heard.split_off(count);
        Some(std::mem::replace(&mut self.heard, rest))
    }
}
