//! TLS, beside the threads that move bytes.
//!
//! ```text
//!   client ══ TLS ══► acceptor ─▶ pump ◄─ pair of sockets ─▶ kernel       a node's thread sees a socket like any other
//!   kernel ─ Connect ─▶ dialer ─▶ pump ══ TLS ══► another node
//!   command ─▶ pair of sockets ─▶ pump ══ TLS ══► node
//! ```
//!
//! | part | what it knows |
//! |---|---|
//! | [`Directory`] | the files of a node: its certificate and key, and whom it believes; looked at again while it runs |
//! | [`Acceptor`] | handshakes of those who come, and who may come without |
//! | [`Dialer`] | connections to other nodes: by their certificates, not by their addresses |
//! | [`Trust`] | connections of a client: to whom a certificate that it believes names |
//! | `pump` | bytes between a TLS connection and one end of a pair, and how each of both ended |
//!
//! TLS 1.3 alone. Where TLS is off, none of this runs.

mod accept;
mod dial;
mod directory;
mod error;
mod handshake;
mod incoming;
mod keys;
mod names;
mod outgoing;
mod pair;
mod pump;
mod record;
mod runtime;
mod trust;
mod verify;

pub use accept::{Acceptor, Mode, OnPlain, Room};
pub use dial::Dialer;
pub use directory::{CA_FILE, CERTIFICATE_FILE, Directory, KEY_FILE, Loaded};
pub use error::TlsError;
pub use names::{CLIENT_NAME, NODE_NAME, Named};
pub use pump::settle;
pub use trust::Trust;
