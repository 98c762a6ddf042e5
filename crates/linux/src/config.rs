//! What a kernel can be told before it starts.

use std::path::PathBuf;
use std::time::Duration;

use ops::MachineId;

use crate::ink::Ink;
use crate::mover::Mover;
use crate::post_office::PostOffice;

#[derive(Clone, Debug)]
pub struct KernelConfig {
    /// How bytes move.
    pub mover: Mover,
    /// Where files are.
    pub ink: Ink,
    /// Replaces the system's congestion control on our sockets where that one paces (bbr): between
    /// machines of one site, and on loopback, pacing costs throughput and latency. Best effort.
    /// `None` leaves the system's.
    pub congestion: Option<String>,
    /// The congestion control of our sockets, whatever the system's is: for comparisons. A socket that cannot have it is an error.
    pub congestion_always: Option<String>,
    /// SO_SNDBUF and SO_RCVBUF in bytes. `None` leaves them to the system, which adapts them; a
    /// fixed size ends that. Measured with 0.5, 1 and 4 MiB on loopback: no difference beyond the
    /// noise, or worse.
    pub send_buffer: Option<usize>,
    pub receive_buffer: Option<usize>,
    /// The most one connection moves in one direction before the others have had their turn.
    pub round_bytes_max: usize,
    /// Threads for durable writes. Each file belongs to one of them.
    pub write_threads: usize,
    /// The most that queued contiguous writes are merged to.
    pub merged_bytes_max: usize,
    /// A write for which a full disk has no room is tried again after so long, until there is some or the kernel ends. `None`: it fails, and its
    /// file with it.
    pub room_again_after: Option<Duration>,
    /// Turn SIGTERM and SIGINT into `StopRequested`. Handlers belong to the process: at most one
    /// kernel of a process should ask for this.
    pub signals: bool,
    /// The number of this kernel's machine, and where it gets letters. Of the machines of one process each has a number of
    /// its own, and all have the same office.
    pub machine: MachineId,
    pub office: PostOffice,
    pub faults: Faults,
}

/// Faults for tests. None by default.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Every durable write takes this much longer.
    pub write_delay: Duration,
    /// So many durable writes (after merging) succeed; later ones fail with EIO, unwritten.
    pub fail_write_after: Option<u64>,
    /// As if the file system refused O_DIRECT with EINVAL at the first write.
    pub refuse_direct: bool,
    /// As if the kernel refused io_uring with EPERM.
    pub refuse_uring: bool,
    /// As if mapped files were persistent memory: their cache lines are flushed, and they are never synced.
    pub emulate_pmem: bool,
    /// Holds faults that may change while the kernel runs: see `fault_file`.
    pub file: Option<PathBuf>,
}

impl Default for KernelConfig {
    fn default() -> KernelConfig {
        KernelConfig {
            mover: Mover::default(),
            ink: Ink::default(),
            congestion: Some("cubic".to_string()),
            congestion_always: None,
            send_buffer: None,
            receive_buffer: None,
            round_bytes_max: 1 << 20,
            write_threads: 2,
            merged_bytes_max: 4 << 20,
            room_again_after: Some(Duration::from_millis(250)),
            signals: true,
            machine: MachineId::NODE,
            office: PostOffice::default(),
            faults: Faults::default(),
        }
    }
}
