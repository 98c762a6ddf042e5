//! The benches as a user runs them: they measure, they end, and they leave nothing.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(directory: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logberg"));
    command.arg("bench").args(arguments.split_whitespace());
    command.args(["--json", "--directory", &directory.to_string_lossy()]);
    command.output().expect("the program runs")
}

/// Where no other program is to be found.
fn bench_alone(directory: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logberg"));
    command.arg("bench").args(arguments.split_whitespace());
    command.args(["--json", "--directory", &directory.to_string_lossy()]);
    command
        .env("PATH", directory)
        .output()
        .expect("the program runs")
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn number(report: &Value, key: &str) -> f64 {
    let value = report[key].as_f64();
    value.unwrap_or_else(|| panic!("{key} in {report}"))
}

fn assert_empty(directory: &Path) {
    let left: Vec<_> = std::fs::read_dir(directory).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// One page with so many plots and nothing to fetch; it is gone afterwards.
fn assert_report(path: &Path, plots: usize) {
    let html = std::fs::read_to_string(path).expect("a report was asked for");
    assert_eq!(html.matches("<svg").count(), plots);
    assert_eq!(html.matches("</svg>").count(), plots);
    assert!(html.contains("<td>") && html.contains("logberg bench "));
    for fetched in ["src=", "href=", "url("] {
        assert!(!html.contains(fetched), "{fetched}");
    }
    std::fs::remove_file(path).unwrap();
}

/// Of the cluster, of its floor, or the ratio.
fn figure(report: &Value, name: &str, of: &str) -> f64 {
    let value = report["figures"][name][of].as_f64();
    value.unwrap_or_else(|| panic!("{name} of {of} in {report}"))
}

#[test]
fn append_is_measured_beside_its_floor_and_the_machine() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("report.html");
    let arguments = "append --seconds 2 --alternations 1 --warm-up 0.2 --report";
    let arguments = format!("{arguments} {}", page.display());
    let report = json(&bench(directory.path(), &arguments));
    assert_report(&page, 5);
    for key in ["acked_mb_per_s", "floor_mb_per_s", "ratio"] {
        assert!(number(&report, key) > 0.0, "{key}");
    }
    for name in [
        "writes_per_s",
        "p50_ms",
        "cpu_s_per_gb",
        "leader_cpu_s_per_gb",
        "follower_cpu_s_per_gb",
        "client_cpu_s_per_gb",
        "leader_peak_mb",
        "mean_batch_bytes",
        "mean_ack_bytes",
    ] {
        for of in ["cluster", "floor", "ratio"] {
            assert!(figure(&report, name, of) > 0.0, "{name} of {of}: {report}");
        }
    }
    for of in ["cluster", "floor"] {
        let quantiles = ["p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms"];
        let quantiles = quantiles.map(|name| figure(&report, name, of));
        assert!(quantiles.is_sorted(), "{quantiles:?}");
        let roles = ["leader", "follower"].map(|role| format!("{role}_cpu_s_per_gb"));
        let roles: f64 = roles.iter().map(|name| figure(&report, name, of)).sum();
        let all = figure(&report, "cpu_s_per_gb", of);
        assert!((roles / all - 1.0).abs() < 0.01, "{roles} of {all}");
    }
    assert!(number(&report["limits"], "memory_copy_mb_per_s") > 0.0);
    assert!(number(&report["shares"], "of_memory_copy") > 0.0);
    assert!(number(&report["machine"], "cores") >= 1.0);
    assert_eq!(report["segments"], "fresh");
    let turns = report["alternations"].as_array().unwrap();
    assert_eq!(turns.len(), 1);
    let moments = turns[0]["cluster"]["over_time"].as_array().unwrap();
    assert!(moments.len() > 1, "{report}");
    assert_empty(directory.path());
}

#[test]
fn single_bytes_of_a_foreign_client_are_gathered_into_batches() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "append --seconds 1 --alternations 1 --warm-up 0.2 --write-size 1 --raw-writes";
    let report = json(&bench(directory.path(), arguments));
    assert_eq!(report["raw_writes"], true);
    assert!(number(&report, "acked_mb_per_s") > 0.0);
    assert!(
        figure(&report, "mean_batch_bytes", "cluster") > 2.0,
        "{report}"
    );
    assert_empty(directory.path());
}

