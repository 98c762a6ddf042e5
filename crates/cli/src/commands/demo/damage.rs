//! One flipped byte on a node's disk, to see that the reading back notices.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use linux::LinuxDisk;
use node::format::record::{RECORD_HEADER, RecordHeader};
use node::format::segment::{directory_name, number_of};
use node::op::BLOCK;
use node::store::Manifest;
use paxos::StreamName;

use super::LOG;
use crate::exit::Failure;

/// Flips a byte of payload, and returns where.
pub fn flip(node_directory: &Path) -> Result<(PathBuf, u64)> {
    let nothing = || Failure::usage("there is no byte to flip: append more than nothing");
    let manifest = Manifest::load(&mut LinuxDisk::new(), node_directory)?.ok_or_else(nothing)?;
    let listed = manifest.logs.iter().find(|log| log.name == LOG);
    let directory = node_directory.join(directory_name(listed.ok_or_else(nothing)?.id));
    let mut places = Vec::new();
    let mut paths: Vec<PathBuf> = fs::read_dir(&directory)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            number_of(&name).is_some()
        })
        .collect();
    paths.sort();
    for path in &paths {
        payloads(path, &mut places)?;
    }
    // Bytes may stand on the disk more than once, when a new leader had them accepted again or the
    // node fetched them; read are those that came last.
    let wanted = places.get(places.len() / 4).ok_or_else(nothing)?;
    let (stream, position) = (wanted.stream, wanted.bytes.start);
    let last = places
        .iter()
        .rfind(|place| place.stream == stream && place.bytes.contains(&position));
    let place = last.ok_or_else(nothing)?;
    let path = place.path.clone();
    let offset = place.offset + (position - place.bytes.start);
    let file = File::options().read(true).write(true).open(&path)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset)?;
    file.write_all_at(&[byte[0] ^ 0x10], offset)?;
    file.sync_all().with_context(|| format!("cannot damage {}", path.display()))?;
    Ok((path, offset))
}

/// A payload on the disk.
struct Place {
    stream: StreamName,
    /// Positions in the stream.
    bytes: Range<u64>,
    path: PathBuf,
    /// Of the first of them in the file.
    offset: u64,
}

/// The payloads of a segment, in the order in which they were written.
fn payloads(path: &Path, places: &mut Vec<Place>) -> Result<()> {
    let file = File::open(path)?;
    let mut offset = BLOCK as u64;
    let mut block = [0; BLOCK];
    while file.read_exact_at(&mut block, offset).is_ok() {
        let Ok((header, _, _)) = RecordHeader::decode(&block, None) else {
            break;
        };
        if let Some(bytes) = header.bytes()
            && header.payload_length > 0
        {
            places.push(Place {
                stream: header.stream,
                bytes,
                path: path.to_owned(),
                offset: offset + RECORD_HEADER as u64,
            });
        }
        offset += header.total_length() as u64;
    }
    Ok(())
}
