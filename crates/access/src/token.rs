//! `lgb_ID_SECRET`: what its owner shows, and what the cluster keeps of it.
//!
//! ```text
//!   32 random bytes ─▶ lgb_ci_4v0e…  printed once      ─▶ shown with each connection
//!                  └─ SHA-256 ─▶ kept in log 0, in snapshots and backups: no way back
//! ```
//!
//! 256 random bits need no slow hash: nobody guesses them.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

pub const SECRET_BYTES: usize = 32;
/// The bytes of a token's name.
pub const NAME_BYTES_MAX: usize = 64;

pub(crate) const PREFIX: &str = "lgb_";
/// As they are written in a token.
const SECRET_LETTERS: usize = 43;

/// The name of a token: what grants, lists and the audit call it. It is no secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenName(String);

/// Random bytes that only their owner has. No text shows them but [`Token::reveal`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; SECRET_BYTES]);

/// The SHA-256 of a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretHash([u8; 32]);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub name: TokenName,
    pub secret: Secret,
}

/// ‡ None of them shows what was read: a token with a letter too many is a secret still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    #[error(
        "this is no token: one is lgb_NAME_SECRET, as `logberg token create` printed it, or a ticket of an issuer, HEADER.CLAIMS.SIGNATURE"
    )]
    Shape,
    #[error(
        "a token's name is 1 to {NAME_BYTES_MAX} lower-case letters, digits, '-' or '.', and begins with a letter or a digit"
    )]
    Name,
    #[error("a token's secret has {SECRET_LETTERS} letters, as `logberg token create` printed it")]
    Secret,
}

impl TokenName {
    /// Errors: it is no name.
    pub fn new(text: &str) -> Result<TokenName, BadToken> {
        let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let fits = text
            .bytes()
            .all(|b| is_alphanumeric(b) || b"-.".contains(&b));
        let begins = text.bytes().next().is_some_and(is_alphanumeric);
        match fits && begins && text.len() <= NAME_BYTES_MAX {
            true => Ok(TokenName(text.to_owned())),
            false => Err(BadToken::Name),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Secret {
    /// `bytes`: drawn from the system's randomness by the caller.
    pub fn new(bytes: [u8; SECRET_BYTES]) -> Secret {
        Secret(bytes)
    }

    /// As it stands behind a token's name.
    ///
    /// Errors: it is none.
    pub fn parse(text: &str) -> Result<Secret, BadToken> {
        if text.len() != SECRET_LETTERS {
            return Err(BadToken::Secret);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| BadToken::Secret)?;
        let bytes = bytes.try_into().map_err(|_| BadToken::Secret)?;
        Ok(Secret(bytes))
    }

    pub fn hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(self.0).into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl SecretHash {
    /// As it is kept.
    pub fn of_bytes(bytes: [u8; 32]) -> SecretHash {
        SecretHash(bytes)
    }

    pub fn to_bytes(self) -> [u8; 32] {
        self.0
    }

    /// ‡ However much of it is right, the comparison takes as long.
    pub fn is_of(&self, secret: &Secret) -> bool {
        self.0.ct_eq(&secret.hash().0).into()
    }
}

/// Not a secret, and still nothing to read.
impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{:02x}{:02x}…", self.0[0], self.0[1])
    }
}

impl Token {
    /// The text that is shown to doors. It is to be printed once, to its owner.
    pub fn reveal(&self) -> String {
        let secret = URL_SAFE_NO_PAD.encode(self.secret.0);
        format!("{PREFIX}{}_{secret}", self.name)
    }
}

impl FromStr for Token {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Token, BadToken> {
        let rest = text.strip_prefix(PREFIX).ok_or(BadToken::Shape)?;
        // A secret may have an underscore; a name has none.
        let (name, secret) = rest.split_once('_').ok_or(BadToken::Shape)?;
        Ok(Token {
            name: TokenName::new(name)?,
            secret: Secret::parse(secret)?,
        })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}_…", self.name)
    }
}
