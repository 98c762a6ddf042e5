//! Buffers that are a part of a simulated file (`ops`).
//!
//! Bytes received into one are in the file at once, as they would be in a page cache: a write at that place
//! writes only what the node changed, and a node that forgot to give a place up finds its record among the
//! bytes of others.

use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ops::{BLOCK, Buffer, Landed, Landing, Place, Reservation, Slice};

/// The landing of one process.
#[derive(Debug, Default)]
pub(crate) struct SimLanding {
    desk: Arc<Mutex<Desk>>,
}

#[derive(Debug, Default)]
struct Desk {
    /// Not in the file yet.
    arrived: Vec<Arrival>,
    held: Vec<Arc<Held>>,
    asked: u64,
}

#[derive(Debug)]
pub(crate) struct Arrival {
    pub place: Place,
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
struct Held {
    place: Place,
    length: usize,
    given_up: AtomicBool,
    exists: AtomicBool,
    /// Its record stands there, and no other may any more.
    settled: AtomicBool,
}

struct Region {
    memory: Buffer,
    held: Arc<Held>,
    changed: Vec<bool>,
    desk: Arc<Mutex<Desk>>,
}

impl SimLanding {
    /// Takes the bytes received since the last call, in order.
    pub fn take_arrived(&self) -> Vec<Arrival> {
        std::mem::take(&mut lock(&self.desk).arrived)
    }

    /// Asserts that a write does not reach into a place that others receive into.
    pub fn check_write(&self, place: Place, slices: &[Slice]) {
        let mut desk = lock(&self.desk);
        desk.held
            .retain(|held| held.is_held() && !held.is_given_up());
        let mut at = place;
        for slice in slices {
            let own = region_in_place(slice, at).map(|(region, _)| region.held.clone());
            let end = at.offset + slice.len() as u64;
            for held in &desk.held {
                let theirs = held.place.offset..held.place.offset + held.length as u64;
                let beside = held.place.file != at.file
                    || end <= theirs.start
                    || theirs.end <= at.offset
                    || held.settled.load(Ordering::Relaxed);
                let is_own = own.as_ref().is_some_and(|own| Arc::ptr_eq(own, held));
                assert!(
                    beside || is_own,
                    "landing: {at:?} to {end} is written while somebody receives into {:?}",
                    held.place
                );
            }
            if let Some(own) = own {
                own.settled.store(true, Ordering::Relaxed);
            }
            at.offset = end;
        }
    }
}

impl Landing for SimLanding {
    fn reserve(&self, place: Place, length: usize) -> Option<(Buffer, Arc<dyn Reservation>)> {
        let held = Arc::new(Held {
            place,
            length,
            given_up: AtomicBool::new(false),
            exists: AtomicBool::new(true),
            settled: AtomicBool::new(false),
        });
        let mut desk = lock(&self.desk);
        desk.asked += 1;
        // A kernel may have none at the moment.
        if desk.asked.is_multiple_of(7) {
            return None;
        }
        desk.held.push(held.clone());
        let region = Region {
            memory: Buffer::new(length),
            held: held.clone(),
            changed: vec![false; length.div_ceil(BLOCK)],
            desk: self.desk.clone(),
        };
        Some((Buffer::landed(Box::new(region)), held))
    }

    fn view(&self, _: Place, _: usize) -> Option<Buffer> {
        None
    }
}

/// Copies what arrived into the buffer: where it is a part of a file, into that.
pub(crate) fn fill(buffer: &mut Buffer, range: Range<usize>, take: impl FnOnce(&mut [u8])) {
    let region = buffer
        .kernels_mut()
        .and_then(|memory| memory.downcast_mut::<Region>());
    match region {
        Some(region) if region.place().is_some() => {
            let start = range.start;
            take(&mut region.memory[range.clone()]);
            let arrival = Arrival {
                place: Place {
                    offset: region.held.place.offset + start as u64,
                    ..region.held.place
                },
                bytes: region.memory[range].to_vec(),
            };
            lock(&region.desk).arrived.push(arrival);
        }
        _ => take(buffer.part_mut(range)),
    }
}

/// Ranges of the slice that a write to this place has to write.
pub(crate) fn unwritten(slice: &Slice, place: Place) -> Vec<Range<usize>> {
    let Some((region, start)) = region_in_place(slice, place) else {
        return std::iter::once(0..slice.len()).collect();
    };
    (0..slice.len())
        .step_by(BLOCK)
        .filter(|at| region.changed[(start + at) / BLOCK])
        .map(|at| at..at + BLOCK)
        .collect()
}

fn region_in_place(slice: &Slice, place: Place) -> Option<(&Region, usize)> {
    let (memory, start): (&dyn Any, usize) = slice.kernels()?;
    let region = memory.downcast_ref::<Region>()?;
    let stands_at = region.place()?;
    let begins = Place {
        offset: stands_at.offset + start as u64,
        ..stands_at
    };
    (begins == place).then_some((region, start))
}

fn lock(desk: &Mutex<Desk>) -> std::sync::MutexGuard<'_, Desk> {
    desk.lock().expect("one thread runs a world")
}

impl Held {
    fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }
}

impl Landed for Region {
    fn bytes(&self) -> &[u8] {
        &self.memory
    }

    fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        self.changed[blocks].fill(true);
        &mut self.memory[range]
    }

    fn place(&self) -> Option<Place> {
        (!self.held.is_given_up()).then_some(self.held.place)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.held.exists.store(false, Ordering::Relaxed);
    }
}

impl Reservation for Held {
    fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    fn is_held(&self) -> bool {
        self.exists.load(Ordering::Relaxed)
    }
}
