//! A disk that takes its time, forgets what it was not done with, and can be told to fail.
//!
//! An op changes the media at the moment it completes. What is in flight when the process dies is
//! decided then: a name is there or not, a write is torn block by block.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use node::buffer::Buffer;
use node::landing::Place;
use node::op::{BLOCK, Completion, FileId, Op, OpenMode, Time, Token};
use serde::{Deserialize, Serialize};

use crate::landing::{Arrival, SimLanding};
use crate::media::{self, Contents, Media, TornBlocks};
use crate::random::{PerMillion, Random};

/// What kind of disk it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskModel {
    pub write_us: Range<u64>,
    pub read_us: Range<u64>,
    /// Creates, renames, removes.
    pub names_us: Range<u64>,
    pub bytes_per_us: u64,
    pub torn: TornBlocks,
    /// A new file has (a part of) its hinted length at once, in zeros.
    pub preallocates: bool,
}

/// What is wrong with it now.
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
    /// With what is wrong with them from the beginning.
    in_flight: BTreeMap<u64, (Op, Option<io::ErrorKind>)>,
    /// Over, but the disk hangs.
    held: Vec<u64>,
    ops: u64,
    /// Changes that failed since the process started.
    failed_changes: u64,
    pub(crate) counts: DiskCounts,
    /// Files and directories that were being changed when the process died: a machine that then loses
    /// its power may lose what can be read of them.
    pub(crate) unsettled: BTreeSet<PathBuf>,
    /// Where the last few writes to each file began, oldest first.
    last_writes: BTreeMap<PathBuf, VecDeque<u64>>,
    /// When the last write to each file was to be over.
    quiet_from: BTreeMap<PathBuf, Time>,
    /// Processes may receive into files.
    pub offers_landing: bool,
    pub(crate) landing: Option<Arc<SimLanding>>,
    /// What blocks held before something was received into them that is not durable yet.
    undurable: BTreeMap<(FileId, u64), Before>,
}

struct Before {
    path: PathBuf,
    contents: Contents,
    block: Vec<u8>,
}

/// What went wrong on a disk, in all.
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
    /// None until it was opened, and if that failed.
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

