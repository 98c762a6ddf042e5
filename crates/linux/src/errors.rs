//! Errors that several files say.

use std::io;

/// io::Error cannot be cloned; one failure answers several ops.
pub(crate) fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

pub(crate) fn closed_here() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionAborted,
        "the connection was closed on this side",
    )
}
