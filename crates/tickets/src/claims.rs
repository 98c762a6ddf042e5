//! The claims of a ticket (RFC 7519), as far as they count here.

use access::{Grants, TokenName};
use serde::{Deserialize, Serialize};

use crate::check::BadTicket;

/// The grants in a ticket.
pub const GRANTS_MAX: usize = 16;
/// The bytes of the name of whoever it was made for.
pub const SUBJECT_BYTES_MAX: usize = 128;
/// A ticket is good for so long at most.
pub const AGE_MS_MAX: u64 = 24 * 3_600_000;
/// So far may the clock of whoever made it go before ours.
pub const AHEAD_MS_MAX: u64 = 60_000;

/// Times are seconds since the beginning of 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The issuer's name.
    pub iss: String,
    /// Its user, by a name that the issuer chose.
    pub sub: String,
    /// The cluster's id.
    pub aud: Audience,
    pub iat: u64,
    pub exp: u64,
    /// It is not good before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbf: Option<u64>,
    /// `OPERATION,… on RESOURCE` each.
    pub allow: Vec<String>,
}

/// One cluster, or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Audience {
    One(String),
    Several(Vec<String>),
}

/// The claims of a ticket that make sense together, whoever signed them.
pub(crate) struct Sensible {
    pub issuer: TokenName,
    pub subject: String,
    pub grants: Grants,
    pub issued_ms: u64,
    pub expires_ms: u64,
}

impl Audience {
    fn names(&self, cluster: &str) -> bool {
        match self {
            Audience::One(one) => one == cluster,
            Audience::Several(several) => several.iter().any(|one| one == cluster),
        }
    }
}

impl Claims {
    pub(crate) fn read(bytes: &[u8]) -> Result<Claims, BadTicket> {
        // ‡ The words of serde would show a part of it.
        serde_json::from_slice(bytes).map_err(|_| BadTicket::Claims)
    }

    /// Errors: they are not for this cluster, or for another time, or say what no ticket says.
    pub(crate) fn sensible(&self, cluster: &str, now_ms: u64) -> Result<Sensible, BadTicket> {
        let issuer = TokenName::new(&self.iss).map_err(|_| BadTicket::NotSigned)?;
        let is_printable = self.sub.bytes().all(|byte| byte.is_ascii_graphic());
        if self.sub.is_empty() || self.sub.len() > SUBJECT_BYTES_MAX || !is_printable {
            return Err(BadTicket::Subject);
        }
        if !self.aud.names(cluster) {
            return Err(BadTicket::Audience);
        }
        let ms = |seconds: u64| seconds.checked_mul(1000).ok_or(BadTicket::Claims);
        let (issued_ms, expires_ms) = (ms(self.iat)?, ms(self.exp)?);
        let begins_ms = issued_ms.max(ms(self.nbf.unwrap_or(0))?);
        if expires_ms <= issued_ms || expires_ms - issued_ms > AGE_MS_MAX {
            return Err(BadTicket::Long);
        }
        if begins_ms > now_ms.saturating_add(AHEAD_MS_MAX) {
            return Err(BadTicket::Early);
        }
        if expires_ms <= now_ms {
            return Err(BadTicket::Expired);
        }
        if self.allow.len() > GRANTS_MAX {
            return Err(BadTicket::Grants);
        }
        let grants = Grants::parse(self.allow.iter().map(String::as_str));
        Ok(Sensible {
            issuer,
            subject: self.sub.clone(),
            grants: grants.map_err(|_| BadTicket::Grants)?,
            issued_ms,
            expires_ms,
        })
    }
}
