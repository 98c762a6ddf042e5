//! Durable writes by the ring. As with threads, a file has one write in flight, and what is asked for
//! meanwhile and continues it goes with the next. A write for which a full disk has no room waits on the ring ([`crate::room`]), and what
//! follows it in its file behind it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::Duration;

use ops::{Completion, FileId, Slice};
use rustix::io::Errno;
use uring::{Finished, Request, Ring};

use crate::config::Faults;
use crate::disk_file::DiskFile;
use crate::disk_thread::{WriteTask, take_batch};
use crate::errors::copy_of;
use crate::fault_file::Injected;
use crate::growth;
use crate::ink_file::InkFile;
use crate::limits::SLICES_MAX;
use crate::room::Told;
use crate::tag::Tag;

pub(crate) struct RingWriter {
    faults: Faults,
    merged_bytes_max: usize,
    /// Files with a write in flight.
    files: HashMap<FileId, FileWrites>,
    /// Files that have writes waiting and none in flight.
    ready: Vec<FileId>,
    /// Begun so far, for `Faults::fail_write_after`.
    writes: u64,
    /// `None`: a write without room fails.
    room_again_after: Option<Duration>,
    told: Told,
}

#[derive(Default)]
struct FileWrites {
    waiting: VecDeque<WriteTask<DiskFile>>,
    batch: Option<Batch>,
}

/// Writes that are performed as one.
struct Batch {
    /// Answered together; their slices are in `rest`.
    tasks: Vec<WriteTask<DiskFile>>,
    offset: u64,
    /// With zeros at the end, perhaps.
    rest: VecDeque<Slice>,
    zeros: usize,
    /// Written through the page cache, or where a write alone is not durable.
    needs_sync: bool,
}

impl RingWriter {
    pub fn new(
        faults: Faults,
        merged_bytes_max: usize,
        room_again_after: Option<Duration>,
    ) -> RingWriter {
        RingWriter {
            faults,
            merged_bytes_max,
            files: HashMap::new(),
            ready: Vec::new(),
            writes: 0,
            room_again_after,
            told: Told::default(),
        }
    }

    pub fn put(&mut self, task: WriteTask<DiskFile>) {
        let id = task.id;
        let file = self.files.entry(id).or_default();
        if file.batch.is_none() && file.waiting.is_empty() {
            self.ready.push(id);
        }
        file.waiting.push_back(task);
    }

    /// Nobody waits for room any more: what has none fails.
    pub fn end_waiting(&mut self) {
        self.room_again_after = None;
    }

    pub fn is_idle(&self) -> bool {
        self.files.is_empty()
    }

    /// Gives the ring what waits. What fails before that is answered.
    pub fn begin(&mut self, ring: &mut Ring<Tag>, answers: &mut Vec<(FileId, Completion)>) {
        for id in std::mem::take(&mut self.ready) {
            self.begin_next(id, ring, answers);
        }
    }

    fn begin_next(
        &mut self,
        id: FileId,
        ring: &mut Ring<Tag>,
        answers: &mut Vec<(FileId, Completion)>,
    ) {
        while let Some(file) = self.files.get_mut(&id) {
            let Some(tasks) = take_batch(&mut file.waiting, self.merged_bytes_max, |_| false)
            else {
                self.files.remove(&id);
                return;
            };
            let mut batch = Batch::new(tasks);
            match admit(&self.faults, &mut self.writes).and_then(|delay| {
                batch.file().check()?;
                Ok(delay)
            }) {
                Ok(delay) if delay.is_zero() => {
                    let request = batch.next_request(self.faults.refuse_direct);
                    file.batch = Some(batch);
                    ring.begin(Tag::File(id), request);
                    return;
                }
                Ok(duration) => {
                    file.batch = Some(batch);
                    ring.begin(Tag::File(id), Request::Sleep { duration });
                    return;
                }
                Err(error) => batch.answer(Err(error), answers),
            }
        }
    }

    /// A step of a file's write came back from the ring.
    pub fn on_finished(
        &mut self,
        id: FileId,
        finished: Finished<Tag>,
        ring: &mut Ring<Tag>,
        answers: &mut Vec<(FileId, Completion)>,
    ) {
        let Some(file) = self.files.get_mut(&id) else {
            return;
        };
        let Some(mut batch) = file.batch.take() else {
            return;
        };
        match batch.on_step(&finished) {
            Ok(Step::Durable) => {
                batch.answer(Ok(()), answers);
                self.begin_next(id, ring, answers);
            }
            Ok(Step::More) => {
                let request = batch.next_request(self.faults.refuse_direct);
                file.batch = Some(batch);
                ring.begin(Tag::File(id), request);
            }
            Err(error) => {
                if let Some(duration) = self.room_again_after
                    && batch.waits_for_room(&error)
                {
                    self.told.waits(&error);
                    file.batch = Some(batch);
                    ring.begin(Tag::File(id), Request::Sleep { duration });
                    return;
                }
                batch.answer(Err(error), answers);
                self.begin_next(id, ring, answers);
            }
        }
    }
}

