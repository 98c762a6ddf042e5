//! A cluster on this machine: nodes as child processes, each with a directory and a port.
//!
//! ```text
//!   prepare ──► launch ──► wait_ready ──► kill · pause · go_on · terminate · restart ──► stop | end
//!   (ports)     (children)                usage · status · leader · wait_level          (no more)
//! ```
//!
//! ```no_run
//! # use std::time::Duration;
//! # use client::{Client, Timeouts};
//! # use testbed::cluster::{LocalCluster, LocalOptions};
//! # fn show(directory: std::path::PathBuf) -> anyhow::Result<()> {
//! let cluster = LocalCluster::start(LocalOptions::new(directory, 3))?;
//! cluster.wait_ready(Duration::from_secs(20))?;
//! let client = Client::new(cluster.addresses(), Timeouts::default());
//! let leader = cluster.leader("main").expect("a cluster that is ready has one");
//! cluster.kill(leader)?;
//! cluster.restart(leader)?;
//! # let _ = client;
//! # Ok(())
//! # }
//! ```
//!
//! Nodes are numbered from 1, and a node's number here is its id in the cluster. Every method takes
//! `&self`, so that a thread that handles signals can end the cluster while another uses it.
//!
//! Nobody outlives anybody: dropping ends the children with SIGKILL, and each asks the kernel to be
//! killed when the *thread* that started it ends. So launch and restart from a thread that lives as
//! long as the cluster is to live, such as the main one.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use anyhow::{Context, Result, bail};
use client::admin::{LogStatus, Status};
use client::{Client, Timeouts, Transport};
use linux::LinuxDisk;
use rustix::process::{Pid, Signal, kill_process};
use store::Manifest;

use crate::port;

/// The interval at which we look whether something we wait for has happened.
const POLL: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// Holds `node-1`, `node-2` … and their logs. Made if it does not exist; a cluster found in it
    /// is started again.
    pub directory: PathBuf,
    pub nodes: u32,
    /// Node n listens on port `base + n - 1`. `None`: on ports that are free now.
    pub port_base: Option<u16>,
    /// Given to every node after our own arguments, such as `--catch-up-rate 1G`.
    pub arguments: Vec<String>,
    /// The level at which nodes log, as LOGBERG_LOG says it. `None`: as it says for us, or `info`.
    pub log: Option<String>,
    /// Nodes log to our standard error and not to `node-N.log`.
    pub logs_shown: bool,
    /// Once this is true, whatever waits for nodes fails.
    pub interrupted: Arc<AtomicBool>,
    /// Each node's disk fails as [`LocalCluster::fault_file`] says. Only the nodes of `logberg-lab` can be
    /// told so, with `--faults`.
    pub fault_files: bool,
    /// The program that the nodes run, such as an earlier release. `None`: our own.
    pub program: Option<PathBuf>,
    /// How many nodes get a vote by themselves. `None`: all.
    pub voters: Option<u32>,
    /// Where node 1, then node 2 … run. None: all on loopback, below the directory.
    pub hosts: Vec<Host>,
    /// The port of loopback on which node 1, then node 2 … serves keys. Empty: none does.
    pub kv_ports: Vec<u16>,
    /// … serves streams over HTTP. Empty: none does.
    pub http_ports: Vec<u16>,
    /// Given to node 1 alone, then to node 2 …, after those of all.
    pub own_arguments: Vec<Vec<String>>,
    /// The nodes are asked at the sockets in their directories, and not where they listen.
    pub is_asked_at_sockets: bool,
    /// By which the nodes are asked. `None`: in plain text.
    pub transport: Option<Arc<dyn Transport>>,
}

/// A place for a node: a namespace of its own, for example.
#[derive(Clone, Debug)]
pub struct Host {
    /// `HOST:PORT`
    pub address: String,
    /// The words that start a program there, before its own: `nsenter --net=…`.
    pub enter: Vec<String>,
    /// Its directory.
    pub data: PathBuf,
    /// Given to this node alone, after those of all.
    pub arguments: Vec<String>,
}

