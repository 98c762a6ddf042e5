//! PUT, POST and DELETE.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, LOCATION};
use hyper::{Response, StatusCode};
use streams::{Answer, Append, Create, Place, Request, json};
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};

use crate::body::Body;
use crate::fault::Fault;
use crate::headers;
use crate::name::Name;
use crate::read::set;
use crate::rights::Asker;
use crate::route::Route;
use crate::serve::Door;

/// The bytes of one append.
pub const BODY_BYTES_MAX: usize = (8 << 20) - (64 << 10);
/// A body of which nothing comes for so long is given up.
pub const SILENT_AFTER: Duration = Duration::from_secs(10);
/// … and so is one of which fewer bytes come in that time, and not its end. ‡ Bodies that drip would else hold the room of all others for as
/// long as they like.
pub const PROGRESS_BYTES: usize = 64 << 10;
/// So many bytes of a body that is too long are read, and thrown away.
const PASSED_OVER_MAX: usize = 64 << 20;
/// All bodies together are counted in pieces of this size.
const PIECE: usize = 4 << 10;
/// The bodies in memory.
pub const BODIES_BYTES_MAX: usize = 256 << 20;
pub const BODY_PIECES_MAX: usize = BODIES_BYTES_MAX / PIECE;

/// A body, and the room that it takes until it is answered.
struct Taken<'a> {
    bytes: Vec<u8>,
    _room: Vec<SemaphorePermit<'a>>,
}

fn too_long() -> Fault {
    Fault::new(
        413,
        "too-long",
        format!("an append has at most {BODY_BYTES_MAX} bytes"),
        "send it in several, or write to a log of bytes (logberg append)",
    )
}

