//! `logberg members`: who votes, where, with which weight.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use client::members::{Action, Change, Log, Members, Planned};
use client::{Client, Part};

use crate::confirm::confirmed;
use crate::global::Global;
use terminal::show;
use wire::quantity;

/// Show and change the nodes of the cluster and their weights
#[derive(Debug, Args)]
#[command(after_help = "\
A node that was started with --join is filled with all bytes and has weight 0, until it is added (the first
few are by themselves, see `logberg node --voters`). A change is made wanted at once, all or nothing; then
the leaders go there step by step, each legal by itself, and wait where they must: for bytes to be copied, for
nodes to be alive. That goes on when this command is killed or a leader dies. The same command again follows it.

Examples:
  logberg members
  logberg members replace 3 4 --plan
  logberg members replace 3 4
  logberg members weight 1 2 --log main
  logberg members zone 2 cellar")]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<MembersCommand>,
}

#[derive(Debug, Subcommand)]
enum MembersCommand {
    /// Show the nodes, and of each log who has which weight and how many bytes
    #[command(after_help = "\
Example:
  logberg members show --json
  logberg members show --limit 100 --after 412")]
    Show {
        /// Only logs with a higher id
        #[arg(long, value_name = "ID")]
        after: Option<u64>,
        /// At most so many logs
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
    },
    /// Give a node weight that has none
    #[command(
        after_help = "Example:\n  logberg members add 4\n  logberg members add 4 --weight 2 --log main"
    )]
    Add {
        #[arg(value_name = "ID")]
        node: u64,
        #[arg(long, value_name = "N", default_value_t = 1)]
        weight: u64,
        /// In these logs only
        #[arg(long, value_name = "LOG,…", value_delimiter = ',')]
        log: Vec<String>,
        #[command(flatten)]
        how: How,
    },
    /// Take a node out of the cluster permanently: its id is never used again
    #[command(after_help = "\
The others are filled with what it holds first. When this is done it may be stopped and its directory
deleted.

Example:
  logberg members remove 3 --plan
  logberg members remove 3 --yes")]
    Remove {
        #[arg(value_name = "ID")]
        node: u64,
        #[command(flatten)]
        how: How,
    },
    /// Give a node's weights to another one, and take it out of the cluster
    #[command(after_help = "\
For a node that lost its disk: start it with an empty directory and --join, and replace the old id by the
new one.

Example:
  logberg members replace 3 4 --plan
  logberg members replace 3 4 --yes")]
    Replace {
        #[arg(value_name = "OLD")]
        old: u64,
        #[arg(value_name = "NEW")]
        new: u64,
        #[command(flatten)]
        how: How,
    },
    /// Set a node's weight; 0 leaves it in the cluster without a vote
    #[command(after_help = "Example:\n  logberg members weight 1 2 --log main")]
    Weight {
        #[arg(value_name = "ID")]
        node: u64,
        #[arg(value_name = "N")]
        weight: u64,
        /// In these logs only
        #[arg(long, value_name = "LOG,…", value_delimiter = ',')]
        log: Vec<String>,
        #[command(flatten)]
        how: How,
    },
    /// Say where others find a node that cannot tell them itself
    #[command(after_help = "Example:\n  logberg members address 2 10.0.0.7:7117")]
    Address {
        #[arg(value_name = "ID")]
        node: u64,
        #[arg(value_name = "HOST:PORT")]
        address: String,
        #[command(flatten)]
        how: How,
    },
    /// Bind the names in the certificates that nodes show now: each is believed by its own alone from then on
    #[command(after_help = "\
For a cluster that went over to TLS. Say it once all nodes run with --tls accept, and before they are restarted with
--tls require. Nodes that join by TLS are bound by that.

Example:
  logberg members bind --plan
  logberg members bind")]
    Bind {
        #[command(flatten)]
        how: How,
    },
    /// Bind another name to a node, whose certificate is to be one of another name
    #[command(after_help = "\
Then put the new certificate in place: until then that node is not believed. One node after the other.

Example:
  logberg members rename-certificate 2 cellar-2")]
    RenameCertificate {
        #[arg(value_name = "ID")]
        node: u64,
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        how: How,
    },
    /// Say which nodes fail together; - takes it back
    #[command(after_help = "\
Where two zones or more are declared, no change may give half of a log's weight to one.

Example:
  logberg members zone 2 cellar")]
    Zone {
        #[arg(value_name = "ID")]
        node: u64,
        #[arg(value_name = "ZONE", allow_hyphen_values = true)]
        zone: String,
        #[command(flatten)]
        how: How,
    },
}

#[derive(Debug, Args)]
struct How {
    /// Only show the steps
    #[arg(long)]
    plan: bool,
    /// Do it although it would be refused; says what is risked. No byte is given up even so
    #[arg(long)]
    force: bool,
    /// Do not follow it to its end
    #[arg(long)]
    no_wait: bool,
    /// Take a node out without asking
    #[arg(long, conflicts_with = "plan")]
    yes: bool,
}

