//! The directory's answers while its leaders change, its logs end, and others ask for the same.

use std::time::Duration;

use crate::caller::Caller;
use crate::stage::{MS, SECOND, Stage, done};

fn granted(stage: &mut Stage, request: &str) {
    let answer = done(stage, request);
    assert!(answer.starts_with("ok "), "{request}: {answer}");
}

/// All at once, each of its own node. Their answers.
fn at_once(stage: &mut Stage, requests: &[(usize, String)]) -> Vec<String> {
    let calls = requests.iter();
    let calls: Vec<Caller> = calls.map(|(index, ask)| stage.call(*index, ask)).collect();
    stage.wait("all the answers", |_| calls.iter().all(Caller::is_over));
    calls.iter().map(Caller::text).collect()
}

fn directs(stage: &Stage) -> Option<usize> {
    let look = stage.look();
    let leads = |index: &usize| {
        let view = look.view_of(*index, node::directory::DIRECTORY_NAME);
        view.is_some_and(|view| matches!(view.role, paxos::Role::Leader { .. }))
    };
    (0..stage.nodes.len()).find(leads)
}

#[test]
fn of_two_who_make_a_log_of_one_name_with_different_settings_one_is_told_so() {
    let mut stage = Stage::three(1);
    let leader = directs(&stage).expect("three nodes are whole");
    for round in 0..10 {
        let make = format!("create-log twice-{round}");
        let narrow = format!("{make} retention=1GiB");
        let answers = at_once(&mut stage, &[(leader, make), (leader, narrow)]);
        let made = answers.iter().filter(|a| a.starts_with("ok ")).count();
        let refused = answers.iter().filter(|a| a.starts_with("error exists"));
        assert_eq!((made, refused.count()), (1, 1), "{answers:?}");
    }
}

/// Each operator has a log of its own, asks for the next as soon as the last was answered, and gets in nobody's way.
#[test]
fn nobody_is_told_of_another_operator_who_was_not_there() {
    const LOGS: usize = 6;
    let mut stage = Stage::three(2);
    for log in 0..LOGS {
        granted(&mut stage, &format!("create-log l{log}"));
    }
    stage.pass(SECOND);
    let leader = directs(&stage).expect("three nodes are whole");
    let mut asked = [0; LOGS];
    let mut ask = |stage: &mut Stage, log: usize| {
        asked[log] += 1;
        stage.call(
            leader,
            &format!("retain l{log} retention={}GiB", asked[log]),
        )
    };
    let mut calls: Vec<Caller> = (0..LOGS).map(|log| ask(&mut stage, log)).collect();
    for answered in 0..900 {
        stage.wait("an answer", |_| calls.iter().any(Caller::is_over));
        let over = calls.iter().position(Caller::is_over).expect("just seen");
        let answer = calls[over].text();
        assert!(answer.starts_with("ok "), "after {answered}: {answer}");
        calls[over] = ask(&mut stage, over);
    }
}

/// The old leader does not know yet that there is another.
#[test]
fn a_deposed_leader_of_the_directory_lists_nothing_of_before() {
    for seed in 0..6 {
        let mut stage = Stage::three(seed);
        let old = directs(&stage).expect("three nodes are whole");
        let others: Vec<usize> = (0..3).filter(|index| *index != old).collect();
        for other in &others {
            stage.cut_both(old, *other);
        }
        let mut asked = Vec::new();
        for _ in 0..40 {
            for request in ["members", "logs", "show-log main", "status fresh=1"] {
                asked.push((stage.world.now(), stage.call(old, request)));
            }
            stage.pass(50 * MS);
        }
        let is_old = |index: Option<usize>| index.is_none_or(|index| index == old);
        assert!(
            !is_old(others.iter().copied().find(|index| {
                let look = stage.look();
                let view = look.view_of(*index, node::directory::DIRECTORY_NAME);
                view.is_some_and(|view| matches!(view.role, paxos::Role::Leader { .. }))
            })),
            "nobody else leads"
        );
        stage.pass(10 * SECOND);
        for (at, caller) in asked {
            let text = caller.text();
            assert!(
                !text.starts_with("ok "),
                "seed {seed}, asked at {at:?}: {text}"
            );
        }
    }
}

/// A node that was away has the old log of that name, and perhaps led it.
#[test]
fn a_log_that_was_made_anew_is_not_unknown_to_who_was_away() {
    for seed in 0..12 {
        let mut stage = Stage::three(seed);
        granted(&mut stage, "create-log some");
        stage.wait("its leader", |look| {
            (0..3).any(|index| {
                let view = look.view_of(index, "some");
                view.is_some_and(|view| matches!(view.role, paxos::Role::Leader { .. }))
            })
        });
        let away = seed as usize % 3;
        stage.isolate(away);
        stage.pass(3 * SECOND);
        granted_but(&mut stage, away, "delete-log some");
        granted_but(&mut stage, away, "create-log some");
        stage.world.heal_all();
        let mut asked = Vec::new();
        for _ in 0..60 {
            for request in [
                "read some",
                "streams some",
                "append some label=a",
                "lead some",
            ] {
                asked.push(stage.call(away, request));
            }
            stage.pass(20 * MS);
        }
        stage.pass(5 * SECOND);
        for caller in asked {
            let text = caller.text();
            assert!(!text.contains("unknown-log"), "seed {seed}: {text}");
        }
        let streams = stage.call(away, "streams some");
        stage.wait("an answer", |_| streams.is_over());
        let text = streams.text();
        assert!(text.starts_with("ok ["), "seed {seed}: {text}");
    }
}

/// The log may exist: a node that is cut off cannot know. It tells what it has read of the directory so far
/// only to clients that ask for that.
#[test]
fn a_node_that_is_cut_off_denies_no_log_and_tells_what_it_knew_when_asked_for_that() {
    let mut stage = Stage::three(4);
    granted(&mut stage, "create-log known");
    stage.pass(SECOND);
    let away = 2;
    stage.isolate(away);
    stage.pass(3 * SECOND);
    granted_but(&mut stage, away, "create-log unheard");
    for request in ["read nowhere", "append unheard", "streams unheard", "logs"] {
        let asked = stage.world.now();
        let call = stage.call(away, request);
        stage.wait("an answer", |_| call.is_over());
        let text = call.text();
        let elsewhere = ["error no-quorum", "error not-leader"];
        let is_sent_on = elsewhere.iter().any(|word| text.starts_with(word));
        assert!(is_sent_on, "{request}: {text}");
        let waited = stage.world.now() - asked;
        assert!(waited < Duration::from_secs(3), "{request}: {waited:?}");
    }
    for request in ["logs stale=1", "members local=1"] {
        let call = stage.call(away, request);
        stage.wait("an answer", |_| call.is_over());
        let text = call.text();
        assert!(text.starts_with("ok "), "{request}: {text}");
        assert!(!text.contains("unheard"), "{request}: {text}");
        assert!(text.contains("\"known\""), "{request}: {text}");
    }
}

/// As [`granted`], by those that are there.
fn granted_but(stage: &mut Stage, away: usize, request: &str) {
    for round in 0..400 {
        let index = round % stage.nodes.len();
        if index == away {
            continue;
        }
        let caller = stage.call(index, request);
        stage.wait("an answer", |_| caller.is_over());
        if caller.text().starts_with("ok ") {
            return;
        }
        stage.pass(50 * MS);
    }
    panic!("nobody does {request}");
}
