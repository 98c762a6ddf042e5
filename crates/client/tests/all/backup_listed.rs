//! A backup of a log whose streams are listed with another length than its output has.

use std::io::Write;

use crate::fake::{FakeCluster, payload};
use client::AppendOptions;
use client::backup::TakeError;

/// The log's two streams have 7,000 bytes together; the first is listed with `length`.
fn backed_up(length: Option<u64>) -> Result<u64, TakeError> {
    let cluster = FakeCluster::start(1);
    for bytes in [payload(5000, 1), payload(2000, 2)] {
        let appender = cluster.client().append("main", AppendOptions::default());
        let mut appender = appender.expect("free");
        appender.write_all(&bytes).expect("room");
        appender.close().expect("a clean end");
    }
    cluster.truth().logs.push("main".to_owned());
    cluster.truth().listed_length = length;
    let to = tempfile::tempdir().expect("a directory");
    let file = to.path().join("b.lbb");
    let taken = cluster
        .client()
        .back_up("main", &file, String::new(), |_, _| {});
    assert_eq!(file.exists(), taken.is_ok(), "no part of a backup is left");
    taken.map(|taken| taken.bytes)
}

#[test]
fn a_list_that_is_too_short_or_too_long_makes_no_backup() {
    assert_eq!(backed_up(None).expect("it is taken"), 7000);
    for lie in [0, 4999, 5001, u64::MAX] {
        let error = backed_up(Some(lie)).expect_err("the list is wrong");
        let told = matches!(error, TakeError::Contradiction { held: 7000, .. });
        assert!(told, "{lie}: {error}");
    }
}
