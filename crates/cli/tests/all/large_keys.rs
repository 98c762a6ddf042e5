//! Values that go ahead of their commands.

use std::thread;
use std::time::Duration;

use resp::Value;

use crate::keys::{Came, NODES, start};

/// A value that shows which one it is, wherever one looks.
fn value(number: usize, bytes: usize) -> String {
    let token = format!("<{number}>");
    let mut value = token.repeat(bytes / token.len() + 1);
    value.truncate(bytes);
    value
}

fn error_of(value: &Value) -> &str {
    match value {
        Value::Error(why) => why,
        other => panic!("{other:?} is no error"),
    }
}

#[test]
fn a_value_of_64_mib_is_set_and_one_that_is_longer_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(directory.path());
    keys.logberg(&["kv", "init"]);
    let mut client = keys.client();
    let large = value(1, 64 << 20);
    assert_eq!(client.told(&["SET", "{x}", &large]), Value::OK);
    assert_eq!(client.told(&["STRLEN", "{x}"]), Value::Integer(64 << 20));
    assert!(client.told(&["GET", "{x}"]) == Value::bulk(large.as_str()));
    // A value that its command does not set is nowhere.
    let small = value(2, 300 << 10);
    assert_eq!(client.told(&["SETNX", "{x}", &small]), Value::Integer(0));
    assert_eq!(
        client.told(&["SET", "{x}", &small, "PX", "1000000"]),
        Value::OK
    );
    assert!(client.told(&["GETSET", "{x}", "short"]) == Value::bulk(small.as_str()));
    assert_eq!(client.told(&["GET", "{x}"]), Value::bulk("short"));

    // Keys that are longer than any row's are nowhere, and looking for them harms nothing.
    let long = value(5, 70_000);
    for command in ["GET", "EXISTS", "DEL", "TYPE", "STRLEN", "LLEN"] {
        let told = client.told(&[command, &long]);
        assert!(!matches!(told, Value::Error(_)), "{command}: {told:?}");
    }
    let refused = client.told(&["SET", &long, "1"]);
    assert!(error_of(&refused).contains("too long"), "{refused:?}");
    assert_eq!(client.told(&["GET", &long]), Value::Null);

    // Words of others are shorter, and the connection stays.
    let mut link = client.link_for("{x}");
    let seven = value(3, 7 << 20);
    let pushed = link.ask(&["RPUSH", "{x}list", &seven]).expect("a reply");
    assert!(error_of(&pushed).contains("6 MiB"), "{pushed:?}");
    assert_eq!(link.ask(&["MULTI"]).expect("a reply"), Value::OK);
    let queued = link.ask(&["SET", "{x}", &seven]).expect("a reply");
    assert!(error_of(&queued).contains("6 MiB"), "{queued:?}");
    let executed = link.ask(&["EXEC"]).expect("a reply");
    assert!(error_of(&executed).starts_with("EXECABORT"), "{executed:?}");
    // A pipeline behind a large value, and before it, is answered in its order.
    let pipeline: Vec<u8> = [
        &["SET", "{x}", "1"][..],
        &["SET", "{x}", &seven],
        &["APPEND", "{x}", "."],
        &["STRLEN", "{x}"],
        &["GET", "{x}list"],
    ]
    .into_iter()
    .flat_map(crate::keys::request)
    .collect();
    let mut sends = link.stream.try_clone().expect("a handle");
    let sender = thread::spawn(move || std::io::Write::write_all(&mut sends, &pipeline));
    let length = Value::Integer((7 << 20) + 1);
    for expected in [Value::OK, Value::OK, length.clone(), length, Value::Null] {
        assert_eq!(link.read().expect("a reply"), expected);
    }
    sender.join().expect("it ends").expect("it is sent");
    // One that is longer is left out, and the connection stays.
    let longer = value(4, (64 << 20) + 1);
    let refused = link.ask(&["SET", "{x}", &longer]).expect("a reply");
    assert!(error_of(&refused).contains("64 MiB"), "{refused:?}");
    let length = Value::Integer((7 << 20) + 1);
    assert_eq!(link.ask(&["STRLEN", "{x}"]).expect("a reply"), length);
    let head = b"*3\r\n$3\r\nSET\r\n$3\r\n{x}\r\n$2000000000\r\n";
    std::io::Write::write_all(&mut link.stream, head).expect("it is sent");
    let refused = link.read().expect("a reply");
    assert!(
        error_of(&refused).contains("invalid bulk length"),
        "{refused:?}"
    );
}

/// A group has no room for so many commands at once: their connection waits, and none is refused.
#[test]
fn a_long_pipeline_of_large_commands_has_no_holes() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(directory.path());
    keys.logberg(&["kv", "init"]);
    let mut client = keys.client();
    assert_eq!(client.told(&["SET", "{x}else", "1"]), Value::OK);
    let mut link = client.link_for("{x}");
    let pushed = value(1, 700_000);
    let request = crate::keys::request(&["RPUSH", "{x}", &pushed]);
    let mut sends = link.stream.try_clone().expect("a handle");
    let sender = thread::spawn(move || {
        (0..200).try_for_each(|_| std::io::Write::write_all(&mut sends, &request))
    });
    for length in 1..=200 {
        assert_eq!(link.read().expect("a reply"), Value::Integer(length));
    }
    sender.join().expect("it ends").expect("it is sent");
}

