//! Certificates and configurations for tests of connections.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair, SanType, date_time_ymd,
};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::names::NODE_NAME;
use crate::verify::NodeVerifier;

/// The two sides of what an authority of this moment gave to a node.
pub fn configs() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    made(false)
}

/// As [`configs`], of a server that looks at clients' certificates, and a client whose own has expired.
pub fn configs_of_an_expired_client() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    made(true)
}

/// Files that an authority of this moment gave to a node.
pub struct Issued {
    pub authority: Certificate,
    pub issuer: Issuer<'static, KeyPair>,
    pub key: KeyPair,
    pub own: Certificate,
}

/// The certificate of a node of that name.
pub fn issued(name: &str) -> Issued {
    let key = KeyPair::generate().expect("a key");
    let mut wants = CertificateParams::default();
    wants.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = wants.self_signed(&key).expect("a certificate");
    let issuer = Issuer::new(wants, key);
    let mut wants = CertificateParams::default();
    let uri = format!("{NODE_NAME}{name}").try_into().expect("plain");
    wants.subject_alt_names.push(SanType::URI(uri));
    let key = KeyPair::generate().expect("a key");
    let own = wants.signed_by(&key, &issuer).expect("a certificate");
    Issued {
        authority,
        issuer,
        key,
        own,
    }
}

fn made(shows_expired: bool) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let Issued {
        authority,
        issuer,
        key,
        own,
    } = issued("n1");
    let secret = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let provider = Arc::new(default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).expect("an authority");
    let roots = Arc::new(roots);
    let shown = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
    let shown = shown.build().expect("an authority");
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("versions");
    let server = match shows_expired {
        true => server.with_client_cert_verifier(shown.clone()),
        false => server.with_no_client_auth(),
    };
    let mut server = server
        .with_single_cert(vec![own.der().clone()], secret)
        .expect("a pair");
    server.enable_secret_extraction = true;
    let verifier = NodeVerifier::new(roots, shown, provider.clone());
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    if !shows_expired {
        return (Arc::new(server), Arc::new(client.with_no_client_auth()));
    }
    let mut wants = CertificateParams::default();
    wants.not_after = date_time_ymd(2001, 1, 1);
    let key = KeyPair::generate().expect("a key");
    let expired = wants.signed_by(&key, &issuer).expect("a certificate");
    let secret = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let client = client.with_client_auth_cert(vec![expired.der().clone()], secret);
    let mut client = client.expect("a pair");
    client.enable_secret_extraction = true;
    (Arc::new(server), Arc::new(client))
}
