//! Writers and readers, over changes of leader and bad networks.

use sim::{Act, PerMillion, Swarm};

use crate::caller::Caller;
use crate::stage::{LOG, MS, SECOND, Stage};

#[test]
fn a_reader_across_changes_of_leader_sees_no_gap_and_no_repeat() {
    for seed in 0..4 {
        let mut stage = Stage::three(seed);
        let chain = stage.add_writer(200_000, 1_000, 20 * MS);
        stage.add_reader(&chain, true);
        stage.add_reader(&chain, false);
        for kill in [true, false, true] {
            stage.pass(700 * MS);
            let leader = stage.leader();
            match kill {
                true => stage.crash(leader),
                false => stage.world.pause(stage.nodes[leader], 2 * SECOND),
            }
            stage.wait("another leader", |look| {
                look.leader().is_some_and(|now| now != leader)
            });
            if kill {
                stage.restart(leader);
            }
        }
        stage.wait("all of it", |_| chain.borrow().closed);
        assert!(chain.borrow().streams.len() > 1, "nothing was cut");
        stage.wait_for_readers();
    }
}

/// The write arrives, its acknowledgement does not.
#[test]
fn an_append_whose_acknowledgements_are_lost_is_continued_without_hole_or_repeat() {
    for seed in 0..5 {
        let mut stage = Stage::three(seed);
        let chain = stage.add_writer(60_000, 1_000, 200 * MS);
        let writer = stage.writers[0];
        for _ in 0..4 {
            stage.pass(300 * MS);
            for index in 0..3 {
                stage.world.cut(stage.nodes[index], writer);
            }
            // Until it gives up.
            stage.pass(2 * SECOND + 500 * MS);
            stage.world.heal_all();
        }
        stage.wait("all of it", |_| chain.borrow().closed);
        assert!(chain.borrow().streams.len() > 1, "nothing was cut");
        let mut expected = vec![0; 60_000];
        sim::client::fill(chain.borrow().client, 0, &mut expected);
        assert!(stage.read_all() == expected);
    }
}

/// A writer that takes over is chosen behind the last bytes of the one before, which hears of both at once.
#[test]
fn who_is_superseded_hears_first_how_much_was_chosen() {
    for half_closed in [false, true] {
        let mut stage = Stage::three(1);
        let (leader, others) = stage.roles();
        let mut first = stage.open(leader, "append main");
        stage.say_and_wait(&mut first, 100);
        stage.wait_whole(3);
        for index in &others {
            stage.world.hang_disk(stage.nodes[*index]);
        }
        first.say(&mut stage.world, 5_000);
        if half_closed {
            first.half_close(&mut stage.world);
        }
        stage.pass(50 * MS);
        let second = stage.call(leader, "append main mode=takeover");
        stage.pass(50 * MS);
        assert_eq!(first.acknowledged(), 100);
        // A follower that accepted both says so while the leader does not listen.
        stage.world.pause(stage.nodes[leader], 100 * MS);
        for index in &others {
            stage.world.release_disk(stage.nodes[*index]);
        }
        stage.wait("one to go and the other to come", |_| {
            first.is_over() && second.is_open()
        });
        assert!(first.text().contains("ack 5100\n"), "{}", first.text());
        let is_superseded = first.text().contains("error superseded");
        assert_eq!(is_superseded, !half_closed, "{}", first.text());
        let read = stage.read_all();
        assert!(read == first.content(0..5_100));
    }
}

/// Its opening was proposed and may be chosen yet: the client must know that of its leader, or it
/// takes its own stream for another writer's.
#[test]
fn who_waits_for_its_stream_hears_from_a_deposed_leader_that_it_may_be_open() {
    let mut stage = Stage::three(1);
    let leader = stage.leader();
    stage.isolate(leader);
    let caller = stage.call(leader, "append main");
    stage.wait("an answer", |_| caller.is_over());
    let text = caller.text();
    assert!(text.starts_with("error not-leader stream="), "{text}");
    stage.world.heal_all();
    stage.wait_whole(3);
}

