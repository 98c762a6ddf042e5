//! Reading from a cluster that breaks, lies and falls silent.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::fake;
use crate::fake::ReadFault as Fault;
use crate::fake::{FakeCluster, payload};
use client::admin::StreamEnd;
use client::{
    AppendOptions, Client, ReadEnd, ReadError, ReadOptions, Reader, StreamName, Timeouts,
};
use proptest::prelude::*;

/// A cluster with one closed stream.
fn holding(nodes: usize, bytes: &[u8]) -> (FakeCluster, StreamName) {
    let cluster = FakeCluster::start(nodes);
    let mut appender = cluster
        .client()
        .append("main", AppendOptions::default())
        .expect("free");
    appender.write_all(bytes).expect("room");
    let closed = appender.close().expect("a clean end");
    (cluster, closed.stream)
}

fn read(cluster: &FakeCluster, options: ReadOptions) -> Result<Reader, ReadError> {
    cluster.client().read("main", options)
}

fn all(mut reader: Reader) -> (Vec<u8>, Option<ReadEnd>) {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).expect("an end");
    (bytes, reader.end())
}

/// The error that ends a read, and what came before it.
fn failure(mut reader: Reader) -> (Vec<u8>, ReadError) {
    let mut bytes = Vec::new();
    let error = reader.read_to_end(&mut bytes).expect_err("an error");
    let error = error.downcast::<ReadError>().expect("a read's error");
    let again = reader.read(&mut [0]).expect_err("it stays over");
    assert_eq!(again.downcast::<ReadError>().expect("the same"), error);
    (bytes, error)
}

#[test]
fn what_was_written_is_read_and_its_end_is_told() {
    let bytes = payload(100_000, 1);
    let (cluster, stream) = holding(1, &bytes);
    let options = ReadOptions {
        stream: Some(stream),
        ..ReadOptions::default()
    };
    assert_eq!(
        all(read(&cluster, options).expect("there")),
        (bytes, Some(ReadEnd::Closed))
    );
}

#[test]
fn a_part_is_read_from_and_to() {
    let bytes = payload(10_000, 2);
    let (cluster, _) = holding(1, &bytes);
    let options = ReadOptions {
        from: 1234,
        to: Some(4321),
        ..ReadOptions::default()
    };
    let (part, end) = all(read(&cluster, options).expect("there"));
    assert_eq!(part, bytes[1234..4321]);
    assert_eq!(end, Some(ReadEnd::To));
}

#[test]
fn a_read_survives_a_loss_at_every_byte() {
    let bytes = payload(40, 3);
    let (cluster, _) = holding(1, &bytes);
    for at in 0..bytes.len() {
        cluster.plan_reads([Fault::CutAt(at)]);
        let reader = read(&cluster, ReadOptions::default()).expect("there");
        assert_eq!(all(reader).0, bytes, "cut at {at}");
    }
}

#[test]
fn a_deposed_leader_is_left_at_the_position_reached() {
    let bytes = payload(5000, 4);
    let (cluster, _) = holding(3, &bytes);
    let deposed = b"error not-leader: Deposed.\n".to_vec();
    cluster.plan_reads([
        Fault::InsteadAt(2000, deposed),
        Fault::DropBefore,
        Fault::CutAt(4000),
    ]);
    let reader = read(&cluster, ReadOptions::default()).expect("there");
    assert_eq!(all(reader).0, bytes);
}

