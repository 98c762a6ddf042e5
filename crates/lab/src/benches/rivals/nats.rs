//! NATS JetStream: three servers, one file stream with three replicas, one producer.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::producer::Connection;
use super::service::{Servers, command, find};
use super::{Durability, Load, Made, Running};
use testbed::port;
use testbed::watch::sleep_until;

pub const HOW_TO_GET: &str = "NATS JetStream is skipped: put the program nats-server (of the Go module \
    github.com/nats-io/nats-server/v2) into PATH or DIR/bin of --rivals DIR";

pub struct Installed {
    server: PathBuf,
}

pub struct Nats {
    servers: Servers,
    clients: Vec<u16>,
}

const NODES: usize = 3;
const STREAM: &str = "bench";
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(300);

pub fn installed(directory: Option<&Path>) -> Option<Installed> {
    Some(Installed {
        server: find("nats-server", directory)?,
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
                "server_name: n{index}\nlisten: 127.0.0.1:{client}\nping_interval: \"1h\"\n\
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
            clients: clients.to_vec(),
        })
    }
}

impl Nats {
    fn connect(&self, server: usize, patience: Duration) -> Result<Connection> {
        Connection::open(self.clients[server], patience)
    }

    fn stream(&self) -> Result<Value> {
        let subject = format!("$JS.API.STREAM.INFO.{STREAM}");
        self.connect(0, PATIENCE)?.ask(&subject, &json!({}))
    }

    /// Empty, with a leader. Returns which server that is, to which the producer is to connect.
    fn make_stream(&self) -> Result<usize> {
        let subject = |verb: &str| format!("$JS.API.STREAM.{verb}.{STREAM}");
        let config = json!({
            "name": STREAM,
            "subjects": [STREAM],
            "storage": "file",
            "num_replicas": NODES,
            "retention": "limits",
            "discard": "new",
        });
        let deadline = Instant::now() + PATIENCE;
        let answers = Duration::from_secs(5);
        loop {
            let made = self.connect(0, answers).and_then(|mut connection| {
                // There may be none.
                let _ = connection.ask(&subject("DELETE"), &json!({}));
                connection.ask(&subject("CREATE"), &config)
            });
            match made {
                Ok(_) => break,
                Err(error) if Instant::now() > deadline => return Err(error),
                // Its servers first have to find each other.
                Err(_) => sleep_until(Instant::now() + POLL)?,
            }
        }
        loop {
            let info = self.stream()?;
            let leader = info["cluster"]["leader"].as_str();
            let leader = leader.and_then(|name| name.strip_prefix('n')?.parse().ok());
            match leader {
                Some(server) if server < NODES => return Ok(server),
                _ if Instant::now() > deadline => bail!("the stream of NATS has no leader"),
                _ => sleep_until(Instant::now() + POLL)?,
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
        let made = self.connect(target, load.patience)?.produce(STREAM, load)?;
        let stored = self.stream()?["state"]["messages"].as_u64();
        if stored != Some(load.messages) {
            let sent = load.messages;
            bail!("{sent} messages were acknowledged, and {stored:?} are stored");
        }
        Ok(made)
    }
}
