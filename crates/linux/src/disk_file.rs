//! An open file: durable writes and history past the page cache, where the file system allows it.
//!
//! Large writes grow the file as they are, small ones with zeros behind them ([`crate::growth`]); nothing else is preallocated
//! (docs/decisions/0003-segment-growth.md).

use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use ops::{BLOCK, OpenMode};
use rustix::fs::{Advice, FileType, Mode, OFlags, fadvise, fcntl_setfl, fdatasync, fstat, fstatfs};
use rustix::io::{Errno, ReadWriteFlags, pread, pwritev2};

use crate::directory::Holder;
use crate::growth::{self, Growth};
use crate::ink_file::InkFile;
use crate::limits::SLICES_MAX;
use crate::room;

#[derive(Debug)]
pub(crate) struct DiskFile {
    file: OwnedFd,
    /// Set while O_DIRECT is. Only one thread changes it: the file's writer, or, of a file that is
    /// only read, the reader.
    direct: AtomicBool,
    read_only: bool,
    sync: Sync,
    growth: Growth,
    /// A second descriptor without O_DIRECT, opened when a file that is written is first read.
    reads: OnceLock<OwnedFd>,
    /// What the first failed write said. All later ones fail: what the failed one left behind is
    /// unknown, and the kernel may drop the pages of a failed fsync and report success at the next.
    failure: OnceLock<String>,
}

/// How a direct write becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    /// RWF_DSYNC: as cheap as fdatasync on a growing file, and one call less; on a recycled one it
    /// is 10 % cheaper. Only where the file system is known to honour it.
    WithWrite,
    Fdatasync,
}

impl DiskFile {
    pub fn open(path: &Path, mode: OpenMode) -> io::Result<DiskFile> {
        let flags = match mode {
            OpenMode::Create { .. } => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
            OpenMode::ReadWrite => OFlags::RDWR,
            OpenMode::Read => OFlags::RDONLY,
        };
        let permissions = Mode::RUSR | Mode::WUSR;
        let holder = match mode {
            OpenMode::Create { .. } => Some(Holder::of(path)?),
            _ => None,
        };
        let file = rustix::fs::open(path, flags | OFlags::CLOEXEC, permissions)?;
        // Only to be read a directory is opened like a file, and then every read of it fails.
        if mode == OpenMode::Read
            && FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::Directory
        {
            return Err(Errno::ISDIR.into());
        }
        // Asked for afterwards: open(2) with O_CREAT and O_DIRECT leaves a file behind where only the
        // latter is refused.
        let direct = fcntl_setfl(&file, OFlags::DIRECT).is_ok();
        let sync = sync_of(file.as_fd());
        let growth = match mode {
            OpenMode::Create { size_hint } => Growth::new(0, size_hint),
            OpenMode::ReadWrite => Growth::new(fstat(&file)?.st_size as u64, u64::MAX),
            OpenMode::Read => Growth::new(0, 0),
        };
        if let Some(holder) = holder {
            holder.sync()?;
        }
        Ok(DiskFile {
            file,
            direct: AtomicBool::new(direct),
            read_only: mode == OpenMode::Read,
            sync,
            growth,
            reads: OnceLock::new(),
            failure: OnceLock::new(),
        })
    }

    /// Whether no write has failed.
    pub fn check(&self) -> io::Result<()> {
        match self.failure.get() {
            None => Ok(()),
            Some(first) => Err(io::Error::other(format!(
                "an earlier write to this file failed: {first}"
            ))),
        }
    }

    /// How far it was written.
    pub fn growth(&self) -> &Growth {
        &self.growth
    }

