//! Keys, signatures and seals: they prove the author of a word.
//!
//! ```text
//!  key ── names ──▶ disk id ── listed in the directory with ──▶ node id
//!   │
//!   ├── signs each start          in a greeting: nobody else can claim a start of this disk
//!   ├── signs a peer's challenge  in the first frame: nobody can repeat what he overheard
//!   └── seals what it told        a peer that keeps it can show it to an old copy of the disk, which knows
//!                                 its own seal, and need not believe whoever shows it
//! ```
//!
//! An old copy of a directory holds the same key. So the words that its node said after the copy was made are
//! evidence that it accepts from anybody.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use hmac::{Hmac, Mac};
use paxos::{Era, NodeId, PromisedTerm, Slot, Term};
use sha2::{Digest, Sha256};

use crate::codec::{DecodeError, Encode, Reader};
use crate::standing::{End, Start};
use crate::{DiskId, LogId, hex, parse_hex};

/// A disk's own; it never leaves the data directory.
#[derive(Clone)]
pub struct DiskKey {
    signing: SigningKey,
    sealing: [u8; 32],
}

/// Others check a disk's signatures by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(pub [u8; 32]);

/// A signature. Anybody who has the public key can check it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; 64]);

/// Only the disk that made it can check it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seal(pub [u8; 16]);

/// A peer asks for its signature, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge(pub [u8; 16]);

/// Something that a disk's node said once, in a form that the disk knows for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// It started as this.
    Start(Start, Signature),
    /// It held so much of a log.
    End(SealedEnd),
}

/// The end of a log on a disk, as the start that held it told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedEnd {
    pub start: Start,
    pub log: LogId,
    pub end: End,
    pub seal: Seal,
}

/// In front of the ids of disks that a key names. Earlier ones were drawn, and prove nothing.
const KEYED: [u8; 2] = *b"LB";

impl DiskId {
    /// Whether a key names it: then a node that claims it has to prove it.
    pub fn is_keyed(self) -> bool {
        self.0.starts_with(&KEYED)
    }
}

impl DiskKey {
    pub fn new(seed: [u8; 32]) -> DiskKey {
        let sealing = Sha256::new()
            .chain_update(b"logberg seals\0")
            .chain_update(seed)
            .finalize();
        DiskKey {
            signing: SigningKey::from_bytes(&seed),
            sealing: sealing.into(),
        }
    }

    pub fn seed(&self) -> [u8; 32] {
        self.signing.to_bytes()
    }

    pub fn public(&self) -> PublicKey {
        PublicKey(self.signing.verifying_key().to_bytes())
    }

    pub fn disk(&self) -> DiskId {
        self.public().disk()
    }

    pub fn sign_start(&self, disk: DiskId, start: Start) -> Signature {
        self.sign(&start_bytes(disk, start))
    }

    /// To the node that asked for it, and to no other.
    pub fn answer(&self, challenge: Challenge, to: NodeId, start: Start) -> Signature {
        self.sign(&answer_bytes(challenge, to, start))
    }

    /// Nobody knows it before it is asked.
    pub fn challenge(&self, start: Start, count: u64) -> Challenge {
        let mut bytes = b"logberg challenge\0".to_vec();
        start.put(&mut bytes);
        count.put(&mut bytes);
        Challenge(self.mac(&bytes))
    }

    pub fn seal(&self, start: Start, log: LogId, end: End) -> Seal {
        let mut bytes = b"logberg end\0".to_vec();
        start.put(&mut bytes);
        log.0.put(&mut bytes);
        end.put(&mut bytes);
        Seal(self.mac(&bytes))
    }

    /// Whether a node with this key, on this disk, said that.
    pub fn has_said(&self, disk: DiskId, evidence: &Evidence) -> bool {
        match evidence {
            Evidence::Start(start, signature) => self
                .public()
                .has_signed(&start_bytes(disk, *start), signature),
            Evidence::End(told) => self.seal(told.start, told.log, told.end) == told.seal,
        }
    }

    fn sign(&self, bytes: &[u8]) -> Signature {
        Signature(self.signing.sign(bytes).to_bytes())
    }

    fn mac(&self, bytes: &[u8]) -> [u8; 16] {
        let mac = Hmac::<Sha256>::new_from_slice(&self.sealing);
        let mut mac = mac.expect("a key of any length will do");
        mac.update(bytes);
        let all = mac.finalize().into_bytes();
        std::array::from_fn(|at| all[at])
    }
}

