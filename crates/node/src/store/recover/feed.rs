//! What recovery tells the engine, record by record.

use std::path::Path;
use std::sync::Arc;

use paxos::{Action, Offset, Slot, Value};

use super::super::scan::Later;
use super::{RecoverError, RecoveredRecord};
use crate::format::DecodeError;
use crate::format::codec;
use crate::format::record::{RecordHeader, RecordKind, ValueKind};
use crate::version::Speaks;

/// Turns records into what the engine's recovery is told.
pub(super) struct Feed<'a> {
    pub speaks: Speaks,
    pub on_record: &'a mut dyn FnMut(RecoveredRecord),
    pub first_unchosen: Option<Slot>,
    /// No full checkpoint followed the corruption.
    pub gap: bool,
    /// What is told by records behind what was lost, also by those that are not whole.
    pub behind_gaps: Later,
    pub newest: Option<RecordHeader>,
    pub error: Option<RecoverError>,
}

impl Feed<'_> {
    pub fn gap(&mut self, later: Later) {
        self.gap = true;
        self.behind_gaps = self.behind_gaps.and(later);
        (self.on_record)(RecoveredRecord::Gap);
    }

    pub fn record(&mut self, path: &Path, offset: u64, header: &RecordHeader, payload: &[u8]) {
        if self.error.is_some() {
            return;
        }
        self.newest = Some(*header);
        match recovered(self.speaks, header, payload) {
            Ok(record) => {
                let is_full = matches!(
                    record,
                    Some(
                        RecoveredRecord::Checkpoint(_)
                            | RecoveredRecord::Promise(_)
                            | RecoveredRecord::State(_)
                    )
                );
                self.gap &= !is_full;
                if let Some(record) = record {
                    (self.on_record)(record);
                }
                if !self.gap && self.first_unchosen < Some(header.first_unchosen) {
                    self.first_unchosen = Some(header.first_unchosen);
                    (self.on_record)(RecoveredRecord::Chosen(header.first_unchosen));
                }
            }
            Err(reason) => {
                self.error = Some(RecoverError::NotUnderstood {
                    path: path.to_owned(),
                    offset,
                    reason,
                });
            }
        }
    }
}

fn recovered(
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
