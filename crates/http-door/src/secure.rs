//! Connections by TLS: told from those in plain text by their first byte.

use std::io;
use std::sync::Arc;

use ops::ClientCertificate;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::bounds::Bounds;

/// The first byte of a handshake.
const HANDSHAKE_RECORD: u8 = 0x16;
/// The protocol that both ends chose.
const H2: &[u8] = b"h2";
const PLAIN_REFUSED: &[u8] = b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: TLS/1.3\r\nConnection: Upgrade, close\r\n\
Content-Type: application/json\r\nContent-Length: 97\r\n\r\n\
{\"error\":{\"code\":\"tls-required\",\"message\":\"this door speaks TLS alone\",\"remedy\":\"say https://\"}}\n";

/// Reads a certificate, as DER.
pub type Reads = Arc<dyn Fn(&[u8]) -> Option<ClientCertificate> + Send + Sync>;

/// How a door speaks TLS.
#[derive(Clone)]
pub struct Tls {
    /// Nothing is answered in plain text.
    pub is_required: bool,
    /// By the certificate of this moment.
    pub acceptor: Arc<dyn Fn() -> TlsAcceptor + Send + Sync>,
    /// Called when somebody came in plain text, and was let in.
    pub on_plain: Arc<dyn Fn() + Send + Sync>,
    /// The client's certificate that these bytes are, if they are one.
    pub reads: Reads,
}

/// A connection, as it turned out.
pub enum Came {
    Plain(TcpStream),
    Secured(Box<Secured>),
}

/// A connection by TLS.
pub struct Secured {
    pub stream: TlsStream<TcpStream>,
    /// Both ends chose HTTP/2.
    pub is_h2: bool,
    /// The certificate of a client that it showed.
    pub client: Option<ClientCertificate>,
}

impl Tls {
    /// `None`: there is nothing to serve.
    pub async fn greet(&self, stream: TcpStream, bounds: &Bounds) -> io::Result<Option<Came>> {
        let mut first = [0];
        let count = timeout(bounds.head_within, stream.peek(&mut first)).await??;
        if count == 0 {
            return Ok(None);
        }
        if first[0] == HANDSHAKE_RECORD {
            let acceptor = (self.acceptor)();
            let stream = timeout(bounds.head_within, acceptor.accept(stream)).await??;
            let is_h2 = stream.get_ref().1.alpn_protocol() == Some(H2);
            let shown = stream.get_ref().1.peer_certificates();
            let client = shown.and_then(|chain| (self.reads)(chain.first()?));
            let secured = Secured {
                stream,
                is_h2,
                client,
            };
            return Ok(Some(Came::Secured(Box::new(secured))));
        }
        if !self.is_required {
            (self.on_plain)();
            return Ok(Some(Came::Plain(stream)));
        }
        timeout(bounds.head_within, refuse(stream)).await??;
        Ok(None)
    }
}

async fn refuse(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(PLAIN_REFUSED).await?;
    stream.shutdown().await?;
    // Closed with bytes unread, a socket resets, and the words are lost.
    let mut unread = [0; 4096];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Body;
    use crate::fault::Fault;

    #[test]
    fn the_refusal_of_plain_text_has_the_length_that_it_says_and_the_words_of_other_faults() {
        let text = std::str::from_utf8(PLAIN_REFUSED).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(
            head.contains(&format!("Content-Length: {}", body.len())),
            "{}",
            body.len()
        );
        let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
        let fault = Fault::new(
            426,
            "tls-required",
            "this door speaks TLS alone",
            "say https://",
        );
        let Body::Whole(bytes) = fault.into_response().into_body() else {
            panic!("a fault is whole");
        };
        let as_others: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(body, as_others);
    }
}
