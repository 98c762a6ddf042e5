//! GET and HEAD: what is there, and what comes.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use streams::{Found, From, Lifetime, READ_BYTES_MAX, Read, Retention, Standing, json};
use tokio::time::{Instant, sleep};

use crate::body::Body;
use crate::cursor;
use crate::fault::Fault;
use crate::headers;
use crate::name::Name;
use crate::query::{Live, Query};
use crate::rights::Asker;
use crate::serve::Door;
use crate::space::now_ms;

/// A node that has not seen an offset of a stale read waits for it so long, and looks so often.
const BEHIND_FOR: Duration = Duration::from_secs(2);
const BEHIND_AGAIN: Duration = Duration::from_millis(20);

pub fn set(headers: &mut HeaderMap, name: HeaderName, value: impl ToString) {
    if let Ok(value) = HeaderValue::from_str(&value.to_string()) {
        headers.insert(name, value);
    }
}

/// What a read found, or why it has no answer.
pub fn found<T>(found: Found<T>) -> Result<T, Fault> {
    match found {
        Found::There(there) => Ok(there),
        Found::Nothing => Err(Fault::not_found()),
        Found::Deleted => Err(Fault::deleted()),
        Found::OtherOffset => Err(Fault::new(
            410,
            "other-offset",
            "the offset is of another stream, or of one of this name that is gone",
            "read from the beginning, with offset=-1",
        )),
        Found::Trimmed { first } => Err(Fault::new(
            410,
            "trimmed",
            "the stream's retention took away what stood at this offset",
            "go on at Logberg-First-Offset, where what is left begins, or with offset=-1",
        )
        .header(headers::FIRST_OFFSET, first)),
        Found::WrongOffset => Err(Fault::new(
            400,
            "bad-offset",
            "the offset is behind the stream's tail, or within a message",
            "use one that an answer of this stream had in Stream-Next-Offset",
        )),
    }
}

impl Door {
    pub async fn stand(&self, Name { space, path }: Name) -> Result<Response<Body>, Fault> {
        let space = self.space(&space);
        let mut standing = found(space.stand(path.clone()).await?)?;
        if standing.is_over(now_ms()) {
            space.touch(path.clone(), false).await?;
            standing = found(space.stand(path).await?)?;
        }
        let mut response = Response::new(Body::empty());
        let headers = response.headers_mut();
        describe(headers, &standing);
        set(headers, headers::NEXT_OFFSET, standing.place.tail);
        set(headers, ETAG, headers::etag_of_tail(&standing.place));
        set(headers, CACHE_CONTROL, "no-store");
        match standing.lifetime {
            Lifetime::Endless => {}
            Lifetime::Idle { seconds } => set(headers, headers::TTL, seconds),
            Lifetime::Until { ms } => {
                if let Some(time) = headers::rfc3339(ms) {
                    set(headers, headers::EXPIRES_AT, time);
                }
            }
        }
        set(headers, headers::FIRST_OFFSET, standing.first);
        if standing.retention != Retention::default() {
            set(
                headers,
                headers::RETENTION,
                headers::shown(standing.retention),
            );
        }
        if standing.place.is_closed {
            set(headers, headers::CLOSED, "true");
        }
        Ok(response)
    }

    pub async fn read(
        self: &Arc<Door>,
        name: Name,
        query: &Query,
        asked: &HeaderMap,
        asker: Asker,
    ) -> Result<Response<Body>, Fault> {
        // ‡ However much is asked for.
        if query.stale && self.is_cut_off() {
            return Err(Fault::not_now(
                "this node is cut off, and cannot know what was revoked since",
            ));
        }
        if Door::is_of_whole(query, asked)? {
            return self.whole(&name, query, asked, &asker).await;
        }
        let from = query.from;
        let bytes_max = match query.live {
            Live::No | Live::LongPoll => READ_BYTES_MAX,
            Live::Sse => crate::tails::LIVE_BYTES_MAX,
        };
        let (read, room) = match query.stale {
            true => {
                let read = self.read_stale(&name, from, bytes_max).await?;
                let room = self.answers.room_now(read.bytes.len())?;
                (read, room)
            }
            false => {
                let (space, answers) = (self.space(&name.space), self.answers.clone());
                let read = space.read_counted(name.path.clone(), from, bytes_max, answers);
                let (read, room) = read.await?;
                (found(read)?, room)
            }
        };
        self.note_use(&name, &read.standing, query.stale).await?;
        match query.live {
            Live::No => {
                // Its bytes are held as they go out.
                drop(room);
                self.caught_up(read, from, asked)
            }
            Live::LongPoll => {
                drop(room);
                self.long_poll(name, read, query, &asker).await
            }
            Live::Sse => self.events(name, (read, room), query, asker),
        }
    }

    /// Reads what this node has. ‡ Whoever shows an offset was shown the stream as far as there, by another node perhaps: this one may be
    /// behind it, and its word that there is no such stream or offset would be taken for the cluster's. So it waits a while, and then asks.
    pub async fn read_stale(
        &self,
        name: &Name,
        from: From,
        bytes_max: usize,
    ) -> Result<Read, Fault> {
        let space = self.space(&name.space);
        let until = Instant::now() + BEHIND_FOR;
        let mut stale = true;
        loop {
            let read = space.read(name.path.clone(), from, bytes_max, stale);
            let read = read.await?;
            let is_there = matches!(read, Found::There(_));
            if is_there || !stale || !matches!(from, From::At(_)) {
                return found(read);
            }
            stale = Instant::now() < until;
            if stale {
                sleep(BEHIND_AGAIN).await;
            }
        }
    }

