//! A kernel, and the completions it has handed out and nobody has asked for.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use linux::{Kernel, KernelConfig, Mover};
use ops::{Buffer, Completion, ConnId, FileId, Op, OpenMode, Received, Slice, Token};

pub struct Harness {
    pub kernel: Kernel,
    completions: Vec<Completion>,
    next_conn: u64,
    next_token: u64,
}

/// The tests of `on_uring` and `on_splice` are the others' own, by another mover.
fn mover() -> Mover {
    match module_path!().split("::").next() {
        Some("on_uring") => Mover::Auto,
        Some("on_splice") => Mover::Splice,
        _ => Mover::Direct,
    }
}

pub fn quiet() -> KernelConfig {
    KernelConfig {
        mover: mover(),
        signals: false,
        // The contract is that of a write which fails.
        room_again_after: None,
        ..KernelConfig::default()
    }
}

/// Bytes that tell where they belong.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|at| {
            let mixed = (at + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (mixed >> 32) as u8
        })
        .collect()
}

impl Harness {
    pub fn new() -> Harness {
        Harness::with(quiet())
    }

    pub fn with(config: KernelConfig) -> Harness {
        Harness {
            kernel: Kernel::new(config).unwrap(),
            completions: Vec::new(),
            next_conn: 0,
            next_token: 0,
        }
    }

    /// The first completion that `pick` takes, now or within a minute: to learn that a name has no
    /// address may take long.
    pub fn wait_for<R>(
        &mut self,
        mut pick: impl FnMut(&Completion) -> bool,
        take: impl Fn(Completion) -> R,
    ) -> R {
        let give_up = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(at) = self.completions.iter().position(&mut pick) {
                return take(self.completions.remove(at));
            }
            assert!(
                Instant::now() < give_up,
                "nothing came; there is {:?}",
                self.completions
            );
            self.round(200);
        }
    }

    /// One round of at most so many milliseconds.
    pub fn round(&mut self, millis: u64) {
        let deadline = linux::now() + Duration::from_millis(millis);
        self.kernel
            .wait(Some(deadline), &mut self.completions)
            .unwrap();
    }

    pub fn idle(&mut self, millis: u64) {
        let until = Instant::now() + Duration::from_millis(millis);
        while Instant::now() < until {
            self.round(5);
        }
    }

    /// What was handed out and not asked for.
    pub fn rest(&mut self) -> Vec<Completion> {
        std::mem::take(&mut self.completions)
    }

    pub fn listen(&mut self) -> SocketAddr {
        let address = self.kernel.bind("127.0.0.1:0").unwrap();
        self.kernel.submit(Op::Listen {
            address: address.to_string(),
        });
        address
    }

    pub fn accepted(&mut self) -> ConnId {
        self.wait_for(
            |c| matches!(c, Completion::Accepted { .. }),
            |c| match c {
                Completion::Accepted { conn, .. } => conn,
                other => panic!("{other:?}"),
            },
        )
    }

    pub fn start_connect(&mut self, address: &str) -> ConnId {
        let conn = ConnId(self.next_conn);
        self.next_conn += 2;
        self.kernel.submit(Op::Connect {
            conn,
            address: address.to_string(),
        });
        conn
    }

    pub fn connected(&mut self, of: ConnId) -> io::Result<()> {
        self.wait_for(
            |c| matches!(c, Completion::Connected { conn, .. } if *conn == of),
            |c| match c {
                Completion::Connected { result, .. } => result,
                other => panic!("{other:?}"),
            },
        )
    }

    /// Both ends of one connection through this kernel.
    pub fn pair(&mut self) -> (ConnId, ConnId) {
        let address = self.kernel.local_addr().unwrap_or_else(|| self.listen());
        let near = self.start_connect(&address.to_string());
        self.connected(near).unwrap();
        (near, self.accepted())
    }

    pub fn start_receive(&mut self, conn: ConnId, length: usize, whole: bool) {
        self.kernel.submit(Op::Receive {
            conn,
            buffer: Buffer::new(length),
            range: 0..length,
            whole,
        });
    }

    pub fn start_receive_when_there(&mut self, conn: ConnId, bytes_max: usize) {
        self.kernel.submit(Op::ReceiveWhenThere { conn, bytes_max });
    }

    pub fn received(&mut self, of: ConnId) -> (Vec<u8>, io::Result<Received>) {
        self.wait_for(
            |c| matches!(c, Completion::Received { conn, .. } if *conn == of),
            |c| match c {
                Completion::Received {
                    buffer,
                    range,
                    result,
                    ..
                } => {
                    let count = result.as_ref().map_or(0, |received| received.count);
                    (buffer[range.start..range.start + count].to_vec(), result)
                }
                other => panic!("{other:?}"),
            },
        )
    }

    pub fn receive(
        &mut self,
        conn: ConnId,
        length: usize,
        whole: bool,
    ) -> (Vec<u8>, io::Result<Received>) {
        self.start_receive(conn, length, whole);
        self.received(conn)
    }

    pub fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        self.kernel.submit(Op::Send {
            conn,
            slices: vec![Slice::copied_from(bytes)],
        });
    }

    pub fn sent(&mut self, of: ConnId) -> io::Result<()> {
        self.wait_for(
            |c| matches!(c, Completion::Sent { conn, .. } if *conn == of),
            |c| match c {
                Completion::Sent { result, .. } => result,
                other => panic!("{other:?}"),
            },
        )
    }

    pub fn token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token)
    }

    pub fn done(&mut self, of: Token) -> io::Result<()> {
        self.wait_for(
            |c| matches!(c, Completion::Done { token, .. } if *token == of),
            |c| match c {
                Completion::Done { result, .. } => result,
                other => panic!("{other:?}"),
            },
        )
    }

    pub fn open(&mut self, id: u64, path: &std::path::Path, mode: OpenMode) -> io::Result<()> {
        let token = self.token();
        self.kernel.submit(Op::Open {
            token,
            file: FileId(id),
            path: path.to_path_buf(),
            mode,
        });
        self.done(token)
    }

    pub fn start_write(&mut self, id: u64, offset: u64, bytes: &[u8]) -> Token {
        let token = self.token();
        let shared = Buffer::holding(bytes).freeze();
        let length = shared.len();
        self.kernel.submit(Op::Write {
            token,
            file: FileId(id),
            offset,
            slices: vec![shared.slice(0..length)],
        });
        token
    }

    pub fn write(&mut self, id: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let token = self.start_write(id, offset, bytes);
        self.done(token)
    }

    pub fn start_read(&mut self, id: u64, offset: u64, length: usize) -> Token {
        let token = self.token();
        self.kernel.submit(Op::Read {
            token,
            file: FileId(id),
            offset,
            buffer: Buffer::new(length),
            range: 0..length,
        });
        token
    }

    pub fn read_done(&mut self, of: Token) -> io::Result<Vec<u8>> {
        self.wait_for(
            |c| matches!(c, Completion::Read { token, .. } if *token == of),
            |c| match c {
                Completion::Read {
                    buffer,
                    range,
                    result,
                    ..
                } => result.map(|count| buffer[range.start..range.start + count].to_vec()),
                other => panic!("{other:?}"),
            },
        )
    }

    pub fn read(&mut self, id: u64, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let token = self.start_read(id, offset, length);
        self.read_done(token)
    }

    pub fn close_file(&mut self, id: u64) -> io::Result<()> {
        let token = self.token();
        self.kernel.submit(Op::CloseFile {
            token,
            file: FileId(id),
        });
        self.done(token)
    }
}
