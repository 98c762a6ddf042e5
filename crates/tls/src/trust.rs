//! Connections of a client: to servers whose certificate an authority that it believes gave to the name that it dials.

use std::fmt;
use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use client::{Secured, Transport};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::directory::{Directory, certificates, read, roots};
use crate::error::TlsError;
use crate::{pair, pump, runtime};

/// Whom a client believes.
pub struct Trust {
    config: Config,
    authorities: Vec<Vec<u8>>,
}

enum Config {
    Fixed(Arc<ClientConfig>),
    /// A node's own clients: nodes alone, and by its certificate of this moment.
    OfNode(Arc<Directory>),
}

impl Trust {
    /// Believes the authorities in that file.
    pub fn read(path: &Path) -> Result<Trust, TlsError> {
        let bytes = read(path)?;
        let authorities = certificates(path, &bytes)?;
        let roots = roots(path, &bytes)?;
        let versions = &[&rustls::version::TLS13];
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(versions)
            .map_err(|error| TlsError::Unusable {
                path: path.to_owned(),
                why: error.to_string(),
            })?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Trust {
            config: Config::Fixed(Arc::new(config)),
            authorities: authorities.iter().map(|one| one.to_vec()).collect(),
        })
    }

    /// Believes nodes, as that node does, and shows its certificate.
    pub fn of_node(directory: Arc<Directory>) -> Trust {
        Trust {
            config: Config::OfNode(directory),
            authorities: Vec::new(),
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
    let connector = TlsConnector::from(config);
    let outer = timeout(within, connector.connect(name, socket)).await??;
    let ((near, word), (far, ends)) = pair::new()?;
    tokio::spawn(pump::run(outer.into(), far, ends));
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
        _ => return error,
    };
    io::Error::new(io::ErrorKind::InvalidData, why)
}
