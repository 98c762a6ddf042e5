//! `status`, `/healthz` and `/metrics` of real nodes.

use crate::harness;
use crate::http;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use harness::{Cluster, Content, LONG, wait_for};
use node::health::Code;

const OPERATIONS: &str = include_str!("../../../../docs/operations.md");

fn admin_of(listen: &str) -> String {
    listen.replace(":700", ":900")
}

/// Three nodes with an admin port each, and disks that fail when told to.
fn observed() -> Cluster {
    observed_with(|_| {})
}

fn observed_with(change: impl Fn(&mut harness::Node)) -> Cluster {
    let cluster = Cluster::start_with(3, 3, |node| {
        change(node);
        node.arguments
            .extend(["--admin".to_owned(), admin_of(&node.listen)]);
        node.faults = Some(node.data.with_extension("faults"));
    });
    cluster.wait_whole();
    cluster
}

/// Status and body.
fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(LONG)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

/// Waits until a node's `/healthz` is so.
fn wait_health(cluster: &Cluster, index: usize, status: u16, words: &[&str]) -> String {
    let address = admin_of(&cluster.nodes[index].listen);
    wait_for(
        || {
            let (found, body) = get(&address, "/healthz")?;
            let all = words.iter().all(|word| body.contains(word));
            (found == status && all).then_some(body)
        },
        || format!("{:?}\n{}", get(&address, "/healthz"), cluster.logs()),
    )
}

/// Every line of an exposition makes sense. Name of each family, with how often it was sampled.
fn parse(text: &str) -> BTreeMap<String, usize> {
    let mut families: BTreeMap<String, usize> = BTreeMap::new();
    let mut family = String::new();
    let mut kind = String::new();
    let mut ended = false;
    let mut units = BTreeMap::new();
    for line in text.lines() {
        assert!(!ended, "nothing follows the end: {line}");
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "EOF"] => ended = true,
            ["#", "HELP", name, help] => {
                family = name.to_owned();
                assert!(!help.trim().is_empty(), "{line}");
                let again = families.insert(family.clone(), 0);
                assert_eq!(again, None, "{name} comes twice");
            }
            ["#", "TYPE", name, found] => {
                assert_eq!(name, family);
                kind = found.to_owned();
            }
            ["#", "UNIT", name, unit] => {
                assert_eq!(name, family);
                assert!(name.ends_with(unit), "{line}");
                units.insert(family.clone(), unit.to_owned());
            }
            _ => {
                let (series, value) = line.rsplit_once(' ').expect("a sample");
                value.parse::<f64>().expect("a number");
                let name = series.split_once('{').map_or(series, |(name, labels)| {
                    assert!(labels.ends_with('}'), "{line}");
                    name
                });
                let suffixes: &[&str] = match kind.as_str() {
                    "counter" => &["_total"],
                    "histogram" => &["_bucket", "_sum", "_count"],
                    "info" => &["_info"],
                    "gauge" => &[""],
                    other => panic!("{other} is no type of ours"),
                };
                let known = suffixes
                    .iter()
                    .any(|suffix| name == format!("{family}{suffix}"));
                assert!(known, "{line} is not of {family}, a {kind}");
                *families.get_mut(&family).expect("it has a head") += 1;
            }
        }
    }
    assert!(ended, "it ends with # EOF");
    histograms(text);
    for (name, unit) in units {
        assert!(["bytes", "seconds"].contains(&unit.as_str()), "{name}");
    }
    families
}

/// Each histogram's buckets rise to one without bound, which holds all: without it nobody can reckon a quantile.
fn histograms(text: &str) {
    let mut last: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    let mut counts: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').expect("a sample");
        let value: f64 = value.parse().expect("a number");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.trim_end_matches('}');
        if let Some(family) = name.strip_suffix("_bucket") {
            let is_bound = |label: &&str| label.starts_with("le=");
            let bound = labels.split(',').find(is_bound).expect("a bound");
            let bound = bound.trim_start_matches("le=").trim_matches('"');
            let others: Vec<&str> = labels.split(',').filter(|label| !is_bound(label)).collect();
            let series = format!("{family}{{{}", others.join(","));
            let bound = match bound {
                "+Inf" => f64::INFINITY,
                bound => {
                    let bound: f64 = bound.parse().expect("a number");
                    assert!(bound < 1e9, "{line}");
                    bound
                }
            };
            if let Some((below, count)) = last.insert(series, (bound, value)) {
                assert!(below < bound && count <= value, "{line}");
            }
        } else if let Some(family) = name.strip_suffix("_count") {
            counts.insert(format!("{family}{{{labels}"), (f64::INFINITY, value));
        }
    }
    assert!(!counts.is_empty());
    assert_eq!(last, counts, "the last bucket holds all");
}

