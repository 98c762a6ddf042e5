//! The meaning of settings: a node's configuration, and its kernel's.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use formats::Speaks;
use linux::KernelConfig;
use node::config::{NodeConfig, Place, Start};
use replica::Limits;
use terminal::exit::Failure;
use wire::Standing;
use wire::quantity;

use crate::settings::{DEFAULT_VOTERS, Settings};
use crate::sockets::ADMIN_SOCKET;

/// A log of the product has so many voters at most.
pub const VOTERS_MAX: u32 = 31;
/// So many have been tried, where the lab slows down their timers.
pub const VOTERS_OF_SLOW_NODES_MAX: u32 = 101;

impl Settings {
    pub fn node_config(&self, voters_max: u32) -> Result<NodeConfig> {
        let all = self.effective();
        let Some(directory) = all.data else {
            return Err(Failure::usage(
                "no directory given: say where this node keeps its data with --data DIR",
            )
            .into());
        };
        if self.bootstrap && !self.join.is_empty() {
            return Err(Failure::usage("choose one of --bootstrap and --join").into());
        }
        let voters = all.voters.unwrap_or(DEFAULT_VOTERS);
        if voters == 0 || voters > voters_max {
            return Err(Failure::usage(format!("--voters is from 1 to {voters_max}")).into());
        }
        let mut limits = Limits::default();
        limits.catch_up_bytes_per_second = all
            .catch_up_rate
            .unwrap_or(limits.catch_up_bytes_per_second)
            .max(1);
        limits.scrub_bytes_per_second = all.scrub_rate.unwrap_or(limits.scrub_bytes_per_second);
        limits.disk_reserve_bytes = all.disk_reserve.unwrap_or(limits.disk_reserve_bytes);
        if limits.disk_reserve_bytes < 2 * limits.unchosen_bytes_max {
            tracing::warn!(
                bytes = limits.disk_reserve_bytes,
                "the disk reserve is smaller than what may have to be written after a change of leader; 32MiB or more is safe"
            );
        }
        // Records in memory take nothing of that disk.
        if all.ink.as_deref() != Some("ram") {
            check_reserve(&directory, limits.disk_reserve_bytes)?;
        }
        let zone = all.zone.filter(|zone| zone != "-").unwrap_or_default();
        let standing = Standing::new(&zone, all.kind.unwrap_or_default());
        let settle = all.version_settle.map(Duration::from_secs);
        limits.version_settle = settle.unwrap_or(limits.version_settle);
        let listen = self.addresses()?.first;
        let advertise = all.advertise.unwrap_or_else(|| listen.clone());
        self.check_join(&directory, &[&listen, &advertise])?;
        Ok(NodeConfig {
            directory,
            advertise,
            listen,
            start: match (self.bootstrap, self.join.is_empty()) {
                (true, _) => Start::Bootstrap { voters },
                (false, false) => Start::Join {
                    servers: self.join.clone(),
                },
                (false, true) => Start::Again,
            },
            places: self.places()?,
            token: None,
            replaces: self.replaces,
            standing: standing.map_err(Failure::usage)?,
            limits,
            nodes_show_certificates: false,
            wires: Default::default(),
            version: env!("CARGO_PKG_VERSION"),
            speaks: Speaks::THIS,
            altered: None,
            hosts: Default::default(),
        })
    }

    /// Refuses what no node can ever join. A directory that holds a node joins nobody any more.
    fn check_join(&self, directory: &Path, own: &[&str]) -> Result<()> {
        let is_address = |text: &&String| {
            let parts = text.rsplit_once(':');
            parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        if let Some(wrong) = self.join.iter().find(|text| !is_address(text)) {
            let sentence =
                format!("--join {wrong:?} is no address: say HOST:PORT of a node of the cluster");
            return Err(Failure::usage(sentence).into());
        }
        let is_own = |text: &String| own.contains(&text.as_str());
        if is_empty(directory) && !self.join.is_empty() && self.join.iter().all(is_own) {
            let sentence = format!(
                "--join {} is this node itself, which is in no cluster yet: name another node of the cluster, or make a new cluster with --bootstrap",
                self.join[0]
            );
            return Err(Failure::usage(sentence).into());
        }
        Ok(())
    }

    /// The places where other nodes may be, in the order in which they are tried.
    fn places(&self) -> Result<Vec<Place>> {
        let peers = self.peer.iter().map(|text| text.parse::<Place>());
        let peers: Result<Vec<Place>, String> = peers.collect();
        let mut places = peers.map_err(Failure::usage)?;
        let joined = self.join.iter().map(|address| Place {
            node: None,
            address: address.clone(),
        });
        places.extend(joined);
        Ok(places)
    }

    /// The settings of the kernel, in the place of what `config` says of it.
    pub fn kernel_config(&self, mut config: KernelConfig) -> Result<KernelConfig> {
        if let Some(mover) = &self.mover {
            config.mover = mover.parse().map_err(Failure::usage)?;
        }
        if let Some(ink) = &self.ink {
            config.ink = ink.parse().map_err(Failure::usage)?;
        }
        Ok(config)
    }
}

fn is_empty(directory: &Path) -> bool {
    // A node that was killed before it had written anything leaves its socket.
    let is_left = |entry: &std::fs::DirEntry| entry.file_name() == ADMIN_SOCKET;
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.flatten().all(|entry| is_left(&entry))
}

/// Refuses a reserve of which twice as much can never be free: once full, that disk would stay so for good. A node that
/// is there already starts all the same: it votes, and others can be filled from it.
fn check_reserve(directory: &Path, reserve: u64) -> Result<()> {
    let disk = linux::disk_bytes(directory)
        .with_context(|| format!("cannot look at the disk of {}", directory.display()))?;
    if reserve.saturating_mul(2) <= disk {
        return Ok(());
    }
    let sentence = format!(
        "the disk of {} has {} and is to keep {} of them free (--disk-reserve): a node takes bytes again once twice the reserve is \
         free, which can never be here; choose a larger disk, or a smaller reserve (32MiB or more is safe)",
        directory.display(),
        quantity::shown(disk),
        quantity::shown(reserve),
    );
    if !is_empty(directory) {
        tracing::warn!("{sentence}");
        return Ok(());
    }
    Err(Failure::usage(sentence).into())
}
