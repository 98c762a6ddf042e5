//! A connection whose records are opened and sealed by the thread that moves its bytes, without a pump.
//!
//! ```text
//!   other side ══ TLS ══ socket ◄─▶ [`InPlace`] ◄─▶ kernel      a call where the cipher is cheaper than a way over another thread
//! ```

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use linux::Seal;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use tokio::net::TcpStream;

use crate::handshake::Shaken;
use crate::incoming::{Incoming, Opened};
use crate::outgoing::Outgoing;

/// ‡ Records that are opened in one call: others wait for the same thread, and a record may have one byte.
const RECORDS_MAX: u64 = 1_024;

/// The records of one connection.
pub struct InPlace {
    incoming: Incoming,
    /// How the other side ended, if it did.
    ended: Option<Ended>,
    outgoing: Outgoing,
    /// Bytes that are sealed and not sent.
    unsent: Range<usize>,
    /// Behind it the socket ends.
    is_last: bool,
    /// Dropped with the connection.
    _held: Box<dyn Send>,
}

#[derive(Clone, Copy, Debug)]
enum Ended {
    Whole,
    Broke,
}

/// A socket and its seal, to be handed to a kernel. `held`: for as long as the connection lives.
pub fn new(shaken: Shaken, held: impl Send + 'static) -> io::Result<(OwnedFd, Box<dyn Seal>)> {
    let Shaken {
        socket,
        unread,
        sends,
        receives,
        keys,
        shown: _,
    } = shaken;
    let keys = Arc::new(keys);
    let seal = InPlace {
        incoming: Incoming::new(receives, keys.clone(), &unread),
        ended: None,
        outgoing: Outgoing::new(sends, keys),
        unsent: 0..0,
        is_last: false,
        _held: Box::new(held),
    };
    Ok((TcpStream::into_std(socket)?.into(), Box::new(seal)))
}

impl Seal for InPlace {
    fn receive(&mut self, socket: &OwnedFd, into: &mut [u8]) -> Result<usize, Errno> {
        let mut taken = 0;
        let until = self.incoming.opened() + RECORDS_MAX;
        // As much as there is: what is received at once is written, and agreed on, at once.
        loop {
            taken += self.incoming.take(&mut into[taken..]);
            let more = match self.ended {
                _ if taken == into.len() => return Ok(taken),
                // There is some: no more than a few in a row are without text.
                _ if taken > 0 && self.incoming.opened() >= until => return Ok(taken),
                Some(Ended::Whole) => return Ok(taken),
                Some(Ended::Broke) => Err(Errno::CONNRESET),
                None => self.open(socket),
            };
            match more {
                Ok(()) => {}
                Err(_) if taken > 0 => return Ok(taken),
                Err(errno) => return Err(errno),
            }
        }
    }

    fn seal(&mut self, bytes: &[IoSlice]) -> Result<usize, Errno> {
        let count = bytes.iter().map(|slice| slice.len()).sum();
        self.outgoing.make_places(count);
        let count = fill(self.outgoing.places(), bytes);
        self.unsent = self.outgoing.seal(count).map_err(|_| Errno::IO)?;
        Ok(count)
    }

    fn seal_end(&mut self) -> Result<(), Errno> {
        if self.is_last {
            return Ok(());
        }
        self.unsent = self.outgoing.seal_end().map_err(|_| Errno::IO)?;
        self.is_last = true;
        Ok(())
    }

    fn flush(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        let unsent = self.outgoing.sealed(self.unsent.clone());
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        self.unsent.start += send(socket, unsent, flags)?;
        if self.is_last && self.unsent.is_empty() {
            // Fails only on a connection that is gone, and then nobody waits for our end.
            let _ = shutdown(socket, Shutdown::Write);
        }
        Ok(())
    }

    fn is_flushed(&self) -> bool {
        self.unsent.is_empty()
    }
}

