//! Flipped bytes on one node's disk, and whether that node notices.
//!
//! Only payload of records that are known to be durable is flipped: all of a sealed segment, and in the open
//! one those that a later record calls durable. Bytes that were written in the last moments before a crash
//! and rot before the next start cannot be told from a torn write (docs/data-files.md).
//!
//! A flipped byte is looked for at once, by reading its part of the stream through the node itself,
//! which must give the right bytes or none, and in the end the right ones. So no two nodes are ever
//! damaged at the same place at the same time.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use client::{Client, ReadError, ReadOptions, StreamName};
use formats::segment::directory_name;
use linux::LinuxDisk;
use store::Manifest;
use testbed::payloads::{Payload, payloads, segments};
use testbed::scratch::go_on;

use super::rack::Rack;
use super::schedule::Chance;

/// A flipped byte, and what belongs there.
pub struct Flipped {
    log: String,
    stream: StreamName,
    from: u64,
    right: Vec<u8>,
}

/// The bytes that are read back around a flipped one.
const WINDOW: u64 = 4096;
const REPAIRED_MAX: Duration = Duration::from_secs(60);

/// Flips a byte in each of some records of one log of the node; none if there are no such records
/// yet. `dead`: the node is not running, so the open segment may be touched.
pub fn flip(
    rack: &Rack,
    node: u32,
    records: u32,
    dead: bool,
    chance: &mut Chance,
) -> Result<Vec<Flipped>> {
    let directory = rack.cluster.node_directory(node);
    let manifest = Manifest::load(&mut LinuxDisk::new(), &directory)?;
    let logs = manifest.map(|manifest| manifest.logs).unwrap_or_default();
    // Log 0 holds commands, and few.
    let logs: Vec<_> = logs.iter().filter(|log| log.id.0 != 0).collect();
    if logs.is_empty() {
        return Ok(Vec::new());
    }
    let log = logs[chance.below(logs.len() as u64) as usize];
    let segments = segments(&directory.join(directory_name(log.id)))?;
    let sealed = segments.len().saturating_sub(1);
    let usable = if dead { segments.len() } else { sealed };
    if usable == 0 {
        return Ok(Vec::new());
    }
    // The newest segments have been looked at least.
    let oldest = usable.saturating_sub(3);
    let at = chance.between(oldest as u64, usable as u64 - 1) as usize;
    let mut candidates = payloads(&segments[at])?;
    if at >= sealed {
        candidates.retain(|payload| payload.number <= payload.durable);
    }
    let mut flipped = Vec::new();
    for _ in 0..records.min(candidates.len() as u32) {
        let payload = candidates.swap_remove(chance.below(candidates.len() as u64) as usize);
        flipped.push(flip_one(&log.name, &payload, chance)?);
    }
    Ok(flipped)
}

fn flip_one(log: &str, payload: &Payload, chance: &mut Chance) -> Result<Flipped> {
    let count = payload.bytes.end - payload.bytes.start;
    let at = chance.below(count);
    let from = at.saturating_sub(WINDOW / 2);
    let to = (at + WINDOW / 2).min(count);
    let path = &payload.path;
    let mut damage = || -> std::io::Result<Vec<u8>> {
        let file = File::options().read(true).write(true).open(path)?;
        let mut right = vec![0; (to - from) as usize];
        file.read_exact_at(&mut right, payload.offset + from)?;
        let byte = right[(at - from) as usize];
        let bit = 1 << chance.below(8);
        file.write_all_at(&[byte ^ bit], payload.offset + at)?;
        file.sync_all()?;
        Ok(right)
    };
    let right = damage().with_context(|| format!("cannot damage {}", path.display()))?;
    let stream = payload.stream;
    Ok(Flipped {
        log: log.to_owned(),
        stream: StreamName {
            owner: stream.owner.0.into(),
            incarnation: stream.sequence.incarnation.into(),
            counter: stream.sequence.counter.into(),
        },
        from: payload.bytes.start + from,
        right,
    })
}

/// Reads it through the node that was damaged until that gives the right bytes.
///
/// Returns what cannot be: that it gave wrong ones, or that it does not get them back.
pub fn wait_repaired(rack: &Rack, node: u32, flipped: &Flipped) -> Result<Option<String>> {
    let client = rack.direct_client();
    let deadline = Instant::now() + REPAIRED_MAX;
    let (log, stream) = (&flipped.log, flipped.stream);
    loop {
        go_on()?;
        let why = match read(&client, &rack.cluster.asked_at_of(node), flipped) {
            // Accepted, never chosen, and superseded: nobody will ask for them. Or the node is behind.
            Err(ReadError::UnknownStream { .. } | ReadError::PastEnd { .. })
                if is_beyond_end(&client, flipped) =>
            {
                return Ok(None);
            }
            Err(error) => error.to_string(),
            Ok(bytes) => {
                let same = bytes.iter().zip(&flipped.right).take_while(|(a, b)| a == b);
                let same = same.count();
                if same < bytes.len() {
                    let at = flipped.from + same as u64;
                    return Ok(Some(format!(
                        "node {node} gave a damaged byte: {at} of stream {stream} in the log {log}"
                    )));
                }
                if same == flipped.right.len() {
                    return Ok(None);
                }
                format!("it gave {same} bytes")
            }
        };
        if Instant::now() >= deadline {
            if is_beyond_end(&client, flipped) {
                return Ok(None);
            }
            return Ok(Some(format!(
                "node {node} did not get back byte {} of stream {stream} in the log {log} within \
                 {} s: {why}",
                flipped.from,
                REPAIRED_MAX.as_secs()
            )));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn read(client: &Client, server: &str, flipped: &Flipped) -> Result<Vec<u8>, ReadError> {
    let options = ReadOptions {
        stream: Some(flipped.stream),
        from: flipped.from,
        to: Some(flipped.from + flipped.right.len() as u64),
        server: Some(server.to_owned()),
        ..ReadOptions::default()
    };
    let mut reader = client.read(&flipped.log, options)?;
    let mut bytes = Vec::new();
    match reader.read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => match error.downcast::<ReadError>() {
            Ok(error) => Err(error),
            Err(error) => unreachable!("a reader's errors are its own: {error}"),
        },
    }
}

fn is_beyond_end(client: &Client, flipped: &Flipped) -> bool {
    let Ok(streams) = client.streams(&flipped.log) else {
        return false;
    };
    let name = flipped.stream.to_string();
    let stream = streams.iter().find(|stream| stream.name == name);
    stream.is_none_or(|stream| stream.length < flipped.from + flipped.right.len() as u64)
}
