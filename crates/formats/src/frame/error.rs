//! Why a frame is refused.

use thiserror::Error;

use crate::codec::DecodeError;
use crate::version::Unspoken;

/// The connection it came on is of no more use: what follows cannot be
/// told from what it destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    #[error("the peer does not speak frames here")]
    Magic,
    #[error("a frame in {0}")]
    Version(#[from] Unspoken),
    #[error("a frame arrived damaged")]
    Checksum,
    #[error("a frame of {0} bytes is too long")]
    TooLong(u32),
    #[error("frame kind {0} is unknown")]
    Kind(u8),
    #[error("a frame is inconsistent: {0}")]
    Invalid(&'static str),
    #[error("a frame's body cannot be read: {0}")]
    Body(#[from] DecodeError),
}

impl FrameError {
    /// The peer should have known that this program does not speak it.
    pub fn is_of_version(&self) -> bool {
        matches!(
            self,
            FrameError::Version(_) | FrameError::Body(DecodeError::Version(_))
        )
    }
}
