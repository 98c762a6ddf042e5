//! The bytes between a TLS connection and one end of a pair.
//!
//! ```text
//!   other side ══ TLS ══► inward ─▶ pair      an end of the TLS stream is an end of the pair's; one that is missing is a reset
//!              ◄═ TLS ══ outward ◄─ pair      an end of the pair's is one of the TLS stream; a reset is a reset
//! ```

mod inward;
mod outward;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::handshake::Shaken;
use crate::incoming::Incoming;
use crate::outgoing::Outgoing;
use crate::pair::Ends;
use inward::Inward;
use outward::Outward;

/// Read of a pair at once, until more is there.
const ROOM_BYTES_MIN: usize = 4 << 10;
/// The time that the other side has to end once nobody has the near end any more: a reset would overtake what it was sent last.
const LINGER: Duration = Duration::from_secs(1);
/// The last word of a connection that broke is there by then, or will not come.
const LAST_WORD: Duration = Duration::from_millis(100);
/// Whoever waits for pumps looks so often.
const LOOK: Duration = Duration::from_millis(5);

/// How one way came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Whoever sent said that this is all.
    Whole,
    /// The TLS connection broke, or ended without a word.
    Broke,
    /// The near end was closed by a reset, or with bytes that nobody read.
    Reset,
    /// Nobody reads the near end any more.
    Unread,
}

/// The pumps that run.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Counts itself.
struct Running;

