//! The doors for HTTP of the cluster that answers, and the space of streams behind them.

use std::collections::BTreeSet;
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use client::Client;
use client::admin::{LogStatus, Status};

use super::finding::Finding;

const CHECK: &str = "streams over HTTP";
/// The kind of logs that are spaces.
const STREAMS: &str = "streams";
/// A door takes a connection within so long.
const TAKES_WITHIN: Duration = Duration::from_secs(1);

/// What one node says, and whether its door is reached from here.
struct Seen {
    id: u64,
    /// It answered.
    status: Option<Status>,
    alive: bool,
    door: Option<String>,
    /// Why its door is not reached.
    unreached: Option<String>,
}

/// Nothing is said of a cluster without such doors.
pub fn findings(client: &Client) -> Vec<Finding> {
    let Ok(first) = client.status() else {
        return Vec::new();
    };
    let seen = first.nodes.iter().map(|node| {
        let status = node
            .alive
            .then(|| client.status_of(&node.address).ok())
            .flatten();
        // A node knows best about itself.
        let nodes = status.as_ref().map_or(&first.nodes, |status| &status.nodes);
        let told = nodes.iter().find(|other| other.id == node.id);
        let door = told.unwrap_or(node).http.clone();
        let unreached = door
            .as_deref()
            .filter(|_| node.alive)
            .and_then(|door| reach(door).err());
        Seen {
            id: node.id,
            alive: node.alive,
            status,
            door,
            unreached,
        }
    });
    let seen: Vec<Seen> = seen.collect();
    judge(&seen, &spaces(client, &seen))
}

/// Logs of machines say that they have a state, and which machine it is says the directory.
fn spaces(client: &Client, seen: &[Seen]) -> Vec<String> {
    let logs = seen.iter().filter_map(|seen| seen.status.as_ref());
    let logs = logs.flat_map(|status| &status.logs);
    let names = logs
        .filter(|log| log.state.is_some())
        .map(|log| log.name.clone());
    let names: BTreeSet<String> = names.collect();
    let is_space = |name: &String| client.log(name).is_ok_and(|log| log.kind == STREAMS);
    names.into_iter().filter(is_space).collect()
}

