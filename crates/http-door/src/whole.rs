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
use tokio::time::{Instant, sleep};

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

/// Pieces that wait for a slow reader.
const PIECES_MAX: usize = 1;
/// Room for a piece is waited for so long: others who take nothing are given up by then.
const ROOM_WITHIN: Duration = Duration::from_secs(40);
const ROOM_AGAIN: Duration = Duration::from_millis(50);

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

    /// `None`: the range is to be passed over, and all was not asked for.
    pub async fn whole(
        self: &Arc<Door>,
        name: &Name,
        query: &Query,
        asked: &HeaderMap,
        asker: &Asker,
    ) -> Result<Option<Response<Body>>, Fault> {
        let space = self.space(&name.space);
        let standing = found(space.stand(name.path.clone()).await?)?;
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
            None if query.all => (query.from, None),
            None => return Ok(None),
        };
        let first = match query.stale {
            true => self.read_stale(name, from, READ_BYTES_MAX).await?,
            false => {
                let read = space.read(name.path.clone(), from, READ_BYTES_MAX, false);
                found(read.await?)?
            }
        };
        self.note_use(name, &first.standing).await?;
        if part.is_some() && first.standing.place.id != place.id {
            return Err(Fault::not_now("the stream was made anew meanwhile"));
        }
        Ok(Some(self.answer_whole(
            (name, space),
            first,
            part,
            asked,
            asker,
        )))
    }

    fn answer_whole(
        self: &Arc<Door>,
        (name, space): (&Name, Handle),
        first: Read,
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
                tokio::spawn(rest.run(first));
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
    async fn run(mut self, first: Read) {
        if let Err(Broken::Why(why)) = self.send_all(first).await {
            tracing::warn!(stream = %self.name, why, "a read of a whole stream over HTTP broke off");
        }
    }

    async fn send_all(&mut self, first: Read) -> Result<(), Broken> {
        if self.is_json {
            self.put(b"[".to_vec()).await?;
        }
        let is_empty = self.at.position >= self.to;
        let mut read = first;
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
            self.put(bytes).await?;
            if is_last {
                return Ok(());
            }
            read = self.next().await?;
        }
        match self.is_json && is_empty {
            true => self.put(b"]".to_vec()).await,
            false => Ok(()),
        }
    }

    /// What follows. ‡ This node has it: it showed the tail.
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

    async fn put(&self, bytes: Vec<u8>) -> Result<(), Broken> {
        while let Some(wait) = self.quota.owes(&self.asker) {
            if self.out.is_closed() {
                return Err(Broken::Gone);
            }
            sleep(wait.min(Duration::from_secs(1))).await;
        }
        self.quota.charge(&self.asker, bytes.len());
        let until = Instant::now() + ROOM_WITHIN;
        let mut bytes = bytes;
        let held = loop {
            bytes = match self.door.answers.try_hold(bytes) {
                Ok(held) => break held,
                Err(back) => back,
            };
            if self.out.is_closed() {
                return Err(Broken::Gone);
            }
            if Instant::now() > until {
                return Err(Broken::Why("there is no room for its bytes"));
            }
            sleep(ROOM_AGAIN).await;
        };
        // ‡ A connection that takes nothing is ended, and the other end with it.
        self.out.send(held).await.map_err(|_| Broken::Gone)
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
