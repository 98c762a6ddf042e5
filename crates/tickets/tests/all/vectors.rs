//! The examples of RFC 7515 and RFC 8037, and keys as openssl writes them.

use tickets::{Algorithm, BadKey, PublicKey, SigningKey, is_signed_by};

/// RFC 8037, A.4.
const EDDSA: &str = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
/// RFC 8037, A.2.
const EDDSA_KEY: &str = "EdDSA:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
/// RFC 7515, A.3.
const ES256: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
/// RFC 7515, A.1: a secret that both sides share.
const HS256: &str = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
/// RFC 7515, A.5: nothing signs it.
const NONE: &str = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.";

/// RFC 7515, A.3: `x` and `y` of the key, behind the byte for a point in full.
fn es256_key() -> PublicKey {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let part = |text| URL_SAFE_NO_PAD.decode(text).expect("letters");
    let x = part("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU");
    let y = part("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0");
    let point = URL_SAFE_NO_PAD.encode([vec![4], x, y].concat());
    format!("ES256:{point}").parse().expect("a key")
}

#[test]
fn the_examples_of_the_rfcs_are_signed_by_their_keys_and_by_no_other() {
    let eddsa: PublicKey = EDDSA_KEY.parse().expect("a key");
    assert!(is_signed_by(EDDSA, &eddsa));
    assert!(is_signed_by(ES256, &es256_key()));
    assert!(!is_signed_by(EDDSA, &es256_key()));
    assert!(!is_signed_by(ES256, &eddsa));
    for other in [HS256, NONE] {
        assert!(!is_signed_by(other, &eddsa) && !is_signed_by(other, &es256_key()));
    }
    // Each letter that is changed; the last one of a part may have no bits that stand for nothing.
    for text in [EDDSA, ES256] {
        let key = if text == EDDSA {
            eddsa.clone()
        } else {
            es256_key()
        };
        for at in (0..text.len()).filter(|at| text.as_bytes()[*at] != b'.') {
            let mut changed = text.to_owned();
            let letter = if &text[at..=at] == "A" { "B" } else { "A" };
            changed.replace_range(at..=at, letter);
            assert!(!is_signed_by(&changed, &key), "letter {at}");
        }
    }
}

/// RFC 8037, A.1: the private half.
#[test]
fn the_private_half_of_the_example_signs_the_example() {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let seed = URL_SAFE_NO_PAD.decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A");
    let seed: [u8; 32] = seed.expect("letters").try_into().expect("32 bytes");
    let key = SigningKey::of_seed(&seed).expect("a key");
    assert_eq!(key.public().to_string(), EDDSA_KEY);
    let pem = tickets::pem_of_seed(&seed);
    let read = SigningKey::read(&pem).expect("it is one");
    assert_eq!(read.public().to_string(), EDDSA_KEY);
    assert_eq!(format!("{read:?}"), "…");
    assert_eq!(PublicKey::read(&key.public().pem()), Ok(key.public()));
    assert_eq!(PublicKey::read(&pem), Ok(key.public()), "its public half");
}

/// `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`, and `openssl pkey -pubout` of it.
const EC_PRIVATE: &str = include_str!("ec.key");
const EC_PUBLIC: &str = include_str!("ec.pub");
/// `openssl genpkey -algorithm ed25519`, and its public half.
const ED_PRIVATE: &str = include_str!("ed.key");
const ED_PUBLIC: &str = include_str!("ed.pub");

#[test]
fn keys_are_read_as_openssl_writes_them() {
    for (private, public, algorithm) in [
        (EC_PRIVATE, EC_PUBLIC, Algorithm::Es256),
        (ED_PRIVATE, ED_PUBLIC, Algorithm::EdDsa),
    ] {
        let key = SigningKey::read(private).expect("a key");
        let read = PublicKey::read(public).expect("its public half");
        assert_eq!(key.public(), read);
        assert_eq!(read.algorithm(), algorithm);
        assert_eq!(read.pem(), public);
        assert_eq!(PublicKey::read(private), Ok(read));
        let refused = SigningKey::read(public).expect_err("it signs nothing");
        assert_eq!(refused, BadKey::NotPrivate);
    }
    assert_eq!(PublicKey::read("nothing"), Err(BadKey::Shape));
    let sec1 = "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n";
    assert_eq!(PublicKey::read(sec1), Err(BadKey::Form));
    let rsa =
        "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJB\n-----END PUBLIC KEY-----\n";
    assert_eq!(PublicKey::read(rsa), Err(BadKey::Kind));
}