impl LocalOptions {
    pub fn new(directory: impl Into<PathBuf>, nodes: u32) -> Self {
        Self {
            directory: directory.into(),
            nodes,
            port_base: None,
            arguments: Vec::new(),
            log: None,
            logs_shown: false,
            interrupted: Arc::default(),
            fault_files: false,
            program: None,
            voters: None,
            hosts: Vec::new(),
            kv_ports: Vec::new(),
            http_ports: Vec::new(),
            own_arguments: Vec::new(),
            is_asked_at_sockets: false,
            transport: None,
        }
    }
}

pub struct LocalCluster {
    options: LocalOptions,
    /// The addresses of node 1, then node 2 …; they stay the same for the cluster's life.
    addresses: Vec<String>,
    /// The addresses that the nodes are told of the others. Empty: those at which they listen.
    advertised: Vec<String>,
    /// The addresses that clients of keys are told. Empty: those at which the nodes serve keys.
    advertised_kv: Vec<String>,
    /// In the order of the addresses.
    nodes: Mutex<Nodes>,
}

#[derive(Default)]
struct Nodes {
    /// `None`: not started, or ended and told so.
    children: Vec<Option<Child>>,
    /// Nothing is started any more.
    ended: bool,
}

/// A node that ended without being asked to.
#[derive(Debug)]
pub struct Ended {
    pub node: u32,
    pub status: ExitStatus,
    /// The last words in its log, if there are any.
    pub last_words: Option<String>,
}

impl LocalCluster {
    /// Prepares and launches.
    pub fn start(options: LocalOptions) -> Result<Self> {
        let cluster = Self::prepare(options)?;
        cluster.launch()?;
        Ok(cluster)
    }

    /// Chooses ports and makes the directory; starts nothing.
    pub fn prepare(options: LocalOptions) -> Result<Self> {
        let directory = &options.directory;
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let addresses = match (options.hosts.as_slice(), options.port_base) {
            ([], Some(base)) => on_loopback(&port::from_base(base, options.nodes)?),
            ([], None) => on_loopback(&port::free(options.nodes)?),
            (hosts, _) => {
                assert_eq!(hosts.len(), options.nodes as usize, "one for each node");
                hosts.iter().map(|host| host.address.clone()).collect()
            }
        };
        Ok(Self {
            addresses,
            advertised: Vec::new(),
            advertised_kv: Vec::new(),
            nodes: Mutex::new(Nodes {
                children: (0..options.nodes).map(|_| None).collect(),
                ended: false,
            }),
            options,
        })
    }

    /// From now on nodes and clients are told these addresses, in the order of the nodes: those of
    /// proxies, for example. To be called before the first launch.
    pub fn advertise(&mut self, addresses: Vec<String>) {
        assert_eq!(addresses.len(), self.addresses.len(), "one for each node");
        self.advertised = addresses;
    }

    /// As [`LocalCluster::advertise`], for clients of keys.
    pub fn advertise_kv(&mut self, addresses: Vec<String>) {
        assert_eq!(addresses.len(), self.addresses.len(), "one for each node");
        self.advertised_kv = addresses;
    }

    /// Starts every node. Returns once each has its id; they may still be looking for each other.
    ///
    /// Nodes that have no directory yet join one after the other, because a cluster gives out ids in
    /// the order of joining.
    pub fn launch(&self) -> Result<()> {
        let (known, new): (Vec<u32>, Vec<u32>) = self.ids().partition(|id| self.node_exists(*id));
        for id in &known {
            self.restart(*id)?;
        }
        for id in new {
            // Should the first directory be lost, a second cluster must not begin beside the others.
            let begin = match (id, known.is_empty()) {
                (1, true) => Begin::Bootstrap,
                _ => Begin::Join,
            };
            self.spawn(id, begin)?;
            self.wait_joined(id, Duration::from_secs(20))?;
        }
        Ok(())
    }

    /// So many nodes come to vote on the logs that there are from the start.
    fn voters(&self) -> u32 {
        let nodes = self.options.nodes;
        self.options
            .voters
            .map_or(nodes, |voters| voters.min(nodes))
    }

    fn ids(&self) -> impl Iterator<Item = u32> + use<> {
        1..=self.options.nodes
    }

