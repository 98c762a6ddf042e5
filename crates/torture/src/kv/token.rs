//! Values that only one call writes.

use std::fmt;

/// The client and the number of its call; as text always equally long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token {
    pub client: u32,
    pub number: u32,
}

impl Token {
    pub const BYTES: u64 = 13;

    pub fn read(bytes: &[u8]) -> Option<Token> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (client, number) = text.strip_suffix(';')?.split_once('.')?;
        let token = Token {
            client: client.parse().ok()?,
            number: number.parse().ok()?,
        };
        (bytes.len() as u64 == Self::BYTES).then_some(token)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03}.{:08};", self.client, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn a_token_is_read_as_it_was_written_and_a_part_of_one_is_none() {
        let token = Token {
            client: 7,
            number: 12_345,
        };
        let text = token.to_string();
        assert_eq!(text.len() as u64, Token::BYTES);
        assert_eq!(Token::read(text.as_bytes()), Some(token));
        assert_eq!(Token::read(&text.as_bytes()[1..]), None);
        assert_eq!(Token::read(b"007.00012345:"), None);
    }
}
