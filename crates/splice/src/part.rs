//! A part of a file that is read as memory, filled from sockets and sent to sockets.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use memmap2::{Advice, MmapMut, MmapOptions};
use rustix::fs::{Advice as FileAdvice, fadvise, sendfile};
use rustix::io::Errno;

use crate::pipe::{Pipe, TransferError};

/// A part of a file, from a block's beginning on. Others may write elsewhere in the file; a writer that
/// writes here while a part exists changes what is read, and should copy it first ([`Part::read_file`]).
pub struct Part {
    file: Arc<File>,
    offset: u64,
    memory: MmapMut,
}

impl Part {
    /// Maps a part of a file that has so many bytes, and keeps them.
    pub fn new(file: Arc<File>, offset: u64, length: usize) -> io::Result<Part> {
        let mut options = MmapOptions::new();
        options.offset(offset).len(length);
        // SAFETY: the mapping is private: stores of ours stay ours. The file's bytes change below it
        // by `receive`, which has the part for itself, so that no reference to them exists; and by
        // other writes to the same place, which the caller promises to keep from it. As with every
        // mapped file, another process that is allowed to could change or cut it: such files are
        // readable and writable for their owner only, and locked.
        let memory = unsafe { options.map_copy(&*file)? };
        Ok(Part {
            file,
            offset,
            memory,
        })
    }

    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub fn bytes(&self) -> &[u8] {
        &self.memory
    }

    /// The memory's only, from here on, page by page.
    pub fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.memory[range]
    }

    /// Receives into the range what a socket that does not block has now.
    ///
    /// Shape:  socket -> pipe -> file, and with it the memory that was not changed.
    /// Units:  bytes; 0 is the end of the stream.
    /// Errors: `TransferError::File` has lost bytes: the connection is of no use any more.
    pub fn receive(
        &mut self,
        socket: impl AsFd,
        pipe: &mut Pipe,
        range: Range<usize>,
    ) -> Result<usize, TransferError> {
        assert!(range.start <= range.end && range.end <= self.memory.len());
        let offset = self.offset + range.start as u64;
        let count = pipe.transfer(socket, &*self.file, offset, range.len())?;
        // One call for what would be a fault for every few pages when it is read; without, those.
        let _ = self.populate(range.start..range.start + count);
        Ok(count)
    }

    /// Sends the file's bytes of that range, as far as the socket takes them now.
    ///
    /// Shape:  page cache -> socket, by reference.
    /// Units:  bytes.
    /// Errors: EAGAIN if it takes none; EIO if the file ends before.
    /// Source: sendfile(2).
    pub fn send(&self, socket: impl AsFd, range: Range<usize>) -> Result<usize, Errno> {
        let mut at = self.offset + range.start as u64;
        match sendfile(socket, &*self.file, Some(&mut at), range.len())? {
            0 if !range.is_empty() => Err(Errno::IO),
            count => Ok(count),
        }
    }

    /// The range can be read without waiting for the disk, for a while.
    ///
    /// Errors: what the disk says of a page that cannot be read, which would otherwise end the
    ///         process; `Unsupported` before Linux 5.14.
    /// Source: madvise(2) on MADV_POPULATE_READ.
    fn populate(&self, range: Range<usize>) -> io::Result<()> {
        let start = range.start - range.start % PAGE;
        match self
            .memory
            .advise_range(Advice::PopulateRead, start, range.end - start)
        {
            // EFAULT stands for SIGBUS.
            Err(error) if error.raw_os_error() == Some(Errno::FAULT.raw_os_error()) => {
                Err(Errno::IO.into())
            }
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            result => result,
        }
    }

    /// Begins to read the range from the disk.
    fn will_need(&self, range: Range<usize>) {
        let length = std::num::NonZeroU64::new(range.len() as u64);
        let at = self.offset + range.start as u64;
        let _ = fadvise(&*self.file, at, length, FileAdvice::WillNeed);
    }

    /// As `populate`, by whatever means there are.
    pub fn load(&self, range: Range<usize>) -> io::Result<()> {
        self.will_need(range.clone());
        match self.populate(range.clone()) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                let at = self.offset + range.start as u64;
                if self.file.metadata()?.len() < at + range.len() as u64 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Part::read_file(&self.file, at, range.len()).map(drop)
            }
            result => result,
        }
    }

    /// A copy of what the file has there, zeros behind its end.
    pub fn read_file(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut count = 0;
        while count < length {
            match rustix::io::pread(file, &mut bytes[count..], offset + count as u64) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(bytes)
    }
}

const PAGE: usize = 4096;

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Part({} from {})", self.memory.len(), self.offset)
    }
}
