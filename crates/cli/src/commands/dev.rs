//! `logberg dev`: a cluster on this machine, to work with.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result};
use carrier::Lag;
use clap::Args;
use client::Transport;
use linux::LinuxDisk;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use store::Manifest;
use terminal::exit::{Failure, Kind};
use terminal::show;
use testbed::cluster::{LocalCluster, LocalOptions};
use testbed::port;
use tls::Trust;

use crate::certs::{Authority, Whose};
use crate::global::Global;

const NODES: u32 = 3;
const PORT: u16 = 7117;
const KV_PORT: u16 = 7379;
const HTTP_PORT: u16 = 4437;
const READY_MAX: Duration = Duration::from_secs(30);
const STOP_MAX: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(100);
/// How long its certificates hold.
const DAYS: u32 = 365;
/// A node that ends sooner than this after its start is started again only after a pause.
const LIVED: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Run a cluster on this machine, to work with
#[derive(Debug, Args)]
#[command(after_help = "\
Stays in the foreground; Ctrl-C stops the nodes, and the same command brings them back with their
data. A node that dies is started again. Logs go to node-N.log in the directory.

Example:
  logberg dev
  logberg dev --nodes 5 --dir /var/tmp/five --port 9001
  logberg dev --delay 20ms           # as if its nodes stood in three cities
  logberg dev --tls                  # and each command with --ca logberg-dev/certs/ca.crt")]
pub struct Arguments {
    /// How many; 3 in a new directory, as many as there are in another
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=31))]
    nodes: Option<u32>,
    /// Holds the nodes' data and logs
    #[arg(long, value_name = "DIR", default_value = "logberg-dev")]
    dir: PathBuf,
    /// The first node's port, the next one's is one higher; 7117 in a new directory
    #[arg(long, value_name = "BASE", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Where the first node serves keys, the next one at one higher; 7379 in a new directory, unless --port is given
    #[arg(
        long,
        value_name = "BASE",
        num_args = 0..=1,
        default_missing_value = "7379",
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    kv: Option<u16>,
    /// Serve no keys
    #[arg(long, conflicts_with = "kv")]
    no_kv: bool,
    /// Where the first node serves streams and logs over HTTP, the next one at one higher; 4437 in a new directory, unless --port is given
    #[arg(
        long,
        value_name = "BASE",
        num_args = 0..=1,
        default_missing_value = "4437",
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    http: Option<u16>,
    /// Serve no streams and logs over HTTP
    #[arg(long, conflicts_with = "http")]
    no_http: bool,
    /// Delay what nodes send each other, by 20ms or by 5ms..38ms; clients are beside each node
    #[arg(long, value_name = "LAG")]
    delay: Option<Lag>,
    /// Take connections by TLS alone, with certificates that are made in the directory
    #[arg(long)]
    tls: bool,
    /// Show the nodes' logs on standard error
    #[arg(long)]
    verbose: bool,
}

/// The layout with which a directory was begun, and which stays.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layout {
    nodes: u32,
    port: u16,
    /// The first port at which keys are served, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kv: Option<u16>,
    /// The first port at which streams are served over HTTP, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    http: Option<u16>,
}

