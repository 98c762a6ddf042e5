//! Backups of a machine's rows, and restores of them, while nodes crash, are cut off, stand still and lose what was not flushed.
//!
//! A client of the script speaks the lines of docs/wire.md by hand, each on a connection of its own to whichever node. A witness that
//! believes no host says what the rows were after each frame (`rebuilt`), and clients of the machine ask on meanwhile (`hosts`).

use std::collections::BTreeMap;
use std::time::Duration;

use node::health::Code;
use wire::{Answer, rows};

use crate::caller::Caller;
use crate::hosts::Theatre;
use crate::stage::{MS, SECOND};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Asks something of a node that runs, of the leader more often, and lets a while pass.
fn ask(theatre: &mut Theatre, us_max: u64) {
    let index = match theatre.below(3) {
        0 => theatre.below(3) as usize,
        _ => theatre.leader().unwrap_or(0),
    };
    if theatre.stage.world.is_running(theatre.hosts[index]) {
        theatre.ask(index);
    }
    let us = 200 * (1 + theatre.below(us_max));
    theatre.pass(Duration::from_micros(us));
}

/// What a backup said, if it said all.
struct Whole {
    frame: u64,
    rows: Rows,
}

impl Whole {
    /// A part is none: its last line says so, and nothing else does.
    fn of(heard: &[u8]) -> Option<Whole> {
        let (mut rest, mut whole) = (heard, None);
        let mut pages = 0;
        loop {
            let end = rest.iter().position(|byte| *byte == b'\n')?;
            let line = &rest[..end];
            rest = &rest[end + 1..];
            match Answer::parse(line).expect("a line of the page") {
                Answer::Ok(json) => match whole.take() {
                    None => {
                        let said: wire::told::Saving = serde_json::from_str(&json).unwrap();
                        whole = Some(Whole {
                            frame: said.frame,
                            rows: Rows::new(),
                        });
                    }
                    Some(whole) => {
                        let said: wire::told::Filled = serde_json::from_str(&json).unwrap();
                        assert_eq!((said.next, rest.len()), (pages, 0));
                        return Some(whole);
                    }
                },
                Answer::Data {
                    position,
                    count,
                    crc32c,
                } => {
                    let page = rest.get(..count as usize)?;
                    rest = &rest[count as usize..];
                    assert_eq!((position, crc32c), (pages, crc32c::crc32c(page)));
                    pages += 1;
                    let whole = whole.as_mut().expect("it began");
                    let last = whole.rows.keys().next_back().cloned();
                    let page = rows::decode(page, last.as_deref()).expect("rows that rise");
                    let page = page.into_iter();
                    let page = page.map(|(key, value)| (key.to_vec(), value.to_vec()));
                    whole.rows.extend(page);
                }
                Answer::Error(_) => return None,
                other => panic!("{other:?}"),
            }
        }
    }
}

/// ‡ Each backup is what exactly one prefix of the log comes to, with all in it that was chosen before it was asked for.
#[test]
fn a_backup_is_of_one_moment_whatever_fails() {
    let (mut whole, mut parts, mut later) = (0, 0, 0);
    for seed in 0..8 {
        let mut theatre = Theatre::three(seed);
        for _ in 0..8 {
            let mut taken: Vec<(u64, Caller)> = Vec::new();
            for step in 0..120 {
                ask(&mut theatre, 20);
                if step % 20 == 7 {
                    let index = theatre.below(3) as usize;
                    let chosen = theatre.witness.frames();
                    if theatre.stage.world.is_running(theatre.stage.nodes[index]) {
                        taken.push((chosen, theatre.stage.call(index, "save lists")));
                    }
                }
                if step == 60 || step == 100 {
                    theatre.strike();
                }
            }
            theatre.pass(500 * MS);
            theatre.mend();
            theatre.pass(6 * SECOND);
            for (asked_at, caller) in taken {
                match Whole::of(&caller.heard()) {
                    None => parts += 1,
                    Some(Whole { frame, rows }) => {
                        theatre.witness.on_saved(asked_at, frame, &rows);
                        whole += 1;
                        later += u32::from(frame > asked_at);
                    }
                }
            }
        }
        theatre.pass(12 * SECOND);
        theatre.judge(seed);
    }
    println!(
        "{whole} whole backups, {later} with what came while they waited; {parts} parts or refusals"
    );
    assert!(
        whole > 150 && later > 20 && parts > 5,
        "{whole} whole, {later} later, {parts} parts"
    );
}

