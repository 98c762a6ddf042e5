//! Who writes on where a log's leader is new, and openings whose answers were lost.

use crate::caller::Caller;
use crate::stage::{SECOND, Stage, done};

/// Moves the leader of `main`, and returns where it is now.
fn move_leader(stage: &mut Stage) -> usize {
    let (leader, _) = stage.roles();
    let told = done(stage, "lead main");
    assert!(told.starts_with("ok "), "{told}");
    stage.wait("another leader", |look| {
        look.leader().is_some_and(|now| now != leader)
    });
    stage.leader()
}

/// A writer that was acknowledged 100 bytes, and the log's next leader.
fn moved_away_from(stage: &mut Stage) -> (Caller, usize) {
    let leader = stage.leader();
    let mut writer = stage.open(leader, "append main");
    stage.say_and_wait(&mut writer, 100);
    let next = move_leader(stage);
    stage.wait("the writer to be told", |_| writer.is_over());
    (writer, next)
}

/// Whether its stream is open; it may have heard before that it waits.
fn has_turn(caller: &Caller) -> bool {
    caller
        .text()
        .lines()
        .any(|line| line.starts_with("stream "))
}

fn hears(stage: &mut Stage, caller: &Caller, line: &str) {
    stage.wait_within(2 * SECOND, line, |_| caller.text().contains(line));
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_move_leaves_the_log_to_its_writer_whoever_comes_first() {
    for seed in 0..3 {
        let mut stage = Stage::three(seed);
        let (writer, next) = moved_away_from(&mut stage);
        let waits = stage.call(next, "append main mode=wait end=fin");
        let asks = stage.call(next, "append main");
        hears(&mut stage, &waits, "waiting");
        stage.pass(2 * SECOND);
        assert!(!has_turn(&waits) && !has_turn(&asks) && !asks.is_over());
        let back = format!("append main continues={}@100 end=fin", writer.stream());
        let mut back = stage.open(next, &back);
        stage.say_and_wait(&mut back, 50);
        stage.wait("the other to be refused", |_| asks.is_over());
        assert!(asks.text().starts_with("error busy"), "{}", asks.text());
        stage.pass(10 * SECOND);
        assert!(!has_turn(&waits), "there is a writer");
        back.half_close(&mut stage.world);
        stage.wait("its turn", |_| has_turn(&waits));
        let mut expected = writer.content(0..100);
        expected.extend(back.content(0..50));
        assert!(stage.read_all() == expected);
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
fn a_writer_that_does_not_come_keeps_the_log_for_five_seconds() {
    for seed in 0..3 {
        let mut stage = Stage::three(seed);
        let (_, next) = moved_away_from(&mut stage);
        let waits = stage.call(next, "append main mode=wait");
        stage.pass(4 * SECOND);
        assert!(!has_turn(&waits));
        stage.wait_within(2 * SECOND, "its turn", |_| has_turn(&waits));
    }
}

/// It says that it means it.
#[cfg_attr(not(feature = "mutations"), test)]
fn who_takes_over_waits_for_no_claim() {
    let mut stage = Stage::three(1);
    let (_, next) = moved_away_from(&mut stage);
    let takes = stage.call(next, "append main mode=takeover");
    stage.wait_within(SECOND, "the stream to open", |_| takes.is_open());
}

#[cfg_attr(not(feature = "mutations"), test)]
fn a_log_without_a_writer_is_claimed_by_nobody() {
    let mut stage = Stage::three(1);
    let leader = stage.leader();
    let mut writer = stage.open(leader, "append main end=fin");
    stage.say_and_wait(&mut writer, 100);
    writer.half_close(&mut stage.world);
    stage.wait("its end", |_| writer.is_over());
    let next = move_leader(&mut stage);
    let other = stage.call(next, "append main");
    stage.wait_within(SECOND, "the stream to open", |_| other.is_open());
}

/// The client never heard the answer: its next attempt bears the same token, and goes on with that very stream.
#[cfg_attr(not(feature = "mutations"), test)]
fn an_opening_that_was_not_answered_is_found_again_by_its_token() {
    for moves in [false, true] {
        let mut stage = Stage::three(1);
        let mut leader = stage.leader();
        let first = stage.open(leader, "append main token=7af3");
        stage.world.crash(first.host);
        if moves {
            leader = move_leader(&mut stage);
        }
        let mut again = stage.open(leader, "append main token=7af3 end=fin");
        hears(&mut stage, &again, " at=0\n");
        stage.say_and_wait(&mut again, 50);
        again.half_close(&mut stage.world);
        stage.wait("its end", |_| again.is_over());
        let list = stage.call(leader, "streams main");
        stage.wait("the list", |_| list.is_over());
        let continued = format!("\"continues\":{{\"stream\":\"{}\"", first.stream());
        assert!(list.text().contains(&continued), "{}", list.text());
        // What was written is no opening that was not answered.
        let other = stage.open(leader, "append main token=7af3");
        let list = stage.call(leader, "streams main");
        stage.wait("the list", |_| list.is_over());
        let again = format!("\"continues\":{{\"stream\":\"{}\"", again.stream());
        assert!(!list.text().contains(&again), "{}", list.text());
        drop(other);
    }
}

/// It asked to continue a stream, and its first attempt did: its next one asks for the same, which is not there any more.
#[cfg_attr(not(feature = "mutations"), test)]
fn a_continuation_that_was_not_answered_is_found_again_by_its_token() {
    for moves in [false, true] {
        let mut stage = Stage::three(1);
        let mut leader = stage.leader();
        let mut writer = stage.open(leader, "append main");
        stage.say_and_wait(&mut writer, 100);
        stage.world.crash(writer.host);
        let name = writer.stream();
        let asks = format!("append main mode=takeover continues={name}@100 token=7af3");
        let first = stage.open(leader, &asks);
        stage.world.crash(first.host);
        if moves {
            leader = move_leader(&mut stage);
        }
        let mut again = stage.open(leader, &format!("{asks} end=fin"));
        hears(&mut stage, &again, " at=100\n");
        stage.say_and_wait(&mut again, 50);
        again.half_close(&mut stage.world);
        stage.wait("its end", |_| again.is_over());
        let list = stage.call(leader, "streams main");
        stage.wait("the list", |_| list.is_over());
        for stream in [name, first.stream()] {
            let continued = format!("\"continues\":{{\"stream\":\"{stream}\"");
            assert!(list.text().contains(&continued), "{}", list.text());
        }
        // Whoever has another token, or none, hears that it is continued.
        let other = stage.call(leader, &asks.replace("7af3", "0001"));
        hears(&mut stage, &other, "error continues ");
    }
}
