//! The benches of `logberg-lab`.

use std::path::Path;
use std::process::Output;

use crate::PROGRAM;
use crate::measured::{assert_empty, assert_report, command, json, number};

use serde_json::Value;

fn bench(directory: &Path, arguments: &str) -> Output {
    let output = command(PROGRAM, directory, arguments).output();
    output.expect("the program runs")
}

#[test]
fn cells_of_the_paper_stand_beside_what_was_published() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("paper.html");
    let arguments =
        "paper zero-copy-paxos --warm-up 0.2 --seconds 0.6 --cells 5M:1000,5M:1,2M:64KiB";
    let arguments = format!("{arguments} --report {}", page.display());
    let report = json(&bench(directory.path(), &arguments));
    assert_report(PROGRAM, &page, 8);
    let cells = report["cells"].as_array().unwrap();
    let sizes: Vec<f64> = cells
        .iter()
        .map(|cell| number(cell, "write_bytes"))
        .collect();
    assert_eq!(sizes, [1.0, 1000.0, 65_536.0]);
    for cell in cells {
        let ours = &cell["ours"];
        assert!(number(ours, "delivered") > 0.0, "{cell}");
        assert!(
            number(ours, "median_ms") <= number(ours, "p99_ms"),
            "{cell}"
        );
        assert!(number(ours, "batch_bytes") >= 1.0, "{cell}");
        assert!(
            number(&ours["figures"], "auxiliary_peak_mb") > 0.0,
            "{cell}"
        );
    }
    assert_eq!(cells[1]["published"]["latency_ms"][2], 14.152);
    assert!(
        cells[2]["published"].is_null(),
        "the paper has no such cell"
    );
    assert!(number(&cells[0]["floor"], "median_ms") > 0.0, "{report}");
    assert!(number(&report["limits"][0], "loopback_1_byte_writes_per_s") > 0.0);
    assert_empty(directory.path());
}

#[test]
fn a_raw_client_that_misses_has_the_floor_and_the_librarys_client_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    let arguments =
        "paper zero-copy-paxos --client raw --warm-up 0.2 --seconds 0.6 --cells 1M:1000,100M:1";
    let report = json(&bench(directory.path(), arguments));
    let cells = report["cells"].as_array().unwrap();
    // No client makes a hundred million calls a second.
    let (raw, beside) = (&cells[0], &cells[0]["library"]);
    assert_eq!(number(raw, "write_bytes"), 1.0);
    assert!(number(&raw["floor"], "delivered") < 0.98, "{raw}");
    assert!(
        number(beside, "writes_mhz") > number(&raw["ours"], "writes_mhz"),
        "{raw}"
    );
    let mut checks = report["checks"].as_array().unwrap().iter();
    let found = checks.find(|check| check["name"] == "most writes, library/raw");
    assert!(found.is_some(), "{report}");
    assert_empty(directory.path());
}

#[test]
fn a_cluster_serves_again_and_a_lost_node_is_filled() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("recover.html");
    let arguments = "recover --bytes 8MiB --times 1 --rate 1M --seconds 0.5";
    let arguments = format!("{arguments} --report {}", page.display());
    let report = json(&bench(directory.path(), &arguments));
    assert_report(PROGRAM, &page, 1);
    for key in ["flat_out_mb_per_s", "serving_median_ms", "refill_ratio"] {
        assert!(number(&report, key) > 0.0, "{key}: {report}");
    }
    assert_eq!(report["restarts"].as_array().unwrap().len(), 1);
    for refill in ["refill", "refill_under_load"] {
        let bytes = number(&report[refill], "bytes");
        assert!(bytes >= f64::from(8 << 20), "{report}");
        assert!(number(&report[refill], "mb_per_s") > 0.0, "{report}");
    }
    assert!(number(&report["refill_under_load"], "ratio_p99") > 0.0);
    assert_empty(directory.path());
}

#[test]
fn a_disk_that_is_too_small_is_refused_before_anything_starts() {
    let directory = tempfile::tempdir().unwrap();
    let output = bench(directory.path(), "memory --bytes 1000000GiB");
    assert_eq!(output.status.code(), Some(4));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("are free"), "{said}");
    assert!(said.contains("--directory"), "{said}");
    assert_empty(directory.path());
}

