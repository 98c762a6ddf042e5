//! Marks: what all rows come to at one place of the log, so that replicas can be compared.
//!
//! ```text
//!  frames   … t = 23:59 │ t = 00:01 …      the first frame of a day is applied alone up to its end
//!                       ▼
//!           the state at that position ── read page by page, slowly ──▶ Mark ──▶ told with how the state stands
//! ```
//!
//! ‡ The place follows from the frames alone, so all replicas take their marks at the same ones, whoever leads, and however
//! often they start. Nothing is agreed on for it, and nothing stands in the log.
//!
//! Equal positions, equal rows: replicas that tell different marks of one position applied the same frames and hold other rows.
//! Their leader says so. Nothing is repaired: no checksum says who is right.

use std::time::Duration;

use formats::Mark;
use paxos::Time;
use shelf::{Cursor, PageBounds, ShelfError};

use super::{Core, Out};
use crate::jobs;

const ROWS_MAX: usize = 16_384;

#[derive(Default)]
pub struct Comparing {
    pass: Option<Pass>,
    last: Option<Mark>,
}

struct Pass {
    position: u64,
    /// `None` while a page is being read.
    sum: Option<Box<Sum>>,
    next_at: Time,
}

/// The rows that were read so far of one state.
pub struct Sum {
    cursor: Cursor,
    mark: Mark,
    bytes: u64,
    is_all: bool,
}

impl Sum {
    fn of(cursor: Cursor) -> Sum {
        let position = cursor.applied().position;
        Sum {
            cursor,
            mark: Mark {
                position,
                ..Mark::default()
            },
            bytes: 0,
            is_all: false,
        }
    }

    /// The position at which the mark is taken.
    pub fn position(&self) -> u64 {
        self.mark.position
    }

    /// The mark, once all rows are summed up.
    pub fn whole(&self) -> Option<Mark> {
        self.is_all.then_some(self.mark)
    }

    /// Adds the next page, of about so many bytes.
    pub fn add_page(&mut self, bytes_max: usize) -> Result<(), ShelfError> {
        let bounds = PageBounds {
            rows_max: ROWS_MAX,
            bytes_max,
        };
        let page = self.cursor.next_page(bounds)?;
        self.bytes = 0;
        for (key, value) in &page.rows {
            for part in [
                &(key.len() as u32).to_le_bytes()[..],
                &(value.len() as u32).to_le_bytes(),
                key,
                value,
            ] {
                self.mark.crc32c = crc32c::crc32c_append(self.mark.crc32c, part);
            }
            self.bytes += (key.len() + value.len()) as u64;
        }
        self.mark.rows += page.rows.len() as u64;
        self.is_all = page.is_last;
        Ok(())
    }
}

impl Comparing {
    /// A pass that has begun goes on: marks that come faster than they are taken are passed over.
    pub fn begin(&mut self, now: Time, cursor: Cursor) {
        if self.pass.is_none() {
            self.pass = Some(Pass {
                position: cursor.applied().position,
                sum: Some(Box::new(Sum::of(cursor))),
                next_at: now,
            });
        }
    }

    /// Goes on with a shelf of which this mark was taken.
    pub fn remember(&mut self, mark: Option<Mark>) {
        self.last = mark;
    }

    /// Another state is on the shelf, or none. Its mark, and that of the one before, say nothing of this one.
    pub fn on_given_up(&mut self) {
        *self = Comparing::default();
    }

    pub fn on_page(
        &mut self,
        now: Time,
        position: u64,
        sum: Result<Box<Sum>, ShelfError>,
        core: &mut Core,
        out: &mut Out,
    ) {
        // Else it is the page of a pass that was given up.
        let Some(pass) = self.pass.as_mut().filter(|pass| pass.position == position) else {
            return;
        };
        match sum {
            Ok(sum) if sum.is_all => {
                self.last = Some(sum.mark);
                self.pass = None;
            }
            Ok(sum) => {
                let rate = core.bounds.compare_bytes_per_second.max(1);
                let pause = Duration::from_micros(sum.bytes.saturating_mul(1_000_000) / rate);
                pass.next_at = now + pause;
                pass.sum = Some(sum);
            }
            Err(ShelfError::Io { path, source }) => {
                tracing::warn!(log = %core.name, "the state of {} is not compared this time: {}: {source}", core.name, path.display());
                self.pass = None;
            }
            Err(error) => {
                self.pass = None;
                core.halt_for(out, &error);
            }
        }
    }

    pub fn settle(&mut self, now: Time, core: &Core, out: &mut Out) {
        let due = self.pass.as_mut().filter(|pass| now >= pass.next_at);
        if let Some(shelf) = &core.shelf
            && let Some(sum) = due.and_then(|pass| pass.sum.take())
        {
            let work = jobs::sum_up(shelf, sum, core.bounds.piece_bytes);
            core.run(out, jobs::COMPARE, work);
        }
    }

    /// The last mark of this state.
    pub fn mark(&self) -> Option<Mark> {
        self.last
    }

    pub fn deadline(&self) -> Option<Time> {
        let pass = self.pass.as_ref()?;
        pass.sum.as_ref().map(|_| pass.next_at)
    }
}
