//! Live reads as events (SSE).

use std::sync::Arc;
use std::time::Duration;

use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::Serialize;
use streams::sse::{self, Encoding};
use streams::{Found, Lifetime, Offset, Path, Read};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::body::Body;
use crate::cursor;
use crate::fault::Fault;
use crate::headers;
use crate::query::Query;
use crate::read::set;
use crate::rights::Asker;
use crate::serve::{Door, LivePermit};
use crate::space::now_ms;
use crate::tails::Tail;

/// A quiet connection hears something so often.
pub const COMMENT_EVERY: Duration = Duration::from_secs(15);
/// A reader that takes nothing for so long is given up.
const STUCK_AFTER: Duration = Duration::from_secs(30);
/// Limits that are waited for are looked at again after so long: they may have changed.
const LIMITS_AGAIN: Duration = Duration::from_secs(1);
/// Pieces that wait for a slow reader.
const PIECES_MAX: usize = 2;

/// The event that says where a reader stands.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Control {
    stream_next_offset: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_cursor: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    up_to_date: bool,
    #[serde(skip_serializing_if = "is_false")]
    stream_closed: bool,
}

impl Control {
    /// As it stands in an event.
    pub fn text(at: Offset, cursor: Option<u64>, is_at_tail: bool, is_last: bool) -> String {
        let control = Control {
            stream_next_offset: at.to_string(),
            stream_cursor: cursor.map(|cursor| cursor.to_string()),
            up_to_date: is_at_tail,
            stream_closed: is_last,
        };
        serde_json::to_string(&control).unwrap_or_default()
    }
}

fn is_false(is: &bool) -> bool {
    !is
}

/// A reader of events.
struct Reader {
    door: Arc<Door>,
    path: Path,
    asker: Asker,
    tail: Arc<Tail>,
    id: u64,
    encoding: Encoding,
    /// All readers of the stream have the same events.
    is_usual: bool,
    lifetime: Lifetime,
    cursor: Option<u64>,
    out: mpsc::Sender<Bytes>,
    at: Offset,
    ends_at: Instant,
    _live: LivePermit,
}

/// The reader is gone, or has been told all.
struct Over;

impl Door {
    pub fn events(
        self: &Arc<Door>,
        path: Path,
        first: Read,
        query: &Query,
        asker: Asker,
    ) -> Result<Response<Body>, Fault> {
        let live = self.begin_live()?;
        let media = &first.standing.place.media;
        let usual = match (media.is_json(), media.is_text()) {
            (true, _) => Encoding::Json,
            (_, true) => Encoding::Text,
            _ => Encoding::Base64,
        };
        let encoding = match query.base64 {
            true => Encoding::Base64,
            false => usual,
        };
        let (out, body) = mpsc::channel(PIECES_MAX);
        let id = first.standing.place.id;
        let reader = Reader {
            door: self.clone(),
            path,
            asker,
            tail: self.tails.of(id),
            id,
            encoding,
            is_usual: encoding == usual,
            lifetime: first.standing.lifetime,
            cursor: query.cursor,
            out,
            at: first.from,
            ends_at: Instant::now() + self.bounds.events_for(),
            _live: live,
        };
        let mut response = Response::new(Body::Live(body));
        let headers = response.headers_mut();
        set(headers, CONTENT_TYPE, "text/event-stream");
        set(headers, CACHE_CONTROL, "no-cache");
        if encoding == Encoding::Base64 {
            set(headers, headers::SSE_ENCODING, "base64");
        }
        tokio::spawn(async move {
            // How it ended is seen by whoever reads.
            let _: Result<(), Over> = reader.run(first).await;
        });
        Ok(response)
    }
}