const LAYOUT_FILE: &str = "cluster.json";

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // In this order: the first signal finds the flag false and sets it, the second ends us,
            // and the nodes with us.
            flag::register_conditional_shutdown(signal, 128 + signal, interrupted.clone())
                .and_then(|_| flag::register(signal, interrupted.clone()))
                .context("cannot prepare for Ctrl-C")?;
        }
        let layout = self.layout()?;
        let kv_ports = match layout.kv {
            Some(base) => port::from_base(base, layout.nodes)?,
            None => Vec::new(),
        };
        let http_ports = match layout.http {
            Some(base) => port::from_base(base, layout.nodes)?,
            None => Vec::new(),
        };
        let secured = match self.tls {
            true => Some(secured(&self.dir, layout.nodes)?),
            false => None,
        };
        let ca = secured.as_ref().map(|secured| secured.ca.clone());
        let (own_arguments, transport) = secured.map_or_else(Default::default, |secured| {
            (secured.arguments, Some(secured.transport))
        });
        let cluster = LocalCluster::prepare(LocalOptions {
            own_arguments,
            transport,
            kv_ports,
            http_ports,
            port_base: Some(layout.port),
            logs_shown: self.verbose,
            arguments: self
                .delay
                .iter()
                .map(|lag| format!("--lag={lag}"))
                .collect(),
            interrupted: interrupted.clone(),
            ..LocalOptions::new(&self.dir, layout.nodes)
        })?;
        self.keep(layout)?;
        let ready = cluster
            .launch()
            .and_then(|()| cluster.wait_ready(READY_MAX));
        match ready {
            Ok(()) => self.say_ready(global, layout, &cluster, ca.as_deref())?,
            Err(_) if interrupted.load(Ordering::Relaxed) => {}
            Err(error) => return Err(error),
        }
        mind(&cluster, &interrupted);
        match layout.nodes {
            1 => eprintln!("Stopping the node."),
            nodes => eprintln!("Stopping {nodes} nodes."),
        }
        if !cluster.stop(STOP_MAX) {
            eprintln!(
                "A node did not stop within {} s and was killed.",
                STOP_MAX.as_secs()
            );
        }
        Ok(())
    }

    /// The layout that the directory holds already, or else the one that was asked for.
    fn layout(&self) -> Result<Layout> {
        let path = self.dir.join(LAYOUT_FILE);
        let shown = self.dir.display();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if holds_something(&self.dir)? {
                    let sentence =
                        format!("{shown} holds something else; name a new or an empty directory");
                    return Err(Failure::usage(sentence).into());
                }
                return Ok(Layout {
                    nodes: self.nodes.unwrap_or(NODES),
                    port: self.port.unwrap_or(PORT),
                    kv: match self.port {
                        _ if self.no_kv => None,
                        None => self.kv.or(Some(KV_PORT)),
                        Some(_) => self.kv,
                    },
                    http: match self.port {
                        _ if self.no_http => None,
                        None => self.http.or(Some(HTTP_PORT)),
                        Some(_) => self.http,
                    },
                });
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let mut layout: Layout = serde_json::from_str(&text)
            .map_err(|error| Failure::new(Kind::Failure, format!("{}: {error}", path.display())))?;
        // Clients find the doors by the nodes' own words.
        layout.kv = match self.no_kv {
            true => None,
            false => self.kv.or(layout.kv),
        };
        layout.http = match self.no_http {
            true => None,
            false => self.http.or(layout.http),
        };
        if self.nodes.is_some_and(|nodes| nodes != layout.nodes) {
            let nodes = layout.nodes;
            let sentence = format!(
                "{shown} holds a cluster of {nodes} nodes; leave --nodes away, or choose another --dir"
            );
            return Err(Failure::usage(sentence).into());
        }
        if self.port.is_some_and(|port| port != layout.port) {
            let port = layout.port;
            let sentence = format!(
                "the nodes in {shown} know each other by the ports from {port} on; leave --port away, or choose another --dir"
            );
            return Err(Failure::usage(sentence).into());
        }
        for id in 1..=layout.nodes {
            let directory = self.dir.join(format!("node-{id}"));
            if directory.is_dir() {
                // For the sentence alone: the lock is gone with the value.
                Manifest::lock(&mut LinuxDisk::new(), &directory)
                    .map_err(|error| Failure::new(Kind::Refused, error.to_string()))?;
            }
        }
        Ok(layout)
    }

    fn keep(&self, layout: Layout) -> Result<()> {
        let path = self.dir.join(LAYOUT_FILE);
        let text = serde_json::to_string(&layout)?;
        fs::write(&path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
    }

    fn say_ready(
        &self,
        global: &Global,
        layout: Layout,
        cluster: &LocalCluster,
        ca: Option<&Path>,
    ) -> Result<()> {
        let servers = cluster.addresses().join(",");
        if global.json {
            return show::print_json(&serde_json::json!({
                "servers": cluster.addresses(),
                "pids": cluster.pids(),
                "directory": cluster.directory(),
                "ca": ca,
            }));
        }
        let server = match layout.port {
            PORT => String::new(),
            _ => format!("--server {servers} "),
        };
        let shown = ca.map(|ca| format!("--ca {} ", ca.display()));
        let server = server + &shown.unwrap_or_default();
        let keys = layout.kv.map(|port| {
            let tls = ca.map(|ca| format!("--tls --cacert {} ", ca.display()));
            let tls = tls.unwrap_or_default();
            format!("  logberg {server}kv init\n  redis-cli {tls}-c -p {port} set hello world\n")
        });
        let keys = keys.unwrap_or_default();
        let streams = layout.http.map(|port| {
            let (scheme, believes) = match ca {
                Some(ca) => ("https://", format!("--cacert {} ", ca.display())),
                None => ("", String::new()),
            };
            let stream = format!("{scheme}localhost:{port}/v1/stream/hello");
            let curl = format!("curl {believes}");
            format!(
                "  {curl}-X PUT {stream} -H 'Content-Type: text/plain' -d 'hello '\n  \
                 {curl}{stream} -H 'Content-Type: text/plain' -d world\n  \
                 {curl}-N '{stream}?offset=-1&live=sse'\n"
            )
        });
        let streams = streams.unwrap_or_default();
        let apart = self.delay.filter(|lag| !lag.is_zero());
        let apart = apart.map(|lag| format!("\nEach way between nodes takes {lag} longer"));
        let apart = apart.unwrap_or_default();
        show::print(format_args!(
            "{} at {servers}\nData and logs are in {}{apart}\n\n\
             In another terminal:\n  \
             echo hello | logberg {server}append main\n  \
             logberg {server}read main\n  \
             logberg {server}status\n{keys}{streams}\n\
             Ctrl-C stops them; the same command brings them back.",
            match layout.nodes {
                1 => "1 node runs".to_owned(),
                nodes => format!("{nodes} nodes run"),
            },
            self.dir.display()
        ))
    }
}

