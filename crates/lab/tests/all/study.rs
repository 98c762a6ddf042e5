//! The papers' experiments, as small as they can be, with real nodes.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::PROGRAM;

fn lab(directory: &Path, arguments: &str) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments.split(' ')).arg("--json");
    if !arguments.starts_with("mex messages") && !arguments.starts_with("all") {
        command.arg("--directory").arg(directory);
    }
    command.output().expect("the program runs")
}

fn run(directory: &Path, arguments: &str) -> Value {
    let output = lab(directory, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {said}");
    let run: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(run["format"], "logberg.lab/1");
    assert_eq!(run["run"]["complete"], true, "{run}");
    let left = std::fs::read_dir(directory).expect("it is there").count();
    assert_eq!(left, 0, "nothing is left behind");
    run
}

fn check<'a>(run: &'a Value, name: &str) -> &'a Value {
    let mut checks = run["checks"].as_array().expect("checks").iter();
    let found = checks.find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("{name}: {}", run["checks"]))
}

fn variants(run: &Value, of: &str) -> Vec<String> {
    let cells = run[of].as_array().expect("a list").iter();
    let names = cells.map(|cell| cell["variant"].as_str().expect("a name").to_owned());
    let mut names: Vec<String> = names.collect();
    names.dedup();
    names
}

#[test]
fn a_replica_comes_back_with_its_disk_and_without_and_every_value_is_right() {
    let directory = tempfile::tempdir().unwrap();
    let run = run(
        directory.path(),
        "mex recovery --bytes 1MiB --value-sizes 5KB",
    );
    let names = variants(&run, "cells");
    assert_eq!(names, ["disk lost", "disk kept", "all crashed, disks kept"]);
    assert_eq!(run["counts"]["bytes of values"], 1 << 20);
}

#[test]
fn the_same_proposals_go_by_other_ways_between_the_nodes() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "ramp size --rounds 6 --sizes 1000 --transports tcp,count,memory,grpc-stream";
    let run = run(directory.path(), arguments);
    let names = variants(&run, "cells");
    for name in ["disk", "ram+count", "disk+memory", "ram+grpc-stream"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    // Two followers of three nodes are proposed to, and each accepts.
    let counts = &run["counts"];
    for kind in ["propose", "accepted"] {
        let frames = &counts[format!("1000 B: {kind}, frames of 100 proposals")];
        assert!(frames.as_u64() >= Some(200), "{counts}");
    }
}

