//! The node's own page: the owner of the directory, every log it hosts, and those that were deleted.
//!
//! ```text
//! logberg-manifest 1 crc32c=xxxxxxxx LF      the version; of it and the rest of the file
//! { … } LF                                   JSON, for people to read
//! ```
//!
//! It is small and replaced as a whole. A listed log without its directory is a lost disk.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use formats::segment::{directory_name, log_of};
use formats::version::{Speaks, Unspoken};
use formats::{ClusterId, DiskId, Identity, LogId, LogKind};
use ops::{Disk, Op, Token};
use paxos::NodeId;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub const MANIFEST_FILE: &str = "manifest";
pub const LOCK_FILE: &str = "lock";
/// The file of the other nodes' addresses, beside the manifest.
pub const PEERS_FILE: &str = "peers.json";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The version in which this node's disk is written. It only grows: programs that do not speak it refuse
    /// the directory from then on.
    pub version: u8,
    pub identity: Identity,
    /// The number of this start of the node: increased durably before anything is sent.
    pub incarnation: u32,
    pub logs: Vec<ManifestLog>,
    /// The deleted logs, which are never made again.
    pub deleted: BTreeSet<LogId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestLog {
    pub id: LogId,
    pub name: String,
    pub kind: LogKind,
}

#[derive(Debug, Error)]
pub enum ManifestError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{0} is in use by another process: stop that one, or choose another directory")]
    Locked(PathBuf),
    #[error("{path} is written in {unspoken}")]
    Version { path: PathBuf, unspoken: Unspoken },
    #[error(
        "{path} is damaged ({reason}): restore it, or let this node join again as a new one with an empty directory"
    )]
    Damaged { path: PathBuf, reason: String },
    #[error(
        "{0} holds logs and no manifest: restore the manifest, or let this node join again as a new one with an empty directory"
    )]
    Missing(PathBuf),
    #[error(
        "{directory} is listed in the manifest and not there: the disk is lost; let the node join again as a new one with an empty directory"
    )]
    LostLog { directory: PathBuf },
}

/// The most ids that a manifest may call deleted.
const DELETED_MAX: u64 = 1 << 24;

/// The manifest as it stands in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    cluster: String,
    node: u32,
    disk: String,
    incarnation: u32,
    logs: Vec<PageLog>,
    /// The first and the last of each range of deleted ids.
    deleted: Vec<(u32, u32)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PageLog {
    id: u32,
    name: String,
    #[serde(default, skip_serializing_if = "LogKind::is_bytes")]
    kind: LogKind,
}