impl PublicKey {
    /// The id of the disk that has this key.
    pub fn disk(self) -> DiskId {
        let hash = Sha256::new()
            .chain_update(b"logberg disk\0")
            .chain_update(self.0)
            .finalize();
        let mut id = [0; 16];
        id[..2].copy_from_slice(&KEYED);
        id[2..].copy_from_slice(&hash[..14]);
        DiskId(id)
    }

    pub fn has_signed_start(self, disk: DiskId, start: Start, signature: &Signature) -> bool {
        self.has_signed(&start_bytes(disk, start), signature)
    }

    pub fn has_answered(
        self,
        challenge: Challenge,
        to: NodeId,
        start: Start,
        signature: &Signature,
    ) -> bool {
        self.has_signed(&answer_bytes(challenge, to, start), signature)
    }

    fn has_signed(self, bytes: &[u8], signature: &Signature) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(&signature.0);
        let key = VerifyingKey::from_bytes(&self.0);
        key.is_ok_and(|key| key.verify_strict(bytes, &signature).is_ok())
    }
}

fn start_bytes(disk: DiskId, start: Start) -> Vec<u8> {
    let mut bytes = b"logberg start\0".to_vec();
    bytes.extend(disk.0);
    start.put(&mut bytes);
    bytes
}

fn answer_bytes(challenge: Challenge, to: NodeId, start: Start) -> Vec<u8> {
    let mut bytes = b"logberg answer\0".to_vec();
    bytes.extend(challenge.0);
    to.put(&mut bytes);
    start.put(&mut bytes);
    bytes
}

impl fmt::Debug for DiskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DiskKey({})", hex(&self.public().0))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({})", hex(&self.0))
    }
}

