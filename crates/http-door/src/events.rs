//! Live reads as events (SSE).

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::Serialize;
use streams::sse::{self, Encoding};
use streams::{Found, Lifetime, Offset, Read};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::answers::Room;
use crate::body::Body;
use crate::crowd::{Calls, Round, Seated, Word, usual_encoding};
use crate::cursor;
use crate::fault::Fault;
use crate::flow::{Flow, Slot};
use crate::headers;
use crate::name::Name;
use crate::query::Query;
use crate::quota::Quota;
use crate::read::set;
use crate::rights::Asker;
use crate::serve::{Door, LivePermit};
use crate::space::{Handle, now_ms};
use crate::tails::Tail;

/// A quiet connection hears something so often.
pub const COMMENT_EVERY: Duration = Duration::from_secs(15);
/// Limits that are waited for are looked at again after so long: they may have changed.
const LIMITS_AGAIN: Duration = Duration::from_secs(1);

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
    name: Name,
    space: Handle,
    quota: Arc<Quota>,
    asker: Asker,
    tail: Arc<Tail>,
    encoding: Encoding,
    /// All readers of the stream have the same events.
    is_usual: bool,
    lifetime: Lifetime,
    /// No lesser one is told.
    cursor: u64,
    out: Slot,
    at: Offset,
    ends_at: Instant,
    _live: LivePermit,
}

/// The reader has been told all, or may not be told more.
struct Over;

/// Why a reader that waited goes on.
enum Woken {
    Told(Word),
    /// It is time for something.
    Due,
}

impl Door {
    pub fn events(
        self: &Arc<Door>,
        name: Name,
        (first, room): (Read, Room),
        query: &Query,
        asker: Asker,
    ) -> Result<Response<Body>, Fault> {
        let live = self.begin_live()?;
        let media = &first.standing.place.media;
        let usual = usual_encoding(media);
        let encoding = match query.base64 {
            true => Encoding::Base64,
            false => usual,
        };
        let id = first.standing.place.id;
        let space = self.space(&name.space);
        let reader = Reader {
            door: self.clone(),
            asker,
            tail: self.tails.of(&space.name, id),
            quota: self.quotas.known(&name.space),
            name,
            space,
            encoding,
            is_usual: encoding == usual,
            lifetime: first.standing.lifetime,
            cursor: cursor::next(query.cursor),
            out: Slot::default(),
            at: first.from,
            ends_at: Instant::now() + self.bounds.events_for(),
            _live: live,
        };
        let flow = Flow::new(reader.out.clone(), async move {
            // How it ended is seen by whoever reads.
            let _: Result<(), Over> = reader.run(first, room).await;
        });
        let mut response = Response::new(Body::Flow(flow));
        let headers = response.headers_mut();
        set(headers, CONTENT_TYPE, "text/event-stream");
        set(headers, CACHE_CONTROL, "no-cache");
        if encoding == Encoding::Base64 {
            set(headers, headers::SSE_ENCODING, "base64");
        }
        Ok(response)
    }
}

