//! A group: one log's machine and its state, on this node.
//!
//! ```text
//!  calls ─▶ leading: execute, frames ─▶ node ─ chosen bytes ─▶ intake ─▶ keeping: the shelf
//!             ▲        │                  │                      │
//!             │        └ waits ◀──────────┴──── so much chosen ──┘
//!             └ rows that a command missed, from the shelf
//!  a piece of another replica's state ─▶ copying ─▶ the shelf, where there is none, or none that the log reaches back to
//!  looks ─▶ looking: a barrier, then all that was chosen by then is on the shelf, then a snapshot
//!  clients ─▶ saving: a look that is held, page by page; refilling: commands of the host's own
//! ```
//!
//! It is pure: news, what came of jobs, calls and the time go in; wishes for the node and jobs come out.

mod comparing;
mod copying;
mod giving;
mod keeping;
mod leading;
mod looking;
mod refilling;
mod saving;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use formats::{LogId, Stand};
use letters::{Leader, News, Not, Says, ToNode, Wish};
use ops::{Lane, Work};
use paxos::mutation::{self, Mutation};
use paxos::{NodeId, StreamName, Time};
use shelf::{Applied, Identity, Shelf, ShelfError};

use crate::bounds::Bounds;
use crate::intake::Intake;
use crate::jobs::{self, Came, Look, Shelves};
use crate::machine::{Command, Machine, Outcome};
use crate::room::{Aside, Room, Size};
use comparing::Comparing;
pub use comparing::Sum;
use copying::{Copying, Progress};
use giving::Giving;

pub use copying::ROW as COPY_ROW;

use keeping::Keeping;
use leading::{Full, Leading};
use looking::Looking;
use refilling::Refilling;
pub use saving::Saved;
use saving::Saving;

/// A state that is applied so much further is told of, for people, though nothing more of it is durable.
const TOLD_EVERY: u64 = 1 << 20;

/// A copy that could not be made durable at its end is ended again after so long.
const END_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// A disk on which nothing could be opened is looked at again after so long.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Whoever asks for a command.
pub trait Caller: Send {
    /// Hears what became of it.
    fn reply(self: Box<Self>, outcome: Outcome);

    /// The command is put aside, until others have read what they asked for. From now on its bytes are the host's to bound, and no longer the caller's.
    fn put_aside(&mut self) {}
}

impl<F: FnOnce(Outcome) + Send> Caller for F {
    fn reply(self: Box<Self>, outcome: Outcome) {
        self(outcome);
    }
}

/// Where a caller is told what became of his command.
pub struct Replier(Box<dyn Caller>);

impl Replier {
    pub fn new(caller: impl Caller + 'static) -> Replier {
        Replier(Box::new(caller))
    }

    pub(crate) fn reply(self, outcome: Outcome) {
        self.0.reply(outcome);
    }
}

/// A command, and who waits for it.
pub struct Call {
    pub command: Command,
    pub replier: Replier,
    /// The time when it came.
    pub since: Time,
    /// ‡ Calls of one order are executed in the order in which they came, though others wait for rows.
    pub order: Option<u64>,
    /// It was put aside once: its bytes are counted in the host's room until it is answered or dropped.
    pub(crate) aside: Option<Aside>,
}

impl Call {
    /// Counts its bytes in the room for commands that are put aside, if it has any left, so that its caller counts them no longer.
    pub(crate) fn put_aside(&mut self, room: &Room) {
        if self.aside.is_none() {
            self.aside = room.take_aside(self.command.bytes());
            if self.aside.is_some() {
                self.replier.0.put_aside();
            }
        }
    }
}

/// Asks the shelf for something, now or once all is there that was chosen when it came.
pub struct Glance {
    pub look: Look,
    pub since: Time,
    /// As the state is here now, whatever the others have.
    pub stale: bool,
}

/// A group's share of what all groups of a node have.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Rows that are kept although the shelf has them.
    pub kept_bytes: usize,
    /// Rows that are flushed at a time.
    pub flush_bytes: u64,
}

/// The wishes of a group.
#[derive(Default)]
pub struct Out {
    pub wishes: VecDeque<ToNode>,
    pub jobs: VecDeque<Job>,
}

pub struct Job {
    pub log: LogId,
    /// The generation of the state that it is for.
    pub generation: u64,
    pub lane: Lane,
    pub work: Work,
}

