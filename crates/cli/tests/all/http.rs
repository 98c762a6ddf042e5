//! Requests over HTTP, byte by byte.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// An answer whose head has come.
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub rest: BufReader<TcpStream>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter();
        let found = named.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.headers.iter().map(|(name, _)| name.as_str())
    }

    pub fn offset(&self) -> String {
        let offset = self.header("Stream-Next-Offset");
        offset.expect("an offset").to_owned()
    }

    /// The next piece of a body that comes in pieces; `None` at its end.
    pub fn piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = String::new();
        self.rest.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16);
        let length = length.map_err(|_| io::Error::other(format!("{line:?} is no length")))?;
        let mut bytes = vec![0; length + 2];
        self.rest.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok((length > 0).then_some(bytes))
    }

    pub fn body(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        if let Some(length) = self.header("Content-Length") {
            body = vec![0; length.parse().expect("a length")];
            self.rest.read_exact(&mut body).expect("the body");
        } else if self.header("Transfer-Encoding").is_some() {
            while let Some(piece) = self.piece().expect("a piece") {
                body.extend(piece);
            }
        }
        body
    }

    pub fn text(&mut self) -> String {
        String::from_utf8(self.body()).expect("text")
    }
}

/// Sends these bytes, and reads the head of what comes.
pub fn send(door: &str, bytes: &[u8]) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(door)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    // Whoever refuses a body may do so before it has come.
    let _ = stream.write_all(bytes);
    answer(stream)
}

/// Reads the head of what comes.
fn answer(stream: TcpStream) -> io::Result<Answer> {
    let mut rest = BufReader::new(stream);
    let mut line = String::new();
    rest.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("{line:?} is no answer")))?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        rest.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
            None => break,
        }
    }
    Ok(Answer {
        status,
        headers,
        rest,
    })
}

/// A request whose body comes in pieces.
pub struct Upload(TcpStream);

impl Upload {
    pub fn begin(
        door: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> io::Result<Upload> {
        let mut stream = TcpStream::connect(door)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {door}\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes())?;
        Ok(Upload(stream))
    }

    pub fn piece(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0
            .write_all(format!("{:x}\r\n", bytes.len()).as_bytes())?;
        self.0.write_all(bytes)?;
        self.0.write_all(b"\r\n")
    }

    /// Sends nothing more, and reads the head of what comes.
    pub fn stop_sending(self) -> io::Result<Answer> {
        answer(self.0)
    }

    /// Ends the body, if it can still be sent, and reads the head of what comes.
    pub fn end(mut self) -> io::Result<Answer> {
        let _ = self.0.write_all(b"0\r\n\r\n");
        answer(self.0)
    }
}

/// One request, on a connection of its own.
pub fn ask(
    door: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Answer> {
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        head += &format!("Host: {door}\r\n");
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() || matches!(method, "POST" | "PUT") {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    head += "\r\n";
    let mut answer = send(door, &[head.as_bytes(), body].concat())?;
    if method == "HEAD" || answer.status == 204 || answer.status == 304 {
        // They have no body, whatever their headers say.
        answer
            .headers
            .retain(|(name, _)| !name.eq_ignore_ascii_case("content-length"));
    }
    Ok(answer)
}
