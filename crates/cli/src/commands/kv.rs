//! `logberg kv`: the groups that serve keys.

pub mod findings;
mod moving;
mod probe;
mod saving;
mod served;
pub mod under_way;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, Subcommand};
use client::admin::{ChangeSlots, SlotsTold, SlotsVerb};
use client::{AdminError, Client, NewLog};
use formats::slots::{name_of, range_of};
use slots::Span;
use terminal::exit::{Failure, Kind, Said};
use terminal::show;
use wire::LogKind;

use crate::commands::doctor::finding::Verdict;
use crate::global::Global;
use crate::places;
pub use saving::take;

use findings::{findings, lacks_service};
use view::{Group, View, groups_of};

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
the groups evenly. Whoever leads a group answers for its slots, so groups are led by different nodes. The command may
be given again: what is there already stays. Later groups join with `logberg kv join`.

Example: one group for each node that votes
  logberg kv init
  redis-cli -c -p 7379 set hello world")]
    Init {
        /// How many; one for each node that votes, if nothing is said
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
        groups: Option<u16>,
    },
    /// Let a group serve slots, too: it is made if it is not there, and slots move to it
    #[command(after_help = "\
Slots move while clients read and write them. All groups get as many slots, within one, by the fewest moves.
The move goes on by itself, whatever dies meanwhile; `--no-wait` leaves at once. The command ends with 10 if no slot
arrives for six times --timeout.

Example:
  logberg kv join kv-4               # makes the group, if it is not there
  logberg kv join kv-4 --plan        # of a group that is there: which slots would move")]
    Join {
        /// The names of groups
        #[arg(value_name = "GROUP", required = true, value_parser = places::log_name)]
        groups: Vec<String>,
        /// The nodes that host a new group; all, if nothing is said
        #[arg(long, value_name = "ID,…", value_delimiter = ',')]
        members: Vec<u64>,
        #[command(flatten)]
        how: How,
    },
    /// Have a group serve no slots any more: they move to the others
    #[command(after_help = "\
Once none of its slots is left there, the group's log may be deleted. The last group keeps the slots.

Example:
  logberg kv leave kv-1-of-3
  logberg log delete kv-1-of-3 --yes")]
    Leave {
        #[arg(value_name = "GROUP", value_parser = places::log_name)]
        group: String,
        #[command(flatten)]
        how: How,
    },
    /// Move slots to a group, where they stay until the next join, leave or balance
    #[command(after_help = "\
Example: the slots of a busy tenant get a group of their own
  redis-cli -c -p 7379 cluster keyslot '{tenant7}'
  logberg kv move 1234 --to kv-4")]
    Move {
        /// One slot, or from the first to the last
        #[arg(value_name = "SLOTS", required = true)]
        slots: Vec<Span>,
        #[arg(long, value_name = "GROUP", value_parser = places::log_name)]
        to: String,
        #[command(flatten)]
        how: How,
    },
    /// Give all groups as many slots, by the fewest moves
    #[command(after_help = "\
Example:
  logberg kv balance --plan")]
    Balance {
        #[command(flatten)]
        how: How,
    },
    /// Delete all groups of keys, with all keys
    #[command(after_help = "\
Nothing brings the keys back but a backup. `logberg kv init` makes new groups afterwards, which are empty.

Example:
  logberg kv backup --to /backup/keys
  logberg kv drop --plan
  logberg kv drop --yes")]
    Drop {
        /// Say which groups would be deleted, and do nothing
        #[arg(long)]
        plan: bool,
        /// Confirm (required, except on a terminal, where it is asked)
        #[arg(long, conflicts_with = "plan")]
        yes: bool,
    },
    /// Show which group is to serve which slots, what is on its way, and what was wanted before
    #[command(after_help = "\
Each change of the map is a version.

Example:
  logberg kv map
  logberg kv map --version 1
  logberg kv map --wait              # until nothing is on its way")]
    Map {
        /// What that version wanted
        #[arg(long, value_name = "N")]
        version: Option<u32>,
        /// Wait until nothing is on its way
        #[arg(long, conflicts_with = "version")]
        wait: bool,
    },
    /// Show which slots each group serves, who leads it, and which nodes answer clients
    #[command(after_help = "\
All nodes that are alive are asked, and each place where clients are answered is tried from here. What is wrong
stands below, with what helps; `logberg doctor` tells it, too. Ends with 3 if slots are not served, with 8 if something else
must be changed.

Example:
  logberg kv status
  logberg kv status --json | jq '.groups[] | {name, leader, whole}'")]
    Status,
    /// Save the keys of all groups
    #[command(after_help = "\
Each group has a directory of its own below DIR, in which each run adds a part with all of its keys, as of one
moment; groups are saved one after the other, so each is of a moment of its own. Clients are served meanwhile.
Deadlines are saved as the times that they are.

