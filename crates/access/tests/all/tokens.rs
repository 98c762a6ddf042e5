//! Tokens as they are shown, and what is kept of them.

use logberg_access::{BadToken, Secret, SecretHash, Token, TokenName};

fn token() -> Token {
    Token {
        name: TokenName::new("ci").expect("a name"),
        secret: Secret::new([0xfe; 32]),
    }
}

#[test]
fn a_token_is_read_as_it_was_shown() {
    let shown = token().reveal();
    assert_eq!(shown, "lgb_ci__v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v4");
    assert_eq!(shown.parse(), Ok(token()));
}

#[test]
fn no_text_but_the_one_for_its_owner_shows_a_secret() {
    let token = token();
    let secret = token.reveal()["lgb_ci_".len()..].to_owned();
    let Token { secret: bytes, .. } = &token;
    for text in [
        format!("{token}"),
        format!("{token:?}"),
        format!("{bytes}"),
        format!("{bytes:?}"),
        format!("{bytes:#?}"),
        format!("{:?}", bytes.hash()),
    ] {
        assert!(!text.contains(&secret), "{text}");
        assert!(!text.contains("254"), "{text}");
        assert!(text.len() < 80, "{text}");
    }
}

#[test]
fn what_is_no_token_is_refused_and_not_shown() {
    let whole = token().reveal();
    let longer = format!("{whole}A");
    let shorter = &whole[..whole.len() - 1];
    // Its last letter has bits that no byte has.
    let other_end = format!("{shorter}5");
    for (text, expected) in [
        ("", BadToken::Shape),
        ("lgb_", BadToken::Shape),
        ("lgb_ci", BadToken::Shape),
        ("LGB_ci_", BadToken::Shape),
        ("lgb__", BadToken::Name),
        ("lgb_Ci_", BadToken::Name),
        ("lgb_-c_", BadToken::Name),
        ("lgb_c/i_", BadToken::Name),
        ("lgb_ci_", BadToken::Secret),
        (longer.as_str(), BadToken::Secret),
        (shorter, BadToken::Secret),
        (other_end.as_str(), BadToken::Secret),
    ] {
        let refused = text.parse::<Token>().expect_err("it is refused");
        assert_eq!(refused, expected);
        assert!(text.len() < 9 || !refused.to_string().contains(text));
    }
}

#[test]
fn a_hash_is_of_its_secret_alone() {
    let hash = token().secret.hash();
    assert!(hash.is_of(&token().secret));
    assert!(!hash.is_of(&Secret::new([0xff; 32])));
    assert_eq!(SecretHash::of_bytes(hash.to_bytes()), hash);
    // SHA-256 of 32 bytes 0xfe.
    let bytes = hash.to_bytes().map(|byte| format!("{byte:02x}")).concat();
    assert_eq!(bytes, EXPECTED);
}

const EXPECTED: &str = "cc0670e42d78aa98c7a1334a843925e5a4601a2e947225a6d576e7a110e249a4";