const LOOK_INTERVAL: Duration = Duration::from_millis(200);

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let client = global.client();
        let (action, logs, how) = match self.command {
            None => return show_members(&client, Part::default(), global.json),
            Some(MembersCommand::Show { after, limit }) => {
                return show_members(&client, Part { after, limit }, global.json);
            }
            Some(MembersCommand::Add {
                node,
                weight,
                log,
                how,
            }) => (Action::Add { node, weight }, log, how),
            Some(MembersCommand::Remove { node, how }) => {
                (Action::Remove { node }, Vec::new(), how)
            }
            Some(MembersCommand::Replace { old, new, how }) => {
                (Action::Replace { old, new }, Vec::new(), how)
            }
            Some(MembersCommand::Weight {
                node,
                weight,
                log,
                how,
            }) => (Action::Weight { node, weight }, log, how),
            Some(MembersCommand::Address { node, address, how }) => {
                (Action::Address { node, address }, Vec::new(), how)
            }
            Some(MembersCommand::Bind { how }) => (Action::Bind, Vec::new(), how),
            Some(MembersCommand::RenameCertificate { node, name, how }) => {
                (Action::Name { node, name }, Vec::new(), how)
            }
            Some(MembersCommand::Zone { node, zone, how }) => {
                (Action::Zone { node, zone }, Vec::new(), how)
            }
        };
        let named: Vec<u64> = match &action {
            Action::Replace { old, new } => vec![*old, *new],
            Action::Add { node, .. } | Action::Remove { node } | Action::Weight { node, .. } => {
                vec![*node]
            }
            Action::Address { .. } | Action::Zone { .. } | Action::Bind | Action::Name { .. } => {
                Vec::new()
            }
        };
        let change = Change {
            logs,
            force: how.force,
            plan: true,
            ..Change::new(action)
        };
        let planned = client.change_members(&change)?;
        if !global.json {
            show::print(render_plan(&planned))?;
        }
        if how.plan {
            return match global.json {
                true => show::print_json(&planned),
                false => Ok(()),
            };
        }
        let leaves = planned.leaves.iter().map(|id| format!("node {id}"));
        let leaves: Vec<String> = leaves.collect();
        // Who says --force has read what is risked.
        if !leaves.is_empty() && !planned.nothing && !how.force {
            let what = format!(
                "{} leaves the cluster permanently, and that id is never used again",
                leaves.join(" and ")
            );
            confirmed(&what, how.yes)?;
        }
        // Also what is wanted already: it may not be in force everywhere, and then this waits.
        let change = Change {
            plan: false,
            version: (!planned.nothing).then_some(planned.version),
            ..change
        };
        client.change_members(&change)?;
        if !how.no_wait {
            follow(&client, &planned, &named, global.json)?;
        }
        match global.json {
            true => show::print_json(&planned),
            false if how.no_wait => show::print("agreed; the cluster goes on by itself"),
            false => show::print("done"),
        }
    }
}

fn show_members(client: &Client, part: Part<u64>, json: bool) -> Result<()> {
    let members = client.members_part(part)?;
    match json {
        true => show::print_json(&members),
        false => show::print(render(&members)),
    }
}

