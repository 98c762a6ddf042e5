//! What the segments say: their indexes, and the records from the newest readable checkpoint on.

use std::collections::BTreeMap;

use super::super::extents::Extents;
use super::super::index::SegmentIndex;
use super::super::read::FIRST_RECORD;
use super::super::scan::{Corruption, Expected, Later, SegmentFile, Walked};
use super::super::{IndexStands, Segment};
use super::feed::Feed;
use super::{Last, RecoverError, RecoveredRecord, Recovery, apply, first_expected, read_index};
use crate::format::record::RecordKind;

impl Recovery<'_> {
    /// Reads every index, and every record from the newest readable checkpoint on.
    pub(super) fn read_segments(
        &mut self,
        on_record: &mut dyn FnMut(RecoveredRecord),
    ) -> Result<(BTreeMap<u64, Segment>, Last), RecoverError> {
        let mut base = self.found.len() - 1;
        while !self.begins_with_checkpoint(base)? {
            if base == 0 {
                return Err(RecoverError::NoCheckpoint {
                    directory: self.config.directory.clone(),
                });
            }
            base -= 1;
        }
        let mut segments = BTreeMap::new();
        let mut last: Option<Expected> = None;
        let mut feed = Feed {
            speaks: self.config.speaks,
            on_record,
            first_unchosen: None,
            gap: false,
            behind_gaps: Later::default(),
            newest: None,
            error: None,
        };
        for at in 0..self.found.len() {
            let on_disk = match at >= base {
                true => None,
                false => self.index_of(at)?,
            };
            let (index, stands, end) = match on_disk {
                Some((index, stands, end)) => (index, Some(stands), end),
                None => {
                    let feed = (at >= base).then_some(&mut feed);
                    let first = match &last {
                        Some(next) => Some(next.number),
                        None => (self.found[at].number == 1).then_some(1),
                    };
                    let (index, next) = self.walk_segment(at, first, feed)?;
                    let end = next.offset;
                    last = Some(next);
                    let stands = self.index_of(at)?.map(|(_, stands, _)| stands);
                    (index, stands, end)
                }
            };
            segments.insert(
                self.found[at].number,
                Segment {
                    salt: self.found[at].salt,
                    end,
                    extents: Extents::of(&index),
                    index: Some(index),
                    index_stands: stands,
                    unsearchable: false,
                    last_used: 0,
                },
            );
        }
        let newest = feed.newest.unwrap_or_default();
        let known = Later::of(&newest).and(feed.behind_gaps);
        let learn_past = match feed.gap {
            true => known.accepted_up_to,
            false => newest.learn_past,
        };
        self.report.promised = known.promised;
        self.report.first_unchosen = newest.first_unchosen;
        self.report.learn_past = Some(learn_past).filter(|slot| slot.0 > 0);
        let Some(next) = last else {
            return Err(RecoverError::NoCheckpoint {
                directory: self.config.directory.clone(),
            });
        };
        self.report.last_record = next.number - 1;
        let accepted_up_to = newest.accepted_up_to.max(learn_past);
        Ok((
            segments,
            Last {
                next,
                accepted_up_to,
            },
        ))
    }

    fn begins_with_checkpoint(&mut self, at: usize) -> Result<bool, RecoverError> {
        let Some(scope) = self.scope(at) else {
            return Ok(false);
        };
        let path = self.found[at].path.clone();
        let mut file = SegmentFile::new(self.disk, path.clone());
        let whole = file
            .header(FIRST_RECORD, &scope)
            .and_then(|header| match header {
                Ok((header, _)) if header.kind == RecordKind::Checkpoint => {
                    Ok(file.payload(FIRST_RECORD, &header)?.is_ok())
                }
                _ => Ok(false),
            });
        whole.map_err(|e| self.io(&path, e))
    }

    /// The segment's index, as its successor holds it; with the segment's end.
    fn index_of(
        &mut self,
        at: usize,
    ) -> Result<Option<(SegmentIndex, IndexStands, u64)>, RecoverError> {
        let Some(successor) = self.found.get(at + 1) else {
            return Ok(None);
        };
        let path = successor.path.clone();
        let (Some(scope), Some(predecessor)) = (self.scope(at + 1), successor.predecessor) else {
            return Ok(None);
        };
        let mut file = SegmentFile::new(self.disk, path.clone());
        let read = read_index(self.config.speaks, &mut file, &scope, &predecessor);
        let read = read.map_err(|e| self.io(&path, e))?;
        Ok(read.map(|(index, stands)| (index, stands, predecessor.end)))
    }

    /// Reads the segment's records. Only the newest segments feed the engine.
    fn walk_segment(
        &mut self,
        at: usize,
        first_number: Option<u64>,
        mut feed: Option<&mut Feed<'_>>,
    ) -> Result<(SegmentIndex, Expected), RecoverError> {
        let path = self.found[at].path.clone();
        let mut index = SegmentIndex::default();
        let predecessor = self.found[at].predecessor;
        let start = predecessor.map(|predecessor| first_expected(&predecessor));
        let is_last = at + 1 == self.found.len();
        let scope = self.scope(at);
        let above = self.above(at);
        let mut file = SegmentFile::new(self.disk, path.clone());
        let start = match (start, scope) {
            (Some(start), Some(_)) => Some(start),
            (None, Some(scope)) => file
                .any_record(scope.log, above)
                .map_err(|source| RecoverError::Io {
                    path: path.clone(),
                    source,
                })?
                .map(|(offset, header, _)| Expected {
                    offset,
                    number: header.number,
                    chain: header.chain,
                }),
            _ => None,
        };
        let mut corruptions = Vec::new();
        if self.found[at].predecessor.is_none() {
            corruptions.push(Corruption {
                path: path.clone(),
                from: 0,
                to: start.map_or(u64::MAX, |start| start.offset),
                first_record: 0,
                last_record: 0,
                reason: "the first block cannot be read".to_owned(),
            });
            // A record in the first one's place may be a later one that strayed there.
            let is_first = |start: &Expected| {
                start.offset == FIRST_RECORD && first_number.is_none_or(|n| n == start.number)
            };
            if let Some(feed) = &mut feed
                && !start.as_ref().is_some_and(is_first)
            {
                let later = scope.map_or(Ok(Later::default()), |scope| {
                    file.later(FIRST_RECORD, &scope)
                });
                feed.gap(later.map_err(|source| RecoverError::Io {
                    path: path.clone(),
                    source,
                })?);
            }
        }
        let (Some(start), Some(scope)) = (start, scope) else {
            self.report.corruptions.append(&mut corruptions);
            let next = Expected {
                offset: 0,
                number: 0,
                chain: 0,
            };
            return Ok((index, next));
        };
        let mut records = 0;
        let end = file.walk(start, &scope, &mut |walked| match walked {
            Walked::Record {
                offset,
                header,
                payload,
            } => {
                records += 1;
                apply(&mut index, offset, header);
                if let Some(feed) = &mut feed {
                    feed.record(&path, offset, header, payload);
                }
            }
            Walked::Corrupt { corruption, later } => {
                corruptions.push(corruption);
                if let Some(feed) = &mut feed {
                    feed.gap(later);
                }
            }
        });
        let end = end.map_err(|source| RecoverError::Io {
            path: path.clone(),
            source,
        })?;
        self.report.records_read += records;
        self.report.corruptions.append(&mut corruptions);
        // Behind a use of it a used file goes on with what was there before.
        if is_last && end.torn && !self.found[at].birth.in_used_file {
            self.report.torn = Some((path, end.next.offset));
        }
        match feed.and_then(|feed| feed.error.take()) {
            Some(error) => Err(error),
            None => Ok((index, end.next)),
        }
    }
}
