//! `logberg status`: how one node sees the cluster.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use client::admin::{Altered, Health, LogStatus, NodeStatus, PeerStatus, State, Status, Weight};

use super::kv::under_way;
use crate::global::Global;
use terminal::exit::{Kind, Said};
use terminal::show;
use wire::quantity;

const WAIT_INTERVAL: Duration = Duration::from_millis(200);
/// A state that is waited for has to hold for so long: a node that was just stopped is missed, and a log without a leader is
/// told of, within it.
const HOLDS: Duration = Duration::from_millis(1500);
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Show the nodes and logs of the cluster
#[derive(Debug, Args)]
#[command(after_help = "\
Answered by the first server that can, from its own point of view: ask each (--server) when they
may disagree. How far the replicas of a log are is its leader's word, who is asked for it, for a second at most. With --fresh it is what the cluster agreed on by now, or there is no answer: log 0, the
directory, needs a quorum for it. Warnings of all nodes are in each one's answer, for ten seconds after their cause is gone;
docs/operations.md has a section for each.

--wait returns once the state has held for a second and a half, in which a node that was just stopped is missed.

Exit codes: 0 healthy; 8 at risk: all is served, and something is wrong; 13 degraded: appends to a log are refused, and
all is read; 3 unavailable: something is not served, or nobody answers. With --watch there are none. With --wait it is 0 once the state has come about, and
one of the others if that takes longer than --timeout.

Example:
  logberg status || page-somebody
  logberg status --watch
  logberg status --wait --timeout 60 && deploy-the-next-node
  logberg status --wait --for alive --server 127.0.0.1:7117
  logberg --server 127.0.0.1:7118 status --json")]
pub struct Arguments {
    /// Show it again every second
    #[arg(long)]
    watch: bool,
    /// Return once the cluster is as --for says, or --timeout is over
    #[arg(long, conflicts_with = "watch")]
    wait: bool,
    /// What to wait for: a server that answers, all that is to be served, or nothing wrong
    #[arg(
        long = "for",
        value_name = "STATE",
        value_enum,
        requires = "wait",
        default_value = "healthy"
    )]
    goal: Goal,
    /// Only from a server that knows all that the directory has chosen by now
    #[arg(long)]
    fresh: bool,
}

/// A state to wait for. Each has those before it in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Goal {
    Alive,
    Served,
    Healthy,
}

impl Goal {
    fn is_reached(self, status: &Status) -> bool {
        let state = status.health.state;
        // A node that has just started warns of nothing yet.
        let is_led = status.logs.iter().all(|log| log.leader.is_some());
        match self {
            Goal::Alive => true,
            Goal::Served => is_led && state <= State::AtRisk,
            Goal::Healthy => is_led && state == State::Healthy,
        }
    }

    fn has_held(self, since: Option<Instant>) -> bool {
        since.is_some_and(|since| self == Goal::Alive || since.elapsed() >= HOLDS)
    }
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let client = global.client();
        let began = Instant::now();
        let terminal = io::stdout().is_terminal();
        let mut reached_since = None;
        loop {
            let mut status = match self.fresh {
                true => client.fresh_status(),
                false => client.status(),
            };
            let is_so = |status: &Status| self.wait && self.goal.is_reached(status);
            reached_since = match status.as_ref().is_ok_and(is_so) {
                true => reached_since.or(Some(Instant::now())),
                false => None,
            };
            // Who waits for less than that is told what was so all the time.
            let is_over = began.elapsed() >= global.timeout;
            let is_reached =
                self.goal.has_held(reached_since) || is_over && reached_since.is_some();
            if self.wait && !is_reached && !is_over {
                thread::sleep(WAIT_INTERVAL);
                continue;
            }
            if let Ok(status) = &mut status {
                client.gather_replicas(status);
            }
            // A cluster that is down is what somebody who watches wants to see, not an end.
            let (json, text) = match (&status, self.watch) {
                (Ok(status), _) => (serde_json::to_string(status)?, render(status)),
                (Err(error), true) => {
                    let json = serde_json::json!({ "error": error.to_string() });
                    (json.to_string(), error.to_string())
                }
                (Err(_), false) => (String::new(), String::new()),
            };
            if let (Err(error), false) = (&status, self.watch) {
                return Err(error.clone().into());
            }
            match (global.json, self.watch && terminal) {
                (true, _) => show::print(json)?,
                (false, true) => show::print(format_args!("\x1b[H\x1b[2J{text}"))?,
                (false, false) => show::print(text)?,
            }
            if is_reached {
                return Ok(());
            }
            if !self.watch {
                let state = status.map_or(State::Unavailable, |status| status.health.state);
                return match state {
                    State::Healthy => Ok(()),
                    State::AtRisk => Err(Said(Kind::AtRisk).into()),
                    State::Degraded => Err(Said(Kind::Degraded).into()),
                    State::Unavailable => Err(Said(Kind::Unreachable).into()),
                };
            }
            thread::sleep(WATCH_INTERVAL);
        }
    }
}

