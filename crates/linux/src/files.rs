//! What is open, and which thread does what to it. Runs on the loop; knows how many ops each file
//! still has outstanding.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ops::{BLOCK, Buffer, Completion, Disk, FileId, OpenMode, Slice, Token};
use uring::{Finished, Ring};

use crate::config::KernelConfig;
use crate::disk_ring::RingWriter;
use crate::disk_thread::{Worker, WriteTask, Writer};
use crate::errors::copy_of;
use crate::fault_file::Injected;
use crate::inbox::{Inbox, Reply};
use crate::ink::Ink;
use crate::landing::{self, Landings, Paged};
use crate::medium::{Medium, Opened};
use crate::mover::Mover;
use crate::removal::Remover;
use crate::tag::Tag;

pub(crate) struct Files {
    open: HashMap<FileId, Entry>,
    /// How many files were given to a writer, to take turns.
    assigned: usize,
    /// None if there is no ring, or files are no descriptors.
    ring: Option<RingWriter>,
    /// None if the ring does all.
    threads: Vec<Writer>,
    medium: Arc<dyn Medium>,
    /// Those that sockets can fill.
    landings: Option<Arc<Landings>>,
    reader: Worker,
    chores: Worker,
    /// Freeing the blocks of large files takes long, and nothing may wait for it: of one file, and of
    /// a directory.
    removals: Arc<Remover>,
    directory_removals: Remover,
    faults: Option<PathBuf>,
}

struct Entry {
    state: State,
    writer: usize,
    /// Given to a thread and not answered.
    outstanding: usize,
    closing: Option<Token>,
}

enum State {
    /// With what was asked of it meanwhile.
    Opening(Vec<Parked>),
    Open(Opened),
}

enum Parked {
    Write(Token, u64, Vec<Slice>),
    Read(Token, u64, Buffer, Range<usize>),
}

impl Files {
    pub fn new(config: &KernelConfig, inbox: Arc<Inbox>, on_ring: bool) -> io::Result<Files> {
        let ring = (on_ring && config.ink == Ink::Disk).then(|| {
            RingWriter::new(
                config.faults.clone(),
                config.merged_bytes_max,
                config.room_again_after,
            )
        });
        let threads = match &ring {
            Some(_) => Vec::new(),
            None => start_writers(config, &inbox)?,
        };
        let (medium, landings) = match config.mover {
            Mover::Splice => {
                let paged = Paged::new()?;
                let landings = paged.landings();
                (Arc::new(paged) as Arc<dyn Medium>, Some(landings))
            }
            _ => (config.ink.medium(config.faults.emulate_pmem), None),
        };
        Ok(Files {
            open: HashMap::new(),
            assigned: 0,
            ring,
            threads,
            medium,
            landings,
            reader: Worker::start("disk-read".to_string(), inbox.clone())?,
            chores: Worker::start("disk-names".to_string(), inbox.clone())?,
            removals: Arc::new(Remover::start("disk-remove".to_string(), inbox.clone())?),
            directory_removals: Remover::start("disk-remove-dir".to_string(), inbox)?,
            faults: config.faults.file.clone(),
        })
    }

    pub fn open(
        &mut self,
        token: Token,
        file: FileId,
        path: PathBuf,
        mode: OpenMode,
        completions: &mut Vec<Completion>,
    ) {
        if self.open.contains_key(&file) {
            let error = io::Error::new(io::ErrorKind::AlreadyExists, "the file id is in use");
            completions.push(done(token, Err(error)));
            return;
        }
        self.assigned += 1;
        let entry = Entry {
            state: State::Opening(Vec::new()),
            writer: self.assigned,
            outstanding: 0,
            closing: None,
        };
        self.open.insert(file, entry);
        let medium = self.medium.clone();
        self.chores.put(move || {
            Some(Reply::Opened {
                token,
                file,
                result: medium.open(&path, mode),
            })
        });
    }

    pub fn on_opened(
        &mut self,
        token: Token,
        file: FileId,
        result: io::Result<Opened>,
        completions: &mut Vec<Completion>,
    ) {
        let Some(entry) = self.open.get_mut(&file) else {
            completions.push(done(token, result.map(drop)));
            return;
        };
        match result {
            Ok(opened) => {
                if let (Opened::Paged(paged), Some(landings)) = (&opened, &self.landings) {
                    landings.add(file, paged.clone());
                }
                completions.push(done(token, Ok(())));
                let before = std::mem::replace(&mut entry.state, State::Open(opened));
                if let State::Opening(parked) = before {
                    for op in parked {
                        self.perform(file, op);
                    }
                }
                self.close_if_idle(file);
            }
            Err(error) => {
                let closing = entry.closing;
                let entry = self.open.remove(&file);
                completions.push(done(token, Err(copy_of(&error))));
                if let Some(State::Opening(parked)) = entry.map(|entry| entry.state) {
                    completions.extend(parked.into_iter().map(|op| op.fail(copy_of(&error))));
                }
                completions.extend(closing.map(|token| done(token, Ok(()))));
            }
        }
    }

