//! The floor's processes: followers first, then the leader, which is told of them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;
use linux::{Ink, Kernel, KernelConfig};

use super::floor::{Floor, spares};
use super::roles::Role;
use terminal::moving::MovingAndInk;
use terminal::show;

/// One process of the floor; `bench append` starts it.
#[derive(Debug, Args)]
#[command(
    hide = true,
    after_help = "Example: logberg bench floor-node --data d1"
)]
pub struct Arguments {
    #[arg(long)]
    data: PathBuf,
    #[arg(long, value_delimiter = ',')]
    followers: Vec<String>,
    #[arg(long, default_value_t = 1)]
    quorum: usize,
    #[arg(long, default_value_t = 0)]
    recycled: u32,
    #[command(flatten)]
    moving: MovingAndInk,
}

impl Arguments {
    pub fn run(self) -> Result<()> {
        serve_floor(
            self.data,
            self.followers,
            self.quorum,
            self.recycled,
            self.moving,
        )
    }
}

/// Ended with SIGKILL when dropped.
pub struct FloorCluster {
    /// The leader last.
    children: Vec<Child>,
    address: String,
    leader_directory: PathBuf,
}

impl FloorCluster {
    /// `quorum`: on so many of the processes a byte is durable before its ack. `recycled`: so many
    /// logs are written into files that were written before.
    ///
    /// Must be called on a thread that lives as long: the children end with it.
    pub fn start(
        directory: &Path,
        nodes: u32,
        quorum: u32,
        recycled: u32,
        moving: &MovingAndInk,
    ) -> Result<FloorCluster> {
        let mut floor = FloorCluster {
            children: Vec::new(),
            address: String::new(),
            leader_directory: directory.join(format!("floor-{nodes}")),
        };
        let mut followers: Vec<String> = Vec::new();
        for id in 1..=nodes {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["bench", "floor-node", "--data"]);
            command.arg(directory.join(format!("floor-{id}")));
            command.args(["--recycled", &recycled.to_string()]);
            command.args(moving.arguments());
            if id == nodes && !followers.is_empty() {
                command.args(["--followers", &followers.join(",")]);
                command.args(["--quorum", &quorum.to_string()]);
            }
            command.stdin(Stdio::null()).stdout(Stdio::piped());
            let mut child = command.spawn().context("cannot start the floor")?;
            let out = child.stdout.take().context("it was asked for a pipe")?;
            floor.children.push(child);
            let mut address = String::new();
            BufReader::new(out).read_line(&mut address)?;
            if address.is_empty() {
                bail!("a process of the floor ended at its start");
            }
            floor.address = address.trim().to_owned();
            followers.push(floor.address.clone());
        }
        Ok(floor)
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn processes(&self) -> Vec<(Role, u32)> {
        let mut roles: Vec<_> = self
            .children
            .iter()
            .map(|child| (Role::Follower, child.id()))
            .collect();
        if let Some((role, _)) = roles.last_mut() {
            *role = Role::Leader;
        }
        roles
    }

    /// The directory of the leader's first log.
    pub fn log_directory(&self) -> PathBuf {
        self.leader_directory.join("log-1")
    }
}

impl Drop for FloorCluster {
    fn drop(&mut self) {
        // The leader first: it takes a follower's end for a failure.
        for child in self.children.iter_mut().rev() {
            let _ = child.kill();
        }
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

/// Says its address on standard output, and runs until it is ended.
fn serve_floor(
    directory: PathBuf,
    followers: Vec<String>,
    quorum: usize,
    recycled: u32,
    moving: MovingAndInk,
) -> Result<()> {
    if quorum == 0 || quorum > followers.len() + 1 {
        bail!(
            "a quorum of {quorum} is none of {} processes",
            followers.len() + 1
        );
    }
    linux::die_with_parent().context("cannot be tied to the starting process")?;
    linux::raise_file_limit().context("cannot raise the limit on open files")?;
    let config = KernelConfig {
        mover: moving.moving.mover.unwrap_or_default(),
        ink: moving.ink.unwrap_or_default(),
        ..KernelConfig::default()
    };
    let mut kernel = Kernel::new(config).context("cannot set up the event loop")?;
    kernel.disk().create_directory(&directory)?;
    let written = match moving.ink {
        Some(Ink::Ram) => spares::write_in_memory(&mut *kernel.disk(), &directory, recycled)?,
        _ => spares::write(&directory, recycled)?,
    };
    let address = kernel
        .bind("127.0.0.1:0")
        .context("cannot listen")?
        .to_string();
    let mut floor = Floor::new(address.clone(), followers, quorum, directory, written);
    show::print(&address)?;
    kernel.run(&mut floor).context("the event loop failed")?;
    match floor.has_failed() {
        true => bail!("the floor failed; the log says why"),
        false => Ok(()),
    }
}
