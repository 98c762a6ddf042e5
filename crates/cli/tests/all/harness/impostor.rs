//! An impostor that has the directory of a node that is gone, its key and all, and speaks as its next start.

use std::path::Path;

use formats::past::Start;
use formats::proof::{Challenge, DiskKey, Signature};
use formats::{hex, parse_hex};
use linux::LinuxDisk;
use paxos::NodeId;
use store::Manifest;
use store::past::{key, starts};

pub struct Impostor {
    pub manifest: Manifest,
    key: DiskKey,
    start: Start,
}

impl Impostor {
    pub fn of(data: &Path) -> Impostor {
        let disk = &mut LinuxDisk::new();
        let manifest = Manifest::load(disk, data).expect("it is sound");
        let manifest = manifest.expect("it is there");
        let key = key::load(disk, data).expect("it is sound");
        let start = Start {
            incarnation: manifest.incarnation + 1,
            nonce: 1,
        };
        Impostor {
            manifest,
            key: key.expect("it is there"),
            start,
        }
    }

    /// The words of a first line: `disk=… incarnation=… nonce=… key=… signature=…`.
    pub fn words(&self) -> String {
        let disk = self.manifest.identity.disk;
        let Start { incarnation, nonce } = self.start;
        let signature = self.key.sign_start(disk, self.start);
        format!(
            "disk={} incarnation={incarnation} nonce={nonce} key={} signature={}",
            hex(&disk.0),
            hex(&self.key.public().0),
            hex(&signature.0)
        )
    }

    pub fn starts(&self, data: &Path) -> Vec<Start> {
        let mut starts = starts::load(&mut LinuxDisk::new(), data).expect("it is sound");
        starts.push(self.start);
        starts
    }

    /// The signature that `line`, node `to`'s answer, asks for.
    pub fn answer(&self, line: &str, to: u32) -> Option<Signature> {
        let mut words = line.split(' ');
        let challenge = words.find_map(|word| parse_hex(word.strip_prefix("challenge=")?))?;
        let challenge = Challenge(challenge);
        Some(self.key.answer(challenge, NodeId(to), self.start))
    }
}
