//! Handshakes of `rustls`, which leave behind the socket, the keys, and what came after the handshake.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{
    ClientConfig, CommonState, ConnectionTrafficSecrets, Error, ExtractedSecrets, ServerConfig,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::keys::Keys;
use crate::record::{self, RECORD_BYTES_MAX, Way};

/// No handshake is longer: chains of certificates are a few KiB.
const HANDSHAKE_BYTES_MAX: usize = 256 << 10;

/// The first bytes of records.
const RECORDS: RangeInclusive<u8> = 20..=23;

/// A connection whose handshake is done.
pub struct Shaken {
    pub socket: TcpStream,
    /// Bytes that came behind the handshake, sealed still.
    pub unread: Vec<u8>,
    pub sends: Way,
    pub receives: Way,
    pub keys: Keys,
    /// The other side's certificates, its own first.
    pub shown: Option<Vec<CertificateDer<'static>>>,
}

/// Shakes hands with who came.
pub async fn accept(config: Arc<ServerConfig>, socket: TcpStream) -> io::Result<Shaken> {
    let side = UnbufferedServerConnection::new(config).map_err(refused)?;
    shake(side, socket).await
}

/// Shakes hands with a server of that name.
pub async fn connect(
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    socket: TcpStream,
) -> io::Result<Shaken> {
    let side = UnbufferedClientConnection::new(config, name).map_err(refused)?;
    shake(side, socket).await
}

/// As `tokio-rustls` says it: whoever asks why finds the cause in it.
pub fn refused(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// One of both sides, which `rustls` has as two types.
trait Side: Send {
    type Data: Send + 'static;
    fn process<'c, 'i>(&'c mut self, bytes: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
    fn state(&self) -> &CommonState;
    fn finish(self) -> Result<(ExtractedSecrets, KernelConnection<Self::Data>), Error>;
}

macro_rules! side {
    ($side:ty, $data:ty) => {
        impl Side for $side {
            type Data = $data;

            fn process<'c, 'i>(
                &'c mut self,
                bytes: &'i mut [u8],
            ) -> UnbufferedStatus<'c, 'i, $data> {
                self.process_tls_records(bytes)
            }

            fn state(&self) -> &CommonState {
                self
            }

            fn finish(self) -> Result<(ExtractedSecrets, KernelConnection<$data>), Error> {
                self.dangerous_into_kernel_connection()
            }
        }
    };
}

side!(UnbufferedServerConnection, ServerConnectionData);
side!(UnbufferedClientConnection, ClientConnectionData);

/// The bytes of a handshake.
struct Shaking {
    socket: TcpStream,
    came: Vec<u8>,
    /// ‡ So much of it is shown to `rustls`: a record more each time that it waits. What comes behind the handshake is never
    /// shown, and so neither opened nor counted there.
    shown: usize,
    to_send: Vec<u8>,
}

/// The outcome of a look at a handshake.
enum Next {
    Again,
    Send,
    Receive,
    Done,
}

async fn shake<S: Side>(mut side: S, socket: TcpStream) -> io::Result<Shaken> {
    let mut shaking = Shaking {
        socket,
        came: Vec::new(),
        shown: 0,
        to_send: Vec::new(),
    };
    loop {
        match shaking.look(&mut side) {
            Ok(Next::Again) => {}
            Ok(Next::Send) => shaking.send().await?,
            Ok(Next::Receive) => shaking.receive().await?,
            Ok(Next::Done) => break,
            Err(error) => {
                // The other side is told why, if it still listens.
                let _ = shaking.look(&mut side);
                let _ = shaking.send().await;
                return Err(error);
            }
        }
    }
    let certificates = side.state().peer_certificates();
    let shown =
        certificates.map(|chain| chain.iter().map(|one| one.clone().into_owned()).collect());
    let (secrets, keys) = side.finish().map_err(refused)?;
    let of = |(next, secrets): (u64, ConnectionTrafficSecrets)| Way::new(next, &secrets);
    Ok(Shaken {
        socket: shaking.socket,
        unread: shaking.came,
        sends: of(secrets.tx)?,
        receives: of(secrets.rx)?,
        keys: Keys::new(keys),
        shown,
    })
}

impl Shaking {
    fn look<S: Side>(&mut self, side: &mut S) -> io::Result<Next> {
        let UnbufferedStatus { discard, state } = side.process(&mut self.came[..self.shown]);
        let next = match state.map_err(refused) {
            Ok(ConnectionState::EncodeTlsData(mut record)) => {
                encode(&mut self.to_send, |room| record.encode(room))?;
                Ok(Next::Again)
            }
            Ok(ConnectionState::TransmitTlsData(record)) => {
                record.done();
                Ok(Next::Send)
            }
            Ok(ConnectionState::BlockedHandshake) => Ok(Next::Receive),
            // A server may write before it knows who the client is.
            Ok(ConnectionState::WriteTraffic(_)) => Ok(Next::Done),
            Ok(_) => Err(record::wrong("data came before the handshake was done")),
            Err(error) => Err(error),
        };
        self.came.drain(..discard);
        self.shown -= discard;
        match next? {
            Next::Done if side.state().is_handshaking() => Ok(Next::Receive),
            next => Ok(next),
        }
    }

    async fn send(&mut self) -> io::Result<()> {
        self.socket.write_all(&self.to_send).await?;
        self.to_send.clear();
        Ok(())
    }

    /// Shows one record more, which may have to come first.
    async fn receive(&mut self) -> io::Result<()> {
        loop {
            let hidden = &self.came[self.shown..];
            let is_record = hidden.first().is_none_or(|first| RECORDS.contains(first));
            match record::length(hidden).and_then(|length| match is_record {
                true => Ok(length),
                false => Err(record::wrong("plain text")),
            }) {
                Ok(Some(length)) if length <= hidden.len() => {
                    self.shown += length;
                    return Ok(());
                }
                // It is no record, and `rustls` says so better.
                Err(_) => {
                    self.shown = self.came.len();
                    return Ok(());
                }
                Ok(_) => {}
            }
            if self.came.len() > HANDSHAKE_BYTES_MAX {
                return Err(record::wrong("a handshake that is too long"));
            }
            self.came.reserve(RECORD_BYTES_MAX);
            if self.socket.read_buf(&mut self.came).await? == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "tls handshake eof",
                ));
            }
        }
    }
}

/// Calls with as much room as is needed.
fn encode(
    to: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> io::Result<()> {
    let needs = match write(&mut []) {
        Ok(_) => return Ok(()),
        Err(EncodeError::InsufficientSize(needs)) => needs.required_size,
        Err(error) => return Err(io::Error::other(error)),
    };
    let from = to.len();
    to.resize(from + needs, 0);
    let written = write(&mut to[from..]).map_err(io::Error::other)?;
    to.truncate(from + written);
    Ok(())
}
