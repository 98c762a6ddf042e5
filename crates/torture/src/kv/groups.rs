//! The groups: made, found, and led by whom they are to be led.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use client::admin::ChangeSlots;
use client::{Client, NewLog};
use formats::slots::{name_of, range_of};
use resp::Value;
use wire::LogKind;

use super::caller::{Caller, Came, Request};
use super::link::words;
use super::load::Tag;
use testbed::scratch::go_on;

/// Tags of each group: keys with one are in one slot.
const TAGS: usize = 2;
const LED_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// Makes so many; their names.
pub fn make(client: &Client, groups: u16) -> Result<Vec<String>> {
    let names: Vec<String> = (1..=groups).map(|group| name_of(group, groups)).collect();
    for name in &names {
        client.create_new_log(&NewLog {
            name: name.clone(),
            kind: LogKind::Kv,
            ..NewLog::default()
        })?;
    }
    client.change_slots(&ChangeSlots::join(&names))?;
    Ok(names)
}

/// Some tags of each group.
pub fn tags(caller: &mut Caller, groups: &[String]) -> Result<Vec<Tag>> {
    let mut found: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    for number in 0..100_000 {
        if found.len() == groups.len() && found.values().all(|tags| tags.len() >= TAGS) {
            break;
        }
        let tag = format!("t{number}");
        let ask = Request(vec![words(["CLUSTER", "KEYSLOT", &tag])]);
        let ended = caller.ask("", &[ask]);
        let Some(Came::Done(Value::Integer(slot))) = ended.first().map(|ended| &ended.came) else {
            bail!("a door does not say a key's slot: {ended:?}");
        };
        let serves = |group: &&String| {
            let range = range_of(group);
            range.is_some_and(|(first, last)| (i64::from(first)..=i64::from(last)).contains(slot))
        };
        let group = groups.iter().find(serves).context("a slot of no group")?;
        let tags = found.entry(group).or_default();
        if tags.len() < TAGS {
            tags.push(tag);
        }
    }
    // In turns, so that objects beside each other are of different groups.
    let mut all = Vec::new();
    for at in 0..TAGS {
        for (group, tags) in &found {
            all.extend(tags.get(at).map(|tag| (tag.clone(), (*group).clone())));
        }
    }
    Ok(all)
}

/// Has this node lead the group.
///
/// Errors: it cannot, though nothing is wrong with any node.
pub fn lead(client: &Client, group: &str, node: u32) -> Result<()> {
    let deadline = Instant::now() + LED_MAX;
    loop {
        go_on()?;
        let moved = client.move_leader(group, Some(u64::from(node)));
        let leaders = client.leaders()?;
        let leader = leaders.iter().find(|one| one.log == group);
        if leader.and_then(|one| one.leader) == Some(u64::from(node)) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let why = moved
                .err()
                .map_or_else(String::new, |error| format!(": {error}"));
            bail!("node {node} does not come to lead {group} within {LED_MAX:?}{why}");
        }
        std::thread::sleep(POLL);
    }
}