/// The things that all parts of a group know.
struct Core {
    log: LogId,
    own: NodeId,
    name: String,
    identity: Identity,
    bounds: Bounds,
    shelves: Arc<dyn Shelves>,
    machine: Arc<dyn Machine>,
    /// `None` until it is open.
    shelf: Option<Arc<dyn Shelf>>,
    intake: Intake,
    /// Counts the shelves of this group: one is given up for another.
    generation: u64,
    /// The state is being copied, and not whole until it is.
    copying: Option<Copying>,
    /// This node is an auxiliary of the log, and holds no state.
    is_auxiliary: bool,
    /// Its shelf turned out to be damaged, and is to be put aside; and it was, before.
    damage: Option<String>,
    was_damaged: bool,
    /// How often the log was attached.
    attached: u64,
    /// The last word to the node.
    told: Option<Stand>,
    /// Why the state goes no further for now, if that was said.
    told_stuck: Option<String>,
    /// The page that a restore goes on with.
    told_filling: Option<u64>,
    /// Why this replica does nothing any more.
    halted: Option<String>,
    /// The node has no replica any more.
    is_gone: bool,
}

pub struct Group {
    core: Core,
    leading: Leading,
    looking: Looking,
    keeping: Keeping,
    giving: Giving,
    comparing: Comparing,
    saving: Saving,
    refilling: Refilling,
    /// A shelf that could not be opened is tried again then.
    open_at: Option<Time>,
}

impl Core {
    fn wish(&self, out: &mut Out, what: Wish) {
        out.wishes.push_back(ToNode {
            log: self.log,
            what,
        });
    }

    fn run(&self, out: &mut Out, lane: Lane, work: Work) {
        out.jobs.push_back(Job {
            log: self.log,
            generation: self.generation,
            lane,
            work,
        });
    }

    /// Whether the shelf is open, and the state after exactly one prefix of the log.
    fn is_whole(&self) -> bool {
        self.shelf.is_some() && self.copying.is_none()
    }

    /// Tells the node how far a restore has come, as the state here has it.
    fn tell_filling(&mut self, next: Option<u64>, out: &mut Out) {
        if self.told_filling != next {
            self.told_filling = next;
            self.wish(out, Wish::Filling { next });
        }
    }

    fn attach(&mut self, out: &mut Out, from: u64) {
        self.attached += 1;
        let number = self.attached;
        self.wish(out, Wish::Attach { from, number });
    }

    /// Nothing is applied any more. The log goes on, elsewhere.
    fn halt(&mut self, out: &mut Out, why: String) {
        if self.halted.is_some() {
            return;
        }
        tracing::error!(log = %self.name, "the state of {} goes no further here: {why}", self.name);
        self.wish(out, Wish::Halted { why: why.clone() });
        self.halted = Some(why);
    }

    /// The state is of another history than the log: it is put aside like one that is damaged, and made anew, once.
    fn doubt(&mut self, out: &mut Out, why: String) {
        if self.damage.is_some() {
            return;
        }
        if self.was_damaged {
            let remedy = "stop the node, remove the directory of this log below state/, and start it: the state is made anew";
            return self.halt(out, format!("{why}; {remedy}"));
        }
        self.was_damaged = true;
        self.damage = Some(why);
    }

    fn halt_for(&mut self, out: &mut Out, error: &ShelfError) {
        // Several of its jobs may have found the same before it is put aside.
        if self.damage.is_some() {
            return;
        }
        if matches!(error, ShelfError::Damaged { .. }) && !self.was_damaged {
            self.was_damaged = true;
            self.damage = Some(error.to_string());
            return;
        }
        let remedy = match error {
            ShelfError::Damaged { .. } => {
                "; this is its second damage since the node was started: look after the disk, and start the node again"
            }
            ShelfError::NotAShelf { .. } | ShelfError::AnotherLog { .. } => {
                "; take that directory away and start the node again: the state is made anew"
            }
            ShelfError::Io { .. } => "; mend the disk, and start the node again",
            _ => "",
        };
        self.halt(out, format!("{error}{remedy}"));
    }
}

