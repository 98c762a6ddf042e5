//! A server of the Durable Streams Protocol, as a client sees it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use ureq::Agent;
use ureq::http::Response;

use testbed::scratch::go_on;

const PATIENCE: Duration = Duration::from_secs(10);
const CONTENT_TYPE: &str = "application/octet-stream";
const TEXT: &str = "text/plain";
/// Streams are made by so many at a time.
const MAKERS: u32 = 32;
const SAYS_EVERY: u32 = 1_000;
/// An answer is no longer than that.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Clones share their connections.
#[derive(Clone)]
pub struct Target {
    agent: Agent,
    /// Up to the streams' names, without the slash behind.
    url: String,
}

/// The bytes of a read, and where the next one goes on.
pub struct Piece {
    pub bytes: Vec<u8>,
    pub next: String,
    pub is_all: bool,
}

impl Target {
    /// So many clients keep a connection each.
    pub fn new(url: &str, clients: u32) -> Target {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_idle_connections(clients as usize)
            .max_idle_connections_per_host(clients as usize)
            .timeout_global(Some(PATIENCE))
            .build();
        Target {
            agent: config.into(),
            url: url.trim_end_matches('/').to_owned(),
        }
    }

    fn of_stream(&self, prefix: &str, number: u64) -> String {
        format!("{}/{prefix}-{number}", self.url)
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

    fn make_one(&self, url: &str, media: &str) -> Result<()> {
        let put = self.agent.put(url).header("Content-Type", media);
        let answer = put.send_empty().with_context(|| format!("PUT {url}"))?;
        check(url, answer)?;
        Ok(())
    }

    /// A stream of text, of this name.
    pub fn make_text(&self, name: &str) -> Result<()> {
        self.make_one(&self.of_stream(name, 0), TEXT)
    }

    pub fn append_text(&self, name: &str, text: &[u8]) -> Result<()> {
        let url = self.of_stream(name, 0);
        let post = self.agent.post(&url).header("Content-Type", TEXT);
        check(&url, post.send(text)?)?;
        Ok(())
    }

    /// Errors: why it was not done, or may not have been.
    pub fn append(&self, prefix: &str, number: u64, bytes: &[u8]) -> Result<()> {
        let url = self.of_stream(prefix, number);
        let post = self.agent.post(&url).header("Content-Type", CONTENT_TYPE);
        check(&url, post.send(bytes)?)?;
        Ok(())
    }

    pub fn read(&self, prefix: &str, number: u64, offset: &str) -> Result<Piece> {
        let url = format!("{}?offset={offset}", self.of_stream(prefix, number));
        let mut answer = check(&url, self.agent.get(&url).call()?)?;
        let header = |name: &str| {
            let value = answer.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let next = header("stream-next-offset").context("an answer has no Stream-Next-Offset")?;
        let is_all = header("stream-up-to-date").is_some();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        Ok(Piece {
            bytes: body.read_to_vec()?,
            next,
            is_all,
        })
    }

    /// Whether this server answers for the first of these streams.
    pub fn is_there(&self, prefix: &str) -> bool {
        let asked = self.agent.head(self.of_stream(prefix, 0)).call();
        asked.is_ok_and(|answer| answer.status().is_success())
    }

    /// Lets there be so many streams. Our own servers alone know such a limit.
    pub fn allow(&self, streams: u64) -> Result<()> {
        let url = self.url.replace("/v1/stream", "/v1/limits/default");
        let change = format!("{{\"streams\":{streams}}}");
        let patch = self.agent.patch(&url);
        check(&url, patch.send(change.as_bytes())?)?;
        Ok(())
    }

    /// The bytes of all streams whose names begin so. Our own servers alone tell that.
    pub fn bytes_of(&self, prefix: &str) -> Result<u64> {
        let lists = self.url.replace("/v1/stream", "/v1/list/default");
        let (mut bytes, mut after) = (0, String::new());
        loop {
            let url = format!("{lists}?prefix={prefix}-&after={after}");
            let mut answer = check(&url, self.agent.get(&url).call()?)?;
            let page: Value = serde_json::from_str(&answer.body_mut().read_to_string()?)?;
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

fn check<B>(url: &str, answer: Response<B>) -> Result<Response<B>> {
    if !answer.status().is_success() {
        bail!("{url} answered {}", answer.status());
    }
    Ok(answer)
}
