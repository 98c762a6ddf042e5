//! Real nodes: processes of the binary on loopback, in a directory that goes when the test does.
//!
//! ```no_run
//! let mut cluster = Cluster::start(3);
//! cluster.append("main", &[], Content::new(1, 1_000_000));
//! cluster.nodes[0].kill();
//! cluster.nodes[0].start();
//! cluster.wait_whole();
//! cluster.check_same("main", Content::new(1, 1_000_000));
//! ```
//!
//! Every cluster has a loopback address of its own (127.x.y.z), so that tests never fight for ports.
//! Waiting is for conditions, with deadlines that only a hung test reaches.

// Each test file is a program of its own and uses its part of this.
#![allow(dead_code, unused_imports)]

pub mod content;
pub mod faulty;
pub mod impostor;
pub mod proxy;
pub mod raw;

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub use content::Content;
pub use proxy::{Proxy, Weather};
pub use raw::Raw;

/// Nothing takes so long but what hangs.
pub const LONG: Duration = Duration::from_secs(90);

pub const BINARY: &str = env!("CARGO_BIN_EXE_logberg");

/// A loopback address that nobody else uses: of this process and this call.
pub fn own_ip() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(1);
    let pid = std::process::id();
    let count = COUNTER.fetch_add(1, Ordering::Relaxed) % 254 + 1;
    format!("127.{}.{}.{count}", 1 + (pid >> 8) % 254, pid % 256)
}

/// A directory with all that is in it, as `cp -r` makes it.
pub fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        let kind = entry.file_type().expect("a type");
        if kind.is_socket() {
            continue; // It goes with its process.
        }
        match kind.is_dir() {
            true => copy_tree(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("a copy")),
        }
    }
}

/// Lets the node with that id lead a log. Nodes that were busy may have elected it by themselves, or may not hear
/// each other yet: either is a refusal that says nothing about what is tested.
pub fn lead_with(run: impl Fn(&[&str]) -> Output, log: &str, id: u64) {
    let to = id.to_string();
    let refused = RefCell::new(String::new());
    wait_for(
        || {
            let moved = run(&["leader", "move", log, "--to", &to]);
            *refused.borrow_mut() = err(&moved);
            let leads = refused.borrow().contains("already");
            (leads || moved.status.success()).then_some(())
        },
        || format!("{log} is not led by {id}: {}", refused.borrow()),
    );
}

/// Tries until there is something, and fails with what `why` says after [`LONG`].
pub fn wait_for<T>(mut attempt: impl FnMut() -> Option<T>, why: impl Fn() -> String) -> T {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(done) = attempt() {
            return done;
        }
        assert!(Instant::now() < deadline, "waited in vain: {}", why());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `ok JSON` of a request line, if the node answers so.
pub fn ask(address: &str, request: &str) -> Option<Value> {
    let mut raw = Raw::try_connect(address)?;
    raw.try_send(format!("logberg/1 {request}\n").as_bytes())?;
    let line = raw.try_line()?;
    serde_json::from_str(line.strip_prefix("ok ")?).ok()
}

/// As [`ask`], over the socket in a node's directory: in plain text, whatever its ports speak.
fn ask_socket(data: &Path, request: &str) -> Option<Value> {
    let mut socket = UnixStream::connect(data.join("admin.sock")).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    socket
        .write_all(format!("logberg/1 {request}\n").as_bytes())
        .ok()?;
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).ok()?;
    serde_json::from_str(line.strip_prefix("ok ")?).ok()
}

pub struct Node {
    pub id: u64,
    pub listen: String,
    /// The address at which others find it, if not at `listen`.
    pub advertise: Option<String>,
    pub data: PathBuf,
    pub arguments: Vec<String>,
    /// The limit of open files, if they are to be few.
    pub files_max: Option<u32>,
    /// The file that says what its disk does meanwhile: see [`faulty`].
    pub faults: Option<PathBuf>,
    child: Option<Child>,
}

impl Node {
    pub fn new(data: PathBuf, listen: String, arguments: &[&str]) -> Node {
        Node {
            id: 0,
            listen,
            advertise: None,
            data,
            arguments: arguments.iter().map(ToString::to_string).collect(),
            files_max: None,
            faults: None,
            child: None,
        }
    }

    pub fn address(&self) -> &str {
        self.advertise.as_deref().unwrap_or(&self.listen)
    }

