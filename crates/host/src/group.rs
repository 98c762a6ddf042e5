//! A group: one log's machine and its state, on this node.
//!
//! ```text
//!  calls ─▶ leading: execute, frames ─▶ node ─ chosen bytes ─▶ intake ─▶ keeping: the shelf
//!             ▲        │                  │                      │
//!             │        └ waits ◀──────────┴──── so much chosen ──┘
//!             └ rows that a command missed, from the shelf
//!  looks ─▶ looking: a barrier, then all that was chosen by then is on the shelf, then a snapshot
//! ```
//!
//! It is pure: news, what came of jobs, calls and the time go in; wishes for the node and jobs come out.

mod keeping;
mod leading;
mod looking;

use std::collections::VecDeque;
use std::sync::Arc;

use formats::LogId;
use letters::{News, ToNode, Wish};
use ops::{Lane, Work};
use paxos::Time;
use shelf::{Identity, Shelf, ShelfError};

use crate::bounds::Bounds;
use crate::intake::Intake;
use crate::jobs::{self, Came, Look, Shelves};
use crate::machine::{Command, Machine, Outcome};
use keeping::Keeping;
use leading::Leading;
use looking::Looking;

/// Where a caller is told what became of his command.
pub struct Replier(Box<dyn FnOnce(Outcome) + Send>);

impl Replier {
    pub fn new(reply: impl FnOnce(Outcome) + Send + 'static) -> Replier {
        Replier(Box::new(reply))
    }

    pub(crate) fn reply(self, outcome: Outcome) {
        (self.0)(outcome);
    }
}

/// A command, and who waits for it.
pub struct Call {
    pub command: Command,
    pub replier: Replier,
    /// The time when it came.
    pub since: Time,
}

/// Asks the shelf for something, now or once all is there that was chosen when it came.
pub struct Glance {
    pub look: Look,
    pub since: Time,
    /// As the state is here now, whatever the others have.
    pub stale: bool,
}

/// The wishes of a group.
#[derive(Default)]
pub struct Out {
    pub wishes: VecDeque<ToNode>,
    pub jobs: VecDeque<(LogId, Lane, Work)>,
}

/// The things that all parts of a group know.
struct Core {
    log: LogId,
    name: String,
    identity: Identity,
    bounds: Bounds,
    shelves: Arc<dyn Shelves>,
    machine: Arc<dyn Machine>,
    /// `None` until it is open.
    shelf: Option<Arc<dyn Shelf>>,
    intake: Intake,
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
}

impl Core {
    fn wish(&self, out: &mut Out, what: Wish) {
        out.wishes.push_back(ToNode {
            log: self.log,
            what,
        });
    }

    fn run(&self, out: &mut Out, lane: Lane, work: Work) {
        out.jobs.push_back((self.log, lane, work));
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

    fn halt_for(&mut self, out: &mut Out, error: &ShelfError) {
        let remedy = match error {
            ShelfError::Damaged { .. } => {
                "; start the node again, and it is put aside and made anew from the log"
            }
            ShelfError::Io { .. } => "; mend the disk, and start the node again",
            _ => "",
        };
        self.halt(out, format!("{error}{remedy}"));
    }
}

impl Group {
    /// The state of a log that appeared here. Opens its shelf.
    pub fn new(
        (log, name): (LogId, String),
        cluster: [u8; 16],
        machine: Arc<dyn Machine>,
        shelves: Arc<dyn Shelves>,
        bounds: Bounds,
        seed: u64,
        out: &mut Out,
    ) -> Group {
        let identity = Identity {
            cluster,
            log: log.0,
        };
        let core = Core {
            log,
            name,
            identity,
            bounds,
            machine,
            shelf: None,
            intake: Intake::default(),
            halted: None,
            is_gone: false,
            shelves,
        };
        core.run(out, jobs::UPKEEP, jobs::open(&core.shelves, identity));
        Group {
            core,
            leading: Leading::new(seed),
            looking: Looking::default(),
            keeping: Keeping::default(),
        }
    }

    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// Why it does nothing any more.
    pub fn halted(&self) -> Option<&str> {
        self.core.halted.as_deref()
    }

    /// Whether commands are executed here now.
    pub fn is_leading(&self) -> bool {
        self.leading.is_ready(&self.keeping)
    }