impl Reader {
    async fn send(&self, bytes: Bytes) -> Result<(), Over> {
        match timeout(STUCK_AFTER, self.out.send(bytes)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Over),
        }
    }

    /// The bytes of a read, and where the reader stands behind them, as it is sent them; and whether nothing follows. ‡ The read
    /// itself is not held until a slow reader has taken them.
    fn pieces(
        &mut self,
        read: &Read,
        event: Option<Bytes>,
        is_at_tail: bool,
    ) -> Result<(Vec<Bytes>, bool), Over> {
        let is_last = is_at_tail && read.standing.place.is_closed;
        let whole = match self.encoding {
            Encoding::Text if !is_last => sse::whole_characters(&read.bytes),
            _ => read.bytes.len(),
        };
        let (bytes, cut) = read.bytes.split_at(whole);
        let mut pieces = Vec::new();
        let mut out = Vec::new();
        match event {
            Some(event) if cut.is_empty() => pieces.push(event),
            _ if bytes.is_empty() => {}
            _ => sse::data(self.encoding, bytes, &mut out),
        }
        self.at = match cut.is_empty() {
            true => read.next,
            false => read.offset_at(whole),
        };
        let is_at_tail = is_at_tail && cut.is_empty();
        self.cursor = (!is_last).then(|| cursor::next(self.cursor));
        let text = Control::text(self.at, self.cursor, is_at_tail, is_last);
        sse::event("control", &text, &mut out);
        // Without room the reader is let go: it comes again from where it stood.
        pieces.push(self.door.answers.hold(out).map_err(|_| Over)?);
        Ok((pieces, is_last))
    }

    async fn tell(&self, (pieces, is_last): (Vec<Bytes>, bool)) -> Result<(), Over> {
        self.wait_for_limits().await?;
        for piece in pieces {
            self.door.quota.charge(&self.asker, piece.len());
            self.send(piece).await?;
        }
        match is_last {
            true => Err(Over),
            false => Ok(()),
        }
    }

    /// ‡ A live reader asks once and is sent much: it is sent more slowly, and not refused.
    async fn wait_for_limits(&self) -> Result<(), Over> {
        let mut ends = self.door.ends.clone();
        while let Some(wait) = self.door.quota.owes(&self.asker) {
            if *ends.borrow() || Instant::now() >= self.ends_at {
                return Err(Over);
            }
            tokio::select! {
                () = self.out.closed() => return Err(Over),
                _ = ends.changed() => {}
                () = sleep(wait.min(LIMITS_AGAIN)) => {}
            }
        }
        Ok(())
    }

    async fn run(mut self, first: Read) -> Result<(), Over> {
        let mut moves = self.tail.moves();
        let mut ends = self.door.ends.clone();
        let mut rights = self.door.rights_move.clone();
        let is_at_tail = first.is_at_tail();
        // A first read with a barrier, before the tail was watched: what comes is read below.
        let pieces = self.pieces(&first, None, is_at_tail)?;
        drop(first);
        self.tell(pieces).await?;
        let mut quiet_until = Instant::now() + COMMENT_EVERY;
        let mut touch_at = self.touch_at();
        loop {
            moves.borrow_and_update();
            rights.borrow_and_update();
            // ‡ Whoever may no more is told nothing more.
            if self.door.may_go_on(&self.asker, &self.path).is_err() {
                return Err(Over);
            }
            let tail = self.tail.clone();
            let read = tail.read(&self.door.space, &self.path, self.at).await;
            let Ok(Found::There(recent)) = read else {
                return Err(Over);
            };
            if recent.read.standing.place.id != self.id {
                return Err(Over);
            }
            let is_at_tail = tail.is_at_tail(&recent);
            let is_last = is_at_tail && recent.read.is_last();
            if !recent.read.bytes.is_empty() || is_last {
                let before = self.at;
                let event = self.is_usual && !recent.read.bytes.is_empty();
                let event = event.then(|| recent.event(self.encoding, &self.door.answers));
                let event = event.transpose().map_err(|_| Over)?;
                let pieces = self.pieces(&recent.read, event, is_at_tail)?;
                drop(recent);
                self.tell(pieces).await?;
                quiet_until = Instant::now() + COMMENT_EVERY;
                if self.at != before && !is_at_tail {
                    continue;
                }
            }
            if *ends.borrow() || Instant::now() >= self.ends_at {
                return Err(Over);
            }
            let soonest = self.ends_at.min(quiet_until).min(touch_at);
            tokio::select! {
                _ = moves.changed() => {}
                _ = ends.changed() => {}
                _ = rights.changed() => {}
                () = self.out.closed() => return Err(Over),
                () = sleep_until(soonest) => {
                    if Instant::now() >= quiet_until {
                        self.send(Bytes::from_static(sse::COMMENT)).await?;
                        quiet_until = Instant::now() + COMMENT_EVERY;
                    }
                    if Instant::now() >= touch_at {
                        self.touch().await?;
                        touch_at = self.touch_at();
                    }
                }
            }
        }
    }

    /// A stream whose time runs from its last use is used as long as somebody reads it.
    async fn touch(&self) -> Result<(), Over> {
        let touched = self.door.space.touch(self.path.clone(), true).await;
        touched.map_err(|_| Over)
    }

    fn touch_at(&self) -> Instant {
        let far = Duration::from_secs(24 * 60 * 60);
        let after = match self.lifetime {
            Lifetime::Endless => far,
            Lifetime::Until { ms } => Duration::from_millis(ms.saturating_sub(now_ms()) + 1),
            Lifetime::Idle { seconds } => {
                Duration::from_millis(seconds.saturating_mul(500).max(500))
            }
        };
        Instant::now() + after.min(far)
    }
}
