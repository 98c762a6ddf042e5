//! Unfinished changes: by a crash, by an error, or not done yet.

use std::path::{Path, PathBuf};

use ops::{BLOCK, FileId, Op};

use super::{Before, SimDisk, read_at};
use crate::landing::Arrival;
use crate::media;
use crate::random::Random;

impl SimDisk {
    /// The process died. Every op in flight has happened, or not, or in part.
    pub(crate) fn crash(&mut self, random: &mut Random) {
        self.take_arrived();
        self.landing = None;
        self.forget_arrived(random);
        for op in self.queue.abandon() {
            self.unsettle(&op);
            self.perform_perhaps(op, random);
        }
        self.open.clear();
        self.locks.clear();
        self.failed_changes = 0;
    }

    /// Takes in the bytes received into files since the last look: they stand there.
    pub(super) fn take_arrived(&mut self) {
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
                // The receiver is not told here; but nothing can be written any more.
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

    pub(super) fn unsettle(&mut self, op: &Op) {
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

    /// Leaves the remains of a change that was answered with an error: anything between nothing and all.
    pub(super) fn fail(&mut self, op: Op, random: &mut Random) {
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
                    // The file that was written aside was not renamed yet, and not all of it is there.
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

    /// Lets a reader see any blocks of a write that is not over. Returns how many bytes there are now.
    pub(super) fn see_in_flight(
        &self,
        file: FileId,
        offset: u64,
        into: &mut [u8],
        mut count: usize,
        random: &mut Random,
    ) -> usize {
        for op in self.queue.sound() {
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
            if *written != file || beside {
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
}
