//! The most that the system takes at once.

/// UIO_MAXIOV: the most slices one sendmsg or pwritev takes.
pub(crate) const SLICES_MAX: usize = 1024;
