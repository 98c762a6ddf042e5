//! Threads that wait for the disk, so that the loop does not.
//!
//! A writer takes the oldest write, adds the queued ones that continue it, and performs them as one:
//! while one write is in flight the next batch grows by itself. Reads and changes of names have
//! threads of their own, so that a cold read or a new segment never delays a durable write.
//!
//! A write for which a full disk has no room waits ([`crate::room`]), and so does what follows it in its file. Other files are written meanwhile.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ops::{Completion, FileId, Slice, Token};
use rustix::io::Errno;

use crate::config::{Faults, KernelConfig};
use crate::errors::copy_of;
use crate::fault_file::Injected;
use crate::inbox::{Inbox, Reply};
use crate::ink_file::InkFile;
use crate::landing;
use crate::limits::SLICES_MAX;
use crate::paged_file::PagedFile;
use crate::room::Told;

/// A queue that one thread serves. Dropping the owner lets the thread finish what is queued.
struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    tasks: VecDeque<T>,
    /// The owner is gone.
    has_ended: bool,
    /// The thread waits to be told of what is put.
    sleeps: bool,
}

pub(crate) struct WriteTask<F: ?Sized> {
    pub token: Token,
    pub id: FileId,
    pub file: Arc<F>,
    /// The same file, if sockets fill it.
    pub paged: Option<Arc<PagedFile>>,
    pub offset: u64,
    pub slices: Vec<Slice>,
}

/// Durable writes, in order for each file.
pub(crate) struct Writer {
    queue: Arc<Queue<WriteTask<dyn InkFile>>>,
    thread: Option<JoinHandle<()>>,
}

/// `None` if another thread answers.
type Job = Box<dyn FnOnce() -> Option<Reply> + Send>;

/// Anything else, one after the other.
pub(crate) struct Worker {
    queue: Arc<Queue<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub fn start(
        name: String,
        config: &KernelConfig,
        inbox: Arc<Inbox>,
        writes: Arc<AtomicU64>,
    ) -> io::Result<Writer> {
        let queue = Arc::new(Queue::new());
        let mut thread = WriterThread {
            queue: queue.clone(),
            inbox,
            faults: config.faults.clone(),
            merged_bytes_max: config.merged_bytes_max,
            writes,
            room_again_after: config.room_again_after,
            roomless: BTreeMap::new(),
            told: Told::default(),
        };
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || thread.run())?;
        Ok(Writer {
            queue,
            thread: Some(thread),
        })
    }

    pub fn put(&self, task: WriteTask<dyn InkFile>) {
        self.queue.put(task);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.end();
        join(&mut self.thread);
    }
}

impl Worker {
    pub fn start(name: String, inbox: Arc<Inbox>) -> io::Result<Worker> {
        let queue: Arc<Queue<Job>> = Arc::new(Queue::new());
        let jobs = queue.clone();
        let run = move || {
            while let Some(job) = jobs.take(|queue| queue.pop_front()) {
                if let Some(reply) = job() {
                    inbox.put(reply);
                }
            }
        };
        let thread = std::thread::Builder::new().name(name).spawn(run)?;
        Ok(Worker {
            queue,
            thread: Some(thread),
        })
    }

    pub fn put(&self, job: impl FnOnce() -> Option<Reply> + Send + 'static) {
        self.queue.put(Box::new(job));
    }

    /// Ends the thread after the job that it has begun. The others are dropped.
    pub fn abandon(&self) {
        drop(self.queue.abandon());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue.end();
        join(&mut self.thread);
    }
}

fn join(thread: &mut Option<JoinHandle<()>>) {
    if let Some(thread) = thread.take() {
        // It panicked; the panic was reported where it happened.
        let _ = thread.join();
    }
}

struct WriterThread {
    queue: Arc<Queue<WriteTask<dyn InkFile>>>,
    inbox: Arc<Inbox>,
    faults: Faults,
    merged_bytes_max: usize,
    /// Of all writers of the kernel, for `Faults::fail_write_after`.
    writes: Arc<AtomicU64>,
    room_again_after: Option<Duration>,
    /// Files whose next write had no room, and when it is tried again.
    roomless: BTreeMap<FileId, Instant>,
    told: Told,
}

impl WriterThread {
    fn run(&mut self) {
        while let Some(batch) = self.next_batch() {
            let result = self.write(&batch);
            let batch = match &result {
                Err(error) => match self.put_off(batch, error) {
                    Some(batch) => batch,
                    None => continue,
                },
                Ok(()) => batch,
            };
            self.inbox.put_all(batch.into_iter().map(|task| {
                let result = match &result {
                    Ok(()) => Ok(()),
                    Err(error) => Err(copy_of(error)),
                };
                let completion = Completion::Done {
                    token: task.token,
                    result,
                };
                Reply::FileOp(task.id, completion)
            }));
        }
    }

