//! Nodes that are asked over HTTP, one after the other.

use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use client::Credential;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use terminal::exit::{Failure, Kind};
use tls::Trust;
use ureq::Agent;
use ureq::http::{HeaderMap, Request};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

/// A node that does not take a connection for so long is passed over.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// A node that was asked says something by then: a long poll of the usual length has ended.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// All nodes are asked again after so long.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// One answer: a page of a read ends behind the append with which it has a megabyte, and an append has eight at most.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// All but what RFC 3986 leaves as it is.
const NOT_PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Whether a request that is done twice does the same as one that is done once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twice {
    IsOnce,
    IsTwice,
}

pub struct Doors {
    agent: Agent,
    /// The token that is shown with each request.
    credential: Option<Credential>,
    scheme: &'static str,
    doors: Vec<String>,
    at: usize,
    timeout: Duration,
}

pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// The same request was sent before, and nobody knows what came of it.
    pub is_again: bool,
    /// A token was shown with it.
    has_shown: bool,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The offset that the answer ends at.
    pub fn tail(&self) -> String {
        self.header("stream-next-offset")
            .unwrap_or_default()
            .to_owned()
    }

    pub fn is_closed(&self) -> bool {
        self.header("stream-closed") == Some("true")
    }

    /// Errors: the request was refused.
    pub fn check(&self, name: &str) -> Result<()> {
        let kind = match self.status {
            200..=299 => return Ok(()),
            404 | 410 => Kind::NotFound,
            400 | 405 | 413 | 415 => Kind::Usage,
            500.. => Kind::Unreachable,
            _ => Kind::Refused,
        };
        Err(Failure::new(kind, format!("{name}: {}", self.said())).into())
    }

    fn said(&self) -> String {
        let error = serde_json::from_slice::<serde_json::Value>(&self.body).ok();
        let part = |name: &str| {
            let part = error.as_ref()?["error"][name].as_str()?;
            Some(part.to_owned())
        };
        match (part("message"), part("remedy")) {
            // The remedy of the node is a header, which nobody types here.
            _ if self.status == 401 && !self.has_shown => {
                "a token is needed: --token-file FILE, or LOGBERG_TOKEN (docs/security.md)"
                    .to_owned()
            }
            (Some(message), Some(remedy)) => format!("{message}: {remedy}"),
            // HEAD says no more.
            _ => format!("the node answered {}", self.status),
        }
    }
}

