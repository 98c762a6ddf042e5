//! Is a ticket good here and now; and what it allows.

use access::{Grants, Principal, TicketText, TokenName};

use crate::claims::{AGE_MS_MAX, Claims, GRANTS_MAX, SUBJECT_BYTES_MAX};
use crate::key::PublicKey;
use crate::signature::Parts;

/// A ticket that was good when it was shown. It is good until it expires, and as long as its issuer has the key that signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub issuer: TokenName,
    /// The issuer's user, by a name of its choice.
    pub subject: String,
    /// ‡ As it says itself: what it allows is cut to the issuer's grants, see [`Ticket::within`].
    pub said: Grants,
    pub issued_ms: u64,
    pub expires_ms: u64,
    /// The key that signed it.
    pub key: PublicKey,
}

/// ‡ None of them shows what was read; and that there is no such issuer is told like a signature that is not its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTicket {
    #[error(
        "this is no ticket: one is a compact JWS, HEADER.CLAIMS.SIGNATURE, as `logberg issuer ticket` prints it"
    )]
    Shape,
    #[error("the ticket is of an algorithm that is not taken: sign it with EdDSA or ES256")]
    Algorithm,
    #[error("the ticket's header has crit, and nothing of that kind is understood: leave it away")]
    Critical,
    #[error(
        "the ticket's claims are iss, sub, aud, iat, exp and allow: texts, whole seconds since 1970, and a list of grants"
    )]
    Claims,
    #[error(
        "no issuer of that name has signed this ticket: `logberg issuer list` lists issuers and their keys"
    )]
    NotSigned,
    #[error(
        "the ticket is for another cluster: let aud be this one's id, which `logberg status --json` tells"
    )]
    Audience,
    #[error(
        "the ticket's sub is 1 to {SUBJECT_BYTES_MAX} printable ASCII characters, without spaces"
    )]
    Subject,
    #[error("the ticket is good for longer than {} hours, or for no time: let exp follow iat by less", AGE_MS_MAX / 3_600_000)]
    Long,
    #[error("the ticket is not good yet: set the clock of whoever made it, and leave nbf away")]
    Early,
    #[error("the ticket has expired: ask its issuer for another one")]
    Expired,
    #[error(
        "the ticket's allow is 1 to {GRANTS_MAX} grants, such as 'read on stream/default/chat/42'"
    )]
    Grants,
}

/// Checks a ticket. `keys_of`: those of an issuer, if there is one.
///
/// Errors: it is not good.
pub fn check<'a>(
    text: &TicketText,
    cluster: &str,
    now_ms: u64,
    keys_of: impl FnOnce(&str) -> Option<&'a [PublicKey]>,
) -> Result<Ticket, BadTicket> {
    let parts = Parts::of(text.reveal())?;
    let claims = Claims::read(&parts.claims)?;
    let keys = keys_of(&claims.iss).unwrap_or_default();
    let signed_by = keys.iter().find(|key| parts.is_signed_by(key));
    let key = signed_by.ok_or(BadTicket::NotSigned)?.clone();
    let sensible = claims.sensible(cluster, now_ms)?;
    Ok(Ticket {
        issuer: sensible.issuer,
        subject: sensible.subject,
        said: sensible.grants,
        issued_ms: sensible.issued_ms,
        expires_ms: sensible.expires_ms,
        key,
    })
}

impl Ticket {
    /// `ISSUER/SUBJECT`: no token and no certificate has a slash in its name.
    pub fn name(&self) -> String {
        format!("{}/{}", self.issuer, self.subject)
    }

    pub fn principal(&self) -> Principal {
        Principal::Ticket(self.name())
    }

    /// Whether it is good still, where its issuer has these keys now.
    pub fn is_good(&self, keys: &[PublicKey], now_ms: u64) -> bool {
        now_ms < self.expires_ms && keys.contains(&self.key)
    }

    /// ‡ Its grants: no more than its issuer's.
    pub fn within(&self, issuer: &Grants) -> Grants {
        self.said.within(issuer)
    }
}
