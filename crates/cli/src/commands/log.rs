//! `logberg log`: the logs of a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;

use anyhow::Result;
use clap::{Args, Subcommand};
use client::admin::Weight;
use client::members::Members;
use client::{LogDetails, NewLog, Part};
use terminal::exit::Failure;
use terminal::show;
use wire::{LogKind, Retention};

use crate::global::Global;

mod retaining;

use retaining::{How, agreed};

/// Create, list, show and delete logs, and say what is kept of them
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Debug, Subcommand)]
enum LogCommand {
    /// Create a log, on all nodes or on some
    #[command(after_help = "\
Without --members every node of the cluster hosts the log, also those that join.

An auxiliary node votes, and is sent no bytes while the others are well: three nodes of which one is
auxiliary hold two copies of everything. When another one fails it takes its place, by itself.

Examples:
  logberg log create orders
  logberg log create orders --members 1,2,3 --auxiliary 3
  logberg log create orders --retention 10GiB,7d
  logberg log create orders --min-copies 3
  logberg log create team --kind streams          a space: /v1/stream/@team/NAME")]
    Create {
        #[arg(value_name = "NAME")]
        name: String,
        /// The nodes that host it
        #[arg(long, value_name = "ID,…", value_delimiter = ',')]
        members: Vec<u64>,
        /// Nodes that hold bytes only while others cannot; together less than half of the votes
        #[arg(long, value_name = "ID,…", value_delimiter = ',')]
        auxiliary: Vec<u64>,
        /// How much of it is kept, and for how long; everything if not given
        #[arg(long, value_name = "SIZE,AGE")]
        retention: Option<Retention>,
        /// The nodes, auxiliary ones not counted, that hold what is acknowledged: with fewer, appends are refused
        #[arg(long, value_name = "N")]
        min_copies: Option<u32>,
        /// The meaning of its bytes: its writers' own (`bytes`); a space of named streams over HTTP (`streams`); or another machine's writes, which clients read and do not append (`state`)
        #[arg(long, value_name = "KIND", default_value_t = LogKind::Bytes)]
        kind: LogKind,
    },
    /// Delete a log with all its bytes, on every node
    #[command(after_help = "\
Nothing brings a deleted log back. Its clients are told that there is no such log. A node that is away
removes its files when it comes back. The name may be used again, for another log, once this one has ended:
its own nodes agree that nothing more is acknowledged there. If too few of them are there for that, the deletion is
agreed and not yet in force (exit code 10); the same command again waits for it, and --abandon waits for a second and then
frees the name all the same. Nodes that have not received the deletion keep serving the old log if they are a majority of it.

Example:
  logberg log delete orders --yes
  logberg log delete orders --abandon --yes=orders")]
    Delete {
        #[arg(value_name = "NAME")]
        name: String,
        /// Confirm (required); with --abandon the log's name, as --yes=NAME
        #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
        yes: Option<String>,
        /// Free the name although the log cannot end; says what may be lost, and wants the name typed
        #[arg(long)]
        abandon: bool,
    },
    /// Show what the cluster's directory says of a log
    #[command(after_help = "Example:\n  logberg log show orders --json")]
    Show {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Set how much of a log is kept: so many bytes, or for so long
    #[command(after_help = "\
The log's leader trims what exceeds the bounds, about twice a second. A size or an age may be exceeded by a
sixteenth, an age also after a restart of all nodes, which then know less of how old bytes are. A node's files
shrink by whole segments. Ages are measured by the clock of the node that leads. Where a new bound deletes something it is
said first, and asked for; a script says --yes.

Example:
  logberg log retain main 10GiB --plan
  logberg log retain main 10GiB
  logberg log retain main 10GiB,7d
  logberg log retain main forever")]
    Retain {
        #[arg(value_name = "NAME")]
        name: String,
        /// A size, an age, both with a comma between them, or `forever`
        #[arg(value_name = "SIZE,AGE")]
        retention: Retention,
        /// Say what would be deleted, and do nothing
        #[arg(long)]
        plan: bool,
        /// Delete it without asking
        #[arg(long, conflicts_with = "plan")]
        yes: bool,
    },
    /// Set how much of a log is kept, and how many nodes hold what it acknowledges
    #[command(after_help = "\
With --min-copies N an append is acknowledged once N nodes have it on disk, and refused (code too-few-copies) while fewer are
there and hold all of the log. Auxiliary nodes do not count. 0: a majority of the votes decides, as at first.
What is not given stays as it is.

Example:
  logberg log set main --min-copies 3
  logberg log set main --min-copies 2 --retention 10GiB,7d
  logberg log set main --min-copies 0")]
    Set {
        #[arg(value_name = "NAME")]
        name: String,
        /// The nodes that hold what is acknowledged; 0 if a majority decides
        #[arg(long, value_name = "N", required_unless_present = "retention")]
        min_copies: Option<u32>,
        /// How much of it is kept, and for how long; `forever` for all
        #[arg(long, value_name = "SIZE,AGE")]
        retention: Option<Retention>,
        /// Delete what is not kept any more without asking
        #[arg(long)]
        yes: bool,
    },
    /// List the logs
    #[command(after_help = "\
Example:
  logberg log list --json
  logberg log list --limit 100 --after 412
  logberg log list --stale --server 10.0.0.7:7117")]
    List {
        /// As the node that answers has read so far: without a quorum of log 0, and perhaps old
        #[arg(long)]
        stale: bool,
        /// Only those with a higher id
        #[arg(long, value_name = "ID")]
        after: Option<u64>,
        /// At most so many
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let client = global.client();
        match self.command {
            LogCommand::Create {
                name,
                members,
                auxiliary,
                retention,
                min_copies,
                kind,
            } => {
                each_once("--members", &members)?;
                each_once("--auxiliary", &auxiliary)?;
                let log = client.create_new_log(&NewLog {
                    name,
                    members,
                    auxiliary,
                    retention: retention.map(|retention| retention.to_string()),
                    min_copies,
                    kind,
                })?;
                if global.json {
                    return show::print_json(&log);
                }
                show::print(format_args!("log {} has id {}", log.name, log.id))?;
                // It is made; if nobody says by whom it is kept now, `log show` does later.
                if let Ok(made) = client.log(&log.name) {
                    let zones = client.members().map(zones).unwrap_or_default();
                    let thin = too_few(&made).into_iter().chain(zoneless(&made, &zones));
                    thin.for_each(|thin| eprintln!("logberg: {thin}"));
                }
                Ok(())
            }
            LogCommand::Retain {
                name,
                retention,
                plan,
                yes,
            } => {
                let how = How { plan, yes };
                if !agreed(global, &client, &name, retention, how)? {
                    return Ok(());
                }
                let log = client.retain(&name, &retention.to_string())?;
                match global.json {
                    true => show::print_json(&log),
                    false => {
                        show::print(format_args!("{}: retention: {}", log.name, log.retention))
                    }
                }
            }
            LogCommand::Set {
                name,
                min_copies,
                retention,
                yes,
            } => {
                if let Some(retention) = retention {
                    let how = How { plan: false, yes };
                    agreed(global, &client, &name, retention, how)?;
                }
                let retention = retention.map(|retention| retention.to_string());
                let log = client.set_log(&name, retention.as_deref(), min_copies)?;
                match global.json {
                    true => show::print_json(&log),
                    false => show::print(format_args!(
                        "{}: retention: {}; {}",
                        log.name,
                        log.retention,
                        copies(log.min_copies)
                    )),
                }
            }
            LogCommand::Delete { name, yes, abandon } => {
                let log = match abandon {
                    true => {
                        check_abandon(&name, yes.as_deref())?;
                        client.abandon_log(&name)?
                    }
                    false => {
                        check_delete(&name, yes.as_deref())?;
                        client.delete_log(&name)?
                    }
                };
                match global.json {
                    true => show::print_json(&log),
                    false => show::print(format_args!("log {} is deleted", log.name)),
                }
            }
            LogCommand::Show { name } => {
                let log = client.log(&name)?;
                let there = copies_there(&client, &log);
                match global.json {
                    true => show::print_json(&Shown {
                        log: &log,
                        copies: there,
                    }),
                    false => show_details(&log, there),
                }
            }
            LogCommand::List {
                stale,
                after,
                limit,
            } => {
                let part = Part { after, limit };
                let logs = match stale {
                    true => client.stale_logs_part(part),
                    false => client.logs_part(part),
                }?;
                if global.json {
                    return show::print_json(&logs);
                }
                let mut table = show::table(&["LOG", "ID", "RETENTION"]);
                for log in logs {
                    let id = show::number(log.id);
                    let keeps = match log.deleting {
                        true => "is being deleted".to_owned(),
                        false => log.retention,
                    };
                    table.add_row([log.name.into(), id, keeps.into()]);
                }
                show::print(show::lines(&table))
            }
        }
    }
}

fn check_delete(name: &str, yes: Option<&str>) -> Result<()> {
    match yes {
        Some("") => Ok(()),
        Some(typed) if typed == name => Ok(()),
        Some(typed) => Err(other_name(name, typed)),
        None => Err(Failure::usage(format!(
            "this deletes {name} with all its bytes, for good: say --yes if that is meant"
        ))
        .into()),
    }
}

fn other_name(name: &str, typed: &str) -> anyhow::Error {
    Failure::usage(format!(
        "{typed:?} is not the name of the log that is to go, {name}; nothing was done"
    ))
    .into()
}

/// Checks that an act which nobody can take back is typed: on a terminal when it is asked for, else in --yes=NAME.
fn check_abandon(name: &str, yes: Option<&str>) -> Result<()> {
    if let Some(typed) = yes.filter(|typed| !typed.is_empty()) {
        return match typed == name {
            true => Ok(()),
            false => Err(other_name(name, typed)),
        };
    }
    let explained = format!(
        "The name {name} is freed, after a second also if that log cannot end. Where more than half of its nodes run and are \
         not reached from here, its old leader may then go on acknowledging appends, and readers there are shown the old \
         log: writers are told that the bytes are safe, and the bytes are lost when those nodes hear of this. A new log of \
         that name begins empty and shows nothing of it. To lose nothing, bring back more than half of its nodes and say \
         `logberg log delete {name}` without --abandon."
    );
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "{explained} If that is meant, say --yes={name}; nothing was done"
        ))
        .into());
    }
    eprint!("{explained}\nType the log's name to free it: ");
    let mut typed = String::new();
    std::io::stdin().read_line(&mut typed)?;
    match typed.trim() == name {
        true => Ok(()),
        false => Err(other_name(name, typed.trim())),
    }
}