    /// Nodes that start from now on are given these in the place of [`LocalOptions::arguments`].
    pub fn give_arguments(&mut self, arguments: Vec<String>) {
        self.options.arguments = arguments;
    }

    pub fn directory(&self) -> &Path {
        &self.options.directory
    }

    pub fn node_directory(&self, id: u32) -> PathBuf {
        match self.host(id) {
            Some(host) => host.data.clone(),
            None => self.options.directory.join(format!("node-{id}")),
        }
    }

    fn host(&self, id: u32) -> Option<&Host> {
        self.options.hosts.get(self.at(id))
    }

    pub fn node_log(&self, id: u32) -> PathBuf {
        self.options.directory.join(format!("node-{id}.log"))
    }

    pub fn fault_file(&self, id: u32) -> PathBuf {
        self.options.directory.join(format!("node-{id}.faults"))
    }

    /// Whether the node's directory holds one, sound or not.
    pub fn node_exists(&self, id: u32) -> bool {
        let found = Manifest::load(&mut LinuxDisk::new(), &self.node_directory(id));
        !matches!(found, Ok(None))
    }

    /// `HOST:PORT` of each node, in the order of their ids; running or not.
    pub fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    pub fn address(&self, id: u32) -> &str {
        &self.addresses[self.at(id)]
    }

    /// Where this node is asked by whoever judges it: where it listens, or its socket.
    pub fn asked_at_of(&self, id: u32) -> String {
        match self.options.is_asked_at_sockets {
            true => format!("unix:{}/admin.sock", self.node_directory(id).display()),
            false => self.address(id).to_owned(),
        }
    }

    /// The same of all, in the order of their ids.
    pub fn asked_at(&self) -> Vec<String> {
        self.ids().map(|id| self.asked_at_of(id)).collect()
    }

    fn told_address(&self, id: u32) -> &str {
        let advertised = self.advertised.get(self.at(id));
        advertised.map_or_else(|| self.address(id), String::as_str)
    }

    fn at(&self, id: u32) -> usize {
        assert!(
            (1..=self.options.nodes).contains(&id),
            "this cluster has no node {id}"
        );
        id as usize - 1
    }

    fn lock(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The beginning of a node whose directory holds nothing. Otherwise it changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    Bootstrap,
    Join,
}

/// Starting and ending processes.
impl LocalCluster {
    /// Starts a node on its directory again. Does not wait for it to answer.
    pub fn restart(&self, id: u32) -> Result<()> {
        self.spawn(id, Begin::Join)
    }

    fn spawn(&self, id: u32, begin: Begin) -> Result<()> {
        let program = match &self.options.program {
            Some(program) => program.clone(),
            None => std::env::current_exe().context("cannot find our own program")?,
        };
        let mut command = match self.host(id).map(|host| host.enter.as_slice()) {
            Some([first, rest @ ..]) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
            _ => Command::new(program),
        };
        for (name, _) in std::env::vars_os() {
            // Variables set for this command are not meant for the nodes.
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("LOGBERG_") && name != "LOGBERG_LOG" {
                command.env_remove(name);
            }
        }
        match &self.options.log {
            Some(level) => {
                command.env("LOGBERG_LOG", level);
            }
            None if std::env::var_os("LOGBERG_LOG").is_none() => {
                command.env("LOGBERG_LOG", "info");
            }
            None => {}
        }
        command.arg("node");
        command.arg(format!("--die-with-parent={}", std::process::id()));
        command.arg("--data").arg(self.node_directory(id));
        command.arg("--listen").arg(self.address(id));
        if !self.advertised.is_empty() {
            command.arg("--advertise").arg(self.told_address(id));
        }
        if self.options.fault_files {
            command.arg("--faults").arg(self.fault_file(id));
        }
        match begin {
            Begin::Bootstrap => {
                let voters = self.options.voters.unwrap_or(self.options.nodes);
                command.args(["--bootstrap", "--voters", &voters.to_string()]);
            }
            Begin::Join => {
                let others = self.ids().filter(|other| *other != id);
                let others: Vec<&str> = others.map(|other| self.told_address(other)).collect();
                // A cluster of one has nobody to join, and nothing to do so for.
                if !others.is_empty() {
                    command.args(["--join", &others.join(",")]);
                }
            }
        }
        if let Some(port) = self.options.kv_ports.get(self.at(id)) {
            command.arg("--kv").arg(format!("127.0.0.1:{port}"));
        }
        if let Some(port) = self.options.http_ports.get(self.at(id)) {
            command.arg("--http").arg(format!("127.0.0.1:{port}"));
        }
        if let Some(told) = self.advertised_kv.get(self.at(id)) {
            command.arg("--kv-advertise").arg(told);
        }
        command.args(&self.options.arguments);
        command.args(self.host(id).iter().flat_map(|host| &host.arguments));
        let own = self.options.own_arguments.get(id as usize - 1);
        command.args(own.into_iter().flatten());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        if !self.options.logs_shown {
            let path = self.node_log(id);
            let log = File::options().create(true).append(true).open(&path);
            let log = log.with_context(|| format!("cannot write {}", path.display()))?;
            command.stderr(log);
        }
        // Ctrl-C in a terminal goes to our process group: ending the nodes is our business.
        command.process_group(0);
        let mut nodes = self.lock();
        if nodes.ended {
            bail!("the cluster is being ended");
        }
        let slot = &mut nodes.children[self.at(id)];
        assert!(slot.is_none(), "node {id} is running already");
        *slot = Some(
            command
                .spawn()
                .with_context(|| format!("cannot start node {id}"))?,
        );
        Ok(())
    }