const EIO: i32 = 5;
const EBADF: i32 = 9;
const ENOSPC: i32 = 28;
/// So many writes later a record says that this one was durable.
const LAST_WRITES: usize = 6;
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
            in_flight: BTreeMap::new(),
            held: Vec::new(),
            ops: 0,
            failed_changes: 0,
            counts: DiskCounts::default(),
            unsettled: BTreeSet::new(),
            last_writes: BTreeMap::new(),
            quiet_from: BTreeMap::new(),
            offers_landing: false,
            landing: None,
            undurable: BTreeMap::new(),
        }
    }

    /// What is durable at this path.
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
        self.in_flight.len()
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
        self.last_writes.clear();
        self.media = Media::default();
    }

    /// The number that the next op will have.
    pub(crate) fn next_number(&self) -> u64 {
        self.ops + 1
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
        let mut at = Time(now.0 + takes_us * self.faults.slow_factor);
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
                    self.quiet_from.insert(open.path.clone(), at);
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
        self.ops += 1;
        self.in_flight.insert(self.ops, (op, wrong));
        (at, self.ops)
    }

    /// What the op came to; None if it is held by a hanging disk or died with its process.
    pub(crate) fn complete(&mut self, number: u64, random: &mut Random) -> Option<Completion> {
        if !self.in_flight.contains_key(&number) {
            return None;
        }
        if self.faults.hung {
            self.held.push(number);
            return None;
        }
        self.take_arrived();
        let (op, wrong) = self.in_flight.remove(&number)?;
        Some(match wrong {
            None => self.perform(op, random),
            Some(kind) => refused(op, kind),
        })
    }

    /// The ops that are over and wait to be completed again.
    pub(crate) fn take_held(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.held)
    }

    /// The process died. Every op in flight has happened, or not, or in part.
    pub(crate) fn crash(&mut self, random: &mut Random) {
        self.take_arrived();
        self.landing = None;
        self.forget_arrived(random);
        for (_, (op, wrong)) in std::mem::take(&mut self.in_flight) {
            if wrong.is_none() {
                self.unsettle(&op);
                self.perform_perhaps(op, random);
            }
        }
        self.held.clear();
        self.open.clear();
        self.locks.clear();
        self.failed_changes = 0;
    }

    /// What was received into files since the last look stands there.
    fn take_arrived(&mut self) {
        let Some(landing) = &self.landing else {
            return;
        };
        for Arrival { place, bytes } in landing.take_arrived() {
            let end = place.offset + bytes.len() as u64;
            let Ok(contents) = self.writable(place.file).cloned() else {
                continue;
            };
            let length = contents.borrow().len();
            let more = end.saturating_sub(length.next_multiple_of(BLOCK) as u64);
            if self.has_room(more).is_err() {
                // Who received it is not told here; but nothing can be written any more.
                if let Some(open) = self.open.get_mut(&place.file) {
                    open.failed = true;
                }
                continue;
            }
            let Some(path) = self.open.get(&place.file).map(|open| open.path.clone()) else {
                continue;
            };
            let mut file = contents.borrow_mut();
            let first = place.offset - place.offset % BLOCK as u64;
            for at in (first..end).step_by(BLOCK) {
                self.undurable.entry((place.file, at)).or_insert_with(|| {
                    let mut block = vec![0; BLOCK];
                    read_at(&file, at, &mut block);
                    Before {
                        path: path.clone(),
                        contents: contents.clone(),
                        block,
                    }
                });
            }
            media::put(&mut file, place.offset as usize, &bytes);
            let blocks = file.len().next_multiple_of(BLOCK);
            file.resize(blocks, 0);
            self.counts.received_into_files += 1;
        }
    }

    /// A machine that stopped may have written back what was received into files, or not.
    fn forget_arrived(&mut self, random: &mut Random) {
        for ((_, at), before) in std::mem::take(&mut self.undurable) {
            let mut contents = before.contents.borrow_mut();
            let at = at as usize;
            let now = contents[at..at + BLOCK].to_vec();
            media::put(&mut contents, at, &before.block);
            media::tear_block(&mut contents, at, &now, self.model.torn, random);
            self.unsettled.insert(before.path);
        }
    }

    fn unsettle(&mut self, op: &Op) {
        let path = match op {
            Op::Write { file, .. } => self.open.get(file).map(|open| open.path.as_path()),
            Op::Rename { to, .. } => to.parent(),
            Op::Open { path, .. } | Op::Remove { path, .. } | Op::CreateDirectory { path, .. } => {
                path.parent()
            }
            _ => None,
        };
        self.unsettled.extend(path.map(Path::to_owned));
    }

    /// A process that starts says what it reads of its logs without writing it again.
    pub(crate) fn check_settled(&self, path: &Path) {
        assert!(
            !self.unsettled.contains(path),
            "I4: a process that starts reads {path:?}, which was being changed when it was killed, and a power cut could still take that away"
        );
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
            // What cannot be done at all is refused before anything is.
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
                media::write(&mut contents, place, slices);
                drop(contents);
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

    fn remember_write(&mut self, file: FileId, offset: u64) {
        let Some(open) = self.open.get(&file) else {
            return;
        };
        let last = self.last_writes.entry(open.path.clone()).or_default();
        last.push_back(offset);
        if last.len() > LAST_WRITES {
            last.pop_front();
        }
    }

    /// Bytes of the file below this offset lie below later writes, or in a file that others
    /// followed: whatever a process knows of its disk, it knows that these were durable. Damage to
    /// what was written last cannot be told from a write that never ended.
    pub(crate) fn settled_below(&self, path: &Path) -> u64 {
        let settled = |path: &Path| {
            let last = self.last_writes.get(path);
            let last = last.filter(|last| last.len() == LAST_WRITES);
            last.and_then(|last| last.front().copied())
        };
        let behind = (Bound::Excluded(path.to_owned()), Bound::Unbounded);
        let followed = self
            .last_writes
            .range(behind)
            .any(|(later, _)| later.parent() == path.parent() && settled(later).is_some());
        match followed {
            true => u64::MAX,
            false => settled(path).unwrap_or(0),
        }
    }

    /// Nothing is under way, nothing failed, and the file was not written since `since`.
    pub(crate) fn is_quiet(&self, path: &Path, since: Time) -> bool {
        let rests = self.in_flight.is_empty() && self.held.is_empty() && self.failed_changes == 0;
        rests && self.quiet_from.get(path).is_some_and(|at| *at <= since)
    }

    /// When it was written last.
    pub(crate) fn quiet_from(&self, path: &Path) -> Option<Time> {
        self.quiet_from.get(path).copied()
    }

    /// Where the zeros at its end begin.
    pub(crate) fn written_end(&self, path: &Path) -> u64 {
        let contents = self.contents(path).unwrap_or_default();
        let last = contents.iter().rposition(|byte| *byte != 0);
        last.map_or(0, |last| last as u64 + 1)
    }

    /// What a change that was answered with an error leaves: anything between nothing and all.
    fn fail(&mut self, op: Op, random: &mut Random) {
        if let Op::Write { file, .. } = &op
            && let Some(open) = self.open.get_mut(file)
        {
            let first = !open.failed;
            open.failed = true;
            if !first || !open.writable {
                return;
            }
        }
        if !matches!(op, Op::Open { .. }) {
            self.perform_perhaps(op, random);
        }
    }

    /// Errors are not interesting: nobody hears of them.
    fn perform_perhaps(&mut self, op: Op, random: &mut Random) {
        match op {
            Op::Write {
                file,
                offset,
                slices,
                ..
            } => {
                let Some(open) = self.open.get(&file) else {
                    return;
                };
                let Some(contents) = open.contents.clone().filter(|_| open.writable) else {
                    return;
                };
                let mut bytes: Vec<u8> = slices.iter().flat_map(|s| s.to_vec()).collect();
                // On a full disk a beginning may have found room.
                let held = contents.borrow().len().next_multiple_of(BLOCK) as u64;
                let room = (held + self.free_bytes()).saturating_sub(offset);
                bytes.truncate(room as usize / BLOCK * BLOCK);
                let mut contents = contents.borrow_mut();
                media::tear(&mut contents, offset, &bytes, self.model.torn, random);
                self.counts.torn_writes += 1;
            }
            Op::WriteFile { path, contents, .. } => match random.below(3) {
                0 => {}
                1 => {
                    // What was written aside was not renamed yet, and not all of it is there.
                    let written = random.below(contents.len() as u64 + 1) as usize;
                    let _ = self.replace(&media::aside_of(&path), &contents[..written]);
                }
                _ => {
                    let _ = self.replace(&path, &contents);
                }
            },
            Op::RemoveDirectory { path, .. } => {
                let below = self.media.files().map(|(file, _)| file.to_owned());
                let below: Vec<PathBuf> = below.filter(|file| file.starts_with(&path)).collect();
                for file in below {
                    if random.coin() {
                        let _ = self.media.remove(&file);
                    }
                }
                if random.coin() {
                    let _ = self.media.remove_directory(&path);
                }
            }
            Op::Read { .. } | Op::FreeSpace { .. } | Op::CloseFile { .. } => {}
            op => {
                if random.coin() {
                    let _ = self.change_now(&op);
                }
            }
        }
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
        let is_bad = |(path, at): &(PathBuf, u64)| *path == open.path && read.contains(at);
        if self.faults.bad_blocks.iter().any(is_bad) {
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

    /// Of a write that is not over, a reader sees any of its blocks. How many bytes there are now.
    fn see_in_flight(
        &self,
        file: FileId,
        offset: u64,
        into: &mut [u8],
        mut count: usize,
        random: &mut Random,
    ) -> usize {
        for (op, wrong) in self.in_flight.values() {
            let Op::Write {
                file: written,
                offset: start,
                slices,
                ..
            } = op
            else {
                continue;
            };
            let end = start + media::length_of(slices) as u64;
            let beside = end <= offset || offset + into.len() as u64 <= *start;
            if *written != file || wrong.is_some() || beside {
                continue;
            }
            let bytes: Vec<u8> = slices.iter().flat_map(|s| s.to_vec()).collect();
            for (at, block) in (*start..).step_by(BLOCK).zip(bytes.chunks(BLOCK)) {
                let within = offset <= at && at < offset + into.len() as u64;
                if within && random.coin() {
                    let at = (at - offset) as usize;
                    into[count.min(at)..at].fill(0);
                    into[at..at + BLOCK].copy_from_slice(block);
                    count = count.max(at + BLOCK);
                }
            }
        }
        count
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

/// An op on a file that is not open.
fn refused(op: Op, kind: io::ErrorKind) -> Completion {
    match op {
        Op::Read {
            token,
            buffer,
            range,
            ..
        } => Completion::Read {
            token,
            buffer,
            range,
            result: Err(kind.into()),
        },
        op => Completion::Done {
            token: token_of(&op),
            result: Err(kind.into()),
        },
    }
}

fn token_of(op: &Op) -> Token {
    match op {
        Op::Open { token, .. }
        | Op::CloseFile { token, .. }
        | Op::Write { token, .. }
        | Op::Read { token, .. }
        | Op::CreateDirectory { token, .. }
        | Op::WriteFile { token, .. }
        | Op::Rename { token, .. }
        | Op::Remove { token, .. }
        | Op::RemoveDirectory { token, .. }
        | Op::FreeSpace { token, .. } => *token,
        op => unreachable!("not an op of a disk: {op:?}"),
    }
}

/// Asserts what the contract asks of whoever gives the op.
fn check_shape(op: &Op) {
    match op {
        Op::Write { offset, slices, .. } => {
            let length = media::length_of(slices);
            assert!(length > 0, "a write writes something");
            assert!(offset.is_multiple_of(BLOCK as u64), "offset {offset}");
            assert!(length.is_multiple_of(BLOCK), "length {length}");
            for (i, slice) in slices.iter().enumerate() {
                let aligned = slice.as_ptr().addr().is_multiple_of(BLOCK);
                assert!(aligned, "slice {i} starts at a block of its buffer");
                let whole = slice.len().is_multiple_of(BLOCK) || i + 1 == slices.len();
                assert!(whole, "slice {i} is {} bytes long", slice.len());
            }
        }
        Op::Read {
            offset,
            buffer,
            range,
            ..
        } => check_read(*offset, buffer, range),
        _ => {}
    }
}

fn check_read(offset: u64, buffer: &Buffer, range: &Range<usize>) {
    assert!(offset.is_multiple_of(BLOCK as u64), "offset {offset}");
    assert!(range.start.is_multiple_of(BLOCK), "range {range:?}");
    assert!(range.len().is_multiple_of(BLOCK), "range {range:?}");
    assert!(range.end <= buffer.len(), "range {range:?} of {buffer:?}");
}
