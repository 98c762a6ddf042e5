//! The appender's thread: moves bytes from the machine's ring to its connection, and tells it what comes.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write as _};
use std::sync::Arc;
use std::time::Instant;

use talk::{AppendError, Input, Lent, Link, Output};

use super::shared::{Shared, State};
use crate::cluster::Cluster;
use crate::machine::Host;
use crate::sockets::{READ_BYTES, Sockets, retry_interrupted};

/// Parts per system call; at full chunks far more than a socket takes at once.
const PARTS_MAX: usize = 32;

/// Called on the appender's thread with each acknowledged chain position and the time at which it
/// arrived. It holds up the connection while it runs.
pub type OnAcknowledged = Box<dyn FnMut(u64, Instant) + Send>;

pub(super) struct Driver {
    shared: Arc<Shared>,
    cluster: Arc<Cluster>,
    sockets: Sockets,
    on_acknowledged: Option<OnAcknowledged>,
    outputs: VecDeque<Output>,
    received: Vec<u8>,
    lent: Vec<Lent>,
}

/// A task to be done without the lock.
enum Task {
    /// Send what is lent.
    Send(Link),
    /// Nothing but to wait; the writer wakes this thread when there is more.
    Sleep,
    /// More was written meanwhile, or more has to be told.
    Again,
    Over,
}

/// Tells the writer when the thread ends without an outcome, which would let it wait for ever.
struct Epitaph(Arc<Shared>);

impl Drop for Epitaph {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        let panicked = || Err(AppendError::Thread("it panicked".to_owned()));
        state.outcome.get_or_insert_with(panicked);
        self.0.ask_attention(&state);
        self.0.changed.notify_all();
    }
}

impl Driver {
    pub fn new(
        shared: Arc<Shared>,
        cluster: Arc<Cluster>,
        sockets: Sockets,
        on_acknowledged: Option<OnAcknowledged>,
    ) -> Self {
        Self {
            shared,
            cluster,
            sockets,
            on_acknowledged,
            outputs: VecDeque::new(),
            received: vec![0; READ_BYTES],
            lent: Vec::with_capacity(PARTS_MAX),
        }
    }

    pub fn run(mut self) {
        let _epitaph = Epitaph(self.shared.clone());
        // A look at the connection costs a system call, and poll, which every wait begins with, is one:
        // only sends without a wait in between need another.
        let mut sent = None;
        loop {
            if let Some(link) = sent.take() {
                self.receive(link);
            }
            match self.step() {
                Task::Over => return,
                Task::Again => {}
                Task::Send(link) => match self.send(link) {
                    Ok(true) => sent = Some(link),
                    Ok(false) => self.sleep(Some(link)),
                    Err(error) => self.sockets.lose(link, &error),
                },
                Task::Sleep => self.sleep(None),
            }
        }
    }

    /// Tells the machine what the sockets know, does what it wants, and looks for something to send.
    fn step(&mut self) -> Task {
        if let Some(told) = self.sockets.told() {
            self.tell(&told);
        }
        let mut state = self.shared.lock();
        if state.abandoned {
            state.outcome = Some(Err(AppendError::Dropped));
            return Task::Over;
        }
        self.cluster.handle(&mut state.machine, &Input::Time);
        take_outputs(&mut state, &mut self.outputs);
        if !self.outputs.is_empty() {
            drop(state);
            // To connect may take its time.
            for output in self.outputs.drain(..) {
                self.sockets.perform(output);
            }
            return Task::Again;
        }
        if let Some(outcome) = state.machine.outcome() {
            state.outcome = Some(outcome.clone());
            return Task::Over;
        }
        let link = state.machine.sending();
        if let Some(link) = link.filter(|link| self.sockets.stream(*link).is_some()) {
            state.machine.lend(PARTS_MAX, &mut self.lent);
            return Task::Send(link);
        }
        match self.sockets.has_told() || !self.shared.fall_asleep(&mut state) {
            true => Task::Again,
            false => Task::Sleep,
        }
    }

    /// Tells the machine, and wakes the threads that wait for the result.
    fn tell(&mut self, input: &Input) {
        let mut state = self.shared.lock();
        let before = state.machine.acknowledged();
        self.cluster.handle(&mut state.machine, input);
        take_outputs(&mut state, &mut self.outputs);
        let after = state.machine.acknowledged();
        if after == before {
            return;
        }
        if state.waiters > 0 {
            self.shared.changed.notify_all();
        }
        drop(state);
        if let Some(on_acknowledged) = &mut self.on_acknowledged {
            on_acknowledged(after, Instant::now());
        }
    }

    /// Sends once. False: the socket takes nothing more for now.
    fn send(&mut self, link: Link) -> io::Result<bool> {
        let Some(stream) = self.sockets.stream(link) else {
            self.lent.clear();
            return Ok(false);
        };
        let mut stream = stream;
        let mut parts = [IoSlice::new(&[]); PARTS_MAX];
        for (part, lent) in parts.iter_mut().zip(self.lent.iter()) {
            *part = IoSlice::new(lent.bytes());
        }
        let offered: usize = self.lent.iter().map(|part| part.bytes().len()).sum();
        let parts = &parts[..self.lent.len()];
        let sent = match retry_interrupted(|| stream.write_vectored(parts)) {
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => {
                self.lent.clear();
                return Err(error);
            }
        };
        // Lent chunks go back before the lock: a writer that waits for it then finds them free.
        self.lent.clear();
        let mut state = self.shared.lock();
        state.machine.sent(sent as u64);
        if state.waiters > 0 {
            self.shared.changed.notify_all();
        }
        Ok(sent == offered)
    }

    /// Waits for a connection, the writer, or what the machine waits for.
    fn sleep(&mut self, writes: Option<Link>) {
        let now = self.cluster.now();
        let deadline = {
            let state = self.shared.lock();
            state.machine.deadline()
        };
        let timeout = deadline.map(|deadline| deadline.saturating_sub(now));
        let ready = self.sockets.wait(timeout, writes, |_| true);
        self.shared.awake(&mut self.shared.lock());
        for link in ready.readable {
            self.receive(link);
        }
    }

    /// Receives as long as there is more, without waiting.
    fn receive(&mut self, link: Link) {
        let mut received = std::mem::take(&mut self.received);
        loop {
            match self.sockets.read(link, &mut received) {
                Ok(count) if count > 0 => {
                    self.tell(&Input::Received(link, received[..count].into()));
                    if count < received.len() {
                        break;
                    }
                }
                other => {
                    self.sockets.received_none(link, other);
                    break;
                }
            }
        }
        self.received = received;
    }
}

fn take_outputs(state: &mut State, outputs: &mut VecDeque<Output>) {
    while let Some(output) = state.machine.poll_output() {
        outputs.push_back(output);
    }
}
