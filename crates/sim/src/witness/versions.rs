//! Versions: nothing is written or sent that somebody's program could not read.
//!
//! The contents of a disk are no newer than its manifest, which older programs refuse; and the contents of a
//! log are no newer than any manifest of the cluster.

use std::collections::BTreeMap;

use formats::Speaks;
use formats::record::RecordKind;
use formats::segment::SegmentHeader;
use node::Node;
use paxos::NodeId;
use store::Manifest;

use super::Witness;
use crate::disk::SimDisk;
use crate::host::HostId;
use crate::world::World;

#[derive(Default)]
pub(super) struct Written {
    /// In this step: the newest on its way to a disk, and into a log.
    disk: u8,
    log: u8,
    /// The contents that were found to be all right. Manifests only grow.
    disks_checked: BTreeMap<HostId, u8>,
    logs_checked: u8,
}

const MANIFEST: &str = "/data/manifest";

impl Written {
    pub fn on_record(&mut self, kind: RecordKind, is_action: bool, payload: &[u8]) {
        let is_encoded = match kind {
            RecordKind::Checkpoint | RecordKind::Promise | RecordKind::State => true,
            RecordKind::Index => true,
            RecordKind::Accept => is_action,
            RecordKind::Bytes | RecordKind::Lost | RecordKind::Idle => false,
        };
        if let Some(version) = payload.first().filter(|_| is_encoded) {
            self.disk = self.disk.max(*version);
        }
    }

    /// The first block of a segment, perhaps.
    pub fn on_block(&mut self, block: &[u8]) {
        if let Ok(header) = SegmentHeader::decode(Speaks::ALL, block) {
            self.disk = self.disk.max(header.version);
        }
    }

    /// An action as it is sent to followers.
    pub fn on_action(&mut self, payload: &[u8]) {
        self.log = self.log.max(payload.first().copied().unwrap_or_default());
    }
}

impl Witness {
    /// A step that the end of its process cut short: what it wrote is nobody else's.
    pub(super) fn check_version_at_end(&mut self, host: HostId, disk: &SimDisk) {
        let written = std::mem::take(&mut self.written.disk);
        self.written.log = 0;
        if written > formats::version::FIRST {
            let stands = manifest(disk).map_or(written, |(_, version)| version);
            assert!(
                stands >= written,
                "versions: {host:?} ends, version {written} was on its way to its disk, and the manifest says {stands}"
            );
        }
    }

    pub(super) fn check_versions(&mut self, host: HostId, node: &Node, world: &World) {
        let disk = std::mem::take(&mut self.written.disk);
        let log = std::mem::take(&mut self.written.log);
        let own = node.id();
        let checked = self.written.disks_checked.get(&host);
        if disk > checked.copied().unwrap_or(formats::version::FIRST) {
            let (_, stands) = manifest(world.disk(host)).unwrap_or_default();
            assert!(
                stands >= disk,
                "versions: node {own} writes version {disk} to its disk, whose manifest says {stands}"
            );
            self.written.disks_checked.insert(host, disk);
        }
        if log > self.written.logs_checked.max(formats::version::FIRST) {
            for other in self.hosts.keys() {
                let Some((id, stands)) = manifest(world.disk(*other)) else {
                    continue;
                };
                assert!(
                    stands >= log || !node.nodes().any(|known| known == id),
                    "versions: node {own} proposes in version {log}, and the disk of node {id} is still in {stands}"
                );
            }
            self.written.logs_checked = log;
        }
        let logs = node.log_views();
        let unspoken: u64 = logs.map(|view| view.counts.frames_unspoken).sum();
        assert!(
            unspoken + node.counts().frames_unspoken == 0,
            "versions: node {own}, which speaks {}, was sent something newer",
            node.versions().speaks
        );
        if let Some(why) = node.halted() {
            panic!("versions: node {own} follows the directory no more: {why}");
        }
    }
}

/// The node that owns a disk, and the disk's version.
fn manifest(disk: &SimDisk) -> Option<(NodeId, u8)> {
    let contents = disk.contents(MANIFEST)?;
    let manifest = Manifest::parse(Speaks::ALL, &contents, MANIFEST.as_ref());
    let manifest = manifest.ok()?;
    Some((manifest.identity.node, manifest.version))
}