/// What a cluster of TLS is started with.
struct Secured {
    ca: PathBuf,
    arguments: Vec<Vec<String>>,
    transport: Arc<dyn Transport>,
}

/// Makes the certificates of the nodes that have none.
fn secured(directory: &Path, nodes: u32) -> Result<Secured> {
    let certs = directory.join("certs");
    let authority = match certs.join(tls::CA_FILE).exists() {
        true => Authority::open(&certs)?,
        false => Authority::make(&certs)?,
    };
    let hosts = ["127.0.0.1", "localhost", "::1"].map(str::to_owned);
    let mut arguments = Vec::new();
    for id in 1..=nodes {
        let name = format!("node-{id}");
        let own = certs.join(&name);
        if !own.join(tls::CERTIFICATE_FILE).exists() {
            authority.give(&Whose::Node(&name, &hosts), DAYS, true)?;
        }
        let own = own.canonicalize().context("a directory of certificates")?;
        let words = [
            "--tls=require".to_owned(),
            format!("--tls-dir={}", own.display()),
        ];
        arguments.push(words.to_vec());
    }
    let trust =
        Trust::read(&authority.file()).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Secured {
        ca: authority.file(),
        arguments,
        transport: Arc::new(trust),
    })
}

fn holds_something(directory: &Path) -> Result<bool> {
    match fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", directory.display())),
    }
}

/// Starts again what dies, until interrupted.
fn mind(cluster: &LocalCluster, interrupted: &AtomicBool) {
    /// A node that is down.
    struct Down {
        node: u32,
        start_at: Instant,
    }
    let nodes = cluster.pids().len();
    let mut started = vec![Instant::now(); nodes];
    let mut pauses = vec![Duration::ZERO; nodes];
    let mut down: Vec<Down> = Vec::new();
    while !interrupted.load(Ordering::Relaxed) {
        let ended = cluster.take_ended().unwrap_or_default();
        for ended in ended {
            let at = ended.node as usize - 1;
            pauses[at] = match started[at].elapsed() < LIVED {
                true => (pauses[at] * 2).clamp(Duration::from_secs(1), PAUSE_MAX),
                false => Duration::ZERO,
            };
            let when = match pauses[at].as_secs() {
                0 => "it is started again".to_owned(),
                seconds => format!("it is started again in {seconds} s"),
            };
            eprintln!("{}; {when}.", ended.sentence());
            down.push(Down {
                node: ended.node,
                start_at: Instant::now() + pauses[at],
            });
        }
        down.retain(|waiting| {
            if waiting.start_at > Instant::now() {
                return true;
            }
            started[waiting.node as usize - 1] = Instant::now();
            match cluster.restart(waiting.node) {
                Ok(()) => false,
                Err(error) => {
                    eprintln!("{error:#}");
                    true
                }
            }
        });
        thread::sleep(POLL);
    }
}
