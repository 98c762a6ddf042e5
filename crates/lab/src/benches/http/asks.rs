//! Requests over connections that stay open, each from a thread that waits for the answer.
//!
//! A load shares its processors with the nodes, so what it costs counts. A request is one write, head and body, and no thread is made for
//! it; a client that makes one for each request, to look for the address, took a tenth of an append's time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HOST;
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(10);
/// An answer is no longer than that.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Connections to one server, which threads take in turns.
pub struct Asks {
    /// `HOST:PORT`.
    authority: String,
    idle: Mutex<Vec<Line>>,
}

/// One connection. Its runtime is the thread that uses it.
struct Line {
    runtime: Runtime,
    sender: SendRequest<Full<Bytes>>,
}

pub struct Answer {
    /// Between 200 and 299.
    pub is_good: bool,
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Asks {
    pub fn new(authority: &str) -> Asks {
        Asks {
            authority: authority.to_owned(),
            idle: Mutex::default(),
        }
    }

    /// `path` begins with a slash. Errors: why there is no answer; nobody knows then whether it was done.
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        media: Option<&str>,
        body: &[u8],
    ) -> Result<Answer> {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(HOST, &self.authority);
        if let Some(media) = media {
            request = request.header("content-type", media);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body)))?;
        let idle = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.pop()
        };
        let mut line = match idle {
            Some(line) if !line.sender.is_closed() => line,
            _ => self.dial()?,
        };
        let Line { runtime, sender } = &mut line;
        let asked = async {
            sender.ready().await?;
            let answer = sender.send_request(request).await?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(anyhow::Error::from_boxed)?.to_bytes();
            anyhow::Ok(Answer {
                is_good: head.status.is_success(),
                status: head.status.as_u16(),
                headers: head.headers,
                body,
            })
        };
        let asked = runtime.block_on(async { timeout(PATIENCE, asked).await });
        let answer = asked.context("no answer in time")??;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(line);
        Ok(answer)
    }

    fn dial(&self) -> Result<Line> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let sender = runtime.block_on(async {
            let stream = timeout(PATIENCE, TcpStream::connect(&self.authority));
            let stream = stream.await.context("no connection in time")??;
            stream.set_nodelay(true)?;
            let (sender, connection) = handshake(TokioIo::new(stream)).await?;
            // It runs while somebody waits for an answer, and ends with its runtime.
            tokio::spawn(connection);
            anyhow::Ok(sender)
        })?;
        Ok(Line { runtime, sender })
    }
}
