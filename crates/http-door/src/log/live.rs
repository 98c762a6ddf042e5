//! Live reads of a log: long-polls and events (SSE). Each has a thread of its own while it lasts, so there are few of them.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use hyper::{Response, StatusCode};
use streams::sse::{self, Encoding};
use tokio::sync::{mpsc, oneshot, watch};

use super::contract::{End, Logs, Next, NoLog, Read};
use super::read::{MEDIA, PIECE_BYTES_MAX};
use super::{Ask, Stands, known, same, stands, tag};
use crate::body::Body;
use crate::cursor;
use crate::events::{COMMENT_EVERY, Control};
use crate::fault::Fault;
use crate::headers;
use crate::read::set;
use crate::serve::Door;

/// Pieces that wait for a slow reader.
const PIECES_MAX: usize = 2;
/// A poll has so many bytes, or somewhat more.
const POLL_BYTES_MAX: usize = 1 << 20;
/// Whoever waits looks so often whether he still has to.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A chain whose writer vanished is asked so often whether it came back.
const CUT_EVERY: Duration = Duration::from_millis(500);

/// A reader that follows, across the times at which its writer is gone.
struct Follower<'a> {
    logs: &'a dyn Logs,
    ask: &'a Ask,
    id: u64,
    at: u64,
    read: Box<dyn Read>,
}

impl<'a> Follower<'a> {
    fn begin(logs: &'a dyn Logs, ask: &'a Ask) -> Result<(Follower<'a>, Stands), Fault> {
        let (asking, stale) = (&ask.asking, ask.query.stale);
        let id = known(logs, asking, stale)?;
        let stands = stands(logs, ask, id)?;
        let at = stands.position(ask.query.from)?;
        let read = logs.read(asking, &ask.wanted(at, None));
        let read = read.map_err(|why| Fault::of_log(why, None))?;
        same(logs, asking, stale, id)?;
        let follower = Follower {
            logs,
            ask,
            id,
            at,
            read,
        };
        Ok((follower, stands))
    }

    /// The next bytes; none: nothing came in time, or (`true`) nothing will.
    fn next(&mut self, within: Duration) -> Result<(Vec<u8>, bool), NoLog> {
        match self.read.next(PIECE_BYTES_MAX, within)? {
            Next::Bytes(bytes) => {
                self.at = self.read.position();
                Ok((bytes, false))
            }
            Next::Quiet => Ok((Vec::new(), false)),
            Next::End(End::Closed) => Ok((Vec::new(), true)),
            Next::End(End::Cut | End::Here) => {
                sleep(within.min(CUT_EVERY));
                let wanted = self.ask.wanted(self.at, None);
                self.read = self.logs.read(&self.ask.asking, &wanted)?;
                Ok((Vec::new(), false))
            }
        }
    }

    /// Whether this is all that there is.
    fn is_at_tail(&self) -> Result<bool, Fault> {
        let stands = stands(self.logs, self.ask, self.id)?;
        Ok(stands.length == self.at)
    }
}

/// What a poll came to.
struct Polled {
    bytes: Vec<u8>,
    stands: Stands,
    is_at_tail: bool,
    is_closed: bool,
}

fn poll(
    logs: &dyn Logs,
    ask: &Ask,
    until: Instant,
    goes_on: impl Fn() -> bool,
) -> Result<Polled, Fault> {
    let fault = |why| Fault::of_log(why, None);
    let (mut follower, mut stands) = Follower::begin(logs, ask)?;
    let mut bytes = Vec::new();
    let mut is_closed = false;
    while !is_closed && bytes.len() < POLL_BYTES_MAX {
        // What is on its way is taken along.
        let within = match bytes.is_empty() {
            true => LOOK_EVERY.min(until.saturating_duration_since(Instant::now())),
            false => Duration::from_millis(1),
        };
        let (more, is_last) = follower.next(within).map_err(fault)?;
        is_closed = is_last;
        let is_quiet = more.is_empty();
        bytes.extend(more);
        let is_over = Instant::now() >= until || !goes_on();
        if is_quiet && (is_over || !bytes.is_empty()) {
            break;
        }
    }
    let is_at_tail = is_closed || bytes.is_empty() || follower.is_at_tail()?;
    stands.length = follower.at;
    Ok(Polled {
        bytes,
        stands,
        is_at_tail,
        is_closed,
    })
}