    pub fn write(
        &mut self,
        token: Token,
        file: FileId,
        offset: u64,
        slices: Vec<Slice>,
        completions: &mut Vec<Completion>,
    ) {
        match check_write(offset, &slices) {
            Ok(()) => self.submit(file, Parked::Write(token, offset, slices), completions),
            Err(error) => completions.push(done(token, Err(error))),
        }
    }

    pub fn read(
        &mut self,
        token: Token,
        file: FileId,
        offset: u64,
        buffer: Buffer,
        range: Range<usize>,
        completions: &mut Vec<Completion>,
    ) {
        let checked = check_read(offset, &buffer, &range);
        let op = Parked::Read(token, offset, buffer, range);
        match checked {
            Ok(()) => self.submit(file, op, completions),
            Err(error) => completions.push(op.fail(error)),
        }
    }

    fn submit(&mut self, file: FileId, op: Parked, completions: &mut Vec<Completion>) {
        match self.open.get_mut(&file) {
            Some(entry) if entry.closing.is_none() => match &mut entry.state {
                State::Opening(parked) => parked.push(op),
                State::Open(_) => self.perform(file, op),
            },
            _ => completions.push(op.fail(not_open())),
        }
    }

    /// Hands an op to its thread; only for open files.
    fn perform(&mut self, id: FileId, op: Parked) {
        let Some(entry) = self.open.get_mut(&id) else {
            return;
        };
        let State::Open(file) = &entry.state else {
            return;
        };
        entry.outstanding += 1;
        match op {
            Parked::Write(token, offset, slices) => match (file, &mut self.ring) {
                (Opened::Disk(file), Some(ring)) => ring.put(WriteTask {
                    token,
                    id,
                    file: file.clone(),
                    paged: None,
                    offset,
                    slices,
                }),
                (opened, _) => self.threads[entry.writer % self.threads.len()].put(WriteTask {
                    token,
                    id,
                    file: opened.file(),
                    paged: opened.paged(),
                    offset,
                    slices,
                }),
            },
            Parked::Read(token, offset, mut buffer, range) => {
                let file = file.file();
                self.reader.put(move || {
                    let result = match landing::receiving_region(&mut buffer) {
                        Some(region) => region.load(range.clone()).map(|()| range.len()),
                        None => file.read(offset, &mut buffer[range.clone()]),
                    };
                    let completion = Completion::Read {
                        token,
                        buffer,
                        range,
                        result,
                    };
                    Some(Reply::FileOp(id, completion))
                });
            }
        }
    }

    /// Gives the ring the writes that wait for it.
    pub fn begin_writes(&mut self, ring: &mut Ring<Tag>, completions: &mut Vec<Completion>) {
        if let Some(writer) = &mut self.ring {
            let mut answers = Vec::new();
            writer.begin(ring, &mut answers);
            self.answer(answers, completions);
        }
    }

    /// The ring gives back what it had of a file.
    pub fn on_finished(
        &mut self,
        file: FileId,
        finished: Finished<Tag>,
        ring: &mut Ring<Tag>,
        completions: &mut Vec<Completion>,
    ) {
        if let Some(writer) = &mut self.ring {
            let mut answers = Vec::new();
            writer.on_finished(file, finished, ring, &mut answers);
            self.answer(answers, completions);
        }
    }

    fn answer(&mut self, answers: Vec<(FileId, Completion)>, completions: &mut Vec<Completion>) {
        for (file, completion) in answers {
            completions.push(completion);
            self.on_file_op(file);
        }
    }

    /// Nobody waits for room on the ring any more.
    pub fn end_waiting(&mut self) {
        if let Some(writer) = &mut self.ring {
            writer.end_waiting();
        }
    }

    /// Whether the ring still has, or is to get, something to write.
    pub fn is_writing_on_ring(&self) -> bool {
        self.ring.as_ref().is_some_and(|writer| !writer.is_idle())
    }

    /// A thread has answered an op of the file.
    pub fn on_file_op(&mut self, file: FileId) {
        if let Some(entry) = self.open.get_mut(&file) {
            entry.outstanding -= 1;
            self.close_if_idle(file);
        }
    }

    pub fn close(&mut self, token: Token, file: FileId, completions: &mut Vec<Completion>) {
        match self.open.get_mut(&file) {
            Some(entry) if entry.closing.is_none() => {
                entry.closing = Some(token);
                self.close_if_idle(file);
            }
            _ => completions.push(done(token, Err(not_open()))),
        }
    }

