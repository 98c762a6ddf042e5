//! One request, one answer, and the connection ends. Requests are parsed by `httparse`.
//!
//! Units:  5 s for all of it, however the other side drips; 8 KiB of request. While others wait for their
//!         turn: 25 ms of silence, and 250 ms until the request is whole.
//! Errors: none for the caller. A client that is not understood is told so; one that vanishes hears nothing.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::time::{Duration, Instant};

use http_door::Words;

const DEADLINE: Duration = Duration::from_secs(5);
/// While others wait: a request comes with its connection, or soon after.
const SILENCE_IN_A_CROWD: Duration = Duration::from_millis(25);
const REQUEST_IN_A_CROWD: Duration = Duration::from_millis(250);
const REQUEST_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;
/// In one write, so that the deadline is looked at in between.
const CHUNK: usize = 64 << 10;

/// The things that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    Metrics,
    /// How well the cluster is, by this node.
    Health,
    /// Whether this node does its work, whatever the others do.
    Live,
}

pub struct Answer {
    pub status: u16,
    pub kind: &'static str,
    pub body: String,
}

impl Answer {
    pub fn text(status: u16, body: String) -> Answer {
        Answer {
            status,
            kind: "text/plain; charset=utf-8",
            body,
        }
    }
}

/// The words of a request that say who asks.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// The header Authorization.
    pub shown: Option<String>,
    pub host: Option<String>,
    pub origin: Option<String>,
    /// `Sec-Fetch-Site`
    pub site: Option<String>,
    /// The address of this machine at which it came.
    pub at: Option<IpAddr>,
}

impl Head {
    fn of(headers: &[httparse::Header<'_>]) -> Head {
        // ‡ What is no text is nobody's name.
        let word = |name: &str| {
            let mut named = headers.iter();
            let named = named.find(|header| header.name.eq_ignore_ascii_case(name))?;
            Some(String::from_utf8_lossy(named.value).trim().to_owned())
        };
        Head {
            shown: word("authorization"),
            host: word("host"),
            origin: word("origin"),
            site: word("sec-fetch-site"),
            at: None,
        }
    }

    pub fn words(&self) -> Words<'_> {
        Words {
            host: self.host.as_deref(),
            origin: self.origin.as_deref(),
            site: self.site.as_deref(),
        }
    }
}

/// The request in the first bytes of a connection.
enum Asked {
    /// They are not all there.
    NotYet,
    This {
        route: Route,
        head_only: bool,
        head: Head,
    },
    Refused(Answer),
}

/// `others_wait`: whether somebody else would be served if this connection ended.
pub fn answer(
    mut stream: TcpStream,
    others_wait: impl Fn() -> bool,
    answer: impl FnOnce(Route, &Head) -> Answer,
) {
    let until = Instant::now() + DEADLINE;
    // A client that does not stay for the answer has lost nothing.
    let _ = converse(&mut stream, until, others_wait, answer);
}

fn converse(
    stream: &mut TcpStream,
    until: Instant,
    others_wait: impl Fn() -> bool,
    answer: impl FnOnce(Route, &Head) -> Answer,
) -> io::Result<()> {
    let mut request = vec![0; REQUEST_BYTES_MAX];
    let mut filled = 0;
    let in_a_crowd = Instant::now() + REQUEST_IN_A_CROWD;
    loop {
        stream.set_read_timeout(Some(left(until)?.min(SILENCE_IN_A_CROWD)))?;
        let count = match stream.read(&mut request[filled..]) {
            Err(error) if is_silence(&error) && !others_wait() => continue,
            read => read?,
        };
        let is_late = Instant::now() > in_a_crowd && others_wait();
        if count == 0 || is_late {
            return Ok(());
        }
        filled += count;
        match parse(&request[..filled]) {
            Asked::NotYet if filled == REQUEST_BYTES_MAX => {
                let refusal = Answer::text(431, "the request is longer than 8 KiB\n".to_owned());
                return send(stream, until, &refusal, false);
            }
            Asked::NotYet => {}
            Asked::This {
                route,
                head_only,
                mut head,
            } => {
                head.at = stream.local_addr().ok().map(|address| address.ip());
                let answer = answer(route, &head);
                return send(stream, until, &answer, head_only);
            }
            Asked::Refused(refusal) => return send(stream, until, &refusal, false),
        }
    }
}

fn is_silence(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

fn parse(bytes: &[u8]) -> Asked {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return Asked::NotYet,
        Ok(httparse::Status::Complete(_)) => {}
        Err(error) => {
            return Asked::Refused(Answer::text(
                400,
                format!("this is no HTTP request: {error}\n"),
            ));
        }
    }
    let head_only = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => {
            return Asked::Refused(Answer::text(
                405,
                "only GET and HEAD are served\n".to_owned(),
            ));
        }
    };
    let path = request.path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let route = match path {
        "/metrics" => Route::Metrics,
        "/healthz" => Route::Health,
        "/livez" => Route::Live,
        _ => {
            let sentence = "there are /metrics, /healthz and /livez\n".to_owned();
            return Asked::Refused(Answer::text(404, sentence));
        }
    };
    Asked::This {
        route,
        head_only,
        head: Head::of(request.headers),
    }
}

fn send(
    stream: &mut TcpStream,
    until: Instant,
    answer: &Answer,
    head_only: bool,
) -> io::Result<()> {
    let reason = match answer.status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    };
    let mut bytes = format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n",
        answer.status,
        answer.kind,
        answer.body.len(),
        match answer.status {
            401 => "WWW-Authenticate: Bearer\r\n",
            405 => "Allow: GET, HEAD\r\n",
            _ => "",
        },
    )
    .into_bytes();
    if !head_only {
        bytes.extend_from_slice(answer.body.as_bytes());
    }
    for chunk in bytes.chunks(CHUNK) {
        let mut rest = chunk;
        while !rest.is_empty() {
            stream.set_write_timeout(Some(left(until)?))?;
            match stream.write(rest)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => rest = &rest[count..],
            }
        }
    }
    stream.shutdown(std::net::Shutdown::Write)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &[u8]) -> Option<u16> {
        match parse(request) {
            Asked::NotYet => None,
            Asked::This { .. } => Some(200),
            Asked::Refused(answer) => Some(answer.status),
        }
    }

    #[test]
    fn what_is_asked_for_is_told_from_what_is_not_there() {
        assert_eq!(
            status(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"),
            Some(200)
        );
        assert_eq!(status(b"HEAD /healthz?from=lb HTTP/1.0\r\n\r\n"), Some(200));
        assert_eq!(status(b"GET /livez HTTP/1.1\r\n\r\n"), Some(200));
        assert_eq!(status(b"GET /other HTTP/1.1\r\n\r\n"), Some(404));
        assert_eq!(status(b"POST /metrics HTTP/1.1\r\n\r\n"), Some(405));
        assert_eq!(status(b"logberg/1 status\n\n"), Some(400));
        assert_eq!(status(b"\x16\x03\x01\x02\x00\x01"), Some(400));
        assert_eq!(status(b"GET /metrics HT"), None);
    }

    #[test]
    fn more_headers_than_there_is_room_for_are_refused() {
        let mut request = b"GET /metrics HTTP/1.1\r\n".to_vec();
        for number in 0..HEADERS_MAX + 1 {
            request.extend_from_slice(format!("a{number}: b\r\n").as_bytes());
        }
        request.extend_from_slice(b"\r\n");
        assert_eq!(status(&request), Some(400));
    }
}