impl InPlace {
    /// Opens what is there, or reads if nothing is.
    fn open(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        match self.incoming.open() {
            Ok(Opened::End) => self.ended = Some(Ended::Whole),
            Ok(Opened::All | Opened::Some) if self.incoming.has_texts() => {}
            Ok(_) => self.read(socket)?,
            Err(error) => {
                tracing::debug!(%error, "a TLS connection broke");
                self.ended = Some(Ended::Broke);
            }
        }
        Ok(())
    }

    fn read(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        let (_, count) = recv(socket, self.incoming.room(), RecvFlags::DONTWAIT)?;
        self.incoming.on_read(count);
        if count == 0 {
            // ‡ Whoever cuts a connection can do so without a key: an end is one only by its own record.
            self.ended = Some(Ended::Broke);
        }
        Ok(())
    }
}

/// Fills places one after the other with these bytes. Returns how many there was room for.
fn fill<'a>(places: impl Iterator<Item = &'a mut [u8]>, bytes: &[IoSlice]) -> usize {
    let mut filled = 0;
    let (mut slices, mut rest): (_, &[u8]) = (bytes.iter(), &[]);
    for place in places {
        let mut at = 0;
        while at < place.len() {
            if rest.is_empty() {
                match slices.next() {
                    Some(slice) => rest = slice,
                    None => return filled,
                }
            }
            let step = rest.len().min(place.len() - at);
            place[at..at + step].copy_from_slice(&rest[..step]);
            rest = &rest[step..];
            at += step;
            filled += step;
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::configs;
    use crate::{handshake, runtime};
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::net::sockopt;
    use rustls::pki_types::ServerName;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsConnector;

    type Client = tokio_rustls::client::TlsStream<TcpStream>;

    /// Calls that wait, in the place of a kernel.
    struct Waits {
        socket: OwnedFd,
        seal: Box<dyn Seal>,
    }

    impl Waits {
        fn wait(&self, flags: PollFlags) {
            poll(&mut [PollFd::new(&self.socket, flags)], None).expect("a socket");
        }

        fn receive(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
            loop {
                match self.seal.receive(&self.socket, into) {
                    Err(Errno::AGAIN) => self.wait(PollFlags::IN),
                    received => return received,
                }
            }
        }

        fn flush(&mut self) -> Result<(), Errno> {
            while !self.seal.is_flushed() {
                match self.seal.flush(&self.socket) {
                    Err(Errno::AGAIN) => self.wait(PollFlags::OUT),
                    flushed => flushed?,
                }
            }
            Ok(())
        }

        /// In slices that are no records.
        fn send(&mut self, mut bytes: &[u8]) -> Result<(), Errno> {
            while !bytes.is_empty() {
                let slices: Vec<IoSlice> = bytes.chunks(10_007).map(IoSlice::new).collect();
                let count = self.seal.seal(&slices)?;
                bytes = &bytes[count..];
                self.flush()?;
            }
            Ok(())
        }

        fn end(&mut self) -> Result<(), Errno> {
            // As a machine that ends a stream, and then closes.
            self.seal.seal_end()?;
            self.seal.seal_end()?;
            self.flush()
        }
    }

    async fn connected(held: impl Send + 'static) -> (Waits, Client) {
        let (server, client) = configs();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let accepting = tokio::spawn(async move {
            let (socket, _) = listener.accept().await.expect("a client");
            // So little that nothing is sent in one call.
            sockopt::set_socket_send_buffer_size(&socket, 8 << 10).expect("a socket");
            let shaken = handshake::accept(server, socket)
                .await
                .expect("a handshake");
            let (socket, seal) = new(shaken, held).expect("a socket");
            Waits { socket, seal }
        });
        let socket = TcpStream::connect(address).await.expect("it listens");
        let name = ServerName::IpAddress(address.ip().into());
        let client = TlsConnector::from(client).connect(name, socket).await;
        (
            accepting.await.expect("it ran"),
            client.expect("a handshake"),
        )
    }

    fn block_on(test: impl Future<Output = ()>) {
        runtime::handle().expect("threads").block_on(test);
    }

    #[test]
    fn bytes_go_both_ways_and_end_by_a_last_word() {
        block_on(async {
            let (mut near, client) = connected(()).await;
            let echo = tokio::task::spawn_blocking(move || {
                let mut buffer = vec![0; 50_000];
                loop {
                    match near.receive(&mut buffer).expect("whole") {
                        0 => return near.end().expect("sent"),
                        count => near.send(&buffer[..count]).expect("sent"),
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

    #[test]
    fn a_stream_that_ends_without_a_word_is_broken_behind_all_that_came() {
        block_on(async {
            let (mut near, mut client) = connected(()).await;
            client.write_all(b"a part").await.expect("sent");
            client.flush().await.expect("sent");
            let (socket, _) = client.into_inner();
            drop(socket);
            let mut bytes = [0; 100];
            let mut count = 0;
            let broken = loop {
                match near.receive(&mut bytes[count..]) {
                    Ok(0) => panic!("it is no end"),
                    Ok(more) => count += more,
                    Err(errno) => break errno,
                }
            };
            assert_eq!(
                (&bytes[..count], broken),
                (&b"a part"[..], Errno::CONNRESET)
            );
        });
    }

    #[test]
    fn keys_are_renewed_when_the_other_side_asks_and_when_they_are_old() {
        block_on(async {
            let (mut near, mut client) = connected(()).await;
            let echo = tokio::task::spawn_blocking(move || {
                let mut buffer = [0; 4];
                while let Ok(4) = near.receive(&mut buffer) {
                    near.send(&buffer).expect("sent");
                }
            });
            for number in 0..300_u32 {
                if number % 10 == 0 {
                    let (_, session) = client.get_mut();
                    session.refresh_traffic_keys().expect("TLS 1.3");
                }
                client.write_all(&number.to_be_bytes()).await.expect("sent");
                client.flush().await.expect("sent");
                assert_eq!(client.read_u32().await.expect("an answer"), number);
            }
            drop(client);
            echo.await.expect("it ran");
        });
    }

    /// Receives until the connection ends, and says how often bytes came, how many, and how it ended.
    fn receive_all(mut near: Waits) -> (usize, usize, Result<(), Errno>) {
        let (mut calls, mut bytes) = (0, 0);
        let mut buffer = vec![0; 1 << 20];
        loop {
            match near.receive(&mut buffer) {
                Ok(0) => return (calls, bytes, Ok(())),
                Ok(count) => (calls, bytes) = (calls + 1, bytes + count),
                Err(errno) => return (calls, bytes, Err(errno)),
            }
        }
    }

    #[test]
    fn records_without_text_end_a_connection_and_tiny_ones_take_turns() {
        block_on(async {
            // Each renews a key, and says nothing.
            let (near, mut client) = connected(()).await;
            let receiving = tokio::task::spawn_blocking(move || receive_all(near));
            client.write_all(b"begin").await.expect("sent");
            for _ in 0..200 {
                let (_, session) = client.get_mut();
                session.refresh_traffic_keys().expect("TLS 1.3");
                if client.flush().await.is_err() {
                    break;
                }
            }
            let (_, bytes, ended) = receiving.await.expect("it ran");
            assert_eq!((bytes, ended), (5, Err(Errno::CONNRESET)));

            let (near, mut client) = connected(()).await;
            for _ in 0..3 * RECORDS_MAX {
                client.write_all(b"x").await.expect("sent");
            }
            client.shutdown().await.expect("sent");
            let received = tokio::task::spawn_blocking(move || receive_all(near)).await;
            let (calls, bytes, ended) = received.expect("it ran");
            assert_eq!((bytes, ended), (3 * RECORDS_MAX as usize, Ok(())));
            assert!(calls >= 3, "{calls} calls");
        });
    }

    #[test]
    fn what_is_held_goes_with_the_connection() {
        block_on(async {
            let held = Arc::new(());
            let (near, _client) = connected(held.clone()).await;
            assert_eq!(Arc::strong_count(&held), 2);
            drop(near);
            assert_eq!(Arc::strong_count(&held), 1);
        });
    }
}