fn warning<'a>(status: &'a serde_json::Value, code: &str) -> Option<&'a serde_json::Value> {
    let warnings = status["health"]["warnings"].as_array()?;
    warnings
        .iter()
        .find(|warning| warning["code"] == code && warning["active"] == true)
}

#[test]
fn every_warning_has_a_section_and_every_section_a_warning() {
    let health = OPERATIONS
        .split("\n## ")
        .find(|section| section.starts_with("Health"));
    let headings = health.expect("a chapter on health").lines();
    let headings: BTreeSet<&str> = headings
        .filter_map(|line| line.strip_prefix("### "))
        .collect();
    let codes: BTreeSet<&str> = Code::ALL.into_iter().map(Code::name).collect();
    assert_eq!(headings, codes);
    for code in Code::ALL {
        assert_eq!(Code::from_number(code as u8), Some(code));
    }
}

#[test]
fn metrics_are_those_that_the_page_lists_and_every_line_can_be_read() {
    let door_of = |listen: &str| listen.replace(":700", ":850");
    let http_of = |listen: &str| listen.replace(":700", ":870");
    let cluster = observed_with(|node| {
        let door = door_of(&node.listen);
        node.arguments.extend(["--kv".to_owned(), door]);
        let http = http_of(&node.listen);
        node.arguments.extend(["--http".to_owned(), http]);
    });
    cluster.append("main", &[], Content::new(1, 3_000_000));
    let leader = cluster.leader("main");
    let address = admin_of(&cluster.nodes[leader].listen);
    let sampled = |text: &str, line: &str| text.lines().any(|found| found.starts_with(line));
    cluster.run_well(&["kv", "init", "--groups", "1"]);
    cluster.lead("kv-1-of-1", cluster.nodes[leader].id);
    let mut client = TcpStream::connect(door_of(&cluster.nodes[leader].listen)).expect("a door");
    client.set_read_timeout(Some(LONG)).expect("a socket");
    client
        .write_all(b"HSET a b c\r\nHGET a b\r\nLPUSH a 1\r\nNOTHING\r\n")
        .expect("it listens");
    let mut said = Vec::new();
    let mut buffer = [0; 1_000];
    while !String::from_utf8_lossy(&said).contains("unknown command") {
        let count = client.read(&mut buffer).expect("it answers");
        assert!(count > 0, "{}", String::from_utf8_lossy(&said));
        said.extend_from_slice(&buffer[..count]);
    }
    let http = http_of(&cluster.nodes[leader].listen);
    let ask = |method: &str, path: &str, body: &[u8]| {
        let text = ("Content-Type", "text/plain");
        let answer = http::ask(&http, method, path, &[text], body);
        answer.expect("an answer").status
    };
    wait_for(
        || matches!(ask("PUT", "/v1/stream/a", b""), 200 | 201).then_some(()),
        || cluster.logs(),
    );
    let missing = ask("POST", "/v1/stream/missing", b"x");
    assert_eq!((missing, ask("POST", "/v1/stream/a", b"x")), (404, 204));
    let door = http.clone();
    // It waits for what comes, is counted as long as it does, and not by its time.
    let mut live = TcpStream::connect(&door).expect("a door");
    let read = format!("GET /v1/stream/a?offset=now&live=sse HTTP/1.1\r\nHost: {door}\r\n\r\n");
    live.write_all(read.as_bytes()).expect("it listens");
    let text = wait_for(
        || {
            let (_, text) = get(&address, "/metrics").filter(|(status, _)| *status == 200)?;
            let alone = sampled(&text, "logberg_http_clients 1");
            let lives = alone && sampled(&text, "logberg_http_live_readers 1");
            let text = Some(text).filter(|_| lives)?;
            let accepted = "logberg_proposal_accepted_duration_seconds_count{";
            sampled(&text, accepted).then_some(text)
        },
        || format!("{:?}\n{}", get(&address, "/metrics"), cluster.logs()),
    );
    let families = parse(&text);
    let listed = OPERATIONS
        .lines()
        .filter_map(|line| line.strip_prefix("| `logberg_"));
    let listed = listed.filter_map(|line| Some(format!("logberg_{}", line.split_once('`')?.0)));
    let listed: BTreeSet<String> = listed.collect();
    let found: BTreeSet<String> = families.keys().cloned().collect();
    assert_eq!(found, listed, "docs/operations.md lists them all");
    let empty: Vec<&String> = families
        .iter()
        .filter(|(_, count)| **count == 0)
        .map(|(name, _)| name)
        .collect();
    // Warnings may be over.
    assert!(
        empty.iter().all(|name| *name == "logberg_warnings"),
        "{empty:?}"
    );
    assert!(
        sampled(&text, "logberg_log_leading{log=\"main\"} 1"),
        "{text}"
    );
    assert!(
        sampled(&text, "logberg_log_output_bytes{log=\"main\"} 3000000"),
        "{text}"
    );
    for line in [
        "logberg_kv_clients 1",
        "logberg_kv_groups_led 1",
        "logberg_kv_requests_refused_total 1",
        "logberg_kv_commands_total{family=\"hash\",outcome=\"answered\"} 2",
        "logberg_kv_commands_total{family=\"list\",outcome=\"error\"} 1",
        "logberg_kv_command_duration_seconds_count{family=\"hash\"} 2",
        "logberg_kv_command_duration_seconds_count{family=\"set\"} 0",
        "logberg_http_clients 1",
        "logberg_http_requests_total{method=\"post\",class=\"2xx\"} 1",
        "logberg_http_requests_total{method=\"post\",class=\"4xx\"} 1",
        "logberg_http_requests_total{method=\"get\",class=\"2xx\"} 1",
        "logberg_http_request_duration_seconds_count{method=\"post\"} 2",
        "logberg_http_request_duration_seconds_count{method=\"get\"} 0",
        "logberg_http_refused_total{code=\"not-found\"} 1",
    ] {
        assert!(sampled(&text, line), "{line}: {text}");
    }
    // The command that made the groups asked the node whether it serves them, perhaps more than once.
    for (name, least) in [
        ("logberg_kv_connections_total ", 2),
        ("logberg_kv_received_bytes_total ", 42 + 1),
    ] {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        let value = value.and_then(|value| value.parse::<f64>().ok());
        assert!(value >= Some(f64::from(least)), "{name}{value:?}");
    }
    assert!(
        !sampled(&text, "logberg_disk_write_duration_seconds_count 0"),
        "{text}"
    );
}

