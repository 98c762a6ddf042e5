//! The disk below a directory: how much was written to it and how often it was told to flush.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor, stat};

/// A whole disk: partitions count no flushes.
#[derive(Clone, Debug)]
pub struct Disk {
    numbers: PathBuf,
}

/// Since the machine started, by everybody who uses the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub writes: u64,
    pub written_bytes: u64,
    pub flushes: u64,
}

impl Disk {
    /// Returns `None` where files are on no disk of their own: in memory, on layers, on several disks.
    pub fn below(directory: &Path) -> Option<Disk> {
        let device = stat(directory).ok()?.st_dev;
        let of = format!("/sys/dev/block/{}:{}", major(device), minor(device));
        let mut path = fs::canonicalize(of).ok()?;
        if path.join("partition").exists() {
            path.pop();
        }
        let disk = Disk {
            numbers: path.join("stat"),
        };
        disk.traffic().map(|_| disk)
    }

    pub fn traffic(&self) -> Option<Traffic> {
        parse(&fs::read_to_string(&self.numbers).ok()?)
    }
}

/// Source: Documentation/block/stat.rst of Linux. Sectors are of 512 bytes, whatever the disk's are.
fn parse(line: &str) -> Option<Traffic> {
    let fields: Vec<u64> = line
        .split_ascii_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    Some(Traffic {
        writes: *fields.get(4)?,
        written_bytes: fields.get(6)? * 512,
        flushes: fields.get(15).copied().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_and_flushes_stand_where_the_kernel_says() {
        let line = " 1 2 3 4 50 6 70 8 9 10 11 12 13 14 15 160 17\n";
        let traffic = Traffic {
            writes: 50,
            written_bytes: 70 * 512,
            flushes: 160,
        };
        assert_eq!(parse(line), Some(traffic));
        assert_eq!(parse("1 2 3"), None);
    }

    #[test]
    fn what_is_on_no_disk_has_none() {
        assert!(Disk::below(Path::new("/proc")).is_none());
    }
}
