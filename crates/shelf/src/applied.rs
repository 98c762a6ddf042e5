//! How far a log has been applied.

use std::fmt;

/// How far a log is applied: a position of its output, and what stood there.
///
/// ```text
///  version u8 │ position u64 │ stream 16 bytes │ frame u64 │ time u64 │ frame's bytes u32 │ its crc32c u32        little-endian, 49 bytes
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Bytes of the log's output.
    pub position: u64,
    /// The stream in which that position lies, as its log names it.
    pub stream: [u8; 16],
    /// The number of the last frame.
    pub frame: u64,
    /// Log time, in milliseconds.
    pub time_ms: u64,
    /// The bytes of the last frame, which ends at the position; 0 where nobody knows.
    pub frame_bytes: u32,
    /// … and its checksum. ‡ A log of another history has other bytes there, though it may have as many frames.
    pub frame_crc32c: u32,
}

const VERSION: u8 = 2;
impl Applied {
    /// The number of its bytes.
    pub const LENGTH: usize = 49;

    pub fn encode(&self) -> [u8; Applied::LENGTH] {
        let mut bytes = [0; Applied::LENGTH];
        bytes[0] = VERSION;
        bytes[1..9].copy_from_slice(&self.position.to_le_bytes());
        bytes[9..25].copy_from_slice(&self.stream);
        bytes[25..33].copy_from_slice(&self.frame.to_le_bytes());
        bytes[33..41].copy_from_slice(&self.time_ms.to_le_bytes());
        bytes[41..45].copy_from_slice(&self.frame_bytes.to_le_bytes());
        bytes[45..].copy_from_slice(&self.frame_crc32c.to_le_bytes());
        bytes
    }

    /// `None` if these are not its bytes.
    pub fn decode(bytes: &[u8]) -> Option<Applied> {
        let bytes: &[u8; Applied::LENGTH] = bytes.try_into().ok()?;
        let number = |at: usize| {
            let number = bytes.get(at..at + 8).and_then(|part| part.try_into().ok());
            number.map(u64::from_le_bytes)
        };
        let short = |at: usize| {
            let number = bytes.get(at..at + 4).and_then(|part| part.try_into().ok());
            number.map(u32::from_le_bytes)
        };
        let applied = Applied {
            position: number(1)?,
            stream: bytes.get(9..25)?.try_into().ok()?,
            frame: number(25)?,
            time_ms: number(33)?,
            frame_bytes: short(41)?,
            frame_crc32c: short(45)?,
        };
        (bytes[0] == VERSION).then_some(applied)
    }
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (frame {})", self.position, self.frame)
    }
}

#[cfg(test)]
mod tests {
    use super::Applied;

    #[test]
    fn what_was_written_is_read() {
        let applied = Applied {
            position: 0x0102_0304_0506_0708,
            stream: *b"0123456789abcdef",
            frame: 9,
            time_ms: u64::MAX,
            frame_bytes: 77,
            frame_crc32c: 0x0a0b_0c0d,
        };
        let bytes = applied.encode();
        assert_eq!(bytes[..9], [2, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(Applied::decode(&bytes), Some(applied));
        assert_eq!(Applied::decode(&bytes[1..]), None);
        let newer = [&[3], &bytes[1..]].concat();
        assert_eq!(Applied::decode(&newer), None);
    }
}
