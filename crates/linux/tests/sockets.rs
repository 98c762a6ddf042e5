//! Connections through the real kernel, both ends in one thread.

mod harness;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use harness::{Harness, pattern, quiet};
use linux::KernelConfig;
use ops::{Buffer, Completion, ConnId, Op, Received, Slice};

#[test]
fn bytes_go_there_and_back() {
    let mut h = Harness::new();
    let (near, far) = h.pair();
    h.send(near, b"hello");
    let (bytes, result) = h.receive(far, 100, false);
    assert_eq!(bytes, b"hello");
    assert_eq!(
        result.unwrap(),
        Received {
            count: 5,
            end: false
        }
    );
    h.send(far, &bytes);
    assert_eq!(h.receive(near, 5, true).0, b"hello");
    h.sent(near).unwrap();
    h.sent(far).unwrap();
    assert!(h.rest().is_empty());
}

#[test]
fn a_whole_receive_waits_for_all_of_its_range() {
    let mut h = Harness::new();
    let (near, far) = h.pair();
    h.start_receive(far, 8, true);
    h.send(near, b"1234");
    h.sent(near).unwrap();
    h.idle(30);
    assert!(h.rest().is_empty(), "half is not the whole");
    h.send(near, b"5678-next");
    assert_eq!(h.received(far).0, b"12345678");
    assert_eq!(h.receive(far, 100, false).0, b"-next");
}

#[test]
fn bytes_arrive_within_the_range_only() {
    let mut h = Harness::new();
    let (near, far) = h.pair();
    h.kernel.submit(Op::Receive {
        conn: far,
        buffer: Buffer::new(4096),
        range: 100..103,
        whole: false,
    });
    h.send(near, b"abcdef");
    let buffer = h.wait_for(
        |c| matches!(c, Completion::Received { .. }),
        |c| match c {
            Completion::Received { buffer, .. } => buffer,
            other => panic!("{other:?}"),
        },
    );
    assert_eq!(&buffer[99..104], b"\0abc\0");
}

#[test]
fn the_end_of_stream_cuts_a_whole_receive_short() {
    let mut h = Harness::new();
    let (near, far) = h.pair();
    h.send(near, b"last words");
    h.kernel.submit(Op::ShutdownWrite { conn: near });
    let (bytes, result) = h.receive(far, 100, true);
    assert_eq!(bytes, b"last words");
    assert_eq!(
        result.unwrap(),
        Received {
            count: 10,
            end: true
        }
    );
    let again = h.receive(far, 100, false).1.unwrap();
    assert_eq!(
        again,
        Received {
            count: 0,
            end: true
        }
    );
    // The other direction is still open.
    h.send(far, b"answer");
    assert_eq!(h.receive(near, 6, true).0, b"answer");
}

#[test]
fn a_send_after_our_own_end_fails_and_harms_nothing_else() {
    let mut h = Harness::new();
    let (near, far) = h.pair();
    h.kernel.submit(Op::ShutdownWrite { conn: near });
    h.send(near, b"too late");
    assert_eq!(h.sent(near).unwrap_err().kind(), ErrorKind::BrokenPipe);
    h.send(far, b"answer");
    h.kernel.submit(Op::ShutdownWrite { conn: far });
    assert_eq!(h.receive(near, 6, true).0, b"answer");
    let end = h.receive(near, 1, false).1.unwrap();
    assert!(end.end, "an end of stream, and not a reset");
}

#[test]
fn a_reset_is_an_error_in_both_directions_and_never_a_signal() {
    let mut h = Harness::new();
    let address = h.listen();
    let mut peer = TcpStream::connect(address).unwrap();
    let conn = h.accepted();
    h.start_receive(conn, 100, false);
    h.send(conn, b"never read");
    h.sent(conn).unwrap();
    // Closing with unread bytes resets.
    peer.write_all(b"x").unwrap();
    assert_eq!(h.received(conn).0, b"x");
    h.idle(10);
    drop(peer);
    let mut failed = false;
    for _ in 0..100 {
        h.send(conn, &[0; 1000]);
        failed |= h.sent(conn).is_err();
        h.idle(1);
        if failed {
            break;
        }
    }
    assert!(failed, "the kernel must tell the sender");
    let error = h.receive(conn, 100, false).1.unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::ConnectionReset,
        "not an end of stream"
    );
    assert!(h.sent_fails(conn), "and it stays so");
}

