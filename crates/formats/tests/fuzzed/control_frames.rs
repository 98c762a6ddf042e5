//! Control frames of peers: what is taken has exactly one encoding, the one it was read from.

use formats::DecodeError;
use formats::Speaks;
use formats::frame::{
    CONTROL_PREFIX, Frame, FrameError, decode_control_body, decode_control_prefix, encode_control,
};

const VERSION_AT: usize = 4;

/// `bytes`: a frame. It is tried as it is, and as a peer that means harm would send it: with the
/// right length and checksums.
pub fn check(bytes: &[u8]) {
    check_frame(bytes);
    if let Some(sealed) = sealed(bytes) {
        check_frame(&sealed);
    }
}

fn check_frame(bytes: &[u8]) {
    match decode(bytes) {
        Ok(frame) => assert_eq!(
            encode_control(bytes[VERSION_AT], &frame),
            bytes,
            "{frame:?}"
        ),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn decode(bytes: &[u8]) -> Result<Frame, FrameError> {
    let prefix = bytes.first_chunk();
    let prefix = prefix.ok_or(FrameError::Body(DecodeError::Short))?;
    decode_control_body(
        &decode_control_prefix(Speaks::THIS, prefix)?,
        &bytes[CONTROL_PREFIX..],
    )
}

pub fn sealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let body = bytes.get(CONTROL_PREFIX..)?;
    let mut sealed = bytes.to_vec();
    sealed[..5].copy_from_slice(b"LBct\x01");
    sealed[6..8].fill(0);
    sealed[12..16].copy_from_slice(&(body.len() as u32).to_le_bytes());
    sealed[16..20].copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
    let checksum = crc32c::crc32c(&sealed[..20]);
    sealed[20..24].copy_from_slice(&checksum.to_le_bytes());
    Some(sealed)
}
