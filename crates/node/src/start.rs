//! The beginning of a node: from nothing, or from what its directory holds.
//!
//! Everything here runs before the node takes part in anything, so it may read the disk directly.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use formats::past::End;
use formats::proof::DiskKey;
use formats::segment::{directory_name, log_of};
use formats::{ClusterId, Identity, LogId, past};
use ops::Disk;
use paxos::mutation::{self, Mutation};
use paxos::{Checkpoint, NodeId, Time};
use replica::{Env, Log};
use store::past::ends::Lost;
use store::past::found::{self, FOUND_FILE};
use store::past::key::{self, KEY_ASIDE, KEY_FILE};
use store::past::own::{Own, Trouble};
use store::past::starts::{self, STARTS_FILE};
use store::{
    Calendar, LOCK_FILE, Manifest, ManifestError, ManifestLog, PEERS_FILE, RecordContext,
    RecoveryReport, ReplayError, Store, StoreConfig,
};
use thiserror::Error;

use crate::config::{ALTERED_FILE, NodeConfig, Start};
use crate::logs::Logs;
use crate::past::Remembering;
use crate::peers::file;

/// A manifest that was being written for the first time when the process ended (`Op::WriteFile`).
const MANIFEST_ASIDE: &str = ".manifest.new";

/// The reason why a node does not start. Each text says what to do about it.
#[derive(Debug, Error)]
pub enum StartError {
    #[error("{0} holds no node yet: start it with --bootstrap (a new cluster) or --join HOST:PORT")]
    NothingHere(PathBuf),
    #[error(
        "{0} holds a node that has not joined its cluster yet: start it with --join HOST:PORT, or choose an empty directory with --data"
    )]
    NotJoined(PathBuf),
    #[error(
        "{0} is not empty and holds no manifest: it is not a Logberg directory; choose another with --data"
    )]
    Foreign(PathBuf),
    #[error(
        "cannot use {path}: {error}; check that it can be written by this user, or choose another with --data"
    )]
    Io { path: PathBuf, error: io::Error },
    #[error(
        "the disk of {0} is full, and a start has to write some KiB: free space there and start again; the directory itself is as sound as `logberg verify` says"
    )]
    Full(PathBuf),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Past(#[from] Trouble),
    #[error("log {log} in {directory}: {lost}")]
    Less {
        log: LogId,
        directory: PathBuf,
        lost: Lost,
    },
    #[error("log {log} in {directory}: {error}")]
    Recover {
        log: LogId,
        directory: PathBuf,
        error: ReplayError,
    },
}

impl StartError {
    /// Tells a full disk from other errors: it is no fault of the directory's, and has a remedy of its own.
    fn or_full(self, directory: &Path) -> StartError {
        let error = match &self {
            StartError::Io { error, .. } => error,
            StartError::Manifest(ManifestError::Io { source, .. }) => source,
            _ => return self,
        };
        match error.kind() {
            io::ErrorKind::StorageFull => StartError::Full(directory.to_owned()),
            _ => self,
        }
    }
}

/// A directory's contents, recovered: a node begins with them.
pub(crate) struct Opened {
    pub env: Env,
    pub manifest: Manifest,
    pub logs: Logs,
    pub write_path: String,
    pub past: Remembering,
    /// Deleted logs whose files are still there.
    pub remains: Vec<LogId>,
}

impl Opened {
    pub fn from(config: &NodeConfig, disk: &mut dyn Disk, now: Time) -> Result<Opened, StartError> {
        let opened = Opened::open(config, disk, now);
        opened.map_err(|error| error.or_full(&config.directory))
    }

