//! What a certificate says: the node that it names, and until when it holds.

use std::path::Path;
use std::time::{Duration, SystemTime};

use ops::ClientCertificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::directory::{certificates, read};
use crate::error::TlsError;

/// How the URI begins that names a node.
pub const NODE_NAME: &str = "logberg:node:";
/// How the URI begins that names a client.
pub const CLIENT_NAME: &str = "logberg:client:";
/// The bytes of a name, at most.
const NAME_BYTES_MAX: usize = 64;

/// The words of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The node whose certificate it is.
    pub node: Option<String>,
    /// The client whose certificate it is. ‡ One that names a node is no client's.
    pub client: Option<String>,
    /// The names and addresses under which it may be reached.
    pub hosts: Vec<String>,
    pub not_after: SystemTime,
    /// The number that its authority gave it.
    pub serial: Vec<u8>,
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
            client: None,
            hosts: Vec::new(),
            not_after: at(certificate.validity().not_after.timestamp()),
            serial: certificate.raw_serial().to_vec(),
        };
        for name in names {
            match name {
                // ‡ The URI alone: who gives out certificates by addresses gives them to machines that are no nodes.
                GeneralName::URI(uri) => {
                    let name = uri.strip_prefix(NODE_NAME).filter(|name| is_name(name));
                    named.node = named.node.or_else(|| name.map(str::to_owned));
                    let name = uri.strip_prefix(CLIENT_NAME);
                    let name = name.filter(|name| is_principal(name));
                    named.client = named.client.or_else(|| name.map(str::to_owned));
                }
                GeneralName::DNSName(name) => named.hosts.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => named.hosts.extend(address(bytes)),
                _ => {}
            }
        }
        if named.node.is_some() {
            named.client = None;
        }
        Some(named)
    }

    /// As doors are told of whoever showed this.
    pub fn client(&self) -> Option<ClientCertificate> {
        let name = self.client.clone()?;
        let since = self.not_after.duration_since(SystemTime::UNIX_EPOCH);
        let until_ms = since.map_or(0, |since| since.as_millis());
        let until_ms = u64::try_from(until_ms).unwrap_or(u64::MAX);
        Some(ClientCertificate { name, until_ms })
    }
}

/// Whether this can be the name of a principal: it is written as those of tokens are.
fn is_principal(name: &str) -> bool {
    access::TokenName::new(name).is_ok()
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    /// A certificate with these URIs and DNS names, as DER. `None`: no certificate can say that.
    fn certificate(uris: &[String], hosts: &[String]) -> Option<Vec<u8>> {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        for uri in uris {
            let name = uri.as_str().try_into().ok()?;
            params.subject_alt_names.push(SanType::URI(name));
        }
        for host in hosts {
            let name = host.as_str().try_into().ok()?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        let made = params.self_signed(&key).ok()?;
        Some(made.der().to_vec())
    }

    fn node_of(uris: &[&str], hosts: &[&str]) -> Option<String> {
        let texts = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let der = certificate(&texts(uris), &texts(hosts)).expect("it can be said");
        Named::read(&der).expect("a certificate").node
    }

    /// ‡ S2: whoever gives out DNS names gives them to machines that are no nodes.
    #[test]
    fn a_nodes_name_is_in_the_uri_alone() {
        assert_eq!(node_of(&["logberg:node:n1"], &[]).as_deref(), Some("n1"));
        for uri in [
            "logberg:node:",
            "logberg:node:n 1",
            "logberg:node:n1/../n2",
            "logberg:client:n1",
            "LOGBERG:NODE:n1",
            "spiffe://logberg/node/n1",
            &format!("logberg:node:{}", "n".repeat(65)),
        ] {
            assert_eq!(node_of(&[uri], &["n1", "logberg"]), None, "{uri}");
        }
        // Of two the first counts, so that none can be hidden behind another.
        let two = ["logberg:node:n1", "logberg:node:n2"];
        assert_eq!(node_of(&two, &[]).as_deref(), Some("n1"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn drawn_certificates_name_a_node_of_plain_letters_or_none(
            uris in prop::collection::vec("(logberg:node:)?[ -~]{0,80}", 0..4),
            hosts in prop::collection::vec("[a-z0-9.*-]{0,40}", 0..3),
        ) {
            if let Some(der) = certificate(&uris, &hosts) {
                let named = Named::read(&der).expect("a certificate");
                prop_assert!(named.node.is_none_or(|name| is_name(&name)));
            }
        }

        #[test]
        fn drawn_damage_of_a_certificate_ends_nothing(
            at in any::<prop::sample::Index>(),
            with in any::<u8>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let uris = ["logberg:node:n1".to_owned()];
            let mut der = certificate(&uris, &["n1.example".to_owned()]).expect("plain words");
            let at = at.index(der.len());
            der[at] = with;
            let _ = Named::read(&der);
            let _ = Named::read(&der[..cut.index(der.len())]);
        }

        #[test]
        fn drawn_bytes_are_read_or_none(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = Named::read(&bytes);
        }
    }
}
