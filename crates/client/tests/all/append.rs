//! Appending to a cluster that loses connections, answers and leaders.

use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

use crate::fake;
use crate::fake::AppendFault as Fault;
use crate::fake::{CloseFault, FakeCluster, payload};
use client::admin::StreamEnd;
use client::{AppendError, AppendOptions, Appender, Client, Closed, Mode, Said};

fn cut(receive: usize, store: usize, acknowledge: usize) -> Fault {
    Fault::Cut {
        receive,
        store,
        acknowledge,
        change_leader: false,
        last_words: "",
    }
}

fn open(client: &Client) -> Appender {
    client
        .append("main", AppendOptions::default())
        .expect("the log is free")
}

fn append_all(client: &Client, bytes: &[u8]) -> Closed {
    let mut appender = open(client);
    appender.write_all(bytes).expect("room");
    appender.close().expect("a clean end")
}

/// The chain holds `bytes`, each once, and ends cleanly where the client was told.
fn assert_chain(cluster: &FakeCluster, closed: Closed, bytes: &[u8]) {
    let (held, end) = cluster
        .truth()
        .chain(Some(closed.stream))
        .expect("the stream");
    assert!(
        held == bytes,
        "{} bytes are held, {} were written",
        held.len(),
        bytes.len()
    );
    assert_eq!(end, StreamEnd::Closed);
    assert_eq!(closed.position, bytes.len() as u64);
}

#[test]
fn what_was_written_is_chosen_and_the_end_is_clean() {
    let cluster = FakeCluster::start(1);
    let bytes = payload(3_000_000, 1);
    let closed = append_all(&cluster.client(), &bytes);
    assert_chain(&cluster, closed, &bytes);
    assert_eq!(closed.stream, closed.last);
}

#[test]
fn a_stream_may_be_empty() {
    let cluster = FakeCluster::start(1);
    let closed = append_all(&cluster.client(), b"");
    assert_chain(&cluster, closed, b"");
}

#[test]
fn no_cut_loses_or_repeats_a_byte() {
    let cluster = FakeCluster::start(1);
    let client = cluster.client();
    let bytes = payload(24, 2);
    for store in 0..=bytes.len() {
        for acknowledge in [0, store / 2, store] {
            cluster.plan_appends([cut(bytes.len(), store, acknowledge)]);
            let closed = append_all(&client, &bytes);
            assert_chain(&cluster, closed, &bytes);
        }
    }
}

#[test]
fn only_what_is_not_acknowledged_is_sent_again() {
    let cluster = FakeCluster::start(1);
    cluster.plan_appends([cut(100, 70, 40)]);
    let mut appender = open(&cluster.client());
    appender.write_all(&payload(100, 3)).expect("room");
    let closed = appender.close().expect("a clean end");
    assert_chain(&cluster, closed, &payload(100, 3));
    let statistics = appender.statistics();
    assert_eq!(
        statistics.bytes_resent, 30,
        "the refusal said that 70 were safe"
    );
    assert_eq!((statistics.streams_opened, statistics.reconnects), (2, 1));
}

#[test]
fn a_leader_change_is_followed() {
    let cluster = FakeCluster::start(3);
    let fault = Fault::Cut {
        receive: 50_000,
        store: 30_000,
        acknowledge: 10_000,
        change_leader: true,
        last_words: "error not-leader: Deposed.\n",
    };
    cluster.plan_appends([fault.clone(), fault.clone(), fault]);
    let bytes = payload(200_000, 4);
    let closed = append_all(&cluster.client(), &bytes);
    assert_chain(&cluster, closed, &bytes);
    assert_eq!(closed.last.owner, 1, "the lead went round three nodes");
}

#[test]
fn a_lost_opening_answer_leaves_an_empty_link_in_the_chain() {
    let cluster = FakeCluster::start(1);
    cluster.plan_appends([cut(100, 60, 20), Fault::LoseAnswer, Fault::LoseAnswer]);
    let bytes = payload(100, 5);
    let closed = append_all(&cluster.client(), &bytes);
    assert_chain(&cluster, closed, &bytes);
    let lengths: Vec<_> = cluster
        .truth()
        .streams
        .iter()
        .map(|s| s.bytes.len())
        .collect();
    assert_eq!(lengths, [60, 0, 0, 40]);
}

/// It said that it does not lead, and the next leader opened the stream all the same.
#[test]
fn a_leader_deposed_while_it_opened_a_stream_is_no_second_writer() {
    let cluster = FakeCluster::start(3);
    cluster.plan_appends([cut(1000, 1000, 500), Fault::Deposed, Fault::Deposed]);
    let bytes = payload(50_000, 4);
    let closed = append_all(&cluster.client(), &bytes);
    assert_chain(&cluster, closed, &bytes);
}