/// A node that the lab alters is told from what is shipped.
fn altered(of: &Altered) -> String {
    format!(
        "altered by the lab: {} between nodes, timers {} times as long, phase 1 {}; no figure of this cluster is the product's",
        of.carry, of.time_scale, of.phase_one
    )
}

fn render(status: &Status) -> String {
    let mut parts = vec![format!(
        "cluster {}, version {}, seen by node {} at {} (logberg {}, {})",
        status.cluster,
        status.cluster_version,
        status.node,
        status.address,
        status.version,
        status.write_path
    )];
    parts.extend(status.altered.as_ref().map(altered));
    parts.push(nodes(&status.nodes));
    parts.push(logs(&status.logs));
    let replicas = replicas(&status.logs);
    if !replicas.is_empty() {
        parts.push(replicas);
    }
    parts.extend(copies(&status.logs));
    parts.extend(under_way::table_of(&status.slots_under_way));
    if !status.waiting_for.is_empty() {
        let lines: Vec<_> = status
            .waiting_for
            .iter()
            .map(|what| format!("  {what}"))
            .collect();
        parts.push(format!("waiting for\n{}", lines.join("\n")));
    }
    parts.extend(stopped(&status.logs));
    parts.push(health(&status.health));
    parts.join("\n\n")
}

/// Why replicas of this node take no part any more.
fn stopped(logs: &[LogStatus]) -> Option<String> {
    let stopped = logs
        .iter()
        .filter_map(|log| Some(format!("  {}: {}", log.name, log.stopped.as_ref()?)));
    let lines: Vec<String> = stopped.collect();
    (!lines.is_empty()).then(|| format!("stopped\n{}", lines.join("\n")))
}

/// The state, then each warning with what helps.
fn health(health: &Health) -> String {
    let state = match health.state {
        State::Healthy => "healthy",
        State::AtRisk => "at risk",
        State::Degraded => "degraded (appends to a log are refused)",
        State::Unavailable => "unavailable",
    };
    let mut lines = vec![format!("health: {state}")];
    for warning in &health.warnings {
        lines.push(format!("  {}: {}", warning.code, warning.sentence));
        lines.push(format!("    help: {}", warning.remedy));
    }
    lines.join("\n")
}

fn nodes(nodes: &[NodeStatus]) -> String {
    let mut headings = vec!["NODE", "ADDRESS", "STATE", "HEARD", "FREE", "SPEAKS"];
    let serves_keys = nodes.iter().any(|node| node.kv.is_some());
    if serves_keys {
        headings.push("REDIS CLIENTS AT");
    }
    let serves_http = nodes.iter().any(|node| node.http.is_some());
    if serves_http {
        headings.push("HTTP AT");
    }
    let mut table = show::table(&headings);
    for node in nodes {
        let state = match (node.is_self, node.alive) {
            (true, _) => "answers",
            (false, true) => "alive",
            (false, false) => "silent",
        };
        let heard = match (node.is_self, node.last_heard_ms) {
            (false, Some(ms)) => ago(ms),
            (false, None) => "never".to_owned(),
            (true, _) => String::new(),
        };
        let free = node.free_bytes.map(quantity::shown).unwrap_or_default();
        let mut row = vec![
            node.id.into(),
            node.address.as_str().into(),
            state.into(),
            show::number(heard),
            show::number(free),
            node.speaks.as_deref().unwrap_or_default().into(),
        ];
        if serves_keys {
            row.push(node.kv.as_deref().unwrap_or_default().into());
        }
        if serves_http {
            row.push(node.http.as_deref().unwrap_or_default().into());
        }
        table.add_row(row);
    }
    show::lines(&table)
}