    /// Ends a node with SIGKILL, and returns once it is gone. A node that is gone stays gone.
    pub fn kill(&self, id: u32) -> Result<()> {
        if let Some(mut child) = self.lock().children[self.at(id)].take() {
            kill_and_wait(&mut child).with_context(|| format!("cannot kill node {id}"))?;
        }
        Ok(())
    }

    /// Ends every node with SIGKILL at once, so that none does anything more for the death of another.
    /// They can be restarted.
    pub fn kill_all(&self) -> Result<()> {
        let mut nodes = self.lock();
        for child in nodes.children.iter_mut().flatten() {
            child.kill().context("cannot kill a node")?;
        }
        for slot in &mut nodes.children {
            if let Some(mut child) = slot.take() {
                child.wait().context("cannot wait for a node")?;
            }
        }
        Ok(())
    }

    /// Ends a node with SIGTERM: it hands over leadership, flushes and goes.
    ///
    /// Errors: it has not gone when the time is over; it is then left as it is.
    pub fn terminate(&self, id: u32, timeout: Duration) -> Result<ExitStatus> {
        self.signal(id, Signal::TERM)?;
        let deadline = Instant::now() + timeout;
        loop {
            let mut nodes = self.lock();
            let slot = &mut nodes.children[self.at(id)];
            let Some(child) = slot else {
                bail!("node {id} was ended by somebody else");
            };
            if let Some(status) = child.try_wait()? {
                *slot = None;
                return Ok(status);
            }
            drop(nodes);
            if Instant::now() >= deadline {
                bail!("node {id} did not stop within {timeout:?}");
            }
            thread::sleep(POLL);
        }
    }

    /// Stops a node where it is (SIGSTOP): it is there, and says nothing.
    pub fn pause(&self, id: u32) -> Result<()> {
        self.signal(id, Signal::STOP)
    }

    /// Lets a paused node go on (SIGCONT).
    pub fn go_on(&self, id: u32) -> Result<()> {
        self.signal(id, Signal::CONT)
    }

    fn signal(&self, id: u32, signal: Signal) -> Result<()> {
        let nodes = self.lock();
        let Some(child) = &nodes.children[self.at(id)] else {
            bail!("node {id} is not running");
        };
        // Not waited for yet, so its number can belong to nobody else.
        kill_process(Pid::from_child(child), signal)
            .with_context(|| format!("cannot signal node {id}"))
    }

