//! A network of this process's own, in which each node has a machine's place: a namespace, an address, a cable.
//!
//! ```text
//!   lab (198.18.0.254) ── bridge ──┬── cable 1 ── node 1 (198.18.0.1)
//!    in a namespace that nobody    ├── cable 2 ── node 2 (198.18.0.2)
//!    else is in                    └── …
//! ```
//!
//! *pull*: the bridge's end of a cable goes down, as when somebody pulls it. *cut*: from one node to another, packets
//! go to a hardware address that nobody has; the other direction is as it was.
//!
//! Everything is in namespaces that end with the last process in them: nothing of it is left on the machine, also
//! when all are killed. The addresses are those that RFC 2544 (§ C.2.2) gives to tests.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// Names, for the process that is inside, the network that it came from.
const CAME_FROM: &str = "LOGBERG_IN_NAMESPACES";
const BRIDGE: &str = "lgbridge";
const NOBODY: &str = "02:00:00:00:00:fe";
const PORT: u16 = 7117;
const TOOLS: [&str; 6] = ["ip", "unshare", "nsenter", "mount", "umount", "mkfs.ext4"];

/// The tools and rights that are missing here, as a sentence. `None`: [`enter`] is going to work.
pub fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it takes root: run it with sudo".to_owned());
    }
    let lacks = |tool: &&str| Command::new(tool).arg("--version").output().is_err();
    // `ip` does not know --version, and is there all the same.
    let lacking: Vec<&str> = TOOLS.into_iter().filter(lacks).collect();
    if !lacking.is_empty() {
        return Some(format!(
            "it takes {}, which are not here: install the packages iproute2, util-linux, mount and e2fsprogs",
            lacking.join(", ")
        ));
    }
    let tried = Command::new("unshare")
        .args(OWN)
        .args([
            "sh",
            "-c",
            "mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip link add lgtry type veth",
        ])
        .output();
    match tried {
        Ok(Output { status, .. }) if status.success() => None,
        Ok(Output { stderr, .. }) => Some(format!(
            "this machine does not let us make network namespaces, mounts and cables of our own ({}): run it where that \
             is allowed, such as a virtual machine or a privileged container",
            String::from_utf8_lossy(&stderr).trim()
        )),
        Err(error) => Some(format!("unshare cannot be run: {error}")),
    }
}

const OWN: [&str; 4] = ["--net", "--mount", "--propagation=private", "--"];

/// Goes on as the same program, with the same arguments, in namespaces of its own; returns inside them.
///
/// Errors: they cannot be had.
pub fn enter() -> Result<()> {
    let network =
        std::fs::read_link("/proc/self/ns/net").context("cannot read /proc/self/ns/net")?;
    // The variable alone proves nothing: a process that makes cables in the machine's own network would harm others.
    if std::env::var_os(CAME_FROM).is_some_and(|before| network != before) {
        return Ok(());
    }
    let program = std::env::current_exe().context("cannot find our own program")?;
    let error = Command::new("unshare")
        .args(OWN)
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(CAME_FROM, network)
        .exec();
    Err(error).context("cannot run unshare")
}

/// The places of some nodes. They are taken away when this is dropped.
pub struct Namespaces {
    nodes: u32,
}

impl Namespaces {
    /// To be called inside ([`enter`]).
    pub fn make(nodes: u32) -> Result<Namespaces> {
        // The first time: over what others have there, whose mount we do not touch.
        if ip(&format!("link show {BRIDGE}")).is_err() {
            std::fs::create_dir_all("/run/netns").context("cannot make /run/netns")?;
            run("mount", "-t tmpfs none /run/netns")?;
            ip("link set lo up")?;
            ip(&format!("link add {BRIDGE} type bridge"))?;
            ip(&format!("addr add 198.18.0.254/24 dev {BRIDGE}"))?;
            ip(&format!("link set {BRIDGE} up"))?;
        }
        let all = Namespaces { nodes };
        for id in 1..=nodes {
            ip(&format!("netns add node-{id}"))?;
            ip(&format!(
                "link add cable-{id} type veth peer name eth0 netns node-{id}"
            ))?;
            ip(&format!("link set cable-{id} master {BRIDGE} up"))?;
            all.in_node(id, &format!("addr add 198.18.0.{id}/24 dev eth0"))?;
            all.in_node(id, "link set eth0 up")?;
            all.in_node(id, "link set lo up")?;
        }
        Ok(all)
    }

    /// `HOST:PORT`
    pub fn address(&self, id: u32) -> String {
        format!("198.18.0.{id}:{PORT}")
    }

    /// The words that start a program in the node's place, before its own.
    pub fn enter_words(&self, id: u32) -> Vec<String> {
        vec![
            "nsenter".to_owned(),
            format!("--net=/run/netns/node-{id}"),
            "--".to_owned(),
        ]
    }

    pub fn pull(&self, id: u32) -> Result<()> {
        ip(&format!("link set cable-{id} down"))
    }

    pub fn plug_in(&self, id: u32) -> Result<()> {
        ip(&format!("link set cable-{id} up"))
    }

    /// Packets of the one no longer reach the other.
    pub fn cut(&self, from: u32, to: u32) -> Result<()> {
        self.in_node(
            from,
            &format!("neigh replace 198.18.0.{to} lladdr {NOBODY} dev eth0 nud permanent"),
        )
    }

    /// Ends that. The kernel asks for the right hardware address with the next packet.
    pub fn join(&self, from: u32, to: u32) -> Result<()> {
        self.in_node(from, &format!("neigh del 198.18.0.{to} dev eth0"))
    }

    fn in_node(&self, id: u32, words: &str) -> Result<()> {
        ip(&format!("-n node-{id} {words}"))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for id in 1..=self.nodes {
            // Its cables go with it. Should it not go, it goes with the process.
            let _ = ip(&format!("link del cable-{id}"));
            let _ = ip(&format!("netns del node-{id}"));
        }
    }
}

fn ip(words: &str) -> Result<()> {
    run("ip", words)
}

fn run(program: &str, words: &str) -> Result<()> {
    let output = Command::new(program)
        .args(words.split_whitespace())
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{program} {words}` failed: {}", said.trim());
    }
    Ok(())
}
