//! Replies to SET and GET, found in what was received without a copy.

use anyhow::{Result, bail};
use resp::integer_of;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    Ok,
    Value(&'a [u8]),
    NoValue,
    Error(&'a [u8]),
}

/// A line longer than this ends in no reply to a command of ours.
const LINE_BYTES_MAX: usize = 4096;

/// The first reply and its length; nothing if it is not whole.
///
/// Errors: the bytes are no reply to SET or GET.
pub fn first(received: &[u8]) -> Result<Option<(Reply<'_>, usize)>> {
    const OK: &[u8] = b"+OK\r\n";
    if received.starts_with(OK) {
        return Ok(Some((Reply::Ok, OK.len())));
    }
    let Some(end) = received.iter().position(|byte| *byte == b'\n') else {
        if received.len() > LINE_BYTES_MAX {
            bail!("a reply's first line does not end");
        }
        return Ok(None);
    };
    match received[..end].strip_suffix(b"\r") {
        Some(b"$-1" | b"_") => Ok(Some((Reply::NoValue, end + 1))),
        Some([b'$', length @ ..]) => value(received, end + 1, length),
        Some([b'-', error @ ..]) => Ok(Some((Reply::Error(error), end + 1))),
        _ => {
            let said = String::from_utf8_lossy(&received[..end]);
            bail!("{said:?} is no reply to SET or GET");
        }
    }
}

fn value<'a>(received: &'a [u8], from: usize, length: &[u8]) -> Result<Option<(Reply<'a>, usize)>> {
    let length = integer_of(length).and_then(|length| usize::try_from(length).ok());
    let Some(length) = length else {
        bail!("the length of a value is none");
    };
    let rest = &received[from..];
    match rest.len().checked_sub(length) {
        Some(2..) if rest[length..].starts_with(b"\r\n") => {
            Ok(Some((Reply::Value(&rest[..length]), from + length + 2)))
        }
        Some(2..) => bail!("a value is longer than was said"),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reply_is_found_once_it_is_whole() {
        let all: [(&[u8], Reply<'_>); 4] = [
            (b"+OK\r\n", Reply::Ok),
            (b"$-1\r\n", Reply::NoValue),
            (b"$4\r\na\r\nb\r\n", Reply::Value(b"a\r\nb")),
            (b"-MOVED 7 a:1\r\n", Reply::Error(b"MOVED 7 a:1")),
        ];
        for (bytes, reply) in all {
            for part in 0..bytes.len() {
                assert_eq!(first(&bytes[..part]).unwrap(), None, "{reply:?} at {part}");
            }
            let followed = [bytes, b"+OK"].concat();
            assert_eq!(first(&followed).unwrap(), Some((reply, bytes.len())));
        }
    }

    #[test]
    fn what_is_no_reply_is_an_error() {
        for bytes in [&b"+PONG\r\n"[..], b":1\r\n", b"$x\r\n", b"$1\r\nabc", b"\n"] {
            assert!(first(bytes).is_err(), "{bytes:?}");
        }
        assert!(first(&[b'-'; LINE_BYTES_MAX + 1]).is_err());
    }
}
