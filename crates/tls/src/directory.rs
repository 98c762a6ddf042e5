//! The directory with a node's certificate, its key, and the authority that it believes.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::cipher::provider;
use crate::error::TlsError;
use crate::names::Named;
use crate::revoked::{lists, of_roots};
use crate::verify::NodeVerifier;

/// The certificate of the node, and what stands between it and the authority.
pub const CERTIFICATE_FILE: &str = "tls.crt";
pub const KEY_FILE: &str = "tls.key";
/// The authorities whose certificates of nodes are believed.
pub const CA_FILE: &str = "ca.crt";

/// No such file is longer.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The files of a node, as they were when last looked at.
pub struct Directory {
    path: PathBuf,
    /// The list of revoked certificates, if one is kept.
    revoked: Option<PathBuf>,
    now: RwLock<Arc<Loaded>>,
}

/// One reading of the files.
pub struct Loaded {
    pub(crate) accepts: Arc<ServerConfig>,
    /// As `accepts`, and says which versions of HTTP it speaks. ‡ Only what the authority gave is asked for: a browser whose user has none of it asks nobody.
    serves_http: Arc<ServerConfig>,
    pub(crate) dials: Arc<ClientConfig>,
    /// What the node's own certificate says.
    pub named: Named,
    bytes: [Vec<u8>; 4],
}

impl Directory {
    /// `revoked`: a list of certificates that are nobody's any more, of the authority in `ca.crt`.
    pub fn open(path: impl Into<PathBuf>, revoked: Option<PathBuf>) -> Result<Directory, TlsError> {
        let path = path.into();
        let now = RwLock::new(Arc::new(Loaded::read(&path, revoked.as_deref())?));
        Ok(Directory { path, revoked, now })
    }

    pub fn loaded(&self) -> Arc<Loaded> {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        now.clone()
    }

    /// For an HTTP server of the caller's own, by the certificate of this moment.
    pub fn http(&self) -> TlsAcceptor {
        self.loaded().serves_http.clone().into()
    }

    /// Looks at the files again. True: they are others, and new connections are made by them. `owner`: the other node to whose id the
    /// cluster binds a name.
    ///
    /// Errors: they cannot be used, or are another node's, so what was read before holds.
    pub fn look(&self, owner: impl Fn(&str) -> Option<u32>) -> Result<bool, TlsError> {
        let new = Loaded::read(&self.path, self.revoked.as_deref())?;
        let before = self.loaded();
        if new.bytes == before.bytes {
            return Ok(false);
        }
        // ‡ By it this node would be nobody. A name that is nobody's is taken: this node may not have heard yet that it is its own by now.
        if let Some(names) = &new.named.node
            && before.named.node.as_ref() != Some(names)
            && let Some(owner) = owner(names)
        {
            return Err(TlsError::OtherNode {
                path: self.path.join(CERTIFICATE_FILE),
                names: names.clone(),
                owner,
            });
        }
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
        Ok(true)
    }
}

impl Loaded {
    fn read(directory: &Path, revoked: Option<&Path>) -> Result<Loaded, TlsError> {
        let paths = [CERTIFICATE_FILE, KEY_FILE, CA_FILE].map(|name| directory.join(name));
        let [certificate, key, ca] = &paths;
        check_mode(key)?;
        let list = revoked.map(read).transpose()?.unwrap_or_default();
        let bytes = [read(certificate)?, read(key)?, read(ca)?, list];
        let pair = Pair::parse((certificate, &bytes[0]), (key, &bytes[1]))?;
        let unusable = |path: &PathBuf, why: &dyn ToString| TlsError::Unusable {
            path: path.clone(),
            why: why.to_string(),
        };
        let named =
            Named::read(&pair.chain[0]).ok_or_else(|| unusable(certificate, &"it is none"))?;
        if named.node.is_none() {
            let path = certificate.clone();
            return Err(TlsError::NamesNoNode { path });
        }
        pair.check(certificate, key)?;
        let Pair { chain, secret } = pair;
        let provider = Arc::new(provider());
        let (roots, authorities) = of_roots(ca, &bytes[2])?;
        let roots = Arc::new(roots);
        let revoked = match revoked {
            Some(path) => lists(path, &bytes[3], &authorities)?,
            None => Vec::new(),
        };
        // A list says nothing of other authorities' certificates. ‡ One whose time is over holds: those that it names stay revoked.
        let whom = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .with_crls(revoked)
            .allow_unknown_revocation_status()
            .allow_unauthenticated()
            .build()
            .map_err(|error| unusable(ca, &error))?;
        let versions = &[&rustls::version::TLS13];
        let mut accepts = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| unusable(certificate, &error))?
            .with_client_cert_verifier(whom.clone())
            .with_single_cert(chain.clone(), secret.clone_key())
            .map_err(|error| unusable(certificate, &error))?;
        // ‡ Who resumes shows no certificate: his would be that of a while ago.
        accepts.session_storage = Arc::new(NoServerSessionStorage {});
        accepts.send_tls13_tickets = 0;
        // The pump seals and opens by itself.
        accepts.enable_secret_extraction = true;
        let mut serves_http = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| unusable(certificate, &error))?
            .with_client_cert_verifier(whom.clone())
            .with_single_cert(chain.clone(), secret.clone_key())
            .map_err(|error| unusable(certificate, &error))?;
        serves_http.session_storage = Arc::new(NoServerSessionStorage {});
        serves_http.send_tls13_tickets = 0;
        serves_http.alpn_protocols = [&b"h2"[..], b"http/1.1"].map(<[u8]>::to_vec).to_vec();
        let mut dials = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| unusable(certificate, &error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(NodeVerifier::new(roots, whom, provider)))
            .with_client_auth_cert(chain, secret)
            .map_err(|error| unusable(certificate, &error))?;
        dials.enable_secret_extraction = true;
        Ok(Loaded {
            accepts: Arc::new(accepts),
            serves_http: Arc::new(serves_http),
            dials: Arc::new(dials),
            named,
            bytes,
        })
    }
}

