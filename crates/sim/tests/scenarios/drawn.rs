//! A machine whose commands are drawn: several rows of some hundreds each, put, deleted, moved and looked over, on nodes to
//! which all happens that `hosts` knows.
//!
//! Two judges believe neither the hosts nor each other. A witness holds every shelf to what the log says (`rebuilt`). And all
//! commands are executed again in the end, one after the other, on a plain map: the machine counts those that wrote, so their
//! order stands in the log. After each frame that map has to be what the log came to, and each answer what the map gives.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host::{Bounds, Command, Host, Look, Machine, Outcome, Replier, State, Stop, What};
use sim::each_seed;

use crate::hosts::{Guest, Theatre};
use crate::rebuilt::Rebuilt;
use crate::stage::{MS, SECOND};

const PREFIXES: [&str; 6] = ["a", "b", "c", "ca", "d", "e"];
const KEYS_EACH: u64 = 60;

/// Steps, with `;` between them: `put KEY VALUE`, `delete KEY`, `move FROM TO`, `drop PREFIX`, `get KEY`, `range FROM TO COUNT`; `bag
/// KEY VALUE`, `look` and `empty`, on rows below a numbered prefix that is forgotten with all of them, and another begun; and `name NAME`, the last one of each command that writes. The answer is the number of commands that wrote before, and all
/// that was read.
struct Drawn;

impl Machine for Drawn {
    fn execute(&self, state: &mut State<'_>, command: &[u8]) -> Result<Vec<u8>, Stop> {
        let command = std::str::from_utf8(command).map_err(|_| Stop::refused("no text"))?;
        let count = state.get(b"count")?.unwrap_or_default();
        let count = String::from_utf8(count)
            .ok()
            .and_then(|text| text.parse().ok());
        let count: u64 = count.unwrap_or(0);
        let mut answer = format!("{count}|").into_bytes();
        for step in command.split(';') {
            let words: Vec<&str> = step.split(' ').collect();
            match words[..] {
                ["put", key, value] => state.put(key.as_bytes(), value.as_bytes())?,
                ["delete", key] => state.delete(key.as_bytes())?,
                ["move", from, to] => {
                    if let Some(value) = state.get(from.as_bytes())? {
                        state.delete(from.as_bytes())?;
                        state.put(to.as_bytes(), &value)?;
                    }
                }
                ["drop", prefix] => {
                    for (key, _) in state.prefix(prefix.as_bytes(), 1_000)?.rows {
                        state.delete(&key)?;
                    }
                }
                ["bag", key, value] => {
                    let key = [&bag(state)?.1[..], key.as_bytes()].concat();
                    state.put(&key, value.as_bytes())?;
                }
                ["look"] => {
                    let (_, from) = bag(state)?;
                    let to = [&from[..], b"~"].concat();
                    answer.extend(range(state, &from, &to, 1_000)?);
                }
                ["empty"] => {
                    let (number, prefix) = bag(state)?;
                    state.forget(&prefix)?;
                    state.put(b"bags", (number + 1).to_string().as_bytes())?;
                }
                ["name", name] => {
                    let (number, name) = (count + 1, name.as_bytes());
                    state.put(b"count", number.to_string().as_bytes())?;
                    let row = [number.to_string().as_bytes(), b",", name].concat();
                    state.put(&[b"name/", name].concat(), &row)?;
                }
                ["get", key] => answer.extend(state.get(key.as_bytes())?.unwrap_or_default()),
                ["range", from, to, most] => {
                    let most = most.parse().map_err(|_| Stop::refused("no count"))?;
                    answer.extend(range(state, from.as_bytes(), to.as_bytes(), most)?);
                }
                _ => return Err(Stop::refused("no such step")),
            }
        }
        Ok(answer)
    }

    fn forgets(&self) -> bool {
        true
    }
}

/// The bag that is filled now, and the prefix of its rows.
fn bag(state: &mut State<'_>) -> Result<(u64, Vec<u8>), Stop> {
    let number = state.get(b"bags")?.unwrap_or_default();
    let number = String::from_utf8(number)
        .ok()
        .and_then(|text| text.parse().ok());
    let number = number.unwrap_or(0);
    Ok((number, prefix_of(number).into_bytes()))
}

fn prefix_of(bag: u64) -> String {
    format!("bag/{bag:04}/")
}

