//! PUT, POST and DELETE of a log.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CACHE_CONTROL, ETAG, HeaderMap, LOCATION};
use hyper::{Response, StatusCode};
use streams::{From, Offset};
use tokio::sync::mpsc;

use super::asked;
use super::contract::{Append, Ended, Logs, NoLog, Place};
use super::upload::{Piece, Upload, broken};
use super::{Ask, Asking, Stands, known, same, stands, tag};
use crate::body::Body;
use crate::fault::Fault;
use crate::headers;
use crate::query::{Live, Query};
use crate::read::set;
use crate::serve::Door;

/// Pieces of a body, as the connection brings them, that wait for the log.
const PIECES_MAX: usize = 8;
/// While another writer is there the log is asked for so long, so often.
const BUSY_FOR: Duration = Duration::from_secs(10);
const BUSY_EVERY: Duration = Duration::from_millis(100);

/// An append, as it is asked for.
struct Wish {
    asking: Asking,
    /// The end that is expected.
    expected: Option<Offset>,
    continues: Option<Place>,
}

/// An append that was done.
struct Done {
    stands: Stands,
    /// Its first stream, by which it can be read.
    stream: String,
}

impl Wish {
    fn ask(&self) -> Ask {
        let query = Query {
            from: From::Start,
            is_placed: false,
            live: Live::No,
            cursor: None,
            stale: false,
            all: false,
            base64: false,
        };
        let (asking, stream) = (self.asking.clone(), None);
        Ask {
            asking,
            query,
            stream,
        }
    }

    fn fault(&self, why: NoLog) -> Fault {
        Fault::of_log(why, self.continues.as_ref())
    }

    /// Errors: the log's end is not the one that is expected.
    fn check(&self, stands: &Stands) -> Result<(), Fault> {
        let is = stands.offset(stands.length);
        match self.expected {
            Some(expected) if expected != is => Err(Fault::new(
                412,
                "unexpected-tail",
                "the log's end is not the one in If-Match: others have appended",
                "read on from your offset, and decide again",
            )
            .header(headers::NEXT_OFFSET, is)
            .header(ETAG, tag(is))),
            _ => Ok(()),
        }
    }

    /// Looks whether it can be done before a byte of it is asked for. Nothing is opened.
    fn look(&self, logs: &dyn Logs) -> Result<(), Fault> {
        let id = known(logs, &self.asking, false)?;
        match self.expected {
            None => Ok(()),
            Some(_) => self.check(&stands(logs, &self.ask(), id)?),
        }
    }

    /// `gone`: closed once nobody waits for the answer.
    fn open(&self, logs: &dyn Logs, gone: &mpsc::Receiver<()>) -> Result<Box<dyn Append>, Fault> {
        let until = Instant::now() + BUSY_FOR;
        loop {
            match logs.append(&self.asking, self.continues.as_ref()) {
                Err(NoLog::Busy) if Instant::now() < until && !gone.is_closed() => {
                    sleep(BUSY_EVERY);
                }
                opened => return opened.map_err(|why| self.fault(why)),
            }
        }
    }

    /// Appends what the connection brings.
    ///
    /// ‡ From the moment at which its stream is open nobody else can append without ending it: so the end of the log that is looked at then is
    /// the place of the first byte, or no byte of it is appended at all. Another writer that came while the leader changed is looked for at the end.
    fn run(
        &self,
        logs: &dyn Logs,
        mut pieces: mpsc::Receiver<Piece>,
        gone: mpsc::Receiver<()>,
    ) -> Result<Done, Fault> {
        let id = known(logs, &self.asking, false)?;
        let mut append = self.open(logs, &gone)?;
        let stream = append.stream();
        let stands = match self.begin(logs, id) {
            Ok(stands) => stands,
            Err(fault) => {
                // It is empty, and stays so. Who asks next need not wait until it is cut.
                let closed = append.close();
                if let Err(why) = closed {
                    tracing::debug!(?why, "an empty stream was not closed");
                }
                return Err(fault);
            }
        };
        let mut length = 0;
        loop {
            match pieces.blocking_recv() {
                Some(Piece::Bytes(bytes)) => {
                    append.write(&bytes).map_err(|why| self.fault(why))?;
                    length += bytes.len() as u64;
                }
                Some(Piece::End) => break,
                None => {
                    // What came is kept, and is chosen before the stream is left: HEAD tells of it from here on.
                    append.leave().map_err(|why| self.fault(why))?;
                    return Err(broken());
                }
            }
        }
        let ended = append.close().map_err(|why| self.fault(why))?;
        let stands = self.stands_behind(logs, stands, length, &ended)?;
        Ok(Done { stands, stream })
    }

    /// Makes the log; whether it was not there before, and where it stands.
    fn make(
        self,
        logs: &dyn Logs,
        is_filled: bool,
        must_be_new: bool,
    ) -> Result<(bool, Stands, Wish), Fault> {
        let is_made = match logs.create(&self.asking) {
            Ok(()) => true,
            Err(NoLog::Exists) if is_filled => {
                return Err(Fault::new(
                    409,
                    "exists",
                    "a log of this name is there, and a PUT with bytes makes a new one",
                    "append to it with POST",
                ));
            }
            Err(NoLog::Exists) if !must_be_new => false,
            Err(why) => return Err(self.fault(why)),
        };
        let id = known(logs, &self.asking, false)?;
        let stands = stands(logs, &self.ask(), id)?;
        same(logs, &self.asking, false, id)?;
        Ok((is_made, stands, self))
    }

    /// The stream is open.
    fn begin(&self, logs: &dyn Logs, id: u64) -> Result<Stands, Fault> {
        let stands = stands(logs, &self.ask(), id)?;
        self.check(&stands)?;
        same(logs, &self.asking, false, id)?;
        Ok(stands)
    }

