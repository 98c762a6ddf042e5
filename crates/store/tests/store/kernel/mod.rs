//! A disk in memory that crashes, for tests of the store.
//!
//! A completed op is durable. One in flight when the crash comes may have happened or not; of a
//! write each block is old, new or garbage by itself.

#![allow(dead_code, reason = "each test uses its own part")]

pub mod damage;
pub mod script;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use ops::{BLOCK, Completion, DirectoryEntry, Disk, FileId, Op, OpenMode};

#[derive(Clone, Default)]
pub struct MemoryDisk {
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    pub directories: BTreeSet<PathBuf>,
    /// Where blocks begin that a start cannot read.
    pub unreadable: BTreeSet<(PathBuf, u64)>,
    /// Files that were being written when the process died: another loss of power may take what can
    /// be read of them.
    pub unsettled: BTreeSet<PathBuf>,
    /// The writes that the kernel still performs for a process that was killed.
    pub late: Vec<LateWrite>,
    /// The paths that starts made durable, in order.
    pub settled: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateWrite {
    pub path: PathBuf,
    pub offset: u64,
    pub bytes: Vec<u8>,
}

#[derive(Default)]
pub struct Kernel {
    pub disk: MemoryDisk,
    open: BTreeMap<FileId, PathBuf>,
    in_flight: VecDeque<Op>,
    /// Fails the write with this number (from 0).
    pub fail_write: Option<usize>,
    /// All reads fail with this errno.
    pub fail_reads: Option<i32>,
    pub reads: usize,
    /// The number of files that cannot be opened to be written: too many are.
    pub refuse_opens: usize,
    pub refused_opens: usize,
    /// The number of next segments that cannot be removed or renamed.
    pub fail_forgetting: usize,
    writes: usize,
    /// Whether each removed file was removed urgently.
    pub removed_urgently: Vec<bool>,
    /// Files opened to be written that were there before.
    pub reused: usize,
}

pub const EIO: i32 = 5;
pub const EMFILE: i32 = 24;

/// splitmix64
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

impl Kernel {
    pub fn new(disk: MemoryDisk) -> Kernel {
        Kernel {
            disk,
            ..Kernel::default()
        }
    }

    pub fn submit(&mut self, op: Op) {
        self.in_flight.push_back(op);
    }

    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// The open files, not counting those that are being closed.
    pub fn open_files(&self) -> usize {
        let closing = self.in_flight.iter();
        let closing = closing.filter(|op| matches!(op, Op::CloseFile { .. }));
        self.open.len() - closing.count()
    }

    /// The writes that are not known to be there: file, offset and bytes.
    pub fn writes_in_flight(&self) -> Vec<(PathBuf, u64, Vec<u8>)> {
        let writes = self.in_flight.iter().filter_map(|op| match op {
            Op::Write {
                file,
                offset,
                slices,
                ..
            } => {
                let bytes = slices.iter().flat_map(|slice| slice.iter().copied());
                Some((self.open[file].clone(), *offset, bytes.collect()))
            }
            _ => None,
        });
        writes.collect()
    }

    /// The process is killed. Its writes that are in flight come later, or never.
    pub fn kill(self) -> MemoryDisk {
        let writes = self.writes_in_flight().into_iter();
        let late = writes.map(|(path, offset, bytes)| LateWrite {
            path,
            offset,
            bytes,
        });
        let mut disk = self.disk;
        disk.late.extend(late);
        disk
    }

    /// Performs the oldest op.
    pub fn complete_one(&mut self) -> Option<Completion> {
        let op = self.in_flight.pop_front()?;
        Some(self.perform(op))
    }

    /// Performs any one op; writes to one file stay in order because the store keeps them so.
    pub fn complete_any(&mut self, random: &mut Random) -> Option<Completion> {
        if self.in_flight.is_empty() {
            return None;
        }
        let writes_before = |at: usize| {
            self.in_flight
                .iter()
                .take(at)
                .any(|op| matches!(op, Op::Write { .. }))
        };
        let mut at = random.below(self.in_flight.len() as u64) as usize;
        if matches!(self.in_flight[at], Op::Write { .. } | Op::CloseFile { .. })
            && writes_before(at)
        {
            at = 0;
        }
        let op = self.in_flight.remove(at)?;
        Some(self.perform(op))
    }

