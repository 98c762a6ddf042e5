//! GET and HEAD of a log: what is there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap,
};
use hyper::{Response, StatusCode};
use streams::{From, Offset};
use tokio::sync::{mpsc, oneshot};

use super::contract::{End, Last, Logs, Next, NoLog, Read};
use super::{Ask, Asking, Stands, known, same, stands, tag};
use crate::body::Body;
use crate::fault::Fault;
use crate::headers;
use crate::query::{Live, LogQuery};
use crate::range::Range;
use crate::read::set;
use crate::serve::Door;

pub const MEDIA: &str = "application/octet-stream";
/// Pieces that wait for a slow reader.
const PIECES_MAX: usize = 2;
pub const PIECE_BYTES_MAX: usize = 256 << 10;
/// A node that owes bytes is waited for so long; the pipe looks for another one meanwhile.
const BYTES_WITHIN: Duration = Duration::from_secs(30);

/// A read that was begun, as its head tells.
struct Head {
    stands: Stands,
    from: u64,
    to: u64,
    is_part: bool,
    is_closed: bool,
    /// The asker has it.
    is_known: bool,
}

impl Door {
    pub async fn read_log(
        self: &Arc<Door>,
        asking: Asking,
        query: LogQuery,
        asked: &HeaderMap,
    ) -> Result<Response<Body>, Fault> {
        let LogQuery { query, stream } = query;
        let has_range = asked.contains_key(hyper::header::RANGE);
        if has_range && (query.live != Live::No || query.is_placed) {
            return Err(Fault::new(
                400,
                "bad-query",
                "both Range and an offset, or a live read, are asked for",
                "send one of them",
            ));
        }
        let live = query.live;
        let ask = Ask {
            asking,
            query,
            stream,
        };
        match live {
            Live::No => self.log_bytes(ask, asked.clone()).await,
            Live::LongPoll => self.log_poll(ask).await,
            Live::Sse => self.log_events(ask).await,
        }
    }

    async fn log_bytes(&self, ask: Ask, asked: HeaderMap) -> Result<Response<Body>, Fault> {
        let permit = self.reads_log()?;
        let (tell, told) = oneshot::channel();
        let (out, pieces) = mpsc::channel(PIECES_MAX);
        let logs = self.logs.clone();
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            match begin(&*logs, &ask, &asked) {
                Ok((head, mut read)) => {
                    let left = head.to - head.from;
                    if tell.send(Ok(head)).is_ok() {
                        hand_on(&mut *read, left, &out);
                    }
                }
                Err(fault) => _ = tell.send(Err(fault)),
            }
        });
        let stopped = |_| Fault::not_now("this node is stopping");
        let head: Head = told.await.map_err(stopped)??;
        Ok(head.answer(pieces))
    }

    pub async fn stand_log(
        &self,
        asking: Asking,
        query: LogQuery,
    ) -> Result<Response<Body>, Fault> {
        let LogQuery { query, stream } = query;
        let ask = Ask {
            asking,
            query,
            stream,
        };
        let permit = self.reads_log()?;
        let look = move |logs: &dyn Logs| {
            let (asking, stale) = (&ask.asking, ask.query.stale);
            let id = known(logs, asking, stale)?;
            let stands = stands(logs, &ask, id)?;
            let last = match ask.stream {
                // Its leader alone tells who wrote last.
                None if !stale => logs.last(asking).map_err(|why| Fault::of_log(why, None))?,
                _ => None,
            };
            let is_closed = is_closed(logs, &ask, stands.length)?;
            same(logs, asking, stale, id)?;
            Ok((stands, last, is_closed))
        };
        let (stands, last, is_closed) = self.on_thread(permit, look).await?;
        let mut response = Response::new(Body::empty());
        let headers = response.headers_mut();
        set(headers, CONTENT_TYPE, MEDIA);
        set(headers, CONTENT_LENGTH, stands.length - stands.first);
        set(headers, CACHE_CONTROL, "no-store");
        describe(headers, &stands, stands.length, is_closed);
        if let Some(Last {
            first,
            bytes,
            open_at,
        }) = last
        {
            set(headers, headers::STREAM, format!("{first}@{bytes}"));
            if let Some(place) = open_at {
                set(headers, headers::CONTINUES, place);
            }
        }
        Ok(response)
    }
}