/// Reads a body that nobody wants, as far as it is not too long: a client that is answered before it has sent all takes that for a broken connection.
pub async fn pass_over(mut body: Incoming) {
    let mut left = PASSED_OVER_MAX;
    while let Ok(Some(Ok(frame))) = timeout(SILENT_AFTER, body.frame()).await {
        let length = frame.data_ref().map_or(0, bytes::Bytes::len);
        match left.checked_sub(length) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

/// A body, by whom it is sent, and what for.
pub struct Sent<'a> {
    pub body: Incoming,
    pub asker: &'a Asker,
    pub route: &'a Route,
}

impl Door {
    /// The body of a request that is no append.
    pub async fn take_small(&self, headers: &HeaderMap, sent: Sent<'_>) -> Result<Vec<u8>, Fault> {
        Ok(self.take(headers, sent).await?.bytes)
    }

    /// ‡ Who sent it is judged again when all of it is there: a body may take its time, and its token be revoked meanwhile.
    async fn take(&self, headers: &HeaderMap, sent: Sent<'_>) -> Result<Taken<'_>, Fault> {
        let Sent { body, asker, route } = sent;
        let is_filled = !body.is_end_stream();
        let taken = self.take_body(headers, body).await?;
        let judged = self.judge_route(asker, route, headers, is_filled);
        judged.inspect_err(|fault| self.tell_refused_of(asker, "the end of a body", fault))?;
        Ok(taken)
    }

    async fn take_body(&self, headers: &HeaderMap, mut body: Incoming) -> Result<Taken<'_>, Fault> {
        headers::check_encoding(headers)?;
        let length = headers
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > BODY_BYTES_MAX as u64) {
            // It may take its time to come, or never come: the answer does not wait for it.
            tokio::spawn(pass_over(body));
            return Err(too_long());
        }
        let said = body.size_hint().exact().unwrap_or(0);
        let mut bytes = Vec::with_capacity(usize::try_from(said).unwrap_or(0).min(64 << 10));
        let (mut room, mut room_bytes) = (Vec::new(), 0);
        let (mut since, mut seen) = (Instant::now(), 0);
        loop {
            if bytes.len() >= seen + PROGRESS_BYTES {
                (since, seen) = (Instant::now(), bytes.len());
            }
            let frame = match timeout_at(since + SILENT_AFTER, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => break,
                Ok(Some(Err(error))) => {
                    let message = format!("the body ended early: {error}");
                    return Err(Fault::new(
                        400,
                        "broken-body",
                        message,
                        "send it again: nothing was written",
                    ));
                }
                Err(_) => {
                    let message =
                        "less than 64 KiB of the body, and not its end, came in 10 seconds";
                    return Err(Fault::new(
                        408,
                        "slow-body",
                        message,
                        "send it again: nothing was written",
                    ));
                }
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if bytes.len() + data.len() > BODY_BYTES_MAX {
                drop(bytes);
                tokio::spawn(pass_over(body));
                return Err(too_long());
            }
            bytes.extend_from_slice(&data);
            while room_bytes < bytes.len() {
                let missing = (bytes.len() - room_bytes).div_ceil(PIECE);
                let pieces = u32::try_from(missing).unwrap_or(u32::MAX);
                let taken = self.bodies.try_acquire_many(pieces);
                let full = || Fault::not_now("this node holds as many bodies as it may");
                room.push(taken.map_err(|_| full())?);
                room_bytes += missing * PIECE;
            }
        }
        Ok(Taken { bytes, _room: room })
    }

    pub async fn create(
        &self,
        Name { space, path }: Name,
        headers: &HeaderMap,
        sent: Sent<'_>,
        address: &str,
    ) -> Result<Response<Body>, Fault> {
        let media = headers::media(headers)?;
        let (lifetime, fork) = (headers::lifetime(headers)?, headers::fork(headers, &space)?);
        let asker = sent.asker;
        let mut body = self.take(headers, sent).await?;
        self.quotas.known(&space).charge(asker, body.bytes.len());
        let is_json = media.as_ref().is_some_and(streams::MediaType::is_json);
        if is_json && !body.bytes.is_empty() {
            body.bytes = messages(&body.bytes)?;
        }
        let create = Create {
            path,
            media,
            lifetime,
            retention: headers::retention(headers)?,
            closes: headers::closes(headers),
            body: std::mem::take(&mut body.bytes),
            fork,
            must_be_new: headers::must_be_new(headers),
        };
        let create = Request::Create(Box::new(create));
        let (place, status) = match self.space(&space).submit(create).await?.answer {
            Answer::Created(place) => (place, StatusCode::CREATED),
            Answer::Found(place) => (place, StatusCode::OK),
            Answer::Refused(refusal) => return Err(Fault::of(refusal)),
            _ => return Err(Fault::unknown()),
        };
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        set(headers, CONTENT_TYPE, place.media.as_str());
        stands(headers, &place);
        if status == StatusCode::CREATED {
            set(headers, LOCATION, address);
        }
        Ok(response)
    }

    pub async fn append(
        &self,
        Name { space, path }: Name,
        headers: &HeaderMap,
        sent: Sent<'_>,
    ) -> Result<Response<Body>, Fault> {
        let (sequence, producer) = (headers::sequence(headers)?, headers::producer(headers)?);
        let (expected, closes) = (headers::expected(headers)?, headers::closes(headers));
        let asker = sent.asker;
        let mut body = self.take(headers, sent).await?;
        self.quotas.known(&space).charge(asker, body.bytes.len());
        let has_bytes = !body.bytes.is_empty();
        let mut media = None;
        match body.bytes.is_empty() {
            // Whatever type it says: clients send one always.
            true if closes => {}
            true => return Err(Fault::empty_body()),
            false => {
                let missing =
                    || Fault::bad_header("Content-Type", "send the stream's type: HEAD tells it");
                let said = headers::media(headers)?.ok_or_else(missing)?;
                if said.is_json() {
                    body.bytes = messages(&body.bytes)?;
                    if body.bytes.is_empty() {
                        return Err(Fault::new(
                            400,
                            "empty-array",
                            "the array has no messages",
                            "send some: an empty one appends nothing",
                        ));
                    }
                }
                media = Some(said);
            }
        }
        let append = Append {
            path,
            // ‡ A producer is one of its token's: nobody else's steps into its place, or fills the bound.
            principal: asker.name.clone(),
            media,
            body: std::mem::take(&mut body.bytes),
            closes,
            sequence,
            producer,
            expected,
        };
        let append = Request::Append(Box::new(append));
        let done = self.space(&space).submit(append).await?;
        let (place, produced, is_new) = match done.answer {
            Answer::Appended { place, produced } => (place, produced, true),
            Answer::Known { place, produced } => (place, produced, false),
            Answer::Refused(refusal) => return Err(Fault::of(refusal)),
            _ => return Err(Fault::unknown()),
        };
        let mut response = Response::new(Body::empty());
        // By the protocol a producer is told so whether its bytes are new.
        *response.status_mut() = match (produced, is_new) {
            (Some(_), true) if has_bytes => StatusCode::OK,
            _ => StatusCode::NO_CONTENT,
        };
        let headers = response.headers_mut();
        stands(headers, &place);
        if let Some((epoch, sequence)) = produced {
            set(headers, headers::PRODUCER_EPOCH, epoch);
            set(headers, headers::PRODUCER_SEQ, sequence);
        }
        // ‡ It may be known by what this door handed on itself: whoever asked once must not take that for an append of long ago.
        if !is_new && done.is_again {
            set(headers, headers::OUTCOME, "again");
        }
        Ok(response)
    }

    pub async fn delete(&self, Name { space, path }: Name) -> Result<Response<Body>, Fault> {
        match self
            .space(&space)
            .submit(Request::Delete { path })
            .await?
            .answer
        {
            Answer::Deleted => {
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::NO_CONTENT;
                set(response.headers_mut(), CACHE_CONTROL, "no-store");
                Ok(response)
            }
            Answer::Refused(refusal) => Err(Fault::of(refusal)),
            _ => Err(Fault::unknown()),
        }
    }
}

fn messages(body: &[u8]) -> Result<Vec<u8>, Fault> {
    json::messages(body).map_err(|error| Fault::sentence(400, "bad-json", &error.to_string()))
}

/// Where a stream stands behind what was done.
fn stands(headers: &mut HeaderMap, place: &Place) {
    set(headers, headers::NEXT_OFFSET, place.tail);
    set(headers, ETAG, headers::etag_of_tail(place));
    set(headers, CACHE_CONTROL, "no-store");
    if place.is_closed {
        set(headers, headers::CLOSED, "true");
    }
}
