//! The kinds of clusters that are compared: ink, transport, lag, proposers, and the pace of timers.

use carrier::Lag;

use super::contended::Until;
use crate::carriers::Transport;
use crate::study::run;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    Disk,
    /// The ink of the disk, on a file system in memory: written, and never on a disk.
    PageCache,
    Ram,
    /// Mapped files in memory, taken for persistent memory.
    EmulatedPmem,
}

/// The settings that tell a variant from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub ink: Ink,
    pub transport: Transport,
    pub lag: Option<Lag>,
    /// So many propose for the same decrees, and until when. `None`: one appends to a stream.
    pub proposers: Option<(u32, Until)>,
    /// All timers of its nodes take so many times as long.
    pub pace: u32,
}

impl Ink {
    pub fn name(self) -> &'static str {
        match self {
            Ink::Disk => "disk",
            Ink::PageCache => "page-cache",
            Ink::Ram => "ram",
            Ink::EmulatedPmem => "emulated-pmem",
        }
    }
}

impl Kind {
    pub fn plain(ink: Ink) -> Kind {
        Kind {
            ink,
            transport: Transport::Tcp,
            lag: None,
            proposers: None,
            pace: 1,
        }
    }

    pub fn by(self, transport: Transport) -> Kind {
        Kind { transport, ..self }
    }

    pub fn paced(self, pace: u32) -> Kind {
        Kind { pace, ..self }
    }

    pub fn contended(self, proposers: u32, until: Until) -> Kind {
        Kind {
            proposers: Some((proposers, until)),
            ..self
        }
    }

    pub fn later(self, lag: Lag) -> Kind {
        Kind {
            lag: Some(lag),
            ..self
        }
    }

    pub fn id(self) -> String {
        let lag = if self.lag.is_some() { "+lag" } else { "" };
        let by = match self.transport {
            Transport::Tcp => String::new(),
            other => format!("+{other}"),
        };
        let proposers = match self.proposers {
            None => String::new(),
            Some((count, Until::First)) => format!("+{count}p"),
            Some((count, Until::All)) => format!("+{count}p+all"),
        };
        let pace = match self.pace {
            1 => String::new(),
            pace => format!("+timers×{pace}"),
        };
        format!("{}{by}{lag}{proposers}{pace}", self.ink.name())
    }

    pub fn told(self, id: &str) -> run::Variant {
        run::Variant {
            id: id.to_owned(),
            ink: self.ink.name().to_owned(),
            transport: self.transport.name().to_owned(),
            lag: self.lag.map_or("none".to_owned(), |lag| lag.to_string()),
        }
    }
}
