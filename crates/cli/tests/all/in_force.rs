//! Answers to operators are true: ok once a request is in force, and else what is agreed, and where it is not
//! in force.

use crate::harness;

use std::process::Output;

use harness::{Cluster, Content, err, out, wait_for};

/// Four nodes, of which three agree on log 0; the log `some` is on the last two alone.
fn cluster() -> Cluster {
    let cluster = Cluster::start_with(4, 3, |_| {});
    cluster.wait_whole();
    cluster.run_well(&["log", "create", "some", "--members", "3,4"]);
    cluster.append("some", &[], Content::new(1, 100_000));
    cluster
}

fn kill(cluster: &mut Cluster, indices: [usize; 2]) {
    for index in indices {
        cluster.nodes[index].kill();
    }
}

fn start(cluster: &mut Cluster, indices: [usize; 2]) {
    for index in indices {
        cluster.nodes[index].start();
    }
}

fn ends_with(output: &Output, code: i32, words: &[&str]) -> String {
    let said = out(output) + &err(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in {said:?}");
    }
    said
}

#[test]
fn what_a_log_cannot_hear_is_agreed_and_not_yet_in_force_and_the_same_command_waits_on() {
    let mut cluster = cluster();
    kill(&mut cluster, [2, 3]);
    // Nobody who runs hosts it, so nobody tells what a bound deletes: it is not set unasked.
    let unsure = ["--timeout", "5", "log", "retain", "some", "1GB"];
    ends_with(&cluster.run(&unsure), 2, &["say --yes"]);
    let retain = ["--timeout", "30", "log", "retain", "some", "1GB", "--yes"];
    let words = ["agreed, not yet in force in some", "repeat the command"];
    ends_with(&cluster.run(&retain), 10, &words);
    ends_with(&cluster.run(&retain), 10, &words);
    let says = |cluster: &Cluster, word: &str| out(&cluster.run(&["status"])).contains(word);
    wait_for(
        || says(&cluster, "what was agreed for some is not in force yet").then_some(()),
        || out(&cluster.run(&["status"])),
    );
    let shown = cluster.run_well(&["--timeout", "30", "log", "show", "some", "--json"]);
    assert!(
        shown.contains("\"1GB\"") || shown.contains("1000000000"),
        "{shown}"
    );
    let output = cluster.run(&[&["--json"][..], &retain].concat());
    let said = ends_with(&output, 10, &["\"not-in-force\""]);
    assert!(said.contains("\"logs\":[\"some\"]"), "{said}");
    let weight = [
        "--timeout",
        "30",
        "members",
        "weight",
        "3",
        "2",
        "--log",
        "some",
        "--force",
    ];
    ends_with(
        &cluster.run(&weight),
        10,
        &["agreed, not yet in force in some"],
    );
    start(&mut cluster, [2, 3]);
    ends_with(&cluster.run(&retain), 0, &["some: retention: 1GB"]);
    ends_with(&cluster.run(&weight), 0, &["done"]);
    wait_for(
        || (!says(&cluster, "not-in-force")).then_some(()),
        || out(&cluster.run(&["status"])),
    );
}

/// The cluster takes longer to say that a log cannot hear: that nobody leads log 0 would be untrue.
#[test]
fn who_waits_too_short_for_an_answer_is_told_that_there_is_none_yet() {
    let mut cluster = cluster();
    kill(&mut cluster, [2, 3]);
    let retain = ["log", "retain", "some", "1GB", "--yes"];
    let patient = [&["--timeout", "30"][..], &retain].concat();
    ends_with(
        &cluster.run(&patient),
        10,
        &["agreed, not yet in force in some"],
    );
    let hasty = [&["--timeout", "1"][..], &retain].concat();
    let words = [
        "there is no answer within",
        "was asked and has not answered yet",
        "ask again, and wait longer",
    ];
    let said = ends_with(&cluster.run(&hasty), 3, &words);
    assert!(!said.contains("no leader"), "{said}");
}

