//! `bench shelf`: what it costs to keep applied state on disk, beside the database that the same author builds on the same tree.
//!
//! ```text
//!  rows in random order, in batches ──▶ apply ── how long each took, CPU, bytes written
//!                                         ║ meanwhile one thread flushes, and another compacts
//!  keys drawn from all ──▶ get ── how long each took
//! ```

use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Context, Result, ensure};
use clap::Args;
use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use hdrhistogram::Histogram;
use serde::Serialize;
use shelf::{Applied, Batch, Identity, Settings, Shelf, Tree};

use bench::latency::{histogram, median, rounded};
use terminal::show;
use testbed::environment::Machine;
use testbed::scratch::{Place, Scratch, go_on};
use testbed::watch::Watch;
use wire::quantity;

const HELP: &str = "\
Rows come in batches, as a replica applies frames, and two other threads flush and compact. Beside the
shelf stands fjall, on the same tree with a journal that is never synced. They take turns.

Example: half a gigabyte of rows, twice each
  logberg-lab bench shelf --rows 1500000 --times 2";

/// Measure a shelf: puts, gets, bytes written per byte, the longest stall of apply
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Rows with keys of 24 bytes, in random order
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(1000..))]
    rows: u64,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value = "256", value_parser = quantity::bytes)]
    value_size: u64,
    /// Rows of a batch
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,
    /// Rows that are read afterwards
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    gets: u64,
    /// How often each takes its turn
    #[arg(long, value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=20))]
    times: u32,
    #[command(flatten)]
    place: Place,
}

const MEMTABLE_BYTES: u64 = 64 << 20;
/// More than that is not applied ahead of the disk.
const UNFLUSHED_BYTES_MAX: u64 = 4 * MEMTABLE_BYTES;
const CACHE_BYTES: u64 = 32 << 20;

/// The measurements.
trait Keeps: Sync {
    fn put(&self, batch: u64, rows: Vec<(Vec<u8>, Vec<u8>)>) -> Result<()>;
    fn get(&self, key: &[u8]) -> Result<Option<impl Deref<Target = [u8]>>>;
    /// The things that have to be done beside, each by a thread of its own; returns at once if there is nothing.
    fn flush(&self) -> Result<()>;
    fn compact(&self) -> Result<()>;
}

struct Ours {
    tree: Tree,
    /// It was flushed since it was compacted.
    is_flushed: AtomicBool,
}