/// One word of a line: `start:INCARNATION:NONCE:SIGNATURE` or
/// `end:INCARNATION:NONCE:LOG:ERA:NUMBER:OWNER:SLOT:SEAL`.
impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Evidence::Start(start, signature) => {
                let Start { incarnation, nonce } = start;
                write!(f, "start:{incarnation}:{nonce}:{}", hex(&signature.0))
            }
            Evidence::End(SealedEnd {
                start: Start { incarnation, nonce },
                log,
                end,
                seal,
            }) => {
                let Term { era, number, owner } = end.promised.0;
                let (era, slot) = (era.0, end.accepted_up_to);
                write!(
                    f,
                    "end:{incarnation}:{nonce}:{log}:{era}:{number}:{owner}:{slot}:{}",
                    hex(&seal.0)
                )
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no evidence")]
pub struct NoEvidence;

impl FromStr for Evidence {
    type Err = NoEvidence;

    fn from_str(text: &str) -> Result<Evidence, NoEvidence> {
        fn number<T: FromStr>(word: &str) -> Result<T, NoEvidence> {
            word.parse().map_err(|_| NoEvidence)
        }
        let start = |incarnation, nonce| {
            Ok(Start {
                incarnation: number(incarnation)?,
                nonce: number(nonce)?,
            })
        };
        let words: Vec<&str> = text.split(':').collect();
        match words[..] {
            ["start", incarnation, nonce, signature] => {
                let start = start(incarnation, nonce)?;
                let signature = parse_hex(signature).ok_or(NoEvidence)?;
                Ok(Evidence::Start(start, Signature(signature)))
            }
            [
                "end",
                incarnation,
                nonce,
                log,
                era,
                count,
                owner,
                slot,
                seal,
            ] => {
                let term = Term {
                    era: Era(number(era)?),
                    number: number(count)?,
                    owner: NodeId(number(owner)?),
                };
                let end = End {
                    promised: PromisedTerm(term),
                    accepted_up_to: Slot(number(slot)?),
                };
                Ok(Evidence::End(SealedEnd {
                    start: start(incarnation, nonce)?,
                    log: LogId(number(log)?),
                    end,
                    seal: Seal(parse_hex(seal).ok_or(NoEvidence)?),
                }))
            }
            _ => Err(NoEvidence),
        }
    }
}

impl Encode for Signature {
    const BYTES_MIN: usize = 64;
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
    fn parse(from: &mut Reader<'_>) -> Result<Signature, DecodeError> {
        let bytes = from.bytes(64)?;
        Ok(Signature(std::array::from_fn(|at| bytes[at])))
    }
}

impl Encode for SealedEnd {
    const BYTES_MIN: usize = Start::BYTES_MIN + 4 + End::BYTES_MIN + Seal::BYTES_MIN;
    fn put(&self, out: &mut Vec<u8>) {
        self.start.put(out);
        self.log.put(out);
        self.end.put(out);
        self.seal.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<SealedEnd, DecodeError> {
        Ok(SealedEnd {
            start: Start::parse(from)?,
            log: LogId::parse(from)?,
            end: End::parse(from)?,
            seal: Seal::parse(from)?,
        })
    }
}

impl Encode for Seal {
    const BYTES_MIN: usize = 16;
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
    fn parse(from: &mut Reader<'_>) -> Result<Seal, DecodeError> {
        let bytes = from.bytes(16)?;
        Ok(Seal(std::array::from_fn(|at| bytes[at])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Start = Start {
        incarnation: 7,
        nonce: u64::MAX,
    };

    fn end(slot: u64) -> End {
        let term = Term {
            era: Era(3),
            number: 9,
            owner: NodeId(2),
        };
        End {
            promised: PromisedTerm(term),
            accepted_up_to: Slot(slot),
        }
    }

    fn sealed(key: &DiskKey, start: Start, slot: u64) -> SealedEnd {
        let (log, end) = (LogId(4), end(slot));
        let seal = key.seal(start, log, end);
        SealedEnd {
            start,
            log,
            end,
            seal,
        }
    }

    #[test]
    fn a_disk_is_named_by_its_key_and_by_no_other() {
        let (one, other) = (DiskKey::new([1; 32]), DiskKey::new([2; 32]));
        assert!(one.disk().is_keyed() && one.disk() != other.disk());
        assert!(!DiskId([7; 16]).is_keyed());
        assert_eq!(DiskKey::new(one.seed()).disk(), one.disk());
        let signed = one.sign_start(one.disk(), START);
        assert!(one.public().has_signed_start(one.disk(), START, &signed));
        assert!(!other.public().has_signed_start(one.disk(), START, &signed));
        let later = Start {
            incarnation: 8,
            ..START
        };
        assert!(!one.public().has_signed_start(one.disk(), later, &signed));
        assert!(!PublicKey([0; 32]).has_signed_start(one.disk(), START, &signed));
    }

    #[test]
    fn an_answer_is_for_one_challenge_and_one_node() {
        let key = DiskKey::new([1; 32]);
        let (first, second) = (key.challenge(START, 1), key.challenge(START, 2));
        assert_ne!(first, second);
        let answer = key.answer(first, NodeId(2), START);
        let public = key.public();
        assert!(public.has_answered(first, NodeId(2), START, &answer));
        assert!(!public.has_answered(second, NodeId(2), START, &answer));
        assert!(!public.has_answered(first, NodeId(3), START, &answer));
        assert!(!public.has_answered(first, NodeId(2), Start { nonce: 1, ..START }, &answer));
    }

    #[test]
    fn evidence_is_known_by_the_disk_that_made_it_and_survives_a_line() {
        let (one, other) = (DiskKey::new([1; 32]), DiskKey::new([2; 32]));
        let all = [
            Evidence::Start(START, one.sign_start(one.disk(), START)),
            Evidence::End(sealed(&one, START, 50)),
        ];
        for evidence in all {
            assert!(one.has_said(one.disk(), &evidence));
            assert!(!other.has_said(one.disk(), &evidence));
            let line = evidence.to_string();
            assert_eq!(line.parse(), Ok(evidence));
            for cut in 0..line.len() {
                assert_ne!(line[..cut].parse(), Ok(evidence));
            }
        }
        let said = sealed(&one, START, 50);
        let more = SealedEnd {
            end: end(51),
            ..said
        };
        let later = Start {
            incarnation: 8,
            ..START
        };
        let as_another_start = SealedEnd {
            start: later,
            ..said
        };
        for changed in [more, as_another_start] {
            assert!(!one.has_said(one.disk(), &Evidence::End(changed)));
        }
        for nonsense in [
            "",
            "start",
            "start:1:2:zz",
            "end:1:2:3:4:5:",
            "end:1:2:3:4:5:6:7:",
            "start:-1:2:00",
            "é:::",
        ] {
            assert_eq!(nonsense.parse::<Evidence>(), Err(NoEvidence), "{nonsense}");
        }
    }
}