#[test]
fn a_slow_reader_holds_up_its_own_connection_only() {
    let mut h = Harness::new();
    let (slow, far) = h.pair();
    let (quick, other) = h.pair();
    let payload = pattern(1, 32 << 20);
    h.send(slow, &payload);
    h.idle(50);
    assert!(
        h.rest().is_empty(),
        "more than the socket buffers hold is not sent"
    );
    h.send(quick, b"heartbeat");
    assert_eq!(h.receive(other, 9, true).0, b"heartbeat");
    h.sent(quick).unwrap();
    let (bytes, result) = h.receive(far, payload.len(), true);
    assert_eq!(result.unwrap().count, payload.len());
    assert!(bytes == payload);
    h.sent(slow).unwrap();
}

#[test]
fn sends_of_many_slices_arrive_in_order_and_complete_one_by_one() {
    let mut h = Harness::new();
    let (near, far) = h.pair();
    let payload = pattern(2, 3_000_000);
    let mut rest = &payload[..];
    let mut sends = 0;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(150_000));
        let slices = now.chunks(97).map(Slice::copied_from).collect();
        h.kernel.submit(Op::Send { conn: near, slices });
        sends += 1;
        rest = later;
    }
    h.kernel.submit(Op::Send {
        conn: near,
        slices: Vec::new(),
    });
    assert!(h.receive(far, payload.len(), true).0 == payload);
    for _ in 0..sends + 1 {
        h.sent(near).unwrap();
    }
    h.idle(5);
    assert!(h.rest().is_empty());
}

#[test]
fn a_busy_connection_leaves_turns_to_the_others() {
    let mut h = Harness::with(KernelConfig {
        round_bytes_max: 4096,
        ..quiet()
    });
    let (busy, busy_far) = h.pair();
    let (quiet, quiet_far) = h.pair();
    let payload = pattern(3, 1 << 20);
    h.send(busy, &payload);
    h.start_receive(busy_far, payload.len(), true);
    h.send(quiet, b"heartbeat");
    h.start_receive(quiet_far, 9, true);
    assert_eq!(h.received(quiet_far).0, b"heartbeat");
    assert!(
        !h.rest()
            .iter()
            .any(|c| matches!(c, Completion::Received { .. })),
        "256 rounds were not over"
    );
    assert!(h.received(busy_far).0 == payload);
}

#[test]
fn a_thousand_connections_echo() {
    linux::raise_file_limit().unwrap();
    let mut h = Harness::new();
    let address = h.listen().to_string();
    let near: Vec<ConnId> = (0..1000).map(|_| h.start_connect(&address)).collect();
    for conn in &near {
        h.connected(*conn).unwrap();
    }
    for _ in &near {
        let far = h.accepted();
        h.start_receive(far, 16, true);
    }
    for conn in &near {
        h.send(*conn, &pattern(conn.0, 16));
        h.start_receive(*conn, 16, true);
    }
    let far: Vec<ConnId> = (0..1000).map(|n| ConnId(2 * n + 1)).collect();
    for conn in far {
        let (bytes, _) = h.received(conn);
        h.send(conn, &bytes);
    }
    for conn in near {
        assert_eq!(h.received(conn).0, pattern(conn.0, 16));
    }
}

