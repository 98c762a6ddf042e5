//! Raw logs: `/v1/log/NAME`. Bytes go by the raw pipe, and no state of the door's own knows them.
//!
//! ```text
//!   PUT, POST ─▶ write ─ pieces ─▶ a thread: an appender ═▶ the log's leader
//!   GET       ◀─ read  ◀ pieces ── a thread: a reader    ◀═ a node of the log
//!   GET, live ◀─ live  ◀ events ── a thread: a reader that follows
//! ```
//!
//! Between a thread and its connection stand a few pieces and no more: whoever takes nothing holds the other back.

mod asked;
mod contract;
mod fault;
mod live;
mod read;
mod upload;
mod write;

pub use contract::{
    Append, Asking, Credential, End, Ended, Last, Logs, Next, NoLog, Place, Read, Shown, Wanted,
};

use streams::{From, Offset};
use tokio::sync::OwnedSemaphorePermit;

use crate::fault::Fault;
use crate::query::{Live, Query};
use crate::serve::Door;

/// A read of a log, as it is asked for.
#[derive(Clone, Debug)]
struct Ask {
    asking: Asking,
    query: Query,
    stream: Option<String>,
}

impl Ask {
    fn wanted(&self, from: u64, to: Option<u64>) -> Wanted {
        Wanted {
            stream: self.stream.clone(),
            from,
            to,
            follows: self.query.live != Live::No,
            stale: self.query.stale,
        }
    }
}

/// Where a log, or a chain in it, stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stands {
    id: u64,
    /// The first byte that is left.
    first: u64,
    /// The position behind the last one.
    length: u64,
}

impl Stands {
    fn offset(&self, position: u64) -> Offset {
        Offset {
            lineage: self.id,
            position,
        }
    }

    /// The position that is meant.
    ///
    /// Errors: it is of another log, or there is no such one.
    fn position(&self, from: From) -> Result<u64, Fault> {
        let offset = match from {
            From::Start => return Ok(self.first),
            From::Tail => return Ok(self.length),
            From::At(offset) => offset,
        };
        if ![0, self.id].contains(&offset.lineage) {
            return Err(Fault::new(
                410,
                "other-offset",
                "the offset is of another log, or of one of this name that is gone",
                "read from the beginning, with offset=-1",
            ));
        }
        match offset.position {
            position if position < self.first => Err(Fault::of_log(
                NoLog::Trimmed {
                    from: Some(self.first),
                },
                None,
            )),
            position if position > self.length => {
                let length = self.length;
                Err(Fault::of_log(NoLog::PastEnd { length }, None))
            }
            position => Ok(position),
        }
    }
}

/// The tag of what ends there.
fn tag(offset: Offset) -> String {
    format!("\"{offset}\"")
}

/// A log of bytes.
///
/// Errors: there is none of that name, or it is for something else.
fn known(logs: &dyn Logs, asking: &Asking, stale: bool) -> Result<u64, Fault> {
    let shown = logs.show(asking, stale);
    let shown = shown.map_err(|why| Fault::of_log(why, None))?;
    match shown.other_kind {
        None => Ok(shown.id),
        Some(kind) => Err(Fault::other_kind(&asking.log, &kind)),
    }
}

/// ‡ Errors: the name is another log's by now than when `id` was looked for, so nobody knows of which of them is what was found in between.
fn same(logs: &dyn Logs, asking: &Asking, stale: bool, id: u64) -> Result<(), Fault> {
    match known(logs, asking, stale)? == id {
        true => Ok(()),
        false => Err(Fault::not_now(
            "the log was deleted and made again just now",
        )),
    }
}

/// Where the log stands, or that chain in it.
fn stands(logs: &dyn Logs, ask: &Ask, id: u64) -> Result<Stands, Fault> {
    let ends = logs.ends(&ask.asking, ask.stream.as_deref(), ask.query.stale);
    let (first, length) = ends.map_err(|why| Fault::of_log(why, None))?;
    Ok(Stands { id, first, length })
}

impl Door {
    fn reads_log(&self) -> Result<OwnedSemaphorePermit, Fault> {
        let permit = self.log_reads.clone().try_acquire_owned();
        permit.map_err(|_| Fault::not_now("this node serves as many reads of logs as it may"))
    }

    fn writes_log(&self) -> Result<OwnedSemaphorePermit, Fault> {
        let permit = self.log_writes.clone().try_acquire_owned();
        permit.map_err(|_| Fault::not_now("this node takes as many appends to logs as it may"))
    }

    /// Has something done on a thread that may wait.
    async fn on_thread<T: Send + 'static>(
        &self,
        permit: OwnedSemaphorePermit,
        work: impl FnOnce(&dyn Logs) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let logs = self.logs.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work(&*logs)
        });
        let stopped = |_| Fault::unknown_outcome("this node is stopping");
        done.await.map_err(stopped)?
    }
}

/// Why a log did not do it, as its asker is told.
#[cfg(test)]
pub fn fault_of(why: NoLog) -> Fault {
    Fault::of_log(why, None)
}

/// All that is read of a request's headers, each as it is understood or refused.
#[cfg(test)]
pub fn check_headers(asked: &hyper::HeaderMap) -> Vec<Result<(), Fault>> {
    let range = crate::range::Range::of(asked, |_| true);
    let within = range.map(|range| range.within(3, 100).map(|(from, to)| assert!(from < to)));
    let mut checked = vec![
        asked::check_for_log(asked),
        asked::continues(asked).map(drop),
        asked::expected_end(asked).map(drop),
    ];
    checked.extend(within);
    checked
}
