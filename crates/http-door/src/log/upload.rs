//! Bodies of appends to logs: they may be of any length, so they are handed on as they come.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{EXPECT, HeaderMap};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::fault::Fault;
use crate::write::{SILENT_AFTER, pass_over};

/// What a connection brings. ‡ One that ends without the end was broken: what came is not the whole.
pub enum Piece {
    Bytes(Bytes),
    End,
}

/// A body on its way.
pub struct Upload {
    pub body: Incoming,
    /// A client that waits to be told to send it has been told.
    is_asked_for: bool,
}

impl Upload {
    pub fn of(body: Incoming, headers: &HeaderMap) -> Upload {
        let is_asked_for = !headers.contains_key(EXPECT);
        Upload { body, is_asked_for }
    }

    /// The next bytes; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        self.is_asked_for = true;
        loop {
            match timeout(SILENT_AFTER, self.body.frame()).await {
                Ok(None) => return Ok(None),
                Ok(Some(Err(_))) => return Err(broken()),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Ok(Some(data)),
                    _ => {}
                },
                Err(_) => {
                    return Err(Fault::new(
                        408,
                        "slow-body",
                        "no byte of the body came for 10 seconds",
                        "HEAD tells what arrived, and Logberg-Continues goes on behind it",
                    ));
                }
            }
        }
    }

    /// Hands it on, unless nobody wants the rest.
    pub async fn feed(&mut self, first: Bytes, pieces: mpsc::Sender<Piece>) -> Result<(), Fault> {
        let mut data = first;
        while pieces.send(Piece::Bytes(data)).await.is_ok() {
            data = match self.next().await? {
                Some(data) => data,
                None => {
                    // Why nobody takes the end is what the other side answers.
                    let _ = pieces.send(Piece::End).await;
                    return Ok(());
                }
            };
        }
        Ok(())
    }

    /// The request is refused. A client that is answered before it has sent all takes that for a broken connection.
    pub fn leave(self) {
        if self.is_asked_for {
            tokio::spawn(pass_over(self.body));
        }
    }
}

pub fn broken() -> Fault {
    Fault::new(
        400,
        "broken-body",
        "the body ended early",
        "HEAD tells what arrived, and Logberg-Continues goes on behind it",
    )
}