#[test]
fn two_paced_clients_beside_an_idle_log_and_an_auxiliary_keep_their_rate() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "append --seconds 4 --alternations 1 --warm-up 0.5 --clients 2 --logs 3 \
                     --auxiliary --rate 1M --write-size 1KiB";
    let report = json(&bench(directory.path(), arguments));
    for key in ["acked_mb_per_s", "floor_mb_per_s"] {
        let rate = number(&report, key);
        assert!((0.1..1.5).contains(&rate), "{key}: {rate}");
    }
    assert!(figure(&report, "p99_most_of_least_log", "cluster") >= 1.0);
    assert_empty(directory.path());
}

#[test]
fn more_clients_than_logs_are_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let output = bench(directory.path(), "append --clients 2 --logs 1");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("one writer at a time"), "{said}");
}

#[test]
fn cells_of_the_paper_stand_beside_what_was_published() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("paper.html");
    let arguments =
        "paper zero-copy-paxos --warm-up 0.2 --seconds 0.6 --cells 5M:1000,5M:1,2M:64KiB";
    let arguments = format!("{arguments} --report {}", page.display());
    let report = json(&bench(directory.path(), &arguments));
    assert_report(&page, 11);
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
    assert_eq!(number(&cells[1]["published"], "median_ms"), 14.152);
    assert!(
        cells[2]["published"].is_null(),
        "the paper has no such cell"
    );
    assert_empty(directory.path());
}

#[test]
fn readers_are_given_what_is_written_and_what_was() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("read.html");
    let arguments =
        "read --rate 1M --followers 1,3 --spread --history 4MiB --seconds 0.6 --warm-up 0.3";
    let arguments = format!("{arguments} --report {}", page.display());
    let report = json(&bench(directory.path(), &arguments));
    assert_report(&page, 3);
    let phases = report["phases"].as_array().unwrap();
    let of: Vec<_> = phases.iter().map(|phase| phase["of"].as_str()).collect();
    assert_eq!(of, [Some("tail"), Some("tail"), Some("history")]);
    for phase in phases {
        assert!(number(phase, "delivered_mb_per_s") > 0.0, "{phase}");
        assert!(number(phase, "ratio_p99") > 0.0, "{phase}");
        for load in ["with", "without"] {
            assert!(number(&phase[load], "mb_per_s") > 0.0, "{phase}");
        }
    }
    assert_empty(directory.path());
}

#[test]
fn a_cluster_serves_again_and_a_lost_node_is_filled() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("recover.html");
    let arguments = "recover --bytes 8MiB --times 1 --rate 1M --seconds 0.5";
    let arguments = format!("{arguments} --report {}", page.display());
    let report = json(&bench(directory.path(), &arguments));
    assert_report(&page, 1);
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
fn a_killed_leader_is_replaced_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("failover.html");
    let arguments = "failover --times 1 --mode kill --rate 1M --report";
    let arguments = format!("{arguments} {}", page.display());
    let report = json(&bench(directory.path(), &arguments));
    assert_report(&page, 1);
    assert!(number(&report, "median_ms") > 0.0);
    assert_eq!(number(&report, "lost_bytes"), 0.0);
    assert!(number(&report, "acked_bytes") > 0.0);
    assert_empty(directory.path());
}

#[test]
fn a_leader_that_vanishes_is_replaced_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "failover --times 1 --mode silent --rate 1M --client-silence 1";
    let report = json(&bench(directory.path(), arguments));
    assert_eq!(number(&report, "lost_bytes"), 0.0);
    assert_empty(directory.path());
}

#[test]
fn a_machine_is_described_in_a_moment() {
    let directory = tempfile::tempdir().unwrap();
    let report = json(&bench(directory.path(), "machine --seconds 0.05"));
    assert!(number(&report, "copy_gb_per_s") > 0.0);
    assert!(!report["writes"].as_array().unwrap().is_empty());
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
    let arguments = "auxiliary --times 1 --seconds 1 --rate 4M";
    // How much is saved is a measurement, and on a busy machine the auxiliary may stand in, for a
    // follower that got no turn, even all of a second. That something can be saved can be asserted.
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
    assert_report(&page, 2);
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
    let report = json(&bench_alone(directory.path(), arguments));
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