#[test]
fn who_is_slow_or_hostile_at_the_admin_port_disturbs_nobody() {
    let cluster = observed();
    let leader = cluster.leader("main");
    let address = admin_of(&cluster.nodes[leader].listen);
    let files = || {
        let path = format!("/proc/{}/fd", cluster.nodes[leader].pid());
        fs::read_dir(path).expect("it lives").count()
    };
    let before = files();
    // More than there are threads; each says half a request and stays.
    let mut idle: Vec<TcpStream> = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(&address).expect("the backlog has room");
        stream.write_all(b"GET /metr").expect("it listens");
        idle.push(stream);
    }
    let mut garbage = TcpStream::connect(&address).expect("the backlog has room");
    garbage.write_all(&vec![b'x'; 1 << 16]).expect("it listens");
    cluster.append("main", &[], Content::new(2, 2_000_000));
    assert!(files() < before + 20, "descriptors are the node's");
    assert_eq!(cluster.leader("main"), leader, "nobody was unseated");
    drop((idle, garbage));
    let (status, _) = wait_for(|| get(&address, "/healthz"), || cluster.logs());
    assert_eq!(status, 200);
    let (status, body) = wait_for(|| get(&address, "/"), || cluster.logs());
    assert_eq!(status, 404);
    assert!(body.contains("/metrics"), "{body}");
}

#[test]
fn health_is_told_beside_a_hundred_connections_that_say_nothing() {
    let cluster = observed();
    let address = admin_of(&cluster.nodes[0].listen);
    let idle = |_| TcpStream::connect(&address).expect("the backlog has room");
    let crowd: Vec<TcpStream> = (0..100).map(idle).collect();
    let mut asked = TcpStream::connect(&address).expect("the backlog has room");
    asked
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("it listens");
    asked.set_read_timeout(Some(LONG)).expect("a socket");
    let mut answer = String::new();
    let read = asked.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{read:?} {answer:?}");
    drop(crowd);
}

