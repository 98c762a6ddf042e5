//! Places in streams, as clients hold them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Positions have 16 decimal digits.
pub const POSITION_MAX: u64 = 9_999_999_999_999_999;

/// A place in a stream: the bytes before it, and whose they are.
///
/// `LLLLLLLLLLLLLLLL_PPPPPPPPPPPPPPPP`, 16 decimal digits each: so they sort as text in the order of the stream. A fork counts on where its source
/// stood, and its offsets up to there are its source's.
///
/// ‡ The lineage is the id of the stream whose own bytes end there. So an offset of a stream that was deleted and made again is told from one of the
/// new stream, and of a fork likewise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Offset {
    /// Never 0 in an offset that is given out. A client's 0 means: of this stream.
    pub lineage: u64,
    /// Bytes from the beginning of the stream.
    pub position: u64,
}

/// Where a read begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// With the first byte that is there.
    Start,
    /// Behind the last one.
    Tail,
    At(Offset),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the offset is none of this server: use one that an answer had in Stream-Next-Offset, or -1 for the beginning, or now for the tail"
)]
pub struct BadOffset;

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016}_{:016}", self.lineage, self.position)
    }
}

impl FromStr for Offset {
    type Err = BadOffset;

    fn from_str(text: &str) -> Result<Offset, BadOffset> {
        let (lineage, position) = text.split_once('_').ok_or(BadOffset)?;
        let number = |digits: &str| match digits.len() == 16
            && digits.bytes().all(|byte| byte.is_ascii_digit())
        {
            true => digits.parse().map_err(|_| BadOffset),
            false => Err(BadOffset),
        };
        Ok(Offset {
            lineage: number(lineage)?,
            position: number(position)?,
        })
    }
}

impl FromStr for From {
    type Err = BadOffset;

    fn from_str(text: &str) -> Result<From, BadOffset> {
        match text {
            "-1" => Ok(From::Start),
            "now" => Ok(From::Tail),
            text => text.parse().map(From::At),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_read_as_it_was_written_and_nothing_else_is() {
        let offset = Offset {
            lineage: 12,
            position: POSITION_MAX,
        };
        let text = offset.to_string();
        assert_eq!(text, "0000000000000012_9999999999999999");
        assert_eq!(text.parse(), Ok(offset));
        assert_eq!("-1".parse(), Ok(From::Start));
        assert_eq!("now".parse(), Ok(From::Tail));
        assert_eq!(text.parse(), Ok(From::At(offset)));
        for bad in [
            "",
            "0",
            "-1_0",
            "12_34",
            "000000000000001_00000000000000012",
            "+000000000000012_0000000000000000",
            "0000000000000012_000000000000000a",
            "0000000000000012-0000000000000000",
            "0000000000000012_0000000000000000,",
            " 0000000000000012_0000000000000000",
        ] {
            assert_eq!(bad.parse::<From>(), Err(BadOffset), "{bad:?}");
        }
    }
}
