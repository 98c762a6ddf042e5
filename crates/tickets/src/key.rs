//! Keys: the public half, which log 0 keeps, and the private one, which its owner signs with.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ED25519, EcdsaKeyPair,
    Ed25519KeyPair, KeyPair, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};

/// The algorithms of RFC 7518 and RFC 8037 that are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// Ed25519.
    EdDsa,
    /// ECDSA on P-256 with SHA-256.
    Es256,
}

impl Algorithm {
    const ALL: [Algorithm; 2] = [Algorithm::EdDsa, Algorithm::Es256];

    /// As it stands in a ticket.
    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::EdDsa => "EdDSA",
            Algorithm::Es256 => "ES256",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Algorithm> {
        let mut all = Algorithm::ALL.into_iter();
        all.find(|known| known.as_str() == name)
    }

    /// The bytes of a public key.
    fn key_bytes(self) -> usize {
        match self {
            Algorithm::EdDsa => 32,
            // Uncompressed.
            Algorithm::Es256 => 65,
        }
    }

    /// The bytes before them in a SubjectPublicKeyInfo: there is one way to write each.
    fn before_key(self) -> &'static [u8] {
        match self {
            Algorithm::EdDsa => b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00",
            Algorithm::Es256 => {
                b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00"
            }
        }
    }
}

/// The public half of an issuer's key, written `EdDSA:BASE64URL`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PublicKey {
    algorithm: Algorithm,
    bytes: Vec<u8>,
}

/// A file or a text that is no key. ‡ None of them shows what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    #[error(
        "this is no key: a file as `openssl genpkey -algorithm ed25519` or `openssl pkey -pubout` writes it is one"
    )]
    Shape,
    #[error(
        "this key is neither Ed25519 nor ECDSA on P-256: make one with `openssl genpkey -algorithm ed25519`"
    )]
    Kind,
    #[error(
        "this private key is not in the form PKCS#8 with its public half: `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256` writes one, and `openssl pkcs8 -topk8 -nocrypt` changes the form"
    )]
    Form,
    #[error("this is the public half of a key: tickets are signed with the private one")]
    NotPrivate,
}

impl PublicKey {
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// From a file: the public half, or a private key, of which the public half alone is taken.
    ///
    /// Errors: it is none.
    pub fn read(pem: &str) -> Result<PublicKey, BadKey> {
        match block(pem, "PUBLIC KEY") {
            Some(der) => PublicKey::of_der(&der),
            None => SigningKey::read(pem).map(|key| key.public()),
        }
    }

    fn of_der(der: &[u8]) -> Result<PublicKey, BadKey> {
        for algorithm in Algorithm::ALL {
            let rest = der.strip_prefix(algorithm.before_key());
            if let Some(bytes) = rest {
                return PublicKey::new(algorithm, bytes.to_vec());
            }
        }
        Err(BadKey::Kind)
    }