/// A close at a length that the stream has left behind comes before the writer's own.
#[test]
fn a_close_that_comes_to_nothing_is_not_held_against_the_writer() {
    let mut stage = Stage::three(1);
    let (leader, others) = stage.roles();
    let mut writer = stage.open(leader, "append main end=fin");
    stage.say_and_wait(&mut writer, 100);
    stage.wait_whole(3);
    for index in &others {
        stage.world.hang_disk(stage.nodes[*index]);
    }
    writer.say(&mut stage.world, 5_000);
    stage.pass(50 * MS);
    let close = format!("close main stream={} at=100", writer.stream());
    let other = stage.call(leader, &close);
    stage.pass(50 * MS);
    writer.half_close(&mut stage.world);
    stage.pass(50 * MS);
    for index in &others {
        stage.world.release_disk(stage.nodes[*index]);
    }
    stage.wait("both to hear", |_| writer.is_over() && other.is_over());
    assert!(
        writer.text().ends_with("closed 5100\n"),
        "{}",
        writer.text()
    );
    let refused = other.text();
    assert!(
        refused.starts_with("error continues length=5100"),
        "{refused}"
    );
}

#[test]
fn a_log_of_too_many_streams_opens_no_more_and_is_read_all_the_same() {
    let limits = replica::Limits {
        streams_max: 5,
        ..sim::workload::small_limits()
    };
    let mut stage = Stage::with_limits(1, 1, limits);
    let mut expected = Vec::new();
    for _ in 0..5 {
        let mut caller = stage.open(0, "append main mode=takeover");
        stage.say_and_wait(&mut caller, 100);
        expected.extend(caller.content(0..100));
    }
    let refused = stage.call(0, "append main mode=takeover");
    stage.wait("an answer", |_| refused.is_over());
    let text = refused.text();
    assert!(
        text.starts_with("error too-many-streams: main has 5 streams"),
        "{text}"
    );
    assert!(stage.read_all() == expected);
}

#[test]
fn who_waits_for_its_turn_and_vanishes_leaves_no_connection_behind() {
    let mut stage = Stage::three(1);
    let leader = stage.leader();
    let writer = stage.open(leader, "append main");
    let before = stage.world.open_connections(stage.nodes[leader]);
    for _ in 0..10 {
        let waiting = stage.call(leader, "append main mode=wait");
        stage.wait("its place in the queue", |_| {
            waiting.text().starts_with("waiting\n")
        });
        stage.world.crash(waiting.host);
    }
    stage.pass(5 * SECOND);
    let after = stage.world.open_connections(stage.nodes[leader]);
    assert!(after <= before, "{after} connections, and {before} before");
    assert!(!writer.is_over(), "{}", writer.text());
}

/// An answer may be long, and its client slow to take it.
#[test]
fn who_does_not_take_its_last_answer_counts_among_the_connections_until_it_is_given_up() {
    const CONNECTIONS: usize = 16;
    let limits = replica::Limits {
        connections_max: CONNECTIONS,
        ..sim::workload::small_limits()
    };
    let mut stage = Stage::with_limits(1, 1, limits);
    let model = &mut stage.world.network().model;
    model.send_buffer_bytes = 64;
    model.receive_buffer_bytes = 64;
    for _ in 1..CONNECTIONS {
        let slow = stage.call(0, "status");
        stage.wait("the answer to begin", |_| !slow.heard().is_empty());
        assert!(!slow.is_over());
        stage.world.pause(slow.host, 60 * SECOND);
    }
    let refused = stage.call(0, "logs");
    stage.wait("an answer", |_| refused.is_over());
    assert!(
        refused.text().starts_with("error overloaded"),
        "{}",
        refused.text()
    );
    // Nothing moves for so long that they are given up.
    stage.pass(12 * SECOND);
    let answered = stage.call(0, "logs");
    stage.wait("an answer", |_| answered.is_over());
    assert!(!answered.text().starts_with("error"), "{}", answered.text());
}

