//! Finding a server that can answer, and naming those that could not.

use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::fake;
use crate::fake::{AppendFault, FakeCluster};
use client::{AdminError, AppendOptions, Client, Said};

/// An address of this machine at which no test listens, whichever ports are given to them.
fn nobody() -> String {
    "127.255.0.1:1".to_owned()
}

#[test]
fn a_dead_first_server_is_no_problem() {
    let cluster = FakeCluster::start(1);
    let client = Client::new(vec![nobody(), cluster.address(0)], fake::timeouts());
    assert_eq!(client.status().expect("the second answers").node, 1);
}

#[test]
fn a_node_that_was_removed_is_not_believed_where_another_one_answers() {
    let cluster = FakeCluster::start(2);
    cluster.truth().removed = Some(0);
    let ask = || cluster.client_of([0]).status().expect("somebody answers");
    assert_eq!(ask().node, 2, "the removed one names it");
    cluster.kill(1);
    assert_eq!(ask().node, 1, "nobody else answers");
}

#[test]
fn a_log_that_another_name_is_answered_for_was_not_made() {
    let cluster = FakeCluster::start(1);
    cluster.truth().create_answer =
        Some("ok {\"id\":1,\"name\":\"others\",\"retention\":\"forever\"}\n");
    let error = cluster.client().create_log("orders");
    let error = error.expect_err("it is another log");
    assert!(matches!(error, AdminError::Garbled { .. }), "{error}");
}

#[test]
fn a_hint_leads_to_a_server_nobody_named() {
    let cluster = FakeCluster::start(3);
    cluster.truth().leader = 2;
    let mut appender = cluster
        .client_of([0])
        .append("main", AppendOptions::default())
        .expect("node 1 knows who leads");
    assert_eq!(appender.close().expect("a clean end").stream.owner, 3);
}

