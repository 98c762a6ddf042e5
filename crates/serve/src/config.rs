//! The meaning of settings: a node's configuration, and its kernel's.

use std::time::Duration;

use anyhow::Result;
use formats::Speaks;
use linux::KernelConfig;
use node::config::{NodeConfig, Place, Start};
use replica::Limits;
use terminal::exit::Failure;
use wire::Standing;

use crate::settings::{DEFAULT_VOTERS, Settings};

impl Settings {
    pub fn node_config(&self) -> Result<NodeConfig> {
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
        if voters == 0 || voters > 31 {
            return Err(Failure::usage("--voters is from 1 to 31").into());
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
        let zone = all.zone.filter(|zone| zone != "-").unwrap_or_default();
        let standing = Standing::new(&zone, all.kind.unwrap_or_default());
        let settle = all.version_settle.map(Duration::from_secs);
        limits.version_settle = settle.unwrap_or(limits.version_settle);
        let listen = all.listen.unwrap_or_default();
        Ok(NodeConfig {
            directory,
            advertise: all.advertise.unwrap_or_else(|| listen.clone()),
            listen,
            start: match (self.bootstrap, self.join.is_empty()) {
                (true, _) => Start::Bootstrap { voters },
                (false, false) => Start::Join {
                    servers: self.join.clone(),
                },
                (false, true) => Start::Again,
            },
            places: self.places()?,
            standing: standing.map_err(Failure::usage)?,
            limits,
            version: env!("CARGO_PKG_VERSION"),
            speaks: Speaks::THIS,
            hosts: Default::default(),
        })
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
