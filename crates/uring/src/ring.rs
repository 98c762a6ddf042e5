//! The queues, and which request has which place.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};

use crate::request::{Finished, Id, Request};
use crate::slot::{self, Slot};

/// The entries of the submission queue; when it is full it is handed over, so this limits nothing.
const ENTRIES: u32 = 256;

/// Completions of cancellations, which nobody waits for.
const NOBODY: u64 = u64::MAX;

/// Used by one thread: the one that waits first.
pub struct Ring<T> {
    ring: IoUring,
    /// Made without a thread; the first that waits is the one.
    enabled: bool,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    /// Did not fit into the submission queue, oldest first.
    backlog: VecDeque<Entry>,
    outstanding: usize,
}

impl<T> Ring<T> {
    /// Fails where io_uring is forbidden or too old (before Linux 6.1), with a sentence for people. The
    /// permission is tried and not presumed: a filter of system calls may forbid only one.
    pub fn new() -> io::Result<Ring<T>> {
        let mut trial = builder().setup_r_disabled().build(1).map_err(explain)?;
        let enabled = trial.submitter().register_enable_rings();
        enabled.map_err(explain)?;
        let args = SubmitArgs::new();
        slot::push(&mut trial, &opcode::Nop::new().build());
        trial
            .submitter()
            .submit_with_args(1, &args)
            .map_err(explain)?;
        drop(trial);
        let ring = builder()
            .setup_r_disabled()
            .build(ENTRIES)
            .map_err(explain)?;
        Ok(Ring {
            ring,
            enabled: false,
            slots: Vec::new(),
            free: Vec::new(),
            backlog: VecDeque::new(),
            outstanding: 0,
        })
    }

    /// Requests that have not come back.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Begun with the next `wait`.
    pub fn begin(&mut self, tag: T, request: Request) -> Id {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot::new());
                self.slots.len() as u32 - 1
            }
        };
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let id = id_of(slot.generation, index);
        let entry = slot.hold(tag, request).user_data(id.0);
        self.outstanding += 1;
        self.push(entry);
        id
    }

    /// It comes back soon: with ECANCELED, or with what had happened before.
    pub fn cancel(&mut self, id: Id) {
        let entry = opcode::AsyncCancel::new(id.0).build().user_data(NOBODY);
        self.push(entry);
    }

    fn push(&mut self, entry: Entry) {
        if !self.backlog.is_empty() || !slot::push(&mut self.ring, &entry) {
            self.backlog.push_back(entry);
        }
    }

    /// Makes room for the backlog in the submission queue.
    fn hand_over(&mut self) -> io::Result<()> {
        while let Some(entry) = self.backlog.front() {
            if slot::push(&mut self.ring, entry) {
                self.backlog.pop_front();
                continue;
            }
            match self.ring.submit() {
                // Completions come first, and the backlog with the next wait.
                Err(error) if is_passing(&error) => return Ok(()),
                submitted => submitted?,
            };
        }
        Ok(())
    }

    /// Begins what was given, waits until something comes back, at most so long, and appends what
    /// did. There may be nothing.
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
        finished: &mut Vec<Finished<T>>,
    ) -> io::Result<()> {
        self.enable()?;
        self.hand_over()?;
        let mut args = SubmitArgs::new();
        let time = timeout.map(Timespec::from);
        if let Some(time) = &time {
            args = args.timespec(time);
        }
        match self.ring.submitter().submit_with_args(1, &args) {
            Err(error) if !is_passing(&error) => return Err(error),
            _ => {}
        }
        self.take(finished);
        Ok(())
    }

    fn take(&mut self, finished: &mut Vec<Finished<T>>) {
        for completion in self.ring.completion() {
            let id = completion.user_data();
            let index = id as u32;
            if id == NOBODY {
                continue;
            }
            let slot = self.slots.get_mut(index as usize);
            let Some((tag, request)) = slot.and_then(|slot| slot.held.take()) else {
                continue;
            };
            self.free.push(index);
            self.outstanding -= 1;
            let result = match usize::try_from(completion.result()) {
                Ok(count) => Ok(count),
                Err(_) => Err(io::Error::from_raw_os_error(-completion.result())),
            };
            finished.push(Finished {
                tag,
                request,
                result,
            });
        }
    }

    fn enable(&mut self) -> io::Result<()> {
        if !self.enabled {
            self.ring.submitter().register_enable_rings()?;
            self.enabled = true;
        }
        Ok(())
    }

    /// Cancels what may wait for ever, and waits for the rest.
    fn settle(&mut self) -> io::Result<()> {
        let mut ids = Vec::new();
        for (index, slot) in self.slots.iter().enumerate() {
            if matches!(&slot.held, Some((_, request)) if request.may_be_cancelled()) {
                ids.push(id_of(slot.generation, index as u32));
            }
        }
        for id in ids {
            self.cancel(id);
        }
        let mut finished = Vec::new();
        while self.outstanding > 0 {
            self.wait(None, &mut finished)?;
            finished.clear();
        }
        Ok(())
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        if self.outstanding > 0 && self.settle().is_err() {
            // On another thread than the ring's, say. The kernel may still use this memory.
            std::mem::forget(std::mem::take(&mut self.slots));
        }
    }
}

fn id_of(generation: u32, index: u32) -> Id {
    // Never `NOBODY`, which has the highest bit.
    Id(u64::from(generation & (u32::MAX >> 1)) << 32 | u64::from(index))
}

/// Completions are made while their thread waits, not by interrupting it.
fn builder() -> io_uring::Builder {
    let mut builder = IoUring::builder();
    builder
        .dontfork()
        .setup_single_issuer()
        .setup_defer_taskrun()
        // The kernel buffers what does not fit; this spares it that.
        .setup_cqsize(4 * ENTRIES);
    builder
}

/// The time is over, a signal came, or completions have to be taken first.
fn is_passing(error: &io::Error) -> bool {
    let passing = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN];
    error
        .raw_os_error()
        .is_some_and(|code| passing.contains(&code))
}

fn explain(error: io::Error) -> io::Error {
    let text = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "io_uring is forbidden here (a container's seccomp profile, or kernel.io_uring_disabled)"
        }
        Some(libc::ENOSYS) => "this kernel has no io_uring",
        Some(libc::EINVAL) => "this kernel's io_uring is too old: Linux 6.1 or later is needed",
        Some(libc::ENOMEM) => "no memory for io_uring's queues",
        _ => return error,
    };
    io::Error::new(error.kind(), text)
}