/// So many rows, if there are. One range may give fewer: what was deleted a moment ago takes room in it.
fn range(state: &mut State<'_>, from: &[u8], to: &[u8], most: usize) -> Result<Vec<u8>, Stop> {
    let (mut from, mut left, mut found) = (from.to_vec(), most, Vec::new());
    loop {
        let page = state.range(&from, to, left)?;
        left -= page.rows.len();
        for (key, value) in page.rows {
            found.extend([&key[..], &value].concat());
            from = [&key[..], &[0]].concat();
        }
        if page.is_last || left == 0 {
            return Ok(found);
        }
    }
}

type Rows = BTreeMap<String, String>;

/// The same, on a map.
fn execute(rows: &mut Rows, command: &str) -> String {
    let count = rows.get("count").map_or(0, |count| count.parse().unwrap());
    let mut answer = format!("{count}|");
    let bag = |rows: &Rows| -> u64 { rows.get("bags").map_or(0, |bags| bags.parse().unwrap()) };
    for step in command.split(';') {
        match step.split(' ').collect::<Vec<_>>()[..] {
            ["put", key, value] => _ = rows.insert(key.to_owned(), value.to_owned()),
            ["delete", key] => _ = rows.remove(key),
            ["move", from, to] => {
                if let Some(value) = rows.remove(from) {
                    rows.insert(to.to_owned(), value);
                }
            }
            ["drop", prefix] => rows.retain(|key, _| !key.starts_with(prefix)),
            ["name", name] => {
                rows.insert("count".to_owned(), (count + 1).to_string());
                rows.insert(format!("name/{name}"), format!("{},{name}", count + 1));
            }
            ["bag", key, value] => {
                let key = prefix_of(bag(rows)) + key;
                rows.insert(key, value.to_owned());
            }
            ["look"] => {
                let prefix = prefix_of(bag(rows));
                let below = rows.range(prefix.clone()..);
                for (key, value) in below.take_while(|(key, _)| key.starts_with(&prefix)) {
                    answer += key;
                    answer += value;
                }
            }
            ["empty"] => {
                let number = bag(rows);
                rows.retain(|key, _| !key.starts_with(&prefix_of(number)));
                rows.insert("bags".to_owned(), (number + 1).to_string());
            }
            ["get", key] => answer += rows.get(key).map_or("", String::as_str),
            ["range", from, to, most] => {
                let range = rows.range(from.to_owned()..to.to_owned());
                for (key, value) in range.take(most.parse().unwrap()) {
                    answer += key;
                    answer += value;
                }
            }
            _ => panic!("no such step: {step}"),
        }
    }
    answer
}

/// A command, and what became of it.
struct Asked {
    text: String,
    writes: bool,
    /// The frames that were chosen when it was asked for.
    chosen: u64,
    answer: Option<String>,
}

/// By name.
type All = Arc<Mutex<BTreeMap<String, Asked>>>;

/// Executes all commands again, in the order that the log has.
fn execute_again(seed: u64, witness: &Rebuilt, all: &BTreeMap<String, Asked>) {
    let mut reads: BTreeMap<&str, Vec<&Asked>> = BTreeMap::new();
    for asked in all.values().filter(|asked| !asked.writes) {
        let count = asked
            .answer
            .as_ref()
            .and_then(|answer| answer.split_once('|'));
        if let Some((count, _)) = count {
            reads.entry(count).or_default().push(asked);
        }
    }
    let mut rows = Rows::new();
    let mut counts = vec![0];
    let mut check_reads = |rows: &mut Rows, count: u64, counts: &[u64]| {
        for asked in reads
            .remove(count.to_string().as_str())
            .into_iter()
            .flatten()
        {
            let expected = execute(rows, &asked.text);
            assert_eq!(asked.answer, Some(expected), "seed {seed}: {}", asked.text);
            // The count after all frames that were chosen by then, as far as they are executed again here.
            let least = counts.get(asked.chosen as usize);
            assert!(
                least.is_some_and(|least| count >= *least),
                "seed {seed}: {} shows no more than {count} commands, and more were chosen",
                asked.text
            );
        }
    };
    check_reads(&mut rows, 0, &counts);
    let mut count = 0;
    witness.each_frame(|frame, names, expected| {
        let mut names: Vec<(u64, &str)> = names
            .iter()
            .map(|row| row.split_once(',').expect("a number and a name"))
            .map(|(number, name)| (number.parse().unwrap(), name))
            .collect();
        names.sort_unstable();
        counts.push(count + names.len() as u64);
        for (number, name) in names {
            count += 1;
            assert_eq!(number, count, "seed {seed}: {name}, in frame {frame}");
            let asked = &all[name];
            let answer = execute(&mut rows, &asked.text);
            if let Some(told) = &asked.answer {
                assert_eq!(*told, answer, "seed {seed}: {name}, {}", asked.text);
            }
            check_reads(&mut rows, count, &counts);
        }
        assert_eq!(rows, *expected, "seed {seed}: after frame {frame}");
    });
    let left: Vec<&str> = reads.into_keys().collect();
    assert!(
        left.is_empty(),
        "seed {seed}: commands {left:?} were shown, and are not there"
    );
}

