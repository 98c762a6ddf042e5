//! Drawn tickets that are broken somewhere: none is good, none panics, and what is said of it shows nothing of it.

use access::TicketText;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use tickets::{PublicKey, is_signed_by, sign};

use crate::checked::{checked_at, claims, key};

const NOW_MS: u64 = 1_900_000_000_000;

fn whole() -> String {
    let ticket = sign(&claims(), &key(1)).expect("a ticket");
    ticket.reveal().to_owned()
}

/// Three parts of those bytes, signed in earnest: what its header and claims say is all that is wrong.
fn of(header: &str, claims: &str) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!(
        "{}.{}.{}",
        part(header),
        part(claims),
        part(&"s".repeat(64))
    )
}

fn is_refused(text: &str) -> bool {
    TicketText::new(text).is_none_or(|ticket| checked_at(&ticket, NOW_MS).is_err())
}

proptest! {
    #[test]
    fn one_letter_more_less_or_other_and_it_is_none(
        at in 0usize..300, letter in "[A-Za-z0-9_.=+/ -]", kind in 0u8..3,
    ) {
        let text = whole();
        let at = at % text.len();
        let mut broken = text.clone();
        match kind {
            0 => broken.replace_range(at..=at, &letter),
            1 => broken.insert_str(at, &letter),
            _ => { broken.remove(at); }
        }
        prop_assume!(broken != text);
        prop_assert!(is_refused(&broken), "{broken}");
    }

    #[test]
    fn no_text_panics(text in "[A-Za-z0-9_.-]{0,200}") {
        prop_assert!(is_refused(&text));
        prop_assert!(!is_signed_by(&text, &key(1).public()));
    }

    #[test]
    fn no_header_and_no_claims_panic(
        header in prop::collection::vec(any::<u8>(), 0..80),
        claims in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let (header, claims) = (String::from_utf8_lossy(&header), String::from_utf8_lossy(&claims));
        prop_assert!(is_refused(&of(&header, &claims)));
        let header = r#"{"alg":"EdDSA"}"#;
        prop_assert!(is_refused(&of(header, &claims)));
    }

    #[test]
    fn no_key_panics(text in "(EdDSA|ES256|RS256)?:?[A-Za-z0-9_-]{0,100}", pem in ".{0,200}") {
        if let Ok(key) = text.parse::<PublicKey>() {
            prop_assert!(!is_signed_by(&whole(), &key));
            prop_assert_eq!(key.to_string().parse(), Ok(key));
        }
        prop_assert!(PublicKey::read(&pem).is_err());
    }
}

#[test]
fn a_header_that_wants_something_is_refused() {
    let claims = serde_json::to_string(&claims()).expect("text");
    for header in [
        r#"{"alg":"none"}"#,
        r#"{"alg":"HS256"}"#,
        r#"{"alg":"RS256"}"#,
        r#"{"alg":"eddsa"}"#,
        r#"{"alg":"EdDSA","alg":"none"}"#,
        r#"{"alg":["EdDSA"]}"#,
        r#"{"alg":"EdDSA","crit":["b64"],"b64":false}"#,
        r#"{"alg":"EdDSA","crit":[]}"#,
        r#"{"alg":"ES256","jwk":{"kty":"EC"}}"#,
        r#"{"typ":"JWT"}"#,
        "[]",
        "{}",
        "",
    ] {
        assert!(is_refused(&of(header, &claims)), "{header}");
    }
}
