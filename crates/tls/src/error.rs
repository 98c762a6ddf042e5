//! What may be wrong with certificates and keys, each with its remedy.

use std::path::PathBuf;

use rustls::AlertDescription;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum TlsError {
    #[error(
        "cannot read {path}: {error}; a directory for --tls-dir has tls.crt, tls.key and ca.crt (`logberg certs` makes them)"
    )]
    Io {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error("{path} holds no certificate: it is to hold one or more, as PEM")]
    NoCertificate { path: PathBuf },
    #[error("{path} holds no private key: it is to hold one, as PEM")]
    NoKey { path: PathBuf },
    #[error("{path} can be read by everybody on this machine: chmod 600 {path}")]
    Exposed { path: PathBuf },
    #[error("{path} cannot be used: {why}")]
    Unusable { path: PathBuf, why: String },
    #[error("{key} is not the key of {certificate}: put the two of one certificate there")]
    OtherKey { key: PathBuf, certificate: PathBuf },
    #[error(
        "{path} names no node: a node's certificate has the URI logberg:node:NAME (`logberg certs node NAME` makes one)"
    )]
    NamesNoNode { path: PathBuf },
    #[error(
        "{path} is the certificate of {names}, which is node {owner}: put one of this node's name there"
    )]
    OtherNode {
        path: PathBuf,
        names: String,
        owner: u32,
    },
}

/// The reason for which the other side ended a connection, where it says one that whoever dialled can mend.
pub(crate) fn reason(alert: AlertDescription) -> Option<&'static str> {
    Some(match alert {
        AlertDescription::CertificateExpired => {
            "it refuses the certificate that was shown: that has expired, renew it"
        }
        AlertDescription::CertificateRevoked => {
            "it refuses the certificate that was shown: that was revoked"
        }
        AlertDescription::UnknownCA => {
            "it refuses the certificate that was shown: that is of no authority that it believes"
        }
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown => "it refuses the certificate that was shown",
        _ => return None,
    })
}
