//! The benches of `logberg`.

use std::path::Path;
use std::process::Output;

use crate::harness::BINARY as PROGRAM;
use crate::measured::{assert_empty, assert_report, command, json, number};

use serde_json::Value;

fn bench(directory: &Path, arguments: &str) -> Output {
    let output = command(PROGRAM, directory, arguments).output();
    output.expect("the program runs")
}

/// The figure of the cluster, of its floor, or their ratio.
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
    assert_report(PROGRAM, &page, 5);
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
fn readers_are_given_what_is_written_and_what_was() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("read.html");
    let arguments =
        "read --rate 1M --followers 1,3 --spread --history 4MiB --seconds 0.6 --warm-up 0.3";
    let arguments = format!("{arguments} --report {}", page.display());
    let report = json(&bench(directory.path(), &arguments));
    assert_report(PROGRAM, &page, 3);
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
fn a_killed_leader_is_replaced_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("failover.html");
    let arguments = "failover --times 1 --mode kill --rate 1M --report";
    let arguments = format!("{arguments} {}", page.display());
    let report = json(&bench(directory.path(), &arguments));
    assert_report(PROGRAM, &page, 1);
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
