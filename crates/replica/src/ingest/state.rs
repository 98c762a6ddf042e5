//! The state of the writer's side.

use std::collections::{BTreeMap, VecDeque};

use ops::{Buffer, ConnId};
use paxos::{Digest, StreamName, Time};
use wire::{Answer, ConnectionEnd, Mode};

use super::claim::Claim;
use super::gone::Gone;
use super::sums::Sums;
use crate::lent::Core;

/// An append request before its stream is open.
pub(super) struct Append {
    pub(super) from: Sink,
    pub(super) label: String,
    pub(super) continues: Option<(StreamName, u64)>,
    /// By which the client knows a stream of its own again whose opening it was not answered. Empty: none.
    pub(super) token: Vec<u8>,
    pub(super) checked: bool,
    pub(super) mode: Mode,
    pub(super) end: ConnectionEnd,
    /// The bytes that came after the request line.
    pub(super) leftover: Vec<u8>,
    /// The client's end of bytes came with it.
    pub(super) ended: bool,
    pub(super) since: Time,
    pub(super) told_at: Time,
    /// [`paxos::Engine::uncopied`] when its opening was proposed.
    pub(super) uncopied: u64,
}

impl Append {
    pub(super) fn waits_for_claims(&self) -> bool {
        matches!(self.from, Sink::Client(_)) && self.mode != Mode::TakeOver
    }
}

#[derive(Default)]
pub(crate) struct Ingest {
    pub(super) writer: Option<Writer>,
    /// Open-stream actions of ours that are proposed and not chosen.
    pub(super) opening: BTreeMap<StreamName, Append>,
    /// Appends that wait for their turn, or for phase 1 to finish.
    pub(super) queue: VecDeque<Append>,
    /// Clients that wait for close-stream actions that are proposed and not chosen.
    pub(super) closing: BTreeMap<StreamName, Vec<Close>>,
    /// Closes that came before their last bytes were chosen.
    pub(super) early_closes: Vec<Close>,
    /// The stream that nobody writes, and until when its writer may come back.
    pub(super) gone: Option<Gone>,
    pub(super) claim: Claim,
    /// Numbers the streams we open in this incarnation.
    pub(super) counter: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sink {
    Client(ConnId),
    /// A guest, which submits its bytes (`port`).
    Guest,
}

pub(super) struct Writer {
    pub(super) sink: Sink,
    pub(super) stream: StreamName,
    pub(super) end: ConnectionEnd,
    pub(super) fill: Option<Buffer>,
    pub(super) filled: usize,
    pub(super) receiving: bool,
    /// The client has sent its last byte.
    pub(super) ended: bool,
    pub(super) close_proposed: bool,
    /// Bytes proposed.
    pub(super) proposed: u64,
    pub(super) acknowledged: u64,
    pub(super) acknowledging: bool,
    /// The last position sent to the client.
    pub(super) told: u64,
    pub(super) last_batch: usize,
    /// [`paxos::Engine::uncopied`] when its opening was proposed: while it does not rise, all has its copies.
    pub(super) uncopied: u64,
    /// Only for a client that asked for checksums.
    pub(super) sums: Option<Sums>,
}

impl Writer {
    /// ‡ Whether something that it wrote may have fewer copies than its log's wish wants.
    pub(super) fn lacks_copies(&self, core: &Core) -> bool {
        self.sink != Sink::Guest && core.lacks_copies_since(self.uncopied)
    }

    pub(super) fn acknowledgement(&mut self, position: u64) -> Answer {
        let sum = self.sums.as_mut().and_then(|sums| sums.below(position));
        match sum {
            Some(Digest(crc32c)) => Answer::Checked { position, crc32c },
            None => Answer::Ack(position),
        }
    }
}

/// `close LOG stream=NAME at=POSITION`
#[derive(Clone, Copy)]
pub(super) struct Close {
    pub(super) conn: ConnId,
    pub(super) stream: StreamName,
    pub(super) at: u64,
    pub(super) since: Time,
    /// A close was agreed on and came to nothing since this one was asked for: the state is right now.
    /// Before, this node may not have heard of a stream or its end, or of the leader after it.
    pub(super) agreed: bool,
    /// [`paxos::Engine::uncopied`] when it was proposed.
    pub(super) uncopied: u64,
}

impl Ingest {
    pub(crate) fn is_waiting(&self) -> bool {
        !self.queue.is_empty() || !self.early_closes.is_empty()
    }

    /// This replica leads anew, or no longer: it has seen no writer go, and one may be on the way.
    pub(crate) fn forget_gone(&mut self) {
        self.gone = None;
        self.claim = Claim::default();
    }

    pub(crate) fn check_invariants(&self) {
        if let Some(writer) = &self.writer {
            paxos::invariant!(
                writer.told <= writer.acknowledged && writer.acknowledged <= writer.proposed,
                "I5: {} told, {} acknowledged, {} proposed",
                writer.told,
                writer.acknowledged,
                writer.proposed
            );
        }
    }

    pub(crate) fn writer_stream(&self) -> Option<StreamName> {
        self.writer.as_ref().map(|w| w.stream)
    }

    fn guest(&self) -> Option<&Writer> {
        let writer = self.writer.as_ref();
        writer.filter(|writer| writer.sink == Sink::Guest)
    }

    /// The stream that is written now, if it is the guest's own.
    pub(crate) fn guests_stream(&self) -> Option<StreamName> {
        Some(self.guest()?.stream)
    }

    /// The number of bytes of the guest's stream that were proposed.
    pub(crate) fn proposed(&self) -> u64 {
        self.guest().map_or(0, |writer| writer.proposed)
    }

    /// Counts bytes that the guest proposes. Returns where they begin in its stream.
    pub(crate) fn on_guest_proposes(&mut self, count: usize) -> u64 {
        let Some(writer) = self.writer.as_mut() else {
            return 0;
        };
        let position = writer.proposed;
        writer.proposed += count as u64;
        position
    }

    pub(crate) fn is_all_acknowledged(&self) -> bool {
        let writer = self.writer.as_ref();
        writer.is_none_or(|writer| writer.acknowledged == writer.proposed)
    }

    /// Queues a stream of the guest's own, whichever writer is active now.
    pub(crate) fn open_for_guest(&mut self, now: Time) {
        self.queue.push_back(Append {
            from: Sink::Guest,
            label: "commands".to_string(),
            continues: None,
            token: Vec::new(),
            checked: false,
            mode: Mode::TakeOver,
            end: ConnectionEnd::Cut,
            leftover: Vec::new(),
            ended: false,
            since: now,
            told_at: now,
            uncopied: 0,
        });
    }
}