/// An error of the disk, which is tried again, and what ends it.
fn with_remedy(error: &ShelfError) -> String {
    use std::io::ErrorKind;
    let ShelfError::Io { source, .. } = error else {
        return error.to_string();
    };
    let remedy = match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space there",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => "let the node write there",
        _ => "mend that",
    };
    format!("{error}; {remedy} (the node tries again every second)")
}

impl Group {
    /// The state of a log that appeared here. Opens its shelf.
    pub(crate) fn new(
        (log, name): (LogId, String),
        (cluster, own, is_auxiliary): ([u8; 16], NodeId, bool),
        machine: Arc<dyn Machine>,
        shelves: Arc<dyn Shelves>,
        (bounds, room): (Bounds, Room),
        seed: u64,
        out: &mut Out,
    ) -> Group {
        let identity = Identity {
            cluster,
            log: log.0,
        };
        let core = Core {
            log,
            own,
            name,
            identity,
            bounds,
            machine,
            shelf: None,
            intake: Intake::default(),
            generation: 0,
            copying: None,
            is_auxiliary,
            damage: None,
            was_damaged: false,
            attached: 0,
            told: None,
            told_stuck: None,
            told_filling: None,
            halted: None,
            is_gone: false,
            shelves,
        };
        if !is_auxiliary {
            core.run(out, jobs::UPKEEP, jobs::open(&core.shelves, identity));
        }
        Group {
            core,
            leading: Leading::new(seed, room),
            looking: Looking::default(),
            keeping: Keeping::default(),
            giving: Giving::default(),
            comparing: Comparing::default(),
            saving: Saving::default(),
            refilling: Refilling::default(),
            open_at: None,
        }
    }

    /// The node that it is on.
    pub fn own(&self) -> NodeId {
        self.core.own
    }

    pub fn cluster(&self) -> [u8; 16] {
        self.core.identity.cluster
    }

    pub fn name(&self) -> &str {
        &self.core.name
    }

    pub fn log(&self) -> LogId {
        self.core.log
    }

    /// The stream of the reign in which commands are executed here, if there is one: another reign has another.
    pub fn reign(&self) -> Option<StreamName> {
        self.leading.reign()
    }

    /// Why it does nothing any more.
    pub fn halted(&self) -> Option<&str> {
        self.core.halted.as_deref()
    }

    /// Whether commands are executed here now.
    pub fn is_leading(&self) -> bool {
        self.core.is_whole() && self.leading.is_ready(&self.keeping)
    }

    /// How often rows were fetched from the shelf for commands.
    pub fn fetches(&self) -> u64 {
        self.leading.fetches
    }

    /// Whether the state is the one after exactly one prefix of the log.
    pub fn is_whole(&self) -> bool {
        self.core.is_whole()
    }

    pub fn generation(&self) -> u64 {
        self.core.generation
    }

    /// The node that leads the log, if it is another and known.
    pub fn leader(&self) -> Option<&Leader> {
        self.leading.leader.as_ref()
    }

    /// Drops the calls of this order that are not executed: whoever asked is gone.
    pub fn forget_order(&mut self, order: u64) {
        self.leading.forget_order(order);
    }

    /// The first command that waits until its answer, of this size, has room: when it came, and how much it needs.
    pub(crate) fn waits_for_room(&self, size: Size) -> Option<(Time, usize)> {
        self.leading.waits_for_room(size)
    }

    /// Whether a command waits so that is of another order.
    pub(crate) fn others_wait_for_room(&self, order: u64) -> bool {
        self.leading.others_wait_for_room(order)
    }

    /// Sets room aside for that command, and executes it when the group is settled.
    pub(crate) fn let_in(&mut self, size: Size) {
        self.leading.let_in(size);
    }

    pub fn call(&mut self, call: Call) {
        self.leading.call(call, &self.core.bounds);
    }

    pub fn glance(&mut self, glance: Glance) {
        self.looking.ask(glance);
    }

