//! Bytes that are received where their record will stand (`ops`).

use std::sync::Arc;

use formats::record::total_length;
use ops::{Buffer, Place, Reservation};
use paxos::mutation::{self, Mutation};

use super::super::Store;

#[derive(Default)]
pub(crate) struct Landings {
    reserved: Option<Reserved>,
    landed: u64,
    given_up: u64,
}

/// A buffer that bytes are received into, at the end of the open segment.
#[derive(Debug)]
struct Reserved {
    place: Place,
    buffer: Arc<dyn Reservation>,
}

impl Landings {
    /// Records that stand where they were received, and places that something else had to have.
    pub fn counts(&self) -> (u64, u64) {
        (self.landed, self.given_up)
    }
}

impl Store {
    /// A buffer for a batch of at most so many bytes, at the place of the next record. `None` where the
    /// kernel has none, or another one is being received into.
    pub fn land(&mut self, payload_bytes_max: usize) -> Option<Buffer> {
        let landing = self.config.landing.as_ref()?;
        if self.writer.failed {
            return None;
        }
        if let Some(reserved) = &self.writer.landings.reserved
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
        self.writer.landings.reserved = Some(Reserved {
            place,
            buffer: reservation,
        });
        Some(buffer)
    }

    /// The place of the next record, if the open segment's file is there.
    fn next_place(&self) -> Option<Place> {
        let open = self.writer.open.as_ref()?;
        let writing = self.writer.files.writing_to(open.segment)?;
        let offset = self.segments.get(&open.segment)?.end;
        Some(Place {
            file: writing.file,
            offset,
        })
    }

    /// Settles the place of the next record, which comes from this buffer: any other buffer gives the place
    /// up, and this one keeps it only if it is its own.
    pub(super) fn settle(&mut self, buffer: &Buffer) {
        let Some(reserved) = self.writer.landings.reserved.take() else {
            return;
        };
        if !reserved.buffer.is_held() {
            return;
        }
        let next = self.next_place();
        let in_place = Some(reserved.place) == next && buffer.place() == next;
        match in_place {
            true => self.writer.landings.landed += 1,
            false => {
                if !mutation::is(Mutation::PlaceNotGivenUp) {
                    reserved.buffer.give_up();
                }
                self.writer.landings.given_up += 1;
            }
        }
    }
}
