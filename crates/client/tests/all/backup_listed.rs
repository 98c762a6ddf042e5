//! A backup of a log whose streams are listed with another length than its output has.

use std::io::Write;

use crate::fake::{FakeCluster, payload};
use client::AppendOptions;
use client::backup::TakeError;

/// The log's two streams have 7,000 bytes together; the first is listed with `length`.
fn backed_up(length: Option<u64>) -> Result<u64, TakeError> {
    let lies: Vec<(usize, u64)> = length.map(|length| (0, length)).into_iter().collect();
    backed_up_with(&lies)
}

/// Streams by their places, and the lengths with which they are listed.
fn backed_up_with(lies: &[(usize, u64)]) -> Result<u64, TakeError> {
    let cluster = FakeCluster::start(1);
    for bytes in [payload(5000, 1), payload(2000, 2)] {
        let appender = cluster.client().append("main", AppendOptions::default());
        let mut appender = appender.expect("free");
        appender.write_all(&bytes).expect("room");
        appender.close().expect("a clean end");
    }
    cluster.truth().logs.push("main".to_owned());
    cluster.truth().listed_lengths = lies.to_vec();
    let to = tempfile::tempdir().expect("a directory");
    let file = to.path().join("b.lbb");
    let taken = cluster
        .client()
        .back_up("main", &file, String::new(), |_, _| {});
    assert_eq!(file.exists(), taken.is_ok(), "no part of a backup is left");
    taken.map(|taken| taken.bytes)
}

/// The sum is that of the log, so that only reading tells.
#[test]
fn a_stream_that_is_listed_longer_than_it_is_makes_no_backup() {
    let error = backed_up_with(&[(0, 5001), (1, 1999)]).expect_err("the list is wrong");
    let told = matches!(error, TakeError::Shorter { to: 5001, .. });
    assert!(told, "{error}");
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
