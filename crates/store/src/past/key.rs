//! `key`: the means by which this disk proves itself (`formats::proof`). It names the disk, so it is written
//! before the manifest, and it never leaves the directory: anybody who has it can speak for this node.

use std::path::Path;

use formats::proof::DiskKey;
use formats::{DiskId, hex, parse_hex};
use ops::Disk;
use serde::{Deserialize, Serialize};

use super::page;

pub const KEY_FILE: &str = "key";
/// A key that was being written when the process ended.
pub const KEY_ASIDE: &str = ".key.new";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    /// 64 hex digits.
    seed: String,
}

pub fn load(disk: &mut dyn Disk, directory: &Path) -> Result<Option<DiskKey>, String> {
    let contents = page::read(disk, &directory.join(KEY_FILE));
    match contents.map_err(|error| error.to_string())? {
        None => Ok(None),
        Some(contents) => parse(&contents).map(Some),
    }
}

pub fn parse(contents: &[u8]) -> Result<DiskKey, String> {
    let page: Page = page::parse(KEY_FILE, contents)?;
    let seed = parse_hex(&page.seed).ok_or("its seed is not 64 hex digits")?;
    Ok(DiskKey::new(seed))
}

pub fn encode(key: &DiskKey) -> Vec<u8> {
    let seed = hex(&key.seed());
    page::encode(KEY_FILE, &Page { seed })
}

/// Checks that this is the key of that disk. A disk of before disks had keys may have any, and needs none.
pub(super) fn check(key: Option<&DiskKey>, disk: DiskId) -> Result<(), String> {
    match key {
        None if disk.is_keyed() => Err("it is not there".to_owned()),
        Some(key) if disk.is_keyed() && key.disk() != disk => {
            Err("it is another disk's".to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written_and_belongs_to_one_disk() {
        let key = DiskKey::new([9; 32]);
        let read = parse(&encode(&key)).unwrap();
        assert_eq!(read.disk(), key.disk());
        assert_eq!(check(Some(&read), key.disk()), Ok(()));
        assert!(check(None, key.disk()).is_err());
        assert!(check(Some(&DiskKey::new([8; 32])), key.disk()).is_err());
        let drawn = DiskId([7; 16]);
        assert_eq!(check(None, drawn), Ok(()));
        assert_eq!(check(Some(&read), drawn), Ok(()));
        let bytes = encode(&key);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(parse(&damaged).is_err(), "byte {at}");
        }
    }
}