#[test]
fn the_death_of_the_only_known_server_is_survived() {
    let cluster = FakeCluster::start(3);
    let client = cluster.client_of([0]);
    let mut appender = client
        .append("main", AppendOptions::default())
        .expect("free");
    appender.write_all(b"before, ").expect("room");
    appender.wait_acknowledged(8).expect("chosen");
    let deadline = Instant::now() + Duration::from_secs(60);
    while client.servers().len() < 3 {
        assert!(
            Instant::now() < deadline,
            "the others are learned in the background"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    cluster.truth().leader = 1;
    cluster.kill(0);
    appender.write_all(b"after").expect("room");
    let closed = appender.close().expect("node 2 takes over");
    assert_eq!((closed.last.owner, closed.position), (2, 13));
}

#[test]
fn two_nodes_that_point_at_each_other_are_not_asked_in_a_tight_loop() {
    let cluster = FakeCluster::start(2);
    {
        let mut truth = cluster.truth();
        truth.leader = 99;
        truth.hints = vec![cluster.address(1), cluster.address(0)];
    }
    let client = Client::new(vec![cluster.address(0), cluster.address(1)], fake::hasty());
    let Err(AdminError::Unreachable(unreachable)) = client.streams("main") else {
        panic!("nobody leads");
    };
    assert!(unreachable.no_quorum());
    let asked = cluster.truth().asked("streams");
    assert!((2..100).contains(&asked), "asked {asked} times");
    let pointing = Said::NotLeader {
        leader: Some(cluster.address(1)),
    };
    assert!(unreachable.tried.contains(&(cluster.address(0), pointing)));
}

#[test]
fn the_error_names_each_server_and_what_it_said() {
    let cluster = FakeCluster::start(1);
    cluster.plan_appends(vec![
        AppendFault::Answer(
            b"error no-quorum: One of three.\n".to_vec()
        );
        1000
    ]);
    let (refusing, silent) = (
        nobody(),
        TcpListener::bind("127.0.0.1:0").expect("a free port"),
    );
    let silent_address = silent.local_addr().expect("bound").to_string();
    let servers = vec![refusing.clone(), silent_address.clone(), cluster.address(0)];
    let client = Client::new(servers, fake::hasty());
    let error = client
        .append("main", AppendOptions::default())
        .expect_err("no quorum");
    let sentence = error.to_string();
    for part in [
        format!("{refusing} refuses connections"),
        format!("{silent_address} is silent"),
        format!("{} has no quorum", cluster.address(0)),
    ] {
        assert!(sentence.contains(&part), "{sentence}");
    }
}

#[test]
fn giving_up_takes_as_long_as_it_was_told() {
    let client = Client::new(vec![nobody()], fake::hasty());
    let started = Instant::now();
    assert!(matches!(client.logs(), Err(AdminError::Unreachable(_))));
    let elapsed = started.elapsed();
    let total = fake::hasty().total;
    assert!(elapsed >= total.mul_f32(0.97), "{elapsed:?}");
    assert!(elapsed < 10 * total, "{elapsed:?}");
}

#[test]
fn a_log_is_created_once() {
    let cluster = FakeCluster::start(1);
    let client = cluster.client();
    assert_eq!(client.create_log("orders").expect("new").id, 1);
    let error = client.create_log("orders").expect_err("there");
    assert_eq!(
        error,
        AdminError::Exists {
            name: "orders".to_owned()
        }
    );
    assert_eq!(client.logs().expect("a list").len(), 1);
}

#[test]
fn a_log_whose_creation_was_not_confirmed_counts_as_created() {
    let answers = [
        "",
        "error not-leader log=orders: Deposed.\n",
        "error no-quorum: Alone.\n",
    ];
    for answer in answers {
        let cluster = FakeCluster::start(1);
        cluster.truth().create_answer = Some(answer);
        let created = cluster.client().create_log("orders");
        assert_eq!(created.expect("created").name, "orders");
    }
}

#[test]
fn a_log_is_deleted_once_also_when_the_answer_was_lost() {
    let unknown = AdminError::UnknownLog {
        log: "orders".to_owned(),
    };
    let cluster = FakeCluster::start(1);
    let client = cluster.client();
    assert_eq!(client.log("orders").expect_err("none yet"), unknown);
    client.create_log("orders").expect("new");
    assert_eq!(client.log("orders").expect("there").name, "orders");
    assert_eq!(client.delete_log("orders").expect("there").id, Some(1));
    assert_eq!(client.delete_log("orders").expect_err("gone"), unknown);
    for answer in ["", "error not-leader log=orders: Deposed.\n"] {
        client.create_log("orders").expect("new");
        cluster.truth().create_answer = Some(answer);
        assert_eq!(client.delete_log("orders").expect("deleted").id, None);
    }
}

#[test]
fn streams_are_listed_in_the_order_of_opening() {
    let cluster = FakeCluster::start(1);
    let client = cluster.client();
    for label in ["first", "second one"] {
        let options = AppendOptions {
            label: Some(label.to_owned()),
            ..AppendOptions::default()
        };
        client
            .append("main", options)
            .expect("free")
            .close()
            .expect("a clean end");
    }
    let streams = client.streams("main").expect("a list");
    let labels: Vec<_> = streams
        .iter()
        .filter_map(|stream| stream.label.as_deref())
        .collect();
    assert_eq!(labels, ["first", "second one"]);
}

const OURS: &str = "11111111-1111-4111-8111-111111111111";
const THEIRS: &str = "22222222-2222-4222-8222-222222222222";

fn of_cluster(id: &str, understands: bool) -> FakeCluster {
    let cluster = FakeCluster::start(1);
    let mut truth = cluster.truth();
    (truth.cluster, truth.understands) = (id.to_owned(), understands);
    drop(truth);
    cluster
}

/// A rescue made a new cluster, and the old one comes back: it answers as well as ever, and first.
#[test]
fn a_server_of_another_cluster_is_asked_for_nothing_once_the_own_one_is_known() {
    for understands in [true, false] {
        let (ours, theirs) = (of_cluster(OURS, true), of_cluster(THEIRS, understands));
        let servers = vec![theirs.address(0), ours.address(0)];
        let client = Client::of_cluster(servers, OURS, fake::timeouts());
        client.create_log("a").expect("the other one answers");
        client.append("main", AppendOptions::default()).expect("it");
        assert!(ours.truth().logs.contains(&"a".to_owned()));
        let asked = theirs.truth().requests.clone();
        let only_status = asked.iter().all(|(_, line)| line == "logberg/1 status");
        assert!(only_status, "{asked:?}");
        let named = ours.truth().named.clone();
        assert!(named.iter().all(|named| named == OURS) && named.len() >= 2);
        ours.kill(0);
        let hasty = Client::of_cluster(vec![theirs.address(0)], OURS, fake::hasty());
        let error = hasty.create_log("b").expect_err("nobody else is there");
        let sentence = error.to_string();
        assert!(
            sentence.contains("is of another cluster, 2222"),
            "{sentence}"
        );
        assert!(theirs.truth().logs.is_empty());
    }
}

/// Another process listens there after the client has learned that a friend did.
#[test]
fn a_server_that_became_another_clusters_refuses_by_itself() {
    let cluster = of_cluster(OURS, true);
    let client = Client::of_cluster(vec![cluster.address(0)], OURS, fake::hasty());
    client.create_log("a").expect("ours");
    cluster.truth().cluster = THEIRS.to_owned();
    let error = client.create_log("b").expect_err("theirs");
    let sentence = error.to_string();
    assert!(
        sentence.contains("is of another cluster, 2222"),
        "{sentence}"
    );
    assert_eq!(cluster.truth().logs, ["a"]);
}

#[test]
fn a_program_that_does_not_know_the_key_is_talked_to_without_it() {
    let cluster = of_cluster(OURS, true);
    let client = Client::of_cluster(vec![cluster.address(0)], OURS, fake::timeouts());
    client.create_log("a").expect("a new program");
    assert!(!cluster.truth().named.is_empty());
    // It is started again as an older one, which refuses the key.
    cluster.truth().understands = false;
    client.create_log("b").expect("an old program");
    let mut appender = client
        .append("main", AppendOptions::default())
        .expect("an old program");
    appender.write_all(b"as ever").expect("room");
    appender.close().expect("acknowledged");
    assert_eq!(cluster.truth().logs, ["a", "b"]);
}