#[test]
fn a_damaged_chunk_is_not_handed_out() {
    let bytes = payload(5000, 5);
    let (cluster, _) = holding(1, &bytes);
    cluster.plan_reads([Fault::WrongChecksumAt(2500)]);
    let (read, error) = failure(read(&cluster, ReadOptions::default()).expect("there"));
    assert_eq!(read, bytes[..2000]);
    assert!(
        matches!(
            error,
            ReadError::Corrupt {
                position: 2000,
                count: 1000,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_chunk_for_another_place_is_refused() {
    let (cluster, _) = holding(1, &payload(5000, 6));
    for line in [
        "data 3000 1 00000000\nx",
        "data 1000 1 00000000\nx",
        "data 2000 99999999999 00000000\n",
        "data 2000 18446744073709551615 00000000\n",
        "end 3000 closed\n",
        "ack 7\n",
    ] {
        cluster.plan_reads([Fault::InsteadAt(2000, line.into())]);
        let (read, error) = failure(read(&cluster, ReadOptions::default()).expect("there"));
        assert_eq!(read.len(), 2000);
        assert!(
            matches!(error, ReadError::Garbled { .. }),
            "{line}: {error}"
        );
    }
}

#[test]
fn more_than_was_asked_for_is_refused() {
    let (cluster, _) = holding(1, &payload(5000, 6));
    cluster.plan_reads([Fault::InsteadAt(
        0,
        b"data 0 11 00000000\n01234567890".to_vec(),
    )]);
    let options = ReadOptions {
        to: Some(10),
        ..ReadOptions::default()
    };
    let (read, error) = failure(read(&cluster, options).expect("there"));
    assert!(
        read.is_empty() && matches!(error, ReadError::Garbled { .. }),
        "{error}"
    );
}

/// A server says that it has bytes, and gives signs of life alone: whoever follows is owed those bytes.
#[test]
fn a_follower_that_is_owed_bytes_does_not_live_on_signs_of_life() {
    let bytes = payload(5000, 7);
    let (cluster, _) = holding(1, &bytes);
    cluster.plan_reads(vec![Fault::AliveAt(3000); 10_000]);
    let options = ReadOptions {
        follow: true,
        ..ReadOptions::default()
    };
    let client = Client::new(vec![cluster.address(0)], fake::hasty());
    let reader = client.read("main", options).expect("there");
    let (read, error) = failure(reader);
    assert!((3000..5000).contains(&read.len()) && bytes.starts_with(&read));
    assert!(matches!(error, ReadError::Unreachable(_)), "{error}");
}

#[test]
fn a_silent_server_is_left() {
    let bytes = payload(5000, 7);
    let (cluster, _) = holding(1, &bytes);
    cluster.plan_reads([Fault::SilentAt(3000)]);
    assert_eq!(
        all(read(&cluster, ReadOptions::default()).expect("there")).0,
        bytes
    );
}

#[test]
fn a_slow_link_is_not_silence() {
    let bytes = payload(1000, 9);
    let (cluster, _) = holding(1, &bytes);
    let timeouts = Timeouts {
        silence: Duration::from_millis(500),
        ..fake::hasty()
    };
    cluster.plan_reads([Fault::Slow(Duration::from_millis(60))]);
    let client = Client::new(vec![cluster.address(0)], timeouts);
    let mut reader = client.read("main", ReadOptions::default()).expect("there");
    let mut read = Vec::new();
    reader.read_to_end(&mut read).expect("an end");
    assert_eq!((read, reader.reconnects()), (bytes, 0));
}

#[test]
fn a_server_that_drops_every_read_is_given_up_in_time() {
    let (cluster, _) = holding(1, &payload(5000, 8));
    cluster.plan_reads(vec![Fault::CutAt(0); 10_000]);
    let client = Client::new(vec![cluster.address(0)], fake::hasty());
    let started = Instant::now();
    let reader = client
        .read("main", ReadOptions::default())
        .expect("it says that it can");
    let (read, error) = failure(reader);
    assert!(
        read.is_empty() && matches!(error, ReadError::Unreachable(_)),
        "{error}"
    );
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(
        cluster.truth().asked("read") < 50,
        "it is not asked in a tight loop"
    );
}

#[test]
fn bytes_that_are_missing_everywhere_are_said_to_be_so() {
    let (cluster, _) = holding(1, &payload(5000, 8));
    let missing = b"error not-here: It does not hold them.\n".to_vec();
    cluster.plan_reads(vec![Fault::InsteadAt(0, missing); 10_000]);
    let client = Client::new(vec![cluster.address(0)], fake::hasty());
    let reader = client.read("main", ReadOptions::default());
    let (read, error) = failure(reader.expect("it says that it can"));
    assert!(read.is_empty());
    let said = error.to_string();
    assert!(said.starts_with("no server had these bytes"), "{said}");
    assert!(
        !said.contains("within 0.") && said.contains("logberg status"),
        "{said}"
    );
}

#[test]
fn a_follower_sees_what_is_appended_later_and_the_end() {
    let cluster = FakeCluster::start(1);
    let client = cluster.client();
    let mut appender = client
        .append("main", AppendOptions::default())
        .expect("free");
    let options = ReadOptions {
        stream: Some(appender.stream()),
        follow: true,
        ..ReadOptions::default()
    };
    let reader = client.read("main", options).expect("there");
    let follower = std::thread::spawn(move || all(reader));
    for _ in 0..10 {
        appender.write_all(b"line\n").expect("room");
        std::thread::sleep(Duration::from_millis(20));
    }
    appender.close().expect("a clean end");
    let (bytes, end) = follower.join().expect("no panic");
    assert_eq!(bytes, b"line\n".repeat(10));
    assert_eq!(end, Some(ReadEnd::Closed));
}

#[test]
fn a_follower_may_wait_for_a_while_and_look_after_other_things() {
    let cluster = FakeCluster::start(1);
    let client = cluster.client();
    let mut appender = client
        .append("main", AppendOptions::default())
        .expect("free");
    let options = ReadOptions {
        stream: Some(appender.stream()),
        follow: true,
        ..ReadOptions::default()
    };
    let mut reader = client.read("main", options).expect("there");
    let soon = Duration::from_millis(20);
    // Nothing is there, however often it is looked for, and nobody else is asked for it.
    for _ in 0..100 {
        assert!(!reader.wait(soon).expect("it waits"));
    }
    assert_eq!(reader.reconnects(), 0);
    appender.write_all(b"late").expect("room");
    appender.close().expect("a clean end");
    let long = Duration::from_secs(30);
    assert!(reader.wait(long).expect("it comes"));
    assert!(reader.wait(Duration::ZERO).expect("it is there still"));
    let mut bytes = [0; 4];
    reader.read_exact(&mut bytes).expect("they are there");
    assert_eq!(&bytes, b"late");
    assert!(reader.wait(long).expect("the end"));
    assert_eq!(reader.read(&mut bytes).expect("the end"), 0);
    assert_eq!(reader.end(), Some(ReadEnd::Closed));
}

/// Looks that are short find out, too, that a server is gone.
#[test]
fn a_server_that_falls_silent_is_left_by_who_waits_for_moments() {
    let cluster = FakeCluster::start(1);
    let client = cluster.client();
    let mut appender = client
        .append("main", AppendOptions::default())
        .expect("free");
    cluster.plan_reads([Fault::SilentAt(1)]);
    let options = ReadOptions {
        follow: true,
        ..ReadOptions::default()
    };
    let mut reader = client.read("main", options).expect("there");
    let moment = Duration::from_millis(300);
    assert!(!reader.wait(moment).expect("it waits"));
    appender.write_all(b"late").expect("room");
    let begun = Instant::now();
    while !reader
        .wait(Duration::from_millis(10))
        .expect("another answer")
    {
        assert!(begun.elapsed() < Duration::from_secs(60), "it waits on");
    }
    let mut bytes = [0; 4];
    reader.read_exact(&mut bytes).expect("they are there");
    assert_eq!((&bytes, reader.reconnects()), (b"late", 1));
}

#[test]
fn a_follower_notices_that_signs_of_life_have_stopped() {
    let cluster = FakeCluster::start(1);
    let client = cluster.client();
    let mut appender = client
        .append("main", AppendOptions::default())
        .expect("free");
    cluster.plan_reads([Fault::SilentAt(1)]);
    let options = ReadOptions {
        follow: true,
        ..ReadOptions::default()
    };
    let reader = client.read("main", options).expect("there");
    let follower = std::thread::spawn(move || {
        let mut reader = reader;
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).expect("an end");
        (bytes, reader.reconnects())
    });
    std::thread::sleep(Duration::from_millis(300));
    appender.write_all(b"late").expect("room");
    appender.close().expect("a clean end");
    assert_eq!(follower.join().expect("no panic"), (b"late".to_vec(), 1));
}

#[test]
fn a_chain_is_read_as_one() {
    let cluster = FakeCluster::start(1);
    let client = cluster.client();
    let mut appender = client
        .append("main", AppendOptions::default())
        .expect("free");
    appender.write_all(b"one ").expect("room");
    appender.wait_acknowledged(4).expect("chosen");
    let place = client::StreamPlace {
        stream: appender.stream(),
        position: 4,
    };
    drop(appender);
    let options = AppendOptions {
        continues: Some(place),
        ..AppendOptions::default()
    };
    let mut heir = client.append("main", options).expect("free");
    heir.write_all(b"chain").expect("room");
    let options = ReadOptions {
        stream: Some(place.stream),
        ..ReadOptions::default()
    };
    heir.wait_acknowledged(9).expect("chosen");
    let (bytes, end) = all(client.read("main", options.clone()).expect("there"));
    assert_eq!(
        (bytes.as_slice(), end),
        (&b"one chain"[..], Some(ReadEnd::Open))
    );
    drop(heir);
    while cluster.truth().active.is_some() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(cluster.truth().streams[1].end, StreamEnd::Cut);
    assert_eq!(
        all(client.read("main", options).expect("there")).1,
        Some(ReadEnd::Cut)
    );
}

#[test]
fn what_is_not_there_is_said() {
    let (cluster, stream) = holding(1, b"12345");
    let options = ReadOptions {
        from: 6,
        ..ReadOptions::default()
    };
    let error = read(&cluster, options).expect_err("past the end");
    assert_eq!(
        error,
        ReadError::PastEnd {
            position: 6,
            length: 5
        }
    );
    let missing = StreamName {
        counter: 99,
        ..stream
    };
    let options = ReadOptions {
        stream: Some(missing),
        ..ReadOptions::default()
    };
    let error = read(&cluster, options).expect_err("no such stream");
    assert!(matches!(error, ReadError::UnknownStream { .. }), "{error}");
    let error = cluster
        .client()
        .read("other", ReadOptions::default())
        .expect_err("no such log");
    assert_eq!(
        error,
        ReadError::UnknownLog {
            log: "other".to_owned()
        }
    );
}

#[test]
fn a_named_server_alone_is_asked_and_may_be_a_follower() {
    let (cluster, _) = holding(3, b"12345");
    let options = ReadOptions {
        server: Some(cluster.address(2)),
        ..ReadOptions::default()
    };
    assert_eq!(all(read(&cluster, options).expect("there")).0, b"12345");
    let truth = cluster.truth();
    let reads: Vec<_> = truth
        .requests
        .iter()
        .filter(|(_, line)| line.contains(" read "))
        .collect();
    assert_eq!(reads.len(), 1);
    assert_eq!(reads[0].0, 2);
    assert!(reads[0].1.contains("stale=1"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_loss_makes_a_reader_skip_or_repeat(
        length in 0usize..30_000,
        cuts in proptest::collection::vec((0usize..30_000, 0u8..3), 0..6),
        window in (0.0..1.0f64, 0.0..=1.0f64),
        seed in any::<u64>(),
    ) {
        let bytes = payload(length, seed);
        let (cluster, _) = holding(2, &bytes);
        cluster.plan_reads(cuts.into_iter().map(|(at, kind)| match kind {
            0 => Fault::CutAt(at),
            1 => Fault::DropBefore,
            _ => Fault::InsteadAt(at, b"error shutting-down: Stopping.\n".to_vec()),
        }));
        let from = (length as f64 * window.0) as usize;
        let to = from + ((length - from) as f64 * window.1) as usize;
        let options = ReadOptions { from: from as u64, to: Some(to as u64), ..ReadOptions::default() };
        let (part, end) = all(read(&cluster, options).expect("there"));
        prop_assert_eq!(part, &bytes[from..to]);
        prop_assert_eq!(end, Some(ReadEnd::To));
    }
}

#[test]
fn answers_that_contradict_the_question_are_not_believed() {
    let (cluster, stream) = holding(1, &payload(5000, 1));
    let whole = || ReadOptions {
        stream: Some(stream),
        ..ReadOptions::default()
    };
    for line in [
        "end 0 closed\n",
        "end 0 cut\n",
        "end 0 open\n",
        "end 0 to\n",
    ] {
        cluster.plan_reads([Fault::InsteadAt(0, line.into())]);
        let mut bytes = Vec::new();
        let mut reader = read(&cluster, whole()).expect("it begins");
        let error = reader.read_to_end(&mut bytes).expect_err(line);
        let error = error.downcast::<ReadError>().expect("the reader's own");
        assert!(
            matches!(error, ReadError::Garbled { .. }),
            "{line}: {error}"
        );
        assert_eq!(bytes, b"");
    }
    // What may be stale is for those that ask for it.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let serves = std::thread::spawn(move || {
        let (mut conn, _) = listener.accept()?;
        let asked = conn.read(&mut [0; 4096])?;
        assert!(asked > 0);
        conn.write_all(b"reading from=0 length=1 stale=1\ndata 0 1 364b3fb7\na")?;
        conn.read(&mut [0; 4096])
    });
    let client = Client::new(vec![address], fake::hasty());
    let error = client.read("main", ReadOptions::default()).err();
    assert!(
        matches!(error, Some(ReadError::Garbled { .. })),
        "{error:?}"
    );
    drop(client);
    serves.join().expect("no panic").expect("it was asked");
}
