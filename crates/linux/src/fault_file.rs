//! Faults of the disk that somebody outside turns on and off while the process runs, by writing a
//! file. For torture and tests: inert unless [`Faults::file`](crate::Faults) names a file. `logberg-lab`
//! alone can name one, by `node --faults`.
//!
//! ```text
//! write-delay-ms=200        every durable write begins so much later
//! write-error=EIO           every durable write of a segment fails, unwritten (or ENOSPC)
//! free-bytes=0              what is free on the disk is said to be at most so much
//! ```
//!
//! One fault a line; a file that is empty or not there holds none. It is read at every write, which
//! costs some microseconds, and while a write is delayed, so that a fault begins and ends at once. A line that cannot be understood
//! fails the writes: a misspelt fault must not look like a disk that bears it.
//!
//! Not reached by these faults: reads, the manifest, and the names of files.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;

/// While a write is delayed.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What the file holds now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Injected {
    pub write_delay: Duration,
    pub write_error: Option<Errno>,
    pub free_bytes: Option<u64>,
}

impl Injected {
    pub fn read(path: &Path) -> io::Result<Injected> {
        match std::fs::read_to_string(path) {
            Ok(text) => Injected::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Injected::default()),
            Err(error) => Err(error),
        }
    }

    /// The delay of a write, or less of it if the file says meanwhile that it is over.
    pub fn delay(&self, path: &Path) {
        let until = Instant::now() + self.write_delay;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(LOOK_AGAIN));
            let still =
                || Injected::read(path).is_ok_and(|now| now.write_delay >= self.write_delay);
            if left <= LOOK_AGAIN || !still() {
                return;
            }
        }
    }

    fn parse(text: &str) -> io::Result<Injected> {
        let mut injected = Injected::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let known = line
                .split_once('=')
                .and_then(|(name, value)| injected.set(name, value));
            if known.is_none() {
                let text = format!("{line:?} is no fault");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
        Ok(injected)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match (name, value) {
            ("write-delay-ms", number) => {
                self.write_delay = Duration::from_millis(number.parse().ok()?);
            }
            ("write-error", "EIO") => self.write_error = Some(Errno::IO),
            ("write-error", "ENOSPC") => self.write_error = Some(Errno::NOSPC),
            ("free-bytes", number) => self.free_bytes = Some(number.parse().ok()?),
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_holds_no_fault() {
        let place = tempfile::tempdir().unwrap();
        let injected = Injected::read(&place.path().join("none")).unwrap();
        assert_eq!(injected, Injected::default());
        assert_eq!(Injected::parse("\n \n").unwrap(), Injected::default());
    }

    #[test]
    fn every_fault_can_be_said() {
        let text = "write-delay-ms=20\nwrite-error=ENOSPC\nfree-bytes=5\n";
        let expected = Injected {
            write_delay: Duration::from_millis(20),
            write_error: Some(Errno::NOSPC),
            free_bytes: Some(5),
        };
        assert_eq!(Injected::parse(text).unwrap(), expected);
    }

    #[test]
    fn a_delay_ends_when_the_file_says_so() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("faults");
        std::fs::write(&path, "write-delay-ms=3600000\n").unwrap();
        let injected = Injected::read(&path).unwrap();
        let delayed = {
            let path = path.clone();
            std::thread::spawn(move || injected.delay(&path))
        };
        std::fs::write(&path, "").unwrap();
        delayed.join().unwrap();
    }

    #[test]
    fn a_misspelt_fault_is_an_error() {
        for text in ["write-delay=1", "write-error=EBADF", "free-bytes=", "EIO"] {
            assert!(Injected::parse(text).is_err(), "{text}");
        }
    }
}