    /// The nodes that have ended by themselves since the last call.
    pub fn take_ended(&self) -> Result<Vec<Ended>> {
        let mut ended = Vec::new();
        let mut nodes = self.lock();
        for (id, slot) in self.ids().zip(&mut nodes.children) {
            let Some(child) = slot else { continue };
            if let Some(status) = child.try_wait()? {
                *slot = None;
                let last_words = self.last_words(id);
                ended.push(Ended {
                    node: id,
                    status,
                    last_words,
                });
            }
        }
        Ok(ended)
    }

    /// Ends every node gracefully and for good: SIGTERM to all, and to those that have not gone
    /// when the time is over, SIGKILL. Returns whether all went by themselves.
    pub fn stop(&self, timeout: Duration) -> bool {
        self.lock().ended = true;
        let deadline = Instant::now() + timeout;
        for id in self.ids() {
            // It may have ended already.
            let _ = self.signal(id, Signal::TERM);
            let _ = self.go_on(id);
        }
        let mut all_went = true;
        for id in self.ids() {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.pid(id).is_some() {
                all_went &= self.wait_gone(id, left);
            }
        }
        self.end();
        all_went
    }

    fn wait_gone(&self, id: u32, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            let gone = match &mut self.lock().children[self.at(id)] {
                None => true,
                Some(child) => !matches!(child.try_wait(), Ok(None)),
            };
            if gone {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(POLL);
        }
    }

    /// Ends every node with SIGKILL and for good; none is left when it returns.
    pub fn end(&self) {
        let mut nodes = self.lock();
        nodes.ended = true;
        // All first, so that none takes over from another in vain.
        for child in nodes.children.iter_mut().flatten() {
            let _ = child.kill();
        }
        for slot in &mut nodes.children {
            if let Some(mut child) = slot.take() {
                let _ = child.wait();
            }
        }
    }
}

fn on_loopback(ports: &[u16]) -> Vec<String> {
    let addresses = ports.iter().map(|port| format!("127.0.0.1:{port}"));
    addresses.collect()
}

fn kill_and_wait(child: &mut Child) -> io::Result<ExitStatus> {
    child.kill()?;
    child.wait()
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        self.end();
    }
}

/// Looking at processes.
impl LocalCluster {
    /// Returns `None` if the node does not run.
    pub fn pid(&self, id: u32) -> Option<u32> {
        self.lock().children[self.at(id)].as_ref().map(Child::id)
    }

    pub fn pids(&self) -> Vec<Option<u32>> {
        self.ids().map(|id| self.pid(id)).collect()
    }

    /// The end of the node's log, to say why it went.
    fn last_words(&self, id: u32) -> Option<String> {
        let log = fs::read(self.node_log(id)).ok()?;
        let tail = &log[log.len().saturating_sub(4096)..];
        let tail = String::from_utf8_lossy(tail);
        let line = tail.lines().rev().find(|line| !line.trim().is_empty())?;
        let programs = ["logberg: ", "logberg-lab: "];
        let sentence = programs.iter().find_map(|name| line.strip_prefix(name));
        Some(sentence.unwrap_or(line).to_owned())
    }
}

/// Asking nodes.
impl LocalCluster {
    /// A node's own view.
    pub fn status(&self, id: u32) -> Result<Status> {
        let timeouts = Timeouts {
            connect: Duration::from_millis(500),
            silence: Duration::from_secs(1),
            total: Duration::from_secs(1),
        };
        let at = self.asked_at_of(id);
        let client = Client::new(vec![at.clone()], timeouts);
        let client = client.by(self.options.transport.clone());
        Ok(client.status_of(&at)?)
    }

    /// The leader of a log, by the newest term that the running nodes tell. `None` if that leader does not run.
    pub fn leader(&self, log: &str) -> Option<u32> {
        let running = self.ids().filter(|id| self.pid(*id).is_some());
        let accounts = running.filter_map(|id| {
            let status = self.status(id).ok()?;
            let log = log_of(&status, log)?;
            Some((term(&log.term), log.leader? as u32))
        });
        let (_, leader) = accounts.max()?;
        (self.ids().any(|id| id == leader) && self.pid(leader).is_some()).then_some(leader)
    }

    /// Waits until every running node knows its peers, the leader of every log, and lacks nothing;
    /// and until the log `main` has all nodes as voters, or as many as get a vote by themselves.
    pub fn wait_ready(&self, timeout: Duration) -> Result<()> {
        self.wait(timeout, "the cluster is not ready", || self.why_not_ready())
    }

