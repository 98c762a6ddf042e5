//! A machine on three real nodes is saved while it works, and another cluster's is filled with what was saved: also where that stops in the
//! middle, where a leader dies, and where it is not to be.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use client::backup::{Backup, Next, PartReader, RestoreError, RestoreOptions, TakeError};
use client::{AdminError, AppendOptions, Client, Timeouts};
use nodes::Nodes;
use nodes::rows::{node, status, value};
use wire::{Answer, Ask, BackupId};

#[allow(dead_code)]
mod nodes;

const KEYS: u64 = 150;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

struct Load {
    nodes: Nodes,
    at: usize,
    puts: u64,
}

impl Load {
    fn three() -> Load {
        Load {
            nodes: Nodes::three("rows"),
            at: 0,
            puts: 0,
        }
    }

    /// Asks node after node, until one does it.
    fn ask(&mut self, command: &str) -> String {
        let begun = Instant::now();
        loop {
            while self.nodes.running[self.at].is_none() {
                self.at = (self.at + 1) % 3;
            }
            let answer = self.nodes.node(self.at).ask(command).expect("it runs");
            if !answer.starts_with("! not here") {
                return answer;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{answer}");
            self.at = (self.at + 1) % 3;
            sleep(Duration::from_millis(10));
        }
    }

    fn put(&mut self, count: u64) {
        for _ in 0..count {
            self.puts += 1;
            let command = format!("put-{} {}", self.puts % KEYS, self.puts);
            assert_eq!(self.ask(&command), "ok");
        }
    }

    /// What the nodes have, once all have the same.
    fn same(&mut self) -> String {
        let begun = Instant::now();
        loop {
            let running = (0..3).filter(|index| self.nodes.running[*index].is_some());
            let running: Vec<usize> = running.collect();
            let ask = |index: &usize| self.nodes.node(*index).ask("fresh-sum").expect("it runs");
            let sums: Vec<String> = running.iter().map(ask).collect();
            let is_whole = |index: &usize| status(&self.nodes.addresses[*index]).1;
            let whole = running.iter().all(is_whole);
            if whole && sums[0].contains(" rows") && sums.iter().all(|sum| *sum == sums[0]) {
                return sums[0].clone();
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{sums:?}");
            sleep(Duration::from_millis(50));
        }
    }

    fn client(&self) -> Client {
        Client::new(self.nodes.addresses.clone(), Timeouts::default())
    }
}

fn take(client: &Client, to: &Path) -> client::backup::Taken {
    let taken = client.back_up("rows", to, "now".to_owned(), |_, _| {});
    taken.expect("it is taken")
}

fn restore(client: &Client, from: &Path, log: &str) -> Result<Option<u64>, RestoreError> {
    let options = RestoreOptions {
        log: log.to_owned(),
        ..RestoreOptions::default()
    };
    let backup = Backup::open(from).expect("it is there");
    let restored = client.restore(&backup, &options, |_, _| {});
    restored.map(|restored| restored.rows)
}

/// All rows that a part has, and its pages.
fn rows_of(path: &Path) -> (Rows, Vec<Vec<u8>>) {
    let mut reader = PartReader::open(File::open(path).expect("it is there")).expect("it is one");
    let (mut rows, mut pages) = (Rows::new(), Vec::new());
    while let Next::Piece { payload, .. } = reader.read_next().expect("it is sound") {
        let page = wire::rows::decode(&payload, None).expect("it is one");
        let page = page.into_iter();
        rows.extend(page.map(|(key, value)| (key.to_vec(), value.to_vec())));
        pages.push(payload);
    }
    (rows, pages)
}

/// Taken while puts go on, one at a time: it is what exactly the first of them come to, and has all that were answered before.
fn is_of_one_moment(load: &mut Load, to: PathBuf) {
    let before = load.puts;
    let client = load.client();
    let (tell, told) = mpsc::channel();
    let saved = to.clone();
    let taking = thread::spawn(move || {
        let taken = take(&client, &saved);
        let _ = tell.send(());
        taken
    });
    while told.try_recv().is_err() {
        load.put(1);
    }
    let taken = taking.join().expect("it is taken");
    let (rows, _) = rows_of(&to);
    assert_eq!(taken.rows, rows.len() as u64);
    let holds = |puts: u64| {
        (1..=puts).rev().take(KEYS as usize).all(|put| {
            let key = format!("put-{}", put % KEYS);
            rows.get(key.as_bytes()) == Some(&value(&put.to_string()))
        })
    };
    let moment = (before..=load.puts).find(|puts| holds(*puts));
    let moment = moment.expect("it is the state after so many puts");
    println!(
        "saved after {moment} puts; {before} when it began, {} when it ended",
        load.puts
    );
}

/// Brings the first page of a backup to whoever leads, and no more.
fn begin(load: &Load, part: &Path) {
    let mut reader = PartReader::open(File::open(part).expect("it is there")).expect("it is one");
    let saved = reader.header().state.expect("it is of a machine");
    let identity = loop {
        if let Next::End { identity, .. } = reader.read_next().expect("it is sound") {
            break identity;
        }
    };
    let (_, pages) = rows_of(part);
    assert!(pages.len() > 2, "{} pages", pages.len());
    let request = Ask::Fill {
        log: "rows".to_owned(),
        backup: BackupId(identity),
        time_ms: saved.time_ms,
        sessions: saved.sessions,
    };
    let data = Answer::Data {
        position: 0,
        count: pages[0].len() as u64,
        crc32c: crc32c::crc32c(&pages[0]),
    };
    let begun = Instant::now();
    for address in load.nodes.addresses.iter().cycle() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody leads");
        let stream = TcpStream::connect(address).expect("it runs");
        (&stream)
            .write_all(request.to_line().as_bytes())
            .expect("it hears");
        let mut said = BufReader::new(&stream);
        let mut line = String::new();
        said.read_line(&mut line).expect("it answers");
        if line != "ack 0\n" {
            assert!(line.starts_with("error not-leader"), "{line}");
            sleep(Duration::from_millis(20));
            continue;
        }
        (&stream)
            .write_all(data.to_line().as_bytes())
            .expect("it hears");
        (&stream).write_all(&pages[0]).expect("it hears");
        line.clear();
        said.read_line(&mut line).expect("it answers");
        assert_eq!(line, "ack 1\n");
        return;
    }
}

fn a_machine_is_saved_and_filled() {
    let mut load = Load::three();
    load.put(160);
    let session = load.ask("session");
    let once = format!("once {session} 1 once 1");
    assert_eq!(load.ask(&once), "ok");
    let here = tempfile::tempdir().expect("there is room");
    let early = here.path().join("early.lbb");
    is_of_one_moment(&mut load, early.clone());

    // A directory: each part has all.
    let parts = here.path().join("parts");
    fs::create_dir(&parts).expect("there is room");
    let client = load.client();
    take(&client, &parts);
    assert!(take(&client, &parts).nothing_new);
    load.put(3);
    let taken = take(&client, &parts);
    assert!(taken.path.ends_with("part-000002.lbb") && !taken.nothing_new);
    assert_eq!(taken.rows, KEYS + 1);
    let again = client.back_up("rows", &early, String::new(), |_, _| {});
    assert!(matches!(again, Err(TakeError::Exists(_))), "{again:?}");
    // Streams do not stand beside rows.
    client.create_log("bytes").expect("it is made");
    let mut appender = client
        .append("bytes", AppendOptions::default())
        .expect("it opens");
    appender.write_all(b"bytes").expect("they are taken");
    appender.close().expect("they are chosen");
    let mixed = client.back_up("bytes", &parts, String::new(), |_, _| {});
    assert!(
        matches!(mixed, Err(TakeError::OtherLog { .. })),
        "{mixed:?}"
    );
    let bytes = here.path().join("bytes.lbb");
    let taken = client.back_up("bytes", &bytes, String::new(), |_, _| {});
    assert_eq!(taken.expect("it is taken").bytes, 5);
    let had = load.same();
    (0..3).for_each(|index| load.nodes.kill(index));

    // Elsewhere. What is not to be leaves nothing behind.
    let mut load = Load::three();
    let client = load.client();
    let nobody = restore(&client, &parts, "nobody");
    assert!(
        matches!(nobody, Err(RestoreError::NoMachine(_))),
        "{nobody:?}"
    );
    let gone = client.log("nobody");
    assert!(
        matches!(gone, Err(AdminError::UnknownLog { .. })),
        "{gone:?}"
    );
    let into_machine = restore(&client, &bytes, "rows");
    let exists = RestoreError::Admin(AdminError::Exists {
        name: "rows".to_owned(),
    });
    assert_eq!(
        into_machine.expect_err("it exists").to_string(),
        exists.to_string()
    );
    client.create_log("bytes").expect("it is made");
    let into_bytes = restore(&client, &parts, "bytes");
    assert!(
        matches!(into_bytes, Err(RestoreError::OtherKind { .. })),
        "{into_bytes:?}"
    );

    // It stops in the middle: nobody is served before its end.
    let part = parts.join("part-000002.lbb");
    begin(&load, &part);
    for command in ["put-1 1", "session", "sum"] {
        let answer = load.ask(command);
        assert!(
            answer.contains("a restore of this machine was begun"),
            "{answer}"
        );
    }
    let other = restore(&client, &early, "rows");
    assert!(matches!(other, Err(RestoreError::Refused(_))), "{other:?}");
    let saved = client.back_up(
        "rows",
        &here.path().join("half.lbb"),
        String::new(),
        |_, _| {},
    );
    assert!(matches!(saved, Err(TakeError::Machine(_))), "{saved:?}");
    // Its leader dies, and the next goes on.
    let status = client.status().expect("they answer");
    let log = status.logs.iter().find(|log| log.name == "rows");
    let leader = log.and_then(|log| log.leader).expect("it is known") as usize - 1;
    load.nodes.kill(leader);
    let answer = load.ask("put-1 1");
    assert!(
        answer.contains("a restore of this machine was begun"),
        "{answer}"
    );
    assert_eq!(
        restore(&client, &parts, "rows").expect("it is filled"),
        Some(KEYS + 1)
    );
    assert_eq!(load.same(), had);
    load.nodes.start(leader);
    assert_eq!(load.same(), had);

    // Once is enough, and old sessions have ended.
    let again = restore(&client, &parts, "rows");
    assert!(
        matches!(again, Err(RestoreError::FilledBefore(_))),
        "{again:?}"
    );
    let answer = load.ask(&once);
    assert!(answer.contains("there is no such session"), "{answer}");
    let number = |session: &str| session.parse::<u64>().expect("it is a number");
    let next = load.ask("session");
    assert!(number(&next) > number(&session), "{next} after {session}");
    assert_eq!(load.same(), had);
    load.put(5);

    // All die, and what was filled is there.
    let has = load.same();
    (0..3).for_each(|index| load.nodes.kill(index));
    (0..3).for_each(|index| load.nodes.start(index));
    assert_eq!(load.same(), has);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::var_os(nodes::IS_NODE).is_some() {
        return node();
    }
    nodes::run(
        "a_machine_is_saved_and_filled",
        a_machine_is_saved_and_filled,
    );
    Ok(())
}
