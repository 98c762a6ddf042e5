//! The arguments of a node when it is started.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carrier::Lag;
use clap::Args;
use client::Credential;

use crate::secure::Wanted;
use formats::Speaks;
use linux::{Ink, KernelConfig, Mover};
use node::config::Place;
use terminal::exit::Failure;
use terminal::show;
use wire::NodeKind;
use wire::quantity;

use crate::altered;
use crate::carry::Carry;
use crate::config::{VOTERS_MAX, VOTERS_OF_SLOW_NODES_MAX};
use crate::process::Around;
use crate::settings::{DEFAULT_ADMIN, Settings};
use crate::{door, process, streams};

pub const HELP: &str = "\
The first node makes the cluster, the others join it; each keeps its directory from then on:

Example: three nodes on one machine
  logberg node --data d1 --listen 127.0.0.1:7117 --bootstrap
  logberg node --data d2 --listen 127.0.0.1:7118 --join 127.0.0.1:7117
  logberg node --data d3 --listen 127.0.0.1:7119 --join 127.0.0.1:7117 --zone cellar --kind auxiliary
and ask one of them over the socket in its directory: logberg status --server unix:d1/admin.sock
Start one again with the same words: --bootstrap and --join change nothing in a directory that
holds a node.

Settings may also stand in a file (--config), under the names that --print-config shows, and in
the environment, as LOGBERG_DATA, LOGBERG_LISTEN and so on. An argument wins over the environment,
the environment over the file.

SIGTERM hands leadership over, flushes, and ends with 0; a second one ends at once.

To upgrade, stop one node after the other and start it again as the newer program (`logberg status` shows
what each speaks). Once all have spoken a newer version for --version-settle, there is no way back.

Nobody is asked for a token before `logberg auth enable`, and nothing is encrypted before --tls: until
then listen on addresses that only friends can reach.";

#[derive(Debug, Args)]
pub struct Arguments {
    /// Directory of this node's data, made if it does not exist
    #[arg(long, value_name = "DIR", env = "LOGBERG_DATA", hide_env_values = true)]
    data: Option<PathBuf>,
    /// Address to listen on for clients and peers; several may be said, with commas or one by one. The first HOST:PORT is
    /// what others are told. A Unix socket is for its owner alone, or for whom its mode says: unix:PATH?mode=0660
    #[arg(
        long,
        value_name = "HOST:PORT|unix:PATH",
        value_delimiter = ',',
        env = "LOGBERG_LISTEN",
        hide_env_values = true
    )]
    listen: Vec<String>,
    /// Unix socket for this machine's own commands, for root and the user of this node (off: none) [default: admin.sock in
    /// the directory]
    #[arg(
        long,
        value_name = "PATH|off",
        env = "LOGBERG_SOCKET",
        hide_env_values = true
    )]
    socket: Option<String>,
    /// Address that others are told, if it is not the one we listen on
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "LOGBERG_ADVERTISE",
        hide_env_values = true
    )]
    advertise: Option<String>,
    /// Serve /metrics, /healthz and /livez over HTTP: at 127.0.0.1:7217, or where is said
    #[arg(
        long,
        value_name = "HOST:PORT",
        num_args = 0..=1,
        default_missing_value = DEFAULT_ADMIN,
        env = "LOGBERG_ADMIN",
        hide_env_values = true
    )]
    admin: Option<String>,
    /// Address to serve keys on, to clients of Redis Cluster
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "LOGBERG_KV",
        hide_env_values = true
    )]
    kv: Option<String>,
    /// Address that clients of keys are told, if it is not that one
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "LOGBERG_KV_ADVERTISE",
        hide_env_values = true
    )]
    kv_advertise: Option<String>,
    /// Address to serve named streams and logs on, over HTTP
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "LOGBERG_HTTP",
        hide_env_values = true
    )]
    http: Option<String>,
    /// With --http: a live read that finds nothing waits for so many seconds
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = quantity::seconds,
        env = "LOGBERG_HTTP_LONG_POLL",
        hide_env_values = true
    )]
    http_long_poll: Option<f64>,
    /// off, accept (TLS and plain text, for the time of a change) or require (TLS alone); nodes show one another their
    /// certificates
    #[arg(
        long,
        value_name = "off|accept|require",
        env = "LOGBERG_TLS",
        hide_env_values = true
    )]
    tls: Option<String>,
    /// The certificate of this node, its key, and the authority that it believes: tls.crt, tls.key and ca.crt in that
    /// directory. They are looked at again each 10 seconds
    #[arg(
        long,
        value_name = "DIR",
        env = "LOGBERG_TLS_DIR",
        hide_env_values = true
    )]
    tls_dir: Option<PathBuf>,
    /// A list of revoked certificates (CRL, PEM or DER) of an authority in ca.crt: whom it names is let in no more, and dialled no
    /// more. Looked at again as the others are
    #[arg(
        long,
        value_name = "FILE",
        env = "LOGBERG_TLS_CRL",
        hide_env_values = true
    )]
    tls_crl: Option<PathBuf>,
    /// Plain text that comes from other machines was encrypted on the way, by a mesh or a proxy that ends TLS: nothing else reaches
    /// this node. Where tokens are asked for, requests over HTTP may then come through that proxy
    #[arg(long, env = "LOGBERG_PLAIN_IS_PRIVATE", hide_env_values = true)]
    plain_is_private: bool,
    /// Let other machines reach this node without TLS, though all that they say can be read on the way, and everybody who does may
    /// read, write and delete where tokens are not asked for. A later release does not listen beyond loopback without TLS or this
    #[arg(long, env = "LOGBERG_INSECURE", hide_env_values = true)]
    insecure: bool,
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
    /// With --join: come in the place of that node, which lost its disk, with its certificate. Where tokens are asked for, only
    /// one that was made with --replaces lets it in
    #[arg(long, value_name = "ID", requires = "join", env = "LOGBERG_REPLACES", hide_env_values = true, value_parser = clap::value_parser!(u32).range(1..))]
    replaces: Option<u32>,
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
        value_parser = quantity::whole_seconds,
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
    /// For trying out distances: what this node sends to other nodes arrives so much later, as `20ms` or `5ms..38ms`
    #[arg(long, value_name = "LAG", hide = true)]
    lag: Option<Lag>,
    /// For tests of upgrades: be the program that speaks these versions. A version that this program does
    /// not have differs from its newest in the number only
    #[arg(long, value_name = "OLDEST-NEWEST", hide = true)]
    speaks: Option<Speaks>,
}

