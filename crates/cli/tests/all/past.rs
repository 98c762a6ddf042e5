//! Old copies of a node's directory, and directories that lost what they had when their node was stopped.

use crate::harness;
use crate::outside;

use std::fs;

use harness::{Cluster, Content, copy_tree, wait_for};
use outside::{err, out, run};

/// Stopped by SIGTERM, and ended well.
fn stop(node: &mut harness::Node) {
    node.signal("-TERM");
    assert_eq!(node.wait(), Some(0), "{}", node.said());
}

#[test]
fn an_old_copy_of_a_directory_is_refused_by_name_at_every_start_and_the_newer_one_goes_on() {
    let mut cluster = Cluster::start(3);
    let first = Content::new(3, 300_000);
    cluster.append("main", &[], first);
    let place = cluster.directory.path().to_owned();
    let (copy, newer) = (place.join("copy"), place.join("newer"));
    stop(&mut cluster.nodes[2]);
    let data = cluster.nodes[2].data.clone();
    copy_tree(&data, &copy);
    cluster.nodes[2].start();
    cluster.wait_whole();
    let second = Content::new(4, 300_000);
    cluster.append("main", &["--takeover"], second);
    cluster.nodes[2].kill();
    fs::rename(&data, &newer).expect("a place for it");
    copy_tree(&copy, &data);
    // It ends by itself, and says who refused it.
    let ended = cluster.nodes[2].run();
    assert_eq!(ended.status.code(), Some(9), "{}", err(&ended));
    let said = err(&ended);
    let sentence = said.lines().last().unwrap_or_default();
    assert!(sentence.contains("is an old copy: node "), "{said}");
    // The peers tell what it was, and nobody advises to start it.
    let status = || cluster.run_status(&cluster.servers()).1;
    let words = [
        "what claims to be it is refused",
        "do not start that directory again",
    ];
    let tells = |status: String| words.iter().all(|word| status.contains(word));
    wait_for(|| tells(status()).then_some(()), status);
    for _ in 0..2 {
        let again = cluster.nodes[2].run();
        assert_eq!(again.status.code(), Some(9), "{}", err(&again));
        let said = err(&again);
        assert!(
            said.contains("is an old copy, and no node starts from it"),
            "{said}"
        );
        assert!(said.contains("put the newer directory back"), "{said}");
    }
    let verified = run(&["verify", data.to_str().unwrap()]);
    assert_eq!(verified.status.code(), Some(9), "{}", out(&verified));
    let doctor = run(&["doctor", data.to_str().unwrap()]);
    assert!(out(&doctor).contains("is an old copy"), "{}", out(&doctor));
    fs::remove_dir_all(&data).expect("the copy goes");
    fs::rename(&newer, &data).expect("the newer one comes back");
    cluster.nodes[2].start();
    cluster.wait_whole();
    cluster.check_same("main", &[first, second]);
}

#[test]
fn what_was_cut_off_after_a_clean_stop_is_told_by_start_and_verify_in_one_sentence() {
    let mut cluster = Cluster::start(3);
    let content = Content::new(3, 5_000_000);
    cluster.append("main", &[], content);
    stop(&mut cluster.nodes[2]);
    let data = cluster.nodes[2].data.clone();
    let sound = run(&["verify", data.to_str().unwrap()]);
    assert_eq!(sound.status.code(), Some(0), "{}", out(&sound));
    let newest = cluster.nodes[2].segments(1).into_iter().max();
    let newest = newest.expect("the log has a segment");
    let aside = cluster.directory.path().join("aside");
    fs::rename(&newest, &aside).expect("it can be moved");
    let sentence = "ended with record";
    let refused = cluster.nodes[2].run();
    assert_eq!(refused.status.code(), Some(9), "{}", err(&refused));
    assert!(err(&refused).contains(sentence), "{}", err(&refused));
    let verified = run(&["verify", data.to_str().unwrap()]);
    assert_eq!(verified.status.code(), Some(9), "{}", out(&verified));
    assert!(err(&verified).contains(sentence), "{}", err(&verified));
    let doctor = run(&["doctor", data.to_str().unwrap()]);
    assert!(out(&doctor).contains(sentence), "{}", out(&doctor));
    fs::rename(&aside, &newest).expect("it can be moved back");
    cluster.nodes[2].start();
    cluster.wait_whole();
    cluster.check_same("main", &[content]);
    wait_for(
        || cluster.nodes[2].is_running().then_some(()),
        || "it ended".to_owned(),
    );
}

/// Peers remember the starts of a disk, and take one that has forgotten them for an old copy.
#[test]
fn a_directory_without_its_list_of_starts_is_refused_by_start_and_verify_alike() {
    let mut cluster = Cluster::start(3);
    let content = Content::new(3, 300_000);
    cluster.append("main", &[], content);
    let data = cluster.nodes[2].data.clone();
    for _ in 0..2 {
        stop(&mut cluster.nodes[2]);
        cluster.nodes[2].start();
        cluster.wait_whole();
    }
    stop(&mut cluster.nodes[2]);
    let (starts, aside) = (data.join("starts"), cluster.directory.path().join("starts"));
    fs::rename(&starts, &aside).expect("it is there");
    let verified = run(&["verify", data.to_str().unwrap()]);
    assert_eq!(verified.status.code(), Some(9), "{}", out(&verified));
    let ended = cluster.nodes[2].run();
    assert_eq!(ended.status.code(), Some(9), "{}", err(&ended));
    let sentence = "starts is damaged (it is gone): restore it";
    for said in [err(&verified), err(&ended)] {
        assert!(said.contains(sentence), "{said}");
    }
    fs::rename(&aside, &starts).expect("it comes back");
    cluster.nodes[2].start();
    cluster.wait_whole();
    cluster.check_same("main", &[content]);
}
