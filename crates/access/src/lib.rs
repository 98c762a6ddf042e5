//! Grants: who may do what, for all doors alike.
//!
//! ```text
//!  what came in ─▶ Asked ─ needs ─▶ Need: an operation on a resource ─┐
//!                                                                     ├─ decide ─▶ Ok, or Denied, which says why
//!  a token ─▶ Principal, and the grants that the cluster keeps of it ─┘
//! ```
//!
//! The answer is no where no grant says yes: nothing is ever denied by a grant of its own. This crate keeps nothing,
//! reads no clock and draws nothing at random: bytes and grants in, an answer out.
//!
//! | module | what it does |
//! |---|---|
//! | `operation` | what somebody may be allowed to do |
//! | `resource` | what it is done to: one thing, or all that begin alike |
//! | `grant` | `append,read on log/ci-*`: parsed, printed, compared; lists of them with bounds |
//! | `asked` | all that can be asked at any door, and what each needs |
//! | `decide` | may this principal do that, and if not, why |
//! | `token` | `lgb_ID_SECRET`: what is shown, and the hash that is kept |
//! | `shown` | a token or a signed ticket, as somebody shows it |

#![forbid(unsafe_code)]

mod asked;
mod decide;
mod grant;
mod operation;
mod resource;
mod shown;
mod token;

pub use asked::Asked;
pub use decide::{Denied, Need, Principal, decide};
pub use grant::{BadGrant, GRANT_BYTES_MAX, GRANTS_MAX, Grant, Grants};
pub use operation::{Operation, Operations};
pub use resource::{BadResource, Place, Resource};
pub use shown::{Bearer, TICKET_BYTES_MAX, TicketText};
pub use token::{BadToken, NAME_BYTES_MAX, SECRET_BYTES, Secret, SecretHash, Token, TokenName};
