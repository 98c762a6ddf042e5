//! Addresses that cannot be listened on, and what helps.

use std::io::{self, ErrorKind};

use terminal::exit::{Failure, Kind};

/// `what` is to be done there: `listen`, `serve keys`. `flag` named the address.
pub fn refused(what: &str, address: &str, flag: &str, error: &io::Error) -> Failure {
    let sentence = match error.kind() {
        ErrorKind::AddrInUse => format!(
            "{address} is in use by another process: stop that one, or choose another address with {flag}"
        ),
        ErrorKind::Unsupported => error.to_string(),
        ErrorKind::InvalidInput => {
            format!(
                "{flag} wants HOST:PORT, such as 127.0.0.1:7117, and {address} is none ({error})"
            )
        }
        _ => format!("cannot {what} on {address}: {error}; choose another address with {flag}"),
    };
    let kind = match error.kind() {
        ErrorKind::InvalidInput => Kind::Usage,
        _ => Kind::Failure,
    };
    Failure::new(kind, sentence)
}
