//! TLS: handshakes beside the threads that move bytes, and the bytes by whoever has them cheapest.
//!
//! ```text
//!   client ══ TLS ══► acceptor ─ a handshake ─▶ kernel                     its thread opens and seals where the bytes lie
//!   kernel ─ Connect ─▶ dialer ─ a handshake ─▶ kernel
//!   command ─▶ pair of sockets ─▶ pump ══ TLS ══► node                     and kernels on a ring, or on a processor without ciphers
//! ```
//!
//! | part | what it knows |
//! |---|---|
//! | [`Directory`] | the files of a node: its certificate and key, and whom it believes; looked at again while it runs |
//! | [`Acceptor`] | handshakes of those who come, and who may come without |
//! | [`Dialer`] | connections to other nodes: by their certificates, not by their addresses |
//! | [`Trust`] | connections of a client: to whom a certificate that it believes names |
//! | [`Moved`] | which of both it is for a kernel |
//! | `in_place` | a connection whose records a kernel's thread opens and seals |
//! | `pump` | bytes between a TLS connection and one end of a pair, and how each of both ended |
//!
//! TLS 1.3 alone. Where TLS is off, none of this runs.

mod accept;
mod cipher;
mod dial;
mod directory;
mod error;
mod handshake;
mod in_place;
mod incoming;
mod keys;
mod moved;
mod names;
mod outgoing;
mod pair;
mod pump;
mod record;
mod revoked;
mod runtime;
#[cfg(test)]
mod testing;
mod trust;
mod verify;

pub use accept::{Acceptor, Mode, OnPlain, Room};
pub use dial::Dialer;
pub use directory::{CA_FILE, CERTIFICATE_FILE, Directory, KEY_FILE, Loaded};
pub use error::TlsError;
pub use moved::Moved;
pub use names::{CLIENT_NAME, NODE_NAME, Named};
pub use pump::settle;
pub use revoked::revoked_serials;
pub use trust::Trust;