    fn log_path(&self) -> PathBuf {
        self.data.with_extension("stderr")
    }

    /// The words of the node so far, over all its starts.
    pub fn said(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    pub fn command(&self) -> Command {
        let mut command = match (self.files_max, &self.faults) {
            (None, None) => Command::new(BINARY),
            (None, Some(faults)) => faulty::node(faults),
            (Some(most), faults) => {
                assert!(
                    faults.is_none(),
                    "a node with few files has a disk as it is"
                );
                let mut shell = Command::new("sh");
                let script = format!("ulimit -n {most} && exec \"$0\" \"$@\"");
                shell.args(["-c", &script, BINARY]);
                shell
            }
        };
        if self.faults.is_none() {
            command.arg("node");
        }
        command.args(["--die-with-parent", "--listen", &self.listen]);
        command.arg("--data").arg(&self.data).args(&self.arguments);
        // A small disk is no reason to fail a test of something else.
        if !self.arguments.iter().any(|a| a == "--disk-reserve") {
            command.args(["--disk-reserve", "1MiB"]);
        }
        if let Some(advertise) = &self.advertise {
            command.args(["--advertise", advertise]);
        }
        command
            .env_remove("LOGBERG_SERVER")
            .env("LOGBERG_LOG", "info");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    pub fn start(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path());
        let mut command = self.command();
        command.stderr(log.expect("a file for its log"));
        self.child = Some(command.spawn().expect("the binary runs"));
    }

    /// Runs until it ends by itself, as a node that refuses to start does.
    pub fn run(&self) -> Output {
        let mut command = self.command();
        command.stderr(Stdio::piped());
        command.output().expect("the binary runs")
    }

    pub fn is_running(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_some_and(|child| child.try_wait().expect("our child").is_none())
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([name, &self.pid().to_string()])
            .status();
        assert!(sent.expect("there is a kill").success(), "{name}");
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("our child");
            child.wait().expect("our child");
        }
    }

    /// The exit code, once it has ended. `None` is a signal's end.
    pub fn wait(&mut self) -> Option<i32> {
        let mut child = self.child.take().expect("it runs");
        let mut ended = None;
        wait_for(
            || {
                ended = child.try_wait().expect("our child");
                ended
            },
            || format!("node {} does not end\n{}", self.id, self.said()),
        )
        .code()
    }

    pub fn status(&self) -> Option<Value> {
        self.child.as_ref()?;
        match self.arguments.iter().any(|word| word == "--tls") {
            true => ask_socket(&self.data, "status"),
            false => ask(&self.listen, "status"),
        }
    }

    pub fn wait_answers(&self) -> Value {
        wait_for(
            || self.status(),
            || format!("no status from {}\n{}", self.listen, self.said()),
        )
    }

    /// `VmHWM` and the like, in bytes.
    pub fn memory(&self, key: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it lives");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(key))
            .expect("a known key");
        let kib: u64 = line
            .trim_matches(|c: char| !c.is_ascii_digit())
            .parse()
            .expect("a number");
        kib << 10
    }