    fn why_not_ready(&self) -> Option<String> {
        for id in self.ids().filter(|id| self.pid(*id).is_some()) {
            let status = match self.status(id) {
                Ok(status) => status,
                Err(error) => return Some(format!("node {id} does not answer: {error:#}")),
            };
            if let Some(what) = status.waiting_for.first() {
                return Some(format!("node {id} waits for {what}"));
            }
            let Some(main) = log_of(&status, "main") else {
                return Some(format!("node {id} does not know the log main"));
            };
            let voters = main.weights.iter().filter(|weight| weight.weight > 0);
            if voters.count() < self.voters() as usize {
                return Some("too few nodes are voters of the log main yet".to_owned());
            }
            for log in &status.logs {
                if log.leader.is_none() {
                    return Some(format!("node {id} knows no leader of the log {}", log.name));
                }
                if log.missing_bytes > 0 {
                    let missing = log.missing_bytes;
                    return Some(format!(
                        "node {id} lacks {missing} bytes of the log {}",
                        log.name
                    ));
                }
            }
        }
        None
    }

    /// Waits until every node holds the whole log, and knows the same of it to be chosen. Nobody
    /// may append meanwhile. `progress` is told the largest number of bytes a node lacks.
    pub fn wait_level(
        &self,
        log: &str,
        timeout: Duration,
        mut progress: impl FnMut(u64),
    ) -> Result<()> {
        self.wait(timeout, "not every node holds everything", || {
            let mut chosen = Vec::new();
            for id in self.ids() {
                let status = match self.status(id) {
                    Ok(status) => status,
                    Err(error) => return Some(format!("node {id} does not answer: {error:#}")),
                };
                let Some(log) = log_of(&status, log) else {
                    return Some(format!("node {id} does not know the log {log}"));
                };
                if log.missing_bytes > 0 {
                    progress(log.missing_bytes);
                    return Some(format!("node {id} lacks {} bytes", log.missing_bytes));
                }
                chosen.push((log.first_unchosen, log.output_bytes));
            }
            let level = chosen.windows(2).all(|pair| pair[0] == pair[1]);
            (!level).then(|| "the nodes do not know the same to be chosen yet".to_owned())
        })
    }

    fn wait_joined(&self, id: u32, timeout: Duration) -> Result<()> {
        self.wait(
            timeout,
            &format!("node {id} has not joined"),
            || match self.status(id) {
                Ok(status) if status.node == u64::from(id) => None,
                Ok(status) if status.node == 0 => Some("it has no id yet".to_owned()),
                Ok(status) => Some(format!("it was given the id {}", status.node)),
                Err(error) => Some(format!("it does not answer: {error:#}")),
            },
        )
    }

    /// Asks `why_not` until it has nothing to say. A node that ends meanwhile is an error.
    fn wait(
        &self,
        timeout: Duration,
        what: &str,
        mut why_not: impl FnMut() -> Option<String>,
    ) -> Result<()> {
        let deadline = Instant::now() + timeout;
        loop {
            let Some(why) = why_not() else { return Ok(()) };
            if let Some(ended) = self.take_ended()?.into_iter().next() {
                bail!("{}", ended.sentence());
            }
            if self.options.interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            if Instant::now() >= deadline {
                bail!("{what} after {} s: {why}", timeout.as_secs());
            }
            thread::sleep(POLL);
        }
    }
}

impl Ended {
    pub fn sentence(&self) -> String {
        let Self { node, status, .. } = self;
        match &self.last_words {
            Some(words) => format!("node {node} ended ({status}); it said last: {words}"),
            None => format!("node {node} ended ({status})"),
        }
    }
}

pub fn log_of<'a>(status: &'a Status, name: &str) -> Option<&'a LogStatus> {
    status.logs.iter().find(|log| log.name == name)
}

/// `era.number.owner`, in an order that can be compared.
fn term(text: &str) -> Vec<u64> {
    text.split('.')
        .map(|part| part.parse().unwrap_or(0))
        .collect()
}
