//! A leader that falls silent is left when the others have another, and not before.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::fake;
use crate::fake::{AppendFault, FakeCluster, payload};
use client::admin::StreamEnd;
use client::{AppendOptions, Appender, Client, Closed, ReadOptions, Timeouts};

/// Longer than any test may last: who waits for it to pass has failed.
const PATIENCE: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(10);

fn patient(servers: Vec<String>) -> Client {
    let timeouts = Timeouts {
        connect: Duration::from_millis(500),
        silence: PATIENCE,
        total: PATIENCE * 2,
    };
    Client::new(servers, timeouts)
}

fn client(cluster: &FakeCluster) -> Client {
    patient((0..3).map(|node| cluster.address(node)).collect())
}

fn open(client: &Client) -> Appender {
    client
        .append("main", AppendOptions::default())
        .expect("free")
}

fn write(appender: &mut Appender, bytes: &[u8]) {
    appender.write_all(bytes).expect("room");
    appender.flush().expect("it goes on");
}

fn wait(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn assert_chain(cluster: &FakeCluster, closed: Closed, bytes: &[u8]) {
    let (held, end) = cluster.truth().chain(Some(closed.stream)).expect("there");
    assert!(held == bytes, "{} of {} bytes", held.len(), bytes.len());
    assert_eq!(end, StreamEnd::Closed);
    assert_eq!(closed.position, bytes.len() as u64);
}

/// All that the client learns in the background, it has learned.
fn wait_learned(cluster: &FakeCluster) {
    wait("nobody asks the leader for its status", || {
        cluster.truth().status_asked(0) > 0
    });
    std::thread::sleep(Duration::from_millis(50));
}

#[test]
fn a_silent_leader_is_left_for_the_next_one() {
    let cluster = FakeCluster::start(3);
    let bytes = payload(300_000, 1);
    let started = Instant::now();
    let mut appender = open(&client(&cluster));
    write(&mut appender, &bytes[..100_000]);
    appender.wait_acknowledged(100_000).expect("healthy");
    cluster.silence(0);
    write(&mut appender, &bytes[100_000..]);
    std::thread::sleep(Duration::from_millis(100));
    cluster.elect(2);
    let closed = appender.close().expect("the next leader");
    assert!(started.elapsed() < SOON);
    assert_eq!(appender.statistics().reconnects, 1);
    assert_eq!(closed.last.owner, 3);
    assert_chain(&cluster, closed, &bytes);
}

#[test]
fn one_given_server_is_enough_to_know_the_others() {
    let cluster = FakeCluster::start(3);
    let started = Instant::now();
    let client = patient(vec![cluster.address(0)]);
    let mut appender = open(&client);
    wait("the others are not learned", || client.servers().len() == 3);
    cluster.silence(0);
    cluster.elect(1);
    write(&mut appender, b"on");
    let closed = appender.close().expect("the next leader");
    assert!(started.elapsed() < SOON);
    assert_chain(&cluster, closed, b"on");
}

/// The cluster does not know the user's name for the leader.
#[test]
fn a_slow_leader_by_another_name_is_not_left_for_itself() {
    let cluster = FakeCluster::start(3);
    let name = format!("localhost:{}", cluster.addresses[0].port());
    let mut appender = open(&patient(vec![name]));
    wait_learned(&cluster);
    cluster.silence(0);
    write(&mut appender, b"slowly");
    wait("no other is asked", || cluster.truth().status_asked(2) >= 3);
    cluster.give_voice(0);
    let closed = appender.close().expect("slow, and no more");
    assert_eq!(appender.statistics().reconnects, 0);
    assert_chain(&cluster, closed, b"slowly");
}

#[test]
fn a_slow_leader_that_others_confirm_is_not_left() {
    let cluster = FakeCluster::start(3);
    let bytes = payload(50_000, 2);
    let mut appender = open(&client(&cluster));
    wait_learned(&cluster);
    cluster.silence(0);
    write(&mut appender, &bytes);
    wait("no other is asked", || {
        let truth = cluster.truth();
        truth.status_asked(1) >= 3 && truth.status_asked(2) >= 3
    });
    cluster.give_voice(0);
    appender.wait_acknowledged(50_000).expect("slow only");
    let asked = cluster.truth().status_asked(1);
    std::thread::sleep(Duration::from_millis(700));
    assert!(
        cluster.truth().status_asked(1) <= asked + 1,
        "nothing is owed"
    );
    let closed = appender.close().expect("the same leader");
    let statistics = appender.statistics();
    assert_eq!((statistics.reconnects, statistics.bytes_resent), (0, 0));
    assert_chain(&cluster, closed, &bytes);
}

#[test]
fn who_believes_in_an_earlier_leader_is_not_believed() {
    let cluster = FakeCluster::start(3);
    {
        let mut truth = cluster.truth();
        truth.term = 7;
        truth.views.insert(1, (1, 6));
        truth.views.insert(2, (1, 5));
    }
    let mut appender = open(&client(&cluster));
    wait_learned(&cluster);
    cluster.silence(0);
    write(&mut appender, b"still here");
    wait("no other is asked", || {
        let truth = cluster.truth();
        truth.status_asked(1) >= 3 && truth.status_asked(2) >= 3
    });
    cluster.give_voice(0);
    let closed = appender.close().expect("the same leader");
    assert_eq!(appender.statistics().reconnects, 0);
    assert_chain(&cluster, closed, b"still here");
}

#[test]
fn a_first_server_that_says_nothing_does_not_hold_up_the_opening() {
    let cluster = FakeCluster::start(3);
    cluster.silence(0);
    cluster.elect(1);
    let started = Instant::now();
    let closed = open(&client(&cluster)).close().expect("another leads");
    assert!(started.elapsed() < SOON);
    assert_chain(&cluster, closed, b"");
}

#[test]
fn an_opening_that_the_next_leader_never_answers_is_left_too() {
    let cluster = FakeCluster::start(3);
    let started = Instant::now();
    let mut appender = open(&client(&cluster));
    cluster.silence(0);
    cluster.plan_appends([AppendFault::SilentAfter]);
    cluster.elect(1);
    write(&mut appender, b"twice");
    wait("the second leader is not asked", || {
        cluster.truth().streams.len() == 2
    });
    cluster.silence(1);
    cluster.elect(2);
    let closed = appender.close().expect("the third leader");
    assert!(started.elapsed() < SOON);
    assert_eq!(closed.last.owner, 3);
    assert_chain(&cluster, closed, b"twice");
}

#[test]
fn a_close_that_is_not_answered_is_asked_of_the_next_leader() {
    let cluster = FakeCluster::start(3);
    let started = Instant::now();
    let mut appender = open(&client(&cluster));
    write(&mut appender, b"the end");
    appender.wait_acknowledged(7).expect("healthy");
    cluster.silence(0);
    cluster.elect(2);
    let closed = appender.close().expect("the next leader");
    assert!(started.elapsed() < SOON);
    assert_chain(&cluster, closed, b"the end");
}

#[test]
fn readers_leave_a_silent_leader_and_miss_nothing() {
    for follow in [false, true] {
        let cluster = FakeCluster::start(3);
        let client = client(&cluster);
        let bytes = payload(100_000, 3);
        let mut appender = open(&client);
        write(&mut appender, &bytes);
        let closed = appender.close().expect("healthy");
        let at = fake::ReadFault::SilentAt(60_000);
        cluster.plan_reads([at]);
        let started = Instant::now();
        let options = ReadOptions {
            stream: Some(closed.stream),
            follow,
            ..ReadOptions::default()
        };
        let mut reader = client.read("main", options).expect("there");
        let mut held = vec![0; 60_000];
        reader.read_exact(&mut held).expect("before the silence");
        cluster.silence(0);
        cluster.elect(1);
        reader.read_to_end(&mut held).expect("the next leader");
        assert!(started.elapsed() < SOON);
        assert!(held == bytes);
        assert_eq!(reader.reconnects(), 1);
    }
}

#[test]
fn a_quiet_log_is_followed_without_asking_around() {
    let cluster = FakeCluster::start(3);
    let client = client(&cluster);
    let mut appender = open(&client);
    let stream = appender.stream();
    wait_learned(&cluster);
    let options = ReadOptions {
        stream: Some(stream),
        follow: true,
        ..ReadOptions::default()
    };
    let mut reader = client.read("main", options).expect("there");
    let reading = std::thread::spawn(move || {
        let mut held = Vec::new();
        reader.read_to_end(&mut held).expect("an end");
        (held, reader.reconnects())
    });
    std::thread::sleep(Duration::from_millis(2500));
    let truth = cluster.truth();
    assert_eq!((truth.status_asked(1), truth.status_asked(2)), (0, 0));
    drop(truth);
    write(&mut appender, b"at last");
    appender.close().expect("healthy");
    assert_eq!(reading.join().expect("read"), (b"at last".to_vec(), 0));
}
