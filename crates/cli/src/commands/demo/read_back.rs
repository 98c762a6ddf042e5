//! Each node's own disk, read while no node runs, and compared with what was sent.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use linux::LinuxDisk;
use ops::Disk;
use sha2::{Digest, Sha256};
use store::{Corruption, Manifest, OfflineError, ReadOffline};

use super::nodes::LOG;
use super::source::{Source, fill};
use super::teller::Teller;

/// The result of one disk.
#[derive(Default)]
pub struct Found {
    /// Up to the end, or to the error.
    pub bytes: u64,
    pub sha256: [u8; 32],
    pub disk_bytes: u64,
    /// The first byte that is not the one sent.
    pub first_difference: Option<u64>,
    /// The file that cannot be read, where and why.
    pub error: Option<String>,
}

/// All disks at once.
pub fn read_back(source: &Source, directories: &[PathBuf], teller: &Teller) -> Result<Vec<Found>> {
    teller.say("Stopped all nodes. Reading the stream back from the disk of each.");
    teller.begin(source.length() * directories.len() as u64, "read back");
    let done = AtomicU64::new(0);
    let found = thread::scope(|scope| {
        let readers: Vec<_> = directories
            .iter()
            .map(|directory| scope.spawn(|| read_one(source, directory, &done)))
            .collect();
        while !readers.iter().all(|reader| reader.is_finished()) {
            thread::sleep(Duration::from_millis(20));
            teller.progress(done.load(Ordering::Relaxed));
        }
        let readers = readers.into_iter().map(|reader| reader.join());
        readers
            .map(|found| found.map_err(|_| anyhow!("a thread that read a disk panicked"))?)
            .collect()
    });
    teller.finish();
    found
}

fn read_one(source: &Source, directory: &Path, done: &AtomicU64) -> Result<Found> {
    let mut compare = Compare {
        sent: source.open()?,
        buffer: Vec::new(),
        hash: Sha256::new(),
        found: Found::default(),
    };
    let mut disk = LinuxDisk::new();
    let outcome = read_log(&mut disk, directory, &mut |bytes| {
        compare.take(bytes);
        done.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    });
    let mut found = compare.found;
    found.sha256 = compare.hash.finalize().into();
    found.error = match outcome {
        Ok(corruptions) => corruptions.first().map(|corruption| {
            let file = corruption.path.display();
            format!(
                "{file} is damaged at byte {}: {}",
                corruption.from,
                corruption.what()
            )
        }),
        Err(error) => Some(error.to_string()),
    };
    found.disk_bytes = size(directory)?;
    Ok(found)
}

/// Every stream of the log, in the order of their opening. Returns the damage that did not touch
/// them.
fn read_log(
    disk: &mut dyn Disk,
    directory: &Path,
    each: &mut dyn FnMut(&[u8]),
) -> Result<Vec<Corruption>, OfflineError> {
    let manifest = Manifest::load(disk, directory)?;
    let manifest = manifest.ok_or_else(|| OfflineError::NoManifest(directory.to_owned()))?;
    // The log is among those of a node that was ready; and a node without it returns nothing.
    let Some(log) = manifest.logs.iter().find(|log| log.name == LOG) else {
        return Ok(Vec::new());
    };
    let (mut output, _) = ReadOffline::open(disk, directory, log.id)?;
    while let Some(piece) = output.next(disk)? {
        each(&piece.bytes);
    }
    Ok(output.report().corruptions.clone())
}

struct Compare {
    sent: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    hash: Sha256,
    found: Found,
}

impl Compare {
    fn take(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        let at = self.found.bytes;
        self.found.bytes += bytes.len() as u64;
        if self.found.first_difference.is_some() {
            return;
        }
        self.buffer.resize(bytes.len(), 0);
        // A source that cannot be read again is shorter, and that is a difference.
        let count = fill(&mut *self.sent, &mut self.buffer).unwrap_or(0);
        let sent = &self.buffer[..count];
        if sent != bytes {
            let same = sent.iter().zip(bytes).take_while(|(a, b)| a == b).count();
            self.found.first_difference = Some(at + same as u64);
        }
    }
}

/// The size of all files in a directory and below.
fn size(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let about = entry.metadata()?;
        bytes += match about.is_dir() {
            true => size(&entry.path())?,
            false => about.len(),
        };
    }
    Ok(bytes)
}