    /// The oldest writes of a file that does not wait for room. Once nobody gives any more none waits.
    fn next_batch(&mut self) -> Option<Vec<WriteTask<dyn InkFile>>> {
        loop {
            let now = Instant::now();
            self.roomless.retain(|_, again_at| now < *again_at);
            let (roomless, bytes_max) = (&self.roomless, self.merged_bytes_max);
            let due = roomless.values().min().copied();
            let taken = self.queue.take_until(due, |queue, has_ended| {
                let waits = |file: FileId| roomless.contains_key(&file) && !has_ended;
                take_batch(queue, bytes_max, waits)
            });
            match taken {
                Taken::Some(batch) => return Some(batch),
                Taken::Late => {}
                Taken::End => return None,
            }
        }
    }

    /// Puts writes back for which there was no room. Gives back those that are to be answered: what they failed of stays, or nobody waits any more.
    fn put_off(
        &mut self,
        batch: Vec<WriteTask<dyn InkFile>>,
        error: &io::Error,
    ) -> Option<Vec<WriteTask<dyn InkFile>>> {
        let first = batch.first()?;
        let (id, file) = (first.id, first.file.clone());
        if !file.waits_for_room(error) {
            return Some(batch);
        }
        let left = match self.room_again_after {
            Some(after) => {
                self.roomless.insert(id, Instant::now() + after);
                self.told.waits(error);
                self.queue.put_back(batch)
            }
            None => Some(batch),
        };
        if left.is_some() {
            file.fail(error);
        }
        left
    }

    fn write(&self, batch: &[WriteTask<dyn InkFile>]) -> io::Result<()> {
        let first = &batch[0];
        if !self.faults.write_delay.is_zero() {
            std::thread::sleep(self.faults.write_delay);
        }
        if let Some(path) = &self.faults.file {
            let injected = Injected::read(path).inspect_err(|error| first.file.fail(error))?;
            injected.delay(path);
            if let Some(errno) = injected.write_error {
                let error = errno.into();
                first.file.fail(&error);
                return Err(error);
            }
        }
        if let Some(limit) = self.faults.fail_write_after
            && self.writes.fetch_add(1, Ordering::Relaxed) >= limit
        {
            let error = Errno::IO.into();
            first.file.fail(&error);
            return Err(error);
        }
        if let Some(file) = &first.paged {
            return write_paged(file, batch);
        }
        let mut slices = Vec::with_capacity(batch.iter().map(|task| task.slices.len()).sum());
        for task in batch {
            slices.extend(task.slices.iter().map(|slice| IoSlice::new(slice)));
        }
        slices.retain(|slice| !slice.is_empty());
        // One op alone may have more slices than a call takes; each call is durable by itself.
        let mut offset = first.offset;
        for part in slices.chunks_mut(SLICES_MAX) {
            let length: usize = part.iter().map(|slice| slice.len()).sum();
            first.file.write(offset, part, self.faults.refuse_direct)?;
            offset += length as u64;
        }
        Ok(())
    }
}