fn guest(seed: u64) -> Guest {
    Guest {
        log: "drawn",
        machine: Arc::new(Drawn),
        bounds: Bounds {
            // In one half of the seeds rows are fetched each time, in the other some are kept.
            kept_bytes_max: 2_000 * (seed % 2) as usize,
            // In one half of each of these commands wait for room for their answers.
            answers_bytes_max: [[1 << 30; 2], [300, 600]][(seed / 2 % 2) as usize],
            counted_answer_bytes: [64 << 10, 100][(seed / 2 % 2) as usize],
            large_answer_bytes: [1 << 20, 200][(seed / 2 % 2) as usize],
            flush_bytes: 6_000,
            flush_after: 2 * SECOND,
            piece_bytes: 300,
            copy_bytes_per_second: 40_000,
            ..Bounds::default()
        },
    }
}

fn key(theatre: &mut Theatre) -> String {
    let prefix = PREFIXES[theatre.below(PREFIXES.len() as u64) as usize];
    format!("{prefix}/{:02}", theatre.below(KEYS_EACH))
}

/// Some steps. Whether they write.
fn command(theatre: &mut Theatre, name: &str) -> (String, bool) {
    let mut text = String::new();
    let only_reads = theatre.below(5) == 0;
    for _ in 0..1 + theatre.below(6) {
        let (one, other) = (key(theatre), key(theatre));
        let kind = match only_reads {
            true => 17 + theatre.below(4),
            false => theatre.below(24),
        };
        _ = match kind {
            0..=10 => write!(
                text,
                "put {one} {name}:{};",
                "v".repeat(theatre.below(20) as usize)
            ),
            11 | 12 => write!(text, "delete {one};"),
            13..=15 => write!(text, "move {one} {other};"),
            16 => match theatre.below(4) {
                0 => write!(text, "drop {};", &one[..one.len() - 2]),
                _ => write!(text, "drop {};", &one[..one.len() - 1]),
            },
            17 | 18 => write!(text, "get {one};"),
            20 => write!(text, "look;"),
            21 | 22 => write!(text, "bag {one} {name};"),
            23 => match theatre.below(6) {
                0 => write!(text, "empty;"),
                _ => write!(text, "bag {other} {name};"),
            },
            _ => {
                let count = 1 + theatre.below(40);
                write!(
                    text,
                    "range {} {} {count};",
                    (&one).min(&other),
                    (&one).max(&other)
                )
            }
        };
    }
    match only_reads {
        true => _ = text.pop(),
        false => _ = write!(text, "name {name}"),
    }
    (text, !only_reads)
}

/// A client at that node asks something drawn, or looks at all rows.
fn ask(theatre: &mut Theatre, all: &All, index: usize) {
    if !theatre.stage.world.is_running(theatre.hosts[index]) {
        return;
    }
    let (told, witness) = (theatre.told.clone(), theatre.witness.clone());
    let chosen = witness.frames();
    let name = {
        let mut told = told.lock().unwrap();
        told.asked += 1;
        format!("n{}", told.asked)
    };
    if theatre.below(12) == 0 {
        let look = Look::new(move |view| {
            if let Ok(view) = view {
                told.lock().unwrap().looks += 1;
                witness.on_shown(index, chosen, view);
            }
        });
        return theatre.write(index, What::Look { look, stale: false });
    }
    let (text, writes) = command(theatre, &name);
    let asked = Asked {
        text: text.clone(),
        writes,
        chosen,
        answer: None,
    };
    all.lock().unwrap().insert(name.clone(), asked);
    let all = all.clone();
    let replier = Replier::new(move |outcome| {
        let mut told = told.lock().unwrap();
        match outcome {
            Outcome::Chosen(answer) => {
                let answer = String::from_utf8(answer).unwrap();
                let shown = answer
                    .split_once('|')
                    .map(|(count, _)| count.parse().unwrap());
                let chosen = witness.row("count").map(|count| count.parse().unwrap());
                let (shown, chosen): (Option<u64>, Option<u64>) = (shown, chosen);
                assert!(
                    shown <= chosen.or(Some(0)),
                    "{name} was shown {shown:?} commands, and {chosen:?} are chosen"
                );
                let mut all = all.lock().unwrap();
                all.get_mut(&name).expect("it was asked").answer = Some(answer);
                if writes {
                    witness.on_answered(&format!("name/{name}"), &name);
                    told.added.insert(name);
                }
            }
            Outcome::NotLeader { .. } | Outcome::NotNow(_) => _ = told.never.insert(name),
            Outcome::Unknown => told.unknown += 1,
            other => panic!("{other:?}"),
        }
    });
    let command = Command::Plain(text.into_bytes());
    // Of half of the clients the commands are executed in their order.
    let order = (theatre.below(2) == 0).then_some(index as u64);
    let what = What::Call {
        command,
        replier,
        order,
    };
    theatre.write(index, what);
}

