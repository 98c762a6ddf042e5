//! This node's own disk: its small files and the order in which they become durable, the room that is left,
//! and the log that is scrubbed.

pub mod scrubbing;
pub mod space;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use ops::Op;
use paxos::NodeId;
use replica::Env;
use store::{Manifest, PEERS_FILE};

use crate::peers::file;
use crate::tokens;
use scrubbing::Scrubbing;
use space::Space;

pub struct OwnDisk {
    pub directory: PathBuf,
    /// The way in which the disk is written, for people.
    pub write_path: String,
    pub manifest: Manifest,
    manifest_file: SmallFile,
    peers_file: SmallFile,
    pub space: Space,
    pub scrubbing: Scrubbing,
}

/// A file that is replaced as a whole. Replacements on their way at once may land in any order, so
/// there is one at a time, and at last one with what is true by then.
#[derive(Default)]
struct SmallFile {
    writing: bool,
    stale: bool,
}

impl SmallFile {
    /// Begins a write. Returns whether the file is to be written now; if not, once the write under way has ended.
    fn begin(&mut self) -> bool {
        self.stale = self.writing;
        !std::mem::replace(&mut self.writing, true)
    }

    fn waits(&self) -> bool {
        self.stale && !self.writing
    }
}

impl OwnDisk {
    pub fn new(directory: PathBuf, write_path: String, manifest: Manifest) -> OwnDisk {
        OwnDisk {
            directory,
            write_path,
            manifest,
            manifest_file: SmallFile::default(),
            peers_file: SmallFile::default(),
            space: Space::default(),
            scrubbing: Scrubbing::default(),
        }
    }

    pub fn save_manifest(&mut self, env: &mut Env) {
        if self.manifest_file.begin() {
            let op = self.manifest.write(&self.directory, tokens::MANIFEST);
            env.out.ops.push_back(op);
        }
    }

    /// Ends the write of the manifest. True if the manifest on disk is the present one.
    pub fn on_manifest_written(&mut self, env: &mut Env, result: io::Result<()>) -> bool {
        self.manifest_file.writing = false;
        if let Err(error) = result {
            // The old manifest or the new one is there, whole. The next tick writes it again.
            tracing::error!(%error, "the manifest could not be written; free space");
            self.manifest_file.stale = true;
            return false;
        }
        if self.manifest_file.stale {
            self.save_manifest(env); // It lists more than what was written.
            return false;
        }
        true
    }

    /// Saves the peers' addresses. Those that are needed to find a leader come first, in case there is no
    /// room for all.
    pub fn save_peers(&mut self, env: &mut Env, is_needed: impl Fn(NodeId) -> bool) {
        if !self.peers_file.begin() {
            return;
        }
        let addresses: &BTreeMap<NodeId, String> = &env.peers.addresses;
        let (needed, others): (Vec<_>, Vec<_>) =
            addresses.iter().partition(|(id, _)| is_needed(**id));
        let all = needed.into_iter().chain(others);
        let contents = file::write(all.map(|(id, address)| (*id, address)));
        env.out.ops.push_back(Op::WriteFile {
            token: tokens::PEERS,
            path: self.directory.join(PEERS_FILE),
            contents,
        });
    }

    /// Ends the write of the peers' addresses. True if there are newer ones, which are to be written at once.
    pub fn on_peers_written(&mut self, result: io::Result<()>) -> bool {
        self.peers_file.writing = false;
        if let Err(error) = result {
            tracing::warn!(%error, "the peers' addresses could not be saved");
            self.peers_file.stale = true;
            return false;
        }
        self.peers_file.stale
    }

    pub fn is_writing_peers(&self) -> bool {
        self.peers_file.writing
    }

    /// Whether the manifest waits: it could not be written before, or not the newest, and perhaps can now.
    pub fn manifest_waits(&self) -> bool {
        self.manifest_file.waits()
    }

    pub fn peers_wait(&self) -> bool {
        self.peers_file.waits()
    }
}
