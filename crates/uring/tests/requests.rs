//! Requests come back once, with their memory, whatever becomes of them. Where io_uring is forbidden
//! there is nothing to test, and each test says so.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use ops::{Buffer, Slice};
use uring::{Finished, Id, Request, Ring};

const ECANCELED: i32 = 125;
const LONG: Duration = Duration::from_secs(30);

fn ring() -> Option<Ring<u32>> {
    match Ring::new() {
        Ok(ring) => Some(ring),
        Err(error) => {
            eprintln!("nothing is tested: {error}");
            None
        }
    }
}

/// One end for the ring, the other for the test.
fn pair() -> (Arc<OwnedFd>, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    (Arc::new(near.into()), far)
}

fn receive(ring: &mut Ring<u32>, tag: u32, socket: &Arc<OwnedFd>, whole: bool) -> Id {
    let request = Request::Receive {
        socket: socket.clone(),
        buffer: Buffer::new(4096),
        range: 100..110,
        whole,
    };
    ring.begin(tag, request)
}

fn next(ring: &mut Ring<u32>) -> Finished<u32> {
    let mut finished = Vec::new();
    while finished.is_empty() {
        ring.wait(Some(LONG), &mut finished).unwrap();
    }
    assert_eq!(finished.len(), 1, "one was expected");
    finished.remove(0)
}

fn is_quiet(ring: &mut Ring<u32>) -> bool {
    let mut finished = Vec::new();
    let soon = Some(Duration::from_millis(20));
    ring.wait(soon, &mut finished).unwrap();
    finished.is_empty()
}

fn bytes_of(finished: &Finished<u32>) -> &[u8] {
    match &finished.request {
        Request::Receive { buffer, .. } => &buffer[99..111],
        _ => panic!("a receive was expected"),
    }
}

#[test]
fn bytes_are_sent_and_received_within_their_range() {
    let Some(mut ring) = ring() else { return };
    let (near, mut far) = pair();
    let slices = vec![Slice::copied_from(b"hel"), Slice::copied_from(b"lo")];
    let socket = near.clone();
    ring.begin(1, Request::Send { socket, slices });
    let sent = next(&mut ring);
    assert_eq!((sent.tag, sent.result.unwrap()), (1, 5));
    let mut back = [0; 5];
    far.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello");
    receive(&mut ring, 2, &near, true);
    far.write_all(b"12345").unwrap();
    assert!(is_quiet(&mut ring), "half is not the whole");
    far.write_all(b"67890-").unwrap();
    let received = next(&mut ring);
    assert_eq!(bytes_of(&received), b"\x001234567890\0");
    assert_eq!(received.result.unwrap(), 10);
    assert_eq!(ring.outstanding(), 0);
}

#[test]
fn a_cancelled_request_comes_back_and_a_late_cancellation_hits_nobody() {
    let Some(mut ring) = ring() else { return };
    let (near, mut far) = pair();
    let id = receive(&mut ring, 1, &near, false);
    assert!(is_quiet(&mut ring));
    ring.cancel(id);
    let cancelled = next(&mut ring);
    assert_eq!(cancelled.tag, 1);
    let error = cancelled.result.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(ECANCELED));
    // It has the place of the first one now, and is another request.
    receive(&mut ring, 2, &near, false);
    ring.cancel(id);
    assert!(is_quiet(&mut ring));
    far.write_all(b"x").unwrap();
    let received = next(&mut ring);
    assert_eq!((received.tag, received.result.unwrap()), (2, 1));
}

#[test]
fn more_requests_than_the_queue_has_places_all_come_back_once() {
    let Some(mut ring) = ring() else { return };
    let many = 5000;
    for tag in 0..many {
        let duration = Duration::from_micros(u64::from(tag % 100));
        ring.begin(tag, Request::Sleep { duration });
    }
    let mut finished = Vec::new();
    while ring.outstanding() > 0 {
        ring.wait(Some(LONG), &mut finished).unwrap();
    }
    let mut tags: Vec<u32> = finished.iter().map(|finished| finished.tag).collect();
    tags.sort_unstable();
    assert!(tags.into_iter().eq(0..many));
}

#[test]
fn a_ring_that_is_dropped_writes_what_it_was_given_and_waits_for_no_socket() {
    let Some(mut ring) = ring() else { return };
    let (near, _far) = pair();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    receive(&mut ring, 1, &near, true);
    ring.begin(2, Request::Watch { fd: near });
    let payload = Buffer::holding(&[7; 8192]).freeze();
    let request = Request::Write {
        file: Arc::new(file.reopen().unwrap()),
        offset: 4096,
        slices: vec![payload.slice(0..4096), payload.slice(4096..8192)],
        durable: true,
    };
    ring.begin(3, request);
    drop(ring);
    let mut written = Vec::new();
    file.read_to_end(&mut written).unwrap();
    assert_eq!(written.len(), 12_288);
    assert!(written[4096..].iter().all(|byte| *byte == 7));
}

#[test]
fn a_ring_that_another_thread_drops_harms_nobody() {
    let Some(mut ring) = ring() else { return };
    let (near, _far) = pair();
    receive(&mut ring, 1, &near, true);
    assert!(is_quiet(&mut ring), "it is this thread's ring from here on");
    std::thread::spawn(move || drop(ring)).join().unwrap();
}
