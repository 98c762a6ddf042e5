//! A small state machine in memory, as `commands` has it, and the fate of each command that was called here.
//!
//! ```text
//!  call ─▶ outbox ─ Begins ─▶ submitted: ⟨stream, end⟩ ─┬─ applied from that stream ─▶ Answered
//!                    │                                  ├─ the stream has ended below it ─▶ Never
//!                    │                                  └─ the stream was trimmed before it was read ─▶ Unknown
//!                    └─ this node no longer leads ─▶ Never
//! ```

use std::collections::VecDeque;

use commands::{Applied, Batch, Frame, Halted, Replica, SessionBounds, StateMachine, TooLarge};
use paxos::mutation::{self, Mutation};
use paxos::{StreamName, Time};
use replica::{Event, NotNow, Port};

use super::Hosted;

/// The number of a call here, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// A command's fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The command is chosen, and applied here; a command of a session may have been applied before.
    Answered(Applied),
    /// The command was not applied, and never will be: it may be called again.
    Never,
    /// The command was applied or never will be, and the proof was trimmed. A command of a session may be
    /// called again.
    Unknown,
}

/// The bytes that the outbox holds; a call on top of them is refused.
const OUTBOX_MAX: usize = 4 << 20;

pub struct Small<M: StateMachine> {
    replica: Replica<M>,
    calls: u64,
    /// The commands not submitted: the frame of each, in order.
    outbox: VecDeque<(CallId, Vec<u8>)>,
    outbox_bytes: usize,
    /// The commands submitted to that stream, in order, each with the end of its frame there. A snapshot
    /// stands before them.
    submitted: VecDeque<Submitted>,
    outcomes: VecDeque<(CallId, Outcome)>,
    /// The stream that the last snapshot begins.
    snapshot_in: Option<StreamName>,
    snapshot_bytes: u64,
    /// The stream before which all is to be trimmed, which is proposed.
    trimming: Option<StreamName>,
    /// The growth of the log after which a snapshot is written, and all before it trimmed.
    growth_bytes: u64,
    own: Option<StreamName>,
}

struct Submitted {
    call: CallId,
    stream: StreamName,
    end: u64,
}

/// The reason why a command is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotCalled {
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error("too much waits already: call again in a moment")]
    Later,
}

impl<M: StateMachine> Small<M> {
    pub fn new(machine: M, bounds: SessionBounds, growth_bytes: u64) -> Small<M> {
        Small {
            replica: Replica::new(machine, bounds),
            calls: 0,
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            submitted: VecDeque::new(),
            outcomes: VecDeque::new(),
            snapshot_in: None,
            snapshot_bytes: 0,
            trimming: None,
            growth_bytes,
            own: None,
        }
    }

    /// The machine, as far as this node has taken its log.
    pub fn replica(&self) -> &Replica<M> {
        &self.replica
    }

    pub fn halted(&self) -> Option<&Halted> {
        self.replica.halted()
    }

    /// Calls a command. Its outcome follows, if this node leads: else it is `Never` at once.
    pub fn call(&mut self, frame: &Frame<'_>) -> Result<CallId, NotCalled> {
        let mut batch = Batch::default();
        batch.push(frame)?;
        let bytes = batch.take();
        if self.outbox_bytes > 0 && self.outbox_bytes + bytes.len() > OUTBOX_MAX {
            return Err(NotCalled::Later);
        }
        self.calls += 1;
        self.outbox_bytes += bytes.len();
        self.outbox.push_back((CallId(self.calls), bytes));
        Ok(CallId(self.calls))
    }

    pub fn next_outcome(&mut self) -> Option<(CallId, Outcome)> {
        self.outcomes.pop_front()
    }