/// So many questions, mostly where the log is led.
fn ask_many(theatre: &mut Theatre, all: &All, count: usize, pause_us: u64) {
    for _ in 0..count {
        let index = match theatre.below(4) {
            0 => theatre.below(3) as usize,
            _ => theatre.leader().unwrap_or(0),
        };
        ask(theatre, all, index);
        let us = 200 * (1 + theatre.below(pause_us / 100));
        theatre.pass(Duration::from_micros(us));
    }
}

/// The states that were copied by hosts that run.
fn copies(theatre: &Theatre) -> u64 {
    let hosts = theatre.hosts.iter();
    let hosts = hosts.filter_map(|host| theatre.stage.world.machine::<Host>(*host));
    let copied = hosts.flat_map(Host::groups).map(|group| group.generation());
    copied.filter(|generation| *generation > 0).count() as u64
}

/// Every state on every replica is exactly what the log comes to at its position, in memory and on disk, whatever fails; and
/// the log, and all answers, are what the commands come to one after the other.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_state_is_what_its_log_comes_to_on_every_replica_whatever_fails() {
    let (seeds, copied, lost, trimmed) = <(Cell<u64>, Cell<u64>, Cell<u64>, Cell<u64>)>::default();
    each_seed(0..4, "-p sim --test scenarios drawn", |seed| {
        let mut theatre = Theatre::with(seed, 3, &guest(seed));
        let all = All::default();
        ask_many(&mut theatre, &all, 150, 400);
        for _ in 0..6 {
            ask_many(&mut theatre, &all, 30, 800);
            theatre.strike();
            ask_many(&mut theatre, &all, 40, 40_000);
            let index = theatre.below(3) as usize;
            match theatre.below(4) {
                0 => theatre.strike(),
                1 | 2 if theatre.stage.world.is_running(theatre.hosts[index]) => {
                    theatre.lose(index)
                }
                _ => {}
            }
            ask_many(&mut theatre, &all, 60, 1_000);
            theatre.mend();
            ask_many(&mut theatre, &all, 120, 6_000);
            copied.set(copied.get() + copies(&theatre));
            theatre.pass(400 * MS);
        }
        // Two that copy ask each other in vain, too: that takes 100 ms each time.
        for _ in 0..60 {
            theatre.pass(SECOND);
            if theatre.witness.has_come_to_all(&[0, 1, 2]) {
                break;
            }
        }
        let witness = &theatre.witness;
        witness.judge(&[0, 1, 2]);
        execute_again(seed, witness, &all.lock().unwrap());
        let (frames, rows, compared) = (witness.frames(), witness.rows(), witness.compared());
        let told = theatre.told.lock().unwrap();
        for (names, times) in [(&told.added, 1), (&told.never, 0)] {
            for name in names {
                let found = witness.times_put(&format!("name/{name}"));
                assert_eq!(found, times, "seed {seed}: {name} was done {found} times");
            }
        }
        println!(
            "seed {seed}: {frames} frames, {rows} rows, {compared} compared; {} answered, {} never, {} unknown, {} looks; {} lost, {} trimmed",
            told.added.len(),
            told.never.len(),
            told.unknown,
            told.looks,
            theatre.lost,
            theatre.trimmed
        );
        assert!(frames > 200 && rows > 100, "{frames} frames, {rows} rows");
        assert!(told.added.len() > 200, "{} answered", told.added.len());
        seeds.set(seeds.get() + 1);
        lost.set(lost.get() + theatre.lost);
        trimmed.set(trimmed.get() + theatre.trimmed);
    });
    let (seeds, copied, lost, trimmed) = (seeds.get(), copied.get(), lost.get(), trimmed.get());
    println!("{copied} copies, {lost} shelves lost, {trimmed} bytes trimmed");
    // One seed alone may see none.
    assert!(
        seeds < 4 || copied > 2 && lost > 2 && trimmed > 10_000,
        "{copied} copies, {lost} lost, {trimmed} trimmed"
    );
}