    /// With zeros behind, if that grows the file for those to come.
    fn write_ahead(&self, offset: u64, slices: &mut [IoSlice<'_>], refuse: bool) -> io::Result<()> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        let end = offset + length as u64;
        let count = self.growth.zeros_behind(offset, length as u64);
        if count > 0 && slices.len() < SLICES_MAX {
            let zeros = growth::zeros(count);
            let mut all = Vec::with_capacity(slices.len() + 1);
            all.extend_from_slice(slices);
            all.push(IoSlice::new(&zeros));
            match self.write_all(offset, &mut all, refuse) {
                Ok(()) => {
                    self.growth.reached(end + count as u64);
                    return Ok(());
                }
                // There may be room for the bytes alone.
                Err(error) if growth::lacks_room(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.write_all(offset, slices, refuse)?;
        self.growth.reached(end);
        Ok(())
    }

    fn write_all(
        &self,
        mut offset: u64,
        mut slices: &mut [IoSlice<'_>],
        refuse: bool,
    ) -> io::Result<()> {
        let mut direct = self.direct.load(Ordering::Relaxed);
        while !slices.is_empty() {
            let flags = match direct && self.sync == Sync::WithWrite {
                true => ReadWriteFlags::DSYNC,
                false => ReadWriteFlags::empty(),
            };
            let written = match direct && refuse {
                true => Err(Errno::INVAL),
                false => pwritev2(&self.file, slices, offset, flags),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    offset += count as u64;
                    IoSlice::advance_slices(&mut slices, count);
                }
                Err(Errno::INTR) => {}
                Err(Errno::INVAL) if direct => {
                    tracing::warn!("O_DIRECT was refused at a write; going through the page cache");
                    self.end_direct()?;
                    direct = false;
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        if !direct || self.sync == Sync::Fdatasync {
            fdatasync(&self.file)?;
        }
        Ok(())
    }

    pub fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    /// Whether a write with RWF_DSYNC is all that it takes.
    pub fn writes_durably(&self) -> bool {
        self.is_direct() && self.sync == Sync::WithWrite
    }

    pub fn end_direct(&self) -> io::Result<()> {
        fcntl_setfl(&self.file, OFlags::empty())?;
        self.direct.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn read_fd(&self) -> BorrowedFd<'_> {
        if self.read_only || !self.direct.load(Ordering::Relaxed) {
            return self.file.as_fd();
        }
        if let Some(reads) = self.reads.get() {
            return reads.as_fd();
        }
        // By the descriptor and not by name, which may have changed. Without /proc the direct one
        // serves: the op's rules are those of O_DIRECT.
        let again = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        match rustix::fs::open(again, flags, Mode::empty()) {
            Ok(reads) => self.reads.get_or_init(|| reads).as_fd(),
            Err(_) => self.file.as_fd(),
        }
    }
}

impl InkFile for DiskFile {
    /// Writes at `offset`, durable on return.
    ///
    /// Shape:  buffers -> device (O_DIRECT), or -> page cache -> device.
    /// Units:  the slices begin and end at blocks, in memory and in the file.
    /// Errors: this and every later write of the file fail; nothing is retried, except where there was no room
    ///         (`room`): the caller tries the same again, or has the file fail. EINVAL from a first
    ///         O_DIRECT write is no error of the disk but a refusal that wrote nothing: from then on
    ///         the file is written through the page cache.
    /// Source: open(2) on O_DIRECT; Rebello et al., USENIX ATC 2020, on fsync failure.
    fn write(&self, offset: u64, slices: &mut [IoSlice<'_>], refuse: bool) -> io::Result<()> {
        self.check()?;
        self.write_ahead(offset, slices, refuse)
            .inspect_err(|error| {
                if !self.waits_for_room(error) {
                    self.fail(error);
                }
            })
    }

    fn waits_for_room(&self, error: &io::Error) -> bool {
        self.writes_durably() && room::is_lacking(error)
    }

    /// Reads at `offset`; fewer bytes than asked mean end of file.
    ///
    /// Shape:  device -> buffer (O_DIRECT) for a file opened to be read; device -> page cache ->
    ///         buffer for one that is also written.
    /// Units:  offset, memory and length are multiples of the block.
    /// Errors: what pread says; EINVAL from O_DIRECT is a refusal, and the page cache serves.
    /// Source: pread(2). Measured on cold files, 256 KiB at a time, 2-core VM, ext4: O_DIRECT takes
    ///         0.12 s of CPU per GB and the page cache 0.5 to 1.4, at the same 1.1 GB/s; history is
    ///         read once per follower, and the cache is not ours to fill. But an O_DIRECT reader of a
    ///         growing file and its writer wait for each other's inode lock: durable writes of 64 KiB
    ///         took 690 us instead of 225. Beside a reader through the cache they took 215.
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while count < into.len() {
            let fd = self.read_fd();
            match pread(fd, &mut into[count..], offset + count as u64) {
                Ok(0) => break,
                Ok(more) => {
                    count += more;
                    // Only the end of the file cuts a block, and O_DIRECT cannot ask behind it.
                    if !count.is_multiple_of(BLOCK) {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::INVAL) if self.read_only && self.direct.load(Ordering::Relaxed) => {
                    self.end_direct()?;
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        if !self.read_only
            && let Some(length) = NonZeroU64::new(count as u64)
        {
            // Advice; that it was not taken changes nothing.
            let _ = fadvise(self.read_fd(), offset, Some(length), Advice::DontNeed);
        }
        Ok(count)
    }

    /// All later writes fail with this.
    fn fail(&self, error: &io::Error) {
        let _ = self.failure.set(error.to_string());
    }
}

impl AsFd for DiskFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

const EXT4: u64 = 0xEF53;
const XFS: u64 = 0x5846_5342;
const BTRFS: u64 = 0x9123_683E;
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58F6;

fn sync_of(file: BorrowedFd<'_>) -> Sync {
    match fstatfs(file).map(|file_system| file_system.f_type as u64) {
        Ok(EXT4 | XFS | BTRFS) => Sync::WithWrite,
        _ => Sync::Fdatasync,
    }
}

/// "O_DIRECT" or "buffered: <why>", found out with a file of its own in `directory`.
pub(crate) fn write_path(directory: &Path) -> String {
    match probe(directory) {
        Ok(answer) => answer,
        Err(error) => format!("buffered: cannot try O_DIRECT here ({error})"),
    }
}

/// Whether nothing in it survives the machine.
pub(crate) fn is_in_memory(directory: &Path) -> bool {
    let file_system = rustix::fs::statfs(directory);
    matches!(
        file_system.map(|about| about.f_type as u64),
        Ok(TMPFS | RAMFS)
    )
}

fn probe(directory: &Path) -> io::Result<String> {
    let path = directory.join(format!(".write-path-{}", std::process::id()));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?;
    std::fs::remove_file(&path)?;
    if let TMPFS | RAMFS = fstatfs(&file)?.f_type as u64 {
        return Ok(
            "buffered: the directory is in memory (tmpfs), nothing survives a power loss".into(),
        );
    }
    if fcntl_setfl(&file, OFlags::DIRECT).is_err() {
        return Ok("buffered: the file system has no O_DIRECT".into());
    }
    let block = ops::Buffer::new(BLOCK);
    match rustix::io::pwrite(&file, &block, 0) {
        Ok(_) => Ok("O_DIRECT".into()),
        Err(Errno::INVAL) => Ok(format!(
            "buffered: the file system refuses O_DIRECT writes of {BLOCK} bytes"
        )),
        Err(errno) => Err(errno.into()),
    }
}