impl Running {
    fn begin() -> Running {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits until what was written to near ends that are closed by now has been sent, but no longer than that: a process
/// that ends at once takes it along.
pub fn settle(within: Duration) {
    let until = Instant::now() + within;
    while RUNNING.load(Ordering::Relaxed) > 0 && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
}

/// Moves bytes both ways until both have ended.
pub async fn run(outer: Shaken, mut inner: UnixStream, ends: Arc<Ends>) {
    let _running = Running::begin();
    let Shaken {
        mut socket,
        unread,
        sends,
        receives,
        keys,
        shown: _,
    } = outer;
    let keys = Arc::new(keys);
    let how = {
        // Halves that are owned would shut their sockets down one after the other, and a reset would be none.
        let (from_outer, to_outer) = socket.split();
        let (from_inner, to_inner) = inner.split();
        let outward = Outward {
            from: from_inner,
            to: to_outer,
            records: Outgoing::new(sends, keys.clone()),
            ends: &ends,
            room: ROOM_BYTES_MIN,
        };
        let inward = Inward {
            from: from_outer,
            to: to_inner,
            records: Incoming::new(receives, keys, &unread),
            ends: &ends,
            is_read: true,
        };
        end_of(outward, inward, &ends).await
    };
    if how == Ended::Reset {
        let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
    }
}

async fn end_of(outward: Outward<'_>, inward: Inward<'_>, ends: &Ends) -> Ended {
    let (outward, inward) = (outward.run(), inward.run());
    tokio::pin!(outward, inward);
    tokio::select! {
        how = &mut outward => match how {
            Ended::Whole => {}
            Ended::Broke => {
                // ‡ Its last word may be there, and says why nothing more is taken.
                let _ = timeout(LAST_WORD, inward).await;
                return Ended::Broke;
            }
            how => return how,
        },
        how = &mut inward => return match how {
            Ended::Whole => outward.await,
            how => how,
        },
    }
    // All is sent. The other side may go on, for as long as somebody reads it.
    tokio::select! {
        how = &mut inward => return how,
        () = ends.near_has_left() => {}
    }
    timeout(LINGER, inward).await.unwrap_or(Ended::Unread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{configs, configs_of_an_expired_client};
    use crate::{handshake, pair, runtime};
    use linux::FarEnd;
    use rustls::pki_types::ServerName;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream as Near;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsConnector;

    type Client = tokio_rustls::client::TlsStream<TcpStream>;

    /// A near end with a pump behind it, and the other side of its connection.
    async fn pumped() -> (Near, pair::Near, Client) {
        let (server, client) = configs();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let accepting = tokio::spawn(async move {
            let (socket, _) = listener.accept().await.expect("a client");
            let outer = handshake::accept(server, socket).await;
            let ((near, word), (far, ends)) = pair::new().expect("a pair");
            tokio::spawn(run(outer.expect("a handshake"), far, ends));
            (near, word)
        });
        let socket = TcpStream::connect(address).await.expect("it listens");
        let name = ServerName::IpAddress(address.ip().into());
        let client = TlsConnector::from(client).connect(name, socket).await;
        let (near, word) = accepting.await.expect("it ran");
        let near = Near::from(near);
        near.set_nonblocking(false).expect("a socket");
        (near, word, client.expect("a handshake"))
    }

    /// What the near end reads until its end.
    async fn read_all(mut near: Near) -> (Near, Vec<u8>) {
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = Vec::new();
            let _ = near.read_to_end(&mut bytes);
            (near, bytes)
        });
        read.await.expect("it ran")
    }

    fn block_on(test: impl Future<Output = ()>) {
        runtime::handle().expect("threads").block_on(test);
    }

    #[test]
    fn a_stream_that_ends_with_a_word_has_ended_and_its_near_end_may_still_speak() {
        block_on(async {
            let (near, word, mut client) = pumped().await;
            client.write_all(b"all of it").await.expect("sent");
            client.shutdown().await.expect("sent");
            let (mut near, bytes) = read_all(near).await;
            assert_eq!(bytes, b"all of it");
            assert!(!word.is_broken());
            near.write_all(b"an answer").expect("room");
            drop((near, word));
            let mut answer = Vec::new();
            client
                .read_to_end(&mut answer)
                .await
                .expect("a whole answer");
            assert_eq!(answer, b"an answer");
        });
    }

    #[test]
    fn a_stream_that_ends_without_a_word_is_broken() {
        block_on(async {
            let (near, word, mut client) = pumped().await;
            client.write_all(b"a part").await.expect("sent");
            client.flush().await.expect("sent");
            let (socket, _) = client.into_inner();
            drop(socket);
            let (_near, bytes) = read_all(near).await;
            assert_eq!(bytes, b"a part");
            assert!(word.is_broken());
        });
    }

    #[test]
    fn a_stream_whose_pump_is_gone_is_broken() {
        block_on(async {
            let ((near, word), (far, ends)) = pair::new().expect("a pair");
            let near = Near::from(near);
            near.set_nonblocking(false).expect("a socket");
            // What a panic leaves behind.
            drop((far, ends));
            let (_near, bytes) = read_all(near).await;
            assert!(bytes.is_empty() && word.is_broken());
        });
    }

    /// By TLS 1.3 a client hears that its certificate is refused when it thinks that all is done.
    #[test]
    fn a_stream_that_the_other_side_refuses_says_why() {
        block_on(async {
            let (server, client) = configs_of_an_expired_client();
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("bound");
            let accepting = tokio::spawn(async move {
                let (socket, _) = listener.accept().await.expect("a client");
                handshake::accept(server, socket).await.is_err()
            });
            let socket = TcpStream::connect(address).await.expect("it listens");
            let name = ServerName::IpAddress(address.ip().into());
            let outer = handshake::connect(client, name, socket).await;
            let ((near, word), (far, ends)) = pair::new().expect("a pair");
            tokio::spawn(run(outer.expect("a handshake"), far, ends));
            let mut near = Near::from(near);
            near.set_nonblocking(false).expect("a socket");
            let _ = near.write_all(b"a request");
            let (_near, bytes) = read_all(near).await;
            assert!(bytes.is_empty() && word.is_broken());
            let reason = client::FarEnd::reason(&word);
            assert!(
                reason.is_some_and(|why| why.contains("expired")),
                "{reason:?}"
            );
            assert!(accepting.await.expect("it ran"), "it is refused");
        });
    }

    #[test]
    fn a_near_end_that_is_reset_is_no_end_to_the_other_side() {
        block_on(async {
            let (near, word, mut client) = pumped().await;
            word.reset();
            drop((near, word));
            let mut bytes = Vec::new();
            assert!(client.read_to_end(&mut bytes).await.is_err());
        });
    }

    #[test]
    fn what_nobody_reads_any_more_is_thrown_away_and_what_was_sent_arrives() {
        block_on(async {
            let (mut near, word, mut client) = pumped().await;
            near.write_all(&[7; 300_000]).expect("room");
            drop((near, word));
            let sent = client.write_all(&[1; 100_000]).await;
            let mut bytes = Vec::new();
            client
                .read_to_end(&mut bytes)
                .await
                .expect("a whole answer");
            assert_eq!((sent.is_ok(), bytes.len()), (true, 300_000));
        });
    }

    #[test]
    fn keys_are_renewed_when_the_other_side_asks_and_when_they_are_old() {
        block_on(async {
            let (near, word, mut client) = pumped().await;
            let echo = tokio::task::spawn_blocking(move || {
                let mut near = near;
                let mut buffer = [0; 4];
                while near.read_exact(&mut buffer).is_ok() {
                    near.write_all(&buffer).expect("room");
                }
                drop((near, word));
            });
            // More records than one key seals here, and of the client's keys one for every ten.
            for number in 0..300_u32 {
                if number % 10 == 0 {
                    let (_, session) = client.get_mut();
                    session.refresh_traffic_keys().expect("TLS 1.3");
                }
                client.write_all(&number.to_be_bytes()).await.expect("sent");
                client.flush().await.expect("sent");
                assert_eq!(client.read_u32().await.expect("an answer"), number);
            }
            client.shutdown().await.expect("sent");
            echo.await.expect("it ran");
        });
    }

    #[test]
    fn a_record_that_nobody_sealed_breaks_the_stream() {
        block_on(async {
            let (near, word, mut client) = pumped().await;
            client.write_all(b"a part").await.expect("sent");
            client.flush().await.expect("sent");
            let (mut socket, _) = client.into_inner();
            let mut forged = vec![23, 3, 3, 0, 40];
            forged.extend([7; 40]);
            socket.write_all(&forged).await.expect("sent");
            let (_near, bytes) = read_all(near).await;
            assert_eq!(bytes, b"a part");
            assert!(word.is_broken());
        });
    }

    #[test]
    fn bytes_go_through_both_ways_at_once() {
        block_on(async {
            let (near, word, client) = pumped().await;
            let echo = tokio::task::spawn_blocking(move || {
                let mut near = near;
                let mut buffer = vec![0; 50_000];
                loop {
                    match near.read(&mut buffer) {
                        Ok(0) | Err(_) => break drop((near, word)),
                        Ok(count) => near.write_all(&buffer[..count]).expect("room"),
                    }
                }
            });
            let (mut from, mut to) = split(client);
            let sent: Vec<u8> = (0..3_000_000_u32).map(|i| (i / 7) as u8).collect();
            let copy = sent.clone();
            let writing = tokio::spawn(async move {
                to.write_all(&copy).await.expect("sent");
                to.shutdown().await.expect("sent");
                to
            });
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).await.expect("a whole answer");
            assert!(bytes == sent);
            writing.await.expect("it ran");
            echo.await.expect("it ran");
        });
    }
}