impl Polled {
    fn answer(self, seen: Option<u64>) -> Response<Body> {
        let is_empty = self.bytes.is_empty();
        let mut response = Response::new(Body::from(self.bytes));
        let headers = response.headers_mut();
        let next = self.stands.offset(self.stands.length);
        set(headers, headers::NEXT_OFFSET, next);
        if self.is_at_tail {
            set(headers, headers::UP_TO_DATE, "true");
        }
        match self.is_closed {
            true => set(headers, headers::CLOSED, "true"),
            false => set(headers, headers::CURSOR, cursor::next(seen)),
        }
        match is_empty {
            true => set(headers, CACHE_CONTROL, "no-store"),
            false => {
                set(headers, CONTENT_TYPE, MEDIA);
                set(headers, CACHE_CONTROL, "no-cache");
                set(headers, ETAG, tag(next));
            }
        }
        if is_empty {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        response
    }
}

impl Door {
    pub(super) async fn log_poll(&self, ask: Ask) -> Result<Response<Body>, Fault> {
        let permit = self.reads_log()?;
        let until = Instant::now() + self.bounds.long_poll;
        let ends = self.ends.clone();
        let seen = ask.query.cursor;
        // Held as long as somebody waits for the answer.
        let (_waits, gone) = mpsc::channel::<()>(1);
        let work = move |logs: &dyn Logs| {
            let goes_on = || !*ends.borrow() && !gone.is_closed();
            poll(logs, &ask, until, goes_on)
        };
        let polled = self.on_thread(permit, work).await?;
        Ok(polled.answer(seen))
    }

    pub(super) async fn log_events(self: &Arc<Door>, ask: Ask) -> Result<Response<Body>, Fault> {
        let permit = self.reads_log()?;
        let (tell, told) = oneshot::channel();
        let (out, body) = mpsc::channel(PIECES_MAX);
        let (logs, ends) = (self.logs.clone(), self.ends.clone());
        let until = Instant::now() + self.bounds.events_for();
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let follower = match Follower::begin(&*logs, &ask) {
                Ok((follower, _)) => follower,
                Err(fault) => return drop(tell.send(Err(fault))),
            };
            if tell.send(Ok(())).is_ok() {
                let events = Events {
                    follower,
                    out,
                    ends,
                    cursor: ask.query.cursor,
                };
                // How it ended is seen by whoever reads.
                let _: Result<(), Over> = events.run(until);
            }
        });
        let stopped = |_| Fault::not_now("this node is stopping");
        told.await.map_err(stopped)??;
        let mut response = Response::new(Body::Live(body));
        let headers = response.headers_mut();
        set(headers, CONTENT_TYPE, "text/event-stream");
        set(headers, CACHE_CONTROL, "no-cache");
        set(headers, headers::SSE_ENCODING, "base64");
        Ok(response)
    }
}

/// The reader is gone, or has been told all.
struct Over;

struct Events<'a> {
    follower: Follower<'a>,
    out: mpsc::Sender<bytes::Bytes>,
    ends: watch::Receiver<bool>,
    cursor: Option<u64>,
}

impl Events<'_> {
    fn send(&self, bytes: Vec<u8>) -> Result<(), Over> {
        // A connection that takes nothing is ended, and this end of the channel with it.
        self.out.blocking_send(bytes.into()).map_err(|_| Over)
    }

    fn tell(&mut self, bytes: &[u8], is_at_tail: bool, is_last: bool) -> Result<(), Over> {
        let mut event = Vec::new();
        if !bytes.is_empty() {
            sse::data(Encoding::Base64, bytes, &mut event);
        }
        self.cursor = (!is_last).then(|| cursor::next(self.cursor));
        let offset = streams::Offset {
            lineage: self.follower.id,
            position: self.follower.at,
        };
        let control = Control::text(offset, self.cursor, is_at_tail, is_last);
        sse::event("control", &control, &mut event);
        self.send(event)
    }

    fn run(mut self, until: Instant) -> Result<(), Over> {
        let mut quiet_until = Instant::now() + COMMENT_EVERY;
        // Whoever stands at the tail is told so, once.
        let mut was_told = false;
        loop {
            let within = match was_told {
                true => LOOK_EVERY,
                false => Duration::from_millis(1),
            };
            let (bytes, is_last) = self.follower.next(within).map_err(|_| Over)?;
            if is_last {
                return self.tell(&bytes, true, true);
            }
            if !bytes.is_empty() {
                was_told = false;
                self.tell(&bytes, false, false)?;
                quiet_until = Instant::now() + COMMENT_EVERY;
            } else if !was_told && self.follower.is_at_tail().map_err(|_| Over)? {
                was_told = true;
                self.tell(&[], true, false)?;
            }
            if *self.ends.borrow() || Instant::now() >= until || self.out.is_closed() {
                return Ok(());
            }
            if Instant::now() >= quiet_until {
                self.send(sse::COMMENT.to_vec())?;
                quiet_until = Instant::now() + COMMENT_EVERY;
            }
        }
    }
}
