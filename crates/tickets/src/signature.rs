//! The three parts of a ticket, and whether a key signed them.

use access::TicketText;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::check::BadTicket;
use crate::claims::Claims;
use crate::key::{Algorithm, PublicKey, SigningKey};

/// Both algorithms write so many bytes.
const SIGNATURE_BYTES: usize = 64;

/// The header of a JWS, as far as it counts here. ‡ Whatever names or brings a key (`kid`, `jwk`, `jku`, `x5c`) is passed over.
#[derive(Deserialize)]
struct Header {
    alg: String,
    /// Something in it must be understood. Nothing is.
    #[serde(default)]
    crit: Option<IgnoredAny>,
}

/// A ticket, taken apart.
pub(crate) struct Parts<'a> {
    pub algorithm: Algorithm,
    pub claims: Vec<u8>,
    /// The bytes that are signed.
    message: &'a str,
    signature: Vec<u8>,
}

impl Parts<'_> {
    /// Errors: it is not of that form, or of an algorithm that is not taken.
    pub fn of(text: &str) -> Result<Parts<'_>, BadTicket> {
        let (message, signature) = text.rsplit_once('.').ok_or(BadTicket::Shape)?;
        let (header, claims) = message.split_once('.').ok_or(BadTicket::Shape)?;
        let bytes = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| BadTicket::Shape);
        let header: Header =
            serde_json::from_slice(&bytes(header)?).map_err(|_| BadTicket::Shape)?;
        if header.crit.is_some() {
            return Err(BadTicket::Critical);
        }
        let algorithm = Algorithm::named(&header.alg).ok_or(BadTicket::Algorithm)?;
        let signature = bytes(signature)?;
        match signature.len() == SIGNATURE_BYTES {
            true => Ok(Parts {
                algorithm,
                claims: bytes(claims)?,
                message,
                signature,
            }),
            false => Err(BadTicket::Shape),
        }
    }

    /// ‡ By the key's own algorithm alone.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        key.algorithm() == self.algorithm
            && key.has_signed(self.message.as_bytes(), &self.signature)
    }
}

/// Whether that key signed this text, whatever it says.
pub fn is_signed_by(text: &str, key: &PublicKey) -> bool {
    Parts::of(text).is_ok_and(|parts| parts.is_signed_by(key))
}

/// Makes a ticket. `None`: the system gave no random bytes, or it would be longer than tickets may be.
pub fn sign(claims: &Claims, key: &SigningKey) -> Option<TicketText> {
    let header = format!(
        r#"{{"alg":"{}","typ":"JWT"}}"#,
        key.public().algorithm().as_str()
    );
    let header = URL_SAFE_NO_PAD.encode(header);
    let claims = URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims).ok()?);
    let message = format!("{header}.{claims}");
    let signature = URL_SAFE_NO_PAD.encode(key.sign(message.as_bytes())?);
    TicketText::new(&format!("{message}.{signature}"))
}