    fn stands_behind(
        &self,
        logs: &dyn Logs,
        before: Stands,
        length: u64,
        ended: &Ended,
    ) -> Result<Stands, Fault> {
        let length = before.length + length;
        if ended.first == ended.last {
            return Ok(Stands { length, ..before });
        }
        let is_together = logs.is_together(&self.asking, ended);
        match is_together {
            Ok(true) => Ok(Stands { length, ..before }),
            _ if self.expected.is_some() => Err(Fault::new(
                409,
                "parted",
                "the leader changed, and another writer may have come in between: all bytes were appended, and perhaps not all directly behind the offset in If-Match",
                format!("read them with ?stream={}", ended.first),
            )
            .header(headers::STREAM, &ended.first)),
            _ => stands(logs, &self.ask(), before.id),
        }
    }
}

impl Door {
    pub async fn append_log(
        self: &Arc<Door>,
        asking: Asking,
        headers: &HeaderMap,
        body: Incoming,
    ) -> Result<Response<Body>, Fault> {
        let mut upload = Upload::of(body, headers);
        let done = self.append_upload(asking, headers, &mut upload).await;
        match done {
            Ok(done) => {
                let mut response = done.answer();
                *response.status_mut() = StatusCode::NO_CONTENT;
                Ok(response)
            }
            Err(fault) => {
                upload.leave();
                Err(fault)
            }
        }
    }

    async fn append_upload(
        &self,
        asking: Asking,
        headers: &HeaderMap,
        upload: &mut Upload,
    ) -> Result<Done, Fault> {
        asked::check_for_log(headers)?;
        let wish = Wish {
            expected: asked::expected_end(headers)?,
            continues: asked::continues(headers)?,
            asking,
        };
        if upload.body.is_end_stream() {
            return Err(Fault::empty_log_body());
        }
        // Before a byte of it is asked for.
        let permit = self.writes_log()?;
        let looked = self.on_thread(permit, move |logs| wish.look(logs).map(|()| wish));
        let wish = looked.await?;
        let Some(first) = upload.next().await? else {
            return Err(Fault::empty_log_body());
        };
        self.append_body(wish, first, upload).await
    }

    async fn append_body(
        &self,
        wish: Wish,
        first: Bytes,
        upload: &mut Upload,
    ) -> Result<Done, Fault> {
        let permit = self.writes_log()?;
        let (send, pieces) = mpsc::channel(PIECES_MAX);
        // Held as long as somebody waits for the answer.
        let (_waits, gone) = mpsc::channel(1);
        let run = self.on_thread(permit, move |logs| wish.run(logs, pieces, gone));
        let (fed, done) = tokio::join!(upload.feed(first, send), run);
        match (fed, done) {
            (Ok(()), done) => done,
            // What was wrong with the log is said first, and a broken body is the body's own fault.
            (Err(_), Err(why)) if why.code != "broken-body" => Err(why),
            (Err(fault), _) => Err(fault),
        }
    }

    pub async fn create_log(
        self: &Arc<Door>,
        asking: Asking,
        headers: &HeaderMap,
        body: Incoming,
        address: &str,
    ) -> Result<Response<Body>, Fault> {
        let mut upload = Upload::of(body, headers);
        let made = self.create_filled(asking, headers, &mut upload).await;
        match made {
            Ok((mut response, is_made)) => {
                if is_made {
                    *response.status_mut() = StatusCode::CREATED;
                    set(response.headers_mut(), LOCATION, address);
                }
                Ok(response)
            }
            Err(fault) => {
                upload.leave();
                Err(fault)
            }
        }
    }

    /// The answer, and whether the log was made just now.
    async fn create_filled(
        &self,
        asking: Asking,
        headers: &HeaderMap,
        upload: &mut Upload,
    ) -> Result<(Response<Body>, bool), Fault> {
        asked::check_for_log(headers)?;
        let must_be_new = headers::must_be_new(headers);
        let wish = Wish {
            expected: None,
            continues: None,
            asking,
        };
        // A body that says that it comes, and does not, makes no log.
        let first = match upload.body.is_end_stream() {
            true => None,
            false => upload.next().await?,
        };
        let is_filled = first.is_some();
        let permit = self.writes_log()?;
        let make = move |logs: &dyn Logs| wish.make(logs, is_filled, must_be_new);
        let (is_made, stands, wish) = self.on_thread(permit, make).await?;
        let response = match first {
            None => answer(&stands),
            Some(first) => self.append_body(wish, first, upload).await?.answer(),
        };
        Ok((response, is_made))
    }

    pub async fn delete_log(&self, asking: Asking) -> Result<Response<Body>, Fault> {
        let permit = self.writes_log()?;
        let delete = move |logs: &dyn Logs| {
            // ‡ A space of streams, or a group of keys, is not deleted as if it were a file.
            known(logs, &asking, false)?;
            logs.delete(&asking).map_err(|why| Fault::of_log(why, None))
        };
        self.on_thread(permit, delete).await?;
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        set(response.headers_mut(), CACHE_CONTROL, "no-store");
        Ok(response)
    }
}

/// Where the log stands behind what was done.
fn answer(stands: &Stands) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    let offset = stands.offset(stands.length);
    set(headers, headers::NEXT_OFFSET, offset);
    set(headers, ETAG, tag(offset));
    set(headers, CACHE_CONTROL, "no-store");
    response
}

impl Done {
    fn answer(self) -> Response<Body> {
        let mut response = answer(&self.stands);
        set(response.headers_mut(), headers::STREAM, self.stream);
        response
    }
}
