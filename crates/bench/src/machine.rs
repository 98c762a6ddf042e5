//! `bench machine`: what this machine can do at most, without us.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use hdrhistogram::Histogram;
use ops::Buffer;
use rustix::fs::{OFlags, fcntl_setfl, fdatasync};
use rustix::io::{ReadWriteFlags, pwritev2};
use serde::Serialize;
use terminal::show;
use testbed::environment::Machine;
use testbed::scratch::{Place, Scratch, go_on};
use testbed::watch::Watch;
use wire::quantity;

use super::latency::{quantile_ms, rounded};

const HELP: &str = "\
Writes grow a new file, one after the other: `direct` with O_DIRECT and RWF_DSYNC, as nodes write;
`fdatasync` through the page cache.

Example: the disk that data will be on
  logberg bench machine --directory /var/lib/logberg";

/// Durable writes, the loopback, copying and checksums: the machine's own limits
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Time for each measurement
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = quantity::seconds)]
    seconds: f64,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    writes: Vec<Writes>,
    loopback: Vec<Loopback>,
    copy_gb_per_s: f64,
    crc32c_gb_per_s: f64,
    machine: Machine,
}

#[derive(Debug, Serialize)]
pub struct Writes {
    pub path: &'static str,
    pub bytes: usize,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub mb_per_s: f64,
}

#[derive(Debug, Serialize)]
pub struct Loopback {
    pub congestion: String,
    pub gb_per_s: f64,
}

const SIZES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];

impl Arguments {
    pub fn run(self, json: bool) -> Result<()> {
        let length = Duration::from_secs_f64(self.seconds);
        let bytes = (self.seconds * 6.0 * 2e9) as u64;
        let scratch = self.place.make(bytes)?;
        let machine = Machine::look(scratch.path())?;
        let watch = Watch::new(10);
        let mut writes = Vec::new();
        for direct in [true, false] {
            for bytes in SIZES {
                watch.says(format!("writes of {}", quantity::shown(bytes as u64)));
                writes.extend(durable_writes(&scratch, bytes, direct, length)?);
                watch.step(1);
            }
        }
        let mut loopback = Vec::new();
        for congestion in ["cubic", machine.congestion.as_str()] {
            watch.says("loopback");
            if loopback
                .iter()
                .all(|done: &Loopback| done.congestion != congestion)
            {
                loopback.extend(over_loopback(congestion, length)?);
            }
            watch.step(1);
        }
        watch.says("memory");
        let copy_gb_per_s = copied(length);
        let crc32c_gb_per_s = checksummed(length);
        drop(watch);
        let report = Report {
            bench: "machine",
            writes,
            loopback,
            copy_gb_per_s: rounded(copy_gb_per_s),
            crc32c_gb_per_s: rounded(crc32c_gb_per_s),
            machine,
        };
        match json {
            true => show::print_json(&report),
            false => report.print(),
        }
    }
}

/// Returns `None` if the file system refuses O_DIRECT.
pub fn durable_writes(
    scratch: &Scratch,
    bytes: usize,
    direct: bool,
    length: Duration,
) -> Result<Option<Writes>> {
    let path = scratch.path().join("writes");
    let measured = write_file(&path, bytes, direct, length);
    // It may not have been made.
    let _ = std::fs::remove_file(&path);
    measured
}

fn write_file(path: &Path, bytes: usize, direct: bool, length: Duration) -> Result<Option<Writes>> {
    let file = File::create_new(path).context("cannot make a file")?;
    write_blocks(&file, bytes, direct, length)
}