    /// The segments of a log, in order.
    pub fn segments(&self, log: u32) -> Vec<PathBuf> {
        segments_of(&self.data.join(format!("log-{log}")))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

fn segments_of(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a log's directory");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
    paths.sort();
    paths
}

pub struct Cluster {
    pub directory: TempDir,
    pub ip: String,
    pub nodes: Vec<Node>,
    pub voters: usize,
}

impl Cluster {
    /// Starts so many nodes, all with a vote.
    pub fn start(nodes: usize) -> Cluster {
        let cluster = Cluster::start_with(nodes, nodes, |_| {});
        cluster.wait_whole();
        cluster
    }

    /// `change` may alter a node before its first start. Ids are given in order, from 1.
    pub fn start_with(nodes: usize, voters: usize, mut change: impl FnMut(&mut Node)) -> Cluster {
        let directory = tempfile::tempdir().expect("a place");
        let ip = own_ip();
        let mut cluster = Cluster {
            directory,
            ip,
            nodes: Vec::new(),
            voters,
        };
        for _ in 0..nodes {
            cluster.add(&mut change);
        }
        cluster
    }

    /// One more node, which joins (or is the first); returns when it has its id.
    pub fn add(&mut self, change: impl FnOnce(&mut Node)) {
        let index = self.nodes.len();
        let id = index as u64 + 1;
        let voters = self.voters.to_string();
        let joins = self.nodes.first().map(|first| first.address().to_owned());
        let arguments = match &joins {
            None => vec!["--bootstrap", "--voters", &voters],
            Some(first) => vec!["--join", first],
        };
        let data = self.directory.path().join(format!("node{id}"));
        let mut node = Node::new(data, format!("{}:{}", self.ip, 7000 + id), &arguments);
        node.id = id;
        change(&mut node);
        node.start();
        wait_for(
            || node.status().filter(|status| status["node"] == id),
            || format!("node {id} does not join\n{}", node.said()),
        );
        self.nodes.push(node);
    }

    pub fn servers(&self) -> String {
        let all: Vec<&str> = self.nodes.iter().map(|node| node.listen.as_str()).collect();
        all.join(",")
    }

    /// A command that has nothing on its standard input.
    pub fn logberg(&self, arguments: &[&str]) -> Command {
        logberg(&self.servers(), arguments)
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.logberg(arguments).output().expect("the binary runs")
    }

    /// Its standard output; it must succeed.
    pub fn run_well(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {}\n{}",
            err(&output),
            self.logs()
        );
        out(&output)
    }

    /// The output of `status`, and its exit code: 0, 8 or 3 by the cluster's health.
    pub fn run_status(&self, servers: &str) -> (Option<i32>, String) {
        let output = logberg(servers, &["status", "--timeout", "2"]).output();
        let output = output.expect("the binary runs");
        (output.status.code(), out(&output) + &err(&output))
    }

    /// The answer of one node to `status --json`. A slow machine may be degraded just then: that is exit code 8, and no
    /// fault of the answer.
    pub fn status_by(&self, server: &str) -> Value {
        let output = logberg(server, &["status", "--json"]).output();
        let output = output.expect("the binary runs");
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 8)), "{code:?}: {}", err(&output));
        serde_json::from_str(&out(&output)).expect("JSON")
    }

    pub fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut child = self.spawn(arguments);
        // A program that refuses what it is asked does not read its input either.
        let _ = child.stdin.take().expect("piped").write_all(input);
        child.wait_with_output().expect("it ends")
    }

    pub fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.logberg(arguments);
        command.stdin(Stdio::piped());
        command.spawn().expect("the binary runs")
    }

    /// Appends in the background; the content is generated as it is taken.
    pub fn append_in_background(
        &self,
        log: &str,
        arguments: &[&str],
        content: Content,
    ) -> Appending {
        let mut all = vec!["append", log, "--timeout", "60"];
        all.extend(arguments);
        let mut child = self.spawn(&all);
        let mut pipe = child.stdin.take().expect("piped");
        let feeder = std::thread::spawn(move || {
            // It may end early; how is what its exit code tells.
            let _ = content.write_to(&mut pipe);
        });
        Appending { child, feeder }
    }

    /// Appends and insists on success.
    pub fn append(&self, log: &str, arguments: &[&str], content: Content) {
        let output = self.append_in_background(log, arguments, content).wait();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}\n{}",
            err(&output),
            self.logs()
        );
    }

    /// Every live node's view of every log is the same, complete, and led; the voters vote.
    pub fn wait_whole(&self) {
        let deadline = Instant::now() + LONG;
        loop {
            let Err(why) = self.is_whole() else {
                return;
            };
            assert!(
                Instant::now() < deadline,
                "not whole: {why}\n{}",
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    fn is_whole(&self) -> Result<(), String> {
        let mut views = Vec::new();
        for node in self.nodes.iter().filter(|node| node.child.is_some()) {
            let status = node
                .status()
                .ok_or_else(|| format!("{} is mute", node.listen))?;
            let logs = status["logs"].as_array().cloned().unwrap_or_default();
            let mut view = Vec::new();
            for log in logs {
                let whole = log["missing_bytes"] == 0
                    && log["leader"].is_u64()
                    && log["first_unchosen"] == log["proposed"]
                    && log["weights"]
                        .as_array()
                        .is_some_and(|w| w.len() >= self.voters);
                if !whole {
                    return Err(format!("node {}: {log}", node.id));
                }
                let (leader, weights) = (log["leader"].clone(), log["weights"].clone());
                let chosen = log["first_unchosen"].clone();
                view.push((log["name"].clone(), leader, chosen, weights));
            }
            if !view.iter().any(|(name, ..)| name == "main") {
                return Err(format!("node {} lacks main", node.id));
            }
            views.push((node.id, view));
        }
        match views.windows(2).find(|pair| pair[0].1 != pair[1].1) {
            Some(pair) => Err(format!("views differ: {:?}", pair)),
            None => Ok(()),
        }
    }

    /// The index of the node that leads this log in its own view.
    pub fn leader(&self, log: &str) -> usize {
        wait_for(
            || self.nodes.iter().position(|node| node.leads(log)),
            || format!("nobody leads {log}\n{}", self.logs()),
        )
    }

    /// Lets the node with that id lead a log, whoever leads it now.
    pub fn lead(&self, log: &str, id: u64) {
        lead_with(|words| self.run(words), log, id);
    }

    /// The index of one that does not lead.
    pub fn follower(&self, log: &str) -> usize {
        let leader = self.leader(log);
        let mut others = (0..self.nodes.len()).filter(|index| *index != leader);
        others
            .find(|index| self.nodes[*index].child.is_some())
            .expect("another node")
    }

    /// The bytes that this very node holds of a log are the content's.
    pub fn check_node(&self, index: usize, log: &str, contents: &[Content]) {
        let node = &self.nodes[index];
        let id = node.id.to_string();
        let mut command = self.logberg(&["read", log, "--from-node", &id, "--timeout", "60"]);
        let mut child = command.spawn().expect("the binary runs");
        let mut pipe = child.stdout.take().expect("piped");
        for content in contents {
            let same = content.compare(&mut pipe);
            assert_eq!(same, Ok(()), "{log} at node {id}\n{}", self.logs());
        }
        let more = pipe.read(&mut [0; 1]).expect("a pipe");
        drop(pipe);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(
            output.status.code(),
            Some(0),
            "node {id}: {}\n{}",
            err(&output),
            self.logs()
        );
        assert_eq!(more, 0, "node {id} has more of {log}");
    }

    pub fn check_same(&self, log: &str, contents: &[Content]) {
        for index in (0..self.nodes.len()).filter(|index| self.nodes[*index].child.is_some()) {
            self.check_node(index, log, contents);
        }
    }

    pub fn logs(&self) -> String {
        let tail = |node: &Node| {
            let said = node.said();
            let lines: Vec<&str> = said.lines().collect();
            let from = lines.len().saturating_sub(60);
            format!("-- node {}\n{}\n", node.id, lines[from..].join("\n"))
        };
        self.nodes.iter().map(tail).collect()
    }
}

impl Node {
    pub fn leads(&self, log: &str) -> bool {
        let Some(status) = self.status() else {
            return false;
        };
        let logs = status["logs"].as_array().cloned().unwrap_or_default();
        logs.iter()
            .any(|l| l["name"] == log && l["role"] == "leader")
    }

    /// A field of one log in this node's status.
    pub fn of_log(&self, log: &str, field: &str) -> Option<Value> {
        let status = self.status()?;
        let logs = status["logs"].as_array()?;
        let log = logs.iter().find(|l| l["name"] == log)?;
        log.get(field).cloned()
    }

    /// Bytes of this log that this node knows to be chosen.
    pub fn output_bytes(&self, log: &str) -> u64 {
        self.of_log(log, "output_bytes")
            .and_then(|bytes| bytes.as_u64())
            .unwrap_or(0)
    }
}

pub struct Appending {
    child: Child,
    feeder: std::thread::JoinHandle<()>,
}

impl Appending {
    pub fn wait(self) -> Output {
        let output = self.child.wait_with_output().expect("it ends");
        self.feeder.join().expect("the feeder");
        output
    }
}

pub fn logberg(servers: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command
        .env_remove("LOGBERG_SERVER")
        .env_remove("LOGBERG_LOG");
    command.args(["--server", servers]).args(arguments);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs the command as the user `nobody`, which may write nowhere in particular.
pub fn as_nobody(command: &mut Command) {
    command.uid(65534).gid(65534);
}

pub fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("Uid:"));
    line.is_some_and(|line| line.split_whitespace().nth(2) == Some("0"))
}

pub fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A size in MiB from the environment.
pub fn mebibytes(variable: &str, usual: u64) -> u64 {
    let set = std::env::var(variable).ok();
    set.map_or(usual, |text| text.parse().expect("a number of MiB")) << 20
}