impl Manifest {
    /// Takes the directory for this process, so that no second one serves it.
    pub fn lock(disk: &mut dyn Disk, directory: &Path) -> Result<(), ManifestError> {
        let path = directory.join(LOCK_FILE);
        disk.lock(&path).map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => ManifestError::Locked(directory.to_owned()),
            _ => ManifestError::Io { path, source },
        })
    }

    /// Loads the manifest. `None` if the directory is new. A new node's manifest is saved, listing no log,
    /// before its first log is created: a directory with logs and no manifest has lost it.
    ///
    /// Every listed log's directory is there, or this is an error.
    pub fn load(disk: &mut dyn Disk, directory: &Path) -> Result<Option<Manifest>, ManifestError> {
        Manifest::load_as(Speaks::THIS, disk, directory)
    }

    /// Loads the manifest as a program that speaks these versions.
    pub fn load_as(
        speaks: Speaks,
        disk: &mut dyn Disk,
        directory: &Path,
    ) -> Result<Option<Manifest>, ManifestError> {
        let Some(manifest) = Manifest::read(speaks, disk, directory)? else {
            return Ok(None);
        };
        match manifest.lost_logs(disk, directory)?.into_iter().next() {
            Some(directory) => Err(ManifestError::LostLog { directory }),
            None => Ok(Some(manifest)),
        }
    }

    /// The directories of listed logs that are not there.
    pub(super) fn lost_logs(
        &self,
        disk: &mut dyn Disk,
        directory: &Path,
    ) -> Result<Vec<PathBuf>, ManifestError> {
        let entries = disk.list(directory).map_err(|source| ManifestError::Io {
            path: directory.to_owned(),
            source,
        })?;
        let exists = |name: &str| {
            let mut directories = entries.iter().filter(|entry| entry.is_directory);
            directories.any(|entry| entry.name == name)
        };
        let names = self.logs.iter().map(|log| directory_name(log.id));
        let lost = names.filter(|name| !exists(name));
        Ok(lost.map(|name| directory.join(name)).collect())
    }

    pub(super) fn read(
        speaks: Speaks,
        disk: &mut dyn Disk,
        directory: &Path,
    ) -> Result<Option<Manifest>, ManifestError> {
        let path = directory.join(MANIFEST_FILE);
        let failed = |source| ManifestError::Io {
            path: path.clone(),
            source,
        };
        let entries = match disk.list(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let Some(entry) = entries.iter().find(|entry| entry.name == MANIFEST_FILE) else {
            return match entries.iter().any(|entry| log_of(&entry.name).is_some()) {
                true => Err(ManifestError::Missing(directory.to_owned())),
                false => Ok(None),
            };
        };
        let mut contents = vec![0; entry.length as usize];
        let mut filled = 0;
        while filled < contents.len() {
            match disk.read_at(&path, filled as u64, &mut contents[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) => return Err(failed(error)),
            }
        }
        contents.truncate(filled);
        Ok(Some(Manifest::parse(speaks, &contents, &path)?))
    }

    /// Saves the manifest at the start, when nothing else runs.
    pub fn save(&self, disk: &mut dyn Disk, directory: &Path) -> Result<(), ManifestError> {
        let path = directory.join(MANIFEST_FILE);
        disk.write_file(&path, &self.encode())
            .map_err(|source| ManifestError::Io { path, source })
    }

    /// Writes the manifest at run time. A log is listed only after its directory and first records are durable.
    pub fn write(&self, directory: &Path, token: Token) -> Op {
        Op::WriteFile {
            token,
            path: directory.join(MANIFEST_FILE),
            contents: self.encode(),
        }
    }

    /// The first and the last of each range of logs that were deleted.
    pub fn deleted_ranges(&self) -> Vec<(u32, u32)> {
        ranges(&self.deleted)
    }

    pub fn encode(&self) -> Vec<u8> {
        let page = Page {
            cluster: hex(&self.identity.cluster.0),
            node: self.identity.node.0,
            disk: hex(&self.identity.disk.0),
            incarnation: self.incarnation,
            logs: self
                .logs
                .iter()
                .map(|log| PageLog {
                    id: log.id.0,
                    name: log.name.clone(),
                    kind: log.kind,
                })
                .collect(),
            deleted: ranges(&self.deleted),
        };
        let mut body = serde_json::to_vec_pretty(&page).expect("numbers and text are always JSON");
        body.push(b'\n');
        let version = self.version;
        let checksum = checksum(u32::from(version), &body);
        let mut contents =
            format!("logberg-manifest {version} crc32c={checksum:08x}\n").into_bytes();
        contents.append(&mut body);
        contents
    }

    /// The inverse of [`Manifest::encode`]. `path` is for the sentence of an error.
    pub fn parse(speaks: Speaks, contents: &[u8], path: &Path) -> Result<Manifest, ManifestError> {
        let damaged = |reason: &str| ManifestError::Damaged {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        let end = contents.iter().position(|byte| *byte == b'\n');
        let (first, body) = contents.split_at(end.ok_or_else(|| damaged("no first line"))? + 1);
        let first = std::str::from_utf8(first).map_err(|_| damaged("its first line"))?;
        let mut words = first.split_ascii_whitespace();
        if words.next() != Some("logberg-manifest") {
            return Err(damaged("it is no manifest"));
        }
        let version: Option<u32> = words.next().and_then(|word| word.parse().ok());
        let version = version.ok_or_else(|| damaged("its version"))?;
        let stated = words.next().and_then(|word| word.strip_prefix("crc32c="));
        let stated = stated.and_then(|hex| u32::from_str_radix(hex, 16).ok());
        if stated != Some(checksum(version, body)) {
            return Err(damaged("its checksum is wrong"));
        }
        let version = speaks.check(version);
        let version = version.map_err(|unspoken| ManifestError::Version {
            path: path.to_owned(),
            unspoken,
        })?;
        let page: Page =
            serde_json::from_slice(body).map_err(|error| damaged(&error.to_string()))?;
        let cluster = unhex(&page.cluster).ok_or_else(|| damaged("its cluster"))?;
        let disk = unhex(&page.disk).ok_or_else(|| damaged("its disk"))?;
        Ok(Manifest {
            version,
            identity: Identity {
                cluster: ClusterId(cluster),
                node: NodeId(page.node),
                disk: DiskId(disk),
            },
            incarnation: page.incarnation,
            logs: page
                .logs
                .into_iter()
                .map(|log| ManifestLog {
                    id: LogId(log.id),
                    name: log.name,
                    kind: log.kind,
                })
                .collect(),
            deleted: unrange(&page.deleted).ok_or_else(|| damaged("its deleted logs"))?,
        })
    }
}

/// The checksum, so that a flipped bit is never taken for a newer program's file.
fn checksum(version: u32, body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&version.to_le_bytes()), body)
}

fn ranges(ids: &BTreeSet<LogId>) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for id in ids {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == id.0 => *last = id.0,
            _ => ranges.push((id.0, id.0)),
        }
    }
    ranges
}

/// The inverse of [`ranges`]. `None` if they are not what it makes, or more than memory should be asked for.
fn unrange(ranges: &[(u32, u32)]) -> Option<BTreeSet<LogId>> {
    let in_order = ranges.windows(2).all(|pair| pair[0].1 < pair[1].0);
    let sound = ranges.iter().all(|(first, last)| first <= last);
    let count: u64 = match in_order && sound {
        true => ranges
            .iter()
            .map(|(first, last)| u64::from(last - first) + 1)
            .sum(),
        false => return None,
    };
    let ids = ranges.iter().flat_map(|(first, last)| *first..=*last);
    (count <= DELETED_MAX).then(|| ids.map(LogId).collect())
}

pub(super) fn hex(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}
