//! The place of a request while the kernel works on it, and all `unsafe` of this crate.

#![allow(unsafe_code)] // see the safety argument of the crate

use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use io_uring::squeue::{self, Entry};
use io_uring::types::{Fd, FsyncFlags, TimeoutFlags, Timespec};
use io_uring::{IoUring, opcode};
use ops::Slice;

use crate::request::Request;

/// Memory that the kernel may read or write lies behind pointers that do not change when a slot is
/// moved: on the heap, in the request's buffers and in the boxes below.
pub(crate) struct Slot<T> {
    /// Told apart from earlier requests in the same slot, so that a late cancellation hits nobody.
    pub generation: u32,
    pub held: Option<(T, Request)>,
    /// Kept for the next request; not touched while `held` is some.
    vectors: Vec<libc::iovec>,
    header: Box<libc::msghdr>,
    time: Box<Timespec>,
}

// SAFETY: the pointers in `vectors` and `header` are to memory that the same slot owns (or shares
// immutably, as `Slice`s, which are Send), and only the kernel follows them.
unsafe impl<T: Send> Send for Slot<T> {}

impl<T> Slot<T> {
    pub fn new() -> Slot<T> {
        // SAFETY: a msghdr is integers and pointers; all zero is one that names no memory.
        let header = unsafe { std::mem::zeroed() };
        Slot {
            generation: 0,
            held: None,
            vectors: Vec::new(),
            header: Box::new(header),
            time: Box::new(Timespec::new()),
        }
    }

    /// Takes the request in, and describes it to the kernel.
    pub fn hold(&mut self, tag: T, request: Request) -> Entry {
        debug_assert!(self.held.is_none());
        let (_, request) = self.held.insert((tag, request));
        match request {
            Request::Receive {
                socket,
                buffer,
                range,
                whole,
            } => {
                let into = &mut buffer[range.clone()];
                let length = u32::try_from(into.len()).unwrap_or(u32::MAX);
                let flags = if *whole { libc::MSG_WAITALL } else { 0 };
                opcode::Recv::new(Fd(socket.as_raw_fd()), into.as_mut_ptr(), length)
                    .flags(flags)
                    .build()
            }
            Request::Send { socket, slices } => {
                describe(&mut self.vectors, slices);
                self.header.msg_iov = self.vectors.as_mut_ptr();
                self.header.msg_iovlen = self.vectors.len() as _;
                opcode::SendMsg::new(Fd(socket.as_raw_fd()), ptr::from_ref(&*self.header))
                    .flags(libc::MSG_NOSIGNAL as u32)
                    .build()
            }
            Request::Write {
                file,
                offset,
                slices,
                durable,
            } => {
                describe(&mut self.vectors, slices);
                let fd = Fd(file.as_fd().as_raw_fd());
                let count = self.vectors.len() as u32;
                opcode::Writev::new(fd, self.vectors.as_ptr(), count)
                    .offset(*offset)
                    .rw_flags(if *durable { libc::RWF_DSYNC } else { 0 })
                    .build()
            }
            Request::SyncData { file } => opcode::Fsync::new(Fd(file.as_fd().as_raw_fd()))
                .flags(FsyncFlags::DATASYNC)
                .build(),
            Request::Watch { fd } => {
                opcode::PollAdd::new(Fd(fd.as_raw_fd()), libc::POLLIN as u32).build()
            }
            Request::Sleep { duration } => {
                *self.time = Timespec::from(*duration);
                opcode::Timeout::new(ptr::from_ref(&*self.time))
                    .flags(TimeoutFlags::empty())
                    .build()
            }
        }
    }
}

fn describe(vectors: &mut Vec<libc::iovec>, slices: &[Slice]) {
    vectors.clear();
    vectors.extend(slices.iter().map(|slice| libc::iovec {
        // The kernel only reads it: what uses these vectors sends and writes.
        iov_base: slice.as_ptr().cast_mut().cast(),
        iov_len: slice.len(),
    }));
}

/// Puts an entry into the submission queue; false if that is full.
pub(crate) fn push(ring: &mut IoUring, entry: &squeue::Entry) -> bool {
    // SAFETY: entries are made by `Slot::hold`, whose memory stays where it is, and whose descriptor
    // stays open, until the ring has seen the completion (or else for ever), or they are
    // cancellations, which name no memory.
    unsafe { ring.submission().push(entry).is_ok() }
}
