//! Credentials: a client shows one to servers, so that they know who asks.

use std::fmt;
use std::str::FromStr;

use access::{BadToken, Bearer, TicketText, Token};

/// A token, as `logberg token create` printed it, or a ticket that an issuer signed. It is sent at the beginning of each connection; no text shows its secret.
///
/// Or, of a node that asks for a client, the certificate that this one showed: it is believed of nodes alone, by the certificate that they
/// show themselves.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    shown: Shown,
    line: String,
}

#[derive(Clone, PartialEq, Eq)]
enum Shown {
    Token(Token),
    Ticket(TicketText),
    Certificate(String),
}

impl Credential {
    /// The bytes that go before the first line of a connection.
    pub(crate) fn line(&self) -> &[u8] {
        self.line.as_bytes()
    }

    /// For a client that showed a certificate of that name, which holds until then.
    ///
    /// Units: milliseconds since the beginning of 1970.
    pub fn of_certificate(name: &str, until_ms: u64) -> Credential {
        Credential {
            shown: Shown::Certificate(name.to_owned()),
            line: wire::auth::certificate_line(name, until_ms),
        }
    }

    /// With its secret, which no text shows. `None`: it is no token.
    pub fn token(&self) -> Option<&Token> {
        match &self.shown {
            Shown::Token(token) => Some(token),
            Shown::Ticket(_) | Shown::Certificate(_) => None,
        }
    }

    /// The credential behind `Authorization: Bearer`. It is a secret. `None`: it is neither token nor ticket.
    pub fn bearer(&self) -> Option<String> {
        match &self.shown {
            Shown::Token(token) => Some(token.reveal()),
            Shown::Ticket(ticket) => Some(ticket.reveal().to_owned()),
            Shown::Certificate(_) => None,
        }
    }

    /// The name of its token or certificate: no secret. That of a ticket stands in the ticket.
    pub fn name(&self) -> &str {
        match &self.shown {
            Shown::Token(token) => token.name.as_str(),
            Shown::Ticket(_) => "a ticket",
            Shown::Certificate(name) => name,
        }
    }
}

impl FromStr for Credential {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Credential, BadToken> {
        let (line, shown) = match text.trim().parse()? {
            Bearer::Token(token) => (wire::auth::line(&token.reveal()), Shown::Token(token)),
            Bearer::Ticket(ticket) => (wire::auth::line(ticket.reveal()), Shown::Ticket(ticket)),
        };
        Ok(Credential { shown, line })
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shown {
            Shown::Token(token) => write!(f, "{token}"),
            Shown::Ticket(ticket) => write!(f, "{ticket:?}"),
            Shown::Certificate(name) => write!(f, "certificate {name}"),
        }
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
