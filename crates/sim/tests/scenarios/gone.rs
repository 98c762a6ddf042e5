//! Writers that go without a word, and come back, or not.

use formats::Speaks;
use wire::ReadEnd;

use crate::caller::Caller;
use crate::stage::{MS, SECOND, Stage};

/// A writer of a hundred bytes on the leader, and somebody who follows its stream at this node.
fn followed(stage: &mut Stage, at: usize) -> (Caller, Caller) {
    let leader = stage.leader();
    let mut writer = stage.open(leader, "append main");
    stage.say_and_wait(&mut writer, 100);
    let reader = follow(stage, at, &writer.stream());
    (writer, reader)
}

fn follow(stage: &mut Stage, at: usize, stream: &str) -> Caller {
    let request = format!("read main stream={stream} follow=1 format=framed");
    let reader = stage.call(at, &request);
    stage.wait("the reader to begin", |_| !reader.heard().is_empty());
    reader
}

fn has_ended(reader: &Caller, position: u64, end: ReadEnd) -> bool {
    let last = format!("end {position} {end}\n");
    reader.is_over() && reader.heard().ends_with(last.as_bytes())
}

/// The end that `streams` tells of the only stream, or of the first.
fn is_said_to_be(stage: &mut Stage, end: &str) {
    let leader = stage.leader();
    let list = stage.call(leader, "streams main");
    stage.wait("the list", |_| list.is_over());
    let (text, end) = (list.text(), format!("\"end\":\"{end}\""));
    assert!(text.contains(&end), "{text}");
}

fn cuts(stage: &Stage) -> u64 {
    let counts = |index| stage.look().counts(index).map_or(0, |c| c.streams_cut);
    (0..stage.nodes.len()).map(counts).sum()
}

#[test]
fn a_writer_that_is_gone_is_cut_and_who_follows_it_hears_so() {
    for seed in 0..3 {
        let mut stage = Stage::three(seed);
        let (leader, others) = stage.roles();
        let (writer, at_follower) = followed(&mut stage, others[0]);
        let at_leader = follow(&mut stage, leader, &writer.stream());
        stage.world.crash(writer.host);
        stage.pass(9 * SECOND);
        assert!(!at_leader.is_over() && !at_follower.is_over());
        is_said_to_be(&mut stage, "open");
        stage.wait_within(3 * SECOND, "the readers to be told", |_| {
            let mut readers = [&at_leader, &at_follower].into_iter();
            readers.all(|reader| has_ended(reader, 100, ReadEnd::Cut))
        });
        is_said_to_be(&mut stage, "cut");
        // Who comes later hears it at once.
        let late = follow(&mut stage, others[1], &writer.stream());
        stage.wait_within(SECOND, "the late one to be told", |_| {
            has_ended(&late, 100, ReadEnd::Cut)
        });
        // It can be closed no more, and continued all the same.
        let close = format!("close main stream={} at=100", writer.stream());
        let close = stage.call(leader, &close);
        stage.wait("an answer", |_| close.is_over());
        let refused = close.text();
        assert!(
            refused.starts_with("error superseded: ") && refused.contains("continue it"),
            "{refused}"
        );
        let back = format!("append main continues={}@100 end=fin", writer.stream());
        let mut back = stage.open(leader, &back);
        assert!(back.text().contains(" at=100\n"), "{}", back.text());
        stage.say_and_wait(&mut back, 50);
        back.half_close(&mut stage.world);
        stage.wait("its end", |_| back.is_over());
        let whole = follow(&mut stage, others[0], &writer.stream());
        stage.wait("all of it", |_| has_ended(&whole, 150, ReadEnd::Closed));
        let mut expected = writer.content(0..100);
        expected.extend(back.content(0..50));
        assert!(stage.read_all() == expected);
        assert_eq!(cuts(&stage), 1);
    }
}

#[test]
fn a_writer_that_comes_back_in_time_is_not_cut() {
    for seed in 0..3 {
        let mut stage = Stage::three(seed);
        let leader = stage.leader();
        let (writer, reader) = followed(&mut stage, leader);
        let mut place = format!("{}@100", writer.stream());
        stage.world.crash(writer.host);
        // Three times, together longer than one absence may be.
        for _ in 0..3 {
            stage.pass(8 * SECOND);
            let mut back = stage.open(leader, &format!("append main continues={place}"));
            place = format!("{}@50", back.stream());
            stage.say_and_wait(&mut back, 50);
            stage.world.crash(back.host);
        }
        assert!(!reader.is_over(), "nobody was gone for ten seconds");
        assert_eq!(cuts(&stage), 0);
        stage.wait("the cut", |_| has_ended(&reader, 250, ReadEnd::Cut));
        assert_eq!(cuts(&stage), 1);
    }
}

/// It has nothing to say for long, and is there.
#[test]
fn a_writer_that_says_nothing_is_not_cut() {
    let mut stage = Stage::three(1);
    let (_, others) = stage.roles();
    let (mut writer, reader) = followed(&mut stage, others[0]);
    stage.pass(60 * SECOND);
    stage.say_and_wait(&mut writer, 1);
    assert!(!reader.is_over() && !writer.is_over());
    assert_eq!(cuts(&stage), 0);
}

