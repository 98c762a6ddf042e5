//! What a certificate says: the node that it names, and until when it holds.

use std::path::Path;
use std::time::{Duration, SystemTime};

use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::directory::{certificates, read};
use crate::error::TlsError;

/// How the URI begins that names a node.
pub const NODE_NAME: &str = "logberg:node:";
/// The bytes of a node's name, at most.
const NAME_BYTES_MAX: usize = 64;

/// The words of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The node whose certificate it is.
    pub node: Option<String>,
    /// The names and addresses under which it may be reached.
    pub hosts: Vec<String>,
    pub not_after: SystemTime,
}

impl Named {
    /// The words of the first certificate in a file.
    pub fn of_file(path: &Path) -> Result<Named, TlsError> {
        let chain = certificates(path, &read(path)?)?;
        let none = || TlsError::NoCertificate {
            path: path.to_owned(),
        };
        Named::read(chain.first().ok_or_else(none)?).ok_or_else(none)
    }

    /// `None`: it is no certificate.
    pub fn read(der: &[u8]) -> Option<Named> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let names = certificate.subject_alternative_name().ok().flatten();
        let names = names.map_or(&[][..], |names| &names.value.general_names[..]);
        let mut named = Named {
            node: None,
            hosts: Vec::new(),
            not_after: at(certificate.validity().not_after.timestamp()),
        };
        for name in names {
            match name {
                // ‡ The URI alone: who gives out certificates by addresses gives them to machines that are no nodes.
                GeneralName::URI(uri) => {
                    let name = uri.strip_prefix(NODE_NAME).filter(|name| is_name(name));
                    named.node = named.node.or_else(|| name.map(str::to_owned));
                }
                GeneralName::DNSName(name) => named.hosts.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => named.hosts.extend(address(bytes)),
                _ => {}
            }
        }
        Some(named)
    }
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(plain)
}

fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(std::net::Ipv4Addr::from(four).to_string());
    }
    let sixteen = <[u8; 16]>::try_from(bytes).ok()?;
    Some(std::net::Ipv6Addr::from(sixteen).to_string())
}

fn at(seconds: i64) -> SystemTime {
    let since = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    SystemTime::UNIX_EPOCH + since
}