Example:
  mkdir /backup/keys && logberg kv backup --to /backup/keys        # and again every night
  logberg kv restore /backup/keys")]
    Backup {
        /// A directory that is there
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
    },
    /// Bring the keys of all groups back, into groups that are empty
    #[command(after_help = "\
Everything is checked before anything is written. Groups are made if they are not there; a cluster has as many groups
as the one that was saved, and no key may ever have been written there. A group answers `CLUSTERDOWN` from its
first page to its last. What stops in the middle goes on when it is run again with the same backup.

Example:
  logberg kv restore /backup/keys --server other:7117")]
    Restore {
        /// A directory that `logberg kv backup` filled
        #[arg(value_name = "DIR")]
        from: PathBuf,
    },
}

/// How a change of the map is made.
#[derive(Clone, Copy, Debug, Args)]
struct How {
    /// Only say which slots would move
    #[arg(long)]
    plan: bool,
    /// Do not wait until they have moved
    #[arg(long, conflicts_with = "plan")]
    no_wait: bool,
}

/// New groups are waited for so long.
const READY: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(100);

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let client = global.client();
        match self.command {
            Command::Init { groups } => init(global, &client, groups),
            Command::Backup { to } => saving::back_up(global, &client, &to),
            Command::Restore { from } => saving::restore(global, &client, &from),
            Command::Join {
                groups,
                members,
                how,
            } => moving::join(global, &client, &groups, &members, how),
            Command::Leave { group, how } => {
                moving::change(global, &client, SlotsVerb::Leave, vec![group], None, how)
            }
            Command::Move { slots, to, how } => {
                let slots: Vec<String> = slots.iter().map(Span::to_string).collect();
                let slots = Some(slots.join(","));
                moving::change(global, &client, SlotsVerb::Move, vec![to], slots, how)
            }
            Command::Balance { how } => {
                moving::change(global, &client, SlotsVerb::Balance, Vec::new(), None, how)
            }
            Command::Drop { plan, yes } => moving::drop_all(global, &client, plan, yes),
            Command::Map { version, wait } => moving::map(global, &client, version, wait),
            Command::Status => show_view(global, &View::of(&client)?),
        }
    }
}

/// Ends with 3 if some slot is not served, with 8 if something else must be changed.
fn show_view(global: &Global, view: &View) -> Result<()> {
    let found = findings(view);
    let must = found.iter().any(|finding| finding.verdict == Verdict::Must);
    let ends = match (lacks_service(view), must) {
        (true, _) => Err(Said(Kind::Unreachable).into()),
        (false, true) => Err(Said(Kind::AtRisk).into()),
        (false, false) => Ok(()),
    };
    if global.json {
        show::print_json(&serde_json::json!({
            "version": view.map.as_ref().map(|map| map.version),
            "groups": view.groups,
            "nodes": view.nodes,
            "moving": view.map.as_ref().map(|map| &map.moving),
            "under_way": view.map.as_ref().map(|map| &map.under_way),
            "findings": found,
        }))?;
        return ends;
    }
    let mut parts = vec![match view.groups.is_empty() {
        true => "no group serves keys: make them with `logberg kv init`".to_owned(),
        false => view::table_of(&view.groups),
    }];
    parts.push(view.nodes_table());
    let under_way = view.map.as_ref().map(|map| &*map.under_way);
    parts.extend(under_way::table_of(under_way.unwrap_or_default()));
    let wrong = found.iter().filter_map(|finding| {
        let change = finding.change.as_ref()?;
        Some(format!("{}\n  help: {change}", finding.found))
    });
    parts.extend(wrong);
    show::print(parts.join("\n\n"))?;
    ends
}

fn init(global: &Global, client: &Client, groups: Option<u16>) -> Result<()> {
    let map = client.slots(None)?;
    if map.version > 0 {
        return init_again(global, client, groups, &map);
    }
    let known = groups_there(client)?;
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
            "{other} is there already, as one of another count of groups: leave --groups out, or delete it first (logberg log delete {other})"
        );
        return Err(Failure::new(Kind::Refused, sentence).into());
    }
    // ‡ Each group's rows say which slots it has: they fit the map that was saved with them, and no other.
    let members = client.members()?;
    let mut logs = members.logs.iter();
    let filled = logs.find(|log| wanted.contains(&log.name) && log.output_bytes > 0);
    if let Some(filled) = filled {
        let sentence = format!(
            "{} holds keys, and no slots are given out: a restore stopped before its end; give it again (logberg kv restore DIR), which goes on, or delete the groups with all their keys (logberg kv drop)",
            filled.name
        );
        return Err(Failure::new(Kind::Refused, sentence).into());
    }
    make(client, &wanted)?;
    // They begin with the slots, in the order of their names.
    client.change_slots(&ChangeSlots::join(&wanted))?;
    show_groups(global, &spread(client, &wanted)?)
}

