//! A world's cluster: processes in namespaces, cables between them, one disk that can be filled.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use client::admin::Status;
use client::{Client, Timeouts};

use super::plan::{Plan, Strike};
use terminal::moving::Moving;
use testbed::cluster::{Host, LocalCluster, LocalOptions};
use testbed::level;
use testbed::namespaces::Namespaces;
use testbed::small_disk::SmallDisk;

const SMALL_DISK_BYTES: u64 = 1 << 30;
const SMALL_RESERVE_BYTES: u64 = 64 << 20;

pub struct Places {
    // In the order in which they must go.
    pub cluster: LocalCluster,
    disk: Option<(u32, SmallDisk)>,
    network: Namespaces,
    /// The node at each place, by its id.
    pub ids: Vec<u64>,
}

impl Places {
    pub fn start(directory: &Path, plan: &Plan, moving: &Moving) -> Result<Places> {
        let count = plan.nodes.len() as u32;
        let network = Namespaces::make(count)?;
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let mut disk = None;
        let mut hosts = Vec::new();
        for (place, node) in (1..).zip(&plan.nodes) {
            let mut arguments = Vec::new();
            if let Some(zone) = node.zone {
                arguments.extend(["--zone".to_owned(), zone.to_string()]);
            }
            if node.auxiliary {
                arguments.extend(["--kind", "auxiliary"].map(str::to_owned));
            }
            let mut data = directory.join(format!("node-{place}"));
            if node.small_disk {
                let small = SmallDisk::mount(directory, "small-disk", SMALL_DISK_BYTES)?;
                data = small.data();
                arguments.extend(["--disk-reserve".to_owned(), SMALL_RESERVE_BYTES.to_string()]);
                disk = Some((place, small));
            }
            hosts.push(Host {
                address: network.address(place),
                enter: network.enter_words(place),
                data,
                arguments,
            });
        }
        let cluster = LocalCluster::start(LocalOptions {
            arguments: moving.arguments(),
            voters: Some(plan.voters),
            hosts,
            ..LocalOptions::new(directory, count)
        })?;
        Ok(Places {
            cluster,
            disk,
            network,
            ids: (1..=u64::from(count)).collect(),
        })
    }

    pub fn all(&self) -> impl Iterator<Item = u32> + use<> {
        1..=self.ids.len() as u32
    }

    pub fn id(&self, place: u32) -> u64 {
        self.ids[place as usize - 1]
    }

    pub fn place_of(&self, id: u64) -> Option<u32> {
        (1..)
            .zip(&self.ids)
            .find(|(_, known)| **known == id)
            .map(|(place, _)| place)
    }

    /// A client of all nodes.
    pub fn client(&self, total: Duration) -> Client {
        let timeouts = Timeouts {
            total,
            ..Timeouts::default()
        };
        Client::new(self.cluster.addresses(), timeouts)
    }

    pub fn status(&self, place: u32) -> Option<Status> {
        level::status(self.cluster.address(place))
    }

    pub fn begin(&self, strike: Strike) -> Result<()> {
        match strike {
            Strike::Kill(place) => self.cluster.kill(place),
            Strike::Stop(place) => self.cluster.pause(place),
            Strike::Pull(place) => self.network.pull(place),
            Strike::OneWay(from, to) => self.network.cut(from, to),
            Strike::Pair(one, other) => {
                self.network.cut(one, other)?;
                self.network.cut(other, one)
            }
            Strike::Full(place) => self.disk_of(place)?.fill(SMALL_RESERVE_BYTES / 2),
            Strike::Brim(place) => self.disk_of(place)?.fill(0),
            Strike::KillAll => self.cluster.kill_all(),
            Strike::StopAll => self.all().try_for_each(|place| self.cluster.pause(place)),
        }
    }

    pub fn heal(&self, strike: Strike) -> Result<()> {
        match strike {
            Strike::Kill(place) => self.cluster.restart(place),
            Strike::Stop(place) => self.cluster.go_on(place),
            Strike::Pull(place) => self.network.plug_in(place),
            Strike::OneWay(from, to) => self.network.join(from, to),
            Strike::Pair(one, other) => {
                self.network.join(one, other)?;
                self.network.join(other, one)
            }
            Strike::Full(place) => self.disk_of(place)?.empty(),
            Strike::Brim(place) => {
                self.disk_of(place)?.empty()?;
                self.cluster.kill(place)?;
                self.cluster.restart(place)
            }
            Strike::KillAll => self.all().try_for_each(|place| self.cluster.restart(place)),
            Strike::StopAll => self.all().try_for_each(|place| self.cluster.go_on(place)),
        }
    }

    fn disk_of(&self, place: u32) -> Result<&SmallDisk> {
        match &self.disk {
            Some((small, disk)) if *small == place => Ok(disk),
            _ => bail!("node {place} has no disk of its own"),
        }
    }

    /// Kills the node, removes all that it wrote, and starts another in its place, which joins.
    pub fn lose_disk(&self, place: u32) -> Result<()> {
        self.cluster.kill(place)?;
        let data = self.cluster.node_directory(place);
        fs::remove_dir_all(&data).with_context(|| format!("cannot remove {}", data.display()))?;
        self.cluster.restart(place)
    }
}
