//! A disk that takes its time, forgets what it was not done with, and can be told to fail.
//!
//! An op changes the media at the moment it completes. The fate of ops in flight when the process dies is
//! decided then: a name is there or not, a write is torn block by block.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ops::{BLOCK, Completion, FileId, Op, OpenMode, Place, Time};
use serde::{Deserialize, Serialize};

use crate::landing::SimLanding;
use crate::media::{self, Contents, Media, TornBlocks};
use crate::random::{PerMillion, Random};

mod contract;
mod queue;
mod unfinished;
mod writes;

use contract::{check_shape, refused, token_of};
use queue::Queue;
use writes::Writes;

/// The kind of a disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskModel {
    pub write_us: Range<u64>,
    pub read_us: Range<u64>,
    /// Creates, renames, removes.
    pub names_us: Range<u64>,
    pub bytes_per_us: u64,
    pub torn: TornBlocks,
    /// A new file has (a part of) its hinted length at once, in zeros, and grows by zeros beyond what is written.
    pub preallocates: bool,
}

/// The present faults of a disk.
#[derive(Clone, Debug)]
pub struct DiskFaults {
    /// Per op that changes something: it fails once.
    pub write_errors: PerMillion,
    pub read_errors: PerMillion,
    /// Blocks of files, by path and offset, that no running process can read.
    pub bad_blocks: BTreeSet<(PathBuf, u64)>,
    /// Per read of a process that starts: an error, or a bit flipped on its way. Over when it has
    /// started, or not.
    pub start_read_errors: PerMillion,
    pub start_flips: PerMillion,
    /// Every change fails, until this is taken back.
    pub broken: bool,
    pub slow_factor: u64,
    pub capacity_bytes: u64,
    /// Nothing completes (see `World::hang_disk`).
    pub(crate) hung: bool,
}

pub struct SimDisk {
    pub model: DiskModel,
    pub faults: DiskFaults,
    pub(crate) media: Media,
    pub(crate) locks: BTreeSet<PathBuf>,
    open: BTreeMap<FileId, OpenFile>,
    queue: Queue,
    /// Changes that failed since the process started.
    failed_changes: u64,
    pub(crate) counts: DiskCounts,
    /// Files and directories that were being changed when the process died: a machine that then loses
    /// its power may lose what can be read of them.
    pub(crate) unsettled: BTreeSet<PathBuf>,
    writes: Writes,
    /// Processes may receive into files.
    pub offers_landing: bool,
    pub(crate) landing: Option<Arc<SimLanding>>,
    /// The contents of blocks before bytes that are not durable yet were received into them.
    undurable: BTreeMap<(FileId, u64), Before>,
}

/// All files of a disk, as they stood there at some moment (`World::copy_disk`).
pub struct DiskCopy {
    media: Media,
    writes: Writes,
}

struct Before {
    path: PathBuf,
    contents: Contents,
    block: Vec<u8>,
}

/// The total counts of a disk's faults.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DiskCounts {
    pub failed_changes: u64,
    pub failed_reads: u64,
    pub refused_for_space: u64,
    pub torn_writes: u64,
    pub failed_start_reads: u64,
    pub flipped_start_reads: u64,
    pub received_into_files: u64,
}

struct OpenFile {
    path: PathBuf,
    /// `None` until the file was opened, and if that failed.
    contents: Option<Contents>,
    writable: bool,
    /// The open failed: what waited for it fails likewise, and what comes later finds no file.
    refused: Option<io::ErrorKind>,
    closing: bool,
    /// A write failed: later ones fail too.
    failed: bool,
    open_at: Time,
    /// When the open and the writes given so far will be over.
    writes_until: Time,
    all_until: Time,
}

pub(crate) const EIO: i32 = 5;
const EBADF: i32 = 9;
const ENOSPC: i32 = 28;
const PREALLOCATED_BYTES_MAX: u64 = 1 << 20;

