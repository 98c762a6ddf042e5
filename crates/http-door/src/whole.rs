//! GET of a whole stream (`all=1`), or of a part (`Range`), in one answer.
//!
//! Where it ends is known at its beginning. ‡ So it has a length, and whoever is sent less sees a broken connection, and no shorter stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT_RANGES, CACHE_CONTROL, CONTENT_RANGE, ETAG, HeaderMap, RANGE};
use hyper::{Response, StatusCode};
use streams::{Found, From, Offset, Place, READ_BYTES_MAX, Read, Standing, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::answers::Room;
use crate::body::Body;
use crate::fault::Fault;
use crate::headers;
use crate::name::Name;
use crate::query::{Live, Query};
use crate::quota::Quota;
use crate::range::Range;
use crate::read::{describe, found, set};
use crate::rights::Asker;
use crate::serve::Door;
use crate::space::Handle;
use crate::write::BODY_BYTES_MAX;

/// Pieces that wait for a slow reader.
const PIECES_MAX: usize = 1;
/// The bytes of a read, at most: an append may be the last of it.
const PIECE_BYTES_MAX: usize = READ_BYTES_MAX + BODY_BYTES_MAX;
/// Room for the first piece is waited for so long …
const FIRST_WITHIN: Duration = Duration::from_secs(2);
/// … and for the next ones so long: others who take nothing are given up by then.
const NEXT_WITHIN: Duration = Duration::from_secs(40);

/// The rest of an answer that was begun.
struct Rest {
    door: Arc<Door>,
    space: Handle,
    quota: Arc<Quota>,
    name: Name,
    asker: Asker,
    id: u64,
    is_json: bool,
    at: Offset,
    /// The position behind the last byte.
    to: u64,
    out: mpsc::Sender<Bytes>,
}

/// Why an answer ends before its length.
enum Broken {
    /// Its reader knows.
    Gone,
    Why(&'static str),
}

impl Door {
    /// Whether it is asked for more than a page.
    ///
    /// Errors: what is asked for does not go together.
    pub fn is_of_whole(query: &Query, asked: &HeaderMap) -> Result<bool, Fault> {
        let has_range = asked.contains_key(RANGE);
        let is_live = query.live != Live::No;
        if has_range && (is_live || query.is_placed) || query.all && is_live {
            return Err(Fault::new(
                400,
                "bad-query",
                "a live read, an offset with Range, and all=1 do not go together",
                "send one of them",
            ));
        }
        Ok(query.all || has_range)
    }

    /// ‡ Where a range is passed over all of it is the answer, by the RFC: whoever goes on with a download has nothing else to tell a part by.
    pub async fn whole(
        self: &Arc<Door>,
        name: &Name,
        query: &Query,
        asked: &HeaderMap,
        asker: &Asker,
    ) -> Result<Response<Body>, Fault> {
        let space = self.space(&name.space);
        let standing = match query.stale {
            true => self.read_stale(name, From::Tail, 1).await?.standing,
            false => found(space.stand(name.path.clone()).await?)?,
        };
        let place = &standing.place;
        // JSON is an array however much of it is asked for.
        let range = Range::of(asked, |tag| is_of(place, tag)).filter(|_| !place.media.is_json());
        let length = place.tail.position;
        let (from, part) = match range {
            Some(range) => {
                let (from, to) = range.within(standing.first.position, length)?;
                // A lineage of 0 is that of whatever stream it is.
                let lineage = 0;
                let position = from;
                let offset = Offset { lineage, position };
                (From::At(offset), Some((from, to)))
            }
            None => (query.from, None),
        };
        let room = self.answers.room(PIECE_BYTES_MAX, FIRST_WITHIN).await?;
        let first = match query.stale {
            true => self.read_stale(name, from, READ_BYTES_MAX).await?,
            false => {
                let read = space.read(name.path.clone(), from, READ_BYTES_MAX, false);
                found(read.await?)?
            }
        };
        self.note_use(name, &first.standing, query.stale).await?;
        if part.is_some() && first.standing.place.id != place.id {
            return Err(Fault::not_now("the stream was made anew meanwhile"));
        }
        Ok(self.answer_whole((name, space), (first, room), part, asked, asker))
    }

    fn answer_whole(
        self: &Arc<Door>,
        (name, space): (&Name, Handle),
        (first, room): (Read, Room),
        part: Option<(u64, u64)>,
        asked: &HeaderMap,
        asker: &Asker,
    ) -> Response<Body> {
        let standing = first.standing.clone();
        let place = &standing.place;
        let (from, tail) = (first.from, place.tail);
        let to = part.map_or(tail.position, |(_, to)| to);
        let is_last = to == tail.position && place.is_closed;
        let etag = headers::etag(place, from, first.offset_of(to), is_last);
        let is_known = part.is_none() && headers::has(asked, &etag);
        let bytes = to.saturating_sub(from.position);
        let is_json = place.media.is_json();
        let left = if is_json {
            json::array_length(bytes)
        } else {
            bytes
        };
        let next = first.offset_of(to);
        let body = match is_known {
            true => Body::empty(),
            false => {
                let (out, pieces) = mpsc::channel(PIECES_MAX);
                let rest = Rest {
                    door: self.clone(),
                    quota: self.quotas.known(&name.space),
                    space,
                    name: name.clone(),
                    asker: asker.clone(),
                    id: place.id,
                    is_json,
                    at: from,
                    to,
                    out,
                };
                tokio::spawn(rest.run(first, room));
                Body::Sized { left, pieces }
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = match (is_known, part) {
            (true, _) => StatusCode::NOT_MODIFIED,
            (_, Some(_)) => StatusCode::PARTIAL_CONTENT,
            (_, None) => StatusCode::OK,
        };
        let headers = response.headers_mut();
        describe(headers, &standing);
        tell_place(headers, &standing, (next, to), is_last);
        set(headers, ETAG, etag);
        if let Some((from, to)) = part {
            let range = format!("bytes {from}-{}/{}", to - 1, tail.position);
            set(headers, CONTENT_RANGE, range);
        }
        response
    }
}

fn tell_place(
    headers: &mut HeaderMap,
    standing: &Standing,
    (next, to): (Offset, u64),
    is_last: bool,
) {
    set(headers, headers::NEXT_OFFSET, next);
    set(headers, CACHE_CONTROL, "no-cache");
    if !standing.place.media.is_json() {
        set(headers, ACCEPT_RANGES, "bytes");
    }
    if to == standing.place.tail.position {
        set(headers, headers::UP_TO_DATE, "true");
    }
    if is_last {
        set(headers, headers::CLOSED, "true");
    }
}

/// Whether a tag is one of this stream: its bytes never change, so those that were read before go together with those that are read now.
fn is_of(place: &Place, tag: &str) -> bool {
    let tag = tag.trim_matches('"');
    let of_tail = tag.parse::<Offset>();
    let of_read = tag.split(':').next().and_then(|id| id.parse::<u64>().ok());
    of_tail.is_ok_and(|offset| offset.lineage == place.tail.lineage) || of_read == Some(place.id)
}

impl Rest {
    async fn run(mut self, first: Read, room: Room) {
        if let Err(Broken::Why(why)) = self.send_all(first, room).await {
            tracing::warn!(stream = %self.name, why, "a read of a whole stream over HTTP broke off");
        }
    }

    async fn send_all(&mut self, first: Read, room: Room) -> Result<(), Broken> {
        if self.is_json {
            self.put(Bytes::from_static(b"[")).await?;
        }
        let is_empty = self.at.position >= self.to;
        let (mut read, mut room) = (first, room);
        while self.at.position < self.to {
            let Read {
                mut bytes, next, ..
            } = read;
            let wanted = usize::try_from(self.to - self.at.position).unwrap_or(usize::MAX);
            bytes.truncate(wanted);
            if bytes.is_empty() {
                return Err(Broken::Why("bytes are missing"));
            }
            self.at = next;
            let is_last = next.position >= self.to;
            if self.is_json {
                json::join(&mut bytes, is_last);
            }
            self.put(room.hold(bytes)).await?;
            if is_last {
                return Ok(());
            }
            self.wait_for_limits().await?;
            let next = self.door.answers.room(PIECE_BYTES_MAX, NEXT_WITHIN).await;
            room = next.map_err(|_| Broken::Why("there is no room for its bytes"))?;
            read = self.next().await?;
        }
        match self.is_json && is_empty {
            true => self.put(Bytes::from_static(b"]")).await,
            false => Ok(()),
        }
    }

    /// The next piece. ‡ This node has it: it showed the tail.
    async fn next(&self) -> Result<Read, Broken> {
        let may = self.door.may_go_on(&self.asker, &self.name);
        may.map_err(|_| Broken::Why("its reader may read it no more"))?;
        if *self.door.ends.borrow() {
            return Err(Broken::Why("this node stops"));
        }
        let path = self.name.path.clone();
        let read = self
            .space
            .read(path, From::At(self.at), READ_BYTES_MAX, true);
        match read.await {
            Ok(Found::There(read)) if read.standing.place.id == self.id => Ok(read),
            Ok(_) => Err(Broken::Why("the stream is gone")),
            Err(_) => Err(Broken::Why("its rows cannot be read now")),
        }
    }

    /// ‡ Before bytes are read, for they would be held meanwhile.
    async fn wait_for_limits(&self) -> Result<(), Broken> {
        while let Some(wait) = self.quota.owes(&self.asker) {
            if self.out.is_closed() {
                return Err(Broken::Gone);
            }
            sleep(wait.min(Duration::from_secs(1))).await;
        }
        Ok(())
    }

    async fn put(&self, bytes: Bytes) -> Result<(), Broken> {
        self.quota.charge(&self.asker, bytes.len());
        // ‡ A connection that takes nothing is ended, and the other end with it.
        self.out.send(bytes).await.map_err(|_| Broken::Gone)
    }
}

#[cfg(test)]
mod tests {
    use streams::MediaType;

    use super::*;

    #[test]
    fn a_tag_of_the_stream_is_known_and_none_of_another() {
        let tail = Offset {
            lineage: 7,
            position: 42,
        };
        let place = Place {
            id: 7,
            media: MediaType::new("text/plain").expect("a type"),
            tail,
            is_closed: false,
        };
        let read = headers::etag(
            &place,
            Offset {
                position: 0,
                ..tail
            },
            tail,
            false,
        );
        for (tag, expected) in [
            (read.as_str(), true),
            (&headers::etag_of_tail(&place), true),
            ("\"8:0:42\"", false),
            ("\"0000000000000008_0000000000000042\"", false),
            ("\"\"", false),
            ("W/\"7:0:42\"", false),
        ] {
            assert_eq!(is_of(&place, tag), expected, "{tag}");
        }
    }
}
