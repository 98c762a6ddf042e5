//! Forgetting, while nodes are away, die, or read.

use std::time::Duration;

use ops::Time;
use sim::client::{Trimmer, TrimmerConfig};

use crate::caller::Caller;
use crate::stage::{LOG, MS, SECOND, Stage};

/// The leader's answer to one request.
fn asked(stage: &mut Stage, request: &str) -> String {
    let leader = stage.leader();
    let caller = stage.call(leader, request);
    stage.wait("an answer", |_| caller.is_over());
    caller.text()
}

/// The name of a stream of which something was acknowledged.
fn name_of(writer: &Caller) -> String {
    let text = writer.text();
    text.split(' ').nth(1).expect("its name").to_owned()
}

/// A replica that was away lacks bytes that nobody has any more.
#[test]
fn a_follower_behind_the_trim_point_skips_what_no_longer_exists() {
    for seed in 0..5 {
        let mut stage = Stage::three(seed);
        let (leader, others) = stage.roles();
        let away = others[0];
        let mut writer = stage.open(leader, &format!("append {LOG}"));
        stage.say_and_wait(&mut writer, 10_000);
        let name = name_of(&writer);
        stage.crash(away);
        stage.say_and_wait(&mut writer, 700_000);
        let answer = asked(&mut stage, &format!("trim {LOG} before={name}@705000"));
        assert!(answer.contains("\"bytes\":705000"), "{answer}");
        stage.say_and_wait(&mut writer, 20_000);
        stage.restart(away);
        stage.wait_whole(3);
        let fetched: u64 = stage.look().node(away).map_or(0, |node| {
            node.log_views().map(|view| view.counts.bytes_fetched).sum()
        });
        assert!(fetched < 100_000, "it fetched {fetched} bytes");
        let read = asked(&mut stage, &format!("read {LOG} from=704999"));
        assert!(read.starts_with("error trimmed from=705000:"), "{read}");
    }
}

/// All at once, at every moment after the answer: what was trimmed stays trimmed, and no leader waits
/// for bytes that no disk has.
#[test]
fn power_loss_on_all_nodes_after_a_trim_leaves_nobody_waiting_for_trimmed_bytes() {
    for seed in 0..12 {
        let mut stage = Stage::three(seed);
        let leader = stage.leader();
        let mut writer = stage.open(leader, &format!("append {LOG}"));
        stage.say_and_wait(&mut writer, 600_000);
        let name = name_of(&writer);
        let answer = asked(&mut stage, &format!("trim {LOG} before={name}@600000"));
        assert!(answer.starts_with("ok "), "{answer}");
        stage.pass(Duration::from_millis(2 * seed));
        for index in 0..3 {
            stage.cut_power(index);
        }
        for index in 0..3 {
            stage.restart(index);
        }
        stage.wait_whole(3);
        let table = asked(&mut stage, &format!("streams {LOG}"));
        assert!(
            table.contains("\"length\":600000,\"trimmed\":600000"),
            "{table}"
        );
        let leader = stage.leader();
        let next = format!("append {LOG} continues={name}@600000");
        let mut writer = stage.open(leader, &next);
        stage.say_and_wait(&mut writer, 5_000);
        assert!(writer.text().contains("at=600000\n"), "{}", writer.text());
    }
}

#[test]
fn a_reader_is_overtaken_by_a_trim_and_told_where_to_go_on() {
    for seed in 0..4 {
        let mut stage = Stage::three(seed);
        let chain = stage.add_writer(300_000, 5_000, 20 * MS);
        for follow in [true, false, false] {
            stage.add_reader(&chain, follow);
        }
        let config = TrimmerConfig {
            log: LOG.to_owned(),
            nodes: stage.addresses.clone(),
            rest_us: 1_000..100_000,
            patience_us: 2_000_000,
        };
        let trimmer = stage.world.add_host("trimmer");
        let shared = chain.clone();
        let started = stage.world.start(trimmer, move |_, _: Time| {
            let trimmer = Trimmer::new(seed, config.clone(), shared.clone());
            Ok(Box::new(trimmer))
        });
        started.expect("it needs no disk");
        stage.pass(400 * MS);
        let leader = stage.leader();
        stage.crash(leader);
        stage.pass(SECOND);
        stage.restart(leader);
        stage.wait("all of it", |_| chain.borrow().closed);
        stage.wait_for_readers();
        assert!(chain.borrow().trimmed > 0, "nobody was told of a trim");
        stage.wait_whole(3);
    }
}

/// The segments' births tell the ages, whichever node leads, and nobody's memory alone does.
#[test]
fn an_age_outlives_restarts_and_forgets_nothing_that_is_younger() {
    let mut stage = Stage::three(7);
    let retain = format!("retain {LOG} retention=60s");
    let answers: Vec<String> = (0..3)
        .map(|index| {
            let caller = stage.call(index, &retain);
            stage.wait("an answer", |_| caller.is_over());
            caller.text()
        })
        .collect();
    let granted = answers.iter().filter(|answer| answer.starts_with("ok "));
    assert_eq!(granted.count(), 1, "{answers:?}");
    let leader = stage.leader();
    let mut old = stage.open(leader, &format!("append {LOG}"));
    stage.say_and_wait(&mut old, 50_000);
    stage.pass(40 * SECOND);
    let leader = stage.leader();
    let young = format!("append {LOG} mode=takeover");
    let mut young = stage.open(leader, &young);
    stage.say_and_wait(&mut young, 20_000);
    for index in 0..3 {
        stage.cut_power(index);
        stage.restart(index);
    }
    stage.wait_whole(3);
    // The old bytes are older than the births of this start, and the young ones, too.
    stage.pass(50 * SECOND);
    let table = asked(&mut stage, &format!("streams {LOG}"));
    assert!(table.contains("\"length\":20000,\"trimmed\":0"), "{table}");
    stage.pass(30 * SECOND);
    let table = asked(&mut stage, &format!("streams {LOG}"));
    // As many bytes may be left as there were actions since: the trim of the old ones, here.
    let gone = |bytes: u64| table.contains(&format!("\"length\":20000,\"trimmed\":{bytes}"));
    assert!((19_998..=20_000).any(gone), "{table}");
    assert!(!table.contains("50000"), "{table}");
}