#[derive(serde::Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    log: &'a LogDetails,
    /// The full voters that are alive and hold all of it, where copies are wanted and its leader says how many there are.
    copies: Option<u64>,
}

/// The number of copies that are there, by the word of the log's leader. Nobody is asked where a majority decides.
fn copies_there(client: &client::Client, log: &LogDetails) -> Option<u64> {
    if log.min_copies == 0 {
        return None;
    }
    let mut status = client.status().ok()?;
    status.logs.retain(|seen| seen.id == log.id);
    if status.logs.is_empty() {
        // That node does not host it: others know who leads it.
        let all = client.statuses().ok()?;
        let mut seen = all.into_iter().flat_map(|status| status.logs);
        return seen
            .find(|seen| seen.id == log.id && seen.role == "leader")?
            .copies;
    }
    client.gather_replicas(&mut status);
    status.logs.first()?.copies
}

fn show_details(log: &LogDetails, there: Option<u64>) -> Result<()> {
    let hosts = match log.on_all_nodes {
        true => "all nodes",
        false => "its members",
    };
    show::print(format_args!(
        "log {}: id {}, kind {}, retention: {}; {}{}\nhosted by {hosts}; {}",
        log.name,
        log.id,
        log.kind,
        log.retention,
        copies(log.min_copies),
        are_there(log.min_copies, there),
        voters(&log.members)
    ))
}