    pub fn on_news(&mut self, now: Time, attached: u64, news: News, out: &mut Out) {
        let is_of_output = matches!(
            news,
            News::Bytes { .. }
                | News::Ended { .. }
                | News::Skipped { .. }
                | News::Begins { .. }
                | News::Deposed { .. }
        );
        if is_of_output && (attached != self.core.attached || self.core.shelf.is_none()) {
            return;
        }
        if let News::Client { client, says } = news {
            return self.on_client(now, client, says, out);
        }
        let is_heard = matches!(news, News::Gone | News::Leader { .. });
        if self.core.halted.is_some() && !is_heard {
            return;
        }
        match news {
            // Above.
            News::Client { .. } => {}
            News::Appeared { .. } | News::GroupAsked { .. } | News::GroupTold { .. } => {}
            News::AreYouThere => self.keeping.on_question(),
            News::Gone => {
                self.core.is_gone = true;
                self.leading.end(&Outcome::Unknown);
                self.looking.end("the log is gone from this node");
                self.remove(out);
            }
            News::Auxiliary { is } if is == self.core.is_auxiliary => {}
            News::Auxiliary { is: true } => {
                self.leading.end(&Outcome::Unknown);
                self.core.is_auxiliary = true;
                self.remove(out);
            }
            News::Auxiliary { is: false } => {
                self.core.is_auxiliary = false;
                _ = self.give_up();
                let work = jobs::open(&self.core.shelves, self.core.identity);
                self.core.run(out, jobs::UPKEEP, work);
            }
            News::PieceAsked {
                by,
                request,
                bytes,
                is_doubted,
            } => {
                // ‡ Nobody copies what may be wrong. Whoever asks may have heard too little to know.
                let asked = Some(bytes.as_slice()).filter(|_| !is_doubted);
                self.giving
                    .on_asked(now, (by, request), asked, &self.core, out);
            }
            News::Piece { request, bytes } => self.on_piece(now, request, bytes, out),
            News::Bytes {
                stream,
                at,
                position,
                bytes,
            } => {
                let awaited = self.core.intake.awaits_witness();
                let taken = self.core.intake.take(stream, at, &bytes, |_| ());
                match taken {
                    Ok(()) => {}
                    Err(why) if awaited && self.core.intake.awaits_witness() => {
                        return self.core.doubt(out, why);
                    }
                    Err(why) => return self.core.halt(out, why),
                }
                let chosen = position + bytes.len() as u64;
                let frame = self.core.intake.decoded().frame;
                self.leading.on_chosen(stream, chosen, frame);
            }
            News::Ended { stream, length } => {
                self.core.intake.end_stream();
                self.leading.on_ended(stream, length);
            }
            News::Skipped { to }
                if self.core.intake.awaits_witness()
                    && to <= self.core.intake.decoded().position =>
            {
                self.core.intake.without_witness();
                let from = self.core.intake.begins_at();
                self.core.attach(out, from);
            }
            News::Skipped { to } => {
                self.leading.end(&Outcome::Unknown);
                let applied = self.core.intake.decoded().position;
                tracing::info!(
                    log = %self.core.name,
                    "the state of {} stands at {applied} here, and the log begins at {to} now: it is copied from another node",
                    self.core.name
                );
                self.core.copying = Some(Copying::begin(to));
            }
            News::Begins { stream } => {
                let decoded = self.core.intake.decoded();
                self.leading.begin(now, stream, decoded);
                self.core.machine.begins();
            }
            News::Deposed { stream } => self.leading.on_deposed(now, stream),
            News::Passed {
                barrier,
                end,
                stream,
            } => {
                self.leading.on_passed(barrier, stream);
                self.looking.on_passed(barrier, end);
            }
            News::Leader { leader } => self.leading.leader = leader,
            News::Full { why, frees } => self.leading.full = why.map(|why| Full { why, frees }),
        }
    }

    fn on_client(&mut self, now: Time, client: u64, says: Says, out: &mut Out) {
        let core = &self.core;
        if let Some(why) = core.halted.as_ref().filter(|_| !matches!(says, Says::Gone)) {
            let why = format!("the state of {} has stopped here: {why}", core.name);
            return saving::not(core, client, Not::Here, why, out);
        }
        match says {
            Says::Gone => self.saving.on_gone(client),
            Says::Save => {
                let looking = &mut self.looking;
                self.saving.on_save(now, client, core, looking, out);
            }
            Says::Next => self.saving.on_next(client, core, out),
            Says::Fill(fill) => {
                let call = self.refilling.call(now, client, fill);
                self.leading.call(call, &core.bounds);
            }
        }
    }

