//! Credentials: a client shows one to servers, so that they know who asks.

use std::fmt;
use std::str::FromStr;

use access::{BadToken, Token};

/// A token, as `logberg token create` printed it. It is sent at the beginning of each connection; no text shows its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    token: Token,
    line: String,
}

impl Credential {
    /// The bytes that go before the first line of a connection.
    pub(crate) fn line(&self) -> &[u8] {
        self.line.as_bytes()
    }

    /// With its secret, which no text shows.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// The name of its token: no secret.
    pub fn name(&self) -> &str {
        self.token.name.as_str()
    }
}

impl FromStr for Credential {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Credential, BadToken> {
        let token: Token = text.trim().parse()?;
        let line = wire::auth::line(&token.reveal());
        Ok(Credential { token, line })
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_shows_its_name_and_nothing_else() {
        let text = format!("lgb_ci_{}", "A".repeat(43));
        let credential: Credential = format!("{text}\n").parse().expect("a token");
        assert_eq!(format!("{credential:?}"), "lgb_ci_…");
        assert_eq!(
            credential.line(),
            format!("logberg/1 auth {text}\n").as_bytes()
        );
        let wrong = "lgb_ci_secret"
            .parse::<Credential>()
            .expect_err("it is none");
        assert!(!wrong.to_string().contains("secret,") && !format!("{wrong:?}").contains("ci"));
    }
}
