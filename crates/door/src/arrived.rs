//! The slots that another group has told it owns, while their rows are still here.
//!
//! A hint for whoever asks for them meanwhile: they are told where to go, and do not wait until the rows are gone. ‡ Nothing else follows from it: no step
//! of a handover reads it, and that group says itself what it has.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::moving::words::Piece;

/// By slot: the wish by which it went.
#[derive(Default)]
pub struct Arrived(Mutex<BTreeMap<u16, u32>>);

impl Arrived {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note(&self, piece: Piece) {
        let its = piece.span.slots().map(|slot| (slot, piece.wish));
        self.lock().extend(its);
    }

    /// The rows are gone: the log says where the slots are.
    pub fn forget(&self, piece: Piece) {
        let mut slots = self.lock();
        for slot in piece.span.slots() {
            if slots.get(&slot) == Some(&piece.wish) {
                slots.remove(&slot);
            }
        }
    }

    pub fn has(&self, slot: u16, wish: u32) -> bool {
        self.lock().get(&slot) == Some(&wish)
    }
}
