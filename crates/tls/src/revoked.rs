//! Lists of revoked certificates (CRL), as an authority signs them.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

use crate::error::TlsError;

/// The lists in a file, PEM or DER.
///
/// ‡ Each is signed by an authority of these: one that somebody put there by mistake, or half of one, would revoke nothing, or everybody.
///
/// Errors: one is none, or of another authority.
pub(crate) fn lists(
    path: &Path,
    bytes: &[u8],
    authorities: &[CertificateDer<'_>],
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let unusable = |why: &str| TlsError::Unusable {
        path: path.to_owned(),
        why: why.to_owned(),
    };
    let lists: Vec<CertificateRevocationListDer<'static>> = match bytes.first() {
        // A sequence of DER.
        Some(0x30) => vec![CertificateRevocationListDer::from(bytes.to_vec())],
        _ => CertificateRevocationListDer::pem_slice_iter(bytes)
            .collect::<Result<_, _>>()
            .map_err(|_| unusable("it is no list of revoked certificates (PEM or DER)"))?,
    };
    if lists.is_empty() {
        return Err(unusable(
            "it has no list of revoked certificates (PEM or DER)",
        ));
    }
    for list in &lists {
        let Ok((rest, parsed)) = CertificateRevocationList::from_der(list) else {
            return Err(unusable(
                "it is no list of revoked certificates (PEM or DER)",
            ));
        };
        let is_whole = rest.is_empty();
        let is_signed = authorities
            .iter()
            .any(|authority| has_signed(authority, &parsed));
        if !is_whole || !is_signed {
            return Err(unusable(
                "no authority in ca.crt has signed it: let --tls-crl name the list of that one",
            ));
        }
    }
    Ok(lists)
}

fn has_signed(authority: &CertificateDer<'_>, list: &CertificateRevocationList<'_>) -> bool {
    X509Certificate::from_der(authority).is_ok_and(|(_, authority)| {
        list.issuer() == authority.subject()
            && list.verify_signature(authority.public_key()).is_ok()
    })
}

/// Errors: there are authorities that cannot be used.
pub(crate) fn of_roots(
    path: &Path,
    bytes: &[u8],
) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), TlsError> {
    let certificates = crate::directory::certificates(path, bytes)?;
    Ok((crate::directory::roots(path, bytes)?, certificates))
}

/// The numbers of the certificates that a list names; none, if there is no such file.
///
/// Errors: it is no list.
pub fn revoked_serials(path: &Path) -> Result<Vec<Vec<u8>>, TlsError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let bytes = crate::directory::read(path)?;
    let unusable = || TlsError::Unusable {
        path: path.to_owned(),
        why: "it is no list of revoked certificates".to_owned(),
    };
    let list = CertificateRevocationListDer::from_pem_slice(&bytes).map_err(|_| unusable())?;
    let (_, list) = CertificateRevocationList::from_der(&list).map_err(|_| unusable())?;
    let serials = list.iter_revoked_certificates();
    Ok(serials.map(|one| one.raw_serial().to_vec()).collect())
}
