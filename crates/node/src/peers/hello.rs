//! A peer's first line, as far as it can be understood without knowing the peer.

use formats::past::Start;
use formats::proof::{Evidence, PublicKey, Signature};
use formats::version::Speaks;
use formats::{DiskId, LogId, parse_hex};
use paxos::NodeId;
use paxos::mutation::{self, Mutation};
use replica::Own;
use store::past::met::Seen;
use wire::{LineError, Refusal, Request};

use super::places::check_address;

/// `peer kind=control|data …`. Keys that are not known here are a newer node's, and are passed over.
pub struct Hello {
    pub kind: Kind,
    pub from: NodeId,
    pub speaks: Speaks,
    /// The address at which it says that it can be dialled; perhaps nothing.
    pub address: String,
    /// The disk and start that it claims. `None`: it knows this node no better than this node knows a guest.
    pub claim: Option<Seen>,
    /// Its memory of this node's disk.
    pub evidence: Option<Evidence>,
    pub takes_parts: bool,
    pub compares: bool,
    /// The free bytes below which its disk takes no clients' bytes.
    pub reserve_bytes: Option<u64>,
}

/// The kind of bytes that the connection is to carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Control,
    /// Bytes of that log.
    Data(LogId),
}

impl Hello {
    /// Reads the line, and checks what must hold of guests too.
    pub fn read(
        request: &Request,
        own: &Own,
        is_removed: impl Fn(NodeId) -> bool,
    ) -> Result<Hello, Refusal> {
        let from = check_names(request, own)?;
        if is_removed(from) {
            return Err(Refusal::new(
                "removed",
                format!(
                    "node {from} was removed from this cluster and its id is never used again; stop it, and to come back join anew, with --join and an empty directory"
                ),
            ));
        }
        let claim = match request.flag("guest")? {
            true => None,
            false => Some(read_claim(request)?),
        };
        let kind = match request.require("kind")? {
            "control" => Kind::Control,
            "data" => Kind::Data(LogId(number(request, "log")?)),
            kind => return Err(bad(format!("unknown kind {kind:?}"))),
        };
        let address = request.get("address").unwrap_or_default();
        check_address(address)?;
        Ok(Hello {
            kind,
            from,
            speaks: request.parsed("speaks")?.unwrap_or(Speaks::UNSAID),
            address: address.to_owned(),
            claim,
            evidence: request.get("met").and_then(|met| met.parse().ok()),
            takes_parts: request.get("parts") == Some("1"),
            compares: request.get("digests") == Some("1"),
            reserve_bytes: request.parsed("reserve")?,
        })
    }
}

/// Checks that it means this node, of this cluster. Returns the id that it says.
fn check_names(request: &Request, own: &Own) -> Result<NodeId, Refusal> {
    let cluster = request.require("cluster")?;
    let (own_cluster, own_id) = (own.identity.cluster.to_string(), own.identity.node);
    if own_id == NodeId(0) {
        return Err(Refusal::new(
            "not-here",
            "this node has not joined a cluster yet",
        ));
    }
    if cluster != own_cluster {
        return Err(bad(format!(
            "this node is of cluster {own_cluster}, not of {cluster}; check --join and the data directory"
        )));
    }
    let (from, to) = (number(request, "from")?, number(request, "to")?);
    let (from, to) = (NodeId(from), NodeId(to));
    if to != own_id {
        let refusal = bad(format!(
            "this is node {own_id}, not node {to}; check the addresses"
        ));
        return Err(refusal.key("node", own_id));
    }
    if from == to || from == NodeId(0) {
        return Err(bad(
            "a peer has another node's id; its directory was copied",
        ));
    }
    Ok(from)
}

fn read_claim(request: &Request) -> Result<Seen, Refusal> {
    let disk = formats::parse_hex16(request.require("disk")?);
    Ok(Seen {
        disk: DiskId(disk.ok_or_else(|| bad("disk is 32 hex digits"))?),
        incarnation: number(request, "incarnation")?,
        nonce: request
            .parsed::<u64>("nonce")?
            .ok_or(LineError::Missing("nonce"))?,
    })
}

/// ‡ Checks that a node which names a disk with a key has that key. Returns the key, and its signature of
/// this start.
pub fn check_proof(
    request: &Request,
    claim: Seen,
) -> Result<Option<(PublicKey, Signature)>, Refusal> {
    if !claim.disk.is_keyed() || mutation::is(Mutation::DisksNeedNoProof) {
        return Ok(None);
    }
    let start = Start {
        incarnation: claim.incarnation,
        nonce: claim.nonce,
    };
    let key = request.get("key").and_then(parse_hex).map(PublicKey);
    let signature = request.get("signature").and_then(parse_hex);
    let signed = key.zip(signature.map(Signature));
    let signed = signed.filter(|(key, signature)| {
        key.disk() == claim.disk && key.has_signed_start(claim.disk, start, signature)
    });
    let no_proof = "the key of that disk has not signed this start: the file key in a node's directory is what proves it";
    signed
        .map(Some)
        .ok_or_else(|| Refusal::new("no-proof", no_proof))
}

pub fn bad(what: impl Into<String>) -> Refusal {
    Refusal::new("bad-request", what)
}

fn number(request: &Request, key: &'static str) -> Result<u32, Refusal> {
    Ok(request.parsed::<u32>(key)?.ok_or(LineError::Missing(key))?)
}