    /// Gives the shelf up, with all that is under way there.
    fn give_up(&mut self) -> jobs::GivenUp {
        self.core.generation += 1;
        let old = jobs::GivenUp(self.core.shelf.take());
        self.core.copying = None;
        self.giving.on_given_up();
        self.comparing.on_given_up();
        self.open_at = None;
        self.core.told = None;
        self.core.intake = Intake::default();
        self.keeping = Keeping::default();
        self.looking.forget_running();
        old
    }

    /// Puts a damaged shelf aside, and begins another: from the log, or by a copy.
    fn put_aside(&mut self, what: &str, out: &mut Out) {
        tracing::error!(log = %self.core.name, "{what}; the state of {} is put aside and made anew", self.core.name);
        self.leading.end(&Outcome::Unknown);
        let old = self.give_up();
        // ‡ What it said of itself holds no more.
        self.core.wish(out, Wish::Stands(Stand::default()));
        let work = jobs::reopen(&self.core.shelves, self.core.identity, old);
        self.core.run(out, jobs::UPKEEP, work);
    }

    fn remove(&mut self, out: &mut Out) {
        let old = self.give_up();
        let work = jobs::remove(&self.core.shelves, self.core.identity, old);
        self.core.run(out, jobs::UPKEEP, work);
    }

    /// Goes on with a shelf that stands so far.
    fn begin(&mut self, shelf: Arc<dyn Shelf>, applied: Applied, out: &mut Out) {
        self.core.intake = Intake::from(applied, self.core.bounds.compare_every);
        self.keeping.begin(applied, shelf.durable());
        self.core.shelf = Some(shelf);
        let from = self.core.intake.begins_at();
        self.core.attach(out, from);
    }

    /// The disk is full, or fails. What stands there is opened once it can be; a copy of which nothing stands there begins anew then.
    fn open_later(&mut self, now: Time, error: &ShelfError, out: &mut Out) {
        _ = self.give_up();
        self.open_at = Some(now + AGAIN_AFTER);
        let why = with_remedy(error);
        if self.core.told_stuck.as_ref() != Some(&why) {
            self.core.told_stuck = Some(why.clone());
            tracing::warn!(log = %self.core.name, "the state of {} cannot be opened for now: {why}", self.core.name);
            self.core.wish(out, Wish::Stuck { why: Some(why) });
        }
    }

    fn on_piece(&mut self, now: Time, request: u64, bytes: Vec<u8>, out: &mut Out) {
        let Some(mut copying) = self.core.copying.take() else {
            return;
        };
        let work = copying.on_piece(now, request, bytes, &self.core, &self.keeping);
        if let Some(jobs::Taking { work, begins_anew }) = work {
            if begins_anew {
                _ = self.give_up();
            }
            let lane = match begins_anew {
                true => jobs::UPKEEP,
                false => jobs::APPLY,
            };
            self.core.run(out, lane, work);
        }
        self.core.copying = Some(copying);
    }

    fn on_taken(&mut self, now: Time, bytes: u64) {
        let pace = self.keeping.on_piece_taken(now, bytes, &self.core.bounds);
        if let Some(copying) = &mut self.core.copying {
            copying.on_taken(pace);
        }
    }