#[test]
fn a_lost_first_answer_is_no_second_writer() {
    let cluster = FakeCluster::start(1);
    cluster.plan_appends([Fault::LoseAnswer]);
    let closed = append_all(&cluster.client(), b"bytes");
    assert_chain(&cluster, closed, b"bytes");
}

#[test]
fn a_silent_leader_is_left() {
    let cluster = FakeCluster::start(1);
    cluster.plan_appends([
        Fault::NeverAcknowledge,
        Fault::SilentBefore,
        Fault::SilentAfter,
    ]);
    let bytes = payload(1000, 6);
    let closed = append_all(&cluster.client(), &bytes);
    assert_chain(&cluster, closed, &bytes);
}

#[test]
fn a_leader_that_does_not_read_is_left() {
    let cluster = FakeCluster::start(1);
    cluster.plan_appends([Fault::NeverRead]);
    let bytes = payload(20 << 20, 7);
    let closed = append_all(&cluster.client(), &bytes);
    assert_chain(&cluster, closed, &bytes);
}

#[test]
fn a_lost_close_is_asked_again() {
    let cluster = FakeCluster::start(1);
    for fault in [
        CloseFault::DropBefore,
        CloseFault::LoseAnswer,
        CloseFault::Cut,
        CloseFault::CutInSilence,
    ] {
        cluster.plan_closes([fault]);
        let closed = append_all(&cluster.client(), b"to be closed");
        assert_chain(&cluster, closed, b"to be closed");
    }
}

/// A node says that the stream cannot be closed, and that it is open: it is asked again, but neither at once nor for ever.
#[test]
fn a_close_that_is_refused_of_an_open_stream_ends_in_time() {
    let cluster = FakeCluster::start(1);
    cluster.plan_closes(vec![CloseFault::Refuse; 10_000]);
    let client = Client::new(vec![cluster.address(0)], fake::hasty());
    let mut appender = client
        .append("main", AppendOptions::default())
        .expect("free");
    appender.write_all(b"open").expect("room");
    let error = appender.close().expect_err("it stays open");
    assert!(matches!(error, AppendError::Unreachable(_)), "{error}");
    assert!(
        cluster.truth().asked("close") < 100,
        "it is not asked in a tight loop"
    );
    cluster.plan_closes(vec![CloseFault::Refuse; 2]);
    // The node may not have seen yet that the first writer is gone.
    let waits = AppendOptions {
        mode: Mode::Wait,
        ..AppendOptions::default()
    };
    let client = cluster.client_of([0]);
    let mut appender = client.append("main", waits).expect("it is free soon");
    appender.write_all(b"closed in the end").expect("room");
    let closed = appender.close().expect("a clean end");
    assert_chain(&cluster, closed, b"closed in the end");
}

#[test]
fn a_stream_cut_before_its_close_is_continued_and_closed() {
    let cluster = FakeCluster::start(1);
    cluster.plan_closes([CloseFault::Cut, CloseFault::Cut]);
    let closed = append_all(&cluster.client(), b"three links");
    assert_chain(&cluster, closed, b"three links");
    assert_eq!(cluster.truth().streams.len(), 3);
}

#[test]
fn a_busy_log_refuses_a_second_writer() {
    let cluster = FakeCluster::start(1);
    let client = cluster.client();
    let first = open(&client);
    let error = client
        .append("main", AppendOptions::default())
        .expect_err("busy");
    let stream = Some(first.stream());
    assert_eq!(
        error,
        AppendError::Busy {
            log: "main".to_owned(),
            stream
        }
    );
}

#[test]
fn who_waits_gets_its_turn() {
    let cluster = FakeCluster::start(1);
    let client = cluster.client();
    let mut first = open(&client);
    first.write_all(b"first").expect("room");
    let second = std::thread::spawn({
        let client = client.clone();
        move || {
            let options = AppendOptions {
                mode: Mode::Wait,
                ..AppendOptions::default()
            };
            client.append("main", options)?.close()
        }
    });
    std::thread::sleep(Duration::from_millis(100));
    assert!(!second.is_finished());
    first.close().expect("a clean end");
    second.join().expect("no panic").expect("its turn");
}

