//! The kernel boundary: the node's operations, and their completions.
//!
//! The node never makes a system call. It hands out [`Op`]s and is handed [`Completion`]s; a
//! kernel (the real one in `linux`, the simulated one in `sim`) performs them. Every op but
//! [`Op::Close`], [`Op::Reset`], [`Op::Listen`] and [`Op::Post`] completes exactly once, also when its connection is closed first.
//!
//! Ops on one connection and direction complete in order; so do writes to one file. Nothing else is
//! ordered: a read given before a write is done sees any of its blocks. Ops on what was closed, or
//! never was open, are answered with an error at once. Buffers move into an op and come back with
//! its completion; [`Op::ReceiveWhenThere`] brings none, and its completion has one that the kernel lends.
//!
//! Scripts of ops and of what must come of them stand in `linux/testdata/contract`; both kernels are
//! held to them.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::{Buffer, Landing, Lane, Letter, MachineId, Slice, Time, Work};

/// A connection's number: chosen by the node for those it opens (even) and by the kernel for those it accepts
/// (odd).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// A file's number: chosen by the node, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

/// The node's own mark on a disk op, returned with its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

#[derive(Debug)]
pub enum Op {
    /// Accept connections at this address; each arrives as `Completion::Accepted`. The same address
    /// again changes nothing.
    Listen { address: String },
    /// Completes with `Connected`.
    Connect { conn: ConnId, address: String },
    /// Receive into `buffer[range]`.
    ///
    /// Shape:  socket -> buffer.
    /// Units:  bytes; completes when at least 1 arrived, or all of `range` when `whole`.
    /// Errors: end of stream completes with fewer bytes than asked and `end: true`, with the last
    ///         bytes or behind them. A reset may lose bytes that had arrived.
    Receive {
        conn: ConnId,
        buffer: Buffer,
        range: Range<usize>,
        whole: bool,
    },
    /// Receive once something is there, into a buffer that the kernel lends then: until then none is held for the
    /// connection. Completes with `Received` in its order among the connection's receives. The buffer is the
    /// machine's; dropped, it goes back to the kernel.
    ///
    /// Shape:  socket -> lent buffer; the completion's `range` is what came, and behind it stands anything.
    /// Units:  bytes, `bytes_max` and `LENT_BYTES_MAX` at most; completes when at least 1 arrived.
    /// Errors: an end of stream comes with the last bytes, if those are fewer than could have come, or
    ///         behind them; the range is empty then, as with an error. A reset may lose bytes that had arrived.
    ReceiveWhenThere { conn: ConnId, bytes_max: usize },
    /// Completes with `Sent` when all bytes are with the kernel. Sends on one connection are queued.
    Send { conn: ConnId, slices: Vec<Slice> },
    /// Tell the other side that no more bytes come (after all sends given so far).
    ShutdownWrite { conn: ConnId },
    /// Close after the sends given so far are with the kernel (`flush`), or at once: then unread
    /// bytes reset the connection, as TCP has it. Outstanding ops complete with an error. No
    /// completion of its own.
    Close { conn: ConnId, flush: bool },
    /// As `Close` at once; and a reset tells the other side that this is not the end of what it was sent. It
    /// may lose a part of that. No completion of its own.
    Reset { conn: ConnId },

    /// Open a file for the ops below. Completes with `Done`.
    Open {
        token: Token,
        file: FileId,
        path: PathBuf,
        mode: OpenMode,
    },
    /// Forget the file; outstanding ops on it complete first. Completes with `Done`.
    CloseFile { token: Token, file: FileId },
    /// Write `slices` one after the other at `offset`. Completes with `Done` when durable.
    ///
    /// Units:  bytes; offset and total length are multiples of the block (`BLOCK`), and every slice
    ///         but the last is; each slice starts at a block of its buffer.
    /// Errors: never retried. After one the file's later writes fail too. A kernel may keep a write for which a disk has no room until
    ///         there is some, where nothing of it was taken and nothing is lost by that: it takes long then, as on a disk that hangs.
    Write {
        token: Token,
        file: FileId,
        offset: u64,
        slices: Vec<Slice>,
    },
    /// Read into `buffer[range]`. Completes with `Read`; fewer bytes mean end of file.
    /// Units: `offset`, `range.start` and the range's length are multiples of the block.
    Read {
        token: Token,
        file: FileId,
        offset: u64,
        buffer: Buffer,
        range: Range<usize>,
    },
    /// Make a directory (and its entry in its parent) durable. Completes with `Done`.
    CreateDirectory { token: Token, path: PathBuf },
    /// Replace a small file atomically and durably (write aside, to `.NAME.new`, sync, rename, sync
    /// the directory).
    WriteFile {
        token: Token,
        path: PathBuf,
        contents: Vec<u8>,
    },
    /// Durable rename, also used to quarantine. Completes with `Done`.
    Rename {
        token: Token,
        from: PathBuf,
        to: PathBuf,
    },
    /// Remove a file. Completes with `Done`. Its blocks may be let go bit by bit, so that others get to the
    /// disk meanwhile; `urgent`: many wait behind it, and space is needed.
    Remove {
        token: Token,
        path: PathBuf,
        urgent: bool,
    },
    /// Remove a directory and all that is in it, durably. One that is not there counts as removed.
    RemoveDirectory { token: Token, path: PathBuf },
    /// Bytes free to us in the file system of `path`. Completes with `Space`.
    FreeSpace { token: Token, path: PathBuf },