/// The rows of a backup: what the machine of `hosts` has after two entries in each list.
fn saved() -> Rows {
    let mut rows = Rows::new();
    for key in ["a", "b", "c"] {
        rows.insert(key.into(), format!("x{key}1,x{key}2,").into());
        for count in 1..3 {
            rows.insert(
                format!("{key}-{count}").into(),
                format!("x{key}{count}").into(),
            );
        }
    }
    rows
}

/// One connection of a restore: it brings the pages that the node asks for, one at a time.
struct Filling {
    caller: Caller,
    /// Lines that were answered.
    answered: usize,
}

enum Progress {
    Waits,
    Goes,
    Over,
    Whole,
}

impl Filling {
    fn begin(theatre: &mut Theatre, index: usize) -> Filling {
        let backup = "07".repeat(32);
        let request = format!("fill lists backup={backup} time=5 sessions=40");
        Filling {
            caller: theatre.stage.call(index, &request),
            answered: 0,
        }
    }

    fn go_on(&mut self, theatre: &mut Theatre) -> Progress {
        let text = self.caller.text();
        let whole = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        let mut whole = whole.skip(self.answered);
        let Some(line) = whole.next() else {
            return match self.caller.is_over() {
                true => Progress::Over,
                false => Progress::Waits,
            };
        };
        self.answered += 1;
        match Answer::parse(line.as_bytes()).expect("a line of the page") {
            Answer::Ok(_) => Progress::Whole,
            Answer::Ack(next) => {
                // A page for each row.
                let mut page = Vec::new();
                if let Some((key, value)) = saved().iter().nth(next as usize) {
                    rows::push(&mut page, key, value);
                }
                let data = Answer::Data {
                    position: next,
                    count: page.len() as u64,
                    crc32c: crc32c::crc32c(&page),
                };
                let said = [data.to_line().as_bytes(), &page].concat();
                self.caller.send(&mut theatre.stage.world, &said);
                Progress::Goes
            }
            Answer::Error(refusal) => {
                assert_ne!(refusal.code, wire::Code::Refused, "{refusal}");
                // The end was chosen, and its answer lost.
                match refusal.code == wire::Code::FilledBefore {
                    true => Progress::Whole,
                    false => Progress::Over,
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

/// ‡ A restore goes on wherever the log is led, and until its end nobody is shown its rows, and nothing else is written.
#[test]
fn a_restore_goes_on_and_serves_nobody_before_its_end_whatever_fails() {
    let (mut connections, mut refused, mut added) = (0, 0, 0);
    for seed in 200..212 {
        let mut theatre = Theatre::three(seed);
        let mut filling: Option<Filling> = None;
        let (mut steps, mut begun) = (0, false);
        loop {
            steps += 1;
            assert!(steps < 20_000, "seed {seed}: it is not filled");
            theatre.pass(MS);
            if begun && theatre.below(2) == 0 {
                ask(&mut theatre, 4);
            }
            match theatre.below(120) {
                0 => theatre.strike(),
                1..=3 => theatre.mend(),
                _ => {}
            }
            let Some(mut open) = filling.take() else {
                let index = theatre.below(3) as usize;
                if theatre.stage.world.is_running(theatre.stage.nodes[index]) {
                    connections += 1;
                    filling = Some(Filling::begin(&mut theatre, index));
                }
                continue;
            };
            match open.go_on(&mut theatre) {
                Progress::Whole => break,
                Progress::Over => {}
                // One that was forgotten by the network is left.
                Progress::Waits if theatre.below(400) == 0 => {}
                Progress::Waits => filling = Some(open),
                Progress::Goes => {
                    begun = true;
                    filling = Some(open);
                }
            }
        }
        theatre.mend();
        theatre.pass(SECOND);
        let beside = theatre.witness.written_beside_a_restore();
        assert_eq!(beside, 0, "seed {seed}: commands before its end");
        refused += theatre.told.lock().unwrap().never.len();
        for key in ["a", "b", "c"] {
            let list = theatre.witness.row(key).unwrap_or_default();
            let begins = format!("x{key}1,x{key}2,");
            assert!(list.starts_with(&begins), "seed {seed}: {key} is {list}");
        }
        for _ in 0..100 {
            ask(&mut theatre, 20);
        }
        theatre.pass(12 * SECOND);
        theatre.judge(seed);
        added += theatre.told.lock().unwrap().added.len();
    }
    println!("{connections} connections, {refused} commands turned away, {added} added behind");
    assert!(
        connections > 40 && refused > 100 && added > 150,
        "{connections}, {refused}, {added}"
    );
}

/// A client that begins to fill the machine, at its leader.
fn begin(theatre: &mut Theatre) -> Caller {
    let leader = theatre.leader().expect("somebody leads");
    let Filling { caller, .. } = Filling::begin(theatre, leader);
    theatre.pass(SECOND);
    caller
}

#[test]
fn what_makes_no_sense_behind_fill_is_refused_and_nothing_of_it_is_taken() {
    let mut theatre = Theatre::three(3);
    let mut page = Vec::new();
    rows::push(&mut page, b"a", b"1");
    let checksum = crc32c::crc32c(&page);
    let data = |number: u64, count: usize, checksum: u32| {
        let line = format!("data {number} {count} {checksum:08x}\n");
        [line.as_bytes(), &page].concat()
    };
    let no_rows = b"data 0 3 2be58533\nabc".to_vec();
    for (said, part) in [
        (b"hello\n".to_vec(), "unknown answer"),
        (vec![b'x'; 9_000], "longer than 8192 bytes"),
        (b"ack 0\n".to_vec(), "stand pages"),
        (data(1, page.len(), checksum), "stand pages"),
        (data(0, page.len(), checksum ^ 1), "another checksum"),
        (data(0, 10 << 20, checksum), "a page has at most"),
        (no_rows, "another checksum"),
        (
            [
                &b"data 0 3 "[..],
                format!("{:08x}\nabc", crc32c::crc32c(b"abc")).as_bytes(),
            ]
            .concat(),
            "no page of rows",
        ),
    ] {
        let caller = begin(&mut theatre);
        caller.send(&mut theatre.stage.world, &said);
        theatre.pass(SECOND);
        let heard = caller.text();
        assert!(heard.starts_with("ack 0\nerror "), "{heard}");
        assert!(heard.contains(part) && caller.is_over(), "{heard}");
    }
    // One that ends in the middle of a page, and one that ends too early.
    let caller = begin(&mut theatre);
    let whole = data(0, page.len(), checksum);
    caller.send(&mut theatre.stage.world, &whole[..whole.len() - 1]);
    caller.half_close(&mut theatre.stage.world);
    theatre.pass(SECOND);
    assert!(caller.is_over() && caller.text() == "ack 0\n");
    assert_eq!(theatre.witness.row("a"), None);
    let caller = begin(&mut theatre);
    caller.send(&mut theatre.stage.world, &whole);
    theatre.pass(SECOND);
    assert_eq!(caller.text(), "ack 0\nack 1\n");
    assert_eq!(theatre.witness.row("a").as_deref(), Some("1"));
}

#[test]
fn few_clients_bring_rows_at_a_time_and_who_stands_still_is_let_go() {
    let mut theatre = Theatre::three(4);
    let first: Vec<Caller> = (0..4).map(|_| begin(&mut theatre)).collect();
    assert!(first.iter().all(|caller| caller.text() == "ack 0\n"));
    let fifth = begin(&mut theatre);
    assert!(
        fifth.text().starts_with("error overloaded"),
        "{}",
        fifth.text()
    );
    theatre.stage.pass(61 * SECOND);
    assert!(first.iter().all(Caller::is_over));
    let sixth = begin(&mut theatre);
    assert_eq!(sixth.text(), "ack 0\n");
}

/// A part of the rows is served to nobody: whoever leads says why, until the restore goes on to its end.
#[test]
fn a_restore_that_stopped_is_told_of_by_whoever_leads() {
    let mut theatre = Theatre::three(5);
    let is_told = |theatre: &Theatre| {
        let leader = theatre.leader().expect("somebody leads");
        let look = theatre.stage.look();
        let (_, warnings) = look.node(leader).expect("it runs").warnings();
        let mut codes = warnings.into_iter().map(|(code, _, _)| code);
        codes.any(|code| code == Code::RestoreStopped)
    };
    let caller = begin(&mut theatre);
    assert_eq!(caller.text(), "ack 0\n");
    theatre.pass(5 * SECOND);
    assert!(!is_told(&theatre), "it may go on");
    theatre.pass(10 * SECOND);
    assert!(is_told(&theatre));
    // Another leader finds it in its own state, and so does a node that starts.
    for _ in 0..2 {
        let leader = theatre.leader().expect("somebody leads");
        theatre.crash(leader);
        theatre.pass(5 * SECOND);
        theatre.mend();
        theatre.pass(15 * SECOND);
        assert!(is_told(&theatre));
    }
    let leader = theatre.leader().expect("somebody leads");
    let mut filling = Filling::begin(&mut theatre, leader);
    while !matches!(filling.go_on(&mut theatre), Progress::Whole) {
        theatre.pass(MS);
    }
    theatre.pass(60 * SECOND);
    assert!(!is_told(&theatre));
}
