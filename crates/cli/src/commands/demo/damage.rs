//! One flipped byte on a node's disk, to see that the reading back notices.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use formats::segment::directory_name;
use linux::LinuxDisk;
use store::Manifest;
use terminal::exit::Failure;
use testbed::payloads::{payloads, segments};

use super::nodes::LOG;

/// Flips a byte of payload, and returns where.
pub fn flip(node_directory: &Path) -> Result<(PathBuf, u64)> {
    let nothing = || Failure::usage("there is no byte to flip: append more than nothing");
    let manifest = Manifest::load(&mut LinuxDisk::new(), node_directory)?.ok_or_else(nothing)?;
    let listed = manifest.logs.iter().find(|log| log.name == LOG);
    let directory = node_directory.join(directory_name(listed.ok_or_else(nothing)?.id));
    let mut places = Vec::new();
    for path in segments(&directory)? {
        places.extend(payloads(&path)?);
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
    file.sync_all()
        .with_context(|| format!("cannot damage {}", path.display()))?;
    Ok((path, offset))
}
