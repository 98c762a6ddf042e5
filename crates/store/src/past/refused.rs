//! `refused`: a peer said that this directory is an old copy. While the file is there the node does not
//! start: others may count on what it has forgotten, and not every peer may know it.

use std::io;
use std::path::Path;

use ops::Disk;

use super::page;

pub const REFUSED_FILE: &str = "refused";

/// Loads the peer's words, if the directory was refused.
pub fn load(disk: &mut dyn Disk, directory: &Path) -> io::Result<Option<String>> {
    let contents = page::read(disk, &directory.join(REFUSED_FILE))?;
    let unreadable = |_| "what it said cannot be read any more".to_owned();
    Ok(contents.map(|contents| parse(&contents).unwrap_or_else(unreadable)))
}

pub fn parse(contents: &[u8]) -> Result<String, String> {
    page::parse(REFUSED_FILE, contents)
}

pub fn encode(said: &str) -> Vec<u8> {
    page::encode(REFUSED_FILE, &said)
}
