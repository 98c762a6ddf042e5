//! Forgetting, from outside: what is trimmed is gone on every node, what is not is read as before.

use crate::harness;

use std::fs;
use std::os::unix::fs::MetadataExt;

use harness::{Cluster, Content, Node, err, out, wait_for};
use serde_json::Value;

const MAIN: u32 = 1;
const MIB: u64 = 1 << 20;

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// The space that a log takes of a node's disk.
fn disk_bytes(node: &Node) -> u64 {
    let entries = fs::read_dir(node.data.join(format!("log-{MAIN}"))).expect("its directory");
    let blocks = entries.map(|entry| entry.unwrap().metadata().map_or(0, |m| m.blocks()));
    blocks.sum::<u64>() * 512
}

fn streams(cluster: &Cluster) -> Vec<Value> {
    let streams = json(&cluster.run_well(&["streams", "main", "--json"]));
    streams.as_array().expect("a list").clone()
}

fn number(value: &Value, key: &str) -> u64 {
    value[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key} of {value}"))
}

fn check_left(cluster: &Cluster, arguments: &[&str], content: Content) {
    let mut all = vec!["read", "main", "--left", "--timeout", "60"];
    all.extend(arguments);
    let output = cluster.run(&all);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(
        output.stdout == content.bytes(),
        "{arguments:?}: other bytes"
    );
}

#[test]
fn what_is_trimmed_is_gone_on_every_node_and_what_is_left_is_read_as_before() {
    let mut cluster = Cluster::start(3);
    let (old, new) = (Content::new(1, 12 * MIB), Content::new(2, 2 * MIB));
    cluster.append("main", &[], old);
    cluster.append("main", &["--label", "new"], new);
    cluster.wait_whole();
    let name = |at: usize| streams(&cluster)[at]["name"].as_str().unwrap().to_owned();
    let (one, second) = (name(0), name(1));
    let before: Vec<u64> = cluster.nodes.iter().map(disk_bytes).collect();

    let plan = ["trim", "main", "--before", &second, "--json", "--plan"];
    let planned = json(&cluster.run_well(&plan));
    assert_eq!(
        (number(&planned, "bytes"), number(&planned, "streams")),
        (12 * MIB, 1)
    );
    assert_eq!(streams(&cluster).len(), 2, "a plan changes nothing");
    let without = cluster.run(&plan[..5]);
    assert_eq!(without.status.code(), Some(2), "nobody said yes");
    assert!(
        err(&without).contains("this deletes 12.0 MiB of main, with 1 whole stream"),
        "{}",
        err(&without)
    );
    assert_eq!(streams(&cluster).len(), 2, "nothing was done");
    let meant = [&plan[..5], &["--yes"]].concat();
    let trimmed = json(&cluster.run_well(&meant));
    assert_eq!(trimmed, planned);
    assert_eq!(number(&trimmed, "left_from"), 12 * MIB);
    // Nobody has to say yes where all is forgotten already.
    let again = json(&cluster.run_well(&plan[..5]));
    assert_eq!(
        (number(&again, "bytes"), number(&again, "left_bytes")),
        (0, 2 * MIB)
    );

    // A reader of all the log gets what is left, and is told that there was more.
    let left = cluster.run(&["read", "main", "--timeout", "60"]);
    assert_eq!(left.status.code(), Some(0), "{}", err(&left));
    assert!(left.stdout == new.bytes(), "other bytes");
    let at = 12 * MIB;
    let said = format!("logberg: bytes before {at} were trimmed; reading from {at} on\n");
    assert_eq!(err(&left), said);

    // One that names a byte below the trim point is told where what is left begins, with a code of its own.
    let refused = cluster.run(&["read", "main", "--from", "0", "--json"]);
    assert_eq!(refused.status.code(), Some(7), "{}", err(&refused));
    let error = json(&err(&refused));
    assert_eq!(
        (&error["error"]["kind"], number(&error["error"], "from")),
        (&"trimmed".into(), 12 * MIB)
    );
    assert_eq!(out(&refused), "");
    let first = cluster.run(&["read", "main", &one]);
    assert_eq!(first.status.code(), Some(7), "{}", err(&first));
    let unknown = cluster.run(&["read", "main", "9.9.9"]);
    assert_eq!(unknown.status.code(), Some(5), "{}", err(&unknown));
    check_left(&cluster, &[], new);
    check_left(&cluster, &[&second], new);

    // Segments of 1, 2 and 4 MiB go; the one of 8 MiB has both.
    for (node, before) in cluster.nodes.iter().zip(before) {
        wait_for(
            || (disk_bytes(node) + 6 * MIB < before).then_some(()),
            || format!("{} of {before} bytes are left", disk_bytes(node)),
        );
        assert_eq!(
            node.of_log("main", "trimmed_bytes"),
            Some((12 * MIB).into())
        );
    }

    // Nothing comes back with a restart, nobody misses anything, and nothing is wrong with the disks.
    for node in &mut cluster.nodes {
        node.kill();
        let directory = node.data.to_str().unwrap();
        let verified = harness::logberg("127.0.0.1:1", &["verify", directory])
            .output()
            .unwrap();
        assert_eq!(
            verified.status.code(),
            Some(0),
            "{}{}",
            out(&verified),
            err(&verified)
        );
    }
    for node in &mut cluster.nodes {
        node.start();
    }
    cluster.wait_whole();
    assert_eq!(streams(&cluster).len(), 1);
    for node in &cluster.nodes {
        assert_eq!(node.output_bytes("main"), 2 * MIB);
        check_left(&cluster, &["--from-node", &node.id.to_string()], new);
    }
    // A stream that is gone is not continued, and its name is never used again.
    let more = Content::new(3, MIB);
    cluster.append("main", &[], more);
    assert_ne!(streams(&cluster)[1]["name"], one.as_str());
}