    fn perform(&mut self, op: Op) -> Completion {
        match op {
            Op::Open {
                token,
                file,
                path,
                mode,
            } => {
                let exists = self.disk.files.contains_key(&path);
                let refused = mode != OpenMode::Read && self.refuse_opens > 0;
                let result = match (mode, exists) {
                    _ if refused => {
                        self.refuse_opens -= 1;
                        self.refused_opens += 1;
                        Err(io::Error::from_raw_os_error(EMFILE))
                    }
                    (OpenMode::Create { .. }, true) => Err(io::ErrorKind::AlreadyExists.into()),
                    (OpenMode::Create { size_hint }, false) => {
                        assert!(self.disk.directories.contains(path.parent().unwrap()));
                        self.disk
                            .files
                            .insert(path.clone(), vec![0; size_hint as usize]);
                        Ok(())
                    }
                    (_, false) => Err(io::ErrorKind::NotFound.into()),
                    (_, true) => Ok(()),
                };
                self.reused += usize::from(mode == OpenMode::ReadWrite && !refused);
                if result.is_ok() {
                    assert!(
                        self.open.insert(file, path).is_none(),
                        "file ids are not reused"
                    );
                }
                Completion::Done { token, result }
            }
            Op::CloseFile { token, file } => {
                self.open.remove(&file).expect("only open files are closed");
                Completion::Done {
                    token,
                    result: Ok(()),
                }
            }
            Op::Write {
                token,
                file,
                offset,
                slices,
            } => {
                self.writes += 1;
                let result = match self.fail_write == Some(self.writes - 1) {
                    true => Err(io::Error::other("injected")),
                    false => {
                        self.write(file, offset, &slices, |_| Block::New);
                        Ok(())
                    }
                };
                Completion::Done { token, result }
            }
            Op::Read {
                token,
                file,
                offset,
                mut buffer,
                range,
            } => {
                assert!(offset.is_multiple_of(BLOCK as u64) && range.len().is_multiple_of(BLOCK));
                self.reads += 1;
                let path = self.open[&file].clone();
                let result = match self.fail_reads {
                    Some(errno) => Err(io::Error::from_raw_os_error(errno)),
                    None => self.disk.read_at(&path, offset, &mut buffer[range.clone()]),
                };
                Completion::Read {
                    token,
                    buffer,
                    range,
                    result,
                }
            }
            Op::CreateDirectory { token, path } => {
                self.disk.directories.insert(path);
                Completion::Done {
                    token,
                    result: Ok(()),
                }
            }
            Op::Remove { token, path, .. }
            | Op::Rename {
                token, from: path, ..
            } if self.fail_forgetting > 0 && path.extension().is_some_and(|e| e == "seg") => {
                self.fail_forgetting -= 1;
                let result = Err(io::Error::other("injected"));
                Completion::Done { token, result }
            }
            Op::Remove {
                token,
                path,
                urgent,
            } => {
                self.removed_urgently.push(urgent);
                self.disk.files.remove(&path);
                Completion::Done {
                    token,
                    result: Ok(()),
                }
            }
            Op::Rename { token, from, to } => Completion::Done {
                token,
                result: self.disk.rename(&from, &to),
            },
            other => panic!("the store does not ask for {other:?}"),
        }
    }

    fn write(
        &mut self,
        file: FileId,
        offset: u64,
        slices: &[ops::Slice],
        mut fate: impl FnMut(usize) -> Block,
    ) {
        let contents = self.disk.files.get_mut(&self.open[&file]).unwrap();
        let (last, before) = slices.split_last().unwrap();
        assert!(before.iter().all(|slice| slice.len().is_multiple_of(BLOCK)));
        assert!(last.len().is_multiple_of(BLOCK) && offset.is_multiple_of(BLOCK as u64));
        let bytes: Vec<u8> = slices
            .iter()
            .flat_map(|slice| slice.iter().copied())
            .collect();
        let end = offset as usize + bytes.len();
        if contents.len() < end {
            contents.resize(end, 0);
        }
        for (number, block) in bytes.chunks(BLOCK).enumerate() {
            let at = offset as usize + number * BLOCK;
            match fate(number) {
                Block::New => contents[at..at + BLOCK].copy_from_slice(block),
                Block::Old => {}
                Block::Garbage => {
                    for (to, from) in contents[at..at + BLOCK].iter_mut().zip(block) {
                        *to = from.rotate_left(3) ^ 0x5a;
                    }
                }
            }
        }
    }