    pub(crate) fn new(algorithm: Algorithm, bytes: Vec<u8>) -> Result<PublicKey, BadKey> {
        let is_whole = bytes.len() == algorithm.key_bytes();
        let is_plain = algorithm != Algorithm::Es256 || bytes.first() == Some(&4);
        match is_whole && is_plain {
            true => Ok(PublicKey { algorithm, bytes }),
            false => Err(BadKey::Shape),
        }
    }

    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let checked = match self.algorithm {
            Algorithm::EdDsa => {
                UnparsedPublicKey::new(&ED25519, &self.bytes).verify(message, signature)
            }
            Algorithm::Es256 => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.bytes)
                .verify(message, signature),
        };
        checked.is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = URL_SAFE_NO_PAD.encode(&self.bytes);
        write!(f, "{}:{bytes}", self.algorithm.as_str())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for PublicKey {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<PublicKey, BadKey> {
        let (name, bytes) = text.split_once(':').ok_or(BadKey::Shape)?;
        let algorithm = Algorithm::named(name).ok_or(BadKey::Kind)?;
        let bytes = URL_SAFE_NO_PAD.decode(bytes).map_err(|_| BadKey::Shape)?;
        PublicKey::new(algorithm, bytes)
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> String {
        key.to_string()
    }
}

impl TryFrom<String> for PublicKey {
    type Error = BadKey;

    fn try_from(text: String) -> Result<PublicKey, BadKey> {
        text.parse()
    }
}

/// A private key, of whoever hands out tickets. No text shows it.
pub struct SigningKey(Pair);

enum Pair {
    EdDsa(Ed25519KeyPair),
    Es256(EcdsaKeyPair),
}

impl SigningKey {
    /// From a file in the form PKCS#8.
    ///
    /// Errors: it is none.
    pub fn read(pem: &str) -> Result<SigningKey, BadKey> {
        if let Some(der) = block(pem, "PRIVATE KEY") {
            return SigningKey::of_pkcs8(&der);
        }
        Err(match pem {
            _ if block(pem, "PUBLIC KEY").is_some() => BadKey::NotPrivate,
            _ if pem.contains("PRIVATE KEY-----") => BadKey::Form,
            _ => BadKey::Shape,
        })
    }

    /// Errors: it is none.
    pub fn of_pkcs8(der: &[u8]) -> Result<SigningKey, BadKey> {
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            return Ok(SigningKey(Pair::EdDsa(pair)));
        }
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random);
        match pair {
            Ok(pair) => Ok(SigningKey(Pair::Es256(pair))),
            Err(_) => Err(BadKey::Form),
        }
    }

    /// A key of Ed25519 from its 32 secret bytes.
    ///
    /// Errors: they are not so many.
    pub fn of_seed(seed: &[u8]) -> Result<SigningKey, BadKey> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| BadKey::Shape)?;
        Ok(SigningKey(Pair::EdDsa(pair)))
    }

    pub fn public(&self) -> PublicKey {
        let (algorithm, bytes) = match &self.0 {
            Pair::EdDsa(pair) => (Algorithm::EdDsa, pair.public_key().as_ref()),
            Pair::Es256(pair) => (Algorithm::Es256, pair.public_key().as_ref()),
        };
        let bytes = bytes.to_vec();
        PublicKey { algorithm, bytes }
    }

    /// `None`: the system gave no random bytes.
    pub(crate) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        match &self.0 {
            Pair::EdDsa(pair) => Some(pair.sign(message).as_ref().to_vec()),
            Pair::Es256(pair) => {
                let signed = pair.sign(&SystemRandom::new(), message).ok()?;
                Some(signed.as_ref().to_vec())
            }
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The first block of that name in a file of PEM. `None`: there is none that is whole.
fn block(pem: &str, name: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once(&format!("-----BEGIN {name}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {name}-----"))?;
    let letters: String = body.split_ascii_whitespace().collect();
    STANDARD.decode(letters).ok()
}

/// The bytes before a secret key of Ed25519 in the form PKCS#8.
const BEFORE_SEED: &[u8] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";

/// The file with a private key of Ed25519 from its 32 secret bytes, as openssl writes it. It is a secret.
pub fn pem_of_seed(seed: &[u8; 32]) -> String {
    pem("PRIVATE KEY", &[BEFORE_SEED, seed].concat())
}

fn pem(name: &str, der: &[u8]) -> String {
    let letters = STANDARD.encode(der);
    let mut text = format!("-----BEGIN {name}-----\n");
    for at in (0..letters.len()).step_by(64) {
        text += &letters[at..letters.len().min(at + 64)];
        text.push('\n');
    }
    text + &format!("-----END {name}-----\n")
}

impl PublicKey {
    /// The file with it, as openssl writes it.
    pub fn pem(&self) -> String {
        pem(
            "PUBLIC KEY",
            &[self.algorithm.before_key(), &self.bytes].concat(),
        )
    }
}