#[test]
fn a_node_that_was_away_skips_what_was_trimmed_meanwhile() {
    let mut cluster = Cluster::start(3);
    let away = cluster.follower("main");
    cluster.nodes[away].kill();
    let (old, new) = (Content::new(1, 6 * MIB), Content::new(2, 3 * MIB));
    cluster.append("main", &[], old);
    cluster.append("main", &[], new);
    let second = streams(&cluster)[1]["name"].as_str().unwrap().to_owned();
    // Inside the second stream: all but its last MiB.
    let place = format!("{second}@{}", 2 * MIB);
    let trimmed = json(&cluster.run_well(&["trim", "main", "--before", &place, "--json", "--yes"]));
    assert_eq!(
        (number(&trimmed, "bytes"), number(&trimmed, "left_bytes")),
        (8 * MIB, MIB)
    );
    cluster.nodes[away].start();
    cluster.wait_whole();
    let node = &cluster.nodes[away];
    assert_eq!(node.of_log("main", "trimmed_bytes"), Some((8 * MIB).into()));
    assert!(
        disk_bytes(node) < 3 * MIB,
        "{} were fetched",
        disk_bytes(node)
    );
    let tail = ["read", "main", "--from", "8MiB", "--from-node"];
    let read = cluster.run(&[&tail[..], &[&node.id.to_string()]].concat());
    assert_eq!(read.status.code(), Some(0), "{}", err(&read));
    assert!(
        read.stdout == new.bytes()[2 * MIB as usize..],
        "other bytes"
    );
}

#[test]
fn a_trim_that_cannot_be_meant_is_refused_with_a_reason() {
    let cluster = Cluster::start(1);
    cluster.append("main", &[], Content::new(1, 1000));
    let name = streams(&cluster)[0]["name"].as_str().unwrap().to_owned();
    let refused = |arguments: &[&str]| {
        let output = cluster.run(&[&["trim"], arguments].concat());
        (output.status.code().unwrap(), err(&output))
    };
    let (code, why) = refused(&["main", "--before", "9.9.9"]);
    assert_eq!(code, 5, "{why}");
    let (code, why) = refused(&["main", "--before", &format!("{name}@1001")]);
    assert!(
        code == 4 && why.contains("1000 bytes long"),
        "{code}: {why}"
    );
    // A typo deletes nothing.
    for (place, status, words) in [
        (
            "999999999999",
            2,
            "a bare number could be meant as bytes or as slots",
        ),
        (
            "1000",
            2,
            "a bare number could be meant as bytes or as slots",
        ),
        ("@999999999999", 4, "main has 1000 bytes of output"),
        ("@1001", 4, "main has 1000 bytes of output"),
        ("slot:999999999999", 4, "is past the end of main"),
    ] {
        for yes in [&[][..], &["--yes"]] {
            let (code, why) = refused(&[&["main", "--before", place], yes].concat());
            assert!(
                code == status && why.contains(words),
                "{place}: {code}: {why}"
            );
        }
    }
    let (code, why) = refused(&["directory", "--before", "@5"]);
    assert!(code == 2 && why.contains("log 0"), "{code}: {why}");
    let (code, why) = refused(&["nolog", "--before", "@5"]);
    assert_eq!(code, 5, "{why}");
    let (code, why) = refused(&["main", "--before", "yesterday"]);
    assert!(code == 2 && why.contains("STREAM@BYTES"), "{code}: {why}");
    assert_eq!(streams(&cluster)[0]["trimmed"], 0);
}