impl Reader {
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
        let cursor = (!is_last).then(|| self.cursor.max(cursor::next(None)));
        let text = Control::text(self.at, cursor, is_at_tail, is_last);
        sse::event("control", &text, &mut out);
        // Without room the reader is let go: it comes again from where it stood.
        pieces.push(self.door.answers.hold(out).map_err(|_| Over)?);
        Ok((pieces, is_last))
    }

    async fn tell(&self, (pieces, is_last): (Vec<Bytes>, bool)) -> Result<(), Over> {
        self.wait_for_limits().await?;
        for piece in pieces {
            self.quota.charge(&self.asker, piece.len());
            self.out.put(piece).await;
        }
        match is_last {
            true => Err(Over),
            false => Ok(()),
        }
    }

    /// ‡ A live reader asks once and is sent much: it is sent more slowly, and not refused.
    async fn wait_for_limits(&self) -> Result<(), Over> {
        let mut ends = self.door.ends.clone();
        while let Some(wait) = self.quota.owes(&self.asker) {
            if *ends.borrow() || Instant::now() >= self.ends_at {
                return Err(Over);
            }
            tokio::select! {
                _ = ends.changed() => {}
                () = sleep(wait.min(LIMITS_AGAIN)) => {}
            }
        }
        Ok(())
    }

    async fn run(mut self, first: Read, room: Room) -> Result<(), Over> {
        let seated = self.tail.sit(|| Calls {
            space: self.space.clone(),
            path: self.name.path.clone(),
            answers: self.door.answers.clone(),
            at: first.next,
        });
        // ‡ The word that the node stops goes to those who sit: whoever sits down behind it looks himself.
        if *self.door.ends.borrow() {
            return Err(Over);
        }
        let is_at_tail = first.is_at_tail();
        // A first read with a barrier, before the tail was watched: what comes is read below.
        let pieces = self.pieces(&first, None, is_at_tail)?;
        drop((first, room));
        self.tell(pieces).await?;
        let mut quiet_until = Instant::now() + COMMENT_EVERY;
        let mut touch_at = self.touch_at();
        let soonest = self.ends_at.min(quiet_until).min(touch_at);
        // ‡ It is set when it rings, and not for each event: an event puts off what it rings for.
        let mut clock = std::pin::pin!(sleep_until(soonest));
        self.catch_up().await?;
        loop {
            let woken = self.wait(&seated, clock.as_mut()).await;
            // ‡ Whoever may no more is told nothing more.
            self.judge()?;
            match woken {
                Woken::Told(Word::Round(round)) if self.is_usual && round.from == self.at => {
                    self.take(&round).await?;
                    quiet_until = Instant::now() + COMMENT_EVERY;
                }
                Woken::Told(Word::Round(_) | Word::Look) => {
                    let before = self.at;
                    self.catch_up().await?;
                    if *self.door.ends.borrow() {
                        return Err(Over);
                    }
                    if self.at != before {
                        quiet_until = Instant::now() + COMMENT_EVERY;
                    }
                }
                Woken::Told(Word::Over) => return Err(Over),
                Woken::Due => {
                    let now = Instant::now();
                    if now >= self.ends_at {
                        return Err(Over);
                    }
                    if now >= quiet_until {
                        self.out.put(Bytes::from_static(sse::COMMENT)).await;
                        quiet_until = Instant::now() + COMMENT_EVERY;
                    }
                    if now >= touch_at {
                        self.touch().await?;
                        touch_at = self.touch_at();
                    }
                    let soonest = self.ends_at.min(quiet_until).min(touch_at);
                    clock.as_mut().reset(soonest);
                }
            }
        }
    }

    /// Waits for one thing alone: whatever may happen is told to the seat.
    async fn wait(&self, seated: &Seated, mut clock: Pin<&mut Sleep>) -> Woken {
        poll_fn(|context| match seated.poll(context) {
            Poll::Ready(word) => Poll::Ready(Woken::Told(word)),
            Poll::Pending => clock.as_mut().poll(context).map(|()| Woken::Due),
        })
        .await
    }

    fn judge(&self) -> Result<(), Over> {
        let may = self.door.may_go_on(&self.asker, &self.name);
        may.map_err(|_| Over)
    }

    /// Takes what the crowd is told.
    async fn take(&mut self, round: &Round) -> Result<(), Over> {
        self.at = round.next;
        let (bytes, own) = round.pieces(self.cursor);
        let pieces = std::iter::once(bytes).chain(own).collect();
        self.tell((pieces, round.is_last)).await
    }

    /// Reads what there is, at the reader's own pace, up to the tail.
    async fn catch_up(&mut self) -> Result<(), Over> {
        loop {
            self.judge()?;
            let tail = self.tail.clone();
            let read = tail.read(&self.space, &self.name.path, self.at).await;
            let Ok(Found::There(recent)) = read else {
                return Err(Over);
            };
            if !tail.is_of(&recent.read) {
                return Err(Over);
            }
            let is_at_tail = tail.is_at_tail(&recent);
            let is_last = is_at_tail && recent.read.is_last();
            let before = self.at;
            if !recent.read.bytes.is_empty() || is_last {
                let event = self.is_usual && !recent.read.bytes.is_empty();
                let event = event.then(|| recent.event(self.encoding, &self.door.answers));
                let event = event.transpose().map_err(|_| Over)?;
                let pieces = self.pieces(&recent.read, event, is_at_tail)?;
                drop(recent);
                self.tell(pieces).await?;
            }
            // ‡ What comes behind this is told to the seat.
            if self.at == before || is_at_tail || Instant::now() >= self.ends_at {
                return Ok(());
            }
        }
    }

    /// A stream whose time runs from its last use is used as long as somebody reads it.
    async fn touch(&self) -> Result<(), Over> {
        let touched = self.space.touch(self.name.path.clone(), true).await;
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