#[test]
fn the_three_states_and_how_status_ends() {
    let mut cluster = observed();
    let listen = |cluster: &Cluster, index: usize| cluster.nodes[index].listen.clone();
    let ends = |cluster: &Cluster, index: usize, code: i32| {
        wait_for(
            || {
                let (found, text) = cluster.run_status(&listen(cluster, index));
                (found == Some(code)).then_some(text)
            },
            || {
                format!(
                    "{:?}\n{}",
                    cluster.run_status(&listen(cluster, index)),
                    cluster.logs()
                )
            },
        )
    };
    for index in 0..3 {
        let shown = ends(&cluster, index, 0);
        assert!(shown.contains("health: healthy"), "{shown}");
        wait_health(&cluster, index, 200, &["\"healthy\""]);
    }
    let leader = cluster.leader("main");
    let others: Vec<usize> = (0..3).filter(|index| *index != leader).collect();
    cluster.nodes[others[0]].kill();
    for index in [leader, others[1]] {
        wait_health(
            &cluster,
            index,
            200,
            &["at-risk", "node-unreachable", "quorum-at-risk"],
        );
        let shown = ends(&cluster, index, 8);
        assert!(
            shown.contains("health: at risk") && shown.contains("help: "),
            "{shown}"
        );
    }
    let waits = |cluster: &Cluster, words: &[&str], code: i32| {
        let words = [&["status", "--wait"], words].concat();
        let output = harness::logberg(&listen(cluster, leader), &words).output();
        let output = output.expect("the binary runs");
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
    };
    waits(&cluster, &["--for", "served"], 0);
    waits(&cluster, &["--timeout", "1"], 8);
    cluster.nodes[others[1]].kill();
    wait_health(&cluster, leader, 503, &["unavailable", "no-leader"]);
    // This node does its work: whoever restarts it by that would make things worse.
    let alive = get(&admin_of(&cluster.nodes[leader].listen), "/livez");
    assert_eq!(alive.map(|(status, _)| status), Some(200));
    let shown = ends(&cluster, leader, 3);
    assert!(shown.contains("health: unavailable"), "{shown}");
    waits(&cluster, &["--for", "alive"], 0);
    waits(&cluster, &["--for", "served", "--timeout", "1"], 3);
    cluster.nodes[others[1]].start();
    cluster.nodes[others[0]].start();
    waits(&cluster, &["--timeout", "60"], 0);
    cluster.wait_whole();
}

/// Leaders move often where somebody balances them, or restarts nodes one after the other.
#[test]
fn leaders_that_are_moved_on_purpose_are_no_trouble_however_many() {
    let cluster = observed();
    for _ in 0..5 {
        let leader = cluster.leader("main");
        cluster.lead("main", cluster.nodes[(leader + 1) % 3].id);
    }
    cluster.run_well(&["status", "--wait", "--timeout", "60"]);
    for node in &cluster.nodes {
        let status = node.status().expect("it answers");
        // One that is over is told for a while.
        assert!(warning(&status, "leader-flapping").is_none(), "{status}");
    }
}

/// A wait right behind a death, or at a node that has heard nobody since it started, is not told of what was.
#[test]
fn who_waits_for_health_is_not_told_of_a_while_ago() {
    let mut cluster = observed();
    let waits = |cluster: &Cluster, timeout: &str| {
        let words = ["status", "--wait", "--timeout", timeout];
        let output = harness::logberg(&cluster.nodes[0].listen, &words).output();
        output.expect("the binary runs").status.code()
    };
    assert_eq!(waits(&cluster, "60"), Some(0));
    cluster.nodes[2].kill();
    assert_eq!(waits(&cluster, "3"), Some(8), "it is not known dead yet");
    cluster.nodes[1].kill();
    cluster.nodes[0].kill();
    cluster.nodes[0].start();
    let admin = admin_of(&cluster.nodes[0].listen);
    let (first, _) = wait_for(|| get(&admin, "/healthz"), || cluster.logs());
    assert_eq!(first, 503, "it has heard nobody");
    assert_eq!(waits(&cluster, "3"), Some(3));
    cluster.nodes[1].start();
    cluster.nodes[2].start();
    assert_eq!(waits(&cluster, "60"), Some(0));
}

/// The cause lasts; what is measured is when another one leads.
#[test]
fn a_leader_whose_disk_stalls_for_thirty_seconds_is_succeeded_soon() {
    let cluster = observed();
    let leader = cluster.leader("main");
    let content = Content::new(3, 8_000_000);
    let appending = cluster.append_in_background("main", &["--rate", "1M"], content);
    wait_for(
        || (cluster.nodes[leader].output_bytes("main") > 500_000).then_some(()),
        || cluster.logs(),
    );
    let faults = cluster.nodes[leader].faults.clone().expect("it has a file");
    let began = Instant::now();
    fs::write(&faults, "write-delay-ms=30000\n").expect("our directory");
    let others: Vec<usize> = (0..3).filter(|index| *index != leader).collect();
    wait_for(
        || {
            others
                .iter()
                .any(|index| cluster.nodes[*index].leads("main"))
                .then_some(())
        },
        || cluster.logs(),
    );
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(20),
        "long before the disk came back: {took:?}"
    );
    // All know of it, the others by what the node itself says.
    for index in 0..3 {
        wait_for(
            || {
                let status = cluster.nodes[index].status()?;
                let stalled = warning(&status, "disk-stalled")?;
                (stalled["node"] == cluster.nodes[leader].id).then_some(())
            },
            || cluster.logs(),
        );
    }
    let output = appending.wait();
    assert_eq!(output.status.code(), Some(0), "{}", cluster.logs());
    fs::write(&faults, "").expect("our directory");
    cluster.check_same("main", &[content]);
}
