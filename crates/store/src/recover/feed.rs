//! The facts that a start takes from the records: the bytes of each segment, and the engine's part.

use std::collections::BTreeMap;
use std::sync::Arc;

use formats::record::{RecordHeader, RecordKind, ValueKind};
use formats::version::Speaks;
use formats::{DecodeError, codec};
use paxos::{Action, Offset, Value};

use super::super::index::SegmentIndex;
use super::super::recovery::Taken;
use super::files::Sink;
use super::{RecoveredRecord, apply};

/// Turns records into the words of the engine's recovery.
pub(super) struct Feed<'a> {
    pub speaks: Speaks,
    pub on_record: &'a mut dyn FnMut(RecoveredRecord),
    /// The index of each segment, by its place among those that are there.
    pub indexes: BTreeMap<usize, SegmentIndex>,
}

impl Sink for Feed<'_> {
    fn record(
        &mut self,
        at: usize,
        offset: u64,
        header: &RecordHeader,
        payload: &[u8],
        taken: Taken,
    ) -> Result<(), DecodeError> {
        apply(self.indexes.entry(at).or_default(), offset, header, taken);
        if !taken.counts {
            return Ok(());
        }
        if let Some(record) = recovered_of(self.speaks, header, payload, taken)? {
            (self.on_record)(record);
        }
        if taken.chosen {
            (self.on_record)(RecoveredRecord::Chosen(header.first_unchosen));
        }
        Ok(())
    }

    fn gap(&mut self) {
        (self.on_record)(RecoveredRecord::Gap);
    }

    fn index(&mut self, of: usize, _: u64, payload: &[u8], vouches: bool) -> bool {
        let Ok(index) = SegmentIndex::decode(self.speaks, payload) else {
            return false;
        };
        if vouches {
            self.indexes.insert(of, index);
        }
        true
    }
}

/// The engine's word for a record that was found so.
pub(in super::super) fn recovered_of(
    speaks: Speaks,
    header: &RecordHeader,
    payload: &[u8],
    taken: Taken,
) -> Result<Option<RecoveredRecord>, DecodeError> {
    // Only a rule that is broken on purpose loses an action's payload here.
    match taken.is_whole || header.value == ValueKind::Content {
        true => recovered(speaks, header, payload),
        false => Ok(None),
    }
}

/// The engine's word for a record, if it has one.
pub fn recovered(
    speaks: Speaks,
    header: &RecordHeader,
    payload: &[u8],
) -> Result<Option<RecoveredRecord>, DecodeError> {
    Ok(Some(match header.kind {
        RecordKind::Checkpoint => RecoveredRecord::Checkpoint(codec::decode(speaks, payload)?),
        RecordKind::Promise => RecoveredRecord::Promise(codec::decode(speaks, payload)?),
        RecordKind::State => RecoveredRecord::State(codec::decode(speaks, payload)?),
        RecordKind::Accept => RecoveredRecord::Accept {
            term: header.term,
            slots: header.slots,
            value: match header.value {
                ValueKind::NoOp => Value::NoOp,
                ValueKind::Content => Value::Content {
                    stream: header.stream,
                    offset: Offset(header.slots.start.0 - header.position.0),
                },
                ValueKind::Action => {
                    Value::Action(Arc::new(codec::decode::<Action>(speaks, payload)?))
                }
            },
        },
        RecordKind::Bytes | RecordKind::Lost | RecordKind::Idle | RecordKind::Index => {
            return Ok(None);
        }
    }))
}
