//! The cost of each role: CPU, disk and memory of the leader, the followers and the client apart.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::disk::{Disk, Traffic};
use testbed::process::{Used, peak_rss_bytes, rss_bytes, used};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Leader,
    Follower,
    Auxiliary,
    Client,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Leader, Role::Follower, Role::Auxiliary, Role::Client];

    pub fn name(self) -> &'static str {
        match self {
            Role::Leader => "leader",
            Role::Follower => "follower",
            Role::Auxiliary => "auxiliary",
            Role::Client => "client",
        }
    }
}

/// The processes to be looked at, and the disk that all of them use.
pub struct Watched {
    processes: Vec<(Role, u32)>,
    disk: Option<Disk>,
    /// Counters of bytes, for example of those that readers were given.
    counters: Vec<Arc<AtomicU64>>,
}

pub struct Look {
    at: Instant,
    used: Vec<Used>,
    traffic: Option<Traffic>,
    counted: u64,
}

/// Between two looks.
#[derive(Clone, Debug)]
pub struct Spent {
    pub seconds: f64,
    pub roles: Vec<RoleSpent>,
    /// By everybody who uses the disk.
    pub traffic: Option<Traffic>,
    /// By all counters together.
    pub counted: u64,
}

/// All processes of one role together.
#[derive(Clone, Copy, Debug)]
pub struct RoleSpent {
    pub role: Role,
    pub user: Duration,
    pub system: Duration,
    pub written_bytes: u64,
    /// The peak of the process that had most, since it was started.
    pub peak_rss_bytes: u64,
}

impl Watched {
    /// Our own process, which is the client, is added.
    pub fn new(mut processes: Vec<(Role, u32)>, disk: Option<Disk>) -> Watched {
        processes.push((Role::Client, std::process::id()));
        Watched {
            processes,
            disk,
            counters: Vec::new(),
        }
    }

    pub fn count(&mut self, counter: Arc<AtomicU64>) {
        self.counters.push(counter);
    }

    pub fn look(&self) -> Result<Look> {
        let used = self.processes.iter().map(|(_, pid)| used(*pid));
        Ok(Look {
            at: Instant::now(),
            used: used.collect::<Result<_, _>>().context("a process ended")?,
            traffic: self.disk.as_ref().and_then(Disk::traffic),
            counted: self
                .counters
                .iter()
                .map(|c| c.load(Ordering::Relaxed))
                .sum(),
        })
    }

    /// The present memory of all processes but the client.
    pub fn nodes_rss_bytes(&self) -> Result<u64> {
        let nodes = self
            .processes
            .iter()
            .filter(|(role, _)| *role != Role::Client);
        let bytes = nodes.map(|(_, pid)| rss_bytes(*pid));
        bytes.sum::<Result<u64, _>>().context("a process ended")
    }

    pub fn spent(&self, before: &Look, after: &Look) -> Result<Spent> {
        let mut roles: Vec<RoleSpent> = Vec::new();
        let looks = before.used.iter().zip(&after.used);
        for ((role, pid), (before, after)) in self.processes.iter().zip(looks) {
            let at = match roles.iter().position(|spent| spent.role == *role) {
                Some(at) => at,
                None => {
                    roles.push(RoleSpent {
                        role: *role,
                        user: Duration::ZERO,
                        system: Duration::ZERO,
                        written_bytes: 0,
                        peak_rss_bytes: 0,
                    });
                    roles.len() - 1
                }
            };
            let sum = &mut roles[at];
            sum.user += after.user.saturating_sub(before.user);
            sum.system += after.system.saturating_sub(before.system);
            sum.written_bytes += after.written_bytes.saturating_sub(before.written_bytes);
            sum.peak_rss_bytes = sum.peak_rss_bytes.max(peak_rss_bytes(*pid)?);
        }
        let traffic = before.traffic.zip(after.traffic);
        Ok(Spent {
            seconds: (after.at - before.at).as_secs_f64(),
            roles,
            counted: after.counted - before.counted,
            traffic: traffic.map(|(before, after)| Traffic {
                writes: after.writes.saturating_sub(before.writes),
                written_bytes: after.written_bytes.saturating_sub(before.written_bytes),
                flushes: after.flushes.saturating_sub(before.flushes),
            }),
        })
    }
}

impl Spent {
    pub fn of(&self, role: Role) -> Option<&RoleSpent> {
        self.roles.iter().find(|spent| spent.role == role)
    }

    /// The CPU time of all processes but the client.
    pub fn nodes_cpu(&self) -> Duration {
        let nodes = self.roles.iter().filter(|spent| spent.role != Role::Client);
        nodes.map(|spent| spent.user + spent.system).sum()
    }

    /// … and of the client.
    pub fn all_cpu(&self) -> Duration {
        let all = self.roles.iter();
        all.map(|spent| spent.user + spent.system).sum()
    }
}