impl Doors {
    /// `trust`: they are asked by TLS, and by nothing else.
    pub fn new(
        doors: Vec<String>,
        timeout: Duration,
        credential: Option<Credential>,
        trust: Option<&Trust>,
    ) -> Doors {
        let authorities = trust.map_or(&[][..], Trust::authorities);
        let believed = authorities.iter();
        let believed: Vec<_> = believed
            .map(|der| Certificate::from_der(der).to_owned())
            .collect();
        let shown = trust.and_then(Trust::shown).and_then(|(chain, key)| {
            let chain = chain
                .iter()
                .map(|der| Certificate::from_der(der).to_owned());
            let chain: Vec<_> = chain.collect();
            Some(ClientCert::new_with_certs(
                &chain,
                PrivateKey::from_pem(&key).ok()?,
            ))
        });
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&believed))
            .client_cert(shown);
        let config = Agent::config_builder()
            .tls_config(tls.build())
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_WITHIN.min(timeout)))
            .timeout_recv_response(Some(ANSWER_WITHIN))
            .timeout_recv_body(Some(ANSWER_WITHIN))
            .build();
        Doors {
            agent: config.into(),
            credential,
            scheme: if trust.is_some() { "https" } else { "http" },
            doors,
            at: 0,
            timeout,
        }
    }

    /// Asks until a node answers anything but that it cannot now.
    ///
    /// Errors: no node answers for as long as is waited; or nobody knows whether a request was done that must not be done twice.
    pub fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, String)],
        body: Option<&[u8]>,
        twice: Twice,
    ) -> Result<Answer> {
        let begun = Instant::now();
        let mut is_again = false;
        loop {
            let door = self.doors[self.at % self.doors.len()].clone();
            let (why, may_be_done) = match self.ask_one(&door, method, path, headers, body) {
                Ok(answer) if answer.status == 503 => {
                    let outcome = answer.header("logberg-outcome");
                    (answer.said(), outcome == Some("unknown"))
                }
                // ‡ Whoever is too fast was not served, and is told when he will be.
                Ok(answer) if answer.status == 429 && self.waits(&answer, begun) => continue,
                Ok(answer) => {
                    // The node may have handed it on twice by itself.
                    is_again |= answer.header("logberg-outcome") == Some("again");
                    return Ok(Answer { is_again, ..answer });
                }
                Err(error) => (error.to_string(), !is_before(&error)),
            };
            if may_be_done && twice == Twice::IsTwice {
                let sentence = format!(
                    "{door}: {why}; it is not known whether this was done: look, before it is done again"
                );
                return Err(Failure::new(Kind::Unreachable, sentence).into());
            }
            is_again |= may_be_done;
            if begun.elapsed() >= self.timeout {
                let sentence = format!(
                    "no node answered in time, {door} the last: {why}; --http says where nodes serve streams"
                );
                return Err(Failure::new(Kind::Unreachable, sentence).into());
            }
            self.at += 1;
            if self.at.is_multiple_of(self.doors.len()) {
                thread::sleep(AGAIN_AFTER);
            }
        }
    }

    /// Waits as long as the node says, if there is so much time left: returns whether.
    fn waits(&self, answer: &Answer, begun: Instant) -> bool {
        let seconds = answer.header("retry-after");
        let wait = seconds.and_then(|seconds| seconds.parse().ok());
        let wait = wait.map(Duration::from_secs);
        let left = self.timeout.saturating_sub(begun.elapsed());
        let wait = wait.filter(|wait| *wait <= left);
        if let Some(wait) = wait {
            thread::sleep(wait);
        }
        wait.is_some()
    }

    fn ask_one(
        &self,
        door: &str,
        method: &str,
        path: &str,
        headers: &[(&str, String)],
        body: Option<&[u8]>,
    ) -> Result<Answer, ureq::Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}://{door}{path}", self.scheme));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if let Some(shown) = self.credential.as_ref().and_then(Credential::bearer) {
            request = request.header("Authorization", format!("Bearer {shown}"));
        }
        let response = match body {
            Some(body) => self.agent.run(request.body(body)?)?,
            None => self.agent.run(request.body(())?)?,
        };
        let (parts, mut body) = response.into_parts();
        let limited = body.with_config().limit(ANSWER_BYTES_MAX);
        Ok(Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: limited.read_to_vec()?,
            is_again: false,
            has_shown: self.credential.is_some(),
        })
    }
}

/// Whether nothing was sent when this went wrong.
fn is_before(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => true,
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => true,
        ureq::Error::Timeout(timeout) => {
            matches!(timeout, ureq::Timeout::Connect | ureq::Timeout::Resolve)
        }
        ureq::Error::Io(error) => error.kind() == ErrorKind::ConnectionRefused,
        _ => false,
    }
}

/// The address of a stream.
pub fn stream_path(name: &str) -> String {
    let parts: Vec<String> = name.split('/').map(encoded).collect();
    format!("/v1/stream/{}", parts.join("/"))
}

/// As it stands in an address.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NOT_PLAIN).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_written_so_that_it_arrives_as_it_is() {
        assert_eq!(stream_path("a/b c?ü"), "/v1/stream/a/b%20c%3F%C3%BC");
        assert_eq!(encoded("a/b"), "a%2Fb");
    }

    #[test]
    fn only_what_was_never_sent_is_certainly_not_done() {
        let refused = std::io::Error::from(ErrorKind::ConnectionRefused);
        assert!(is_before(&ureq::Error::Io(refused)));
        assert!(is_before(&ureq::Error::Timeout(ureq::Timeout::Connect)));
        let reset = std::io::Error::from(ErrorKind::ConnectionReset);
        assert!(!is_before(&ureq::Error::Io(reset)));
        assert!(!is_before(&ureq::Error::Timeout(
            ureq::Timeout::RecvResponse
        )));
    }
}