#[test]
fn an_auxiliary_saves_a_copy_and_stands_in_when_a_follower_dies() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "auxiliary --times 1 --seconds 1 --rate 4M --watched 5";
    // The amount saved is a measurement, and on a busy machine the auxiliary may stand in, for a follower
    // that got no turn, even all of a second. The test can only assert that something can be saved.
    let saves = |report: &Value| {
        let (three, cheap) = (&report["three_copies"], &report["with_an_auxiliary"]);
        let mut figures = ["leader_sends", "disks_total"].into_iter();
        let less = figures.all(|figure| number(cheap, figure) < number(three, figure));
        let auxiliary = cheap["disks"][2].as_f64().expect("a figure for each disk");
        less && auxiliary < number(cheap, "disks_total") / 3.0
    };
    let mut reports = Vec::new();
    while !reports.last().is_some_and(saves) {
        assert!(reports.len() < 4, "{reports:?}");
        reports.push(json(&bench(directory.path(), arguments)));
    }
    assert!(
        reports
            .iter()
            .all(|report| number(report, "pause_max_ms") > 0.0)
    );
    assert_empty(directory.path());
}

#[test]
fn idle_logs_are_created_looked_at_and_led_again() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "many-logs --logs 12 --seconds 0.5 --at-once 4";
    let report = json(&bench(directory.path(), arguments));
    assert_eq!(number(&report, "logs"), 12.0);
    for figure in ["created_in_s", "led_after_s"] {
        assert!(number(&report, figure) > 0.0, "{report}");
    }
    let nodes = report["nodes"].as_array().expect("a list");
    assert_eq!(nodes.len(), 3);
    for node in nodes {
        for figure in [
            "peak_rss_bytes",
            "disk_bytes",
            "open_files",
            "answers_after_s",
        ] {
            assert!(number(node, figure) > 0.0, "{report}");
        }
    }
    assert_empty(directory.path());
}

#[test]
fn active_logs_are_compared_with_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("logs.html");
    let arguments = "many-logs --active 1,3 --rate 1M --write-size 4KiB --seconds 1 --warm-up 0.3";
    let arguments = format!("{arguments} --report {}", page.display());
    let report = json(&bench(directory.path(), &arguments));
    assert_report(PROGRAM, &page, 2);
    let active = report["active"].as_array().unwrap();
    let logs: Vec<f64> = active.iter().map(|one| number(one, "logs")).collect();
    assert_eq!(logs, [1.0, 3.0]);
    let best = active.iter().map(|one| number(one, "of_best"));
    assert_eq!(best.fold(0.0, f64::max), 1.0);
    for one in active {
        assert!(number(&one["figures"], "mb_per_s") > 0.0, "{one}");
    }
    assert!(number(&active[1]["figures"], "p99_most_of_least_log") >= 1.0);
    assert_empty(directory.path());
}

#[test]
fn rivals_that_are_not_installed_are_skipped_with_the_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "rivals --times 1 --seconds 0.5 --write-size 4KiB";
    // No other program is to be found there.
    let mut command = command(PROGRAM, directory.path(), arguments);
    let output = command.env("PATH", directory.path()).output();
    let report = json(&output.expect("the program runs"));
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 1);
    assert_eq!(results[0]["durability"], "durable");
    assert!(number(&results[0], "mb_per_s") > 0.0, "{report}");
    assert_eq!(number(&results[0], "we_mb_per_s_ratio"), 1.0);
    let skipped = report["skipped"].as_array().unwrap();
    assert_eq!(skipped.len(), 2, "{report}");
    for said in skipped {
        assert!(said.as_str().unwrap().contains("--rivals DIR"), "{said}");
    }
    assert_empty(directory.path());
}

#[test]
fn a_leader_whose_disk_stalls_is_replaced_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "failover --times 1 --mode disk-stall --rate 1M";
    let report = json(&bench(directory.path(), arguments));
    assert_eq!(number(&report, "lost_bytes"), 0.0);
    assert!(number(&report, "acked_bytes") > 0.0);
    // Long before the disk comes back.
    assert!(number(&report, "max_ms") < 20_000.0, "{report}");
    assert_empty(directory.path());
}

#[test]
fn a_machine_is_measured_and_its_losses_are_made_good() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "guest --state 2MB --flush 500kB --seconds 0.5 --times 1 --callers 8 --loss-callers 2 --rate 1M";
    let report = json(&bench(directory.path(), arguments));
    let turns = report["turns"].as_array().expect("a list");
    let of: Vec<_> = turns
        .iter()
        .map(|turn| (turn["what"].as_str(), number(turn, "callers")))
        .collect();
    let (submits, appends) = (Some("submits"), Some("appends"));
    let expected = [
        (submits, 1.0),
        (appends, 1.0),
        (submits, 8.0),
        (appends, 8.0),
    ];
    assert_eq!(of, expected);
    assert!(
        turns.iter().all(|turn| number(turn, "answered") > 0.0),
        "{report}"
    );
    for figure in [
        "fill_mb_per_s",
        "ratio_p99_to_log",
        "answers_after_median_ms",
    ] {
        assert!(number(&report, figure) > 0.0, "{figure}: {report}");
    }
    let refill = &report["refill"];
    assert!(
        number(refill, "trimmed_bytes") > 0.0,
        "it is copied: {report}"
    );
    let (whole, reads) = (
        number(refill, "whole_after_s"),
        number(refill, "reads_after_s"),
    );
    assert!(0.0 < whole && whole <= reads, "{report}");
    let memory = report["memory"].as_array().expect("a list");
    assert_eq!(memory.len(), 9, "three nodes, looked at three times");
    assert!(memory.iter().all(|one| number(one, "rss_mb") > 0.0));
    assert_empty(directory.path());
}

