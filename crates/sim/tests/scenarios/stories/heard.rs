//! The messages and records of one log on each node, to its peers and its disk.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use formats::frame::{
    CONTROL_PREFIX, DATA_HEADER, DataHeader, Frame, decode_control_body, decode_control_prefix,
};
use formats::record::{RecordHeader, RecordKind, ValueKind};
use formats::{LogId, Speaks};
use ops::{Completion, Op, Slice, Token};
use paxos::{Message, Role, SlotRange};
use sim::HostId;

use super::words::{bytes, said};
use crate::stage::{LOG, Stage};

/// The first log that is no directory.
const MAIN: LogId = LogId(1);

type Lines = Rc<RefCell<Vec<String>>>;

/// Records on their way to a disk, by the write that they are in.
type Written = Rc<RefCell<BTreeMap<(HostId, Token), Vec<String>>>>;

/// From now on all of it is written down. Heartbeats are left out, and what they carry.
pub fn listen(stage: &mut Stage, lines: &Lines) {
    let nodes = stage.nodes.clone();
    let number = move |host: HostId| nodes.iter().position(|node| *node == host);
    let written = Written::default();
    listen_to_disks(stage, lines, &written, number.clone());
    let lines = lines.clone();
    stage.world.before_op(move |host, to, op| {
        let Some(node) = number(host).map(|index| index + 1) else {
            return;
        };
        let mut lines = lines.borrow_mut();
        match op {
            Op::Send { slices, .. } => {
                if let Some(to) = to.and_then(&number).map(|index| index + 1) {
                    let sent = frames(slices).into_iter();
                    lines.extend(sent.map(|frame| format!("{node} -> {to}  {frame}")));
                }
            }
            Op::Write { token, slices, .. } => {
                let records = slices.iter().filter_map(|slice| record(slice));
                let records: Vec<String> = records.collect();
                lines.extend(
                    records
                        .iter()
                        .map(|record| format!("{node} disk: {record}")),
                );
                written.borrow_mut().insert((host, *token), records);
            }
            _ => {}
        }
    });
}

fn listen_to_disks(
    stage: &mut Stage,
    lines: &Lines,
    written: &Written,
    number: impl Fn(HostId) -> Option<usize> + 'static,
) {
    let (lines, written) = (lines.clone(), written.clone());
    stage.world.on_disk_done(move |host, completion| {
        let Completion::Done { token, result } = completion else {
            return;
        };
        let Some(records) = written.borrow_mut().remove(&(host, *token)) else {
            return;
        };
        let Some(node) = number(host).filter(|_| result.is_ok()) else {
            return;
        };
        let whats = records
            .iter()
            .filter_map(|record| record.split(": ").next());
        let durable = whats.map(|what| format!("{} durable: {what}", node + 1));
        lines.borrow_mut().extend(durable);
    });
}

fn frames(slices: &[Slice]) -> Vec<String> {
    let mut frames = Vec::new();
    let mut slices = slices.iter();
    while let Some(slice) = slices.next() {
        match slice.get(..4) {
            Some(b"LBct") => control(slice, &mut frames),
            Some(b"LBdt") => {
                let Ok(header) = DataHeader::decode(Speaks::ALL, slice) else {
                    continue;
                };
                let payload = match header.payload_length() {
                    0 => &[][..],
                    _ if slice.len() > DATA_HEADER => &slice[DATA_HEADER..],
                    _ => slices.next().map_or(&[][..], |slice| &slice[..]),
                };
                frames.extend(data(&header, payload));
            }
            _ => {}
        }
    }
    frames
}

fn data(header: &DataHeader, payload: &[u8]) -> Option<String> {
    match header {
        DataHeader::Propose(header) if header.log == MAIN => {
            let proposal = header.proposal(Speaks::ALL, payload).ok()?;
            Some(said(&Message::Propose(proposal)))
        }
        DataHeader::Bytes(header) if header.log == MAIN => {
            let count = u64::from(header.payload_length);
            Some(bytes(header.stream, header.position.0, count))
        }
        _ => None,
    }
}

fn control(mut rest: &[u8], frames: &mut Vec<String>) {
    while let Some((prefix, after)) = rest.split_first_chunk::<CONTROL_PREFIX>() {
        let Ok(prefix) = decode_control_prefix(Speaks::ALL, prefix) else {
            return;
        };
        let Some((body, after)) = after.split_at_checked(prefix.body_length()) else {
            return;
        };
        match decode_control_body(&prefix, body) {
            Ok(Frame::Engine { log: MAIN, message }) => frames.push(said(&message)),
            Ok(Frame::FetchBytes(fetch)) if fetch.log == MAIN => {
                let count = fetch.to.0 - fetch.from.0;
                let wanted = bytes(fetch.stream, fetch.from.0, count);
                frames.push(format!("fetch {wanted}"));
            }
            Ok(Frame::BytesNotHere(lacked)) if lacked.log == MAIN => {
                frames.push(format!(
                    "not here: byte {} of {}",
                    lacked.from, lacked.stream
                ));
            }
            _ => {}
        }
        rest = after;
    }
}

fn record(slice: &[u8]) -> Option<String> {
    let (header, ..) = RecordHeader::decode(slice, None).ok()?;
    if header.log != MAIN {
        return None;
    }
    let count = match header.kind {
        RecordKind::Bytes => u64::from(header.payload_length),
        _ => header.slots.len(),
    };
    let content = bytes(header.stream, header.position.0, count);
    let what = match (header.kind, header.value) {
        (RecordKind::Accept, ValueKind::Content) => {
            format!("accepted {} in {}: {content}", header.slots, header.term)
        }
        (RecordKind::Accept, _) => format!("accepted {} in {}", header.slots, header.term),
        (RecordKind::Checkpoint, _) => String::from("a segment begins with a checkpoint"),
        (RecordKind::Promise, _) => format!("promised {}", header.promised.0),
        (RecordKind::State, _) => format!("the state of a peer, below {}", header.first_unchosen),
        (RecordKind::Bytes, _) => format!("{content}, fetched"),
        (RecordKind::Lost, _) => format!("{content}, lost"),
        _ => return None, // a watermark alone
    };
    Some(what)
}

/// Each node's holdings of the log: chosen slots, and the bytes of each stream that can be read there.
pub fn drawing(stage: &Stage) -> Vec<String> {
    let look = stage.look();
    let row = |index: usize| {
        let node = index + 1;
        let Some(view) = look.view_of(index, LOG) else {
            return format!("{node} is down");
        };
        let role = match view.role {
            Role::Leader { term } => format!("leads in {term}"),
            Role::Follower { leader, term } => format!("follows {leader} in {term}"),
            Role::Candidate => String::from("is a candidate"),
        };
        let chosen = SlotRange::new(view.state.trimmed, view.state.next);
        let mut row = format!("{node} {role}: chosen {chosen}");
        for stream in &view.state.streams {
            row += &format!("  {} {}..{}", stream.name, stream.trimmed, stream.length);
        }
        for (stream, gap) in view.missing() {
            row += &format!(", misses {}..{} of {stream}", gap.start, gap.end);
        }
        row
    };
    (0..stage.nodes.len()).map(row).collect()
}