#[test]
fn who_is_taken_over_stops_for_good() {
    let cluster = FakeCluster::start(1);
    let client = cluster.client();
    let take_over = || AppendOptions {
        mode: Mode::TakeOver,
        ..AppendOptions::default()
    };
    let mut first = client.append("main", take_over()).expect("free");
    first.write_all(b"kept").expect("room");
    first.wait_acknowledged(4).expect("chosen");
    let mut second = client.append("main", take_over()).expect("taken over");
    let mut error = first.wait_acknowledged(4).err();
    while error.is_none() {
        error = first
            .write_all(b"x")
            .err()
            .map(|_| first.close().expect_err("superseded"));
        std::thread::sleep(Duration::from_millis(2));
    }
    let by = Some(second.stream());
    assert_eq!(error, Some(AppendError::Superseded { by }));
    assert_eq!(first.acknowledged(), 4);
    second.close().expect("the only writer");
}

/// Nobody took over: it says `superseded` without a stream, and that it can be continued.
#[test]
fn a_stream_cut_off_by_a_change_of_leader_is_continued() {
    let cluster = FakeCluster::start(1);
    cluster.plan_appends([Fault::Cut {
        receive: 100,
        store: 70,
        acknowledge: 70,
        change_leader: false,
        last_words: "error superseded: The stream was cut off by a change of leader; continue it.\n",
    }]);
    let bytes = payload(100, 32);
    let closed = append_all(&cluster.client(), &bytes);
    assert_chain(&cluster, closed, &bytes);
    assert_eq!(cluster.truth().streams.len(), 2);
}

#[test]
fn who_was_cut_off_does_not_take_over_from_who_came_meanwhile() {
    let cluster = FakeCluster::start(1);
    cluster.plan_appends([
        Fault::Cut {
            receive: 100,
            store: 70,
            acknowledge: 70,
            change_leader: false,
            last_words: "error superseded: The stream was cut off by a change of leader; continue it.\n",
        },
        Fault::Answer(b"error busy stream=1.1.77: Somebody writes.\n".to_vec()),
    ]);
    let options = AppendOptions {
        mode: Mode::TakeOver,
        ..AppendOptions::default()
    };
    let mut appender = cluster.client().append("main", options).expect("free");
    appender.write_all(&payload(100, 33)).expect("room");
    let error = appender.close().expect_err("a stranger's stream");
    assert!(
        matches!(error, AppendError::Superseded { by: Some(by) } if by.counter == 77),
        "{error}"
    );
    let asked = cluster.truth().requests.clone();
    // It also asks who else there is, on the side, when it likes.
    let mut appends = asked.iter().filter(|(_, line)| line.contains(" append "));
    let (_, last) = appends.next_back().expect("asked");
    assert!(
        last.contains("continues=1.1.1@70") && !last.contains("takeover"),
        "{last}"
    );
}

#[test]
fn a_chain_that_another_continued_is_lost_to_it() {
    let cluster = FakeCluster::start(1);
    let client = cluster.client();
    cluster.plan_appends([Fault::Healthy]);
    let mut zombie = open(&client);
    zombie.write_all(b"0123456789").expect("room");
    zombie.wait_acknowledged(10).expect("chosen");
    let options = AppendOptions {
        continues: Some(client::StreamPlace {
            stream: zombie.stream(),
            position: 10,
        }),
        ..AppendOptions::default()
    };
    let mut heir = client
        .append("main", options)
        .expect("the chain's own writer may go on");
    assert_eq!(heir.position(), 10);
    heir.write_all(b"abc").expect("room");
    assert!(matches!(
        zombie.close(),
        Err(AppendError::Superseded { .. })
    ));
    let closed = heir.close().expect("a clean end");
    assert_eq!(closed.position, 13);
    let (bytes, _) = cluster.truth().chain(Some(zombie.stream())).expect("there");
    assert_eq!(bytes, b"0123456789abc");
}

#[test]
fn continuing_at_the_wrong_place_says_where_the_end_is() {
    let cluster = FakeCluster::start(1);
    let client = cluster.client();
    let closed = append_all(&client, b"12345");
    let place = client::StreamPlace {
        stream: closed.stream,
        position: 3,
    };
    let options = AppendOptions {
        continues: Some(place),
        ..AppendOptions::default()
    };
    let error = client.append("main", options).expect_err("it is longer");
    assert_eq!(
        error,
        AppendError::Continues {
            place,
            length: 5,
            by: None
        }
    );
}

#[test]
fn an_unknown_log_is_final() {
    let cluster = FakeCluster::start(1);
    let error = cluster
        .client()
        .append("nowhere", AppendOptions::default())
        .expect_err("no log");
    assert_eq!(
        error,
        AppendError::UnknownLog {
            log: "nowhere".to_owned()
        }
    );
}