    pub(crate) fn on_came(&mut self, now: Time, came: Came, out: &mut Out) {
        match came {
            Came::Opened(Ok(jobs::Opened {
                shelf,
                copying,
                mark,
                filling,
            })) => {
                let applied = shelf.applied();
                self.comparing.remember(mark.filter(|_| copying.is_none()));
                match copying.map(|row| Progress::decode(&row)) {
                    None => {}
                    Some(Some(progress)) => self.core.copying = Some(Copying::resume(progress)),
                    Some(None) => {
                        let why = "its copy was begun by a newer program: start that one";
                        return self.core.halt(out, why.to_owned());
                    }
                }
                self.begin(shelf, applied, out);
                self.core.tell_filling(filling, out);
            }
            Came::BegunAnew(Ok((shelf, applied))) => {
                self.begin(shelf, applied, out);
                self.on_taken(now, 0);
            }
            Came::BegunAnew(Err(error @ ShelfError::Io { .. }))
            | Came::Opened(Err(error @ ShelfError::Io { .. })) => self.open_later(now, &error, out),
            Came::BegunAnew(Err(error)) => self.core.halt_for(out, &error),
            Came::PieceTaken(Ok((applied, bytes))) => {
                if mutation::is(Mutation::CopyIntoOldState) && applied != self.keeping.applied() {
                    self.core.intake = Intake::from(applied, self.core.bounds.compare_every);
                    self.keeping.begin(applied, Applied::default());
                    let from = self.core.intake.begins_at();
                    self.core.attach(out, from);
                }
                self.on_taken(now, bytes);
            }
            Came::PieceTaken(Err(error)) => self.core.halt_for(out, &error),
            // ‡ The log was trimmed beyond that copy meanwhile, and another has begun.
            Came::Copied(_) if !self.core.copying.as_ref().is_some_and(Copying::is_ending) => {}
            Came::Copied(Ok((durable, filling))) => {
                self.core.tell_filling(filling, out);
                tracing::info!(log = %self.core.name, "the state of {} is whole here", self.core.name);
                self.core.copying = None;
                self.keeping.on_copied(durable);
            }
            Came::Copied(Err(error @ ShelfError::Io { .. })) => {
                self.keeping.put_off(&self.core, &error);
                if let Some(copying) = &mut self.core.copying {
                    copying.wait_until(now + END_AGAIN_AFTER);
                }
            }
            Came::Copied(Err(error)) => self.core.halt_for(out, &error),
            Came::PieceRead { to, request, bytes } => {
                self.giving.on_read(to, request, bytes, &self.core, out);
            }
            Came::Opened(Err(error)) => self.core.halt_for(out, &error),
            Came::Applied {
                bytes,
                unflushed_bytes,
                result,
                filling,
                marked,
            } => {
                self.keeping.on_memory(unflushed_bytes);
                if let Some(filling) = filling {
                    self.core.tell_filling(filling, out);
                }
                self.keeping.on_applied(&mut self.core, bytes, result, out);
                match marked.filter(|_| self.core.is_whole()) {
                    Some(Ok(cursor)) => self.comparing.begin(now, cursor),
                    Some(Err(error)) => self.core.halt_for(out, &error),
                    None => {}
                }
            }
            Came::Summed { position, sum } => {
                self.comparing
                    .on_page(now, position, sum, &mut self.core, out);
            }
            Came::Fetched { fetch, result } => match result {
                Ok(rows) => self.leading.on_fetched(fetch, rows, &self.core),
                Err(error) => {
                    self.leading.on_fetch_failed(fetch);
                    self.core.halt_for(out, &error);
                }
            },
            Came::Looked { held } => {
                self.looking.on_looked();
                for (client, saved) in held {
                    self.saving.on_held(client, saved, &self.core, out);
                }
            }
            Came::PageRead { client, page } => {
                self.saving.on_page(client, page, &mut self.core, out);
            }
            Came::Flushed(result, unflushed_bytes) => {
                self.keeping.on_memory(unflushed_bytes);
                self.keeping.on_flushed(&mut self.core, result, out);
            }
            Came::Compacted(result) => self.keeping.on_compacted(&mut self.core, result, out),
            Came::LookedAfter(Ok(())) => {}
            Came::LookedAfter(Err(error)) => self.core.halt_for(out, &error),
            Came::Removed(Ok(())) => {}
            Came::Removed(Err(error)) => {
                tracing::warn!(%error, "the state of a log that is gone could not be removed: remove it by hand");
            }
        }
    }

    /// A job did not come to its end.
    pub fn on_panic(&mut self, why: &str, out: &mut Out) {
        self.core.halt(out, format!("its work panicked: {why}"));
    }

    /// Does what can be done now.
    pub fn settle(&mut self, now: Time, wall_ms: Option<u64>, share: Share, out: &mut Out) {
        self.settle_state(now, wall_ms, out);
        let applied = self.keeping.applied().frame;
        self.leading.shrink(applied, share.kept_bytes);
        self.core.bounds.flush_bytes = share.flush_bytes;
        self.saving.settle(&self.core, &mut self.looking, out);
        self.refilling.settle(&self.core, out);
    }

