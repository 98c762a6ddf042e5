//! The file that writes go to, and those that are being made for the next ones.

use std::collections::BTreeMap;

use ops::FileId;
#[cfg(feature = "mutations")]
use ops::Slice;
use paxos::Time;

use super::super::trim::Spare;

#[derive(Default)]
pub(crate) struct Files {
    writing: Option<Writing>,
    new: BTreeMap<u64, NewFile>,
}

pub(crate) struct Writing {
    pub segment: u64,
    pub file: FileId,
    pub offset: u64,
    /// The last block written.
    #[cfg(feature = "mutations")]
    pub tail: Option<Slice>,
}

pub(crate) struct NewFile {
    pub file: FileId,
    /// The offset at which writing begins.
    offset: u64,
    /// The spare that becomes this segment's file; else a new one is made.
    pub spare: Option<Spare>,
    /// Whether the file exists: a spare has its name by now, or it was the last one before this start.
    pub exists: bool,
    pub asked: bool,
    pub ready: bool,
    /// The time when the file is asked for again, if the process had too many open files.
    pub again_at: Option<Time>,
    pub told: bool,
}

impl NewFile {
    /// With an offset it is there, and written from there on.
    pub fn new(file: FileId, spare: Option<Spare>, goes_on_at: Option<u64>) -> NewFile {
        NewFile {
            file,
            offset: goes_on_at.unwrap_or(0),
            spare,
            exists: goes_on_at.is_some(),
            asked: false,
            ready: false,
            again_at: None,
            told: false,
        }
    }
}

impl Files {
    pub fn writing(&mut self) -> Option<&mut Writing> {
        self.writing.as_mut()
    }

    /// The file that is written, if it is that segment's.
    pub fn writing_to(&self, segment: u64) -> Option<&Writing> {
        let writing = self.writing.as_ref();
        writing.filter(|writing| writing.segment == segment)
    }

    pub fn has_written(&self) -> bool {
        self.writing.is_some()
    }

    pub fn want(&mut self, segment: u64, file: NewFile) {
        self.new.insert(segment, file);
    }

    pub fn wanted(&self, segment: u64) -> Option<&NewFile> {
        self.new.get(&segment)
    }

    pub fn wanted_mut(&mut self, segment: u64) -> Option<&mut NewFile> {
        self.new.get_mut(&segment)
    }

    /// The next file to make. They come one after the other: a crash must not leave a segment without the one before.
    pub fn next_to_make(&mut self) -> Option<(u64, &mut NewFile)> {
        let mut new = self.new.iter_mut().map(|(segment, file)| (*segment, file));
        new.find(|(_, file)| !file.ready)
    }

    pub fn give_up(&mut self, segment: u64) {
        self.new.remove(&segment);
    }

    pub fn is_ready(&self, segment: u64) -> bool {
        self.new.get(&segment).is_some_and(|new| new.ready)
    }

    /// Writes go to that segment's file, which is ready. Returns the one before.
    pub fn begin(&mut self, segment: u64) -> Option<FileId> {
        let new = self.new.remove(&segment)?;
        let before = self.writing.replace(Writing {
            segment,
            file: new.file,
            offset: new.offset,
            #[cfg(feature = "mutations")]
            tail: None,
        });
        before.map(|before| before.file)
    }

    /// The time when a file is asked for again.
    pub fn due(&self) -> Option<Time> {
        self.new.values().filter_map(|new| new.again_at).min()
    }

    /// Every file that writes went to, or would have.
    pub fn take(&mut self) -> Vec<FileId> {
        let new = std::mem::take(&mut self.new).into_values();
        let ready = new.filter(|file| file.ready).map(|file| file.file);
        let writing = self.writing.take().map(|writing| writing.file);
        ready.chain(writing).collect()
    }
}
