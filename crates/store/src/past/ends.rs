//! `ends`: the end of each log when the node was last stopped. It counts for the very next start: the
//! manifest numbers starts, and a note of an earlier one says nothing any more.

use std::collections::BTreeMap;
use std::path::Path;

use formats::LogId;
use ops::Disk;
use serde::{Deserialize, Serialize};

use super::page;

pub const ENDS_FILE: &str = "ends";

/// The end of a start that was asked to stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ends {
    /// The number of the start.
    pub incarnation: u32,
    /// The number of each log's last record.
    records: BTreeMap<u32, u64>,
}

impl Ends {
    pub fn new(incarnation: u32, records: impl Iterator<Item = (LogId, u64)>) -> Ends {
        Ends {
            incarnation,
            records: records.map(|(log, last)| (log.0, last)).collect(),
        }
    }

    pub fn load(disk: &mut dyn Disk, directory: &Path) -> Result<Option<Ends>, String> {
        let contents = page::read(disk, &directory.join(ENDS_FILE));
        let contents = contents.map_err(|error| error.to_string())?;
        contents.map(|contents| Ends::parse(&contents)).transpose()
    }

    pub fn parse(contents: &[u8]) -> Result<Ends, String> {
        page::parse(ENDS_FILE, contents)
    }

    pub fn encode(&self) -> Vec<u8> {
        page::encode(ENDS_FILE, self)
    }

    /// The loss of a log whose last record is this one now, if the manifest still says that no start came between.
    pub fn lost(&self, incarnation: u32, log: LogId, last_record: u64) -> Option<Lost> {
        let was = self.records.get(&log.0).copied()?;
        let so = self.incarnation == incarnation && last_record < was;
        so.then_some(Lost {
            is: last_record,
            was,
        })
    }
}

/// Records of a log that were there when its node was stopped, and are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it ends with record {is}, and ended with record {was} when this node was stopped: its newest files were removed, cut or replaced by older ones since; put them back as they were, or let this node join again as a new one with an empty directory"
)]
pub struct Lost {
    pub is: u64,
    pub was: u64,
}
