//! Things that must make the verdict a bad one: a check that never fails checks nothing.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::rack::Rack;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sabotage {
    /// In the end all disks are put back to what they held in the middle: acknowledged bytes are
    /// lost of which no node can know
    Rewind,
    /// Readers that want linearizable reads get what any node knows
    StaleReads,
}

/// All disks at one moment at which no node ran.
pub struct Snapshot {
    /// The copies of node 1, then node 2 …
    copies: Vec<PathBuf>,
}

impl Snapshot {
    pub fn take(rack: &Rack, directory: &Path) -> Result<Snapshot> {
        rack.ids().try_for_each(|id| rack.cluster.kill(id))?;
        let mut copies = Vec::new();
        for id in rack.ids() {
            let copy = directory.join(format!("copy-{id}"));
            copy_directory(&rack.cluster.node_directory(id), &copy)
                .with_context(|| format!("cannot copy the data of node {id}"))?;
            copies.push(copy);
        }
        rack.ids().try_for_each(|id| rack.cluster.restart(id))?;
        rack.wait_recovered(&rack.ids().collect::<Vec<_>>())?;
        Ok(Snapshot { copies })
    }

    pub fn put_back(self, rack: &Rack) -> Result<()> {
        rack.ids().try_for_each(|id| rack.cluster.kill(id))?;
        for (id, copy) in rack.ids().zip(&self.copies) {
            let directory = rack.cluster.node_directory(id);
            fs::remove_dir_all(&directory)?;
            fs::rename(copy, &directory)?;
        }
        rack.ids().try_for_each(|id| rack.cluster.restart(id))?;
        // They have to find a leader before anybody asks.
        std::thread::sleep(Duration::from_millis(500));
        rack.wait_recovered(&rack.ids().collect::<Vec<_>>())
    }
}

fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_socket() {
            continue; // It goes with its process.
        }
        match kind.is_dir() {
            true => copy_directory(&entry.path(), &target)?,
            false => drop(fs::copy(entry.path(), target)?),
        }
    }
    Ok(())
}
