//! Where the records of a node go: ops on files are the same on each, and the node cannot tell.
//!
//! | ink | files are | durable when |
//! |---|---|---|
//! | disk | in a file system | the device says so (`disk_file`) |
//! | pmem | in a file system, mapped | their cache lines are flushed (`pmem`) |
//! | ram | in this process's memory | never: they end with the process |

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::medium::Medium;

mod file_system;
mod free_memory;
mod pmem;
mod pmem_file;
mod ram;
mod ram_disk;
mod ram_file;

use self::pmem::Pmem;
use file_system::FileSystem;
use ram::Ram;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ink {
    #[default]
    Disk,
    /// Nothing survives the process: a node starts on an empty disk, as a new one.
    Ram,
    /// Mapped files, flushed by cache line where they are persistent memory.
    Pmem,
}

impl Ink {
    pub const ALL: [Ink; 3] = [Ink::Disk, Ink::Ram, Ink::Pmem];

    pub fn name(self) -> &'static str {
        match self {
            Ink::Disk => "disk",
            Ink::Ram => "ram",
            Ink::Pmem => "pmem",
        }
    }

    /// What holds the files of one kernel.
    pub(crate) fn medium(self, emulate_pmem: bool) -> Arc<dyn Medium> {
        match self {
            Ink::Disk => Arc::new(FileSystem),
            Ink::Ram => Arc::new(Ram::new()),
            Ink::Pmem => Arc::new(Pmem::new(emulate_pmem)),
        }
    }
}

impl fmt::Display for Ink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Ink {
    type Err = String;

    fn from_str(text: &str) -> Result<Ink, String> {
        let found = Ink::ALL.into_iter().find(|ink| ink.name() == text);
        found.ok_or_else(|| format!("{text:?} is no ink: choose disk, ram or pmem"))
    }
}