/// Slots were given out before: their groups are left as they are, and made where they are not there.
fn init_again(
    global: &Global,
    client: &Client,
    groups: Option<u16>,
    map: &SlotsTold,
) -> Result<()> {
    let wanted: BTreeSet<String> = map.wanted.iter().map(|part| part.group.clone()).collect();
    let wanted: Vec<String> = wanted.into_iter().collect();
    if groups.is_some_and(|groups| usize::from(groups) != wanted.len()) {
        let sentence = format!(
            "the slots are given to {} groups already, and stay where they are: leave --groups out; another group joins with `logberg kv join`, and leaves with `logberg kv leave`",
            wanted.len()
        );
        return Err(Failure::new(Kind::Refused, sentence).into());
    }
    make(client, &wanted)?;
    show_groups(global, &spread(client, &wanted)?)
}

fn show_groups(global: &Global, groups: &[Group]) -> Result<()> {
    match global.json {
        true => show::print_json(&groups),
        false => show::print(view::table_of(groups)),
    }
}

/// Makes the groups that are not there.
fn make(client: &Client, wanted: &[String]) -> Result<()> {
    for name in wanted {
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
    Ok(())
}

/// The logs with names of groups, which are all of that kind.
fn groups_there(client: &Client) -> Result<Vec<String>> {
    let logs = client.logs()?.into_iter().map(|log| log.name);
    let mut names = Vec::new();
    for name in logs.filter(|name| range_of(name).is_some()) {
        match client.log(&name) {
            Ok(log) if log.kind == LogKind::Kv.to_string() => names.push(name),
            Ok(log) => {
                let kind = log.kind;
                let sentence = format!(
                    "the log {name} has the name of a group of keys and is of kind {kind}, so nobody would serve its slots: delete it (logberg log delete {name}), and give the command again"
                );
                return Err(Failure::new(Kind::Refused, sentence).into());
            }
            Err(AdminError::UnknownLog { .. }) => {
                let sentence =
                    format!("{name} is just being deleted: give the command again in some seconds");
                return Err(Failure::new(Kind::Refused, sentence).into());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(names)
}

/// The nodes that vote in the directory.
fn voters(client: &Client) -> Result<u16> {
    let members = client.members()?;
    let directory = members.logs.iter().find(|log| log.id == 0);
    let of_directory = directory.into_iter().flat_map(|log| &log.members);
    // Also one that is silent for now: groups are made for years.
    let voters = of_directory.filter(|member| member.weight.max(member.wanted) > 0);
    Ok(u16::try_from(voters.count().max(1))?)
}

/// Waits until all groups are led, and has each led by another node, as far as there are so many.
fn spread(client: &Client, wanted: &[String]) -> Result<Vec<Group>> {
    let deadline = Instant::now() + READY;
    let soon = client.within(view::SOON);
    let mut doors = BTreeSet::new();
    let mut places = BTreeSet::new();
    let all = loop {
        let statuses = client.statuses()?;
        let nodes = statuses.iter().flat_map(|status| &status.nodes);
        let serving = nodes.filter(|node| node.kv.is_some());
        for node in serving {
            doors.insert(node.id);
            places.extend(node.kv.clone());
        }
        let map = soon.slots(None).ok();
        let all = groups_of(&statuses, map.as_ref());
        let led = all.iter().filter(|group| group.leader.is_some()).count();
        if led >= wanted.len() || Instant::now() > deadline {
            break all;
        }
        thread::sleep(POLL);
    };
    // A leader that answers no client serves nobody.
    let serves = |node: &&u64| doors.is_empty() || doors.contains(node);
    let mut load: BTreeMap<u64, usize> = BTreeMap::new();
    for node in all.iter().flat_map(|group| &group.can_lead).filter(serves) {
        load.entry(*node).or_insert(0);
    }
    for group in &all {
        let to = group
            .can_lead
            .iter()
            .filter(serves)
            .min_by_key(|node| (load.get(node), **node));
        let Some(to) = to.copied() else { continue };
        *load.entry(to).or_insert(0) += 1;
        if group.leader.is_some_and(|leader| leader != to) {
            // Leaders that do not move now stay: groups are served all the same.
            let _ = client.move_leader(&group.name, Some(to));
        }
    }
    // A node hears of the map a moment after it is made: whoever asks it before is told that nobody serves his slot.
    while places.iter().any(|place| probe::lacks_slots(place)) && Instant::now() < deadline {
        thread::sleep(POLL);
    }
    let map = soon.slots(None).ok();
    Ok(groups_of(&client.statuses()?, map.as_ref()))
}