    fn settle_state(&mut self, now: Time, wall_ms: Option<u64>, out: &mut Out) {
        if let Some(what) = self.core.damage.take() {
            self.put_aside(&what, out);
        }
        if let Some(why) = &self.core.halted {
            let why = format!("the state of {} has stopped here: {why}", self.core.name);
            // Nobody tells this replica any more what became of them.
            self.leading.end(&Outcome::Unknown);
            let leader = self.leading.leader.as_ref();
            let leader = leader.map(|leader| leader.address.clone());
            let turned_away = match leader.is_some() {
                true => Outcome::NotLeader { leader },
                false => Outcome::NotNow(why.clone()),
            };
            self.leading.refuse_all(&turned_away);
            self.looking.end(&why);
            return;
        }
        if self.open_at.take_if(|at| *at <= now).is_some() {
            let work = jobs::open(&self.core.shelves, self.core.identity);
            self.core.run(out, jobs::UPKEEP, work);
        }
        self.leading
            .settle(now, wall_ms, &self.core, &self.keeping, out);
        self.looking.settle(now, &self.core, &self.keeping, out);
        let is_awaited = !self.leading.is_ready(&self.keeping) || self.looking.awaits_frames();
        self.keeping.settle(now, is_awaited, &mut self.core, out);
        self.copy(now, out);
        self.giving.settle(now, &self.core, &self.keeping, out);
        self.comparing.settle(now, &self.core, out);
        self.tell_stand(out);
    }

    fn copy(&mut self, now: Time, out: &mut Out) {
        let Some(mut copying) = self.core.copying.take() else {
            return;
        };
        copying.settle(now, &self.core, &self.keeping, out);
        let applied = self.keeping.applied();
        if let Some(shelf) = &self.core.shelf
            && !self.keeping.is_applying()
            && copying.is_exact(now, applied)
        {
            copying.on_ending();
            // It flushes, so the log waits for it, and nobody else.
            self.core
                .run(out, jobs::UPKEEP, jobs::end_copy(shelf, applied));
        }
        self.core.copying = Some(copying);
    }

    /// Tells the node how the state stands, when that changes what it may rest on.
    fn tell_stand(&mut self, out: &mut Out) {
        // ‡ Nothing rests on a state of which nobody knows yet whether it is of this log's history.
        let Some(shelf) = &self.core.shelf else {
            return;
        };
        if self.core.intake.awaits_witness() {
            return;
        }
        let stand = Stand {
            mark: self.comparing.mark(),
            ..self.keeping.stand(self.core.is_whole())
        };
        let is_news = self.core.told.is_none_or(|told| {
            let but_applied = |stand: Stand| (stand.durable, stand.is_whole, stand.mark);
            let is_else = but_applied(told) != but_applied(stand);
            is_else || stand.applied >= told.applied + TOLD_EVERY
        });
        if is_news {
            let figures = shelf.figures();
            let stand = Stand {
                disk_bytes: figures.disk_bytes + figures.unflushed_bytes,
                ..stand
            };
            self.core.told = Some(stand);
            self.core.wish(out, Wish::Stands(stand));
        }
        let why = self.keeping.trouble().or(self.keeping.stuck());
        let why = why.map(str::to_owned);
        if why != self.core.told_stuck {
            self.core.told_stuck.clone_from(&why);
            self.core.wish(out, Wish::Stuck { why });
        }
    }

    /// Looks whether the state is still where it was written. ‡ Members are taken away, and the log is trimmed, on the word that it is.
    pub fn look_after(&self, out: &mut Out) {
        let shelf = self.core.shelf.as_ref();
        if let Some(shelf) = shelf.filter(|_| self.core.halted.is_none()) {
            self.core.run(out, jobs::UPKEEP, jobs::look_after(shelf));
        }
    }

    /// Flushes what is not flushed. True once nothing is left to do.
    pub fn wind_up(&mut self, out: &mut Out) -> bool {
        self.core.halted.is_some() || self.core.is_gone || self.keeping.wind_up(&self.core, out)
    }

    pub fn deadline(&self) -> Option<Time> {
        if self.core.halted.is_some() {
            // Nothing is done for it any more, and no moment of its own would ever pass.
            return None;
        }
        let parts = [
            self.leading.deadline(),
            self.looking.deadline(),
            self.keeping.deadline(),
            self.giving.deadline(),
            self.comparing.deadline(),
            self.open_at,
            self.core
                .copying
                .as_ref()
                .and_then(|copying| copying.deadline(&self.keeping)),
        ];
        parts.into_iter().flatten().min()
    }
}
