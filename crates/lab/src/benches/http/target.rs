//! A server of the Durable Streams Protocol, as a client sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use hyper::body::Bytes;
use serde_json::Value;

use testbed::scratch::go_on;

use super::asks::{Answer, Asks};

const CONTENT_TYPE: &str = "application/octet-stream";
const TEXT: &str = "text/plain";
/// Streams are made by so many at a time.
const MAKERS: u32 = 32;
const SAYS_EVERY: u32 = 1_000;
const OURS: &str = "/v1/stream";

/// Clones share their connections.
#[derive(Clone)]
pub struct Target {
    asks: Arc<Asks>,
    /// The path up to the streams' names, without the slash behind.
    root: String,
}

/// The bytes of a read, and where the next one goes on.
pub struct Piece {
    pub bytes: Bytes,
    pub next: String,
    pub is_all: bool,
}

impl Target {
    /// `url`: `http://HOST:PORT`, and the path up to the streams' names.
    ///
    /// Errors: it is no such address.
    pub fn new(url: &str) -> Result<Target> {
        let rest = url.strip_prefix("http://");
        let rest = rest.with_context(|| format!("{url} does not begin with http://"))?;
        let (authority, root) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        Ok(Target {
            asks: Arc::new(Asks::new(authority)),
            root: root.trim_end_matches('/').to_owned(),
        })
    }

    fn of_stream(&self, prefix: &str, number: u64) -> String {
        format!("{}/{prefix}-{number}", self.root)
    }

    /// Errors: it was refused, or there is no answer.
    fn ask(&self, method: &str, path: &str, media: Option<&str>, body: &[u8]) -> Result<Answer> {
        let answer = self.asks.ask(method, path, media, body);
        let answer = answer.with_context(|| format!("{method} {path}"))?;
        if !answer.is_good {
            bail!("{method} {path} was answered with {}", answer.status);
        }
        Ok(answer)
    }

    /// Makes so many streams. `says`: how many there are.
    pub fn make(&self, prefix: &str, streams: u32, says: impl Fn(u32) + Sync) -> Result<()> {
        let next = AtomicU32::new(0);
        let makers = MAKERS.min(streams);
        let make = || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= streams {
                    return Ok(());
                }
                if number.is_multiple_of(SAYS_EVERY) {
                    go_on()?;
                    says(number);
                }
                self.make_one(&self.of_stream(prefix, u64::from(number)), CONTENT_TYPE)?;
            }
        };
        thread::scope(|scope| {
            let makers: Vec<_> = (0..makers).map(|_| scope.spawn(make)).collect();
            let mut made = makers.into_iter().map(|maker| match maker.join() {
                Ok(made) => made,
                Err(_) => bail!("a maker of streams panicked"),
            });
            made.try_for_each(|made| made)
        })
    }

    fn make_one(&self, path: &str, media: &str) -> Result<()> {
        self.ask("PUT", path, Some(media), &[])?;
        Ok(())
    }

    /// A stream of text, of this name.
    pub fn make_text(&self, name: &str) -> Result<()> {
        self.make_one(&self.of_stream(name, 0), TEXT)
    }

    pub fn append_text(&self, name: &str, text: &[u8]) -> Result<()> {
        self.ask("POST", &self.of_stream(name, 0), Some(TEXT), text)?;
        Ok(())
    }

    /// Errors: why it was not done, or may not have been.
    pub fn append(&self, prefix: &str, number: u64, bytes: &[u8]) -> Result<()> {
        let path = self.of_stream(prefix, number);
        self.ask("POST", &path, Some(CONTENT_TYPE), bytes)?;
        Ok(())
    }

    pub fn read(&self, prefix: &str, number: u64, offset: &str) -> Result<Piece> {
        let path = format!("{}?offset={offset}", self.of_stream(prefix, number));
        let answer = self.ask("GET", &path, None, &[])?;
        let next = answer.header("stream-next-offset");
        let next = next.context("an answer has no Stream-Next-Offset")?;
        Ok(Piece {
            next: next.to_owned(),
            is_all: answer.header("stream-up-to-date").is_some(),
            bytes: answer.body,
        })
    }

    /// Whether this server answers for the first of these streams.
    pub fn is_there(&self, prefix: &str) -> bool {
        self.ask("HEAD", &self.of_stream(prefix, 0), None, &[])
            .is_ok()
    }

    /// Lets there be so many streams. Our own servers alone know such a limit.
    pub fn allow(&self, streams: u64) -> Result<()> {
        let path = self.root.replace(OURS, "/v1/limits/default");
        let change = format!("{{\"streams\":{streams}}}");
        self.ask("PATCH", &path, None, change.as_bytes())?;
        Ok(())
    }

    /// The bytes of all streams whose names begin so. Our own servers alone tell that.
    pub fn bytes_of(&self, prefix: &str) -> Result<u64> {
        let lists = self.root.replace(OURS, "/v1/list/default");
        let (mut bytes, mut after) = (0, String::new());
        loop {
            let path = format!("{lists}?prefix={prefix}-&after={after}");
            let answer = self.ask("GET", &path, None, &[])?;
            let page: Value = serde_json::from_slice(&answer.body)?;
            let streams = page["streams"]
                .as_array()
                .context("a page has no streams")?;
            for stream in streams {
                bytes += stream["bytes"].as_u64().context("a stream has no bytes")?;
            }
            match page["after"].as_str() {
                Some(next) => after = next.to_owned(),
                None => return Ok(bytes),
            }
        }
    }
}