    fn on_bytes(&mut self, stream: StreamName, position: u64, bytes: &[u8]) {
        self.replica.push(bytes);
        // A halted replica applies nothing more, and says why (`halted`).
        while let Ok(Some(applied)) = self.replica.apply_next() {
            if let Applied::Snapshot { bytes, .. } = applied {
                self.snapshot_in = Some(stream);
                self.snapshot_bytes = bytes;
                continue;
            }
            let is_own = |first: &Submitted| first.stream == stream;
            if let Some(first) = self.submitted.pop_front_if(|first| is_own(first)) {
                paxos::invariant!(
                    first.end <= position + bytes.len() as u64,
                    "a command is applied before it is chosen whole"
                );
                self.outcomes
                    .push_back((first.call, Outcome::Answered(applied)));
            }
        }
    }

    /// Gives this outcome to all commands left of those submitted to that stream.
    fn end_submitted(&mut self, stream: StreamName, outcome: &Outcome) {
        while let Some(first) = self.submitted.pop_front_if(|first| first.stream == stream) {
            self.outcomes.push_back((first.call, outcome.clone()));
        }
    }

    fn begin(&mut self, stream: StreamName, port: &mut Port<'_>) {
        self.own = Some(stream);
        self.trimming = None;
        if !self.has_grown(port) {
            return;
        }
        let parts = self.replica.snapshot();
        let snapshot: Vec<u8> = parts.into_iter().flatten().flatten().collect();
        if !snapshot.is_empty() && port.submit(&snapshot).is_err() {
            // Only a full disk comes to this: the next stream begins with a snapshot.
            self.snapshot_bytes = 0;
        }
    }

    fn has_grown(&self, port: &Port<'_>) -> bool {
        port.output_bytes() > self.growth_bytes + 3 * self.snapshot_bytes
    }

    fn submit(&mut self, port: &mut Port<'_>) {
        while let Some((call, frame)) = self.outbox.front() {
            match port.submit(frame) {
                Ok(end) => {
                    let Some(stream) = self.own else { return };
                    self.submitted.push_back(Submitted {
                        call: *call,
                        stream,
                        end,
                    });
                }
                Err(NotNow::Later | NotNow::NotWriting) => return,
                Err(NotNow::Full(_)) => self.outcomes.push_back((*call, Outcome::Never)),
            }
            self.outbox_bytes -= frame.len();
            self.outbox.pop_front();
        }
    }

    fn give_up_outbox(&mut self) {
        self.outbox_bytes = 0;
        for (call, _) in self.outbox.drain(..) {
            self.outcomes.push_back((call, Outcome::Never));
        }
    }
}

impl<M: StateMachine> Hosted for Small<M> {
    fn on_event(&mut self, event: Event, port: &mut Port<'_>) {
        match event {
            Event::Bytes {
                stream,
                position,
                bytes,
                ..
            } => self.on_bytes(stream, position, &bytes),
            Event::Ended { stream, length } => {
                // A frame that was torn was not chosen whole, on any replica.
                let _ = self.replica.end_of_stream();
                let outcome = length.map_or(Outcome::Unknown, |_| Outcome::Never);
                self.end_submitted(stream, &outcome);
            }
            Event::Skipped { .. } => {
                self.replica.skip();
                for skipped in self.submitted.drain(..) {
                    self.outcomes.push_back((skipped.call, Outcome::Unknown));
                }
            }
            Event::Begins { stream } => self.begin(stream, port),
            Event::Deposed { stream } => {
                self.own = None;
                if mutation::is(Mutation::GuestDeniedAtOnce) {
                    self.end_submitted(stream, &Outcome::Never);
                }
            }
        }
    }

    fn on_settled(&mut self, _now: Time, port: &mut Port<'_>) {
        if !port.is_leading() {
            return self.give_up_outbox();
        }
        // ‡ The stream of the earlier leader ends, whether anybody calls here or not: only then does that
        // leader know what was never chosen.
        port.open();
        self.submit(port);
        match self.snapshot_in {
            Some(stream) if port.has_more_before(stream) => {
                if self.trimming != Some(stream) && port.trim_before(stream) {
                    self.trimming = Some(stream);
                }
            }
            _ => {
                if port.has_begun() && self.has_grown(port) {
                    port.open_anew();
                }
            }
        }
    }
}
