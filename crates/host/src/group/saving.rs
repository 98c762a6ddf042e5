//! All rows of the machine for clients who save them, as of one position, while the log goes on.
//!
//! ```text
//!  Save ─ as a look: a barrier, then all that was chosen by then is on the shelf ─▶ a snapshot, held ─▶ Saving(position)
//!  Next ─ a page is read on a lane ─▶ Page … Next ─▶ Page … the last one ─▶ the snapshot is let go
//! ```
//!
//! One page of a client is in memory at a time, and the next is read when he has taken it. A shelf keeps what a snapshot shows, so
//! few are held, and the node tells when a client is gone, or stood still for too long.
//!
//! ‡ Saved are the machine's rows alone. The host's own say how this log came to them, and mean nothing in another.

use std::collections::BTreeMap;
use std::ops::Bound;

use letters::{Not, Wish, Word};
use paxos::Time;
use shelf::{Held, PageBounds, ShelfError};

use super::{Core, Glance, Looking, Out};
use crate::jobs::{self, Look};
use crate::sessions;
use crate::state::{MACHINE, behind};

/// So many snapshots are held at a time.
const SAVES_MAX: usize = 2;
const ROWS_MAX: usize = 16_384;

#[derive(Default)]
pub struct Saving {
    clients: BTreeMap<u64, Stage>,
    /// The generation of the state that they are given.
    generation: u64,
}

enum Stage {
    /// No snapshot is there yet.
    Looks,
    /// A page is being read.
    Reads,
    /// A page is told, or that the rows follow.
    Told(Box<Saved>),
}

/// The rows of one snapshot, as far as they were read.
pub struct Saved {
    snapshot: Held,
    sessions: u64,
    last_key: Option<Vec<u8>>,
    page: Vec<u8>,
    is_all: bool,
}

impl Saved {
    /// Errors: a sentence.
    pub fn begin(snapshot: Held) -> Result<Box<Saved>, String> {
        let mark = snapshot.get(crate::filling::ROW);
        let mark = mark.map_err(|error| error.to_string())?;
        if crate::filling::is_open(mark.as_deref()) {
            return Err(crate::filling::IS_OPEN.to_owned());
        }
        let numbers = snapshot.get(sessions::NUMBERS);
        let numbers = numbers.map_err(|error| error.to_string())?;
        Ok(Box::new(Saved {
            snapshot,
            sessions: sessions::next_number(numbers.as_deref()),
            last_key: None,
            page: Vec::new(),
            is_all: false,
        }))
    }

    /// Reads the next page, of about so many bytes.
    pub fn read_page(&mut self, bytes_max: usize) -> Result<(), ShelfError> {
        let from = match &self.last_key {
            Some(key) => Bound::Excluded(key.as_slice()),
            None => Bound::Included(&[MACHINE][..]),
        };
        let to = behind(&[MACHINE]);
        let to = to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let bounds = PageBounds {
            rows_max: ROWS_MAX,
            bytes_max,
        };
        let page = self.snapshot.scan(from, to, bounds)?;
        self.page = Vec::new();
        for (key, value) in &page.rows {
            // Without the tag.
            let key = key.get(1..).unwrap_or_default();
            formats::rows::push(&mut self.page, key, value);
        }
        self.is_all = page.is_last;
        self.last_key = page.rows.into_iter().last().map(|(key, _)| key);
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
                let applied = saved.snapshot.applied();
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
                if is_there {
                    not(core, client, Not::Here, why, out);
                }
                if !matches!(error, ShelfError::Io { .. }) {
                    core.halt_for(out, &error);
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
    pub fn settle(&mut self, core: &Core, applied: u64, looking: &mut Looking, out: &mut Out) {
        let bytes_max = core.bounds.held_bytes_max;
        let is_old = |_: &u64, stage: &mut Stage| {
            let saved = match stage {
                Stage::Told(saved) => saved,
                Stage::Looks | Stage::Reads => return false,
            };
            applied.saturating_sub(saved.snapshot.applied().position) > bytes_max
        };
        for (client, _) in self.clients.extract_if(.., is_old) {
            let why = format!(
                "more than {bytes_max} bytes were written while the rows of one moment were read: read them faster, or while less is written"
            );
            not(core, client, Not::Room, why, out);
        }
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