    fn open(config: &NodeConfig, disk: &mut dyn Disk, now: Time) -> Result<Opened, StartError> {
        let directory = config.directory.clone();
        let io = |error| StartError::Io {
            path: directory.clone(),
            error,
        };
        disk.create_directory(&directory).map_err(io)?;
        Manifest::lock(disk, &directory)?;
        let mut manifest = match Manifest::load_as(config.speaks, disk, &directory)? {
            Some(manifest) => manifest,
            None => new_manifest(config, disk)?,
        };
        if manifest.identity.node == NodeId(0) && !matches!(config.start, Start::Join { .. }) {
            return Err(StartError::NotJoined(directory.clone()));
        }
        let own = Own::load(disk, &directory, &manifest)?;
        let key = match own.key.clone() {
            Some(key) => key,
            // The directory is older than the keys of disks: others need no proof of it, but it knows its own word.
            None => new_key(disk, &directory).map_err(io)?,
        };
        manifest.incarnation += u32::from(!mutation::is(Mutation::IncarnationNotBumped));
        let remains = quarantine_unlisted(disk, &directory, &manifest).map_err(io)?;
        let random = disk.random().map_err(io)?;
        let nonce = u64::from_le_bytes([
            random[0], random[1], random[2], random[3], random[4], random[5], random[6], random[7],
        ]);
        let write_path = disk.write_path(&directory);
        let mut env = Env::new(
            config.limits.clone(),
            manifest.identity,
            manifest.incarnation,
            nonce,
            config.advertise.clone(),
        );
        env.now = now;
        env.own.key = Some(key);
        env.own.standing = config.standing.clone();
        env.own.speaks = config.speaks;
        env.memory.landing = disk.landing();
        env.version.disk = manifest.version;
        env.version.logs = config.speaks.oldest();
        env.moments.calendar = Calendar::new(disk.wall_clock(), now);
        env.peers.addresses = load_peers(disk, &directory, manifest.identity.node);
        // A disk that was never started before has nothing to forget.
        let comes_back = !own.starts.is_empty() && !manifest.logs.is_empty();
        env.own.settling = comes_back && !mutation::is(Mutation::ActsBeforeItAsks);
        let logs = recover_logs(config, &env, disk, &manifest, |log, last| {
            own.lost(log, last)
        })?;
        // The manifest is not saved before: a start that is refused once is refused again.
        manifest.save(disk, &directory)?;
        let start = past::Start {
            incarnation: manifest.incarnation,
            nonce,
        };
        let starts = starts::after(own.starts, start);
        let path = directory.join(STARTS_FILE);
        let written = disk.write_file(&path, &starts::encode(&starts));
        written.map_err(|error| StartError::Io { path, error })?;
        let ends = logs.iter();
        let ends = ends.map(|(id, log): (&LogId, &Log)| (*id, log.store().durable_end()));
        let ends: Vec<(LogId, End)> = ends.collect();
        let mut found = own.found;
        found.add(manifest.incarnation, &ends, |log| {
            manifest.deleted.contains(&log)
        });
        let path = directory.join(FOUND_FILE);
        let written = disk.write_file(&path, &found::encode(&found));
        written.map_err(|error| StartError::Io { path, error })?;
        let past = Remembering::load(disk, &directory, starts, found);
        env.own.evidence = past.evidence();
        tracing::info!(
            node = manifest.identity.node.0,
            incarnation = manifest.incarnation,
            logs = ends.len(),
            write_path,
            "started"
        );
        Ok(Opened {
            env,
            manifest,
            logs,
            write_path,
            past,
            remains,
        })
    }
}

fn new_manifest(config: &NodeConfig, disk: &mut dyn Disk) -> Result<Manifest, StartError> {
    let directory = &config.directory;
    let io = |error| StartError::Io {
        path: directory.clone(),
        error,
    };
    if config.start == Start::Again {
        return Err(StartError::NothingHere(directory.clone()));
    }
    let others = disk.list(directory).map_err(io)?;
    let ours = [
        LOCK_FILE,
        MANIFEST_ASIDE,
        KEY_FILE,
        KEY_ASIDE,
        ALTERED_FILE,
        "lost+found",
    ];
    if others.iter().any(|e| !ours.contains(&e.name.as_str())) {
        return Err(StartError::Foreign(directory.clone()));
    }
    // The key comes first, as it names the disk: if a node ends here only the key is left, and the next one
    // draws another.
    let disk_id = new_key(disk, directory).map_err(io)?.disk();
    let (cluster, node) = match config.start {
        Start::Bootstrap { .. } => (
            ClusterId(random_uuid(disk.random().map_err(io)?)),
            NodeId(1),
        ),
        _ => (ClusterId::default(), NodeId(0)),
    };
    // A new cluster has nothing that an older program would have to read.
    let version = match config.start {
        Start::Bootstrap { .. } => config.speaks.newest(),
        _ => config.speaks.oldest(),
    };
    Ok(Manifest {
        version,
        identity: Identity {
            cluster,
            node,
            disk: disk_id,
        },
        incarnation: 0,
        logs: Vec::new(),
        deleted: BTreeSet::new(),
    })
}

/// The key that names the disk of a new directory.
pub(crate) fn new_key(disk: &mut dyn Disk, directory: &Path) -> io::Result<DiskKey> {
    let mut seed = [0; 32];
    for half in seed.chunks_exact_mut(16) {
        half.copy_from_slice(&disk.random()?);
    }
    let key = DiskKey::new(seed);
    disk.write_file(&directory.join(KEY_FILE), &key::encode(&key))?;
    Ok(key)
}

