//! A buffer that is a part of a file.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use ops::{BLOCK, Landed, Place, Reservation};
use rustix::io::Errno;
use splice::{Part, Pipe, TransferError};

use crate::ink_file::InkFile;
use crate::paged_file::PagedFile;

pub(crate) struct Region {
    part: Part,
    place: Place,
    file: Arc<PagedFile>,
    pipe: Arc<Mutex<Pipe>>,
    regions: Arc<AtomicUsize>,
    held: Arc<Held>,
    /// Blocks whose memory was open to change: the file's may differ.
    changed: Vec<bool>,
    /// The memory has what was received, and the file may have anything.
    apart: bool,
}

/// What the node keeps of a region that is elsewhere.
struct Held {
    pages: Arc<File>,
    place: Place,
    length: usize,
    /// Everything received ends here.
    received: AtomicUsize,
    /// What was received, once the place was given up.
    copy: OnceLock<Vec<u8>>,
    exists: AtomicBool,
}

impl Region {
    /// `regions` counts those that there are.
    pub fn new(
        part: Part,
        place: Place,
        file: Arc<PagedFile>,
        pipe: Arc<Mutex<Pipe>>,
        regions: Arc<AtomicUsize>,
    ) -> Region {
        let length = part.bytes().len();
        regions.fetch_add(1, Ordering::Relaxed);
        Region {
            held: Arc::new(Held {
                pages: file.pages().clone(),
                place,
                length,
                received: AtomicUsize::new(0),
                copy: OnceLock::new(),
                exists: AtomicBool::new(true),
            }),
            changed: vec![false; length.div_ceil(BLOCK)],
            apart: false,
            part,
            place,
            file,
            pipe,
            regions,
        }
    }

    pub fn reservation(&self) -> Arc<dyn Reservation> {
        self.held.clone()
    }

    /// None once the place was given up.
    pub fn stands_at(&self) -> Option<Place> {
        (!self.apart && self.held.copy.get().is_none()).then_some(self.place)
    }

    /// As `recv`, into the file.
    ///
    /// Errors: one of the file fails all of its later writes as well.
    pub fn receive(&mut self, socket: impl AsFd, range: Range<usize>) -> Result<usize, Errno> {
        let mut pipe = self.pipe.lock().unwrap_or_else(|e| e.into_inner());
        let start = range.start;
        match self.part.receive(socket, &mut pipe, range) {
            Ok(count) => {
                let received = &self.held.received;
                received.fetch_max(start + count, Ordering::Relaxed);
                Ok(count)
            }
            Err(TransferError::Socket(errno)) => Err(errno),
            Err(TransferError::File(error)) => {
                tracing::error!(%error, "what a connection sent cannot be written");
                self.file.fail(&error);
                Err(Errno::IO)
            }
        }
    }

    /// As `send`, from the file.
    pub fn send(&self, socket: impl AsFd, range: Range<usize>) -> Result<usize, Errno> {
        self.part.send(socket, range)
    }

    /// Reads the range in from the disk, so that it can be read as memory.
    pub fn load(&self, range: Range<usize>) -> std::io::Result<()> {
        self.part.load(range)
    }

    /// The blocks within that range, as ranges from its start, that may differ from the file's.
    pub fn changed(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for at in range.clone().step_by(BLOCK) {
            if !self.changed[at / BLOCK] {
                continue;
            }
            let block = at - range.start..(at + BLOCK).min(range.end) - range.start;
            match ranges.last_mut() {
                Some(last) if last.end == block.start => last.end = block.end,
                _ => ranges.push(block),
            }
        }
        ranges
    }
}

impl Landed for Region {
    fn bytes(&self) -> &[u8] {
        match self.held.copy.get() {
            Some(copy) if !self.apart => copy,
            _ => self.part.bytes(),
        }
    }

    fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        if !self.apart
            && let Some(copy) = self.held.copy.get()
        {
            self.part.bytes_mut(0..copy.len()).copy_from_slice(copy);
            self.apart = true;
        }
        let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        self.changed[blocks].fill(true);
        self.part.bytes_mut(range)
    }

    fn place(&self) -> Option<Place> {
        self.stands_at()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.held.exists.store(false, Ordering::Relaxed);
        self.regions.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Reservation for Held {
    fn give_up(&self) {
        self.copy.get_or_init(|| {
            let received = self.received.load(Ordering::Relaxed);
            let copied = Part::read_file(&self.pages, self.place.offset, received);
            let mut copy = copied.unwrap_or_else(|error| {
                // It was never acknowledged; but wrong bytes in its place would be.
                panic!("what was just received into a file cannot be read back from it: {error}")
            });
            copy.resize(self.length, 0);
            copy
        });
    }

    fn is_held(&self) -> bool {
        self.exists.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({:?}, {} bytes)", self.place, self.length)
    }
}