/// A certificate, what stands between it and its authority, and its key.
pub(crate) struct Pair {
    pub chain: Vec<CertificateDer<'static>>,
    pub secret: PrivateKeyDer<'static>,
}

impl Pair {
    /// Reads both.
    pub fn read(certificate: &Path, key: &Path) -> Result<Pair, TlsError> {
        check_mode(key)?;
        Pair::parse((certificate, &read(certificate)?), (key, &read(key)?))
    }

    fn parse(
        (certificate, chain): (&Path, &[u8]),
        (key, secret): (&Path, &[u8]),
    ) -> Result<Pair, TlsError> {
        let chain = certificates(certificate, chain)?;
        let no_key = |_| TlsError::NoKey {
            path: key.to_owned(),
        };
        let secret = PrivateKeyDer::from_pem_slice(secret).map_err(no_key)?;
        Ok(Pair { chain, secret })
    }

    /// Errors: one is not of the other.
    pub fn check(&self, certificate: &Path, key: &Path) -> Result<(), TlsError> {
        let other_key = || TlsError::OtherKey {
            key: key.to_owned(),
            certificate: certificate.to_owned(),
        };
        let Pair { chain, secret } = self;
        let pair = CertifiedKey::from_der(chain.clone(), secret.clone_key(), &provider());
        let pair = pair.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => other_key(),
            other => TlsError::Unusable {
                path: key.to_owned(),
                why: other.to_string(),
            },
        })?;
        pair.keys_match().map_err(|_| other_key())
    }
}

/// The authorities in a file.
pub(crate) fn roots(path: &Path, bytes: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, bytes)? {
        roots.add(certificate).map_err(|error| TlsError::Unusable {
            path: path.to_owned(),
            why: error.to_string(),
        })?;
    }
    Ok(roots)
}

pub(crate) fn certificates(
    path: &Path,
    bytes: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(TlsError::NoCertificate {
            path: path.to_owned(),
        }),
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let of = |error| TlsError::Io {
        path: path.to_owned(),
        error,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(of)?;
    file.take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(of)?;
    Ok(bytes)
}

/// A group may read a key: so a service shares it with what renews it.
fn check_mode(key: &Path) -> Result<(), TlsError> {
    let path = key.to_owned();
    match std::fs::metadata(key) {
        Ok(found) if found.permissions().mode() & 0o007 != 0 => Err(TlsError::Exposed { path }),
        Ok(_) => Ok(()),
        Err(error) => Err(TlsError::Io { path, error }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::{Issued, issued};

    /// The files of a node of that name, of an authority of its own.
    fn put(directory: &Path, name: &str) {
        let Issued {
            authority,
            key,
            own,
            ..
        } = issued(name);
        let path = directory.join(KEY_FILE);
        fs::write(&path, key.serialize_pem()).expect("it is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode is set");
        fs::write(directory.join(CERTIFICATE_FILE), own.pem()).expect("it is written");
        fs::write(directory.join(CA_FILE), authority.pem()).expect("it is written");
    }

    #[test]
    fn the_files_of_another_node_leave_those_of_before_in_use() {
        let files = tempfile::tempdir().expect("a directory");
        put(files.path(), "n1");
        let directory = Directory::open(files.path(), None).expect("they fit");
        let name = || directory.loaded().named.node.clone().expect("a name");
        let look = || directory.look(|name| (name == "n2").then_some(2));
        assert!(!look().expect("nothing is new"));
        // A renewed one keeps its name.
        put(files.path(), "n1");
        assert!(look().expect("it is its own"));
        put(files.path(), "n2");
        let said = look().expect_err("it is another's").to_string();
        assert!(
            said.contains("certificate of n2, which is node 2"),
            "{said}"
        );
        assert_eq!(name(), "n1");
        // A name that is bound to nobody may be this node's new one.
        put(files.path(), "cellar");
        assert!(look().expect("it is nobody's"));
        assert_eq!(name(), "cellar");
        // Where names are not bound none is looked at.
        put(files.path(), "n2");
        assert!(directory.look(|_| None).expect("it is nobody's"));
        assert_eq!(name(), "n2");
        // What was bound to another since is renewed as it is.
        put(files.path(), "n2");
        assert!(look().expect("no other name"));
    }
}
