//! A variant's cluster, and where it writes.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use carrier::Lag;
use client::{Client, Timeouts};
use tempfile::TempDir;
use testbed::cluster::{LocalCluster, LocalOptions};

use crate::study::rounds::Appends;
use crate::study::run;

/// A log may have so many voters.
pub const MACHINES_MAX: i64 = 31;

const READY: Duration = Duration::from_secs(120);
const LOG: &str = "main";
/// The retention of a log of proposals.
const KEPT: &str = "128MiB";
/// A file system in memory.
const MEMORY: &str = "/dev/shm";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    Disk,
    /// The ink of the disk, on a file system in memory: written, and never on a disk.
    PageCache,
    Ram,
}

/// The ink and the lag that tell a variant from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub ink: Ink,
    pub lag: Option<Lag>,
}

impl Ink {
    pub fn name(self) -> &'static str {
        match self {
            Ink::Disk => "disk",
            Ink::PageCache => "page-cache",
            Ink::Ram => "ram",
        }
    }
}

impl Kind {
    pub fn plain(ink: Ink) -> Kind {
        Kind { ink, lag: None }
    }

    pub fn late(ink: Ink, lag: Lag) -> Kind {
        Kind {
            ink,
            lag: Some(lag),
        }
    }

    pub fn id(self) -> String {
        let lag = if self.lag.is_some() { "+lag" } else { "" };
        format!("{}{lag}", self.ink.name())
    }

    pub fn told(self, id: &str) -> run::Variant {
        run::Variant {
            id: id.to_owned(),
            ink: self.ink.name().to_owned(),
            transport: "tcp".to_owned(),
            lag: self.lag.map_or("none".to_owned(), |lag| lag.to_string()),
        }
    }
}

/// Ends with its nodes; its files go with it.
pub struct Variant {
    appends: Option<Appends>,
    _cluster: LocalCluster,
    _memory: Option<TempDir>,
}

impl Variant {
    /// Must be called on a thread that lives as long as the cluster.
    pub fn start(kind: Kind, directory: PathBuf, machines: u32) -> Result<Variant> {
        let memory = match kind.ink {
            Ink::PageCache => Some(
                tempfile::Builder::new()
                    .prefix("logberg-lab-")
                    .tempdir_in(MEMORY)
                    .with_context(|| {
                        format!("the page cache's variant writes to {MEMORY}, and cannot")
                    })?,
            ),
            Ink::Disk | Ink::Ram => None,
        };
        let at = memory
            .as_ref()
            .map_or(directory, |memory| memory.path().join("cluster"));
        let mut options = LocalOptions::new(at, machines);
        if kind.ink == Ink::Ram {
            options
                .arguments
                .extend(["--ink".to_owned(), "ram".to_owned()]);
        }
        options
            .arguments
            .extend(kind.lag.map(|lag| format!("--lag={lag}")));
        let cluster = LocalCluster::start(options)?;
        cluster.wait_ready(READY)?;
        let client = Client::new(cluster.addresses(), Timeouts::default());
        client.retain(LOG, KEPT)?;
        Ok(Variant {
            appends: Some(Appends::to(&client, LOG)?),
            _cluster: cluster,
            _memory: memory,
        })
    }

    /// `None`: somebody has it already.
    pub fn take(&mut self) -> Option<Appends> {
        self.appends.take()
    }
}
