//! The versions of the formats that a program speaks: one number for all that it writes to disks and
//! sends to peers (docs/decisions/0018-versions-side-by-side.md).
//!
//! ```text
//!  a link      the highest that both ends speak
//!  a disk      what its manifest says: no older program starts there any more
//!  the logs    what the directory says that is agreed: every disk's manifest has got as far
//! ```

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The version that every node of every program begins with.
pub const FIRST: u8 = 1;
/// From this one on logs choose what the directory wants of them ([`paxos::Wish`]).
pub const WISHES: u8 = 2;

/// Followers ask their leader for barriers.
pub const BARRIERS: u8 = 2;

/// A node tells on each connection what its disk has been through ([`store::past`]).
pub const PASTS: u8 = 2;

/// The directory keeps what a node said last of its own address, and what an operator said since.
pub const SAID_ADDRESSES: u8 = 2;

/// Logs have kinds ([`crate::LogKind`]), and nodes tell each other how far states are durable.
pub const KINDS: u8 = 2;

/// A log's leader cuts the stream of a writer that is gone ([`paxos::Action::CutStream`]).
pub const CUTS: u8 = 2;

/// The directory keeps tokens, and whether they are asked for.
pub const TOKENS: u8 = 2;

/// From the oldest to the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speaks {
    oldest: u8,
    newest: u8,
}

/// Something is written in a version that this program does not speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub struct Unspoken {
    pub found: u32,
    pub speaks: Speaks,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is no range of versions: say 1, or 1-2")]
pub struct BadSpeaks(String);

impl Speaks {
    /// This program.
    pub const THIS: Speaks = Speaks {
        oldest: FIRST,
        newest: WISHES,
    };
    /// A node that does not say what it speaks.
    pub const UNSAID: Speaks = Speaks {
        oldest: FIRST,
        newest: FIRST,
    };
    /// For who looks at what others wrote, and is no node.
    pub const ALL: Speaks = Speaks {
        oldest: FIRST,
        newest: u8::MAX,
    };

    /// `None` if there is no such range.
    pub fn new(oldest: u8, newest: u8) -> Option<Speaks> {
        (FIRST <= oldest && oldest <= newest).then_some(Speaks { oldest, newest })
    }

    pub fn oldest(self) -> u8 {
        self.oldest
    }

    pub fn newest(self) -> u8 {
        self.newest
    }

    pub fn has(self, version: u8) -> bool {
        self.oldest <= version && version <= self.newest
    }

    pub fn check(self, found: u32) -> Result<u8, Unspoken> {
        let version = u8::try_from(found).ok().filter(|found| self.has(*found));
        version.ok_or(Unspoken {
            found,
            speaks: self,
        })
    }

    /// The version in which two ends talk.
    pub fn common(self, other: Speaks) -> Option<u8> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }
}

impl Default for Speaks {
    fn default() -> Speaks {
        Speaks::THIS
    }
}

impl fmt::Display for Speaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.oldest == self.newest {
            true => write!(f, "{}", self.newest),
            false => write!(f, "{}-{}", self.oldest, self.newest),
        }
    }
}

impl FromStr for Speaks {
    type Err = BadSpeaks;

    fn from_str(text: &str) -> Result<Speaks, BadSpeaks> {
        let (oldest, newest) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| text.parse().ok();
        let range = number(oldest).zip(number(newest));
        let speaks = range.and_then(|(oldest, newest)| Speaks::new(oldest, newest));
        // `parse` would take a sign and zeros in front.
        let one_spelling = speaks.filter(|speaks| speaks.to_string() == text);
        one_spelling.ok_or_else(|| BadSpeaks(text.to_owned()))
    }
}

impl fmt::Display for Unspoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unspoken { found, speaks } = self;
        let other = match *found > u32::from(speaks.newest) {
            true => "a newer",
            false => "an older",
        };
        write!(
            f,
            "version {found}, and this program speaks only version {speaks}: start {other} program"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speaks(text: &str) -> Speaks {
        text.parse().unwrap()
    }

    #[test]
    fn two_ends_talk_in_the_newest_that_both_speak() {
        assert_eq!(speaks("1").common(speaks("1-2")), Some(1));
        assert_eq!(speaks("1-3").common(speaks("2-5")), Some(3));
        assert_eq!(speaks("1").common(speaks("2-3")), None);
    }

    #[test]
    fn a_range_has_one_spelling() {
        for text in ["1", "1-2", "7-255"] {
            assert_eq!(speaks(text).to_string(), text);
        }
        for text in ["", "0", "2-1", "1-1", "+1", "01", "1-", "1-2-3", "256"] {
            assert!(text.parse::<Speaks>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_not_spoken_says_which_program_to_start() {
        let newer = speaks("1").check(2).unwrap_err().to_string();
        assert!(newer.ends_with("start a newer program"), "{newer}");
        let older = speaks("2-3").check(1).unwrap_err().to_string();
        assert!(older.ends_with("start an older program"), "{older}");
        assert_eq!(speaks("2-3").check(3), Ok(3));
        assert!(speaks("1").check(257).is_err());
    }
}
