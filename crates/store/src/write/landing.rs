//! Bytes that are received where their record will stand (`ops`).

use std::sync::Arc;

use formats::record::total_length;
use ops::{Buffer, Place, Reservation};
use paxos::mutation::{self, Mutation};

use super::super::Store;

/// A buffer that bytes are received into, at the end of the open segment.
#[derive(Debug)]
pub(super) struct Reserved {
    place: Place,
    buffer: Arc<dyn Reservation>,
}

impl Store {
    /// A buffer for a batch of at most so many bytes, at the place of the next record. `None` where the
    /// kernel has none, or another one is being received into.
    pub fn land(&mut self, payload_bytes_max: usize) -> Option<Buffer> {
        let landing = self.config.landing.as_ref()?;
        if self.writer.failed {
            return None;
        }
        if let Some(reserved) = &self.writer.reserved
            && reserved.buffer.is_held()
        {
            return None;
        }
        let open = self.writer.open.as_ref()?;
        let end = self.segments.get(&open.segment)?.end;
        // The record would be the first of the next segment.
        if end >= open.size_target {
            return None;
        }
        let place = self.next_place()?;
        let length = total_length(payload_bytes_max);
        let (buffer, reservation) = landing.reserve(place, length)?;
        self.writer.reserved = Some(Reserved {
            place,
            buffer: reservation,
        });
        Some(buffer)
    }

    /// The place of the next record, if the open segment's file is there.
    fn next_place(&self) -> Option<Place> {
        let open = self.writer.open.as_ref()?;
        let writing = self.writer.writing.as_ref()?;
        let offset = self.segments.get(&open.segment)?.end;
        (writing.segment == open.segment).then_some(Place {
            file: writing.file,
            offset,
        })
    }

    /// Settles the place of the next record, which comes from this buffer: any other buffer gives the place
    /// up, and this one keeps it only if it is its own.
    pub(super) fn settle(&mut self, buffer: &Buffer) {
        let Some(reserved) = self.writer.reserved.take() else {
            return;
        };
        if !reserved.buffer.is_held() {
            return;
        }
        let next = self.next_place();
        let in_place = Some(reserved.place) == next && buffer.place() == next;
        match in_place {
            true => self.writer.landed += 1,
            false => {
                if !mutation::is(Mutation::PlaceNotGivenUp) {
                    reserved.buffer.give_up();
                }
                self.writer.places_given_up += 1;
            }
        }
    }
}
