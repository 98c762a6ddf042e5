//! Three processes, each a node with the machine, and what they are told.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use client::admin::LogStatus;
use client::{Client, Timeouts};
use rustix::fs::{Advice, fadvise};

use super::callers::Figures;
use super::orders::{Answer, Order};
use super::rows::Rows;
use testbed::cluster::log_of;
use testbed::level;
use testbed::scratch::go_on;

pub const NODES: u32 = 3;
/// The log of the machine.
pub const GUEST: &str = "guest";
/// A log beside it, for raw appends.
pub const RAW: &str = "raw";
/// A log that is as busy as the machine's, and has no machine.
pub const OTHER: &str = "other";

const READY: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);
/// Between two submits that nobody took, while a leader is looked for.
const BETWEEN_TRIES: Duration = Duration::from_millis(2);

pub struct Cluster {
    directory: PathBuf,
    addresses: Vec<String>,
    rows: Rows,
    flush_bytes: u64,
    /// In the order of the addresses; none where it is dead.
    nodes: Vec<Option<Node>>,
}

struct Node {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Node {
    fn ask(&mut self, order: &Order) -> Result<Answer> {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        self.orders
            .write_all(line.as_bytes())
            .context("it takes no orders")?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer)? {
            0 => bail!("it ended"),
            _ => serde_json::from_str(&answer).with_context(|| format!("it said {answer:?}")),
        }
    }
}

/// Starting and ending processes. They ask to be killed when the thread that started them ends: it is to live as long as they.
impl Cluster {
    /// Three nodes that vote in all logs, and one that leads all.
    pub fn start(directory: PathBuf, rows: Rows, flush_bytes: u64) -> Result<Cluster> {
        fs::create_dir_all(&directory)?;
        let ports = testbed::port::free(NODES)?;
        let mut cluster = Cluster {
            directory,
            addresses: ports
                .iter()
                .map(|port| format!("127.0.0.1:{port}"))
                .collect(),
            rows,
            flush_bytes,
            nodes: (0..NODES).map(|_| None).collect(),
        };
        for id in 1..=NODES {
            cluster.start_node(id)?;
            level::wait_id(cluster.address(id), id, READY)?;
        }
        cluster.client().create_log(RAW)?;
        cluster.client().create_log(OTHER)?;
        let logs = [GUEST, RAW, OTHER].map(str::to_owned);
        level::wait_all_ready(&cluster.addresses, &logs, READY)?;
        cluster.gather()?;
        Ok(cluster)
    }

    pub fn start_node(&mut self, id: u32) -> Result<()> {
        let own = std::env::current_exe().context("cannot find our own program")?;
        let mut command = Command::new(own);
        for (name, _) in std::env::vars_os() {
            // Variables set for this command are not meant for the nodes.
            if name.to_string_lossy().starts_with("LOGBERG_") && name != "LOGBERG_LOG" {
                command.env_remove(name);
            }
        }
        command.arg("guest-node");
        command.arg("--data").arg(self.node_directory(id));
        command.arg("--listen").arg(self.address(id));
        if id > 1 {
            command.arg("--join").arg(self.address(1));
        }
        command.args(["--parent", &std::process::id().to_string()]);
        command.args(["--rows", &self.rows.count.to_string()]);
        command.args(["--value-size", &self.rows.value_bytes.to_string()]);
        command.args(["--flush", &self.flush_bytes.to_string()]);
        let mut log = File::options();
        log.create(true).append(true);
        let log = log.open(self.node_log(id))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(log);
        // Ctrl-C in a terminal goes to our process group: ending the nodes is our business.
        command.process_group(0);
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start node {id}"))?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        self.nodes[at(id)] = Some(Node {
            orders: orders.context("a node has no pipe")?,
            answers: BufReader::new(answers.context("a node has no pipe")?),
            child,
        });
        Ok(())
    }

    /// Ends these nodes with SIGKILL, all at once.
    pub fn kill(&mut self, ids: impl Iterator<Item = u32> + Clone) {
        for id in ids.clone() {
            if let Some(node) = &mut self.nodes[at(id)] {
                let _ = node.child.kill();
            }
        }
        for id in ids {
            if let Some(mut node) = self.nodes[at(id)].take() {
                let _ = node.child.wait();
            }
        }
    }

    /// Drops what the page cache has of a node's files. Bytes that a node wrote past it were never there.
    pub fn forget_pages(&self, id: u32) -> Result<()> {
        forget_pages(&self.node_directory(id))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill(1..=NODES);
    }
}

/// Telling nodes.
impl Cluster {
    pub fn ask(&mut self, id: u32, order: &Order) -> Result<()> {
        match self.answer(id, order)? {
            Answer::Failed(why) => Err(anyhow!("node {id}: {why}")),
            Answer::Done | Answer::Counted(_) => Ok(()),
        }
    }

