//! Records: the header has one encoding, and so has whatever its payload says.

use formats::codec::{self, Encode};
use formats::record::{RecordHeader, RecordKind, ValueKind, total_length};
use formats::version::{self, Speaks};
use formats::{RECORD_HEADER, digest};
use ops::BLOCK;
use paxos::{Action, Checkpoint};
use store::SegmentIndex;

/// `bytes`: a header and its payload, tried as they are and with the right lengths and checksums.
pub fn check(bytes: &[u8]) {
    check_record(bytes);
    if let Some(sealed) = sealed(bytes) {
        check_record(&sealed);
    }
}

fn check_record(bytes: &[u8]) {
    let (header, checksum, salt) = match RecordHeader::decode(bytes, None) {
        Ok(found) => found,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut again = [0; RECORD_HEADER];
    assert_eq!(header.encode(salt, &mut again), checksum);
    assert_eq!(again, bytes[..RECORD_HEADER], "{header:?}");
    assert!(RecordHeader::decode(bytes, Some(!salt)).is_err());
    let length = header.total_length();
    assert!(length >= RECORD_HEADER && length.is_multiple_of(BLOCK));
    assert!(header.watermark < header.number);
    if let Some(bytes) = header.bytes() {
        let said = match header.kind {
            RecordKind::Lost => header.slots.len(),
            _ => u64::from(header.payload_length),
        };
        assert_eq!(bytes.end - bytes.start, said, "{header:?}");
    }
    let payload = &bytes[RECORD_HEADER..];
    if !header.payload_is_right(payload) {
        return;
    }
    match (header.kind, header.value) {
        (RecordKind::Checkpoint | RecordKind::Promise | RecordKind::State, _) => {
            canonical::<Checkpoint>(payload);
        }
        (RecordKind::Index, _) => canonical::<SegmentIndex>(payload),
        (RecordKind::Accept, ValueKind::Action) => canonical::<Action>(payload),
        _ => {}
    }
}

/// A value that decodes has exactly one encoding: the one it was decoded from.
fn canonical<T: Encode>(bytes: &[u8]) {
    match codec::decode::<T>(Speaks::THIS, bytes) {
        Ok(value) => assert_eq!(codec::encode(version::FIRST, &value), bytes),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn sealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let payload = bytes.get(RECORD_HEADER..)?;
    let mut sealed = bytes.to_vec();
    sealed[..4].copy_from_slice(b"LBrc");
    sealed[6..8].fill(0);
    sealed[124..128].fill(0);
    sealed[144..RECORD_HEADER].fill(0);
    sealed[12..16].copy_from_slice(&(total_length(payload.len()) as u32).to_le_bytes());
    sealed[16..20].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    sealed[20..24].copy_from_slice(&digest(payload).0.to_le_bytes());
    let seed = crc32c::crc32c(&sealed[32..40]);
    let before = crc32c::crc32c_append(seed, &sealed[..4]);
    let checksum = crc32c::crc32c_append(before, &sealed[8..RECORD_HEADER]);
    sealed[4..8].copy_from_slice(&checksum.to_le_bytes());
    Some(sealed)
}