/// Errors: it takes no connection, for this reason.
fn reach(door: &str) -> Result<(), String> {
    let places = door.to_socket_addrs().map_err(|error| error.to_string())?;
    let mut why = "the name has no address".to_owned();
    for place in places {
        match TcpStream::connect_timeout(&place, TAKES_WITHIN) {
            Ok(_) => return Ok(()),
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

/// A space as a node has it.
fn space<'a>(seen: &'a Seen, name: &str) -> Option<&'a LogStatus> {
    let logs = &seen.status.as_ref()?.logs;
    logs.iter().find(|log| log.name == name)
}

fn judge(seen: &[Seen], spaces: &[String]) -> Vec<Finding> {
    let doors: Vec<&Seen> = seen.iter().filter(|seen| seen.door.is_some()).collect();
    if doors.is_empty() {
        return Vec::new();
    }
    let mut findings: Vec<Finding> = doors.iter().filter_map(|seen| unreached(seen)).collect();
    for space in spaces {
        findings.extend(doors.iter().filter_map(|seen| without_rows(seen, space)));
        findings.extend(unled(seen, space));
    }
    let alive = doors.iter().filter(|seen| seen.alive).count();
    if findings.is_empty() {
        let streams = match spaces {
            [] => "no stream was made yet".to_owned(),
            [_] => "each with the streams of the space".to_owned(),
            spaces => format!("each with the streams of {} spaces", spaces.len()),
        };
        let found = format!("{alive} node(s) answer over HTTP, {streams}");
        findings.push(Finding::ok(CHECK, found));
    }
    findings
}

fn unreached(seen: &Seen) -> Option<Finding> {
    let (id, door) = (seen.id, seen.door.as_deref()?);
    let why = seen.unreached.as_deref()?;
    let found = format!("the door of node {id} is not reached at {door} from here: {why}");
    let change = match is_loopback(door) {
        true => format!(
            "ask on the machine of node {id}, or start it with --http at an address that others reach, and --insecure or TLS and tokens (docs/http.md)"
        ),
        false => format!("look for what is between here and {door}, and whether node {id} runs"),
    };
    Some(match is_loopback(door) {
        true => Finding::better(CHECK, found, change),
        false => Finding::must(CHECK, found, change),
    })
}

/// A door whose node has no rows of the space refuses all of its streams.
fn without_rows(seen: &Seen, name: &str) -> Option<Finding> {
    let id = seen.id;
    let status = seen.status.as_ref()?;
    match space(seen, name) {
        None => Some(Finding::better(
            CHECK,
            format!(
                "node {id} has a door, and no replica of the space {name}: it answers 503 for each stream"
            ),
            format!(
                "give clients the doors of the others, or make node {id} a member of all logs: logberg members add"
            ),
        )),
        Some(log) => {
            let is_whole = log.state.as_ref().is_some_and(|state| state.whole);
            let is_auxiliary = log
                .weights
                .iter()
                .any(|weight| weight.node == status.node && weight.auxiliary);
            (!is_whole).then(|| {
                let found = format!("node {id} does not have the whole state of the space {name}: its door answers 503");
                let change = match is_auxiliary {
                    true => format!("give clients the doors of the others: node {id} is an auxiliary, and keeps no state"),
                    false => "wait until it is copied (logberg status); read the node's log if it does not come".to_owned(),
                };
                Finding::better(CHECK, found, change)
            })
        }
    }
}

fn unled(seen: &[Seen], name: &str) -> Option<Finding> {
    let logs: Vec<&LogStatus> = seen.iter().filter_map(|seen| space(seen, name)).collect();
    let is_led = logs.iter().any(|log| log.role == "leader");
    (!logs.is_empty() && !is_led && seen.iter().all(|seen| !seen.alive || seen.status.is_some())).then(|| {
        Finding::must(
            CHECK,
            format!("nobody leads the space {name}: its streams are read with stale=1 alone, and not appended to"),
            "start the silent nodes that host it (docs/first-aid.md, \"No majority\")",
        )
    })
}

fn is_loopback(door: &str) -> bool {
    let host = door.rsplit_once(':').map_or(door, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use client::admin::Weight;
    use wire::told::StateInfo;

    use super::super::finding::Verdict;
    use super::*;

    const SPACE: &str = "default";

    fn seen(id: u64, role: Option<&str>, whole: bool) -> Seen {
        let log = role.map(|role| LogStatus {
            name: SPACE.to_owned(),
            role: role.to_owned(),
            state: Some(StateInfo {
                whole,
                ..StateInfo::default()
            }),
            ..LogStatus::default()
        });
        Seen {
            id,
            alive: true,
            status: Some(Status {
                node: id,
                logs: log.into_iter().collect(),
                ..Status::default()
            }),
            door: Some(format!("10.0.0.{id}:4437")),
            unreached: None,
        }
    }

    /// The spaces that these nodes have.
    fn spaces_of(seen: &[Seen]) -> Vec<String> {
        let is_there = seen.iter().any(|seen| space(seen, SPACE).is_some());
        is_there.then(|| SPACE.to_owned()).into_iter().collect()
    }

    fn judged(seen: &[Seen]) -> Vec<(Verdict, String)> {
        let findings = judge(seen, &spaces_of(seen)).into_iter();
        findings
            .map(|finding| (finding.verdict, finding.found))
            .collect()
    }

    fn is(judged: &[(Verdict, String)], verdict: Verdict, part: &str) -> bool {
        judged.len() == 1 && judged[0].0 == verdict && judged[0].1.contains(part)
    }

    #[test]
    fn doors_that_answer_with_streams_are_fine_and_without_doors_nothing_is_said() {
        let mut all = [
            seen(1, Some("leader"), true),
            seen(2, Some("follower"), true),
        ];
        assert!(is(&judged(&all), Verdict::Ok, "2 node(s)"));
        for one in &mut all {
            one.door = None;
        }
        assert!(judged(&all).is_empty());
        let none = [seen(1, None, false)];
        assert!(is(&judged(&none), Verdict::Ok, "no stream was made yet"));
    }

    #[test]
    fn a_door_without_streams_or_out_of_reach_is_told_with_what_helps() {
        let leads = || seen(1, Some("leader"), true);
        let all = [leads(), seen(2, None, false)];
        assert!(is(&judged(&all), Verdict::Better, "no replica"));
        let mut copied = seen(2, Some("follower"), false);
        assert!(is(
            &judged(&[leads(), copied]),
            Verdict::Better,
            "whole state"
        ));
        copied = seen(2, Some("follower"), false);
        copied.status.as_mut().expect("it answered").logs[0].weights = vec![Weight {
            node: 2,
            weight: 0,
            auxiliary: true,
        }];
        let told = judge(&[leads(), copied], &[SPACE.to_owned()]);
        let change = told[0].change.as_deref().expect("it helps");
        assert!(change.contains("auxiliary"), "{change}");
        let mut away = seen(2, Some("follower"), true);
        away.unreached = Some("refused".to_owned());
        assert!(is(&judged(&[leads(), away]), Verdict::Must, "not reached"));
        let mut near = seen(2, Some("follower"), true);
        near.door = Some("127.0.0.1:4437".to_owned());
        near.unreached = Some("refused".to_owned());
        assert!(is(
            &judged(&[leads(), near]),
            Verdict::Better,
            "not reached"
        ));
        let all = [
            seen(1, Some("follower"), true),
            seen(2, Some("candidate"), true),
        ];
        assert!(is(&judged(&all), Verdict::Must, "nobody leads"));
    }
}
