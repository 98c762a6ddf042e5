//! `logberg node`: one node of a cluster, in the foreground.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use client::{Client, Timeouts};
use formats::{ClusterId, Speaks};
use linux::{Ink, Kernel, KernelConfig, Mover};
use node::Node;
use node::config::{NodeConfig, Place, Start};
use replica::Limits;
use rustix::process::{Signal, getpid, kill_process};
use terminal::exit::{Failure, Kind};
use terminal::{quantity, show};
use wire::{NodeKind, Standing};

use crate::arguments::Global;

mod in_memory;
mod settings;

use settings::{DEFAULT_VOTERS, Settings};

const HELP: &str = "\
The first node makes the cluster, the others join it; each keeps its directory for ever:

Example: three nodes on one machine
  logberg node --data d1 --listen 127.0.0.1:7117 --bootstrap
  logberg node --data d2 --listen 127.0.0.1:7118 --join 127.0.0.1:7117
  logberg node --data d3 --listen 127.0.0.1:7119 --join 127.0.0.1:7117 --zone cellar --kind auxiliary
Start one again with the same words: --bootstrap and --join change nothing in a directory that
holds a node.

Settings may also stand in a file (--config), under the names that --print-config shows, and in
the environment, as LOGBERG_DATA, LOGBERG_LISTEN and so on. An argument wins over the environment,
the environment over the file.

SIGTERM hands leadership over, flushes, and ends with 0; a second one ends at once.

To upgrade, stop one node after the other and start it again as the newer program (`logberg status` shows
what each speaks). Once all have spoken a newer version for --version-settle, there is no way back.

There is no authentication yet: listen on addresses that only friends can reach.";

/// Run one node of a cluster
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Directory of this node's data, made if it does not exist
    #[arg(long, value_name = "DIR", env = "LOGBERG_DATA", hide_env_values = true)]
    data: Option<PathBuf>,
    /// Address to listen on for clients and peers
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "LOGBERG_LISTEN",
        hide_env_values = true
    )]
    listen: Option<String>,
    /// Address that others are told, if it is not the one we listen on
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "LOGBERG_ADVERTISE",
        hide_env_values = true
    )]
    advertise: Option<String>,
    /// Address to serve /metrics and /healthz on, over HTTP
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "LOGBERG_ADMIN",
        hide_env_values = true
    )]
    admin: Option<String>,
    /// Make a new cluster, if the directory is empty
    #[arg(
        long,
        conflicts_with = "join",
        env = "LOGBERG_BOOTSTRAP",
        hide_env_values = true
    )]
    bootstrap: bool,
    /// With --bootstrap: so many nodes get a vote, as they join
    #[arg(long, value_name = "N", env = "LOGBERG_VOTERS", hide_env_values = true)]
    voters: Option<u32>,
    /// Join the cluster of these nodes, if the directory is empty
    #[arg(
        long,
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        env = "LOGBERG_JOIN",
        hide_env_values = true
    )]
    join: Vec<String>,
    /// Where others may be found that moved, and which node is there if that is known: for nodes that do not
    /// find each other any more. What the cluster knows is tried too. --join says such addresses as well
    #[arg(
        long,
        value_name = "[ID@]HOST:PORT,…",
        value_delimiter = ',',
        value_parser = peer,
        env = "LOGBERG_PEER",
        hide_env_values = true
    )]
    peer: Vec<Place>,
    /// Nodes of one zone fail together (`-`: none is said). Holds until `logberg members zone` says otherwise
    #[arg(
        long,
        value_name = "NAME",
        env = "LOGBERG_ZONE",
        hide_env_values = true
    )]
    zone: Option<String>,
    /// full, or auxiliary: a small machine that stands in, and holds bytes only while others cannot
    #[arg(
        long,
        value_name = "KIND",
        env = "LOGBERG_KIND",
        hide_env_values = true
    )]
    kind: Option<NodeKind>,
    /// Bytes a second, per log, at which this node fetches what it missed while others append
    #[arg(long, value_name = "RATE", value_parser = quantity::bytes, env = "LOGBERG_CATCH_UP_RATE", hide_env_values = true)]
    catch_up_rate: Option<u64>,
    /// Bytes a second at which a leader reads its logs once a day, to compare them with its peers (0: never)
    #[arg(long, value_name = "RATE", value_parser = quantity::bytes, env = "LOGBERG_SCRUB_RATE", hide_env_values = true)]
    scrub_rate: Option<u64>,
    /// Refuse appends when less than this is free on the disk
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes, env = "LOGBERG_DISK_RESERVE", hide_env_values = true)]
    disk_reserve: Option<u64>,
    /// Go on in a newer version for good when all nodes have spoken it for so many seconds: until
    /// then each can go back to its older program
    #[arg(
        long,
        value_name = "SECONDS",
        env = "LOGBERG_VERSION_SETTLE",
        hide_env_values = true
    )]
    version_settle: Option<u64>,
    /// How bytes move: direct (calls and threads), uring (io_uring), splice (by way of the page cache, without a
    /// copy; with --ink disk alone), or auto, which is uring where that is allowed and else direct; `logberg status`
    /// says which. uring answers sooner where processors are short, direct moves more flat out
    #[arg(
        long,
        value_name = "MOVER",
        env = "LOGBERG_MOVER",
        hide_env_values = true
    )]
    mover: Option<Mover>,
    /// Where records go: disk, pmem (mapped files), or ram. Of ram nothing survives the process: started again it is a new node
    #[arg(long, value_name = "INK", env = "LOGBERG_INK", hide_env_values = true)]
    ink: Option<Ink>,
    /// Read settings from a TOML file
    #[arg(
        long,
        value_name = "FILE",
        env = "LOGBERG_CONFIG",
        hide_env_values = true
    )]
    config: Option<PathBuf>,
    /// Print the settings in effect as TOML, and end
    #[arg(long)]
    print_config: bool,
    /// End when the process that started us ends, whose id may be said
    #[arg(long, value_name = "PID", num_args = 0..=1, require_equals = true, hide = true)]
    die_with_parent: Option<Option<i32>>,
    /// For tests of upgrades: be the program that speaks these versions. A version that this program does
    /// not have differs from its newest in the number only
    #[arg(long, value_name = "OLDEST-NEWEST", hide = true)]
    speaks: Option<Speaks>,
}

