//! A cluster that speaks docs/wire.md, keeps its truth in memory, and misbehaves by plan.
//!
//! The truth follows the rules of streams (one active writer, exact continuation), so a test can
//! compare what the log holds with what the client was told.

#![allow(dead_code, reason = "each test binary uses its own part of the fake")]

mod serve;
mod truth;

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use client::{Client, Timeouts};
pub use truth::{FakeStream, Truth};

/// The fault of one append connection.
#[derive(Clone, Debug)]
pub enum AppendFault {
    Healthy,
    /// Takes the connection and drops it before the stream is opened.
    DropBefore,
    /// Opens the stream, and drops the connection without saying so.
    LoseAnswer,
    /// Opens the stream and says nothing, for ever.
    SilentAfter,
    /// Proposes to open the stream and is deposed; the next leader opens it.
    Deposed,
    /// Takes the request and says nothing, for ever.
    SilentBefore,
    /// Takes in `receive` bytes (or what comes), stores some, acknowledges some, and breaks.
    Cut {
        receive: usize,
        store: usize,
        acknowledge: usize,
        change_leader: bool,
        /// Say why, with this line, before the end.
        last_words: &'static str,
    },
    /// Opens the stream, reads and stores, and never acknowledges.
    NeverAcknowledge,
    /// Opens the stream and never reads.
    NeverRead,
    /// Answers the request with this, and ends.
    Answer(Vec<u8>),
    /// Acknowledges more than it got.
    AcknowledgeTooMuch,
    /// Stores another byte than was sent in this place.
    StoreOther(u64),
}

#[derive(Clone, Debug)]
pub enum CloseFault {
    Healthy,
    DropBefore,
    LoseAnswer,
    /// The leader changed: the stream is cut, and can no longer be closed.
    Cut,
    /// The same, and the client is left without an answer.
    CutInSilence,
    /// It is refused, and the stream stays as it is.
    Refuse,
}

#[derive(Clone, Debug)]
pub enum ReadFault {
    Healthy,
    DropBefore,
    /// Breaks after this many bytes of payload, in the middle of a chunk if need be.
    CutAt(usize),
    /// Sends this in the place of the chunk at or after the position.
    InsteadAt(usize, Vec<u8>),
    WrongChecksumAt(usize),
    SilentAt(usize),
    /// Gives signs of life from there on, and nothing else.
    AliveAt(usize),
    /// Sends each chunk in twenty pieces, with this before each.
    Slow(Duration),
}

pub struct FakeCluster {
    pub addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
}

struct Shared {
    truth: Mutex<Truth>,
    stopping: AtomicBool,
    dead: Vec<AtomicBool>,
    silent: Vec<AtomicBool>,
    addresses: Vec<SocketAddr>,
}

impl FakeCluster {
    /// Starts as many nodes; the first leads.
    pub fn start(nodes: usize) -> Self {
        let listeners: Vec<_> = (0..nodes)
            .map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"))
            .collect();
        let addresses: Vec<_> = listeners
            .iter()
            .map(|listener| listener.local_addr().expect("bound"))
            .collect();
        let shared = Arc::new(Shared {
            truth: Mutex::new(Truth::default()),
            stopping: AtomicBool::new(false),
            dead: (0..nodes).map(|_| AtomicBool::new(false)).collect(),
            silent: (0..nodes).map(|_| AtomicBool::new(false)).collect(),
            addresses: addresses.clone(),
        });
        for (node, listener) in listeners.into_iter().enumerate() {
            let shared = shared.clone();
            std::thread::spawn(move || serve::accept(&shared, node, &listener));
        }
        Self { addresses, shared }
    }

    /// A client that knows all nodes, with short timeouts.
    pub fn client(&self) -> Client {
        self.client_of(0..self.addresses.len())
    }

    pub fn client_of(&self, nodes: impl IntoIterator<Item = usize>) -> Client {
        let servers = nodes.into_iter().map(|node| self.address(node)).collect();
        Client::new(servers, timeouts())
    }

    pub fn address(&self, node: usize) -> String {
        self.addresses[node].to_string()
    }

    pub fn truth(&self) -> MutexGuard<'_, Truth> {
        self.shared.lock()
    }

    pub fn plan_appends(&self, faults: impl IntoIterator<Item = AppendFault>) {
        self.truth().append_plan = faults.into_iter().collect();
    }

    pub fn plan_closes(&self, faults: impl IntoIterator<Item = CloseFault>) {
        self.truth().close_plan = faults.into_iter().collect();
    }

    pub fn plan_reads(&self, faults: impl IntoIterator<Item = ReadFault>) {
        self.truth().read_plan = faults.into_iter().collect();
    }

    /// From now on the node drops every connection at once.
    pub fn kill(&self, node: usize) {
        self.shared.dead[node].store(true, Ordering::SeqCst);
    }

    /// From now on the node takes connections and says nothing, on those it has neither.
    pub fn silence(&self, node: usize) {
        self.shared.silent[node].store(true, Ordering::SeqCst);
    }

    /// It speaks again, on all connections.
    pub fn give_voice(&self, node: usize) {
        self.shared.silent[node].store(false, Ordering::SeqCst);
    }

    /// Another leader, in a later term. The old one's writer is cut, whether it hears of it or not.
    pub fn elect(&self, node: usize) {
        let mut truth = self.truth();
        truth.leader = node;
        truth.term += 1;
        if let Some(active) = truth.active {
            truth.cut(active);
        }
    }
}

impl Drop for FakeCluster {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().expect("no test panics with the truth")
    }

    fn stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn is_silent(&self, node: usize) -> bool {
        self.silent[node].load(Ordering::SeqCst) && !self.stopping()
    }

    fn is_dead(&self, node: usize) -> bool {
        self.dead[node].load(Ordering::SeqCst)
    }
}

pub fn timeouts() -> Timeouts {
    Timeouts {
        connect: Duration::from_millis(500),
        silence: Duration::from_millis(250),
        total: Duration::from_secs(5),
    }
}

/// To wait in vain; long enough to open what is there.
pub fn hasty() -> Timeouts {
    Timeouts {
        total: Duration::from_millis(1500),
        ..timeouts()
    }
}

/// Bytes of which no two places look alike.
pub fn payload(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .collect()
}

fn next<T>(plan: &mut VecDeque<T>, healthy: T) -> T {
    plan.pop_front().unwrap_or(healthy)
}