    pub fn call(&mut self, call: Call) {
        self.leading.call(call, &self.core.bounds);
    }

    pub fn glance(&mut self, glance: Glance) {
        self.looking.ask(glance);
    }

    pub fn on_news(&mut self, now: Time, news: News, out: &mut Out) {
        if self.core.halted.is_some() && !matches!(news, News::Gone) {
            return;
        }
        match news {
            News::Appeared { .. } => {}
            News::Gone => {
                self.core.is_gone = true;
                self.leading.end(&Outcome::Unknown);
                self.looking.end("the log is gone from this node");
                let shelves = &self.core.shelves;
                let work = jobs::remove(shelves, self.core.identity);
                self.core.shelf = None;
                self.core.run(out, jobs::UPKEEP, work);
            }
            News::Bytes {
                stream,
                at,
                position,
                bytes,
            } => {
                let taken = self.core.intake.take(stream, at, &bytes, |_| ());
                if let Err(why) = taken {
                    return self.core.halt(out, why);
                }
                let chosen = position + bytes.len() as u64;
                let frame = self.core.intake.decoded().frame;
                self.leading.on_chosen(stream, chosen, frame);
            }
            News::Ended { stream, length } => {
                self.core.intake.end_stream();
                self.leading.on_ended(stream, length);
            }
            News::Skipped { to } => {
                self.leading.end(&Outcome::Unknown);
                let applied = self.core.intake.decoded().position;
                self.core.halt(
                    out,
                    format!(
                        "it holds the log up to {applied}, and the log begins at {to} now: take {} away, and it is made anew",
                        self.core.identity
                    ),
                );
            }
            News::Begins { stream } => {
                let decoded = self.core.intake.decoded();
                self.leading.begin(stream, decoded);
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
            News::Leader { address } => self.leading.leader = address,
            News::Full { why } => self.leading.full = why,
        }
    }

    pub(crate) fn on_came(&mut self, came: Came, out: &mut Out) {
        match came {
            Came::Opened(Ok(shelf)) => {
                let applied = shelf.applied();
                self.core.intake = Intake::from(applied);
                self.keeping.begin(applied);
                self.core.shelf = Some(shelf);
                let from = applied.position;
                self.core.wish(out, Wish::Attach { from });
            }
            Came::Opened(Err(error)) => self.core.halt_for(out, &error),
            Came::Applied { bytes, result } => {
                self.keeping.on_applied(&mut self.core, bytes, result, out);
            }
            Came::Fetched { fetch, result } => match result {
                Ok(rows) => self.leading.on_fetched(fetch, rows),
                Err(error) => {
                    self.leading.on_fetch_failed(fetch);
                    self.core.halt_for(out, &error);
                }
            },
            Came::Looked => self.looking.on_looked(),
            Came::Flushed(result) => self.keeping.on_flushed(&mut self.core, result, out),
            Came::Compacted(result) => self.keeping.on_compacted(&mut self.core, result, out),
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
    pub fn settle(&mut self, now: Time, wall_ms: Option<u64>, out: &mut Out) {
        if let Some(why) = &self.core.halted {
            let why = format!("the state of {} has stopped here: {why}", self.core.name);
            // Nobody tells this replica any more what became of them.
            self.leading.end(&Outcome::Unknown);
            self.leading.refuse_all(&Outcome::NotNow(why.clone()));
            self.looking.end(&why);
            return;
        }
        self.leading
            .settle(now, wall_ms, &self.core, &self.keeping, out);
        self.looking.settle(now, &self.core, &self.keeping, out);
        self.keeping.settle(now, &mut self.core, out);
        let applied = self.keeping.applied().frame;
        self.leading.shrink(applied, &self.core.bounds);
    }

    /// Flushes what is not flushed. True once nothing is left to do.
    pub fn wind_up(&mut self, out: &mut Out) -> bool {
        self.core.halted.is_some() || self.core.is_gone || self.keeping.wind_up(&self.core, out)
    }

    pub fn deadline(&self) -> Option<Time> {
        let parts = [
            self.leading.deadline(),
            self.looking.deadline(),
            self.keeping.deadline(),
        ];
        parts.into_iter().flatten().min()
    }
}
