//! The files of segments that are open for reading, within fixed bounds.

use std::io;

use ops::{FileId, Op, OpenMode};

use super::super::{Awaiting, Store};
use super::{READS_MAX, Reader, Step, again};

/// The most files open for reading. Each read needs one, or one index, at a time; so with as many reads as
/// there may be, there is always a file that nobody uses.
const FILES_MAX: usize = 2 * READS_MAX;

/// The most of these while nobody reads.
const FILES_IDLE: usize = 2;

pub(super) struct OpenFile {
    file: FileId,
    ready: bool,
    /// The number of reads that use it, or will as soon as it is open: it stays for them.
    users: usize,
    last_used: u64,
}

impl OpenFile {
    pub fn ready(&self) -> Option<FileId> {
        self.ready.then_some(self.file)
    }
}

impl Reader {
    pub(crate) fn take_files(&mut self) -> Vec<FileId> {
        let files = std::mem::take(&mut self.files).into_values();
        files
            .filter(|file| file.ready)
            .map(|file| file.file)
            .collect()
    }

    /// The segment's file, if it is open.
    pub(super) fn file(&self, segment: u64) -> Option<FileId> {
        self.files.get(&segment).and_then(OpenFile::ready)
    }
}

impl Store {
    /// One more user of the segment's file, which is opened if need be.
    pub(super) fn use_file(&mut self, segment: u64) {
        self.reader.uses += 1;
        let uses = self.reader.uses;
        if let Some(file) = self.reader.files.get_mut(&segment) {
            file.last_used = uses;
            file.users += 1;
            return;
        }
        if self.reader.files.len() >= FILES_MAX {
            self.close_unused();
        }
        let file = self.file();
        let token = self.token(Awaiting::FileForReading { segment });
        self.ops.push_back(Op::Open {
            token,
            file,
            path: self.path(segment),
            mode: OpenMode::Read,
        });
        self.reader.files.insert(
            segment,
            OpenFile {
                file,
                ready: false,
                users: 1,
                last_used: uses,
            },
        );
    }

    /// Closes the file that was not used for longest, of those that nobody uses. False if there is none.
    fn close_unused(&mut self) -> bool {
        let files = self.reader.files.iter();
        let unused = files.filter(|(_, file)| file.users == 0 && file.ready);
        let oldest = unused.min_by_key(|(_, file)| file.last_used);
        let oldest = oldest.map(|(segment, _)| *segment);
        let closed = oldest.and_then(|oldest| self.reader.files.remove(&oldest));
        closed.map(|closed| self.close_file(closed.file)).is_some()
    }

    /// Closes idle files: a node has many logs, and files that nobody reads are not to be all that it may open.
    pub(super) fn close_idle_files(&mut self) {
        while self.reader.jobs.is_empty()
            && self.reader.files.len() > FILES_IDLE
            && self.close_unused()
        {}
    }

    /// Whether a read in progress needs the segment's file, or its index.
    pub(crate) fn is_being_read(&self, segment: u64) -> bool {
        let file = self.reader.files.get(&segment);
        file.is_some_and(|file| file.users > 0 || !file.ready)
            || self.reader.loading.contains(&segment)
    }

    pub(crate) fn forget_file(&mut self, segment: u64) {
        if let Some(file) = self.reader.files.remove(&segment) {
            self.close_file(file.file);
        }
    }

    pub(super) fn stop_using(&mut self, segment: u64) {
        if let Some(file) = self.reader.files.get_mut(&segment) {
            file.users -= 1;
        }
    }

    pub(crate) fn on_file_for_reading(&mut self, segment: u64, result: io::Result<()>) {
        let waiting = self.reader.jobs_that(
            |step| matches!(step, Step::NeedsFile(reading) if reading.segment == segment),
        );
        let sealed = segment - 1;
        match result {
            Ok(()) => {
                if let Some(file) = self.reader.files.get_mut(&segment) {
                    file.ready = true;
                }
                if self.reader.loading.contains(&sealed) {
                    self.read_index(sealed);
                }
                self.read_head();
                for job in waiting {
                    self.read_record(job);
                }
            }
            Err(error) => {
                self.reader.files.remove(&segment);
                self.forget_head_of(segment);
                self.on_unreadable_segment(segment, &error);
                for job in waiting {
                    self.answer(job, Err(again(&error).into()));
                }
                if self.reader.loading.remove(&sealed) {
                    self.on_unreadable_segment(sealed, &error);
                    self.fail_search(sealed, &error);
                }
            }
        }
        self.admit();
    }
}

/// ENFILE, EMFILE.
pub(crate) fn is_want_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}