    /// The power goes: what was in flight may have happened, in part.
    pub fn crash(mut self, random: &mut Random) -> MemoryDisk {
        for op in std::mem::take(&mut self.in_flight) {
            match op {
                Op::Write {
                    file,
                    offset,
                    slices,
                    ..
                } => {
                    self.disk.unsettled.insert(self.open[&file].clone());
                    let mode = random.below(4);
                    let mut random = Random(random.next());
                    self.write(file, offset, &slices, |number| match mode {
                        0 => Block::New,
                        1 if number == 0 => Block::New,
                        1 => Block::Old,
                        _ => match random.below(3) {
                            0 => Block::New,
                            1 => Block::Old,
                            _ => Block::Garbage,
                        },
                    });
                }
                Op::Open {
                    path,
                    mode: OpenMode::Create { size_hint },
                    ..
                } => {
                    let size = [None, Some(0), Some(size_hint)][random.below(3) as usize];
                    if let Some(size) = size {
                        self.disk
                            .files
                            .entry(path)
                            .or_insert(vec![0; size as usize]);
                    }
                }
                Op::CreateDirectory { .. } | Op::Remove { .. } | Op::Rename { .. }
                    if random.below(2) == 0 =>
                {
                    self.perform(op);
                }
                _ => {}
            }
        }
        self.disk
    }
}

enum Block {
    New,
    Old,
    Garbage,
}

impl Disk for MemoryDisk {
    fn list(&mut self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        if !self.directories.contains(directory) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = |path: &Path| path.parent() == Some(directory);
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let directories = self.directories.iter().filter(|path| inside(path));
        let directories = directories.map(|path| DirectoryEntry {
            name: name(path),
            is_directory: true,
            length: 0,
        });
        let files = self.files.iter().filter(|(path, _)| inside(path));
        let files = files.map(|(path, contents)| DirectoryEntry {
            name: name(path),
            is_directory: false,
            length: contents.len() as u64,
        });
        let mut entries: Vec<_> = directories.chain(files).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn read_at(&mut self, path: &Path, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let contents = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        let read = offset..offset + into.len() as u64;
        let mut unreadable = self.unreadable.iter().filter(|(of, _)| of == path);
        if unreadable.any(|(_, at)| read.contains(at)) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let start = (offset as usize).min(contents.len());
        let count = into.len().min(contents.len() - start);
        into[..count].copy_from_slice(&contents[start..start + count]);
        Ok(count)
    }

    fn settle(&mut self, path: &Path) -> io::Result<()> {
        self.unsettled.remove(path);
        self.settled.push(path.to_owned());
        Ok(())
    }

    fn is_still(&mut self, path: &Path) -> bool {
        !self.late.iter().any(|late| late.path == path)
    }

    fn write_file(&mut self, path: &Path, contents: &[u8]) -> io::Result<()> {
        self.files.insert(path.to_owned(), contents.to_vec());
        Ok(())
    }

    fn create_directory(&mut self, path: &Path) -> io::Result<()> {
        for path in path.ancestors() {
            self.directories.insert(path.to_owned());
        }
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let contents = self.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        assert!(!self.files.contains_key(to), "nothing is overwritten");
        self.files.insert(to.to_owned(), contents);
        Ok(())
    }

    fn lock(&mut self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn free_space(&mut self, _: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn random(&mut self) -> io::Result<[u8; 16]> {
        Ok([7; 16])
    }

    fn write_path(&mut self, _: &Path) -> String {
        "memory".to_owned()
    }
}