#[test]
fn the_next_leader_counts_the_time_anew_and_cuts() {
    for seed in 0..3 {
        let mut stage = Stage::three(seed);
        let (leader, others) = stage.roles();
        let (writer, reader) = followed(&mut stage, others[0]);
        let name = writer.stream();
        stage.world.crash(writer.host);
        stage.pass(8 * SECOND);
        stage.crash(leader);
        stage.wait("another leader", |look| {
            look.leader().is_some_and(|now| now != leader)
        });
        stage.pass(9 * SECOND);
        assert_eq!(cuts(&stage), 0, "its writer may be on the way to it");
        is_said_to_be(&mut stage, "open");
        stage.wait_within(4 * SECOND, "the cut", |look| {
            let counts = others.iter().filter_map(|index| look.counts(*index));
            counts.map(|counts| counts.streams_cut).sum::<u64>() == 1
        });
        // A reader is at a node that may have taken over from its leader; who lost it asks again.
        let reader = match reader.is_over() {
            true => follow(&mut stage, others[0], &name),
            false => reader,
        };
        stage.wait_within(2 * SECOND, "the reader to be told", |_| {
            has_ended(&reader, 100, ReadEnd::Cut)
        });
        stage.restart(leader);
        stage.wait_whole(3);
        assert!(stage.read_all() == writer.content(0..100));
    }
}

/// The old leader, whom nobody hears, cuts nothing; the next one does, once for all.
#[test]
fn a_leader_without_a_quorum_cuts_nothing() {
    for seed in 0..3 {
        let mut stage = Stage::three(seed);
        let (leader, others) = stage.roles();
        let (writer, _) = followed(&mut stage, others[0]);
        let name = writer.stream();
        stage.world.crash(writer.host);
        for other in &others {
            stage.cut_both(leader, *other);
        }
        stage.cut_both(others[0], others[1]);
        stage.pass(30 * SECOND);
        assert_eq!(cuts(&stage), 0, "nobody has a quorum");
        for other in &others {
            let look = stage.look();
            let state = look.view_of(*other, "main").map(|view| view.state.clone());
            assert!(state.is_some_and(|state| state.current.is_some()));
        }
        stage.world.heal_all();
        stage.wait_whole(3);
        // It comes back within the time of the leader that it finds, and goes on in the same chain.
        let leader = stage.leader();
        let mut back = stage.open(leader, &format!("append main continues={name}@100"));
        stage.say_and_wait(&mut back, 50);
        assert_eq!(cuts(&stage), 0);
        stage.world.crash(back.host);
        stage.wait("the cut", |look| {
            let counts = (0..3).filter_map(|index| look.counts(index));
            counts.map(|counts| counts.streams_cut).sum::<u64>() == 1
        });
        let mut expected = writer.content(0..100);
        expected.extend(back.content(0..50));
        assert!(stage.read_all() == expected);
    }
}

/// Its cut would be an action that the older program does not know, and that stops its replica.
#[test]
fn nothing_is_cut_before_all_programs_know_how() {
    let limits = replica::Limits {
        version_settle: SECOND,
        ..sim::workload::small_limits()
    };
    let speaks = |text: &str| -> Speaks { text.parse().expect("it is a range") };
    let mut stage = Stage::of_program(speaks("1"), 1, 3, limits);
    stage.next_program(Speaks::THIS);
    stage.add_node();
    stage.add_node();
    stage.wait_whole(3);
    let (_, others) = stage.roles();
    let (writer, _) = followed(&mut stage, others[0]);
    stage.world.crash(writer.host);
    stage.pass(25 * SECOND);
    assert_eq!(cuts(&stage), 0, "an older program is there");
    assert!((0..3).all(|index| !stage.look().stopped(index)));
    is_said_to_be(&mut stage, "open");
    stage.crash(0);
    stage.pass(200 * MS);
    stage.give_program(0, Speaks::THIS);
    stage.restart(0);
    stage.wait("the cut", |look| {
        let counts = (0..3).filter_map(|index| look.counts(index));
        counts.map(|counts| counts.streams_cut).sum::<u64>() == 1
    });
    stage.wait_whole(3);
    assert!(stage.read_all() == writer.content(0..100));
}

/// Another writer's stream ends the one before at once: it is nobody's any more.
#[test]
fn who_follows_a_stream_that_was_taken_over_hears_so_at_once() {
    let mut stage = Stage::three(1);
    let (leader, others) = stage.roles();
    let (_, reader) = followed(&mut stage, others[0]);
    let second = stage.open(leader, "append main mode=takeover");
    stage.wait_within(SECOND, "the reader to be told", |_| {
        has_ended(&reader, 100, ReadEnd::Cut)
    });
    assert!(!second.is_over());
    assert_eq!(cuts(&stage), 0);
}