fn ago(ms: u64) -> String {
    format!("{} ago", quantity::time(Duration::from_millis(ms)))
}

fn logs(logs: &[LogStatus]) -> String {
    let headings = [
        "LOG", "ID", "ROLE", "LEADER", "TERM", "WEIGHTS", "CHOSEN", "UNCHOSEN", "BYTES", "MISSING",
        "STREAMS", "WRITER",
    ];
    let mut table = show::table(&headings);
    for log in logs {
        let weights: Vec<String> = log
            .weights
            .iter()
            .map(|weight| {
                let auxiliary = if weight.auxiliary { " auxiliary" } else { "" };
                format!("{}:{}{auxiliary}", weight.node, weight.weight)
            })
            .collect();
        table.add_row([
            log.name.as_str().into(),
            show::number(log.id),
            log.role.as_str().into(),
            show::number(
                log.leader
                    .map_or("none".to_owned(), |leader| leader.to_string()),
            ),
            log.term.as_str().into(),
            weights.join(" ").into(),
            show::number(log.first_unchosen),
            show::number(log.proposed.saturating_sub(log.first_unchosen)),
            show::number(quantity::shown(log.output_bytes)),
            show::number(quantity::shown(log.missing_bytes)),
            show::number(log.streams),
            log.writer.clone().unwrap_or_default().into(),
        ]);
    }
    show::lines(&table)
}

fn known(value: Option<impl ToString>) -> comfy_table::Cell {
    show::number(value.map_or_else(|| "?".to_owned(), |value| value.to_string()))
}

fn state_of(log: &LogStatus, peer: &PeerStatus) -> &'static str {
    let auxiliary = |weight: &Weight| weight.node == peer.id && weight.auxiliary;
    match (log.weights.iter().any(auxiliary), log.engaged, peer.level) {
        (true, true, _) => "auxiliary, engaged",
        (true, false, _) => "auxiliary",
        (false, _, true) => "level",
        (false, _, false) => "behind",
    }
}

/// Logs that want more copies than a majority's, and whether they have them.
fn copies(logs: &[LogStatus]) -> Option<String> {
    let wanting = logs.iter().filter(|log| log.min_copies > 0);
    let lines: Vec<String> = wanting
        .map(|log| {
            let wanted = log.min_copies;
            let there = match log.copies {
                Some(there) if there < u64::from(wanted) => {
                    format!("{there} are there: appends are refused")
                }
                Some(there) => format!("{there} are there"),
                None => "its leader does not say how many are there".to_owned(),
            };
            format!("  {}: wants {wanted}; {there}", log.name)
        })
        .collect();
    (!lines.is_empty()).then(|| format!("copies\n{}", lines.join("\n")))
}

/// A table of other replicas, by the words of the leaders.
fn replicas(logs: &[LogStatus]) -> String {
    let headings = ["LOG", "REPLICA", "ACCEPTED", "LAG", "MISSING", "STATE"];
    let mut table = show::table(&headings);
    for (log, peer) in logs
        .iter()
        .flat_map(|log| log.peers.iter().map(move |peer| (log, peer)))
    {
        table.add_row([
            log.name.as_str().into(),
            show::number(peer.id),
            known(peer.accepted_up_to.map(|slot| slot.to_string())),
            known(peer.lag_bytes.map(quantity::shown)),
            known(peer.missing_bytes.map(quantity::shown)),
            state_of(log, peer).into(),
        ]);
    }
    if table.row_iter().next().is_none() {
        return String::new();
    }
    show::lines(&table)
}

#[cfg(test)]
mod tests {
    use super::{Altered, ago, altered};

    #[test]
    fn a_node_of_the_lab_says_what_it_has_that_others_have_not() {
        let said = altered(&Altered {
            carry: "unix".to_owned(),
            time_scale: 10,
            phase_one: "per-batch".to_owned(),
        });
        let wanted =
            "altered by the lab: unix between nodes, timers 10 times as long, phase 1 per-batch;";
        assert!(said.starts_with(wanted), "{said}");
    }

    #[test]
    fn a_time_since_has_a_unit_that_people_use() {
        let said = [40, 57_000, 600_000, 10_000_000, 864_000_000].map(ago);
        assert_eq!(
            said,
            [
                "40 ms ago",
                "57 s ago",
                "10 min ago",
                "2 h ago",
                "10 days ago"
            ]
        );
    }
}