    fn close_if_idle(&mut self, file: FileId) {
        let Some(entry) = self.open.get(&file) else {
            return;
        };
        let (State::Open(_), Some(token), 0) = (&entry.state, entry.closing, entry.outstanding)
        else {
            return;
        };
        let entry = self.open.remove(&file);
        if let Some(landings) = &self.landings {
            landings.remove(file);
        }
        // Not here: closing the last descriptor of a removed file frees its blocks.
        self.chores.put(move || {
            let state = entry.as_ref().map(|entry| &entry.state);
            if let Some(State::Open(Opened::Paged(file))) = state
                // Memory that is mapped to what is cut off cannot be touched any more.
                && Arc::strong_count(file) == 1
            {
                file.finish();
            }
            drop(entry);
            Some(Reply::Completed(done(token, Ok(()))))
        });
    }

    pub fn create_directory(&mut self, token: Token, path: PathBuf) {
        self.chore(token, move |medium| medium.create_directory(&path));
    }

    pub fn write_file(&mut self, token: Token, path: PathBuf, contents: Vec<u8>) {
        self.chore(token, move |medium| medium.write_file(&path, &contents));
    }

    pub fn rename(&mut self, token: Token, from: PathBuf, to: PathBuf) {
        self.chore(token, move |medium| medium.rename(&from, &to));
    }

    pub fn remove(&mut self, token: Token, path: PathBuf, urgent: bool) {
        let (medium, removals) = (self.medium.clone(), self.removals.clone());
        self.chores.put(move || {
            let reply = move |result| Reply::Completed(done(token, result));
            match medium.remove(&path) {
                Ok(None) => Some(reply(Ok(()))),
                Ok(Some(leftover)) => {
                    removals.put(move |pace| {
                        leftover.let_go(pace, urgent);
                        reply(Ok(()))
                    });
                    None
                }
                Err(error) => Some(reply(Err(error))),
            }
        });
    }

    pub fn remove_directory(&mut self, token: Token, path: PathBuf) {
        let medium = self.medium.clone();
        self.directory_removals
            .put(move |pace| Reply::Completed(done(token, medium.remove_directory(&path, pace))));
    }

    pub fn free_space(&mut self, token: Token, path: PathBuf) {
        let (faults, medium) = (self.faults.clone(), self.medium.clone());
        self.chores.put(move || {
            let result = medium.free_space(&path).and_then(|free| match &faults {
                Some(file) => Ok(Injected::read(file)?.free_bytes.unwrap_or(free).min(free)),
                None => Ok(free),
            });
            Some(Reply::Completed(Completion::Space { token, result }))
        });
    }

    /// The files as a node that starts sees them.
    pub fn disk(&self, mover: &str) -> Box<dyn Disk> {
        self.medium.clone().disk(mover)
    }

    fn chore(
        &mut self,
        token: Token,
        chore: impl FnOnce(&dyn Medium) -> io::Result<()> + Send + 'static,
    ) {
        let medium = self.medium.clone();
        self.chores
            .put(move || Some(Reply::Completed(done(token, chore(&*medium)))));
    }
}

fn start_writers(config: &KernelConfig, inbox: &Arc<Inbox>) -> io::Result<Vec<Writer>> {
    let writes = Arc::new(AtomicU64::new(0));
    (0..config.write_threads.max(1))
        .map(|n| {
            let name = format!("disk-write-{n}");
            Writer::start(name, config, inbox.clone(), writes.clone())
        })
        .collect()
}

impl Parked {
    fn fail(self, error: io::Error) -> Completion {
        match self {
            Parked::Write(token, ..) => done(token, Err(error)),
            Parked::Read(token, _, buffer, range) => Completion::Read {
                token,
                buffer,
                range,
                result: Err(error),
            },
        }
    }
}

fn done(token: Token, result: io::Result<()>) -> Completion {
    Completion::Done { token, result }
}

fn not_open() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "no such file is open")
}

/// The rules of O_DIRECT hold for all files, so that a test in memory finds what a disk would.
fn check_write(offset: u64, slices: &[Slice]) -> io::Result<()> {
    let aligned = slices.iter().all(|slice| {
        slice.len().is_multiple_of(BLOCK)
            && (slice.is_empty() || slice.as_ptr().addr().is_multiple_of(BLOCK))
    });
    if !aligned || !offset.is_multiple_of(BLOCK as u64) {
        return Err(unaligned("write"));
    }
    Ok(())
}

fn check_read(offset: u64, buffer: &Buffer, range: &Range<usize>) -> io::Result<()> {
    if range.start > range.end || range.end > buffer.len() {
        let text = "the range is not within the buffer";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let aligned = offset.is_multiple_of(BLOCK as u64)
        && range.start.is_multiple_of(BLOCK)
        && range.len().is_multiple_of(BLOCK);
    match aligned {
        true => Ok(()),
        false => Err(unaligned("read")),
    }
}

fn unaligned(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("a {what} must begin and end at multiples of {BLOCK}, in memory and in the file"),
    )
}