fn are_there(wanted: u32, there: Option<u64>) -> String {
    match there {
        _ if wanted == 0 => String::new(),
        Some(there) if there < u64::from(wanted) => {
            format!(" ({there} are there now: appends are refused)")
        }
        Some(there) => format!(" ({there} are there now)"),
        None => " (its leader does not say how many are there)".to_owned(),
    }
}

fn copies(min_copies: u32) -> String {
    match min_copies {
        0 => "acknowledged by: a majority".to_owned(),
        1 => "acknowledged by: a majority, and 1 copy".to_owned(),
        more => format!("acknowledged by: a majority, and {more} copies"),
    }
}

/// A warning for a log that too few nodes keep for it to outlive one of them.
fn too_few(log: &LogDetails) -> Option<String> {
    let name = &log.name;
    let voters = log.members.iter().filter(|member| member.weight > 0);
    match voters.count() {
        1 => Some(format!(
            "{name} has one voter: while that node is away nothing is appended, and if its disk is lost, so is the log"
        )),
        2 => Some(format!("{name} has two voters: losing one stops appends")),
        _ => None,
    }
}

/// The zone of each node.
fn zones(members: Members) -> BTreeMap<u64, Option<String>> {
    let nodes = members.nodes.into_iter();
    nodes.map(|node| (node.id, node.zone)).collect()
}