impl Arguments {
    pub fn run(self, _global: &Global) -> Result<()> {
        let print = self.print_config;
        let speaks = self.speaks;
        if let Some(parent) = self.die_with_parent {
            linux::die_with_parent().context("cannot be tied to the starting process")?;
            // It may have ended before we could ask, and then somebody else is our parent.
            let now = rustix::process::getppid().map(rustix::process::Pid::as_raw_nonzero);
            if parent.is_some_and(|parent| now.is_none_or(|now| now.get() != parent)) {
                bail!("the process that started this node has ended");
            }
        }
        let settings = self.settings()?;
        if print {
            return show::print(settings.effective().to_toml()?.trim_end());
        }
        let mut config = settings.node_config()?;
        config.speaks = speaks.unwrap_or_default();
        serve(config, settings.kernel_config()?, settings.admin.as_deref())
    }

    fn settings(self) -> Result<Settings> {
        let file = match &self.config {
            Some(path) => read_file(path)?,
            None => Settings::default(),
        };
        let joined = !self.join.is_empty() || self.bootstrap;
        Ok(Settings {
            data: self.data.or(file.data),
            listen: self.listen.or(file.listen),
            advertise: self.advertise.or(file.advertise),
            admin: self.admin.or(file.admin),
            bootstrap: self.bootstrap || (!joined && file.bootstrap),
            voters: self.voters.or(file.voters),
            join: if joined { self.join } else { file.join },
            peer: match self.peer.is_empty() {
                true => file.peer,
                false => self.peer.iter().map(ToString::to_string).collect(),
            },
            zone: self.zone.or(file.zone),
            kind: self.kind.or(file.kind),
            catch_up_rate: self.catch_up_rate.or(file.catch_up_rate),
            scrub_rate: self.scrub_rate.or(file.scrub_rate),
            disk_reserve: self.disk_reserve.or(file.disk_reserve),
            version_settle: self.version_settle.or(file.version_settle),
            mover: self.mover.map(|mover| mover.to_string()).or(file.mover),
            ink: self.ink.map(|ink| ink.to_string()).or(file.ink),
        })
    }
}

fn read_file(path: &Path) -> Result<Settings> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let parsed = Settings::parse(&text);
    parsed.map_err(|error| Failure::usage(format!("{}: {error}", path.display())).into())
}

