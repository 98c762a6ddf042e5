//! Data frames of peers: the header has one encoding, and header and payload are one proposal.

use formats::frame::ProposeHeader;
use formats::version::{self, Speaks};
use formats::{DATA_HEADER, DataHeader, PAYLOAD_BYTES_MAX, codec};
use paxos::Value;

/// `bytes`: a header and its payload, tried as it is and with the right lengths and checksums.
pub fn check(bytes: &[u8]) {
    check_frame(bytes);
    if let Some(sealed) = sealed(bytes) {
        check_frame(&sealed);
    }
}

fn check_frame(bytes: &[u8]) {
    let header = match DataHeader::decode(Speaks::THIS, bytes) {
        Ok(header) => header,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!(
        header.encode(version::FIRST),
        bytes[..DATA_HEADER],
        "{header:?}"
    );
    assert!(header.payload_length() <= PAYLOAD_BYTES_MAX);
    let payload = &bytes[DATA_HEADER..];
    if !header.payload_is_right(payload) {
        return;
    }
    let DataHeader::Propose(header) = header else {
        return;
    };
    let Ok(proposal) = header.proposal(Speaks::THIS, payload) else {
        return;
    };
    if let Value::Action(action) = &proposal.value {
        assert_eq!(
            codec::encode(version::FIRST, &**action),
            payload,
            "{action:?}"
        );
    }
    let again = ProposeHeader::new(header.log, &proposal, payload.len());
    assert_eq!(again, header);
}

pub fn sealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let payload = bytes.get(DATA_HEADER..)?;
    let mut sealed = bytes.to_vec();
    sealed[..5].copy_from_slice(b"LBdt\x01");
    sealed[7] = 0;
    sealed[68..72].fill(0);
    sealed[80..92].fill(0);
    sealed[12..16].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    sealed[16..20].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    if sealed[5..7] == [1, 1] && !payload.is_empty() {
        // A byte of content is a slot.
        sealed[40..48].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    }
    let checksum = crc32c::crc32c(&sealed[..92]);
    sealed[92..96].copy_from_slice(&checksum.to_le_bytes());
    Some(sealed)
}
