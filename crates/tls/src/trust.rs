//! Connections of a client: to servers whose certificate an authority that it believes gave to the name that it dials.

use std::fmt;
use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use client::{Secured, Transport};
use rustls::client::WantsClientCert;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, ConfigBuilder, RootCertStore};
use tokio::time::timeout;

use crate::cipher::provider;
use crate::directory::{Directory, Pair, certificates, read, roots};
use crate::error::{TlsError, reason};
use crate::{handshake, pair, pump, runtime};

/// Whom a client believes.
pub struct Trust {
    config: Config,
    authorities: Vec<Vec<u8>>,
    roots: Arc<RootCertStore>,
}

enum Config {
    Fixed(Arc<ClientConfig>),
    /// And shows a certificate, by its files of this moment.
    Showing(Showing),
    /// A node's own clients: nodes alone, and by its certificate of this moment.
    OfNode(Arc<Directory>),
}

/// A client that shows a certificate. A long-lived one takes up a renewed one with its next connection.
struct Showing {
    certificate: PathBuf,
    key: PathBuf,
    roots: Arc<RootCertStore>,
    /// By the last files that fitted one another.
    last: Mutex<Arc<ClientConfig>>,
}

type Builder = ConfigBuilder<ClientConfig, WantsClientCert>;

fn builder(roots: Arc<RootCertStore>, path: &Path) -> Result<Builder, TlsError> {
    let versions = &[&rustls::version::TLS13];
    let builder = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(versions)
        .map_err(|error| TlsError::Unusable {
            path: path.to_owned(),
            why: error.to_string(),
        })?;
    Ok(builder.with_root_certificates(roots))
}

impl Showing {
    fn read(
        certificate: &Path,
        key: &Path,
        roots: &Arc<RootCertStore>,
    ) -> Result<Arc<ClientConfig>, TlsError> {
        let pair = Pair::read(certificate, key)?;
        pair.check(certificate, key)?;
        let Pair { chain, secret } = pair;
        let config = builder(roots.clone(), certificate)?.with_client_auth_cert(chain, secret);
        let mut config = config.map_err(|error| TlsError::Unusable {
            path: certificate.to_owned(),
            why: error.to_string(),
        })?;
        config.enable_secret_extraction = true;
        Ok(Arc::new(config))
    }

    /// By the files of this moment. If they do not fit, which somebody may be about to mend, by those before.
    fn now(&self) -> Arc<ClientConfig> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(config) = Showing::read(&self.certificate, &self.key, &self.roots) {
            *last = config;
        }
        last.clone()
    }
}

impl Trust {
    /// Believes the authorities in that file.
    pub fn read(path: &Path) -> Result<Trust, TlsError> {
        let bytes = read(path)?;
        let authorities = certificates(path, &bytes)?;
        let roots = Arc::new(roots(path, &bytes)?);
        let mut config = builder(roots.clone(), path)?.with_no_client_auth();
        config.enable_secret_extraction = true;
        Ok(Trust {
            config: Config::Fixed(Arc::new(config)),
            authorities: authorities.iter().map(|one| one.to_vec()).collect(),
            roots,
        })
    }

    /// And shows the certificate in that file, whose key is in the other one.
    ///
    /// Errors: one is not the other's key, or others may read it.
    pub fn showing(&self, certificate: &Path, key: &Path) -> Result<Trust, TlsError> {
        let roots = self.roots.clone();
        let last = Mutex::new(Showing::read(certificate, key, &roots)?);
        Ok(Trust {
            config: Config::Showing(Showing {
                certificate: certificate.to_owned(),
                key: key.to_owned(),
                roots: roots.clone(),
                last,
            }),
            authorities: self.authorities.clone(),
            roots,
        })
    }

    /// The certificates to show, as DER, and their key, as PEM: for clients of another make.
    pub fn shown(&self) -> Option<(Vec<Vec<u8>>, Vec<u8>)> {
        let Config::Showing(showing) = &self.config else {
            return None;
        };
        let bytes = read(&showing.certificate).ok()?;
        let chain = certificates(&showing.certificate, &bytes).ok()?;
        let chain = chain.iter().map(|one| one.to_vec()).collect();
        Some((chain, read(&showing.key).ok()?))
    }

    /// Believes nodes, as that node does, and shows its certificate.
    pub fn of_node(directory: Arc<Directory>) -> Trust {
        Trust {
            config: Config::OfNode(directory),
            authorities: Vec::new(),
            roots: Arc::new(RootCertStore::empty()),
        }
    }

    /// The certificates of the authorities in the file, as DER: for clients of another make.
    pub fn authorities(&self) -> &[Vec<u8>] {
        &self.authorities
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

impl Transport for Trust {
    fn secure(&self, socket: TcpStream, server: &str, within: Duration) -> io::Result<Secured> {
        let config = match &self.config {
            Config::Fixed(config) => config.clone(),
            Config::Showing(showing) => showing.now(),
            Config::OfNode(directory) => directory.loaded().dials.clone(),
        };
        let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let name = ServerName::try_from(host.clone());
        let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        socket.set_nonblocking(true)?;
        let (told, tells) = mpsc::sync_channel(1);
        // Whoever calls may be on a thread that must not wait on a runtime.
        runtime::handle()?.spawn(async move {
            let _ = told.send(shake(config, name, socket, within).await);
        });
        let shaken = tells.recv().map_err(|_| io::Error::other("TLS ended"))?;
        shaken.map_err(|error| explained(error, &host))
    }
}

async fn shake(
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    socket: TcpStream,
    within: Duration,
) -> io::Result<Secured> {
    let socket = tokio::net::TcpStream::from_std(socket)?;
    let outer = timeout(within, handshake::connect(config, name, socket)).await??;
    let ((near, word), (far, ends)) = pair::new()?;
    tokio::spawn(pump::run(outer, far, ends));
    let socket = UnixStream::from(near);
    // As the socket that was given: its caller sets what it needs.
    socket.set_nonblocking(false)?;
    Ok(Secured {
        socket,
        far: Box::new(word),
    })
}

/// What went wrong, with the remedy.
fn explained(error: io::Error, host: &str) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let why = match inner {
        Some(rustls::Error::InvalidMessage(_)) => {
            "it does not speak TLS: leave --ca out if plain text is meant, or start it with --tls"
                .to_owned()
        }
        Some(rustls::Error::InvalidCertificate(wrong)) => match wrong {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is not of an authority in --ca: is that the file of this cluster?"
                    .to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!(
                    "its certificate does not name {host}: dial a name that it has (`logberg certs show`)"
                )
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired: renew it".to_owned()
            }
            other => format!("its certificate is refused: {other}"),
        },
        Some(rustls::Error::AlertReceived(alert)) => match reason(*alert) {
            Some(reason) => reason.to_owned(),
            None => return error,
        },
        _ => return error,
    };
    io::Error::new(io::ErrorKind::InvalidData, why)
}
