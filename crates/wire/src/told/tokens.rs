//! Tokens, and what they allow.

use serde::{Deserialize, Serialize};

/// One token, without its secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenTold {
    pub name: String,
    /// It has no secret: its owner shows a client's certificate of that name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_certificate: bool,
    /// `OPERATION,… on RESOURCE` each.
    pub grants: Vec<String>,
    /// When it expires, in milliseconds since the beginning of 1970; never if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_expired: bool,
    /// Until when the secret before the last is good as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap_until_ms: Option<u64>,
    /// It is for one node that joins, and for no other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
    /// Who joins by it gets the name of that node, whose disk is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<u32>,
    /// That node, once it has joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<u32>,
    /// Its maker, or whoever changed it last.
    pub by: String,
    pub changed_ms: u64,
}

/// Whoever signs tickets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuerTold {
    /// The `iss` of its tickets.
    pub name: String,
    /// `EdDSA:BASE64URL` or `ES256:BASE64URL` each.
    pub keys: Vec<String>,
    /// The most that its tickets may, `OPERATION,… on RESOURCE` each.
    pub grants: Vec<String>,
    /// Its maker, or whoever changed it last.
    pub by: String,
    /// When that was, in milliseconds since the beginning of 1970.
    pub changed_ms: u64,
}

/// Whether tokens are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthTold {
    pub on: bool,
    /// Only what would be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plan: bool,
    /// The tokens that may do all.
    #[serde(default)]
    pub may_all: Vec<String>,
}

/// The asker, as the node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhoTold {
    /// `token NAME`, `certificate NAME`, `ticket ISSUER/SUBJECT`, `socket`, or `anonymous`.
    pub principal: String,
    /// The name in the client's certificate that was shown, whether or not anything was granted to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// Until when that certificate holds, in milliseconds since the beginning of 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_until_ms: Option<u64>,
    /// Empty where no grants are needed.
    pub grants: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// Whether tokens are asked for.
    pub auth: bool,
}

/// Whether somebody may do something, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    pub principal: String,
    pub operation: String,
    pub resource: String,
    pub allowed: bool,
    pub why: String,
}

/// A change, and who asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeTold {
    /// Milliseconds since the beginning of 1970, by the leader of log 0.
    pub at_ms: u64,
    pub by: String,
    /// The address from which he came; empty if that is not known.
    #[serde(default)]
    pub from: String,
    pub what: String,
}