    /// The figures of the load on this node, since they were asked for last.
    pub fn window(&mut self, id: u32) -> Result<Figures> {
        match self.answer(id, &Order::Window)? {
            Answer::Counted(figures) => figures.some(),
            Answer::Failed(why) => bail!("node {id}: {why}"),
            Answer::Done => bail!("node {id} has no figures"),
        }
    }

    fn answer(&mut self, id: u32, order: &Order) -> Result<Answer> {
        go_on()?;
        let node = self.nodes[at(id)].as_mut();
        let node = node.with_context(|| format!("node {id} is dead"))?;
        let answer = node.ask(order);
        answer.with_context(|| self.named(id))
    }

    /// Submits on all nodes until the first of them answers, and returns which. The others may still be looking for it.
    pub fn first_answer(&mut self, patience: Duration) -> Result<(u32, Instant)> {
        let deadline = Instant::now() + patience;
        let is_answered = AtomicBool::new(false);
        let is_answered = &is_answered;
        let answers: Vec<Result<Option<Instant>>> = thread::scope(|scope| {
            let tries = self.nodes.iter_mut().flatten().map(|node| {
                scope.spawn(move || {
                    while !is_answered.load(Ordering::Relaxed) && Instant::now() < deadline {
                        go_on()?;
                        if let Answer::Done = node.ask(&Order::Try)? {
                            let at = Instant::now();
                            is_answered.store(true, Ordering::Relaxed);
                            return Ok(Some(at));
                        }
                        thread::sleep(BETWEEN_TRIES);
                    }
                    Ok(None)
                })
            });
            let tries: Vec<_> = tries.collect();
            let joined = tries.into_iter().map(|thread| match thread.join() {
                Ok(tried) => tried,
                Err(_) => Err(anyhow!("a thread panicked")),
            });
            joined.collect()
        });
        let mut first: Option<(Instant, u32)> = None;
        for (id, answer) in (1..).zip(answers) {
            let at = answer.with_context(|| self.named(id))?;
            if let Some(at) = at {
                first = Some(first.map_or((at, id), |known| known.min((at, id))));
            }
        }
        let (at, id) = first
            .with_context(|| format!("no submit was answered within {} s", patience.as_secs()))?;
        Ok((id, at))
    }
}

/// Asking nodes.
impl Cluster {
    pub fn client(&self) -> Client {
        Client::new(self.addresses.clone(), Timeouts::default())
    }

    pub fn address(&self, id: u32) -> &str {
        &self.addresses[at(id)]
    }

    pub fn node_directory(&self, id: u32) -> PathBuf {
        self.directory.join(format!("node-{id}"))
    }

    fn node_log(&self, id: u32) -> PathBuf {
        self.directory.join(format!("node-{id}.log"))
    }

    /// A node, with the last line of its log, for an error.
    fn named(&self, id: u32) -> String {
        let log = fs::read(self.node_log(id)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        match log.lines().rfind(|line| !line.trim().is_empty()) {
            Some(words) => format!("node {id}, which logged last: {words}"),
            None => format!("node {id}"),
        }
    }

    pub fn pid(&self, id: u32) -> Result<u32> {
        let node = self.nodes[at(id)].as_ref();
        let node = node.with_context(|| format!("node {id} is dead"))?;
        Ok(node.child.id())
    }

    /// The node that leads the machine, and leads the logs beside it from now on.
    pub fn gather(&mut self) -> Result<u32> {
        let (leader, _) = self.first_answer(READY)?;
        for log in [RAW, OTHER] {
            if level::leader(&self.addresses, log) != Some(leader) {
                let moved = self.client().move_leader(log, Some(u64::from(leader)));
                if level::leader(&self.addresses, log) != Some(leader) {
                    moved.context("the logs have several leaders")?;
                }
            }
        }
        Ok(leader)
    }

    /// The machine's log, by a node's own account.
    pub fn log(&self, id: u32) -> Option<LogStatus> {
        let status = level::status(self.address(id))?;
        log_of(&status, GUEST).cloned()
    }

    /// Whether a node says that its state is whole, and that it lacks nothing.
    pub fn is_whole(&self, id: u32) -> bool {
        let log = self.log(id);
        log.is_some_and(|log| log.missing_bytes == 0 && log.state.is_some_and(|state| state.whole))
    }

    /// Waits until this node has answered a read, which sees all that was answered before.
    pub fn wait_read(&mut self, id: u32, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        while let Answer::Failed(why) = self.answer(id, &Order::Read)? {
            if Instant::now() > deadline {
                let seconds = patience.as_secs();
                bail!("node {id} answers no read after {seconds} s: {why}");
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Waits until all have.
    pub fn wait_reads(&mut self, patience: Duration) -> Result<()> {
        (1..=NODES).try_for_each(|id| self.wait_read(id, patience))
    }
}

/// The place of a node in a list.
fn at(id: u32) -> usize {
    id as usize - 1
}

fn forget_pages(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => forget_pages(&entry.path())?,
            kind if kind.is_file() => {
                fadvise(&File::open(entry.path())?, 0, None, Advice::DontNeed)?;
            }
            _ => {}
        }
    }
    Ok(())
}
