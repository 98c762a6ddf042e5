//! `logberg kv`: the groups that serve keys.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, Subcommand};
use client::leader::Leader;
use client::{AdminError, Client, NewLog};
use door::{name_of, range_of};
use serde::Serialize;
use terminal::exit::{Failure, Kind};
use terminal::show;
use wire::LogKind;

use crate::global::Global;

/// Groups of keys: make them, and see who serves which slots
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the groups, once the nodes serve keys (`logberg node --kv`)
    #[command(after_help = "\
Each group is a log with the replicas, elections and repairs that logs have. 16,384 slots are spread over
the groups evenly, and stay where they are. Whoever leads a group answers for its slots, so groups
are led by different nodes. The command may be given again: what is there already stays.

Example: one group for each node that votes
  logberg kv init
  redis-cli -c -p 7379 set hello world")]
    Init {
        /// How many; one for each node that votes, if nothing is said
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
        groups: Option<u16>,
    },
    /// Show which slots each group serves, and who leads it
    #[command(
        alias = "map",
        after_help = "\
Example:
  logberg kv status"
    )]
    Status,
}

/// One group.
#[derive(Debug, Serialize)]
struct Shown {
    group: String,
    first_slot: u16,
    last_slot: u16,
    leader: Option<u64>,
    nodes: Vec<u64>,
}

/// New groups are waited for so long.
const READY: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(100);

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let client = global.client();
        match self.command {
            Command::Init { groups } => init(global, &client, groups),
            Command::Status => show_all(global, &shown(&client.leaders()?)),
        }
    }
}

/// The groups that are there, in the order of their slots.
fn shown(leaders: &[Leader]) -> Vec<Shown> {
    let groups = leaders.iter().filter_map(|log| {
        let (first_slot, last_slot) = range_of(&log.log)?;
        let mut nodes: Vec<u64> = log.candidates.iter().map(|one| one.node).collect();
        nodes.sort_unstable();
        Some(Shown {
            group: log.log.clone(),
            first_slot,
            last_slot,
            leader: log.leader,
            nodes,
        })
    });
    let mut groups: Vec<Shown> = groups.collect();
    groups.sort_by_key(|group| (group.first_slot, group.last_slot));
    groups
}

fn show_all(global: &Global, groups: &[Shown]) -> Result<()> {
    if global.json {
        return show::print_json(&groups);
    }
    if groups.is_empty() {
        return show::print("no group serves keys: make them with `logberg kv init`");
    }
    let mut table = show::table(&["GROUP", "SLOTS", "LEADER", "CAN LEAD"]);
    for group in groups {
        let nodes: Vec<String> = group.nodes.iter().map(u64::to_string).collect();
        table.add_row([
            group.group.clone(),
            format!("{}-{}", group.first_slot, group.last_slot),
            group
                .leader
                .map_or_else(|| "nobody".to_owned(), |leader| leader.to_string()),
            nodes.join(" "),
        ]);
    }
    show::print(show::lines(&table))
}

fn init(global: &Global, client: &Client, groups: Option<u16>) -> Result<()> {
    let there: Vec<String> = client.logs()?.into_iter().map(|log| log.name).collect();
    let known = there.iter().filter(|name| range_of(name).is_some());
    let known: Vec<&String> = known.collect();
    let groups = match groups {
        Some(groups) => groups,
        None => match known.first().and_then(|name| name.rsplit_once("-of-")) {
            Some((_, groups)) => groups.parse()?,
            None => voters(client)?,
        },
    };
    let wanted: Vec<String> = (1..=groups).map(|group| name_of(group, groups)).collect();
    if let Some(other) = known.iter().find(|name| !wanted.contains(name)) {
        let sentence = format!(
            "the slots are spread already, and {other} has some: they stay where they are; leave --groups out"
        );
        return Err(Failure::new(Kind::Refused, sentence).into());
    }
    for name in &wanted {
        let new = NewLog {
            name: name.clone(),
            kind: LogKind::Kv,
            ..NewLog::default()
        };
        match client.create_new_log(&new) {
            Ok(_) | Err(AdminError::Exists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let all = spread(client, &wanted)?;
    show_all(global, &all)
}

/// The nodes that vote in the directory.
fn voters(client: &Client) -> Result<u16> {
    let leaders = client.leaders()?;
    let directory = leaders.iter().find(|log| log.id == 0);
    let voters = directory.map_or(1, |directory| directory.candidates.len().max(1));
    Ok(u16::try_from(voters)?)
}

/// Waits until all groups are led, and has each led by another node, as far as there are so many.
fn spread(client: &Client, wanted: &[String]) -> Result<Vec<Shown>> {
    let deadline = Instant::now() + READY;
    let all = loop {
        let all = shown(&client.leaders()?);
        let led = all.iter().filter(|group| group.leader.is_some()).count();
        if led >= wanted.len() || Instant::now() > deadline {
            break all;
        }
        thread::sleep(POLL);
    };
    let mut load: BTreeMap<u64, usize> = BTreeMap::new();
    for node in all.iter().flat_map(|group| &group.nodes) {
        load.entry(*node).or_insert(0);
    }
    for group in &all {
        let to = group
            .nodes
            .iter()
            .min_by_key(|node| (load.get(node), **node));
        let Some(to) = to.copied() else { continue };
        *load.entry(to).or_insert(0) += 1;
        if group.leader.is_some_and(|leader| leader != to) {
            // Leaders that do not move now stay: groups are served all the same.
            let _ = client.move_leader(&group.group, Some(to));
        }
    }
    Ok(shown(&client.leaders()?))
}