impl Keeps for Ours {
    fn put(&self, number: u64, rows: Vec<(Vec<u8>, Vec<u8>)>) -> Result<()> {
        while self.tree.figures().unflushed_bytes > UNFLUSHED_BYTES_MAX {
            thread::sleep(Duration::from_millis(1));
        }
        let mut batch = Batch::default();
        for (key, value) in rows {
            batch.put(key, value);
        }
        let applied = Applied {
            position: number + 1,
            frame: number + 1,
            ..Applied::default()
        };
        Ok(self.tree.apply(&batch, applied)?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<impl Deref<Target = [u8]>>> {
        Ok(self.tree.get(key)?)
    }

    fn flush(&self) -> Result<()> {
        if self.tree.figures().unflushed_bytes > MEMTABLE_BYTES {
            self.tree.flush()?;
            self.is_flushed.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        if self.is_flushed.swap(false, Ordering::Relaxed) {
            self.tree.compact()?;
        }
        Ok(())
    }
}

struct Theirs(Database, Keyspace);

impl Keeps for Theirs {
    fn put(&self, number: u64, rows: Vec<(Vec<u8>, Vec<u8>)>) -> Result<()> {
        let mut batch = self.0.batch();
        for (key, value) in rows {
            batch.insert(&self.1, key, value);
        }
        batch.insert(&self.1, "applied", number.to_le_bytes());
        Ok(batch.commit()?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<impl Deref<Target = [u8]>>> {
        Ok(self.1.get(key)?)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }
}

fn ours(directory: &Path) -> Result<Ours> {
    let identity = Identity {
        cluster: [0; 16],
        log: 1,
    };
    let settings = Settings {
        cache_bytes: CACHE_BYTES,
        ..Settings::default()
    };
    Ok(Ours {
        tree: Tree::open(directory, identity, settings)?,
        is_flushed: AtomicBool::new(false),
    })
}

fn theirs(directory: &Path) -> Result<Theirs> {
    let database = Database::builder(directory)
        .manual_journal_persist(true)
        .worker_threads(1)
        .cache_size(CACHE_BYTES)
        .open()?;
    let rows = database.keyspace("rows", || {
        KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES)
    })?;
    Ok(Theirs(database, rows))
}

#[derive(Clone, Debug, Serialize)]
struct Turn {
    what: &'static str,
    puts_per_s: f64,
    cpu_us_per_put: f64,
    /// Bytes that the process gave to the disk, for each byte of keys and values.
    written_per_byte: f64,
    batch_p50_ms: f64,
    batch_p999_ms: f64,
    /// The longest stall.
    batch_max_ms: f64,
    get_p50_us: f64,
    get_p99_us: f64,
    disk_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    rows: u64,
    value_bytes: u64,
    batch_rows: u64,
    gets: u64,
    turns: Vec<Turn>,
    machine: Machine,
}

/// A key of 24 bytes; every number gives another.
fn key(number: u64) -> Vec<u8> {
    format!("{:024x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes()
}

fn value(number: u64, length: u64) -> Vec<u8> {
    // Half of it compresses, as text does.
    let mut drawn = number;
    let bytes = (0..length).map(|at| {
        drawn = drawn
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        match at % 2 {
            0 => (drawn >> 40) as u8,
            _ => b'v',
        }
    });
    bytes.collect()
}

/// ⟨bytes given to the disk, CPU⟩ of this process so far.
fn spent() -> Result<(u64, Duration)> {
    let io = fs::read_to_string("/proc/self/io").context("what this process wrote")?;
    let written = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(") ").context("a process's times")?.1;
    let ticks = after_name.split(' ').skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    let per_second = rustix::param::clock_ticks_per_second();
    let cpu = Duration::from_secs_f64(ticks as f64 / per_second as f64);
    Ok((written.context("what it wrote")?.trim().parse()?, cpu))
}

fn disk_bytes(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        bytes += match entry.metadata()? {
            metadata if metadata.is_dir() => disk_bytes(&entry.path())?,
            metadata => metadata.len(),
        };
    }
    Ok(bytes)
}

fn ms(micros: &Histogram<u64>, quantile: f64) -> f64 {
    rounded(micros.value_at_quantile(quantile) as f64 / 1000.0)
}

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let bytes = self.rows * (self.value_size + 24);
        let scratch = self.place.make(4 * bytes)?;
        let machine = Machine::look(scratch.path())?;
        machine.warn_if_no_disk();
        let mut turns = Vec::new();
        let steps = u64::from(self.times) * 2 * (self.rows + self.gets) / 1000;
        let bar = Watch::new(steps.max(1));
        for _ in 0..self.times {
            for what in ["shelf", "fjall"] {
                bar.says(what.to_owned());
                let directory = scratch.path().join(what);
                turns.push(match what {
                    "shelf" => self.turn(what, &directory, &ours(&directory)?, &bar)?,
                    _ => self.turn(what, &directory, &theirs(&directory)?, &bar)?,
                });
                self.rest(&scratch, &directory)?;
            }
        }
        drop(bar);
        let report = Report {
            bench: "shelf",
            rows: self.rows,
            value_bytes: self.value_size,
            batch_rows: self.batch,
            gets: self.gets,
            turns,
            machine,
        };
        match json {
            true => show::print_json(&report),
            false => report.print(),
        }
    }

    fn rest(&self, scratch: &Scratch, directory: &Path) -> Result<()> {
        scratch.retire(directory)
    }

    fn turn(
        &self,
        what: &'static str,
        directory: &Path,
        keeps: &impl Keeps,
        bar: &Watch,
    ) -> Result<Turn> {
        let (written, cpu) = spent()?;
        let began = Instant::now();
        let is_over = AtomicBool::new(false);
        let mut batches = histogram();
        let tend = |what: &dyn Fn() -> Result<()>| -> Result<()> {
            while !is_over.load(Ordering::Relaxed) {
                what()?;
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        };
        let length = thread::scope(|scope| -> Result<Duration> {
            let flushing = scope.spawn(|| tend(&|| keeps.flush()));
            let compacting = scope.spawn(|| tend(&|| keeps.compact()));
            let applied = self.apply(keeps, bar, &mut batches);
            let length = began.elapsed();
            is_over.store(true, Ordering::Relaxed);
            for tending in [flushing, compacting] {
                tending.join().expect("what tends does not panic")?;
            }
            applied.map(|()| length)
        })?;
        let (written_then, cpu_then) = spent()?;
        let mut gets = histogram();
        let mut drawn = 1u64;
        for count in 0..self.gets {
            drawn = drawn
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let number = (drawn >> 16) % self.rows;
            let key = key(number);
            let since = Instant::now();
            let found = keeps.get(&key)?;
            gets.saturating_record(since.elapsed().as_nanos() as u64 / 100);
            let expected = value(number, self.value_size);
            ensure!(
                found.as_deref() == Some(&expected[..]),
                "{what} lost row {number}"
            );
            if count % 1000 == 0 {
                bar.step(1);
                go_on()?;
            }
        }
        let us = |quantile| rounded(gets.value_at_quantile(quantile) as f64 / 10.0);
        Ok(Turn {
            what,
            puts_per_s: rounded(self.rows as f64 / length.as_secs_f64()),
            cpu_us_per_put: rounded((cpu_then - cpu).as_secs_f64() * 1e6 / self.rows as f64),
            written_per_byte: rounded(
                (written_then - written) as f64 / (self.rows * (24 + self.value_size)) as f64,
            ),
            batch_p50_ms: ms(&batches, 0.5),
            batch_p999_ms: ms(&batches, 0.999),
            batch_max_ms: ms(&batches, 1.0),
            get_p50_us: us(0.5),
            get_p99_us: us(0.99),
            disk_bytes: disk_bytes(directory)?,
        })
    }

    fn apply(&self, keeps: &impl Keeps, bar: &Watch, batches: &mut Histogram<u64>) -> Result<()> {
        let mut next = 0;
        let mut number = 0;
        while next < self.rows {
            let end = self.rows.min(next + self.batch);
            let rows = (next..end).map(|row| (key(row), value(row, self.value_size)));
            let rows = rows.collect();
            let since = Instant::now();
            keeps.put(number, rows)?;
            batches.saturating_record(since.elapsed().as_micros() as u64);
            if end / 1000 > next / 1000 {
                bar.step(end / 1000 - next / 1000);
                go_on()?;
            }
            next = end;
            number += 1;
        }
        Ok(())
    }
}

impl Report {
    fn print(&self) -> Result<()> {
        let headings = [
            "",
            "puts/s",
            "CPU µs/put",
            "written/byte",
            "batch p50 ms",
            "p99.9 ms",
            "max ms",
            "get p50 µs",
            "p99 µs",
        ];
        let mut table = show::table(&headings);
        for what in ["shelf", "fjall"] {
            let turns = || self.turns.iter().filter(|turn| turn.what == what);
            let middle = |of: fn(&Turn) -> f64| rounded(median(turns().map(of)));
            let cells = [
                middle(|turn| turn.puts_per_s),
                middle(|turn| turn.cpu_us_per_put),
                middle(|turn| turn.written_per_byte),
                middle(|turn| turn.batch_p50_ms),
                middle(|turn| turn.batch_p999_ms),
                middle(|turn| turn.batch_max_ms),
                middle(|turn| turn.get_p50_us),
                middle(|turn| turn.get_p99_us),
            ];
            let mut row = vec![what.into()];
            row.extend(cells.map(show::number));
            table.add_row(row);
        }
        show::print(show::lines(&table))?;
        show::print(format!(
            "medians of {} turns each, {} rows of 24 and {} bytes; {}",
            self.turns.len() / 2,
            self.rows,
            self.value_bytes,
            self.machine.sentence()
        ))
    }
}