#[test]
fn named_streams_are_measured_and_every_append_is_there_once() {
    let arguments =
        "http --clients 1,3 --streams 2 --value-size 64 --seconds 0.5 --times 1 --read-bytes 2MiB";
    let directory = tempfile::tempdir().unwrap();
    let output = command(PROGRAM, directory.path(), arguments).output();
    let report = json(&output.expect("the program runs"));
    let cells = report["cells"].as_array().expect("a list");
    let counts = cells.iter().map(|cell| number(cell, "clients"));
    assert_eq!(counts.collect::<Vec<_>>(), [1.0, 3.0]);
    for cell in cells {
        assert!(number(cell, "per_s") > 0.0, "{cell}");
        assert!(number(cell, "p50_ms") <= number(cell, "p99_ms"), "{cell}");
        assert_eq!(number(cell, "failed"), 0.0, "{cell}");
        assert!(cell["reference"].is_null(), "{cell}");
    }
    assert!(number(&cells[0], "raw_append_p50_ms") > 0.0, "{report}");
    assert!(cells[1]["raw_append_p50_ms"].is_null(), "{report}");
    for figure in ["lost_appends", "doubled_appends"] {
        assert_eq!(number(&report, figure), 0.0, "{report}");
    }
    let reads = report["whole_reads"].as_array().expect("a list");
    let places: Vec<_> = reads.iter().map(|read| read["place"].as_str()).collect();
    assert_eq!(places, [Some("leader"), Some("follower")]);
    assert_eq!(report["peaks"].as_array().map(Vec::len), Some(3));
}

#[test]
fn keys_are_measured_and_every_value_that_is_read_is_right() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "kv --keys 300 --clients 4 --pipeline 3 --value-size 64 --seconds 0.5 --times 1 --failover 1 --idle 20";
    // No rival is to be found there.
    let mut command = command(PROGRAM, directory.path(), arguments);
    let output = command.env("PATH", directory.path()).output();
    let report = json(&output.expect("the program runs"));
    let loads = |part: &str| {
        let all = report[part].as_array().expect("a list").iter();
        let load = |one: &Value| {
            let op = one["op"].as_str().expect("a name").to_owned();
            (op, number(one, "clients"), number(one, "pipeline"))
        };
        all.map(load).collect::<Vec<_>>()
    };
    let counts = [(1.0, 1.0), (4.0, 1.0), (4.0, 3.0)];
    let of = |op: &str| counts.map(|(clients, pipeline)| (op.to_owned(), clients, pipeline));
    let expected = [of("set"), of("get")].concat();
    for part in ["cells", "roles"] {
        assert_eq!(loads(part), expected, "{part}");
        for one in report[part].as_array().unwrap() {
            assert!(number(one, "ops_per_s") > 0.0, "{one}");
            assert!(number(one, "p50_ms") <= number(one, "p99_ms"), "{one}");
            assert_eq!(number(one, "wrong"), 0.0, "{one}");
        }
    }
    let cells = report["cells"].as_array().unwrap();
    assert!(number(&cells[0], "raw_append_p50_ms") > 0.0, "{report}");
    assert!(cells[1]["raw_append_p50_ms"].is_null(), "{report}");
    assert!(cells.iter().all(|cell| number(cell, "cpu_us_per_op") > 0.0));
    for figure in ["leader_cpu_us_per_op", "followers_cpu_us_per_op"] {
        let of_set = &report["roles"].as_array().unwrap()[1];
        assert!(number(of_set, figure) > 0.0, "{figure}: {report}");
    }
    let failover = &report["failover"];
    assert_eq!(failover["all_ms"].as_array().map(Vec::len), Some(1));
    assert!(number(failover, "max_ms") > 0.0, "{report}");
    assert_eq!(number(failover, "lost"), 0.0);
    assert_eq!(number(&report["idle"], "connections"), 20.0);
    assert!(number(&report["idle"], "before_mb") > 0.0, "{report}");
    let skipped = report["skipped"].as_array().unwrap();
    assert_eq!(skipped.len(), 2, "{report}");
    for said in skipped {
        assert!(said.as_str().unwrap().contains("--rivals DIR"), "{said}");
    }
    assert_empty(directory.path());
}