    /// Deliver a letter to another machine of this process. Letters from one machine to another arrive in order; to a machine
    /// that is not there they are lost. No completion of its own.
    Post { to: MachineId, letter: Letter },
    /// Do this on another thread, after all that was given to this lane before. Completes with `Ran`.
    Run {
        token: Token,
        lane: Lane,
        work: Work,
    },
    /// Ask what time it is for people. Completes with `WallClock`.
    WallClock { token: Token },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// A new file for durable writes: must not exist. Its directory entry is durable when done.
    /// `size_hint` is where it will probably end. Zeros may follow what was written, so that a file
    /// grows once for many writes: a reader tells what was written by what it is, and not by the end of the file.
    Create { size_hint: u64 },
    /// An existing file, for reads and durable writes.
    ReadWrite,
    /// An existing file, for reads.
    Read,
}

/// The words of a client's certificate: whoever shook hands has proved that the other side has its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The name in it.
    pub name: String,
    /// It holds until then, in milliseconds since the beginning of 1970.
    pub until_ms: u64,
}

#[derive(Debug)]
pub enum Completion {
    /// `peer` is the other side's address, for people; `listener` the address that `Op::Listen` named. `is_own`: the
    /// system says that the other side is root or this process' own user, and it came by the socket for those alone.
    /// `node`: the other side proved by a certificate that it is a node, and this is the name in it. `client`: it proved so that it
    /// is a client.
    Accepted {
        conn: ConnId,
        peer: String,
        listener: String,
        is_own: bool,
        node: Option<String>,
        client: Option<ClientCertificate>,
    },
    ListenFailed {
        address: String,
        error: io::Error,
    },
    /// `node`: the other side proved by a certificate that it is a node, and this is the name in it.
    Connected {
        conn: ConnId,
        result: io::Result<()>,
        node: Option<String>,
    },
    Received {
        conn: ConnId,
        buffer: Buffer,
        range: Range<usize>,
        result: io::Result<Received>,
    },
    Sent {
        conn: ConnId,
        result: io::Result<()>,
    },
    Read {
        token: Token,
        buffer: Buffer,
        range: Range<usize>,
        result: io::Result<usize>,
    },
    Done {
        token: Token,
        result: io::Result<()>,
    },
    Space {
        token: Token,
        result: io::Result<u64>,
    },
    /// A letter from another machine of this process, or from a thread of it.
    Delivered {
        from: MachineId,
        letter: Letter,
    },
    /// The work's result; or that it panicked, and what it said.
    Ran {
        token: Token,
        result: Result<Letter, String>,
    },
    /// `None` if nobody knows. It may jump, back too.
    WallClock {
        token: Token,
        since_1970: Option<Duration>,
    },
    /// Somebody asked the process to stop (SIGTERM, SIGINT).
    StopRequested,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes now in the buffer from the start of the range.
    pub count: usize,
    /// No more will come.
    pub end: bool,
}

/// Records are padded to this: at least the larger of logical and physical block of the devices we
/// know, and the page.
pub const BLOCK: usize = 4096;

/// The most that a kernel lends memory for at once (`Op::ReceiveWhenThere`).
pub const LENT_BYTES_MAX: usize = 64 << 10;

/// The bytes of a copied file that are in memory at once on a real disk.
pub const COPY_BYTES: usize = 1 << 20;