#[test]
fn acknowledging_what_was_not_sent_is_not_believed() {
    let cluster = FakeCluster::start(1);
    cluster.plan_appends([Fault::AcknowledgeTooMuch]);
    let mut appender = open(&cluster.client());
    appender.write_all(b"x").expect("room");
    assert!(matches!(appender.close(), Err(AppendError::Garbled { .. })));
    assert_eq!(appender.acknowledged(), 0);
}

/// The bytes are in the log, and the client says that they are not what was sent.
#[test]
fn a_byte_that_changes_on_the_way_is_damage_and_not_success() {
    for (at, length) in [(0, 1), (70_000, 300_000), (299_999, 300_000)] {
        let cluster = FakeCluster::start(1);
        cluster.plan_appends([Fault::StoreOther(at)]);
        let mut appender = open(&cluster.client());
        // The node's answer may be there before all is written: then the writer hears of it, too.
        let wrote = appender.write_all(&payload(length, 3));
        let kind = wrote.err().map(|error| error.kind());
        assert!(
            matches!(kind, None | Some(ErrorKind::InvalidData)),
            "{kind:?}"
        );
        let error = appender.close().expect_err("another byte is stored");
        let AppendError::Damaged {
            sent,
            stored,
            place,
            ..
        } = error
        else {
            panic!("{error}");
        };
        assert!(sent != stored && place.position > at, "{place}");
    }
    let cluster = FakeCluster::start(1);
    cluster.plan_appends([Fault::StoreOther(0)]);
    let options = AppendOptions {
        checked: false,
        ..AppendOptions::default()
    };
    let mut appender = cluster.client().append("main", options).expect("free");
    appender.write_all(b"x").expect("room");
    appender.close().expect("nobody looks");
}

/// After a loss the next stream has a checksum of its own.
#[test]
fn checksums_are_right_across_streams() {
    let cluster = FakeCluster::start(2);
    cluster.plan_appends((1..20).map(|i| Fault::Cut {
        receive: 10_000 * i,
        store: 9_000 * i,
        acknowledge: 5_000 * i,
        change_leader: i % 2 == 0,
        last_words: "",
    }));
    let mut appender = open(&cluster.client());
    appender.write_all(&payload(3_000_000, 4)).expect("room");
    let closed = appender.close().expect("all is as it was sent");
    assert_eq!(closed.position, 3_000_000);
}

#[test]
fn a_node_of_an_older_program_is_asked_in_older_words() {
    let cluster = FakeCluster::start(1);
    let older = b"error bad-request: it has no key \"token\"\n".to_vec();
    cluster.plan_appends([Fault::Answer(older)]);
    let mut appender = open(&cluster.client());
    appender.write_all(b"x").expect("room");
    appender.close().expect("it is understood");
    // A request that is bad without them, too, is an error.
    let bad = Fault::Answer(b"error bad-request: so it is\n".to_vec());
    cluster.plan_appends(vec![bad; 2]);
    let error = cluster.client().append("main", AppendOptions::default());
    assert!(matches!(error, Err(AppendError::Refused { .. })));
}

#[test]
fn answers_that_contradict_the_question_are_not_believed() {
    let cluster = FakeCluster::start(1);
    for line in [&b"waiting\n"[..], b"stream 1.1.1 at=7\n"] {
        cluster.plan_appends([Fault::Answer(line.to_vec())]);
        let error = cluster.client().append("main", AppendOptions::default());
        assert!(
            matches!(error, Err(AppendError::Garbled { .. })),
            "{error:?}"
        );
    }
}

#[test]
fn a_line_without_end_is_not_kept() {
    let cluster = FakeCluster::start(1);
    let endless = vec![b'a'; 100_000];
    cluster.plan_appends(vec![Fault::Answer(endless); 100]);
    let client = Client::new(vec![cluster.address(0)], fake::hasty());
    let error = client
        .append("main", AppendOptions::default())
        .expect_err("no line");
    let AppendError::Unreachable(unreachable) = error else {
        panic!("{error}")
    };
    assert!(
        matches!(unreachable.tried[0].1, Said::Garbled(_)),
        "{unreachable}"
    );
}