#[test]
fn a_name_is_freed_when_its_log_has_ended_or_when_somebody_types_it() {
    let mut cluster = cluster();
    kill(&mut cluster, [2, 3]);
    let delete = ["--timeout", "30", "log", "delete", "some"];
    ends_with(&cluster.run(&delete), 2, &["--yes"]);
    let with = |words: &[&'static str]| [&delete[..], words].concat();
    ends_with(
        &cluster.run(&with(&["--yes"])),
        10,
        &["agreed, not yet in force in some"],
    );
    let create = [
        "--timeout",
        "30",
        "log",
        "create",
        "some",
        "--members",
        "1,2",
    ];
    ends_with(
        &cluster.run(&create),
        10,
        &["has not ended yet", "--abandon"],
    );
    // Nobody types it by accident.
    for words in [&["--abandon"][..], &["--abandon", "--yes"]] {
        let explained = [
            "go on acknowledging",
            "lost",
            "--yes=some",
            "nothing was done",
        ];
        ends_with(&cluster.run(&with(words)), 2, &explained);
    }
    let other = ends_with(
        &cluster.run(&with(&["--abandon", "--yes=main"])),
        2,
        &["nothing was done"],
    );
    assert!(other.contains("\"main\""), "{other}");
    ends_with(&cluster.run(&create), 10, &["has not ended yet"]);
    ends_with(
        &cluster.run(&with(&["--abandon", "--yes=some"])),
        0,
        &["is deleted"],
    );
    ends_with(&cluster.run(&create), 0, &[]);
    let content = Content::new(2, 50_000);
    cluster.append("some", &[], content);
    start(&mut cluster, [2, 3]);
    let output = cluster.run(&["--timeout", "30", "read", "some"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(content.compare(&mut &output.stdout[..]), Ok(()));
    assert_eq!(output.stdout.len(), 50_000);
}

#[test]
fn a_deletion_waits_for_the_log_and_the_same_command_sees_its_end() {
    let mut cluster = cluster();
    kill(&mut cluster, [2, 3]);
    let delete = ["--timeout", "30", "log", "delete", "some", "--yes"];
    ends_with(
        &cluster.run(&delete),
        10,
        &["agreed, not yet in force in some"],
    );
    start(&mut cluster, [2, 3]);
    // The log is ended by itself now; a client that asks again waits for that, or comes too late.
    let output = cluster.run(&delete);
    assert!(
        matches!(output.status.code(), Some(0 | 5)),
        "{}",
        err(&output)
    );
    cluster.run_well(&[
        "--timeout",
        "30",
        "log",
        "create",
        "some",
        "--members",
        "1,2",
    ]);
}

#[test]
fn without_a_quorum_for_log_0_its_commands_say_that_it_is_log_0() {
    let mut cluster = Cluster::start(3);
    kill(&mut cluster, [1, 2]);
    let commands: [&[&str]; 7] = [
        &["status", "--fresh"],
        &["log", "retain", "main", "1GB"],
        &["log", "delete", "main", "--yes"],
        &["log", "create", "other"],
        &["log", "show", "main"],
        &["members"],
        &["members", "weight", "1", "2"],
    ];
    for command in commands {
        let output = cluster.run(&[&["--timeout", "2"][..], command].concat());
        let said = ["no leader of log 0, the cluster's directory, answered"];
        ends_with(&output, 3, &said);
    }
    for command in [
        &["streams", "main"][..],
        &["trim", "main", "--before", "@1", "--yes"],
    ] {
        let output = cluster.run(&[&["--timeout", "2"][..], command].concat());
        ends_with(&output, 3, &["no leader of the log main answered"]);
    }
    start(&mut cluster, [1, 2]);
    cluster.wait_whole();
    let shown = cluster.run_well(&["log", "show", "main"]);
    assert!(shown.contains("forever"), "nothing was changed: {shown}");
    let status = cluster.run(&["status", "--fresh"]);
    assert!(out(&status).contains("node 1"), "{}", out(&status));
}