#[test]
fn a_position_means_the_same_to_a_trim_and_to_a_read() {
    let cluster = Cluster::start(1);
    let contents = [Content::new(1, 1000), Content::new(2, 500)];
    for content in contents {
        cluster.append("main", &[], content);
    }
    let all: Vec<u8> = contents
        .iter()
        .flat_map(|content| content.bytes())
        .collect();
    let second = streams(&cluster)[1]["name"].as_str().unwrap().to_owned();
    let mut from = 0;
    for (place, begins) in [
        ("@300".to_owned(), 300),
        ("@1000".to_owned(), 1000),
        // Inside the second stream, in both ways of saying it; and less than is gone already.
        ("@1100".to_owned(), 1100),
        ("@5".to_owned(), 1100),
        (format!("{second}@200"), 1200),
        ("@1.5k".to_owned(), 1500),
    ] {
        let trimmed =
            json(&cluster.run_well(&["trim", "main", "--before", &place, "--json", "--yes"]));
        assert_eq!(number(&trimmed, "left_from"), begins, "{place}");
        assert_eq!(number(&trimmed, "bytes"), begins - from, "{place}");
        from = begins;
        let read = cluster.run(&["read", "main", "--from", &format!("@{begins}")]);
        assert!(read.stdout == all[begins as usize..], "{place}");
        let before = cluster.run(&["read", "main", "--from", &(begins - 1).to_string()]);
        assert_eq!(before.status.code(), Some(7), "{place}");
    }
    let both = cluster.run(&["read", "main", &format!("{second}@10"), "--from", "20"]);
    assert_eq!(both.status.code(), Some(2), "{}", err(&both));
}

#[test]
fn a_log_keeps_what_its_retention_says() {
    let cluster = Cluster::start(3);
    // Nothing is there that could go.
    let said = cluster.run_well(&["log", "retain", "main", "2MiB"]);
    assert_eq!(said, "main: retention: 2MiB\n");
    let refused = cluster.run(&["log", "retain", "main", "7"]);
    assert_eq!(refused.status.code(), Some(2), "{}", err(&refused));
    let logs = json(&cluster.run_well(&["log", "list", "--json"]));
    assert_eq!(logs[1]["retention"], "2MiB", "{logs}");
    let all = 20 * MIB;
    cluster.append("main", &[], Content::new(1, all));
    let most = 2 * MIB + MIB / 8;
    for node in &cluster.nodes {
        wait_for(
            || (node.output_bytes("main") <= most).then_some(()),
            || {
                format!(
                    "{} bytes are kept\n{}",
                    node.output_bytes("main"),
                    node.said()
                )
            },
        );
        let kept = node.output_bytes("main");
        assert!(kept >= 2 * MIB, "{kept} bytes are kept");
        assert_eq!(
            node.of_log("main", "trimmed_bytes"),
            Some((all - kept).into())
        );
    }
    // What a bound deletes is said before, and a script has to mean it.
    for (bound, goes) in [("1MiB", "about 1.0"), ("1GiB,2s", "what is older than 2s")] {
        let plan = cluster.run_well(&["log", "retain", "main", bound, "--plan"]);
        assert!(plan.contains(&format!("would delete {goes}")), "{plan}");
        let unsure = cluster.run(&["log", "retain", "main", bound]);
        assert_eq!(unsure.status.code(), Some(2), "{}", err(&unsure));
        assert!(err(&unsure).contains("say --yes"), "{}", err(&unsure));
    }
    for node in &cluster.nodes {
        assert!(node.output_bytes("main") >= 2 * MIB, "nothing was done");
    }
    // By age: nothing is written any more, and soon everything is too old.
    cluster.run_well(&["log", "retain", "main", "1GiB,2s", "--yes"]);
    for node in &cluster.nodes {
        wait_for(
            || (node.output_bytes("main") == 0).then_some(()),
            || {
                format!(
                    "{} bytes are kept\n{}",
                    node.output_bytes("main"),
                    node.said()
                )
            },
        );
    }
}