/// What the file does not have yet, in pieces, and all of it durable.
fn write_paged<F: ?Sized>(file: &PagedFile, batch: &[WriteTask<F>]) -> io::Result<()> {
    let mut pieces: Vec<(u64, Vec<IoSlice<'_>>)> = Vec::new();
    let mut piece_end = None;
    let mut end = 0;
    for task in batch {
        let mut offset = task.offset;
        for slice in &task.slices {
            for range in landing::unwritten(slice, task.id, offset) {
                let at = offset + range.start as u64;
                let bytes = IoSlice::new(&slice[range.clone()]);
                match pieces.last_mut() {
                    Some((_, slices)) if piece_end == Some(at) && slices.len() < SLICES_MAX => {
                        slices.push(bytes);
                    }
                    _ => pieces.push((at, vec![bytes])),
                }
                piece_end = Some(offset + range.end as u64);
            }
            offset += slice.len() as u64;
        }
        end = end.max(offset);
    }
    file.write_pieces(&mut pieces, end)
}

/// The oldest write of a file that does not wait, and those that continue it, oldest first. Writes of other files stay; a write of
/// the same file that does not continue ends the batch, because they happen in order.
pub(crate) fn take_batch<F: ?Sized>(
    queue: &mut VecDeque<WriteTask<F>>,
    bytes_max: usize,
    waits: impl Fn(FileId) -> bool,
) -> Option<Vec<WriteTask<F>>> {
    let mut at = queue.iter().position(|task| !waits(task.id))?;
    let mut batch = vec![queue.remove(at)?];
    let mut slices = batch[0].slices.len();
    let mut bytes = batch[0].length();
    while let Some(next) = queue.get(at) {
        if next.id != batch[0].id {
            at += 1;
            continue;
        }
        slices += next.slices.len();
        bytes += next.length();
        let continues = next.offset == batch[0].offset + (bytes - next.length()) as u64;
        if !continues || slices > SLICES_MAX || bytes > bytes_max {
            break;
        }
        batch.extend(queue.remove(at));
    }
    Some(batch)
}

impl<F: ?Sized> WriteTask<F> {
    fn length(&self) -> usize {
        self.slices.iter().map(|slice| slice.len()).sum()
    }
}

/// The end of a wait for work.
enum Taken<R> {
    Some(R),
    /// It is time to look again.
    Late,
    /// All is done, and the owner is gone.
    End,
}

impl<T> Queue<T> {
    fn new() -> Queue<T> {
        Queue {
            state: Mutex::new(State {
                tasks: VecDeque::new(),
                has_ended: false,
                sleeps: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn put(&self, task: T) {
        let sleeps = {
            let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
            state.tasks.push_back(task);
            state.sleeps
        };
        if sleeps {
            self.changed.notify_one();
        }
    }

    /// As `end`, and takes what nobody has taken.
    fn abandon(&self) -> VecDeque<T> {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        state.has_ended = true;
        self.changed.notify_all();
        std::mem::take(&mut state.tasks)
    }

    fn end(&self) {
        self.state
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .has_ended = true;
        self.changed.notify_one();
    }

    /// These are the oldest again. Gives them back if the owner is gone.
    fn put_back(&self, tasks: Vec<T>) -> Option<Vec<T>> {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        if state.has_ended {
            return Some(tasks);
        }
        for task in tasks.into_iter().rev() {
            state.tasks.push_front(task);
        }
        None
    }

    /// Waits until `pick` finds something; `None` when all is done and the owner is gone.
    fn take<R>(&self, pick: impl Fn(&mut VecDeque<T>) -> Option<R>) -> Option<R> {
        match self.take_until(None, |queue, _| pick(queue)) {
            Taken::Some(picked) => Some(picked),
            Taken::Late | Taken::End => None,
        }
    }

    /// As `take`, no longer than until then. `pick` is told whether the owner is gone.
    fn take_until<R>(
        &self,
        due: Option<Instant>,
        pick: impl Fn(&mut VecDeque<T>, bool) -> Option<R>,
    ) -> Taken<R> {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        loop {
            let has_ended = state.has_ended;
            if let Some(picked) = pick(&mut state.tasks, has_ended) {
                return Taken::Some(picked);
            }
            if has_ended {
                return Taken::End;
            }
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Taken::Late;
            }
            state.sleeps = true;
            state = match left {
                None => self.changed.wait(state).unwrap_or_else(|e| e.into_inner()),
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(|e| e.into_inner()).0
                }
            };
            state.sleeps = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use ops::{BLOCK, OpenMode};

    use super::*;
    use crate::disk_file::DiskFile;

    fn task(file: &Arc<DiskFile>, id: u64, block: u64, blocks: usize) -> WriteTask<DiskFile> {
        WriteTask {
            token: Token(block),
            id: FileId(id),
            file: file.clone(),
            paged: None,
            offset: block * BLOCK as u64,
            slices: vec![
                ops::Buffer::new(blocks * BLOCK)
                    .freeze()
                    .slice(0..blocks * BLOCK),
            ],
        }
    }

    fn tokens(batch: Option<Vec<WriteTask<DiskFile>>>) -> Vec<u64> {
        batch
            .into_iter()
            .flatten()
            .map(|task| task.token.0)
            .collect()
    }

    #[test]
    fn a_batch_is_what_continues_the_oldest_write() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = Arc::new(DiskFile::open(&path, OpenMode::Create { size_hint: 0 }).unwrap());
        let mut queue: VecDeque<_> = [
            task(&file, 1, 0, 2),
            task(&file, 2, 0, 1),
            task(&file, 1, 2, 1),
            task(&file, 1, 9, 1),
            task(&file, 1, 3, 1),
        ]
        .into();
        assert_eq!(
            tokens(take_batch(&mut queue, 1 << 20, |_| false)),
            [0, 2],
            "9 leaves a gap"
        );
        assert_eq!(
            tokens(take_batch(&mut queue, 1 << 20, |_| false)),
            [0],
            "the other file"
        );
        assert_eq!(tokens(take_batch(&mut queue, 1 << 20, |_| false)), [9]);
        assert_eq!(
            tokens(take_batch(&mut queue, 1 << 20, |_| false)),
            [3],
            "3 did not overtake 9"
        );
        let mut queue: VecDeque<_> = (0..5).map(|block| task(&file, 1, block, 1)).collect();
        assert_eq!(
            tokens(take_batch(&mut queue, 2 * BLOCK, |_| false)),
            [0, 1],
            "the limit"
        );
    }
}
