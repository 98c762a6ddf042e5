//! Requests at one node after the other, as a client makes them.

use std::time::Duration;

use ureq::Agent;
use ureq::http::{HeaderMap, Request};

use crate::schedule::Chance;

const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// A long poll of one second has ended by then.
const ANSWER_WITHIN: Duration = Duration::from_secs(8);
const ANSWER_BYTES_MAX: u64 = 64 << 20;
const TEXT: &str = "text/plain";

/// Clones share their connections.
#[derive(Clone)]
pub struct Doors {
    agent: Agent,
    doors: Vec<String>,
}

/// What came of a request.
#[derive(Debug)]
pub enum Came {
    Answered(Answer),
    /// The node says that nothing was done.
    NotDone,
    /// Nobody knows whether it was done.
    Unknown,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Where the answer ends: the offset, and the position in it.
    pub fn next(&self) -> Option<(String, u64)> {
        let offset = self.header("stream-next-offset")?;
        let (_, position) = offset.split_once('_')?;
        Some((offset.to_owned(), position.parse().ok()?))
    }
}

impl Doors {
    pub fn new(doors: Vec<String>) -> Doors {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_connect(Some(CONNECT_WITHIN))
            .timeout_global(Some(ANSWER_WITHIN))
            .build();
        Doors {
            agent: config.into(),
            doors,
        }
    }

    fn ask(
        &self,
        chance: &mut Chance,
        (method, path): (&str, &str),
        headers: &[(&str, String)],
        body: &[u8],
    ) -> Came {
        let at = chance.below(self.doors.len() as u64) as usize;
        let url = format!("http://{}/v1/stream/{path}", self.doors[at]);
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let answered = match method {
            "GET" => request.body(()).map(|request| self.agent.run(request)),
            _ => request.body(body).map(|request| self.agent.run(request)),
        };
        let Ok(Ok(response)) = answered else {
            return Came::Unknown;
        };
        let (head, mut body) = response.into_parts();
        let Ok(body) = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec() else {
            return Came::Unknown;
        };
        let answer = Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        };
        match (answer.status, answer.header("logberg-outcome")) {
            (503, Some("unknown")) => Came::Unknown,
            (503, _) => Came::NotDone,
            _ => Came::Answered(answer),
        }
    }

    /// Errors: it is not made, or nobody knows.
    pub fn make(&self, chance: &mut Chance, name: &str) -> Result<(), String> {
        let headers = [("Content-Type", TEXT.to_owned())];
        match self.ask(chance, ("PUT", name), &headers, b"") {
            Came::Answered(answer) if matches!(answer.status, 200 | 201) => Ok(()),
            came => Err(format!("{came:?}")),
        }
    }

    pub fn append(
        &self,
        chance: &mut Chance,
        name: &str,
        headers: &[(&str, String)],
        body: &[u8],
    ) -> Came {
        let headers = [&[("Content-Type", TEXT.to_owned())], headers].concat();
        self.ask(chance, ("POST", name), &headers, body)
    }

    /// `query`: from where, and how.
    pub fn read(&self, chance: &mut Chance, name: &str, query: &str) -> Came {
        self.ask(chance, ("GET", &format!("{name}?{query}")), &[], b"")
    }
}
