//! Requests that name the cluster that they mean.

use crate::caller::Caller;
use crate::stage::{Stage, done};

/// After a rescue, two clusters may have the same logs at the same addresses.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_request_that_names_another_cluster_does_nothing() {
    let mut stage = Stage::three(1);
    let another = "00112233-4455-6677-8899-aabbccddeeff";
    for index in 0..stage.nodes.len() {
        for request in [
            format!("create-log elsewhere cluster={another}"),
            format!("append main cluster={another}"),
            format!("logs stale=1 cluster={another}"),
        ] {
            let call = stage.call(index, &request);
            stage.wait("an answer", |_| Caller::is_over(&call));
            let answer = call.text();
            assert!(
                answer.starts_with("error wrong-cluster "),
                "{request}: {answer}"
            );
        }
    }
    let logs = done(&mut stage, "logs");
    assert!(!logs.contains("elsewhere"), "{logs}");
}