#[test]
fn two_proposers_learn_one_value_of_each_decree() {
    let directory = tempfile::tempdir().unwrap();
    let run = run(
        directory.path(),
        "ramp size --rounds 6 --sizes 10 --proposers 2",
    );
    let names = variants(&run, "cells");
    for name in ["disk+1p", "disk+2p+all", "page-cache+2p"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    let bins = run["cells"][0]["histogram"]["counts"].as_array();
    assert_eq!(bins.expect("a histogram").len(), 20);
}

#[test]
fn workloads_are_done_by_each_way_between_nodes() {
    let directory = tempfile::tempdir().unwrap();
    let ways = "--transports tcp,unix,grpc-stream";
    let contended = run(
        directory.path(),
        &format!("ramp workload b --rounds 6 {ways}"),
    );
    let names = variants(&contended, "cells");
    for name in ["one", "one+unix-again", "two+grpc-stream", "two, all+unix"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    assert_eq!(contended["counts"]["split"], 0);
    let deaths = run(
        directory.path(),
        &format!("ramp workload c --deaths 1 {ways}"),
    );
    let names = variants(&deaths, "cells");
    assert!(names.contains(&"first after a death+unix".to_owned()));
    assert_eq!(deaths["counts"]["deaths"], 3);
    assert_eq!(check(&deaths, "decrees lost or split")["ours"], 0.0);
    let refused = lab(directory.path(), "ramp workload a --transports tcp,memory");
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn nodes_with_slow_timers_agree() {
    let directory = tempfile::tempdir().unwrap();
    let run = run(
        directory.path(),
        "ramp machines --rounds 6 --machines 3 --time-scale 3",
    );
    let names = variants(&run, "cells");
    assert!(names.contains(&"ram+timers×3".to_owned()), "{names:?}");
    let refused = lab(directory.path(), "ramp machines --machines 40 --rounds 6");
    let said = String::from_utf8_lossy(&refused.stdout).into_owned();
    let said = said + &String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("--time-scale 10"), "{said}");
}

#[test]
fn ways_are_beside_each_other_for_who_waits_and_flat_out() {
    let directory = tempfile::tempdir().unwrap();
    let run = run(directory.path(), "zcp stack --rounds 6 --ways tcp,unix");
    assert_eq!(variants(&run, "cells"), ["tcp", "unix", "tcp-again"]);
    assert_eq!(variants(&run, "rates"), ["tcp", "unix", "tcp-again"]);
}

#[test]
fn batches_have_their_work_and_their_sizes() {
    let directory = tempfile::tempdir().unwrap();
    let arguments =
        "zcp batches --quick --rounds 6 --sizes 1,1000,100000 --rates 1M,20M --connections 1,2";
    let run = run(directory.path(), arguments);
    let groups = run["groups"].as_array().expect("groups");
    let title = |group: &Value| group["title"].as_str().map(str::to_owned);
    let titles: Vec<String> = groups.iter().filter_map(title).collect();
    let cpu = "CPU of a write in three real nodes".to_owned();
    assert!(titles.contains(&cpu), "{titles:?}");
    let sizes = groups.last().expect("some")["measures"].as_array();
    let names = ["p10", "p25", "p50", "p75", "p90", "p99", "mean"];
    assert_eq!(sizes.expect("measures").len(), names.len() * 2 * 2);
    check(&run, "nodes, 100 KB/1 KB, CPU");
    check(&run, "batch by bytes, fastest/slowest rate");
}

#[test]
fn slots_move_although_the_node_that_gives_them_dies() {
    let directory = tempfile::tempdir().unwrap();
    let run = run(
        directory.path(),
        "mex move --kill --bytes 1MiB --value-sizes 5KB",
    );
    let names = variants(&run, "cells");
    assert_eq!(names, ["at rest", "its leader dies"]);
}

#[test]
fn leaders_that_do_phase_1_for_each_batch_serve_keys() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "mex kv --quick --rounds 6 --slice 0.5 --phase-one per-batch,per-batch-ahead --transports unix";
    let run = run(directory.path(), arguments);
    for of in ["cells", "rates"] {
        let names = variants(&run, of);
        for kind in ["per-batch", "per-batch-ahead", "unix"] {
            let name = format!("1 group x 3, many keys, {kind}");
            assert!(names.contains(&name), "{of}: {names:?}");
        }
    }
    check(&run, "vanilla/leader, latency");
    check(&run, "unix/tcp, keys, latency");
}

#[test]
fn a_client_goes_on_while_a_replica_recovers() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "mex recovery --beside --disk lost,kept --bytes 1MiB --value-sizes 5KB";
    let run = run(directory.path(), arguments);
    let names = variants(&run, "cells");
    for name in ["a client before", "a client while one recovers, disk kept"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    check(&run, "longest wait while a replica recovers, ms");
}

#[test]
fn groups_of_many_replicas_and_few_take_turns() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "mex replicas --replicas 1,3 --rounds 6 --slice 0.1";
    let run = run(directory.path(), arguments);
    for of in ["cells", "rates"] {
        let names = variants(&run, of);
        for name in ["one key", "many keys", "many keys-again"] {
            assert!(names.iter().any(|found| found == name), "{of}: {names:?}");
        }
    }
    let published = run["published"].as_array().expect("numbers");
    assert!(published.iter().all(|number| number["unit"] == "per_s"));
    let rounds = run["rates"][0]["slices_per_s"].as_array().expect("slices");
    assert_eq!(rounds.len(), 6);
}

#[test]
fn changes_of_the_map_move_no_more_slots_than_they_must() {
    let directory = tempfile::tempdir().unwrap();
    let run = run(directory.path(), "mex controller --rounds 6");
    assert_eq!(check(&run, "moves beyond the fewest")["ours"], 0.0);
    assert!(run["counts"]["slots moved"].as_u64() > Some(6 * 4 * 2_730));
}

#[test]
fn all_keeps_runs_and_makes_a_page_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("runs");
    let all = format!("all --quick --only messages --to {}", to.display());
    let output = lab(directory.path(), &all);
    assert!(output.status.success(), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told[0]["experiment"], "mex messages");
    let page = std::fs::read_to_string(to.join("index.html")).expect("a page");
    assert!(page.contains("mex messages"));
    assert_eq!(told[0]["end"], "whole");
    // As docs/runs has them.
    let kept = std::fs::File::open(to.join("mex-messages.json.gz")).expect("a run");
    let kept = flate2::read::GzDecoder::new(kept);
    let run: Value = serde_json::from_reader(kept).expect("JSON");
    // Counts of the engine, which no machine changes.
    for (name, ours) in [
        ("requests, vanilla/leader", 2.0),
        ("requests of an agreement, leader", 2.0),
    ] {
        assert_eq!(check(&run, name)["ours"], ours);
    }
    let output = lab(
        directory.path(),
        &format!("all --only nothing --to {}", to.display()),
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn machines_that_share_nothing_are_equal_for_equal_seeds() {
    let directory = tempfile::tempdir().unwrap();
    let of = |seed: u32| {
        let command = format!("ramp simulated --machines 3,9 --rounds 6 --seed {seed}");
        run(directory.path(), &command)
    };
    let first = of(7);
    // Each follower is told once, and says once that it accepted.
    let frames = "frames of a proposal and follower, simulated";
    assert_eq!(check(&first, frames)["ours"], 2.0);
    let again = of(7);
    assert_eq!(first["cells"], again["cells"]);
    assert_ne!(first["cells"], of(8)["cells"]);
    for variant in first["variants"].as_array().expect("variants") {
        assert_eq!(variant["transport"], "simulated");
    }
}
