//! The work that is counted: the steady state of each part that a batch passes through.

use std::hint::black_box;

use clap::ValueEnum;
use formats::frame::{
    CONTROL_PREFIX, DataHeader, Frame, ProposeHeader, decode_control_body, decode_control_prefix,
    encode_control,
};
use formats::record::{RecordHeader, RecordKind, ValueKind};
use formats::{LogId, RECORD_HEADER, Speaks};
use paxos::{
    Message, NodeId, Offset, PromisedTerm, Proposal, Slot, SlotRange, StreamName, StreamPosition,
    StreamSequence, Term, Value,
};

use super::cluster::Cluster;

#[allow(dead_code, reason = "its `main` is the example's")]
#[path = "../../../../paxos/examples/batches.rs"]
mod batches;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// Proposed, accepted by three engines, chosen.
    Engine,
    /// The record and the frames of a batch, written and read, with all checksums.
    Formats,
    /// Three nodes on a simulated kernel, from nothing to a log that is led.
    Start,
    /// The same three, from the client's bytes to its ack.
    Nodes,
}

/// Long enough for queues and memory to be warm.
const WARM_UP: u64 = 500;
const PAYLOAD_BYTES: usize = 4096;

impl Work {
    pub const ALL: [Work; 4] = [Work::Engine, Work::Formats, Work::Start, Work::Nodes];

    pub fn name(self) -> &'static str {
        match self {
            Work::Engine => "engine",
            Work::Formats => "formats",
            Work::Start => "start",
            Work::Nodes => "nodes",
        }
    }

    /// The work that is done before the first batch, and counted with it.
    pub fn begins_with(self) -> Option<Work> {
        (self == Work::Nodes).then_some(Work::Start)
    }

    /// The number of batches; one start.
    pub fn times(self) -> u64 {
        match self {
            Work::Engine => 5_000,
            Work::Formats => 2_000,
            Work::Start => 1,
            Work::Nodes => 500,
        }
    }

    /// Callgrind's patterns of the functions that are counted. No counted function calls another.
    pub fn counted(self) -> &'static [&'static str] {
        match self {
            Work::Engine => &["*work::counted_engine*"],
            Work::Formats => &["*work::counted_formats*"],
            Work::Start | Work::Nodes => &[
                "<node::node::Node as logberg_ops::op::Machine>::handle*",
                "<node::node::Node as logberg_ops::op::Machine>::on_time*",
            ],
        }
    }

    /// The bytes of a batch of the written figures. An engine knows slots only, each of which is a byte.
    pub fn batch_bytes(self) -> u64 {
        match self {
            Work::Engine => batches::SLOTS,
            _ => PAYLOAD_BYTES as u64,
        }
    }

    /// So often, with batches of so many bytes.
    pub fn perform(self, times: u64, bytes: u64) {
        match self {
            Work::Engine => {
                let mut cluster = batches::Cluster::new();
                let push = |cluster: &mut batches::Cluster, batch| {
                    cluster.push_of(StreamPosition(batch * bytes), bytes);
                };
                (0..WARM_UP).for_each(|batch| push(&mut cluster, batch));
                counted_engine(&mut cluster, WARM_UP..WARM_UP + times, push);
            }
            Work::Formats => {
                let payload: Vec<u8> = (0..bytes as usize).map(|at| (at * 7) as u8).collect();
                counted_formats(&payload, times);
            }
            Work::Start => drop(Cluster::new()),
            Work::Nodes => Cluster::new().append(times, bytes),
        }
    }
}

#[inline(never)]
fn counted_engine(
    cluster: &mut batches::Cluster,
    batches: std::ops::Range<u64>,
    push: impl Fn(&mut batches::Cluster, u64),
) {
    batches.for_each(|batch| push(cluster, batch));
}

#[inline(never)]
fn counted_formats(payload: &[u8], times: u64) {
    (0..times).for_each(|batch| one_batch(black_box(payload), batch));
}

fn one_batch(payload: &[u8], batch: u64) {
    let log = LogId(1);
    let term = Term::default();
    let position = StreamPosition(batch * payload.len() as u64);
    let slots = SlotRange::new(Slot(position.0), Slot(position.0 + payload.len() as u64));
    let stream = StreamName {
        owner: NodeId(1),
        sequence: StreamSequence {
            incarnation: 1,
            counter: 1,
        },
    };
    let proposal = Proposal {
        term,
        slots,
        value: Value::Content {
            stream,
            offset: Offset(0),
        },
        digest: formats::digest(payload),
        chosen_up_to: slots.start,
    };
    // The leader's record, and the bytes of a follower's.
    let record = RecordHeader {
        kind: RecordKind::Accept,
        value: ValueKind::Content,
        log,
        number: batch + 1,
        watermark: batch,
        chain: 0,
        promised: PromisedTerm(term),
        first_unchosen: slots.start,
        accepted_up_to: slots.end,
        learn_past: Slot(0),
        term,
        slots,
        stream,
        position,
        payload_length: payload.len() as u32,
        digest: proposal.digest,
    };
    let mut block = [0; RECORD_HEADER];
    record.encode(7, &mut block);
    let (read, ..) = RecordHeader::decode(&block, Some(7)).expect("as it was written");
    assert!(read.payload_is_right(payload));
    // The leader's frame, and the follower's answer.
    let header = DataHeader::Propose(ProposeHeader::new(log, &proposal, payload.len()));
    let bytes = header.encode(Speaks::THIS.newest());
    let read = DataHeader::decode(Speaks::THIS, &bytes).expect("as it was written");
    assert!(read.payload_is_right(payload));
    if let DataHeader::Propose(header) = black_box(read) {
        black_box(header.proposal(Speaks::THIS, payload)).expect("as it was written");
    }
    let message = Message::Accepted {
        term,
        slots,
        digest: proposal.digest,
    };
    let bytes = encode_control(Speaks::THIS.newest(), &Frame::Engine { log, message });
    let (prefix, body) = bytes.split_at(CONTROL_PREFIX);
    let prefix = prefix.try_into().expect("it is so long");
    let prefix = decode_control_prefix(Speaks::THIS, prefix).expect("as it was written");
    black_box(decode_control_body(&prefix, body)).expect("as it was written");
}