/// Whether the faults let a write begin, and how much later.
fn admit(faults: &Faults, writes: &mut u64) -> io::Result<Duration> {
    let mut delay = faults.write_delay;
    if let Some(path) = &faults.file {
        let injected = Injected::read(path)?;
        if let Some(errno) = injected.write_error {
            return Err(errno.into());
        }
        delay += injected.write_delay;
    }
    *writes += 1;
    match faults.fail_write_after {
        Some(limit) if *writes > limit => Err(Errno::IO.into()),
        _ => Ok(delay),
    }
}

enum Step {
    More,
    Durable,
}

impl Batch {
    fn new(tasks: Vec<WriteTask<DiskFile>>) -> Batch {
        let slices = tasks.iter().flat_map(|task| task.slices.iter());
        let mut rest: VecDeque<Slice> = slices.filter(|slice| !slice.is_empty()).cloned().collect();
        let offset = tasks.first().map_or(0, |task| task.offset);
        let length: usize = rest.iter().map(|slice| slice.len()).sum();
        let growth = tasks[0].file.growth();
        let zeros = growth.zeros_behind(offset, length as u64);
        if zeros > 0 {
            rest.push_back(growth::zeros(zeros));
        }
        Batch {
            tasks,
            offset,
            rest,
            zeros,
            needs_sync: false,
        }
    }

    /// Leaves away what is left of the zeros.
    fn take_zeros_back(&mut self) {
        self.rest.pop_back();
        self.zeros = 0;
    }

    /// Whether its next piece had no room, and may be given again. What went before it is durable by itself.
    fn waits_for_room(&self, error: &io::Error) -> bool {
        !self.needs_sync && self.file().waits_for_room(error)
    }

    fn file(&self) -> &DiskFile {
        &self.tasks[0].file
    }

    fn next_request(&mut self, refuse_direct: bool) -> Request {
        let file = self.tasks[0].file.clone();
        if self.rest.is_empty() {
            return Request::SyncData { file };
        }
        if refuse_direct && file.is_direct() {
            // As the refusal by the file system, which writes nothing.
            let _ = file.end_direct();
        }
        let durable = file.writes_durably();
        self.needs_sync |= !durable;
        Request::Write {
            file,
            offset: self.offset,
            slices: self.rest.iter().take(SLICES_MAX).cloned().collect(),
            durable,
        }
    }

    /// Errors: as of `DiskFile::write`; no write is tried again but one that O_DIRECT refused.
    fn on_step(&mut self, finished: &Finished<Tag>) -> io::Result<Step> {
        match (&finished.request, &finished.result) {
            (Request::Write { .. }, Ok(0)) => Err(io::ErrorKind::WriteZero.into()),
            (Request::Write { .. }, Ok(count)) => {
                self.advance(*count);
                match self.rest.is_empty() && !self.needs_sync {
                    true => Ok(Step::Durable),
                    false => Ok(Step::More),
                }
            }
            (Request::SyncData { .. }, Ok(_)) => Ok(Step::Durable),
            (Request::Write { .. }, Err(error)) if is_passing(error) => Ok(Step::More),
            // There may be room for the bytes alone.
            (Request::Write { .. }, Err(error)) if self.zeros > 0 && growth::lacks_room(error) => {
                self.take_zeros_back();
                match self.rest.is_empty() && !self.needs_sync {
                    true => Ok(Step::Durable),
                    false => Ok(Step::More),
                }
            }
            (Request::Write { .. }, Err(error))
                if Errno::from_io_error(error) == Some(Errno::INVAL) && self.file().is_direct() =>
            {
                tracing::warn!("O_DIRECT was refused at a write; going through the page cache");
                self.file().end_direct()?;
                Ok(Step::More)
            }
            (Request::Write { .. } | Request::SyncData { .. }, Err(error)) => Err(copy_of(error)),
            // A delay is over.
            _ if self.rest.is_empty() && !self.needs_sync => Ok(Step::Durable),
            _ => Ok(Step::More),
        }
    }

    fn advance(&mut self, mut count: usize) {
        self.offset += count as u64;
        while let Some(slice) = self.rest.front_mut() {
            if count < slice.len() {
                *slice = slice.after(count);
                return;
            }
            count -= slice.len();
            self.rest.pop_front();
        }
    }

    fn answer(self, result: io::Result<()>, answers: &mut Vec<(FileId, Completion)>) {
        match &result {
            Ok(()) => self.file().growth().reached(self.offset),
            Err(error) => self.file().fail(error),
        }
        for task in self.tasks {
            let result = match &result {
                Ok(()) => Ok(()),
                Err(error) => Err(copy_of(error)),
            };
            let token = task.token;
            answers.push((task.id, Completion::Done { token, result }));
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::INTR | Errno::AGAIN)
    )
}
