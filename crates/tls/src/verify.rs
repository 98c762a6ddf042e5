//! Whom a node believes that it dials: a certificate of a node, wherever its address leads.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::names::Named;

/// Addresses of nodes change, and are other nodes' words. The name of a node is in its certificate.
#[derive(Debug)]
pub struct NodeVerifier {
    roots: Arc<RootCertStore>,
    /// The same authorities, less what they have revoked.
    shown: Arc<dyn ClientCertVerifier>,
    provider: Arc<CryptoProvider>,
}

impl NodeVerifier {
    pub fn new(
        roots: Arc<RootCertStore>,
        shown: Arc<dyn ClientCertVerifier>,
        provider: Arc<CryptoProvider>,
    ) -> NodeVerifier {
        NodeVerifier {
            roots,
            shown,
            provider,
        }
    }
}

impl ServerCertVerifier for NodeVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, between, now, algorithms)?;
        // ‡ A node's certificate is for both ends, and is looked at as that of one who comes: there the list of revoked ones counts.
        self.shown.verify_client_cert(certificate, between, now)?;
        let named = Named::read(certificate);
        match named.is_some_and(|named| named.node.is_some()) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::NotValidForName.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
