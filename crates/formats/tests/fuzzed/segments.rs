//! The first blocks of segments, and the names of files.

use formats::Speaks;
use formats::segment::{SegmentError, SegmentHeader, directory_name, file_name, log_of, number_of};
use ops::BLOCK;

/// `bytes`: what the first block begins with, tried as it is and with the right checksum.
pub fn check(bytes: &[u8]) {
    let mut block = bytes.to_vec();
    block.resize(BLOCK, 0);
    check_block(&block);
    check_block(&sealed(&block));
    check_names(&String::from_utf8_lossy(bytes));
}

fn check_block(block: &[u8]) {
    match SegmentHeader::decode(Speaks::THIS, block) {
        Ok(header) => {
            let again = header.encode();
            assert_eq!(SegmentHeader::decode(Speaks::THIS, &again), Ok(header));
            // The rest may be a later version's.
            assert_eq!(again[12..92], block[12..92], "{header:?}");
            assert_eq!(
                header.belongs_to(&header.identity, header.log, header.number),
                Ok(())
            );
            let short = SegmentHeader::decode(Speaks::THIS, &block[..BLOCK - 1]);
            assert_eq!(short, Err(SegmentError::NoHeader));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn sealed(block: &[u8]) -> Vec<u8> {
    let mut sealed = block.to_vec();
    sealed[..8].copy_from_slice(b"LOGBERGS");
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&sealed[..8]), &sealed[12..]);
    sealed[8..12].copy_from_slice(&checksum.to_le_bytes());
    sealed
}

fn check_names(name: &str) {
    if let Some(number) = number_of(name) {
        assert_eq!(file_name(number), name);
    }
    if let Some(log) = log_of(name) {
        assert_eq!(directory_name(log), name);
    }
}
