//! A credential as somebody shows it: a token of the cluster, or a ticket that an issuer signed.

use std::fmt;
use std::str::FromStr;

use crate::token::{BadToken, PREFIX, Token};

/// Longer tickets are none.
pub const TICKET_BYTES_MAX: usize = 4_096;

/// A signed ticket as it is shown: a compact JWS. Who may show it is whoever has it, so no text shows it but [`TicketText::reveal`].
#[derive(Clone, PartialEq, Eq)]
pub struct TicketText(String);

/// A credential as it stands behind `auth`, in `Authorization: Bearer`, and in `AUTH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bearer {
    /// A token of the cluster.
    Token(Token),
    /// A ticket, of which nothing but its form is known yet.
    Ticket(TicketText),
}

impl TicketText {
    /// `None`: it has not the form of one.
    pub fn new(text: &str) -> Option<TicketText> {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let mut parts = 0;
        let fits = text.split('.').all(|part| {
            parts += 1;
            !part.is_empty() && part.bytes().all(is_letter)
        });
        let is_one = fits && parts == 3 && text.len() <= TICKET_BYTES_MAX;
        is_one.then(|| TicketText(text.to_owned()))
    }

    /// The text that is shown to doors.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TicketText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a ticket")
    }
}

impl FromStr for Bearer {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Bearer, BadToken> {
        // No token has a dot behind its beginning that is not in its name, and no ticket begins so.
        match TicketText::new(text) {
            Some(ticket) if !text.starts_with(PREFIX) => Ok(Bearer::Ticket(ticket)),
            _ => text.parse().map(Bearer::Token),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_parts_are_a_ticket_and_nothing_of_it_is_shown() {
        let bearer: Bearer = "eyJh.eyJp.c2ln".parse().expect("a ticket");
        let Bearer::Ticket(ticket) = &bearer else {
            panic!("{bearer:?}");
        };
        assert_eq!(ticket.reveal(), "eyJh.eyJp.c2ln");
        assert!(!format!("{bearer:?} {ticket:?}").contains("ey"));
        let token = format!("lgb_a.b.c_{}", "A".repeat(43));
        assert!(
            matches!(token.parse(), Ok(Bearer::Token(_))),
            "its name has dots"
        );
        for wrong in [
            "", "a.b", "a.b.c.d", "a..c", ".b.c", "a.b.", "a.b.c=", "a.b. c",
        ] {
            assert!(wrong.parse::<Bearer>().is_err(), "{wrong}");
        }
        let long = format!("a.{}.c", "b".repeat(TICKET_BYTES_MAX));
        assert!(long.parse::<Bearer>().is_err());
    }
}
