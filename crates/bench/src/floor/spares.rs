//! Files that were written before, for a floor beside logs that write theirs again.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::Result;
use formats::segment::file_name;
use ops::Disk;
use replica::Limits;

use crate::history::forget_pages;

/// The files of each lane: the one that is written, the next one, and those that a log keeps.
const FILES: u64 = 4;
const PIECE: usize = 1 << 20;

/// For so many lanes; returns how many files each has.
pub fn write(directory: &Path, lanes: u32) -> Result<u64> {
    if lanes == 0 {
        return Ok(0);
    }
    let pieces = Limits::default().segment_bytes_max / PIECE as u64;
    let piece = vec![0; PIECE];
    for lane in 1..=lanes {
        let directory = directory.join(format!("log-{lane}"));
        fs::create_dir_all(&directory)?;
        for number in 1..=FILES {
            let mut file = File::create(directory.join(file_name(number)))?;
            for _ in 0..pieces {
                file.write_all(&piece)?;
            }
            file.sync_all()?;
        }
        File::open(&directory)?.sync_all()?;
        // A node keeps nothing of a file in memory but for readers.
        forget_pages(&directory)?;
    }
    Ok(FILES)
}

/// The same in memory, which is this process's.
pub fn write_in_memory(disk: &mut dyn Disk, directory: &Path, lanes: u32) -> Result<u64> {
    if lanes == 0 {
        return Ok(0);
    }
    let file = vec![0; Limits::default().segment_bytes_max as usize];
    for lane in 1..=lanes {
        let directory = directory.join(format!("log-{lane}"));
        disk.create_directory(&directory)?;
        for number in 1..=FILES {
            disk.write_file(&directory.join(file_name(number)), &file)?;
        }
    }
    Ok(FILES)
}
