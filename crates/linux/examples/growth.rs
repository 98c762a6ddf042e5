//! How should a segment grow? Durable writes of several sizes into growing, fallocated and
//! recycled files, alone and three at once.
//!
//! ```text
//! cargo run --release -p linux --example growth -- DIRECTORY
//! ```
//!
//! The figures of docs/decisions/0003-segment-growth.md are this program's.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ops::Buffer;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, fdatasync, fsync, open};
use rustix::io::{ReadWriteFlags, pwrite, pwritev, pwritev2};

const FILE_LENGTH: u64 = 64 << 20;

const AHEAD: usize = 256 << 10;

#[derive(Clone, Copy, Debug)]
enum Growth {
    Growing,
    KeepSize,
    Fallocated,
    /// Every write that makes the file grow has zeros behind it, `AHEAD` of them.
    Ahead,
    /// Written once with zeros before; the cost of that is not in the figures.
    Recycled,
}

#[derive(Clone, Copy, Debug)]
enum Durability {
    DirectDsync,
    DirectFdatasync,
    BufferedFdatasync,
}

fn main() -> io::Result<()> {
    let directory = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".into()));
    println!(
        "{:<12}{:<20}{:>8}{:>9}{:>10}{:>10}{:>9}",
        "growth", "durability", "KiB", "writers", "p50 us", "p99 us", "MB/s"
    );
    for durability in [
        Durability::DirectDsync,
        Durability::DirectFdatasync,
        Durability::BufferedFdatasync,
    ] {
        for growth in [
            Growth::Growing,
            Growth::KeepSize,
            Growth::Fallocated,
            Growth::Ahead,
            Growth::Recycled,
        ] {
            for size in [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20] {
                for writers in [1, 3] {
                    row(&directory, growth, durability, size, writers)?;
                }
            }
        }
    }
    Ok(())
}

fn row(
    directory: &Path,
    growth: Growth,
    durability: Durability,
    size: usize,
    writers: usize,
) -> io::Result<()> {
    let files: Vec<_> = (0..writers)
        .map(|n| {
            prepare(
                &directory.join(format!("growth-{n}.tmp")),
                growth,
                durability,
            )
        })
        .collect::<io::Result<_>>()?;
    let started = Instant::now();
    let threads: Vec<_> = files
        .into_iter()
        .map(|file| std::thread::spawn(move || write_all(&file, growth, durability, size)))
        .collect();
    let mut micros = Vec::new();
    for thread in threads {
        micros.extend(thread.join().expect("a writer does not panic")?);
    }
    let seconds = started.elapsed().as_secs_f64();
    let rate = (micros.len() * size) as f64 / seconds / 1e6;
    micros.sort_unstable();
    println!(
        "{:<12}{:<20}{:>8}{:>9}{:>10}{:>10}{:>9.0}",
        format!("{growth:?}"),
        format!("{durability:?}"),
        size >> 10,
        writers,
        micros[micros.len() / 2],
        micros[micros.len() * 99 / 100],
        rate
    );
    for n in 0..writers {
        std::fs::remove_file(directory.join(format!("growth-{n}.tmp")))?;
    }
    // Let the journal finish with the removed files.
    std::thread::sleep(Duration::from_millis(150));
    Ok(())
}

fn prepare(path: &Path, growth: Growth, durability: Durability) -> io::Result<OwnedFd> {
    let mut flags = OFlags::CREATE | OFlags::TRUNC | OFlags::RDWR | OFlags::CLOEXEC;
    if !matches!(durability, Durability::BufferedFdatasync) {
        flags |= OFlags::DIRECT;
    }
    let file = open(path, flags, Mode::from_raw_mode(0o600))?;
    match growth {
        Growth::Growing | Growth::Ahead => {}
        Growth::KeepSize => fallocate(&file, FallocateFlags::KEEP_SIZE, 0, FILE_LENGTH)?,
        Growth::Fallocated => fallocate(&file, FallocateFlags::empty(), 0, FILE_LENGTH)?,
        Growth::Recycled => {
            let zeros = Buffer::new(1 << 20);
            for at in (0..FILE_LENGTH).step_by(1 << 20) {
                pwrite(&file, &zeros, at)?;
            }
        }
    }
    fsync(&file)?;
    Ok(file)
}

/// Microseconds of each durable write.
fn write_all(
    file: &OwnedFd,
    growth: Growth,
    durability: Durability,
    size: usize,
) -> io::Result<Vec<u64>> {
    let mut payload = Buffer::new(size);
    payload.fill(7);
    let zeros = Buffer::new(AHEAD);
    let mut grown = 0;
    let mut micros = Vec::new();
    let stop = Instant::now() + Duration::from_millis(800);
    let mut offset = 0;
    while offset < FILE_LENGTH && Instant::now() < stop {
        let started = Instant::now();
        let end = offset + size as u64;
        let grows = matches!(growth, Growth::Ahead) && end > grown;
        let slices = [IoSlice::new(&payload), IoSlice::new(&zeros)];
        let slices = &slices[..1 + usize::from(grows)];
        if grows {
            grown = end + AHEAD as u64;
        }
        match durability {
            Durability::DirectDsync => {
                pwritev2(file, slices, offset, ReadWriteFlags::DSYNC)?;
            }
            Durability::DirectFdatasync | Durability::BufferedFdatasync => {
                pwritev(file, slices, offset)?;
                fdatasync(file)?;
            }
        }
        micros.push(started.elapsed().as_micros() as u64);
        offset += size as u64;
    }
    Ok(micros)
}
