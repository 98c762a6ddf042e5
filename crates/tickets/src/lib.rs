//! Signed tickets: `HEADER.CLAIMS.SIGNATURE`, a compact JWS that an issuer's backend hands to its own users without asking the cluster.
//!
//! ```text
//!  a backend ─ sign, with a key of its own ─▶ a ticket ─▶ shown where a token is
//!                                                            │ check: an issuer's key, this cluster, its times
//!  log 0: the issuer, its public keys, its grants ───────────┴─▶ Ticket ─ within ─▶ Grants, cut to the issuer's
//! ```
//!
//! ‡ Two algorithms, EdDSA and ES256, and the one that a key is of: nothing in a ticket chooses how it is checked. Keys that a ticket brings
//! or points to are not looked at.
//!
//! | module | what it does |
//! |---|---|
//! | `key` | public keys as they are kept, from the files that openssl writes; private ones, to sign |
//! | `signature` | the three parts, and whether a key signed them |
//! | `claims` | what a ticket says, with bounds |
//! | `check` | is it good here and now; what it allows |

#![forbid(unsafe_code)]

mod check;
mod claims;
mod key;
mod signature;

pub use check::{BadTicket, Ticket, check};
pub use claims::{AGE_MS_MAX, AHEAD_MS_MAX, Audience, Claims, GRANTS_MAX, SUBJECT_BYTES_MAX};
pub use key::{Algorithm, BadKey, PublicKey, SigningKey, pem_of_seed};
pub use signature::{is_signed_by, sign};
