//! NATS JetStream: three servers, one file stream with three replicas, one producer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::service::{Servers, command, find, said};
use super::{Durability, Load, Made, Running};
use crate::bench::watch::sleep_until;
use crate::local::port;

pub const HOW_TO_GET: &str = "NATS JetStream is skipped: put the programs nats-server and nats (of the Go modules \
    github.com/nats-io/nats-server/v2 and github.com/nats-io/natscli) into PATH or DIR/bin of --rivals DIR";

pub struct Installed {
    server: PathBuf,
    cli: PathBuf,
}

pub struct Nats {
    servers: Servers,
    cli: PathBuf,
    directory: PathBuf,
    clients: Vec<u16>,
}

const NODES: usize = 3;
const STREAM: &str = "bench";
const PATIENCE: Duration = Duration::from_secs(30);
/// Publishes under way before the producer waits for their acks.
const UNDER_WAY: &str = "--batch=500";

pub fn installed(directory: Option<&Path>) -> Option<Installed> {
    Some(Installed {
        server: find("nats-server", directory)?,
        cli: find("nats", directory)?,
    })
}

impl Installed {
    pub fn start(&self, directory: &Path, durability: Durability) -> Result<Nats> {
        fs::create_dir_all(directory)?;
        let ports = port::free(2 * NODES as u32)?;
        let (clients, routes) = ports.split_at(NODES);
        let urls: Vec<String> = routes
            .iter()
            .map(|port| format!("nats-route://127.0.0.1:{port}"))
            .collect();
        let sync = match durability {
            Durability::Received => "",
            Durability::Durable => ", sync_interval: always",
        };
        let mut servers = Servers::default();
        for (index, (client, route)) in clients.iter().zip(routes).enumerate() {
            let store = directory.join(format!("n{index}"));
            let config = format!(
                "server_name: n{index}\nlisten: 127.0.0.1:{client}\n\
                 jetstream {{ store_dir: {store:?}, max_mem: 1G, max_file: 100G{sync} }}\n\
                 cluster {{ name: c, listen: 127.0.0.1:{route}, routes: [{}] }}\n",
                urls.join(", ")
            );
            let path = directory.join(format!("n{index}.conf"));
            fs::write(&path, config)?;
            let mut server = command(&self.server, directory);
            server.arg("-c").arg(path);
            servers.start(server, &directory.join(format!("n{index}.log")))?;
        }
        servers.wait_listening(clients, PATIENCE)?;
        Ok(Nats {
            servers,
            cli: self.cli.clone(),
            directory: directory.to_owned(),
            clients: clients.to_vec(),
        })
    }
}

impl Nats {
    fn ask(&self, server: usize, arguments: &[&str], patience: Duration) -> Result<String> {
        let mut ask: Command = command(&self.cli, &self.directory);
        let url = format!("nats://127.0.0.1:{}", self.clients[server]);
        ask.args(["--server", &url]).args(arguments);
        said(ask, &self.directory.join("said"), patience)
    }

    fn stream(&self) -> Result<Value> {
        let text = self.ask(0, &["stream", "info", STREAM, "--json"], PATIENCE)?;
        serde_json::from_str(&text).context("nats said something else than JSON of its stream")
    }

    /// Empty, with a leader. Returns which server that is, to which the producer is to connect.
    fn make_stream(&self) -> Result<usize> {
        // There may be none.
        let _ = self.ask(0, &["stream", "rm", STREAM, "-f"], PATIENCE);
        let subjects = format!("--subjects={STREAM}");
        let add = [
            "stream",
            "add",
            STREAM,
            &subjects,
            "--storage=file",
            "--replicas=3",
            "--defaults",
            "--discard=new",
        ];
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Its servers first have to find each other.
            match self.ask(0, &add, PATIENCE) {
                Ok(_) => break,
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => sleep_until(Instant::now() + Duration::from_millis(500))?,
            }
        }
        loop {
            let leader = self.stream()?["cluster"]["leader"]
                .as_str()
                .map(str::to_owned);
            let leader = leader.and_then(|name| name.strip_prefix('n')?.parse().ok());
            match leader {
                Some(server) if server < NODES => return Ok(server),
                _ if Instant::now() > deadline => bail!("the stream of NATS has no leader"),
                _ => sleep_until(Instant::now() + Duration::from_millis(200))?,
            }
        }
    }
}

impl Running for Nats {
    fn pids(&self) -> Vec<u32> {
        self.servers.pids()
    }

    fn prepare(&mut self) -> Result<usize> {
        self.make_stream()
    }

    fn produce(&mut self, target: usize, load: Load) -> Result<Made> {
        let size = format!("--size={}", load.message_bytes);
        let messages = format!("--msgs={}", load.messages);
        let stream = format!("--stream={STREAM}");
        let text = self.ask(
            target,
            &[
                "bench",
                "js",
                "pub",
                "async",
                STREAM,
                &stream,
                &size,
                &messages,
                "--clients=1",
                "--no-progress",
                "--timeout=10s",
                UNDER_WAY,
            ],
            load.patience,
        )?;
        let per_s = messages_per_s(&text).context("nats bench said no rate")?;
        let stored = self.stream()?["state"]["messages"].as_u64();
        if stored != Some(load.messages) {
            bail!(
                "{} messages were published, and {stored:?} are stored",
                load.messages
            );
        }
        Ok(Made {
            messages_per_s: per_s,
            p50_ms: None,
            p99_ms: None,
        })
    }
}

/// Of `… 12,345 msgs/sec ~ 12 MiB/sec …`; of several the last, which is of all clients.
fn messages_per_s(text: &str) -> Option<f64> {
    let (before, _) = text.rsplit_once(" msgs/sec")?;
    let number = before.rsplit([' ', ':', '\n']).next()?;
    number.replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_in_what_the_tool_says() {
        let text =
            "NATS JetStream asynchronous publish stats: 12,345 msgs/sec ~ 12 MiB/sec ~ 80.9us\n";
        assert_eq!(messages_per_s(text), Some(12_345.0));
        assert_eq!(messages_per_s("nothing of the kind"), None);
    }
}