/// Until everything is as planned, or somebody wanted something else meanwhile.
/// (What is under way in a log that the answering node does not host is not in its plan.)
fn follow(client: &Client, planned: &Planned, named: &[u64], quiet: bool) -> Result<()> {
    let mut told = BTreeMap::new();
    loop {
        let members = client
            .members()
            .context("the change goes on by itself; the same command again follows it")?;
        let moves = |member: &client::members::Member| {
            named.contains(&member.node) && member.weight != member.wanted
        };
        let concerned = |log: &&Log| {
            let is_planned = planned.logs.iter().any(|planned| planned.id == log.id);
            is_planned || log.members.iter().any(moves)
        };
        let mut waits = Vec::new();
        for log in members.logs.iter().filter(concerned) {
            let state = progress(log);
            if let Some(state) = &state {
                waits.push(state.clone());
            }
            let line =
                state.unwrap_or_else(|| format!("{}: {}, as wanted", log.name, weights(log)));
            if told.insert(log.id, line.clone()).as_ref() != Some(&line) && !quiet {
                show::print(line)?;
            }
        }
        let leaves =
            |node: &client::members::Node| planned.leaves.contains(&node.id) && node.leaving;
        if waits.is_empty() && !members.nodes.iter().any(leaves) {
            return Ok(());
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

/// The thing that a log is waiting for; `None` when all is done, by its leader's word.
fn progress(log: &Log) -> Option<String> {
    let why = match (&log.waits_for, log.steps.first()) {
        (Some(why), _) => why.clone(),
        (None, Some(_)) => "the next step".to_owned(),
        (None, None) if !log.leads => "its leader".to_owned(),
        (None, None) => return None,
    };
    let left = match log.steps.len() {
        0 => String::new(),
        1 => ", 1 step left".to_owned(),
        left => format!(", {left} steps left"),
    };
    Some(format!(
        "{}: {}{left}; waits: {why}",
        log.name,
        weights(log)
    ))
}

fn weights(log: &Log) -> String {
    let members = log.members.iter().filter(|member| member.weight > 0);
    let members: Vec<String> = members
        .map(|member| format!("{}:{}", member.node, member.weight))
        .collect();
    members.join(" ")
}

fn render_plan(planned: &Planned) -> String {
    let mut lines = Vec::new();
    for risk in &planned.risks {
        lines.push(format!("RISK  {risk}"));
    }
    for note in &planned.notes {
        lines.push(format!("NOTE  {note}"));
    }
    let all = |weights: &BTreeMap<u64, u64>| {
        let weights: Vec<String> = weights
            .iter()
            .map(|(node, weight)| format!("{node}:{weight}"))
            .collect();
        weights.join(" ")
    };
    for log in &planned.logs {
        lines.push(format!(
            "{}  {}  →  {}",
            log.name,
            all(&log.from),
            all(&log.to)
        ));
        for (number, step) in log.steps.iter().enumerate() {
            lines.push(format!("  {}. {step}", number + 1));
        }
    }
    for name in &planned.names {
        let how = match name.bound {
            true => "bound",
            false => "to be bound",
        };
        lines.push(match &name.certificate {
            Some(certificate) => format!("node {}  {certificate}  {how}", name.node),
            None => format!("node {}  no certificate", name.node),
        });
    }
    for node in &planned.leaves {
        lines.push(format!("node {node} leaves the cluster permanently"));
    }
    if planned.nothing && planned.logs.is_empty() {
        lines.push("nothing to change: already set".to_owned());
    } else if planned.nothing {
        lines.push("already requested, and under way".to_owned());
    }
    lines.join("\n")
}

fn render(members: &Members) -> String {
    let has_names = members
        .nodes
        .iter()
        .any(|node| !node.certificate.is_empty());
    let mut columns = vec!["NODE", "ADDRESS", "ZONE", "KIND", "STATE", "SPEAKS"];
    columns.extend(has_names.then_some("CERTIFICATE"));
    let mut nodes = show::table(&columns);
    for node in &members.nodes {
        let state = match (node.alive, node.last_heard_ms) {
            (true, _) => "alive".to_owned(),
            (false, Some(ms)) => {
                format!("silent for {}", quantity::time(Duration::from_millis(ms)))
            }
            (false, None) => "silent".to_owned(),
        };
        let leaves = if node.leaving { ", leaves" } else { "" };
        let zone = node.zone.as_deref().unwrap_or_default();
        let name = match node.replaced_by {
            Some(by) => format!("node {by} has it"),
            None => node.certificate.clone(),
        };
        let row: [comfy_table::Cell; 6] = [
            node.id.into(),
            node.address.as_str().into(),
            zone.into(),
            node.kind.as_str().into(),
            comfy_table::Cell::new(state + leaves),
            format!("up to {}", node.newest_version).into(),
        ];
        let named = has_names.then(|| name.into());
        nodes.add_row(row.into_iter().chain(named));
    }
    let mut logs = show::table(&["LOG", "NODE", "ROLE", "WEIGHT", "WANTED", "HOLDS", "OF"]);
    let mut waiting = Vec::new();
    for log in &members.logs {
        for member in &log.members {
            let held = member
                .held_bytes
                .map_or_else(|| "?".to_owned(), |held| quantity::shown(held).to_string());
            logs.add_row([
                log.name.as_str().into(),
                show::number(member.node),
                member.role.as_str().into(),
                show::number(member.weight),
                show::number(member.wanted),
                show::number(held),
                show::number(quantity::shown(log.output_bytes)),
            ]);
        }
        if !log.steps.is_empty() || log.waits_for.is_some() {
            waiting.extend(progress(log));
            waiting.extend(log.steps.iter().map(|step| format!("  {step}")));
        }
    }
    let version = format!("the cluster is at version {}", members.cluster_version);
    let mut parts = vec![show::lines(&nodes), version, show::lines(&logs)];
    if !members.removed.is_empty() {
        let removed: Vec<String> = members.removed.iter().map(ToString::to_string).collect();
        parts.push(format!("removed permanently: {}", removed.join(", ")));
    }
    if !waiting.is_empty() {
        parts.push(format!("under way\n{}", waiting.join("\n")));
    }
    parts.join("\n\n")
}