#[test]
fn a_port_in_use_is_refused_at_once() {
    let mut first = Harness::new();
    let address = first.listen().to_string();
    let mut second = Harness::new();
    let error = second.kernel.bind(&address).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    second.kernel.submit(Op::Listen {
        address: address.clone(),
    });
    second.wait_for(
        |c| matches!(c, Completion::ListenFailed { .. }),
        |c| match c {
            Completion::ListenFailed { address: a, error } => {
                assert_eq!((a, error.kind()), (address.clone(), ErrorKind::AddrInUse));
            }
            other => panic!("{other:?}"),
        },
    );
}

#[test]
fn an_address_bound_before_is_the_one_listened_at() {
    let mut h = Harness::new();
    let address = h.kernel.bind("127.0.0.1:0").unwrap();
    assert_ne!(address.port(), 0);
    // In the backlog until somebody accepts.
    let _early = TcpStream::connect(address).unwrap();
    h.kernel.submit(Op::Listen {
        address: "127.0.0.1:0".to_string(),
    });
    h.accepted();
    assert_eq!(h.kernel.local_addr(), Some(address));
}

#[test]
fn nobody_there_is_connection_refused_and_answers_what_waited() {
    let mut h = Harness::new();
    // No test listens at this address of the machine, whichever ports are given to them.
    let conn = h.start_connect("127.255.0.1:1");
    h.send(conn, b"early");
    h.start_receive(conn, 10, false);
    let error = h.connected(conn).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    assert!(h.sent(conn).is_err());
    assert!(h.received(conn).1.is_err());
}

#[test]
fn ops_given_before_the_connection_stands_are_performed() {
    let mut h = Harness::new();
    let port = h.listen().port();
    // By name, so that it is looked up; localhost may also name ::1, where nobody listens.
    let conn = h.start_connect(&format!("localhost:{port}"));
    h.send(conn, b"early");
    h.connected(conn).unwrap();
    let far = h.accepted();
    assert_eq!(h.receive(far, 5, true).0, b"early");
}

#[test]
fn a_name_without_address_fails_to_connect() {
    let mut h = Harness::new();
    let conn = h.start_connect("no-such-host.invalid:1");
    assert!(h.connected(conn).is_err());
    let conn = h.start_connect("no port at all");
    assert!(h.connected(conn).is_err());
}

#[test]
fn closing_answers_every_outstanding_op_once() {
    let mut h = Harness::new();
    let (near, far) = h.pair();
    let payload = vec![0; 32 << 20];
    h.start_receive(near, 10, false);
    h.start_receive(near, 10, true);
    h.send(near, &payload);
    h.send(near, &payload);
    h.idle(10);
    h.kernel.submit(Op::Close {
        conn: near,
        flush: false,
    });
    for _ in 0..2 {
        let error = h.received(near).1.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
        assert!(h.sent(near).is_err());
    }
    // The id means nothing from here on, but what names it is still answered.
    assert!(h.sent_fails(near));
    assert!(h.receive(near, 10, false).1.is_err());
    h.kernel.submit(Op::Close {
        conn: near,
        flush: true,
    });
    h.kernel.submit(Op::Close {
        conn: far,
        flush: false,
    });
    h.idle(10);
    assert!(h.rest().is_empty());
}

#[test]
fn a_connection_attempt_that_is_closed_is_answered() {
    let mut h = Harness::new();
    let address = h.listen().to_string();
    let conn = h.start_connect(&address);
    h.kernel.submit(Op::Close { conn, flush: true });
    assert!(h.connected(conn).is_err());
}

#[test]
fn closing_with_flush_sends_everything_first() {
    let mut h = Harness::new();
    let (near, far) = h.pair();
    let payload = pattern(4, 16 << 20);
    h.send(near, &payload);
    h.start_receive(near, 1, false);
    h.kernel.submit(Op::Close {
        conn: near,
        flush: true,
    });
    assert!(h.received(near).1.is_err(), "receives end at once");
    let (bytes, result) = h.receive(far, payload.len() + 1, true);
    assert!(bytes == payload);
    assert!(result.unwrap().end);
    h.sent(near).unwrap();
}

