//! All rows of the machine for clients who save them, as of one position, while the log goes on.
//!
//! ```text
//!  Save ─ as a look: a barrier, then all that was chosen by then is on the shelf ─▶ a cursor ─▶ Saving(position)
//!  Next ─ a page is read on a lane ─▶ Page … Next ─▶ Page … the last one ─▶ the cursor is let go
//! ```
//!
//! One page of a client is in memory at a time, and the next is read when he has taken it. A shelf keeps what a cursor is to give, so
//! there are few, and the node tells when a client is gone, or stood still for too long.
//!
//! ‡ Saved are the machine's rows alone. The host's own say how this log came to them, and mean nothing in another.

use std::collections::BTreeMap;
use std::ops::Bound;

use letters::{Not, Wish, Word};
use paxos::Time;
use shelf::{Cursor, PageBounds, ShelfError, Snapshot};

use super::{Core, Glance, Looking, Out};
use crate::jobs::{self, Look};
use crate::sessions;
use crate::state::{MACHINE, behind};

/// So many backups are taken at a time.
const SAVES_MAX: usize = 2;
const ROWS_MAX: usize = 16_384;

#[derive(Default)]
pub struct Saving {
    clients: BTreeMap<u64, Stage>,
    /// The generation of the state that they are given.
    generation: u64,
}

enum Stage {
    /// No cursor is there yet.
    Looks,
    /// A page is being read.
    Reads,
    /// A page is told, or that the rows follow.
    Told(Box<Saved>),
}

/// The rows of one state, as far as they were read.
pub struct Saved {
    cursor: Cursor,
    sessions: u64,
    page: Vec<u8>,
    is_all: bool,
}

impl Saved {
    /// Errors: a sentence.
    pub fn begin(snapshot: &dyn Snapshot) -> Result<Box<Saved>, String> {
        let mark = snapshot.get(crate::filling::ROW);
        let mark = mark.map_err(|error| error.to_string())?;
        if crate::filling::is_open(mark.as_deref()) {
            return Err(crate::filling::IS_OPEN.to_owned());
        }
        let numbers = snapshot.get(sessions::NUMBERS);
        let numbers = numbers.map_err(|error| error.to_string())?;
        let to = behind(&[MACHINE]);
        let to = to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let cursor = snapshot.cursor(Bound::Included(&[MACHINE]), to);
        Ok(Box::new(Saved {
            cursor: cursor.map_err(|error| error.to_string())?,
            sessions: sessions::next_number(numbers.as_deref()),
            page: Vec::new(),
            is_all: false,
        }))
    }

    /// Reads the next page, of about so many bytes.
    pub fn read_page(&mut self, bytes_max: usize) -> Result<(), ShelfError> {
        let bounds = PageBounds {
            rows_max: ROWS_MAX,
            bytes_max,
        };
        let page = self.cursor.next_page(bounds)?;
        self.page = Vec::new();
        for (key, value) in &page.rows {
            // Without the tag.
            let key = key.get(1..).unwrap_or_default();
            formats::rows::push(&mut self.page, key, value);
        }
        self.is_all = page.is_last;
        Ok(())
    }
}

impl Saving {
    pub fn on_save(
        &mut self,
        now: Time,
        client: u64,
        core: &Core,
        looking: &mut Looking,
        out: &mut Out,
    ) {
        let refusal = match &core.copying {
            _ if core.is_auxiliary => Some((
                Not::Here,
                "this node is an auxiliary of the log, and holds no state: ask another",
            )),
            Some(_) => Some((
                Not::Here,
                "the state is being copied to this node: ask another",
            )),
            None if self.clients.len() >= SAVES_MAX => Some((
                Not::Room,
                "as many backups as may be are being taken of this machine here: ask another node, or later",
            )),
            None => None,
        };
        if let Some((why, sentence)) = refusal {
            return not(core, client, why, sentence.to_owned(), out);
        }
        self.clients.insert(client, Stage::Looks);
        looking.ask(Glance {
            look: Look::held(client),
            since: now,
            stale: false,
        });
    }

    pub fn on_held(
        &mut self,
        client: u64,
        saved: Result<Box<Saved>, String>,
        core: &Core,
        out: &mut Out,
    ) {
        if self.clients.remove(&client).is_none() {
            return; // He is gone.
        }
        match saved {
            Ok(saved) => {
                let applied = saved.cursor.applied();
                let word = Word::Saving {
                    position: applied.position,
                    frame: applied.frame,
                    time_ms: applied.time_ms,
                    sessions: saved.sessions,
                };
                self.clients.insert(client, Stage::Told(saved));
                core.wish(out, Wish::ToClient { client, word });
            }
            Err(why) => not(core, client, Not::Allowed, why, out),
        }
    }

    pub fn on_next(&mut self, client: u64, core: &Core, out: &mut Out) {
        if let Some(stage) = self.clients.get_mut(&client)
            && let Stage::Told(saved) = std::mem::replace(stage, Stage::Reads)
        {
            let work = jobs::read_page(client, saved, core.bounds.piece_bytes);
            core.run(out, jobs::SAVE, work);
        }
    }

    pub fn on_page(
        &mut self,
        client: u64,
        page: Result<Box<Saved>, ShelfError>,
        core: &mut Core,
        out: &mut Out,
    ) {
        let is_there = self.clients.remove(&client).is_some();
        let mut saved = match page {
            Ok(saved) => saved,
            Err(error) => {
                let why = format!("the state cannot be read here: {error}; ask another node");
                // Else it is of a state that was given up, maybe.
                if is_there {
                    not(core, client, Not::Here, why, out);
                    if !matches!(error, ShelfError::Io { .. }) {
                        core.halt_for(out, &error);
                    }
                }
                return;
            }
        };
        if !is_there {
            return;
        }
        let word = Word::Page {
            rows: std::mem::take(&mut saved.page),
            is_last: saved.is_all,
        };
        if !saved.is_all {
            self.clients.insert(client, Stage::Told(saved));
        }
        core.wish(out, Wish::ToClient { client, word });
    }

    pub fn on_gone(&mut self, client: u64) {
        self.clients.remove(&client);
    }

    /// Tells those who get no look why, and all once the state is given up or goes no further.
    pub fn settle(&mut self, core: &Core, looking: &mut Looking, out: &mut Out) {
        if self.generation != core.generation || core.halted.is_some() {
            self.generation = core.generation;
            for client in std::mem::take(&mut self.clients).into_keys() {
                let why = "the state that was being saved was given up here: ask another node";
                not(core, client, Not::Here, why.to_owned(), out);
            }
        }
        for (client, why) in looking.take_refused() {
            if self.clients.remove(&client).is_some() {
                not(core, client, Not::Now, why, out);
            }
        }
    }
}

pub fn not(core: &Core, client: u64, why: Not, sentence: String, out: &mut Out) {
    let word = Word::Not { why, sentence };
    core.wish(out, Wish::ToClient { client, word });
}
