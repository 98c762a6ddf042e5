//! Parts of backups: what is taken whole can be written again and read as the same; all else is refused.

use client::backup::{BackupError, Header, Identity, Next, PartReader, PartWriter};
use sha2::{Digest as _, Sha256};

type Piece = (usize, u64, Vec<u8>);

/// `bytes`: a part. It is tried as it is, and with checksums that are right: then `bytes` are a line of
/// JSON, and behind it pieces, each a byte for its stream, one for its position, one for its length.
pub fn check(bytes: &[u8]) {
    check_part(bytes);
    for version in [1, 2] {
        check_part(&sealed(bytes, version));
    }
}

fn check_part(bytes: &[u8]) {
    match read(bytes) {
        Ok((header, pieces, _)) => {
            let mut writer = PartWriter::new(Vec::new(), header.clone()).expect("memory");
            for (_, _, payload) in &pieces {
                let written = match header.state {
                    Some(_) => writer.write_rows(payload),
                    None => writer.write(payload),
                };
                written.expect("it was taken");
            }
            let (again, identity) = writer.finish().expect("it was whole");
            let read_again = read(&again).expect("our own");
            assert_eq!(read_again, (header, pieces, identity));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn read(bytes: &[u8]) -> Result<(Header, Vec<Piece>, Identity), BackupError> {
    let mut reader = PartReader::open(bytes)?;
    let mut pieces = Vec::new();
    loop {
        match reader.read_next()? {
            Next::Piece {
                stream,
                position,
                payload,
            } => pieces.push((stream, position, payload)),
            Next::End { identity, .. } => {
                return Ok((reader.header().clone(), pieces, identity));
            }
        }
    }
}

pub fn sealed(bytes: &[u8], version: u8) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (json, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
    let mut out = b"LBbackup".to_vec();
    out.extend_from_slice(&u32::from(version).to_le_bytes());
    out.extend_from_slice(&(json.len() as u32).to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&out), json);
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(json);
    let mut rest = rest.get(1..).unwrap_or_default();
    let (mut pieces, mut count) = (0u64, 0u64);
    while let Some(([stream, position, length], behind)) = rest.split_first_chunk() {
        let (payload, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        let mut head = b"LBpc".to_vec();
        head.extend_from_slice(&u32::from(*stream).to_le_bytes());
        head.extend_from_slice(&u64::from(*position).to_le_bytes());
        head.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        head.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        head.extend_from_slice(&crc32c::crc32c(&head).to_le_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(payload);
        (pieces, count) = (pieces + 1, count + payload.len() as u64);
        rest = behind;
    }
    let identity = Sha256::digest(&out);
    let mut trailer = b"LBnd".to_vec();
    trailer.extend_from_slice(&pieces.to_le_bytes());
    trailer.extend_from_slice(&count.to_le_bytes());
    trailer.extend_from_slice(&identity);
    trailer.extend_from_slice(&crc32c::crc32c(&trailer).to_le_bytes());
    out.extend_from_slice(&trailer);
    out
}
