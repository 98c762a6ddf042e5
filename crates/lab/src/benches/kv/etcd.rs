//! etcd: three members, each write on the disks of a majority before the reply, reads linearizable. Its own tool is the load.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::generator::Length;
use super::load::{Load, Op, Turn};
use super::values::KEY_BYTES;
use crate::benches::rivals::service::{Servers, command, find, said};
use bench::figures::Figures;
use bench::roles::{Role, Watched};
use testbed::port;
use testbed::watch::sleep_until;

pub const HOW_TO_GET: &str = "etcd is skipped: put etcd and etcd-benchmark (tools/benchmark of the Go module \
    go.etcd.io/etcd/v3) into PATH or DIR/bin of --rivals DIR";

pub struct Installed {
    server: PathBuf,
    tool: PathBuf,
}

pub struct Etcd {
    servers: Servers,
    tool: PathBuf,
    directory: PathBuf,
    clients: Vec<u16>,
    keys: u32,
    value_bytes: usize,
    /// The rate that was measured before: so much is to be asked for, so that it takes as long as it is to.
    rates: Vec<(Load, f64)>,
}

const MEMBERS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);
/// Clients of its tool share connections, so many each.
const CLIENTS_PER_CONNECTION: u32 = 4;
/// The key that is read: the tool reads one.
const KEY: &str = "KEY";
const KEY_IN_BASE_64: &str = "S0VZ";

pub fn installed(directory: Option<&Path>) -> Option<Installed> {
    Some(Installed {
        server: find("etcd", directory)?,
        tool: find("etcd-benchmark", directory)?,
    })
}

impl Installed {
    pub fn start(&self, directory: &Path, keys: u32, value_bytes: usize) -> Result<Etcd> {
        fs::create_dir_all(directory)?;
        let ports = port::free(2 * MEMBERS as u32)?;
        let (clients, peers) = ports.split_at(MEMBERS);
        let url = |port: &u16| format!("http://127.0.0.1:{port}");
        let members = (1..).zip(peers);
        let members = members.map(|(id, port): (u32, _)| format!("e{id}={}", url(port)));
        let cluster = members.collect::<Vec<_>>().join(",");
        let mut servers = Servers::default();
        for (id, (client, peer)) in (1..).zip(clients.iter().zip(peers)) {
            let id: u32 = id;
            let mut server = command(&self.server, directory);
            server.args(["--name", &format!("e{id}")]);
            server
                .arg("--data-dir")
                .arg(directory.join(format!("e{id}")));
            server.args(["--listen-client-urls", &url(client)]);
            server.args(["--advertise-client-urls", &url(client)]);
            server.args(["--listen-peer-urls", &url(peer)]);
            server.args(["--initial-advertise-peer-urls", &url(peer)]);
            server.args(["--initial-cluster", &cluster]);
            server.args(["--initial-cluster-state", "new", "--log-level", "warn"]);
            server.args(["--quota-backend-bytes=8589934592"]);
            servers.start(server, &directory.join(format!("e{id}.log")))?;
        }
        servers.wait_listening(clients, PATIENCE)?;
        let mut etcd = Etcd {
            servers,
            tool: self.tool.clone(),
            directory: directory.to_owned(),
            clients: clients.to_vec(),
            keys,
            value_bytes,
            rates: Vec::new(),
        };
        let leader = etcd.leader()?;
        let put = json!({ "key": KEY_IN_BASE_64, "value": base_64_of_x(etcd.value_bytes) });
        ask(leader, "/v3/kv/put", &put).context("etcd takes no key")?;
        Ok(etcd)
    }
}

impl Etcd {
    /// Its protocol has no pipelines.
    pub fn can(load: Load) -> bool {
        load.pipeline == 1
    }

