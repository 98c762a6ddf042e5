//! Slots that go to other groups: the plan first, then the change, then how far it has come.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use client::admin::{ChangeSlots, SlotsChanged, SlotsMove, SlotsTold, SlotsVerb};
use client::{AdminError, Client, NewLog};
use indicatif::{ProgressBar, ProgressStyle};
use terminal::exit::{Failure, Kind};
use terminal::show;
use wire::{LogKind, quantity};

use super::view::{shown, spans_of};
use super::{How, under_way};
use crate::confirm::confirmed;
use crate::global::Global;

const POLL: Duration = Duration::from_millis(200);
/// Groups that were dropped are gone after so long.
const GONE: Duration = Duration::from_secs(15);

pub fn join(
    global: &Global,
    client: &Client,
    groups: &[String],
    members: &[u64],
    how: How,
) -> Result<()> {
    let known = client.slots(None)?;
    let is_twice = |name: &&String| groups.iter().filter(|other| other == name).count() > 1;
    if let Some(twice) = groups.iter().find(is_twice) {
        let sentence = format!("{twice} is named twice: name each group once");
        return Err(Failure::usage(sentence).into());
    }
    // All names are looked at before a group is made.
    for log in client.logs()? {
        if !groups.contains(&log.name) {
            continue;
        }
        let kind = client.log(&log.name)?.kind;
        if kind != LogKind::Kv.to_string() {
            let sentence = format!(
                "{} is a log of kind {kind}, and no group of keys: take another name",
                log.name
            );
            return Err(Failure::new(Kind::Refused, sentence).into());
        }
        if !members.is_empty() {
            let name = &log.name;
            let sentence = format!(
                "{name} is there already, and --members is for new groups: leave it out; `logberg members add ID --log {name}` lets another node host it"
            );
            return Err(Failure::new(Kind::Refused, sentence).into());
        }
    }
    for name in groups {
        if known.groups.iter().any(|group| group.name == *name) {
            continue;
        }
        if how.plan {
            let sentence = format!(
                "there is no group {name} yet: make it first to see the plan (logberg log create {name} --kind kv), or join it without --plan"
            );
            return Err(Failure::new(Kind::NotFound, sentence).into());
        }
        let new = NewLog {
            name: name.clone(),
            kind: LogKind::Kv,
            members: members.to_vec(),
            ..NewLog::default()
        };
        match client.create_new_log(&new) {
            Ok(_) | Err(AdminError::Exists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    change(global, client, SlotsVerb::Join, groups.to_vec(), None, how)
}

pub fn change(
    global: &Global,
    client: &Client,
    verb: SlotsVerb,
    groups: Vec<String>,
    slots: Option<String>,
    how: How,
) -> Result<()> {
    let asked = ChangeSlots {
        verb,
        groups,
        slots,
        plan: how.plan,
        version: None,
    };
    let changed = client.change_slots(&asked)?;
    if !global.json {
        show::print(told(&changed, how.plan))?;
    }
    if !how.plan && !how.no_wait {
        wait(global, client)?;
    }
    match global.json {
        true => show::print_json(&changed),
        false => Ok(()),
    }
}

fn told(changed: &SlotsChanged, is_plan: bool) -> String {
    if changed.version == changed.before {
        return format!("already so: the map stays at version {}", changed.version);
    }
    let would = if is_plan { "would move" } else { "move" };
    let s = if changed.slots == 1 { "" } else { "s" };
    let head = format!(
        "{} slot{s} {would}; the map {} version {}",
        changed.slots,
        if is_plan { "would get" } else { "has" },
        changed.version
    );
    match changed.moves.is_empty() {
        true => head,
        false => format!("{head}\n\n{}", moves_table(&changed.moves)),
    }
}

fn moves_table(moves: &[SlotsMove]) -> String {
    let mut table = show::table(&["SLOTS", "FROM", "TO"]);
    for one in moves {
        let from = one.from.clone().unwrap_or_else(|| "nobody".to_owned());
        table.add_row([shown((one.first, one.last)), from, one.to.clone()]);
    }
    show::lines(&table)
}

/// A command waits for so many times `--timeout` while no slot arrives: a large one takes its time.
const PATIENCE: u32 = 6;

/// Shows how far slots have come, until none is on its way, or none arrives any more.
fn wait(global: &Global, client: &Client) -> Result<()> {
    let left = |map: &SlotsTold| {
        let slots = map.moving.iter();
        slots
            .map(|one| u64::from(one.last - one.first) + 1)
            .sum::<u64>()
    };
    let first = left(&client.slots(None)?);
    if first == 0 {
        return Ok(());
    }
    let bar = match global.json {
        true => ProgressBar::hidden(),
        false => ProgressBar::new(first),
    };
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} slots moved, {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let (mut left_before, mut arrived_at) = (first, Instant::now());
    let patience = global.timeout.saturating_mul(PATIENCE);
    loop {
        // A leader of log 0 that dies is followed by another: the moves go on by themselves.
        let now = match client.slots(None) {
            Ok(map) => left(&map),
            Err(error) => {
                bar.abandon();
                eprintln!("the moves go on by themselves: see `logberg kv map`");
                return Err(error.into());
            }
        };
        bar.set_length(first.max(now));
        bar.set_position(first.max(now) - now);
        if now == 0 {
            bar.finish_and_clear();
            return Ok(());
        }
        // It grows where another command sends more.
        if now != left_before {
            (left_before, arrived_at) = (now, Instant::now());
        }
        if arrived_at.elapsed() > patience {
            bar.abandon();
            let waited = quantity::time(patience);
            let sentence = format!(
                "the map is agreed, and for {waited} no slot has arrived: {now} are on their way, and go on by themselves; `logberg kv status` tells what is wrong, and `logberg kv map --wait` waits on"
            );
            return Err(Failure::new(Kind::NotInForce, sentence).into());
        }
        thread::sleep(POLL);
    }
}

pub fn drop_all(global: &Global, client: &Client, plan: bool, yes: bool) -> Result<()> {
    let map = client.slots(None)?;
    let names: Vec<String> = match map.version {
        // Where a restore stopped there are groups with keys, and no slots are given out yet.
        0 => super::groups_there(client)?,
        _ => map.groups.into_iter().map(|group| group.name).collect(),
    };
    if names.is_empty() {
        return match global.json {
            true => show::print_json(&SlotsChanged::default()),
            false => show::print("there are no groups: nothing to delete"),
        };
    }
    let groups = names.join(", ");
    if !plan {
        let what = format!("this deletes all keys, with the groups {groups}");
        confirmed(&what, yes)?;
    }
    let changed = match map.version {
        0 if plan => SlotsChanged::default(),
        0 => {
            for name in &names {
                match client.delete_log(name) {
                    Ok(_) | Err(AdminError::UnknownLog { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            SlotsChanged::default()
        }
        _ => client.change_slots(&ChangeSlots {
            verb: SlotsVerb::Drop,
            groups: Vec::new(),
            slots: None,
            plan,
            version: None,
        })?,
    };
    if plan {
        return match global.json {
            true => show::print_json(&changed),
            false => show::print(format!(
                "this would delete all keys, with the groups {groups}"
            )),
        };
    }
    // The next command that makes groups finds none that are about to end.
    let deadline = Instant::now() + GONE;
    while client.logs()?.iter().any(|log| names.contains(&log.name)) {
        if Instant::now() > deadline {
            let sentence = format!(
                "agreed, and not gone yet: {groups}; they go by themselves, see `logberg log list`"
            );
            return Err(Failure::new(Kind::NotInForce, sentence).into());
        }
        thread::sleep(POLL);
    }
    match global.json {
        true => show::print_json(&changed),
        false => show::print(format!("deleted: {groups}")),
    }
}

pub fn map(global: &Global, client: &Client, version: Option<u32>, waits: bool) -> Result<()> {
    if waits {
        wait(global, client)?;
    }
    let map = client.slots(version)?;
    if global.json {
        return show::print_json(&map);
    }
    if map.version == 0 {
        return show::print("no group was given slots yet: logberg kv init");
    }
    let mut parts = vec![format!(
        "version {} of the map; versions {} to {} are kept",
        map.version, map.first_version, map.last_version
    )];
    if map.wanted.is_empty() {
        parts.push("no group has slots in this version".to_owned());
        return show::print(parts.join("\n\n"));
    }
    let mut table = show::table(&["GROUP", "SLOTS", "COUNT"]);
    let mut names: Vec<&str> = map.wanted.iter().map(|part| &*part.group).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let its = map.wanted.iter().filter(|part| part.group == name);
        let spans = spans_of(its.map(|part| (part.first, part.last)));
        let count: u32 = spans
            .iter()
            .map(|(first, last)| u32::from(last - first) + 1)
            .sum();
        let spans: Vec<String> = spans.into_iter().map(shown).collect();
        table.add_row([name.to_owned(), spans.join(" "), count.to_string()]);
    }
    parts.push(show::lines(&table));
    if !map.moving.is_empty() {
        parts.push(format!("on their way:\n{}", moves_table(&map.moving)));
        parts.extend(under_way::table_of(&map.under_way));
    }
    show::print(parts.join("\n\n"))
}