/// A random UUID of version 4, variant 1, as others expect to see it.
pub(crate) fn random_uuid(mut bytes: [u8; 16]) -> [u8; 16] {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

pub(crate) fn store_config(config: &NodeConfig, env: &Env, id: LogId) -> StoreConfig {
    StoreConfig {
        directory: config.directory.join(directory_name(id)),
        identity: env.own.identity,
        log: id,
        segment_bytes_first: env.limits.segment_bytes_first,
        segment_bytes_max: env.limits.segment_bytes_max,
        salt_seed: env.own.nonce ^ (u64::from(id.0) << 32 | u64::from(env.own.incarnation)),
        write_bytes_max: env.limits.write_bytes_max,
        writes_in_flight_max: env.limits.writes_in_flight_max,
        calendar: env.moments.calendar,
        version: env.version.disk,
        speaks: env.own.speaks,
        landing: env.memory.landing.clone(),
        blocks: env.memory.blocks.clone(),
    }
}

fn load_peers(disk: &mut dyn Disk, directory: &Path, own: NodeId) -> BTreeMap<NodeId, String> {
    let path = directory.join(PEERS_FILE);
    let mut bytes = vec![0; file::BYTES_MAX + 1];
    let Ok(count) = disk.read_at(&path, 0, &mut bytes) else {
        return BTreeMap::new();
    };
    let (mut known, trouble) = file::read(&bytes[..count]);
    if let Some(trouble) = trouble {
        tracing::warn!(
            path = %path.display(),
            kept = known.len(),
            "{trouble}: the addresses in front of that are used, and the directory has all of them"
        );
    }
    known.remove(&own);
    known
}

type Found = Result<(Store, RecoveryReport, Checkpoint), ReplayError>;

/// Recovers all logs that are listed. Their files are read and settled several logs at once: a start of thousands waits
/// for each one's disk otherwise.
fn recover_logs(
    config: &NodeConfig,
    env: &Env,
    disk: &mut dyn Disk,
    manifest: &Manifest,
    lost: impl Fn(LogId, u64) -> Option<Lost>,
) -> Result<Logs, StartError> {
    let configs: Vec<StoreConfig> = manifest
        .logs
        .iter()
        .map(|listed| store_config(config, env, listed.id))
        .collect();
    let found: Vec<Mutex<Option<Found>>> = configs.iter().map(|_| Mutex::default()).collect();
    disk.at_once(configs.len(), &|number, disk| {
        let replayed = Store::replay(configs[number].clone(), disk);
        *found[number].lock().unwrap_or_else(PoisonError::into_inner) = Some(replayed);
    });
    let mut logs = Logs::default();
    for ((listed, config), found) in manifest.logs.iter().zip(configs).zip(found) {
        let directory = config.directory.clone();
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        // One after the other where the disk gains nothing from several.
        let found = found.unwrap_or_else(|| Store::replay(config, disk));
        let lost = |last| lost(listed.id, last);
        let log = recovered_log(env, listed, directory, found, lost)?;
        logs.insert(log);
    }
    Ok(logs)
}

fn recovered_log(
    env: &Env,
    listed: &ManifestLog,
    directory: PathBuf,
    found: Found,
    lost: impl Fn(u64) -> Option<Lost>,
) -> Result<Log, StartError> {
    let id = listed.id;
    let (mut store, report, checkpoint) = match found {
        Ok(found) => found,
        Err(error) => {
            return Err(StartError::Recover {
                log: id,
                directory,
                error,
            });
        }
    };
    if let Some(lost) = lost(store.last_number()) {
        return Err(StartError::Less {
            log: id,
            directory,
            lost,
        });
    }
    tell(id, &report);
    // Seals whatever cut the recovery made, before anything is written or said.
    let context = RecordContext {
        promised: checkpoint.promised,
        first_unchosen: checkpoint.state.next,
    };
    store.set_time(env.now);
    store.go_on(&checkpoint, context);
    let mut log = Log::new(
        env,
        id,
        (listed.name.clone(), listed.kind),
        store,
        checkpoint,
    );
    log.count_found(&report);
    Ok(log)
}

fn tell(id: LogId, report: &RecoveryReport) {
    if let Some((path, offset)) = &report.torn {
        tracing::info!(log = id.0, path = %path.display(), offset, "an unacknowledged write was cut off");
    }
    for corruption in &report.corruptions {
        tracing::error!(
            log = id.0,
            ?corruption,
            "acknowledged data is corrupt; it is left in place and fetched from a peer"
        );
    }
    for path in &report.quarantined {
        tracing::warn!(log = id.0, path = %path.display(), "an unfinished segment was put aside");
    }
    for path in &report.unknown {
        tracing::warn!(log = id.0, path = %path.display(), "an unknown file is left alone");
    }
}

/// Puts aside the remains of a log's directory that the manifest does not list. It was being made when the
/// process ended: it never took part in anything, so it may be made again. The directories of deleted logs
/// are returned, to be removed.
fn quarantine_unlisted(
    disk: &mut dyn Disk,
    directory: &Path,
    manifest: &Manifest,
) -> io::Result<Vec<LogId>> {
    let mut deleted = Vec::new();
    for entry in disk.list(directory)? {
        let Some(id) = log_of(&entry.name) else {
            continue;
        };
        if entry.is_directory && manifest.deleted.contains(&id) {
            deleted.push(id);
        } else if entry.is_directory && !manifest.logs.iter().any(|l| l.id == id) {
            let aside = format!("{}.unlisted-{}", entry.name, manifest.incarnation);
            tracing::warn!(log = id.0, aside, "an unfinished log is put aside");
            disk.rename(&directory.join(&entry.name), &directory.join(aside))?;
        }
    }
    Ok(deleted)
}
