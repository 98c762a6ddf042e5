//! The sizes of batches, read from the segments' record headers afterwards.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Result;
use formats::RECORD_HEADER;
use formats::record::{RecordHeader, RecordKind};
use ops::BLOCK;

/// Enough for a mean.
const RECORDS_MAX: usize = 50_000;

/// The mean payload of a directory's batches, in bytes; none if there are no batches.
///
/// `directory` is of one log on one node, `log-N`.
pub fn mean_bytes(directory: &Path) -> Result<Option<f64>> {
    let sizes = sizes(directory)?;
    let bytes: u64 = sizes.iter().sum();
    Ok((!sizes.is_empty()).then(|| bytes as f64 / sizes.len() as f64))
}

/// The payloads of a directory's batches, in bytes, of 50,000 at most. The newest segments come first: those of
/// the warm-up are the oldest.
pub fn sizes(directory: &Path) -> Result<Vec<u64>> {
    let mut sizes = Vec::new();
    // Records in memory leave no files to look at.
    if !directory.exists() {
        return Ok(sizes);
    }
    let mut segments: Vec<_> = fs::read_dir(directory)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
        .collect();
    segments.sort();
    for path in segments.iter().rev() {
        let file = match File::open(path) {
            Ok(file) => file,
            // Trimmed since they were listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        let mut header = [0; RECORD_HEADER];
        let mut offset = BLOCK as u64;
        // In a file that was written before, older records stand behind the newest.
        let mut last = 0;
        while sizes.len() < RECORDS_MAX && file.read_exact_at(&mut header, offset).is_ok() {
            let Ok((record, ..)) = RecordHeader::decode(&header, None) else {
                break;
            };
            if record.number < last {
                break;
            }
            last = record.number;
            offset += record.total_length() as u64;
            if record.kind == RecordKind::Accept && record.bytes().is_some() {
                sizes.push(u64::from(record.payload_length));
            }
        }
    }
    Ok(sizes)
}
