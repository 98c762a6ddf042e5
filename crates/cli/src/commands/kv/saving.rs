//! The keys of all groups into files, and back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use client::Client;
use client::admin::{ChangeSlots, SlotsPart, SlotsTold, SlotsVerb};
use client::backup::{Backup, RestoreError, RestoreOptions, Taken, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use terminal::exit::{Failure, Kind};
use terminal::show;

use super::view::groups_of;
use crate::commands::{backup, restore};
use crate::global::Global;

/// One group that was saved, or brought back.
#[derive(Serialize)]
struct Done {
    group: String,
    path: PathBuf,
    rows: u64,
    bytes: u64,
    /// Nothing was written there since the part before.
    nothing_new: bool,
    /// A restore of this backup had filled it before: nothing was written there now.
    filled_before: bool,
}

pub fn back_up(global: &Global, client: &Client, to: &Path) -> Result<()> {
    let taken = take(global, client, to)?;
    let done = taken.into_iter().map(|(group, taken)| Done {
        group,
        path: taken.path,
        rows: taken.rows,
        bytes: taken.bytes,
        nothing_new: taken.nothing_new,
        filled_before: false,
    });
    shown(global, &done.collect::<Vec<_>>())
}

/// Saves all groups, and their map with them.
pub fn take(global: &Global, client: &Client, to: &Path) -> Result<Vec<(String, Taken)>> {
    if !to.is_dir() {
        let sentence = format!(
            "{} is no directory: make it first, it gets one for each group",
            to.display()
        );
        return Err(Failure::new(Kind::NotFound, sentence).into());
    }
    let map = client.slots(None)?;
    still(&map)?;
    let groups = groups_of(&client.statuses()?, Some(&map));
    if groups.is_empty() {
        let sentence = "no group serves keys: there is nothing to save";
        return Err(Failure::new(Kind::NotFound, sentence).into());
    }
    let mut done = Vec::new();
    let mut parts = BTreeMap::new();
    for group in groups {
        let name = group.name;
        let directory = backup::directory_of(&name, to)?;
        let made_at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let bar = backup::bar(global, "checked or saved");
        let taken = client.back_up(&name, &directory, made_at, |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let taken = taken.map_err(backup::of_taking)?;
        let part = SavedPart {
            part: taken.header.part,
            identity: hex(&taken.identity),
        };
        parts.insert(name.clone(), part);
        done.push((name, taken));
    }
    // ‡ Groups are saved one after the other: a slot that moved meanwhile would be there twice, or nowhere.
    let after = client.slots(None)?;
    if after.version != map.version {
        let sentence = format!(
            "slots moved while groups were saved (the map has version {}, and had {}): the backup does not hold together; wait until nothing is on its way (logberg kv map --wait), and run it again",
            after.version, map.version
        );
        return Err(Failure::new(Kind::Refused, sentence).into());
    }
    let path = to.join(MAP);
    let saved = SavedMap { map, parts };
    let sum = saved.sum()?;
    let text = serde_json::to_vec_pretty(&Summed {
        saved,
        sum: Some(sum),
    })?;
    let beside = to.join(format!("{MAP}.new"));
    let written = fs::write(&beside, text).and_then(|()| fs::File::open(&beside)?.sync_all());
    written.with_context(|| format!("cannot write {}", beside.display()))?;
    let renamed = fs::rename(&beside, &path).and_then(|()| fs::File::open(to)?.sync_all());
    renamed.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(done)
}

/// Which group had which slots, beside the groups' directories.
const MAP: &str = "map.json";

/// The map, and the part of each group that was saved with it.
///
/// ‡ A later backup into the same directory may have stopped between two groups: its parts fit no map, and are not read.
#[derive(Serialize, Deserialize)]
struct SavedMap {
    #[serde(flatten)]
    map: SlotsTold,
    /// By the groups' names. None of a program that named no parts.
    #[serde(default)]
    parts: BTreeMap<String, SavedPart>,
}

impl SavedMap {
    fn sum(&self) -> serde_json::Result<String> {
        Ok(format!("{:x}", Sha256::digest(serde_json::to_vec(self)?)))
    }
}

/// The map with the SHA-256 of what it says, as JSON without whitespace.
#[derive(Serialize, Deserialize)]
struct Summed {
    #[serde(flatten)]
    saved: SavedMap,
    #[serde(rename = "sha256")]
    sum: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct SavedPart {
    part: u64,
    identity: String,
}

/// The backup of a group, as it was when the map was saved.
fn open(from: &Path, name: &str, parts: &BTreeMap<String, SavedPart>) -> Result<Backup> {
    let path = from.join(name);
    let backup = backup::open(&path)?;
    let Some(saved) = parts.get(name) else {
        return Ok(backup.without_older_rows());
    };
    let backup = backup.as_of(saved.part).with_context(|| {
        format!(
            "{} lacks part {}, which {MAP} names: take another backup",
            path.display(),
            saved.part
        )
    })?;
    Ok(backup.without_older_rows())
}

/// Nothing is on its way.
fn still(map: &SlotsTold) -> Result<()> {
    if map.moving.is_empty() {
        return Ok(());
    }
    let sentence = "slots are on their way between groups: wait until none is (logberg kv map --wait), and run it again";
    Err(Failure::new(Kind::Refused, sentence.to_owned()).into())
}

/// The map that was saved with the groups.
///
/// ‡ Without it nobody knows which group had which slots: by the names alone, keys of slots that had moved would be where nobody looks for them.
fn saved_map(from: &Path) -> Result<SavedMap> {
    let path = from.join(MAP);
    if !path.exists() {
        let sentence = format!(
            "{} is not there, and without it nobody knows which group had which slots: bring it back, or take a backup before this one",
            path.display()
        );
        return Err(Failure::new(Kind::NotFound, sentence).into());
    }
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let damaged = |why: String| {
        let sentence = format!(
            "{} is damaged: {why}; take the backup before it",
            path.display()
        );
        Failure::new(Kind::Corrupt, sentence)
    };
    let Summed { saved, sum } =
        serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    // The programs that kept no sum named no parts.
    let is_whole = match sum {
        Some(sum) => sum == saved.sum()?,
        None => saved.parts.is_empty(),
    };
    match is_whole {
        true => Ok(saved),
        false => Err(damaged("what it says is not what was saved".to_owned()).into()),
    }
}

/// Gives the slots to the groups as they were when these were saved.
fn give_slots(client: &Client, names: &[String], map: &SlotsTold) -> Result<()> {
    if map.version <= 1 {
        if client.slots(None)?.version == 0 {
            client.change_slots(&ChangeSlots::join(names))?;
        }
        return Ok(());
    }
    let part = |part: &SlotsPart| {
        let SlotsPart {
            first,
            last,
            group,
            since,
        } = part;
        format!("{first}-{last}:{group}:{since}")
    };
    let parts: Vec<String> = map.wanted.iter().map(part).collect();
    client.change_slots(&ChangeSlots {
        verb: SlotsVerb::Adopt,
        groups: Vec::new(),
        slots: Some(parts.join(",")),
        plan: false,
        version: Some(map.version),
    })?;
    Ok(())
}

pub fn restore(global: &Global, client: &Client, from: &Path) -> Result<()> {
    let SavedMap { map, parts } = saved_map(from)?;
    let known = client.slots(None)?;
    // ‡ Each group's rows say which slots it has: they fit no other map.
    let fits = known.version == 0 || known.wanted == map.wanted;
    if map.version > 1 && !fits {
        let sentence = "the slots of the saved cluster had moved, and this cluster has given its slots out otherwise: restore into one without groups of keys";
        return Err(Failure::new(Kind::Refused, sentence.to_owned()).into());
    }
    let names = map.groups.iter().map(|group| group.name.clone());
    let names: Vec<String> = names.collect();
    if let Some(missing) = names.iter().find(|name| !from.join(name).is_dir()) {
        let sentence = format!(
            "{missing} is not in {}: without it a part of the slots would be empty; bring single groups back with `logberg restore`",
            from.display()
        );
        return Err(Failure::new(Kind::NotFound, sentence).into());
    }
    // ‡ All of it is sound, or nothing is written.
    for name in &names {
        let backup = open(from, name, &parts)?;
        let (header, identity) = backup.verify(|_| {}).map_err(backup::of_wrong)?;
        let is_it = |saved: &SavedPart| saved.identity == hex(&identity);
        if !parts.get(name).is_none_or(is_it) {
            let sentence = format!(
                "{} is not the backup that {MAP} was saved with: bring back the directory as it was",
                from.join(name).display()
            );
            return Err(Failure::new(Kind::Corrupt, sentence).into());
        }
        if header.log != *name {
            let sentence = format!(
                "{} holds a backup of {}: call the directory after its group",
                from.join(name).display(),
                header.log
            );
            return Err(Failure::new(Kind::Refused, sentence).into());
        }
    }
    let mut done = Vec::new();
    for name in &names {
        let path = from.join(name);
        let backup = open(from, name, &parts)?;
        let options = RestoreOptions {
            log: name.clone(),
            ..RestoreOptions::default()
        };
        let bar = backup::bar(global, "checked and restored");
        let restored = client.restore(&backup, &options, |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        // A restore that stopped goes on: groups that it had filled are left as they are, and may have been written since.
        let filled_before = matches!(restored, Err(RestoreError::FilledBefore(_)));
        let (rows, bytes) = match restored {
            Err(RestoreError::FilledBefore(_)) => (0, 0),
            Err(RestoreError::NotEmpty(_)) => {
                let sentence = format!(
                    "{name} has keys, and groups are filled only as a whole, from nothing: `logberg kv drop` deletes all groups with their keys, and then this fills them"
                );
                return Err(Failure::new(Kind::Refused, sentence).into());
            }
            Err(error) => return Err(restore::failed(error, name)),
            Ok(restored) => (restored.rows.unwrap_or_default(), restored.bytes),
        };
        done.push(Done {
            group: name.clone(),
            path,
            rows,
            bytes,
            nothing_new: false,
            filled_before,
        });
    }
    // Without a map a restore stopped before it gave the slots out: nobody wrote since.
    let is_given = client.slots(None)?.version > 0;
    if is_given && done.iter().all(|one| one.filled_before) {
        let sentence = format!(
            "all groups were filled from {} before, and may have been written since: they are left as they are; to have its rows again, delete them first (`logberg kv drop`)",
            from.display()
        );
        return Err(Failure::new(Kind::Refused, sentence).into());
    }
    give_slots(client, &names, &map)?;
    super::spread(client, &names)?;
    shown(global, &done)
}

fn shown(global: &Global, done: &[Done]) -> Result<()> {
    if global.json {
        return show::print_json(&done);
    }
    let mut table = show::table(&["GROUP", "ROWS", "BYTES", "FILE"]);
    for one in done {
        let path = one.path.display();
        table.add_row([
            one.group.as_str().into(),
            show::number(one.rows),
            show::number(wire::quantity::shown(one.bytes)),
            match (one.nothing_new, one.filled_before) {
                (true, _) => format!("{path} (nothing new)").into(),
                (_, true) => format!("{path} (filled before, and left as it is)").into(),
                (false, false) => path.to_string().into(),
            },
        ]);
    }
    show::print(show::lines(&table))
}