/// Synchronous access to the disk, for start-up and offline checks only.
pub trait Disk {
    /// Names (not paths) of a directory's entries, sorted; `NotFound` if it does not exist.
    fn list(&mut self, directory: &Path) -> io::Result<Vec<DirectoryEntry>>;
    /// Reads up to `into.len()` bytes; fewer mean end of file.
    fn read_at(&mut self, path: &Path, offset: u64, into: &mut [u8]) -> io::Result<usize>;
    /// Makes this file's bytes, or this directory's names, durable as they can be read now. A process that
    /// was killed in a write leaves bytes that only the page cache may hold.
    fn settle(&mut self, path: &Path) -> io::Result<()>;
    /// Whether no write to this file can still come: nobody has it open to write, and the kernel has no write
    /// under way of a process that has ended. Bytes read afterwards stay as they are. False where nobody can
    /// tell.
    fn is_still(&mut self, path: &Path) -> bool;
    /// As `Op::WriteFile`.
    fn write_file(&mut self, path: &Path, contents: &[u8]) -> io::Result<()>;
    /// Makes a file with the contents of another, as durable as by `write_file`. `change` sees it from its
    /// beginning to its end, in pieces of at least a block where there are so many bytes.
    fn copy_file(
        &mut self,
        from: &Path,
        to: &Path,
        change: &mut dyn FnMut(u64, &mut [u8]),
    ) -> io::Result<()> {
        let mut contents = Vec::new();
        loop {
            let start = contents.len();
            contents.resize(start + COPY_BYTES, 0);
            let count = self.read_at(from, start as u64, &mut contents[start..])?;
            contents.truncate(start + count);
            if count < COPY_BYTES {
                break;
            }
        }
        change(0, &mut contents);
        self.write_file(to, &contents)
    }
    /// Makes a directory with mode 0700, and its parents; durable.
    fn create_directory(&mut self, path: &Path) -> io::Result<()>;
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Takes an exclusive lock for as long as the process (or simulated node) lives; `WouldBlock` if it is taken.
    fn lock(&mut self, path: &Path) -> io::Result<()>;
    fn free_space(&mut self, path: &Path) -> io::Result<u64>;
    /// Seconds since the beginning of 1970; `None` if nobody knows. Only ages are reckoned by it, and
    /// nothing that must be right.
    fn wall_clock(&mut self) -> Option<u64> {
        None
    }
    /// 16 bytes that nobody can predict.
    fn random(&mut self) -> io::Result<[u8; 16]>;
    /// Does those of `count` pieces of work that are done sooner at the same time as others, each with a disk. What it
    /// leaves, which is all where nothing is gained, is the caller's to do. No two pieces touch the same file, and
    /// none takes a lock.
    fn at_once(&mut self, count: usize, work: &(dyn Fn(usize, &mut dyn Disk) + Sync)) {
        let _ = (count, work);
    }
    /// The way of writes to the disk ("O_DIRECT", "buffered: <why>", ...), or the mover or ink; for status.
    fn write_path(&mut self, directory: &Path) -> String;
    /// The landing of the kernel that will run the node, if bytes may be received into files.
    fn landing(&self) -> Option<Arc<dyn Landing>> {
        None
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    pub name: String,
    pub is_directory: bool,
    pub length: u64,
}

/// A machine that a kernel drives: a node, or anything else that speaks ops.
///
/// The loop, for every kernel:
///
/// ```text
/// loop {
///     while let Some(op) = machine.poll_op() { perform it }
///     if machine.is_finished() { break }
///     wait for a completion, at most until machine.deadline()
///     machine.handle(now, completion) for each; then machine.on_time(now)
/// }
/// ```
pub trait Machine {
    fn handle(&mut self, now: Time, completion: Completion);
    /// Called after every round of completions, and when the deadline has passed.
    fn on_time(&mut self, now: Time);
    fn poll_op(&mut self) -> Option<Op>;
    fn deadline(&self) -> Option<Time>;
    fn is_finished(&self) -> bool;
}

impl<M: Machine + ?Sized> Machine for &mut M {
    fn handle(&mut self, now: Time, completion: Completion) {
        (**self).handle(now, completion);
    }

    fn on_time(&mut self, now: Time) {
        (**self).on_time(now);
    }

    fn poll_op(&mut self) -> Option<Op> {
        (**self).poll_op()
    }

    fn deadline(&self) -> Option<Time> {
        (**self).deadline()
    }

    fn is_finished(&self) -> bool {
        (**self).is_finished()
    }
}
