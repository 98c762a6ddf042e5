//! A connection that speaks the lines of docs/wire.md itself, well or badly.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// A silence this long is a failure.
const SILENCE: Duration = Duration::from_secs(60);

pub struct Raw {
    pub stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Raw {
    pub fn try_connect(address: &str) -> Option<Raw> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(SILENCE)).ok()?;
        stream.set_write_timeout(Some(SILENCE)).ok()?;
        let reader = BufReader::new(stream.try_clone().ok()?);
        Some(Raw { stream, reader })
    }

    pub fn connect(address: &str) -> Raw {
        Raw::try_connect(address).unwrap_or_else(|| panic!("{address} takes no connection"))
    }

    /// Connects and sends this, a line feed included if there is to be one.
    pub fn say(address: &str, text: &str) -> Raw {
        let mut raw = Raw::connect(address);
        raw.send(text.as_bytes());
        raw
    }

    pub fn try_send(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.write_all(bytes).ok()
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the node reads");
    }

    pub fn try_line(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = self.reader.read_line(&mut line).ok()?;
        (count > 0).then(|| line.trim_end_matches('\n').to_owned())
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        let count = self.reader.read_line(&mut line).expect("a line");
        assert!(count > 0, "the connection ended");
        line.trim_end_matches('\n').to_owned()
    }

    /// The next line that does not begin so: `ack` for instance.
    pub fn line_after(&mut self, skipped: &str) -> String {
        loop {
            let line = self.line();
            if !line.starts_with(skipped) {
                return line;
            }
        }
    }

    /// Waits for the acknowledgement of that position.
    pub fn wait_ack(&mut self, position: u64) {
        loop {
            let line = self.line();
            let acknowledged = line.strip_prefix("ack ").expect(&line).parse::<u64>();
            if acknowledged.expect("a position") >= position {
                return;
            }
        }
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.reader.read_exact(&mut bytes).expect("bytes");
        bytes
    }

    /// Everything up to the end. A reset is an end too.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                panic!("neither an answer nor an end, only {rest:?}")
            }
            _ => rest,
        }
    }

    pub fn rest_text(&mut self) -> String {
        String::from_utf8(self.rest()).expect("text")
    }

    /// No more is sent; the other direction stays.
    pub fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("connected");
    }

    /// Ends the connection with a reset instead of an end.
    pub fn reset(self) {
        linger_zero(&self.stream);
    }
}

/// The whole answer to one line.
pub fn answer(address: &str, line: &str) -> String {
    Raw::say(address, &format!("{line}\n")).rest_text()
}

fn linger_zero(stream: &TcpStream) {
    rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).expect("a socket");
}