impl Default for DiskModel {
    fn default() -> DiskModel {
        DiskModel {
            write_us: 50..1500,
            read_us: 20..300,
            names_us: 100..3000,
            bytes_per_us: 1000,
            torn: TornBlocks::LoseBlocks,
            preallocates: false,
        }
    }
}

impl Default for DiskFaults {
    fn default() -> DiskFaults {
        DiskFaults {
            write_errors: PerMillion(0),
            read_errors: PerMillion(0),
            bad_blocks: BTreeSet::new(),
            start_read_errors: PerMillion(0),
            start_flips: PerMillion(0),
            broken: false,
            slow_factor: 1,
            capacity_bytes: 1 << 40,
            hung: false,
        }
    }
}

impl SimDisk {
    pub(crate) fn new() -> SimDisk {
        SimDisk {
            model: DiskModel::default(),
            faults: DiskFaults::default(),
            media: Media::default(),
            locks: BTreeSet::new(),
            open: BTreeMap::new(),
            queue: Queue::default(),
            failed_changes: 0,
            counts: DiskCounts::default(),
            unsettled: BTreeSet::new(),
            writes: Writes::default(),
            offers_landing: false,
            landing: None,
            undurable: BTreeMap::new(),
        }
    }

    /// The durable contents at this path.
    pub fn contents(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let contents = self.media.file(path.as_ref()).ok()?;
        let bytes = contents.borrow().clone();
        Some(bytes)
    }

