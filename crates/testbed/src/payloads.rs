//! The places of streams' bytes on a node's disk, to damage them.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use formats::record::{RECORD_HEADER, RecordHeader};
use formats::segment::number_of;
use ops::BLOCK;
use paxos::StreamName;

/// A record's payload.
#[derive(Clone, Debug)]
pub struct Payload {
    pub stream: StreamName,
    /// Positions in the stream.
    pub bytes: Range<u64>,
    pub path: PathBuf,
    /// The place of the first byte in the file.
    pub offset: u64,
    /// The record's number in its log.
    pub number: u64,
    /// Known durable when the last readable record of the segment was written: all records up to
    /// this number.
    pub durable: u64,
}

/// A log's segments, oldest first.
pub fn segments(log_directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(log_directory)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            number_of(&name).is_some()
        })
        .collect();
    paths.sort();
    Ok(paths)
}

/// The payloads of a segment, in the order in which they were written.
pub fn payloads(segment: &Path) -> io::Result<Vec<Payload>> {
    let file = File::open(segment)?;
    let mut payloads = Vec::new();
    let mut durable = 0;
    let mut offset = BLOCK as u64;
    let mut block = [0; BLOCK];
    while file.read_exact_at(&mut block, offset).is_ok() {
        let Ok((header, _, _)) = RecordHeader::decode(&block, None) else {
            break;
        };
        durable = durable.max(header.watermark);
        if let Some(bytes) = header.bytes()
            && header.payload_length > 0
        {
            payloads.push(Payload {
                stream: header.stream,
                bytes,
                path: segment.to_owned(),
                offset: offset + RECORD_HEADER as u64,
                number: header.number,
                durable: 0,
            });
        }
        offset += header.total_length() as u64;
    }
    for payload in &mut payloads {
        payload.durable = durable;
    }
    Ok(payloads)
}
