//! Writes of a few bytes: gathered on their way, each at its place, each to be waited for.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::fake;
use crate::fake::{AppendFault, FakeCluster, payload};
use client::{AppendError, AppendOptions, Appender, Client, Timeouts};

fn open(client: &Client) -> Appender {
    let options = AppendOptions {
        // The least there is, so that it is often full.
        buffer_bytes_max: 1,
        ..AppendOptions::default()
    };
    client.append("main", options).expect("the log is free")
}

#[test]
fn each_call_says_what_to_wait_for() {
    let cluster = FakeCluster::start(1);
    let mut appender = open(&cluster.client());
    let others = appender.acknowledgements();
    for written in 1..=300 {
        let end = appender.append(b"x").expect("room");
        assert_eq!(end, written);
        appender.wait_acknowledged(end).expect("it is acknowledged");
        assert_eq!(others.position(), end);
    }
    assert_eq!(cluster.truth().streams[0].bytes, [b'x'; 300]);
}

#[test]
fn a_byte_is_sent_although_nobody_calls_again() {
    let cluster = FakeCluster::start(1);
    let mut appender = open(&cluster.client());
    let others = appender.acknowledgements();
    for _ in 0..1000 {
        let end = appender.append(b"x").expect("room");
        // Waiting would be a call that has it sent: this only looks.
        let began = Instant::now();
        while others.position() < end {
            assert!(began.elapsed() < Duration::from_secs(60), "{end} stays");
            std::thread::yield_now();
        }
    }
}

/// All the ring has room for is less than what is worth sending, and the stage holds the rest.
#[test]
fn a_full_buffer_waits_for_acknowledgements_and_not_for_more_to_send() {
    const BYTES: usize = 2_000_000;
    let cluster = FakeCluster::start(1);
    let timeouts = Timeouts {
        silence: Duration::from_secs(20),
        total: Duration::from_secs(60),
        ..fake::hasty()
    };
    let client = Client::new(vec![cluster.address(0)], timeouts);
    for _ in 0..3 {
        let mut appender = open(&client);
        appender.append(b"x").expect("room");
        appender.wait_acknowledged(1).expect("it is acknowledged");
        cluster.silence(0);
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for _ in 1..BYTES {
                appender.append(b"x").expect("room");
            }
            done.send(appender.close().is_ok())
        });
        // Much longer than it takes to fill the buffer.
        let early = is_done.recv_timeout(Duration::from_millis(700));
        assert!(early.is_err(), "there was room for everything");
        cluster.give_voice(0);
        let closed = is_done.recv_timeout(Duration::from_secs(60));
        assert_eq!(closed, Ok(true), "it waits for ever");
    }
    assert!(
        cluster
            .truth()
            .streams
            .iter()
            .all(|s| s.bytes.len() == BYTES)
    );
}

#[test]
fn writes_of_all_sizes_stand_in_their_order_whatever_is_lost() {
    let cluster = FakeCluster::start(3);
    let fault = AppendFault::Cut {
        receive: 300_000,
        store: 200_000,
        acknowledge: 100_000,
        change_leader: true,
        last_words: "",
    };
    cluster.plan_appends([fault.clone(), fault.clone(), fault]);
    let bytes = payload(3_000_000, 1);
    let mut appender = open(&cluster.client());
    let mut rest = &bytes[..];
    // Mostly single bytes, and now and then one that goes another way.
    let sizes = [1, 1, 1, 7, 1, 64, 1, 1, 65, 1, 1, 1, 5000, 1, 1];
    for (number, size) in (0..).zip(sizes.into_iter().cycle()) {
        let size = if number % 20_000 == 19_999 {
            600_000
        } else {
            size
        };
        let (piece, others) = rest.split_at(size.min(rest.len()));
        if piece.is_empty() {
            break;
        }
        appender.write_all(piece).expect("room");
        rest = others;
        assert_eq!(appender.position(), (bytes.len() - rest.len()) as u64);
    }
    let closed = appender.close().expect("a clean end");
    let (held, _) = cluster
        .truth()
        .chain(Some(closed.stream))
        .expect("the stream");
    assert!(held == bytes);
}

#[test]
fn who_waits_on_another_thread_hears_of_bytes_written_later() {
    let cluster = FakeCluster::start(1);
    let mut appender = open(&cluster.client());
    let others = appender.acknowledgements();
    let waits = std::thread::spawn(move || others.wait(10_000));
    for _ in 0..10_000 {
        appender.append(b"x").expect("room");
    }
    assert_eq!(waits.join().expect("no panic"), Ok(()));
}

#[test]
fn who_waits_for_an_appender_that_is_dropped_is_told() {
    let cluster = FakeCluster::start(1);
    let mut appender = open(&cluster.client());
    appender.append(b"x").expect("room");
    let others = appender.acknowledgements();
    let waits = std::thread::spawn({
        let others = others.clone();
        move || others.wait(2)
    });
    drop(appender);
    assert_eq!(waits.join().expect("no panic"), Err(AppendError::Dropped));
    assert_eq!(others.wait(2), Err(AppendError::Dropped));
}

#[test]
fn a_closed_stream_takes_no_byte() {
    let cluster = FakeCluster::start(1);
    let mut appender = open(&cluster.client());
    appender.append(b"x").expect("room");
    assert_eq!(appender.close().expect("a clean end").position, 1);
    assert_eq!(appender.append(b"y"), Err(AppendError::Closed));
    assert_eq!(appender.position(), 1);
}