#[test]
fn a_failure_in_the_middle_keeps_what_was_acknowledged() {
    let cluster = FakeCluster::start(1);
    let mut plan = vec![cut(1000, 500, 200)];
    plan.extend(vec![
        Fault::Answer(
            b"error no-quorum: One of three.\n".to_vec()
        );
        1000
    ]);
    cluster.plan_appends(plan);
    let client = Client::new(vec![cluster.address(0)], fake::hasty());
    let mut appender = open(&client);
    appender.write_all(&payload(1000, 8)).expect("room");
    let started = Instant::now();
    let error = appender.close().expect_err("no quorum");
    assert!(
        matches!(&error, AppendError::Unreachable(u) if u.no_quorum()),
        "{error}"
    );
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!(appender.acknowledged(), 200);
    let written = appender.write(b"more").expect_err("it is over");
    assert_eq!(written.kind(), std::io::ErrorKind::TimedOut);
}

#[test]
fn the_buffer_is_bounded_and_a_full_one_waits() {
    let cluster = FakeCluster::start(1);
    cluster.plan_appends(vec![Fault::NeverRead; 1000]);
    let client = Client::new(vec![cluster.address(0)], fake::hasty());
    let options = AppendOptions {
        buffer_bytes_max: 1 << 20,
        ..AppendOptions::default()
    };
    let mut appender = client.append("main", options).expect("free");
    let error = appender
        .write_all(&payload(64 << 20, 9))
        .expect_err("nobody reads");
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert_eq!(appender.position(), 1 << 20);
}

#[test]
fn a_single_byte_is_sent_without_being_asked() {
    let cluster = FakeCluster::start(1);
    let mut appender = open(&cluster.client());
    for length in 1..=20u64 {
        appender.write_all(b"x").expect("room");
        let deadline = Instant::now() + Duration::from_secs(60);
        while appender.acknowledged() < length {
            assert!(Instant::now() < deadline, "byte {length} waits for company");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn dropping_cuts_the_stream_and_keeps_what_was_acknowledged() {
    let cluster = FakeCluster::start(1);
    let mut appender = open(&cluster.client());
    appender.write_all(b"kept").expect("room");
    appender.wait_acknowledged(4).expect("chosen");
    let stream = appender.stream();
    drop(appender);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let (bytes, end) = cluster.truth().chain(Some(stream)).expect("there");
        assert_eq!(bytes, b"kept");
        if end == StreamEnd::Cut {
            break;
        }
        assert!(Instant::now() < deadline, "the connection lives on");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn dropping_in_the_middle_of_a_search_does_not_hang() {
    let cluster = FakeCluster::start(1);
    let mut plan = vec![cut(10, 0, 0)];
    plan.extend(vec![Fault::SilentBefore; 100]);
    cluster.plan_appends(plan);
    let mut appender = open(&cluster.client());
    appender.write_all(b"lost").expect("room");
    std::thread::sleep(Duration::from_millis(100));
    let started = Instant::now();
    drop(appender);
    // The search would last 5 s.
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_secs(4), "{elapsed:?}");
}

#[test]
fn acknowledgements_are_reported_in_order() {
    let cluster = FakeCluster::start(1);
    cluster.plan_appends([cut(400_000, 300_000, 100_000)]);
    let (send, receive) = std::sync::mpsc::channel();
    let options = AppendOptions {
        on_acknowledged: Some(Box::new(move |position, at| {
            send.send((position, at)).expect("the test listens");
        })),
        ..AppendOptions::default()
    };
    let mut appender = cluster.client().append("main", options).expect("free");
    appender.write_all(&payload(1_000_000, 10)).expect("room");
    appender.close().expect("a clean end");
    let reports: Vec<_> = receive.try_iter().collect();
    assert!(reports.is_sorted() && reports.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert_eq!(reports.last().expect("some").0, 1_000_000);
}

/// A node that was away, and leads again, has not yet heard that its writer went elsewhere.
#[test]
fn a_writer_is_not_superseded_by_its_own_earlier_stream() {
    let cluster = FakeCluster::start(1);
    let busy = |counter| {
        Fault::Answer(format!("error busy stream=1.1.{counter}: Somebody writes.\n").into())
    };
    cluster.plan_appends([
        cut(100, 50, 50),
        cut(50, 20, 20),
        busy(1),
        busy(1),
        Fault::Healthy,
    ]);
    let bytes = payload(100, 31);
    let closed = append_all(&cluster.client(), &bytes);
    assert_chain(&cluster, closed, &bytes);

    cluster.plan_appends([cut(100, 50, 50), busy(77)]);
    let mut appender = open(&cluster.client());
    appender.write_all(&bytes).expect("room");
    let error = appender.close().expect_err("a stranger's stream");
    assert!(
        matches!(error, AppendError::Superseded { by: Some(by) } if by.counter == 77),
        "{error}"
    );
}