/// What every answer with bytes, or about them, says.
fn describe(headers: &mut HeaderMap, stands: &Stands, next: u64, is_closed: bool) {
    set(headers, ACCEPT_RANGES, "bytes");
    set(headers, headers::NEXT_OFFSET, stands.offset(next));
    set(headers, headers::FIRST_OFFSET, stands.offset(stands.first));
    // Of a part it is the whole's, by the RFC.
    set(headers, ETAG, tag(stands.offset(stands.length)));
    if is_closed {
        set(headers, headers::CLOSED, "true");
    }
}

/// Whether a chain that ends there was closed. A log never is.
fn is_closed(logs: &dyn Logs, ask: &Ask, length: u64) -> Result<bool, Fault> {
    if ask.stream.is_none() {
        return Ok(false);
    }
    let fault = |why| Fault::of_log(why, None);
    let wanted = ask.wanted(length, None);
    let mut read = logs.read(&ask.asking, &wanted).map_err(fault)?;
    let next = read.next(1, BYTES_WITHIN).map_err(fault)?;
    Ok(next == Next::End(End::Closed))
}

/// Whether a tag is one of this log: what it holds is never changed, so bytes that were read before go together with those that are read now.
fn is_of(id: u64, tag: &str) -> bool {
    let offset = tag.trim_matches('"').parse::<Offset>();
    offset.is_ok_and(|offset| offset.lineage == id)
}

fn begin(logs: &dyn Logs, ask: &Ask, asked: &HeaderMap) -> Result<(Head, Box<dyn Read>), Fault> {
    let (asking, stale) = (&ask.asking, ask.query.stale);
    let id = known(logs, asking, stale)?;
    let range = Range::of(asked, |tag| is_of(id, tag));
    loop {
        let mut stands = stands(logs, ask, id)?;
        let (from, to) = match range {
            None => (stands.position(ask.query.from)?, None),
            Some(range) => {
                let (from, to) = range.within(stands.first, stands.length)?;
                (from, Some(to))
            }
        };
        let read = match logs.read(asking, &ask.wanted(from, to)) {
            // The beginning is wherever it is now.
            Err(NoLog::Trimmed { .. }) if range.is_none() && ask.query.from == From::Start => {
                continue;
            }
            read => read.map_err(|why| Fault::of_log(why, None))?,
        };
        stands.length = stands.length.max(read.length());
        let to = to.unwrap_or(stands.length);
        let is_closed = to == stands.length && is_closed(logs, ask, to)?;
        same(logs, asking, stale, id)?;
        let is_known = range.is_none() && headers::has(asked, &tag(stands.offset(to)));
        let head = Head {
            stands,
            from,
            to,
            is_part: range.is_some(),
            is_closed,
            is_known,
        };
        return Ok((head, read));
    }
}

/// So many bytes of a read, as its asker takes them. ‡ What ends before is broken off there: nothing else is sent in its place.
fn hand_on(read: &mut dyn Read, mut left: u64, out: &mpsc::Sender<Bytes>) {
    while left > 0 {
        let wanted = left.min(PIECE_BYTES_MAX as u64) as usize;
        match read.next(wanted, BYTES_WITHIN) {
            Ok(Next::Bytes(bytes)) => {
                left -= bytes.len() as u64;
                if out.blocking_send(Bytes::from(bytes)).is_err() {
                    return;
                }
            }
            Ok(Next::Quiet | Next::End(_)) => return,
            Err(why) => {
                tracing::warn!(?why, "a read of a log over HTTP broke off");
                return;
            }
        }
    }
}

impl Head {
    fn answer(self, pieces: mpsc::Receiver<Bytes>) -> Response<Body> {
        let Head {
            stands, from, to, ..
        } = self;
        let body = Body::Sized {
            left: to - from,
            pieces,
        };
        let (status, body) = match (self.is_known, self.is_part) {
            (true, _) => (StatusCode::NOT_MODIFIED, Body::empty()),
            (_, true) => (StatusCode::PARTIAL_CONTENT, body),
            (_, false) => (StatusCode::OK, body),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        set(headers, CONTENT_TYPE, MEDIA);
        set(headers, CACHE_CONTROL, "no-cache");
        describe(headers, &stands, to, self.is_closed);
        if to == stands.length {
            set(headers, headers::UP_TO_DATE, "true");
        }
        if self.is_part {
            let range = format!("bytes {from}-{}/{}", to - 1, stands.length);
            set(headers, CONTENT_RANGE, range);
        }
        response
    }
}