/// A refusal must reach a client that is still sending: closing a socket with unread bytes resets
/// the connection, and the reset would overtake the refusal.
#[test]
fn the_last_words_reach_a_peer_that_never_stopped_talking() {
    let mut h = Harness::new();
    let address = h.listen();
    let client = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(&vec![0; 8 << 20]);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    });
    let conn = h.accepted();
    h.receive(conn, 10, true).1.unwrap();
    h.send(conn, b"error no-such-log\n");
    h.kernel.submit(Op::Close { conn, flush: true });
    while !client.is_finished() {
        h.round(5);
    }
    assert_eq!(client.join().unwrap().unwrap(), "error no-such-log\n");
}

#[test]
fn a_closed_connection_does_not_wait_for_its_peer_for_long() {
    let mut h = Harness::new();
    let address = h.listen();
    let mut peer = TcpStream::connect(address).unwrap();
    let conn = h.accepted();
    h.kernel.submit(Op::Close { conn, flush: true });
    h.idle(1100);
    // The socket is gone: what we send now is answered by a reset.
    peer.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0);
    let started = Instant::now();
    while peer.write_all(b"anybody?").is_ok() {
        assert!(started.elapsed() < Duration::from_secs(30));
        h.round(5);
    }
}

impl Harness {
    fn sent_fails(&mut self, conn: ConnId) -> bool {
        self.send(conn, b"more");
        self.sent(conn).is_err()
    }
}

#[test]
fn single_bytes_that_nobody_receives_wake_nobody() {
    const BYTES: usize = 100;
    let mut h = Harness::new();
    let address = h.listen();
    let mut outside = TcpStream::connect(address).unwrap();
    outside.set_nodelay(true).unwrap();
    let inside = h.accepted();
    let bytes = pattern(3, 3 * BYTES);
    for bytes in bytes.chunks(BYTES) {
        let mut woken = 0;
        for byte in bytes {
            outside.write_all(&[*byte]).unwrap();
            let began = Instant::now();
            h.round(3);
            woken += u32::from(began.elapsed() < Duration::from_millis(3));
        }
        assert!(woken < 10, "woken {woken} times by bytes that wait");
        // All of them are there for who asks, and whatever comes while he waits.
        assert!(h.receive(inside, BYTES, true).0 == bytes);
        h.start_receive(inside, 1, false);
        h.idle(5);
        outside.write_all(b"!").unwrap();
        assert_eq!(h.received(inside).0, b"!");
    }
    drop(outside);
    let end = h.receive(inside, 1, false);
    assert_eq!(
        end.1.unwrap(),
        Received {
            count: 0,
            end: true
        }
    );
}

/// Who sends all there is, says that this was the end, and goes away without reading the answers.
#[test]
fn a_reset_right_behind_the_other_sides_end_takes_nothing_from_it() {
    let mut h = Harness::new();
    let address = h.listen();
    let mut client = TcpStream::connect(address).unwrap();
    let conn = h.accepted();
    client.write_all(b"all of it").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    h.idle(50);
    let (bytes, result) = h.receive(conn, 9, true);
    assert_eq!(
        (bytes.as_slice(), result.unwrap().count),
        (&b"all of it"[..], 9)
    );
    let (bytes, result) = h.receive(conn, 10, false);
    assert!(bytes.is_empty() && result.unwrap().end);
}

/// Who waits for nothing else asks now and then.
#[test]
fn a_reset_behind_the_other_sides_end_is_told_to_who_receives_again() {
    let mut h = Harness::new();
    let address = h.listen();
    let client = TcpStream::connect(address).unwrap();
    let conn = h.accepted();
    client.shutdown(Shutdown::Write).unwrap();
    for _ in 0..3 {
        let (bytes, result) = h.receive(conn, 10, false);
        let received = result.expect("it still reads");
        assert!(bytes.is_empty() && received.end);
    }
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    let give_up = Instant::now() + Duration::from_secs(10);
    while h.receive(conn, 10, false).1.is_ok() {
        assert!(Instant::now() < give_up, "nobody told");
        h.idle(5);
    }
}