/// Connections kept for peers and `status` are kept from the crowd too.
#[test]
fn a_crowd_that_says_nothing_shuts_nobody_out() {
    const CONNECTIONS: usize = 16;
    let limits = replica::Limits {
        connections_max: CONNECTIONS,
        ..sim::workload::small_limits()
    };
    let mut stage = Stage::with_limits(1, 1, limits);
    let crowd: Vec<_> = (0..2 * CONNECTIONS).map(|_| stage.dial(0)).collect();
    stage.wait("the crowd to be too large", |_| {
        let said = crowd.iter().map(|caller| caller.text());
        let refused = said.filter(|text| text.starts_with("error overloaded"));
        refused.count() >= CONNECTIONS
    });
    for _ in 0..3 {
        let asks = stage.call(0, "status");
        stage.wait("an answer", |_| asks.is_over());
        assert!(asks.text().starts_with("ok "), "{}", asks.text());
    }
}

/// The kernel takes a line or two for a client that does not read. Further lines, one each second, would only
/// wait in the node's memory.
#[test]
fn who_waits_and_does_not_read_is_not_told_more_and_more() {
    let mut stage = Stage::three(1);
    let leader = stage.leader();
    let mut writer = stage.open(leader, &format!("append {LOG}"));
    stage.say_and_wait(&mut writer, 100);
    let waits = stage.call(leader, &format!("append {LOG} mode=wait"));
    let told = |waits: &Caller| {
        waits
            .text()
            .lines()
            .filter(|line| *line == "waiting")
            .count()
    };
    stage.wait("it to wait", |_| told(&waits) > 0);
    let before = told(&waits);
    // A connection on which nothing arrives is given up after 15 s.
    stage.world.network().model.send_buffer_bytes = 16;
    let node = stage.nodes[leader];
    stage.world.cut(node, waits.host);
    stage.pass(12 * SECOND);
    stage.world.heal_all();
    stage.world.network().model.send_buffer_bytes = 256 << 10;
    stage.pass(500 * MS);
    let more = told(&waits) - before;
    assert!(
        (1..=5).contains(&more),
        "{more} lines had been waiting for it"
    );
    stage.wait("to be told again", |_| told(&waits) > before + more);
}

/// mexos' Lots, harder: random partitions, restarts and losses for twenty seconds.
#[test]
fn all_agree_after_twenty_seconds_of_partitions_restarts_and_losses() {
    let acts = [
        (Act::CutPair, 3),
        (Act::Isolate, 2),
        (Act::CutOneWay, 1),
        (Act::Kill, 1),
        (Act::Vanish, 1),
        (Act::KillAll, 1),
    ];
    let mut swarm = Swarm {
        rest_us: 50_000..200_000,
        lasts_us: 50_000..1_000_000,
        victims_max: 2,
        acts: acts.to_vec(),
        ..Swarm::calm()
    };
    // A tenth of what is sent is lost, in both directions.
    swarm.network.losses = PerMillion(100_000);
    for seed in 0..3 {
        let mut stage = Stage::three(seed);
        let until = stage.world.now() + 20 * SECOND;
        let nodes = stage.nodes.clone();
        stage.world.unleash(swarm.clone(), &nodes, until);
        // One of them takes the log over from the other, again and again.
        let chains = [0, 1].map(|_| stage.add_writer(150_000, 1_000, 50 * MS));
        for chain in &chains {
            stage.add_reader(chain, false);
        }
        stage.pass(20 * SECOND + MS);
        assert!(stage.world.is_peace() && stage.world.acts() > 20);
        stage.wait("all of it", |_| {
            chains.iter().all(|chain| chain.borrow().closed)
        });
        stage.wait_for_readers();
        stage.wait_whole(3);
    }
}