    /// Paths and lengths of all files.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let files = self.media.files();
        files
            .map(|(path, contents)| (path.to_owned(), contents.borrow().len() as u64))
            .collect()
    }

    pub fn used_bytes(&self) -> u64 {
        self.media.used_bytes()
    }

    pub fn free_bytes(&self) -> u64 {
        self.faults.capacity_bytes.saturating_sub(self.used_bytes())
    }

    /// Writes, creates and renames that were answered with an error since the process started.
    pub fn failed_changes(&self) -> u64 {
        self.failed_changes
    }

    pub fn ops_in_flight(&self) -> usize {
        self.queue.len()
    }

    /// Flips a bit at rest. False if there is no such byte.
    pub(crate) fn flip(&mut self, path: &Path, offset: u64, bit: u8) -> bool {
        let Ok(contents) = self.media.file(path) else {
            return false;
        };
        match contents.borrow_mut().get_mut(offset as usize) {
            Some(byte) => *byte ^= 1 << (bit % 8),
            None => return false,
        }
        true
    }

    /// Other bytes at rest. False if there are not so many.
    pub(crate) fn overwrite(&mut self, path: &Path, offset: u64, bytes: &[u8]) -> bool {
        let Ok(contents) = self.media.file(path) else {
            return false;
        };
        let mut contents = contents.borrow_mut();
        let place = contents.get_mut(offset as usize..offset as usize + bytes.len());
        place.map(|place| place.copy_from_slice(bytes)).is_some()
    }

    /// A new, empty disk in the same machine.
    pub(crate) fn lose_everything(&mut self) {
        self.writes.forget_places();
        self.unsettled.clear();
        self.media = Media::default();
    }

    pub(crate) fn copy(&self) -> DiskCopy {
        DiskCopy {
            media: self.media.copy(),
            writes: self.writes.copy(),
        }
    }

    pub(crate) fn put_back(&mut self, copy: &DiskCopy) {
        self.media = copy.media.copy();
        self.writes = copy.writes.copy();
        self.unsettled.clear();
    }

    /// The number that the next op will have.
    pub(crate) fn next_number(&self) -> u64 {
        self.queue.next_number()
    }

    /// Takes an op and says when it will be over, and under which number.
    pub(crate) fn submit(&mut self, now: Time, op: Op, random: &mut Random) -> (Time, u64) {
        self.take_arrived();
        if let Op::Write {
            file,
            offset,
            slices,
            ..
        } = &op
            && let Some(landing) = &self.landing
        {
            let (file, offset) = (*file, *offset);
            landing.check_write(Place { file, offset }, slices);
        }
        let model = &self.model;
        let (latency, bytes) = match &op {
            Op::Write { slices, .. } => (&model.write_us, media::length_of(slices)),
            Op::Read { range, .. } => (&model.read_us, range.len()),
            _ => (&model.names_us, 0),
        };
        let takes_us = random.within(latency) + bytes as u64 / model.bytes_per_us;
        let mut at = now + Duration::from_micros(takes_us * self.faults.slow_factor);
        let usable = |open: &OpenFile| open.refused.is_none() && !open.closing;
        let mut wrong = None;
        match &op {
            Op::Open {
                file, mode, path, ..
            } => {
                let opened = OpenFile {
                    path: path.clone(),
                    contents: None,
                    writable: *mode != OpenMode::Read,
                    refused: None,
                    closing: false,
                    failed: false,
                    open_at: at,
                    writes_until: at,
                    all_until: at,
                };
                let before = self.open.insert(*file, opened);
                let free = before.is_none_or(|before| before.refused.is_some());
                assert!(free, "{file:?} was used before");
            }
            Op::Write { file, .. } => match self.open.get_mut(file).filter(|open| usable(open)) {
                Some(open) => {
                    at = at.max(open.writes_until);
                    open.writes_until = at;
                    open.all_until = open.all_until.max(at);
                    self.writes.expect(open.path.clone(), at);
                }
                None => wrong = Some(io::ErrorKind::NotFound),
            },
            // Not ordered with writes.
            Op::Read { file, .. } => match self.open.get_mut(file).filter(|open| usable(open)) {
                Some(open) => {
                    at = at.max(open.open_at);
                    open.all_until = open.all_until.max(at);
                }
                None => wrong = Some(io::ErrorKind::NotFound),
            },
            Op::CloseFile { file, .. } => match self.open.get_mut(file).filter(|open| usable(open))
            {
                Some(open) => {
                    at = at.max(open.all_until);
                    open.closing = true;
                }
                None => wrong = Some(io::ErrorKind::NotFound),
            },
            _ => {}
        }
        check_shape(&op);
        (at, self.queue.push(op, wrong))
    }

    /// The completion of the op; `None` if it is held by a hanging disk or died with its process.
    pub(crate) fn complete(&mut self, number: u64, random: &mut Random) -> Option<Completion> {
        if !self.queue.has(number) {
            return None;
        }
        if self.faults.hung {
            self.queue.hold(number);
            return None;
        }
        self.take_arrived();
        let (op, wrong) = self.queue.take(number)?;
        Some(match wrong {
            None => self.perform(op, random),
            Some(kind) => refused(op, kind),
        })
    }

    /// The ops that are over and wait to be completed again.
    pub(crate) fn take_held(&mut self) -> Vec<u64> {
        self.queue.take_held()
    }

    fn perform(&mut self, op: Op, random: &mut Random) -> Completion {
        match op {
            Op::Read {
                token,
                file,
                offset,
                mut buffer,
                range,
            } => {
                let result = self.read(file, offset, &mut buffer[range.clone()], random);
                Completion::Read {
                    token,
                    buffer,
                    range,
                    result,
                }
            }
            Op::FreeSpace { token, path } => {
                let result = self.free_space(&path);
                Completion::Space { token, result }
            }
            op => {
                let token = token_of(&op);
                let result = self.change(op, random);
                Completion::Done { token, result }
            }
        }
    }

    fn change(&mut self, op: Op, random: &mut Random) -> io::Result<()> {
        if let Op::CloseFile { file, .. } = op {
            return match self.open.remove(&file) {
                Some(_) => Ok(()),
                None => Err(io::Error::from_raw_os_error(EBADF)),
            };
        }
        let changes = !matches!(
            op,
            Op::Open {
                mode: OpenMode::Read | OpenMode::ReadWrite,
                ..
            }
        );
        let struck = self.strike(changes, random);
        let is_struck = struck.is_err();
        let result = struck.and_then(|()| self.change_now(&op));
        if let (Op::Open { file, .. }, Err(error)) = (&op, &result)
            && let Some(open) = self.open.get_mut(file)
        {
            open.refused = Some(error.kind());
        }
        if result.is_err() && changes {
            self.failed_changes += 1;
            self.counts.failed_changes += 1;
            // An op that cannot be done at all is refused before anything is done.
            let full = matches!(&result, Err(e) if e.kind() == io::ErrorKind::StorageFull);
            if is_struck || full {
                self.fail(op, random);
            }
        }
        result
    }

    /// An error out of the blue, if it is time for one.
    pub(crate) fn strike(&mut self, changes: bool, random: &mut Random) -> io::Result<()> {
        if changes && (self.faults.broken || random.chance(self.faults.write_errors)) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        Ok(())
    }

    fn change_now(&mut self, op: &Op) -> io::Result<()> {
        match op {
            Op::Open {
                file, path, mode, ..
            } => self.open(*file, path, *mode),
            Op::Write {
                file,
                offset,
                slices,
                ..
            } => {
                let contents = self.writable(*file)?;
                let mut contents = contents.borrow_mut();
                let end = *offset + media::length_of(slices) as u64;
                let more = end.saturating_sub(contents.len().next_multiple_of(BLOCK) as u64);
                if more > 0 {
                    drop(contents);
                    self.has_room(more)?;
                    contents = self.writable(*file)?.borrow_mut();
                }
                let place = Place {
                    file: *file,
                    offset: *offset,
                };
                let length = contents.len();
                media::write(&mut contents, place, slices);
                let has_grown = contents.len() > length;
                drop(contents);
                if has_grown && self.model.preallocates {
                    self.grow_ahead(*file)?;
                }
                let written = (*file, *offset)..(*file, end);
                self.undurable.retain(|at, _| !written.contains(at));
                self.remember_write(*file, *offset);
                Ok(())
            }
            Op::CreateDirectory { path, .. } => self.media.create_directory(path),
            Op::WriteFile { path, contents, .. } => self.replace(path, contents),
            Op::Rename { from, to, .. } => self.media.rename(from, to),
            Op::Remove { path, .. } => self.media.remove(path),
            Op::RemoveDirectory { path, .. } => self.media.remove_directory(path),
            op => unreachable!("not a change of a disk: {op:?}"),
        }
    }

    /// A write that made the file longer has zeros behind it, as far as there is room.
    fn grow_ahead(&mut self, file: FileId) -> io::Result<()> {
        let contents = self.writable(file)?.clone();
        let blocks = contents.borrow().len().div_ceil(BLOCK);
        let room = self.free_bytes() as usize / BLOCK;
        let ahead = (blocks / 2).max(4).min(room);
        contents.borrow_mut().resize((blocks + ahead) * BLOCK, 0);
        Ok(())
    }

    fn remember_write(&mut self, file: FileId, offset: u64) {
        if let Some(open) = self.open.get(&file) {
            self.writes.remember(open.path.clone(), offset);
        }
    }

    /// Bytes of the file below this offset lie below later writes, or in a file that others
    /// followed: whatever a process knows of its disk, it knows that these were durable. Damage to
    /// what was written last cannot be told from a write that never ended.
    pub(crate) fn settled_below(&self, path: &Path) -> u64 {
        self.writes.settled_below(path)
    }

    /// Nothing is under way, nothing failed, and the file was not written since `since`.
    pub(crate) fn is_quiet(&self, path: &Path, since: Time) -> bool {
        let rests = self.queue.is_idle() && self.failed_changes == 0;
        rests && self.quiet_from(path).is_some_and(|at| at <= since)
    }

    /// When it was written last.
    pub(crate) fn quiet_from(&self, path: &Path) -> Option<Time> {
        self.writes.quiet_from(path)
    }

    /// The beginning of the zeros at the file's end.
    pub(crate) fn written_end(&self, path: &Path) -> u64 {
        let contents = self.contents(path).unwrap_or_default();
        let last = contents.iter().rposition(|byte| *byte != 0);
        last.map_or(0, |last| last as u64 + 1)
    }

    fn open(&mut self, file: FileId, path: &Path, mode: OpenMode) -> io::Result<()> {
        let contents = match mode {
            OpenMode::Create { size_hint } => {
                let contents = self.media.create(path)?;
                if self.model.preallocates {
                    let length = size_hint.min(PREALLOCATED_BYTES_MAX).min(self.free_bytes());
                    let length = length as usize / BLOCK * BLOCK;
                    contents.borrow_mut().resize(length, 0);
                }
                contents
            }
            OpenMode::ReadWrite | OpenMode::Read => self.media.file(path)?,
        };
        if let Some(open) = self.open.get_mut(&file) {
            open.contents = Some(contents);
        }
        Ok(())
    }

    fn writable(&self, file: FileId) -> io::Result<&Contents> {
        match self.open.get(&file) {
            Some(OpenFile {
                refused: Some(kind),
                ..
            }) => Err((*kind).into()),
            Some(open) if open.failed => Err(io::Error::from_raw_os_error(EIO)),
            Some(OpenFile {
                contents: Some(contents),
                writable: true,
                ..
            }) => Ok(contents),
            _ => Err(io::Error::from_raw_os_error(EBADF)),
        }
    }

    fn read(
        &mut self,
        file: FileId,
        offset: u64,
        into: &mut [u8],
        random: &mut Random,
    ) -> io::Result<usize> {
        if random.chance(self.faults.read_errors) {
            self.counts.failed_reads += 1;
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let Some(open) = self.open.get(&file) else {
            return Err(io::Error::from_raw_os_error(EBADF));
        };
        let read = offset..offset + into.len() as u64;
        if self.is_bad(&open.path, &read) {
            self.counts.failed_reads += 1;
            return Err(io::Error::from_raw_os_error(EIO));
        }
        match (&open.contents, open.refused) {
            (Some(contents), _) => {
                let count = read_at(&contents.borrow(), offset, into);
                Ok(self.see_in_flight(file, offset, into, count, random))
            }
            (None, kind) => Err(kind.unwrap_or(io::ErrorKind::NotFound).into()),
        }
    }

    /// Whether some block in that stretch of the file cannot be read.
    pub(crate) fn is_bad(&self, path: &Path, read: &Range<u64>) -> bool {
        let bad = self.faults.bad_blocks.iter();
        bad.filter(|(of, _)| of == path)
            .any(|(_, at)| read.contains(at))
    }

    pub(crate) fn free_space(&self, path: &Path) -> io::Result<u64> {
        if !self.media.exists(path) {
            self.media.file(path)?;
        }
        Ok(self.free_bytes())
    }

    fn has_room(&mut self, more: u64) -> io::Result<()> {
        if more > 0 && self.free_bytes() < more {
            self.counts.refused_for_space += 1;
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        Ok(())
    }

    /// The old contents are there until the new ones are: room for both is needed.
    pub(crate) fn replace(&mut self, path: &Path, contents: &[u8]) -> io::Result<()> {
        self.has_room(contents.len().next_multiple_of(BLOCK) as u64)?;
        self.media.replace(path, contents)
    }
}

pub(crate) fn read_at(contents: &[u8], offset: u64, into: &mut [u8]) -> usize {
    let from = contents.len().min(offset as usize);
    let count = into.len().min(contents.len() - from);
    into[..count].copy_from_slice(&contents[from..from + count]);
    count
}