/// One block after the other, growing the file, each durable before the next.
pub fn write_blocks(
    file: &File,
    bytes: usize,
    direct: bool,
    length: Duration,
) -> Result<Option<Writes>> {
    if direct && fcntl_setfl(file, OFlags::DIRECT).is_err() {
        return Ok(None);
    }
    let mut buffer = Buffer::new(bytes);
    super::content::fill(0, &mut buffer);
    let mut micros = Histogram::<u64>::new_with_bounds(1, 60_000_000, 3)?;
    let began = Instant::now();
    let mut offset = 0;
    while began.elapsed() < length {
        go_on()?;
        let since = Instant::now();
        let flags = match direct {
            true => ReadWriteFlags::DSYNC,
            false => ReadWriteFlags::empty(),
        };
        let written = pwritev2(file.as_fd(), &[IoSlice::new(&buffer)], offset, flags);
        match written {
            Ok(count) if count == bytes => {}
            Ok(_) => bail!("a write was cut short: is the disk full?"),
            Err(rustix::io::Errno::INVAL) if direct => return Ok(None),
            Err(error) => return Err(error).context("a write failed"),
        }
        if !direct {
            fdatasync(file).context("fdatasync failed")?;
        }
        micros.saturating_record(since.elapsed().as_micros().max(1) as u64);
        offset += bytes as u64;
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok(Some(Writes {
        path: if direct { "direct" } else { "fdatasync" },
        bytes,
        p50_ms: rounded(quantile_ms(&micros, 0.5)),
        p99_ms: rounded(quantile_ms(&micros, 0.99)),
        mb_per_s: rounded(offset as f64 / 1e6 / seconds),
    }))
}

/// One stream to a thread that throws it away. `None` if the system has no such congestion control.
pub fn over_loopback(congestion: &str, length: Duration) -> Result<Option<Loopback>> {
    let sent = sent_over_loopback(congestion, 256 << 10, length)?;
    Ok(sent.map(|sent| Loopback {
        congestion: congestion.to_owned(),
        gb_per_s: rounded(sent.bytes as f64 / 1e9 / sent.seconds),
    }))
}

/// System calls that write one byte each to a thread that throws them away, in a second: no client that makes one of
/// each write is faster.
pub fn small_writes_per_s(congestion: &str, length: Duration) -> Result<Option<f64>> {
    let sent = sent_over_loopback(congestion, 1, length)?;
    Ok(sent.map(|sent| sent.bytes as f64 / sent.seconds))
}

struct Sent {
    bytes: u64,
    seconds: f64,
}

fn sent_over_loopback(congestion: &str, piece: usize, length: Duration) -> Result<Option<Sent>> {
    // A look at the clock takes a tenth of a small write.
    const SMALL: usize = 64 << 10;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    if rustix::net::sockopt::set_tcp_congestion(&sender, congestion).is_err() {
        return Ok(None);
    }
    let takes = std::thread::spawn(move || {
        let mut buffer = vec![0; 256 << 10];
        let mut bytes = 0u64;
        while let Ok(count @ 1..) = receiver.read(&mut buffer) {
            bytes += count as u64;
        }
        bytes
    });
    let bytes = vec![1; piece];
    let at_once = (SMALL / piece / 64).max(1);
    let began = Instant::now();
    while began.elapsed() < length {
        for _ in 0..at_once {
            sender.write_all(&bytes)?;
        }
    }
    drop(sender);
    let bytes = takes.join().unwrap_or(0);
    let seconds = began.elapsed().as_secs_f64();
    Ok(Some(Sent { bytes, seconds }))
}

/// From memory to memory, 64 MiB at a time: more than caches hold.
pub fn copied(length: Duration) -> f64 {
    let from = vec![1u8; 64 << 20];
    let mut to = vec![2u8; 64 << 20];
    rate_of(length, from.len(), || {
        to.copy_from_slice(&from);
        std::hint::black_box(&to);
    })
}

/// The rate at which a batch in cache is checksummed, as nodes do it.
fn checksummed(length: Duration) -> f64 {
    let bytes = vec![1u8; 256 << 10];
    rate_of(length, bytes.len(), || {
        std::hint::black_box(formats::digest(std::hint::black_box(&bytes)));
    })
}

fn rate_of(length: Duration, bytes: usize, mut act: impl FnMut()) -> f64 {
    let began = Instant::now();
    let mut times = 0u64;
    while began.elapsed() < length {
        act();
        times += 1;
    }
    (times * bytes as u64) as f64 / 1e9 / began.elapsed().as_secs_f64()
}

impl Report {
    fn print(&self) -> Result<()> {
        let mut table = show::table(&["durable writes", "of", "p50 ms", "p99 ms", "MB/s"]);
        for writes in &self.writes {
            let mut cells = vec![
                comfy_table::Cell::new(writes.path),
                show::number(quantity::shown(writes.bytes as u64)),
            ];
            cells.extend([writes.p50_ms, writes.p99_ms, writes.mb_per_s].map(show::number));
            table.add_row(cells);
        }
        show::print(show::lines(&table))?;
        for loopback in &self.loopback {
            let Loopback {
                congestion,
                gb_per_s,
            } = loopback;
            show::print(format!(
                "loopback, one stream, {congestion}: {gb_per_s} GB/s"
            ))?;
        }
        show::print(format!(
            "memory copy: {} GB/s; crc32c in cache: {} GB/s",
            self.copy_gb_per_s, self.crc32c_gb_per_s
        ))?;
        show::print(self.machine.sentence())
    }
}
