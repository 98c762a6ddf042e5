//! Connections that wait, and the buffers that nobody holds for them meanwhile.

mod harness;

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use harness::{Harness, pattern};
use ops::{BLOCK, Buffer, Completion, ConnId, LENT_BYTES_MAX, Op};

const CONNECTIONS: usize = 2000;
/// More than is lent at once.
const MUCH: usize = 5 * LENT_BYTES_MAX;

/// The answer to a receive without a buffer.
struct Lent {
    conn: ConnId,
    buffer: Buffer,
    bytes: Vec<u8>,
    end: bool,
}

impl Harness {
    fn lent(&mut self) -> Lent {
        self.wait_for(
            |c| matches!(c, Completion::Received { .. }),
            |c| match c {
                Completion::Received {
                    conn,
                    buffer,
                    range,
                    result,
                } => {
                    let received = result.unwrap();
                    assert_eq!(range, 0..received.count);
                    Lent {
                        conn,
                        bytes: buffer[range].to_vec(),
                        buffer,
                        end: received.end,
                    }
                }
                other => panic!("{other:?}"),
            },
        )
    }

    /// A client outside of the kernel, and its connection.
    fn client(&mut self) -> (TcpStream, ConnId) {
        let address = self.kernel.local_addr().unwrap_or_else(|| self.listen());
        let client = TcpStream::connect(address).unwrap();
        client.set_nodelay(true).unwrap();
        (client, self.accepted())
    }
}

fn first_words(of: ConnId) -> Vec<u8> {
    pattern(of.0, 10 + of.0 as usize % 90)
}

#[test]
fn two_thousand_idle_connections_hold_no_buffers_and_each_gets_its_bytes() {
    linux::raise_file_limit().unwrap();
    let mut h = Harness::new();
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let (client, conn) = h.client();
        h.start_receive_when_there(conn, LENT_BYTES_MAX);
        clients.push((client, conn));
    }
    for bytes_max in [LENT_BYTES_MAX, BLOCK, 100] {
        h.idle(50);
        assert!(h.rest().is_empty(), "nothing is there");
        assert_eq!(h.kernel.lent_buffers(), 0, "and nothing is lent for it");
        for (client, conn) in &mut clients {
            client.write_all(&first_words(*conn)).unwrap();
        }
        // Nobody waits for another's buffer: all of them may be lent at a time.
        let mut held = Vec::new();
        let mut heard = Vec::new();
        while held.len() < CONNECTIONS {
            let lent = h.lent();
            assert!(lent.bytes == first_words(lent.conn), "{:?}", lent.conn);
            assert!(!lent.end);
            heard.push(lent.conn);
            held.push(lent.buffer);
        }
        heard.sort();
        heard.dedup();
        assert_eq!(heard.len(), CONNECTIONS, "each once");
        assert_eq!(h.kernel.lent_buffers(), CONNECTIONS);
        drop(held);
        assert_eq!(h.kernel.lent_buffers(), 0);
        for conn in heard {
            h.start_receive_when_there(conn, bytes_max);
        }
    }
    h.idle(50);
    assert_eq!(h.kernel.lent_buffers(), 0);
    // Half of them end, and half are closed here.
    for (at, (client, conn)) in clients.into_iter().enumerate() {
        match at % 2 {
            0 => drop(client),
            _ => h.kernel.submit(Op::Close { conn, flush: false }),
        }
        let (bytes, result) = h.received(conn);
        assert!(bytes.is_empty());
        match (at % 2, result) {
            (0, Ok(received)) => assert!(received.end),
            (1, Err(error)) => assert_eq!(error.kind(), ErrorKind::ConnectionAborted),
            (_, other) => panic!("{other:?}"),
        }
    }
    assert_eq!(h.kernel.lent_buffers(), 0);
}

#[test]
fn a_lent_buffer_is_no_larger_than_what_was_asked_for_needs() {
    let mut h = Harness::new();
    let (mut client, conn) = h.client();
    client.write_all(&pattern(1, 2 * BLOCK)).unwrap();
    for (bytes_max, length) in [(1, BLOCK), (BLOCK, BLOCK), (BLOCK + 1, LENT_BYTES_MAX)] {
        h.start_receive_when_there(conn, bytes_max);
        let lent = h.lent();
        assert_eq!(lent.buffer.len(), length);
        assert!((1..=bytes_max).contains(&lent.bytes.len()));
    }
}

#[test]
fn what_is_more_than_is_lent_at_once_comes_in_pieces() {
    let mut h = Harness::new();
    let (client, conn) = h.client();
    let bytes = pattern(7, MUCH);
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || {
        let mut client = client;
        client.write_all(&sent).unwrap();
    });
    let mut seen = Vec::new();
    let give_up = Instant::now() + Duration::from_secs(60);
    loop {
        h.start_receive_when_there(conn, usize::MAX);
        let lent = h.lent();
        assert!(lent.bytes.len() <= LENT_BYTES_MAX);
        seen.extend_from_slice(&lent.bytes);
        if lent.end {
            break;
        }
        assert!(Instant::now() < give_up);
    }
    writer.join().unwrap();
    assert!(seen == bytes);
}

#[test]
fn a_lent_buffer_outlives_its_connection_and_its_kernel() {
    let mut h = Harness::new();
    let (mut client, conn) = h.client();
    client.write_all(b"kept").unwrap();
    h.start_receive_when_there(conn, 100);
    let lent = h.lent();
    h.kernel.submit(Op::Close { conn, flush: false });
    drop(h);
    let slice = lent.buffer.freeze().slice(0..4);
    assert_eq!(&*slice, b"kept");
}

#[test]
fn to_receive_nothing_is_refused() {
    let mut h = Harness::new();
    let (_client, conn) = h.client();
    h.start_receive_when_there(conn, 0);
    let (_, result) = h.received(conn);
    assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
}