impl Settings {
    fn node_config(&self) -> Result<NodeConfig> {
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
        limits.catch_up_rate = all.catch_up_rate.unwrap_or(limits.catch_up_rate).max(1);
        limits.scrub_rate = all.scrub_rate.unwrap_or(limits.scrub_rate);
        limits.disk_reserve_bytes = all.disk_reserve.unwrap_or(limits.disk_reserve_bytes);
        if limits.disk_reserve_bytes < 2 * limits.unchosen_bytes_max {
            tracing::warn!(
                bytes = limits.disk_reserve_bytes,
                "the disk reserve is smaller than what may have to be written after a change of leader; 32MiB or more is safe"
            );
        }
        let zone = all.zone.filter(|zone| zone != "-").unwrap_or_default();
        let standing = Standing::new(&zone, all.kind.unwrap_or_default());
        let settle = all
            .version_settle
            .map(|seconds| seconds.saturating_mul(1_000_000));
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
}

fn peer(text: &str) -> Result<Place, String> {
    text.parse()
}

impl Settings {
    /// Where other nodes may be, in the order in which they are tried.
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
}

/// Whether the servers we are to join are of the cluster that our directory belongs to: looked at while
/// the node runs, since they may be starting too, and asking each other would keep all waiting. If one is
/// not, says so here and asks this process to stop.
fn check_cluster(own: ClusterId, servers: Vec<String>, data: PathBuf) -> Arc<OnceLock<String>> {
    let refusal = Arc::new(OnceLock::new());
    if own == ClusterId::default() {
        return refusal; // It has not joined any.
    }
    let found = refusal.clone();
    std::thread::spawn(move || {
        let own = own.to_string();
        let soon = Duration::from_millis(500);
        let timeouts = Timeouts {
            connect: soon,
            silence: soon,
            total: soon,
        };
        for server in servers {
            let client = Client::new(vec![server.clone()], timeouts);
            let Ok(status) = client.status_of(&server) else {
                continue;
            };
            if status.cluster != own {
                let sentence = format!(
                    "{} belongs to cluster {own}, and {server} to another cluster, {}: choose this node's directory with --data, or servers of its cluster with --join",
                    data.display(),
                    status.cluster
                );
                let _ = found.set(sentence);
                let _ = kill_process(getpid(), Signal::TERM);
                return;
            }
        }
    });
    refusal
}

impl Settings {
    fn kernel_config(&self) -> Result<KernelConfig> {
        let mut config = kernel_config();
        if let Some(mover) = &self.mover {
            config.mover = mover.parse().map_err(Failure::usage)?;
        }
        if let Some(ink) = &self.ink {
            config.ink = ink.parse().map_err(Failure::usage)?;
        }
        Ok(config)
    }
}

/// `LOGBERG_FAULTS` names a file by which `logberg torture` makes this node's disk fail.
fn kernel_config() -> KernelConfig {
    let mut config = KernelConfig::default();
    if let Some(file) = std::env::var_os("LOGBERG_FAULTS") {
        tracing::warn!(file = %Path::new(&file).display(), "the disk fails as this file says");
        config.faults.file = Some(file.into());
    }
    config
}

fn serve_admin(admin: &str, node: SocketAddr) -> Result<()> {
    let bound = crate::admin::serve(admin, node).map_err(|error| {
        let sentence = format!(
            "cannot serve /metrics on {admin}: {error}; choose another address with --admin"
        );
        Failure::new(Kind::Failure, sentence)
    })?;
    tracing::info!(address = %bound, "serving /metrics and /healthz");
    if !bound.ip().is_loopback() {
        tracing::warn!(address = %bound, "there is no authentication: whoever reaches this address can read metrics");
    }
    Ok(())
}

fn serve(mut config: NodeConfig, kernel: KernelConfig, admin: Option<&str>) -> Result<()> {
    if kernel.ink == Ink::Ram {
        in_memory::check(
            &config.directory,
            matches!(config.start, Start::Bootstrap { .. }),
        )?;
    }
    let files = linux::raise_file_limit().context("cannot raise the limit on open files")?;
    if files.is_some_and(|limit| limit < 256) {
        tracing::warn!(
            limit = files,
            "few files may be open: raise the limit (ulimit -n) to 1024 or more"
        );
    }
    // Segments need files too, and a replica without the next one stops: clients must not take them.
    let half = files.map_or(usize::MAX, |limit| (limit / 2) as usize);
    config.limits.connections_max = config.limits.connections_max.min(half);
    let mut kernel = Kernel::new(kernel).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => Failure::usage(error.to_string()).into(),
        _ => anyhow::Error::new(error).context("cannot set up the event loop"),
    })?;
    let bound = kernel.bind(&config.listen).map_err(|error| {
        let sentence = match error.kind() {
            std::io::ErrorKind::AddrInUse => format!(
                "{} is in use by another process: stop that one, or choose another address with --listen",
                config.listen
            ),
            _ => format!("cannot listen on {}: {error}; choose another address with --listen", config.listen),
        };
        Failure::new(Kind::Failure, sentence)
    })?;
    if !bound.ip().is_loopback() {
        tracing::warn!(
            address = %bound,
            "there is no authentication: whoever reaches this address can read and append"
        );
    }
    if let Some(admin) = admin {
        serve_admin(admin, bound)?;
    }
    if config.advertise == config.listen {
        config.advertise = bound.to_string();
        if bound.ip().is_unspecified() {
            return Err(Failure::usage(format!(
                "others cannot reach us at {bound}: say where with --advertise HOST:PORT"
            ))
            .into());
        }
    }
    let servers = config.places.iter().map(|place| place.address.clone());
    let servers = servers.collect();
    let data = config.directory.clone();
    let mut disk = kernel.disk();
    let mut node = Node::start(config, &mut *disk, linux::now())
        .map_err(|error| Failure::new(Kind::Failure, error.to_string()))?;
    let refusal = check_cluster(node.cluster(), servers, data);
    let ran = kernel.run(&mut node).context("the event loop failed");
    // The directory is ours until the last write has ended, however long the disk hangs: the next process
    // must not read what one of ours still changes.
    drop(kernel);
    drop(disk);
    ran?;
    if let Some(why) = node.failure() {
        return Err(Failure::new(Kind::Failure, why.to_owned()).into());
    }
    match refusal.get() {
        Some(sentence) => Err(Failure::new(Kind::Failure, sentence.clone()).into()),
        None => Ok(()),
    }
}
