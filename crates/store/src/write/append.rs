//! Appending: a record is completed, and queued.

use std::ops::Range;

use formats::codec;
use formats::past::End;
use formats::record::{RECORD_HEADER, RecordHeader, RecordKind, ValueKind, total_length};
use ops::{BLOCK, Buffer, Shared, Slice};
use paxos::{Slot, SlotRange, StreamName, Value};

use super::super::index::{RecordPlace, Whereabouts};
use super::super::{NewRecord, RecordContext, Store};
use super::durable::Undurable;
use super::queue::Pending;

impl Store {
    /// Queues a record. Returns the frozen buffer of content, whose payload followers want too.
    pub fn append(
        &mut self,
        record: NewRecord,
        context: RecordContext,
        tag: u64,
    ) -> Option<Shared> {
        paxos::invariant!(
            context.promised >= self.writer.tail.context().promised,
            "I4: a promise is never forgotten"
        );
        let mut header = RecordHeader::default();
        match record {
            NewRecord::Accept {
                term,
                slots,
                value,
                digest,
                payload,
            } => {
                header.kind = RecordKind::Accept;
                header.term = term;
                header.slots = slots;
                header.digest = digest;
                self.writer.tail.accept(slots.end);
                match (value, payload) {
                    (Value::NoOp, None) => {
                        let buffer = self.blocks.take();
                        self.push(header, buffer, 0, context, Some(tag));
                        None
                    }
                    (Value::Action(action), None) => {
                        header.value = ValueKind::Action;
                        let encoded = codec::encode(self.open_version(), &*action);
                        // The engine, which knows no bytes, gives an action no digest.
                        header.digest = formats::digest(&encoded);
                        self.push_encoded(header, &encoded, context, Some(tag));
                        None
                    }
                    (Value::Content { stream, offset }, payload) => {
                        header.value = ValueKind::Content;
                        header.stream = stream;
                        header.position.0 = slots.start.0 - offset.0;
                        let length = match payload {
                            Some(_) => slots.len() as usize,
                            None => 0,
                        };
                        let keep = payload.is_some();
                        let buffer = payload.unwrap_or_else(|| self.blocks.take());
                        let shared = self.push(header, buffer, length, context, Some(tag));
                        shared.filter(|_| keep)
                    }
                    (_, Some(_)) => panic!("only content travels in buffers"),
                }
            }
            NewRecord::Promise(checkpoint) => {
                header.kind = RecordKind::Promise;
                self.push_encoded(
                    header,
                    &codec::encode(self.open_version(), &checkpoint),
                    context,
                    Some(tag),
                );
                None
            }
            NewRecord::State(checkpoint) => {
                header.kind = RecordKind::State;
                self.push_encoded(
                    header,
                    &codec::encode(self.open_version(), &checkpoint),
                    context,
                    Some(tag),
                );
                None
            }
            NewRecord::Bytes {
                stream,
                position,
                length,
                digest,
                buffer,
            } => {
                header.kind = RecordKind::Bytes;
                header.stream = stream;
                header.position = position;
                header.digest = digest;
                self.push(header, buffer, length, context, Some(tag))
            }
        }
    }

    pub(super) fn push_encoded(
        &mut self,
        header: RecordHeader,
        payload: &[u8],
        context: RecordContext,
        tag: Option<u64>,
    ) {
        let total = total_length(payload.len());
        let mut buffer = match total {
            BLOCK => self.blocks.take(),
            _ => Buffer::new(total),
        };
        buffer[RECORD_HEADER..][..payload.len()].copy_from_slice(payload);
        let header = RecordHeader {
            digest: formats::digest(payload),
            ..header
        };
        self.push(header, buffer, payload.len(), context, tag);
    }

    /// Completes the header, and queues the record.
    pub(super) fn push(
        &mut self,
        mut header: RecordHeader,
        mut buffer: Buffer,
        payload_length: usize,
        context: RecordContext,
        tag: Option<u64>,
    ) -> Option<Shared> {
        let total = total_length(payload_length);
        self.settle(&buffer);
        let writer = &mut self.writer;
        let open = writer
            .open
            .as_ref()
            .expect("recovery is followed by a roll");
        writer
            .tail
            .complete(&mut header, context, writer.durable.number());
        header.log = self.config.log;
        header.payload_length = payload_length as u32;
        // A buffer used before must not bring another client's bytes to this record's padding.
        buffer
            .part_mut(RECORD_HEADER + payload_length..total)
            .fill(0);
        let checksum = header.encode(open.salt, buffer.part_mut(0..RECORD_HEADER));
        let segment = open.segment;
        let half = open.size_target / 2;

        writer.tail.advance(&header, context, checksum);
        let offset = self.segments[&segment].end;
        if let Some(bytes) = header.bytes() {
            let place = match header.kind {
                RecordKind::Lost => Whereabouts::Lost,
                _ => Whereabouts::Record(RecordPlace::new(offset, total as u64)),
            };
            self.writer.durable.push(Undurable {
                number: header.number,
                segment,
                stream: header.stream,
                bytes,
                place,
            });
        }
        let open = self
            .segments
            .get_mut(&segment)
            .expect("the open segment exists");
        open.end = offset + total as u64;
        if open.end >= half && self.config.segment_bytes_max > 0 {
            self.ask_for_file(segment + 1);
        }
        let shared = buffer.freeze();
        self.queue(shared.slice(0..total), segment, header.number, tag);
        Some(shared)
    }

    pub(super) fn queue(&mut self, slice: Slice, segment: u64, number: u64, tag: Option<u64>) {
        if self.writer.failed {
            return;
        }
        let tail = &self.writer.tail;
        let (first_unchosen, end) = match number {
            0 => (Slot(0), End::default()),
            _ => (tail.context().first_unchosen, tail.end()),
        };
        self.writer.queue.push(Pending {
            segment,
            slice,
            number,
            first_unchosen,
            end,
            tag,
        });
    }

    /// Appends that these bytes turned out to be corrupt.
    pub(crate) fn append_lost(&mut self, stream: StreamName, bytes: Range<u64>) {
        if bytes.is_empty() || self.writer.failed {
            return;
        }
        if self.writer.open.is_none() {
            self.writer.lost_early.push((stream, bytes));
            return;
        }
        let mut header = RecordHeader {
            kind: RecordKind::Lost,
            stream,
            slots: SlotRange::new(Slot(0), Slot(bytes.end - bytes.start)),
            ..RecordHeader::default()
        };
        header.position.0 = bytes.start;
        let buffer = self.blocks.take();
        let context = self.writer.tail.context();
        self.push(header, buffer, 0, context, None);
    }
}