    /// ‡ Whoever reads a stream whose time runs is answered once that is noted, or the stream's end is.
    ///
    /// A read that asks nobody is no use: noting it would ask where the space is led.
    pub async fn note_use(
        &self,
        name: &Name,
        standing: &Standing,
        is_stale: bool,
    ) -> Result<(), Fault> {
        let now_ms = now_ms();
        if is_stale {
            return match standing.is_over(now_ms) {
                true => Err(Fault::not_found()),
                false => Ok(()),
            };
        }
        match standing.is_over(now_ms) || standing.notes_use(now_ms) {
            true => self.space(&name.space).touch(name.path.clone(), true).await,
            false => Ok(()),
        }
    }

    async fn long_poll(
        &self,
        name: Name,
        read: Read,
        query: &Query,
        asker: &Asker,
    ) -> Result<Response<Body>, Fault> {
        if !read.bytes.is_empty() || read.is_last() {
            return self.polled(read, query);
        }
        let _live = self.begin_live()?;
        let at = read.next;
        let id = read.standing.place.id;
        let space = self.space(&name.space);
        let tail = self.tails.of(&space.name, id);
        let mut moves = tail.moves();
        let until = Instant::now() + self.bounds.long_poll;
        let mut ends = self.ends.clone();
        let mut rights = self.rights_move.clone();
        loop {
            moves.borrow_and_update();
            rights.borrow_and_update();
            self.may_go_on(asker, &name)?;
            let again = found(tail.read(&space, &name.path, at).await?)?;
            if again.read.standing.place.id != id {
                return Err(Fault::not_found());
            }
            let is_last = again.read.is_last() && tail.is_at_tail(&again);
            let is_over = Instant::now() >= until || *ends.borrow();
            if !again.read.bytes.is_empty() || is_last || is_over {
                return self.polled(again.read.clone(), query);
            }
            tokio::select! {
                // Until is looked at above.
                _ = tokio::time::sleep_until(until) => {}
                _ = ends.changed() => {}
                _ = moves.changed() => {}
                _ = rights.changed() => {}
            }
        }
    }
}

/// What every answer about a stream says.
pub fn describe(headers: &mut HeaderMap, standing: &Standing) {
    set(headers, CONTENT_TYPE, standing.place.media.as_str());
}

fn position(headers: &mut HeaderMap, read: &Read) {
    set(headers, headers::NEXT_OFFSET, read.next);
    if read.is_at_tail() {
        set(headers, headers::UP_TO_DATE, "true");
    }
    if read.is_last() {
        set(headers, headers::CLOSED, "true");
    }
}

fn etag(read: &Read) -> String {
    let Read {
        standing,
        from,
        next,
        ..
    } = read;
    headers::etag(&standing.place, *from, *next, read.is_last())
}

/// ‡ What ends at the tail is to be asked for again: more may be there by then, and a browser that has appended wants to see it.
fn cache_control(read: &Read) -> String {
    if read.is_at_tail() {
        return "no-cache".to_owned();
    }
    let standing = &read.standing;
    let left_ms = standing
        .lifetime
        .ends_ms(standing.touched_ms)
        .map(|ends| ends.saturating_sub(now_ms()));
    let left = left_ms.map_or(60, |ms| ms / 1_000).min(60);
    format!("public, max-age={left}")
}

impl Door {
    /// The bytes of a read as a body.
    fn body(&self, standing: &Standing, bytes: Vec<u8>) -> Result<Body, Fault> {
        let bytes = match standing.place.media.is_json() {
            true => json::array(&bytes),
            false => bytes,
        };
        Ok(Body::from(self.answers.hold(bytes)?))
    }

    fn caught_up(
        &self,
        mut read: Read,
        from: From,
        asked: &HeaderMap,
    ) -> Result<Response<Body>, Fault> {
        let etag = etag(&read);
        let is_known = from != From::Tail && headers::has(asked, &etag);
        let mut response = match is_known {
            true => Response::new(Body::empty()),
            false => {
                let bytes = std::mem::take(&mut read.bytes);
                Response::new(self.body(&read.standing, bytes)?)
            }
        };
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let headers = response.headers_mut();
        describe(headers, &read.standing);
        position(headers, &read);
        if from == From::Tail {
            // The bytes at the tail are over soon.
            set(headers, CACHE_CONTROL, "no-store");
        } else {
            set(headers, ETAG, etag);
            set(headers, CACHE_CONTROL, cache_control(&read));
        }
        Ok(response)
    }

    fn polled(&self, mut read: Read, query: &Query) -> Result<Response<Body>, Fault> {
        let bytes = std::mem::take(&mut read.bytes);
        let is_empty = bytes.is_empty();
        let mut response = match is_empty {
            true => Response::new(Body::empty()),
            false => Response::new(self.body(&read.standing, bytes)?),
        };
        if is_empty {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        let headers = response.headers_mut();
        position(headers, &read);
        if !read.is_last() {
            set(headers, headers::CURSOR, cursor::next(query.cursor));
        }
        match is_empty {
            true => set(headers, CACHE_CONTROL, "no-store"),
            false => {
                describe(headers, &read.standing);
                set(headers, ETAG, etag(&read));
                set(headers, CACHE_CONTROL, cache_control(&read));
            }
        }
        Ok(response)
    }
}