/// Free memory in the allocator's arenas is looked at so often, and given back if it is so much: after a flood, and not after each flush of rows.
const LOOK_AT_MEMORY_EVERY: Duration = Duration::from_secs(10);
const FREE_BYTES_MAX: usize = 256 << 20;

/// Gives memory back that a flood of requests took, for as long as the process lives.
fn give_back_now_and_then() -> Result<()> {
    let run = || {
        loop {
            thread::sleep(LOOK_AT_MEMORY_EVERY);
            heap::give_back_free_blocks(FREE_BYTES_MAX);
        }
    };
    let thread = thread::Builder::new().name("memory".to_owned());
    thread.spawn(run).context("cannot start a thread")?;
    Ok(())
}

impl Arguments {
    /// Runs until somebody ends it. The settings change the mover and the ink of `kernel`, and nothing else. `token`: shown
    /// to the nodes that it joins.
    pub fn run(self, kernel: KernelConfig, token: Option<Credential>) -> Result<()> {
        self.run_carried(kernel, token, None)
    }

    /// As [`Arguments::run`], with something of the lab between the node and its kernel.
    pub fn run_carried(
        self,
        kernel: KernelConfig,
        token: Option<Credential>,
        carry: Option<Box<dyn Carry>>,
    ) -> Result<()> {
        let print = self.print_config;
        let (speaks, lag) = (self.speaks, self.lag);
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
        heap::give_back_large_blocks();
        give_back_now_and_then()?;
        let voters_max = match &carry {
            Some(carry) if carry.pace() > 1 => VOTERS_OF_SLOW_NODES_MAX,
            _ => VOTERS_MAX,
        };
        let mut config = settings.node_config(voters_max)?;
        if let Some(carry) = &carry {
            carry.adjust(&mut config.limits);
            config.altered = Some(carry.told());
            altered::check(&config.directory)?;
        }
        config.speaks = speaks.unwrap_or_default();
        if token.as_ref().is_some_and(|shown| shown.token().is_none()) {
            bail!(
                "a node joins by a token, and not by a ticket: logberg token create NAME --allow 'join on cluster' --once"
            );
        }
        config.token = token.and_then(|token| token.token().cloned());
        let kernel = settings.kernel_config(kernel)?;
        let addresses = settings.addresses()?;
        let door = settings.kv.map(|listen| door::Settings {
            listen,
            advertise: settings.kv_advertise,
            version: env!("CARGO_PKG_VERSION"),
        });
        let insecure = settings.insecure;
        let plain_is_private = settings.plain_is_private;
        config
            .wires
            .tell(|told| told.is_plain_private = plain_is_private);
        let long_poll = settings.http_long_poll.map(Duration::from_secs_f64);
        let streams = settings.http.map(|listen| streams::Settings {
            listen,
            insecure,
            plain_is_private,
            long_poll,
            tls: None,
        });
        let around = Around {
            also: &addresses.also,
            own: settings.socket.as_deref(),
            tls: Wanted {
                mode: settings.tls,
                directory: settings.tls_dir,
                revoked: settings.tls_crl,
            },
            admin: settings.admin.as_deref(),
            insecure,
            plain_is_private,
            door,
            streams,
            lag,
            carry,
        };
        process::serve(config, kernel, around)
    }

    fn settings(self) -> Result<Settings> {
        let file = match &self.config {
            Some(path) => read_file(path)?,
            None => Settings::default(),
        };
        let joined = !self.join.is_empty() || self.bootstrap;
        Ok(Settings {
            data: self.data.or(file.data),
            listen: match self.listen.is_empty() {
                true => file.listen,
                false => self.listen,
            },
            socket: self.socket.or(file.socket),
            advertise: self.advertise.or(file.advertise),
            admin: self.admin.or(file.admin),
            kv: self.kv.or(file.kv),
            kv_advertise: self.kv_advertise.or(file.kv_advertise),
            http: self.http.or(file.http),
            http_long_poll: self.http_long_poll.or(file.http_long_poll),
            tls: self.tls.or(file.tls),
            tls_dir: self.tls_dir.or(file.tls_dir),
            tls_crl: self.tls_crl.or(file.tls_crl),
            plain_is_private: self.plain_is_private || file.plain_is_private,
            insecure: self.insecure || file.insecure,
            bootstrap: self.bootstrap || (!joined && file.bootstrap),
            voters: self.voters.or(file.voters),
            join: if joined { self.join } else { file.join },
            replaces: self.replaces.or(file.replaces),
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

fn peer(text: &str) -> Result<Place, String> {
    text.parse()
}

fn read_file(path: &Path) -> Result<Settings> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let parsed = Settings::parse(&text);
    parsed.map_err(|error| Failure::usage(format!("{}: {error}", path.display())).into())
}