/// A warning for a log whose voters may all fail together. Where nothing is known of the nodes nothing is said.
fn zoneless(log: &LogDetails, zones: &BTreeMap<u64, Option<String>>) -> Option<String> {
    let name = &log.name;
    let voters = log.members.iter().filter(|member| member.weight > 0);
    let voters: Vec<u64> = voters.map(|member| member.node).collect();
    let named: Option<BTreeSet<&Option<String>>> =
        voters.iter().map(|node| zones.get(node)).collect();
    let named: Vec<&Option<String>> = named?.into_iter().collect();
    match named[..] {
        _ if voters.len() < 2 => None,
        [None] => Some(format!(
            "no zones are declared for the voters of {name}: nothing keeps them from failing together (logberg members zone ID NAME)"
        )),
        [Some(zone)] => Some(format!(
            "all voters of {name} are in zone {zone}: when it fails, so does the log"
        )),
        _ => None,
    }
}

/// A node that is named twice may be a typo for another one.
fn each_once(option: &str, nodes: &[u64]) -> Result<()> {
    let mut seen = BTreeSet::new();
    match nodes.iter().find(|node| !seen.insert(**node)) {
        None => Ok(()),
        Some(node) => Err(Failure::usage(format!(
            "{option} names node {node} twice; name each node once"
        ))
        .into()),
    }
}

/// The voters with their weights, and those of them that are auxiliary.
fn voters(members: &[Weight]) -> String {
    let first = members.first().map(|member| member.weight);
    let alike = members.iter().all(|member| Some(member.weight) == first);
    let named = members.iter().map(|member| match alike {
        true => member.node.to_string(),
        false => format!("{} (weight {})", member.node, member.weight),
    });
    let named = named.collect::<Vec<_>>().join(", ");
    let each = match (alike, first, members.len()) {
        (true, Some(weight), 1) => format!(" (weight {weight})"),
        (true, Some(weight), _) => format!(" (weight {weight} each)"),
        _ => String::new(),
    };
    let auxiliaries = members.iter().filter(|member| member.auxiliary);
    let auxiliaries: Vec<String> = auxiliaries.map(|member| member.node.to_string()).collect();
    match auxiliaries.is_empty() {
        true => format!("voters: {named}{each}"),
        false => format!(
            "voters: {named}{each}; auxiliary: {}",
            auxiliaries.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voters_are_named_with_their_weights() {
        let member = |node, weight, auxiliary| Weight {
            node,
            weight,
            auxiliary,
        };
        let alike = [member(1, 1, false), member(2, 1, false)];
        assert_eq!(voters(&alike), "voters: 1, 2 (weight 1 each)");
        assert_eq!(voters(&alike[..1]), "voters: 1 (weight 1)");
        let unlike = [member(1, 2, false), member(2, 1, false), member(3, 1, true)];
        assert_eq!(
            voters(&unlike),
            "voters: 1 (weight 2), 2 (weight 1), 3 (weight 1); auxiliary: 3"
        );
        let kept_by = |members: &[Weight]| LogDetails {
            id: 1,
            name: "x".to_owned(),
            kind: "bytes".to_owned(),
            members: members.to_vec(),
            on_all_nodes: false,
            retention: "forever".to_owned(),
            min_copies: 0,
        };
        assert_eq!(too_few(&kept_by(&unlike)), None);
        let two = too_few(&kept_by(&alike)).expect("a word");
        assert_eq!(two, "x has two voters: losing one stops appends");
        let one = too_few(&kept_by(&alike[..1])).expect("a word");
        assert!(one.starts_with("x has one voter: "), "{one}");
    }
}