    /// The port of the member that leads.
    fn leader(&mut self) -> Result<u16> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            for port in &self.clients {
                let status = ask(*port, "/v3/maintenance/status", &json!({}));
                let leads = status.is_ok_and(|status| {
                    let leader = &status["leader"];
                    leader.is_string() && *leader == status["header"]["member_id"]
                });
                if leads {
                    return Ok(*port);
                }
            }
            if Instant::now() > deadline {
                bail!("no member of etcd leads after {} s", PATIENCE.as_secs());
            }
            sleep_until(Instant::now() + POLL)?;
        }
    }

    pub fn turn(&mut self, load: Load, length: Length) -> Result<Turn> {
        let leader = self.leader()?;
        let known = self.rates.iter().find(|(known, _)| *known == load);
        let rate = match known.map(|(_, rate)| *rate) {
            Some(rate) => rate,
            None => {
                let trial = self.run(load, leader, 200 * u64::from(load.clients.min(64)))?;
                let rate = trial.get("ops_per_s").unwrap_or(0.0);
                self.rates.push((load, rate));
                rate
            }
        };
        let processes = self.servers.pids().into_iter();
        let processes = processes.map(|pid| (Role::Leader, pid)).collect();
        let watched = Watched::new(processes, None);
        let total = ((rate * length.counted.as_secs_f64()) as u64).max(u64::from(load.clients));
        let before = watched.look()?;
        let mut figures = self.run(load, leader, total)?;
        let spent = watched.spent(&before, &watched.look()?)?;
        let each = spent.nodes_cpu().as_secs_f64() * 1e6 / total as f64;
        figures.add("cpu_us_per_op", each);
        Ok(Turn {
            figures,
            failed: 0,
            wrong: 0,
            why: None,
        })
    }

    fn run(&self, load: Load, leader: u16, total: u64) -> Result<Figures> {
        let all = self.clients.iter().map(|port| format!("127.0.0.1:{port}"));
        let all = all.collect::<Vec<_>>().join(",");
        // Where one member is not enough, all of them answer reads, which is faster; writes go to the leader.
        let endpoints = match (load.op, load.clients) {
            (Op::Get, 2..) => all,
            _ => format!("127.0.0.1:{leader}"),
        };
        let mut tool = command(&self.tool, &self.directory);
        tool.arg(match load.op {
            Op::Set => "put",
            Op::Get => "range",
        });
        tool.args(["--endpoints", &endpoints]);
        tool.arg(format!("--total={total}"));
        tool.arg(format!("--clients={}", load.clients));
        let connections = load.clients.div_ceil(CLIENTS_PER_CONNECTION);
        tool.arg(format!("--conns={connections}"));
        match load.op {
            Op::Set => {
                tool.arg(format!("--val-size={}", self.value_bytes));
                tool.arg(format!("--key-size={KEY_BYTES}"));
                tool.arg(format!("--key-space-size={}", self.keys));
            }
            Op::Get => {
                tool.args(["--consistency=l", KEY]);
            }
        }
        let text = said(tool, &self.directory.join("said"), PATIENCE)?;
        summary(&text).context("etcd's benchmark said no summary")
    }
}

/// Parses `Requests/sec: 734.2`, `50% in 0.0013 secs.` and `99% in 0.0032 secs.`
fn summary(text: &str) -> Option<Figures> {
    if text.contains("Error distribution") {
        return None;
    }
    let (_, rate) = text.split_once("Requests/sec:")?;
    let first = |text: &str| text.split_whitespace().next()?.parse::<f64>().ok();
    let mut figures = Figures::default();
    figures.add("ops_per_s", first(rate)?);
    // After few puts it leaves out what it cannot tell.
    for (name, percent) in [("p50_ms", "50%"), ("p99_ms", "99%"), ("p999_ms", "99.9%")] {
        let mut lines = text.lines().map(str::trim);
        let seconds = lines.find_map(|line| line.strip_prefix(percent)?.trim().strip_prefix("in"));
        if let Some(seconds) = seconds.and_then(first) {
            figures.add(name, seconds * 1000.0);
        }
    }
    Some(figures)
}

/// Asks a member through its gateway of JSON.
fn ask(port: u16, path: &str, question: &Value) -> Result<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let body = question.to_string();
    let length = body.len();
    // HTTP 1.0, so that the answer ends with the connection.
    write!(
        stream,
        "POST {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    let first = head.lines().next().unwrap_or_default();
    if !first.contains(" 200 ") {
        bail!("{first}: {body}");
    }
    Ok(serde_json::from_str(body)?)
}

/// So many bytes `x`, in base 64.
fn base_64_of_x(bytes: usize) -> String {
    let rest = match bytes % 3 {
        0 => "",
        1 => "eA==",
        _ => "eHg=",
    };
    "eHh4".repeat(bytes / 3) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_rate_and_percentiles() {
        let text = "\nSummary:\n  Total:\t1.1 secs.\n  Requests/sec:\t734.2100\n\nLatency distribution:\n  \
            10% in 0.0009 secs.\n  50% in 0.0013 secs.\n  99% in 0.0032 secs.\n  99.9% in 0.0102 secs.\n";
        let figures = summary(text).unwrap();
        assert_eq!(figures.get("ops_per_s"), Some(734.2));
        assert_eq!(figures.get("p50_ms"), Some(1.3));
        assert_eq!(figures.get("p99_ms"), Some(3.2));
        assert_eq!(figures.get("p999_ms"), Some(10.2));
    }

    #[test]
    fn a_run_with_errors_has_no_figures() {
        let text = "Requests/sec: 7\n50% in 1 secs.\n99% in 1 secs.\n99.9% in 1 secs.\n";
        assert!(summary(text).is_some());
        let failed = format!("{text}Error distribution:\n  [3]\tcontext deadline exceeded\n");
        assert!(summary(&failed).is_none());
        assert!(summary("nothing").is_none());
        let few = summary("Requests/sec: 7\n50% in 1 secs.\n").unwrap();
        assert_eq!((few.get("p50_ms"), few.get("p99_ms")), (Some(1000.0), None));
    }
}