/// More large requests than a node has memory for, and one that never comes to its end.
#[test]
fn large_requests_wait_for_each_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(directory.path());
    keys.logberg(&["kv", "init"]);
    let mut client = keys.client();
    assert_eq!(client.told(&["SET", "{x}else", "1"]), Value::OK);
    let mut links: Vec<_> = (0..5).map(|_| client.link_for("{x}")).collect();
    for link in &links {
        let patience = Some(Duration::from_secs(100));
        link.stream.set_read_timeout(patience).expect("it is set");
    }
    let mut never = client.link_for("{x}");
    let head = format!("*3\r\n$3\r\nSET\r\n$1\r\ny\r\n${}\r\n", 64 << 20);
    std::io::Write::write_all(&mut never.stream, head.as_bytes()).expect("it is sent");
    let set = value(1, 60 << 20);
    let request = crate::keys::request(&["SET", "{x}", &set]);
    thread::scope(|scope| {
        for link in &mut links {
            let request = &request;
            scope.spawn(move || {
                std::io::Write::write_all(&mut link.stream, request).expect("it is sent");
                assert_eq!(link.read().expect("a reply"), Value::OK);
            });
        }
    });
    let told = never.read().expect("a reply");
    assert!(error_of(&told).contains("unfinished requests"), "{told:?}");
}

/// Nodes die while values are on their way: each that was answered is there as a whole, until another one is.
#[test]
fn large_values_outlive_their_leaders() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(directory.path());
    keys.logberg(&["kv", "init"]);
    let mut client = keys.client();
    let (mut number, mut may_be, mut answered) = (0, vec![None], 0);
    for round in 0..2 * NODES {
        let victim = round % NODES + 1;
        thread::scope(|scope| {
            let killer = scope.spawn(|| {
                thread::sleep(Duration::from_millis(u64::from(40 + 60 * round)));
                keys.cluster.kill(victim).expect("it dies");
            });
            for _ in 0..6 {
                number += 1;
                let set = value(number, (3 << 20) + number);
                match client.ask(&["SET", "{x}", &set]) {
                    Came::Value(value) if value == Value::OK => {
                        may_be = vec![Some(number)];
                        answered += 1;
                    }
                    Came::Value(other) => panic!("{other:?}"),
                    Came::Unknown => may_be.push(Some(number)),
                }
            }
            killer.join().expect("it ends");
        });
        let found = client.told(&["GET", "{x}"]);
        let is_it = |number: &Option<usize>| match number {
            None => found == Value::Null,
            Some(number) => found == Value::bulk(value(*number, (3 << 20) + number).as_str()),
        };
        assert!(may_be.iter().any(is_it), "it is none of {may_be:?}");
        keys.cluster.restart(victim).expect("it starts");
        keys.cluster
            .wait_ready(Duration::from_secs(30))
            .expect("it is ready");
    }
    assert!(answered > 6, "{answered} were answered");
}

/// Many send values at once and most of them vanish in the middle: the others are answered.
#[test]
fn values_do_not_wait_for_those_of_clients_that_left() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(directory.path());
    keys.logberg(&["kv", "init"]);
    let mut client = keys.client();
    let set = value(1, 5 << 19);
    let request = crate::keys::request(&["SET", "{x}", &set]);
    let mut links: Vec<_> = (0..90).map(|_| client.link_for("{x}")).collect();
    thread::scope(|scope| {
        for link in &mut links {
            let request = &request;
            scope.spawn(move || std::io::Write::write_all(&mut link.stream, request));
        }
    });
    let stay = links.split_off(80);
    drop(links);
    for mut link in stay {
        assert_eq!(link.read().expect("a reply"), Value::OK);
    }
}

/// More is asked for at once than a node holds for its clients, by several of them, and by one in a pipeline: all of it is given.
#[test]
fn replies_that_are_more_than_a_node_holds_are_given_to_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(directory.path());
    keys.logberg(&["kv", "init"]);
    let mut client = keys.client();
    let large = value(1, 40 << 20);
    assert_eq!(client.told(&["SET", "{x}", &large]), Value::OK);
    let expected = Value::bulk(large);
    let get = crate::keys::request(&["GET", "{x}"]);
    let mut links: Vec<_> = (0..7).map(|_| client.link_for("{x}")).collect();
    thread::scope(|scope| {
        for (number, link) in links.iter_mut().enumerate() {
            let times = [1, 6][usize::from(number == 0)];
            let (get, expected) = (get.repeat(times), &expected);
            scope.spawn(move || {
                let patience = Some(Duration::from_secs(60));
                link.stream.set_read_timeout(patience).expect("it is set");
                std::io::Write::write_all(&mut link.stream, &get).expect("it is sent");
                for _ in 0..times {
                    assert!(link.read().expect("a reply") == *expected);
                }
            });
        }
    });
}
