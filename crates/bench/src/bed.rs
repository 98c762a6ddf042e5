//! A cluster that is ready to be measured: its logs created, led, and at rest.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use client::{AdminError, Client, Timeouts};

use super::certificates::Certificates;
use super::disk::Disk;
use super::roles::{Role, Watched};
use testbed::cluster::{LocalCluster, LocalOptions, log_of};
use testbed::level;

pub struct Bed {
    pub cluster: LocalCluster,
    pub client: Client,
    nodes: u32,
    /// The number of last nodes that are auxiliary in every log we create.
    auxiliaries: u32,
}

const READY: Duration = Duration::from_secs(60);
/// Logs created at the same time.
const AT_ONCE: usize = 8;

impl Bed {
    /// Must be called on a thread that lives as long as the cluster.
    pub fn start(directory: &Path, nodes: u32, auxiliaries: u32) -> Result<Bed> {
        Bed::start_with(directory, nodes, auxiliaries, Vec::new())
    }

    /// With more arguments for each node.
    pub fn start_with(
        directory: &Path,
        nodes: u32,
        auxiliaries: u32,
        arguments: Vec<String>,
    ) -> Result<Bed> {
        let mut options = LocalOptions::new(directory, nodes);
        options.arguments = arguments;
        Bed::of(options, auxiliaries)
    }

    /// Whose connections are all made by TLS.
    pub fn start_secured(
        directory: &Path,
        nodes: u32,
        auxiliaries: u32,
        (arguments, certificates): (Vec<String>, &Certificates),
    ) -> Result<Bed> {
        let mut options = LocalOptions::new(directory, nodes);
        options.arguments = arguments;
        options.own_arguments = (1..=nodes).map(|id| certificates.arguments(id)).collect();
        options.transport = Some(certificates.transport()?);
        // A look that waits for a cluster asks it without certificates.
        options.is_asked_at_sockets = true;
        Bed::of(options, auxiliaries)
    }

    fn of(options: LocalOptions, auxiliaries: u32) -> Result<Bed> {
        let (nodes, transport) = (options.nodes, options.transport.clone());
        let cluster = LocalCluster::start(options)?;
        cluster.wait_ready(READY)?;
        let client = Client::new(cluster.addresses(), Timeouts::default()).by(transport);
        Ok(Bed {
            cluster,
            client,
            nodes,
            auxiliaries,
        })
    }

    /// Returns once each has a leader and all its voters, and the auxiliaries get nothing.
    pub fn create(&self, logs: &[String]) -> Result<()> {
        let last = self.nodes - self.auxiliaries + 1..=self.nodes;
        let auxiliary: Vec<u64> = last.map(u64::from).collect();
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE.min(logs.len()) {
                scope.spawn(|| {
                    while let Some(log) = logs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        match self.client.create_log_with(log, &auxiliary) {
                            // Made, but not yet where we asked for it afterwards.
                            Ok(_) | Err(AdminError::UnknownLog { .. }) => {}
                            Err(error) => {
                                next.store(logs.len(), Ordering::Relaxed);
                                let mut failed = failed.lock().unwrap_or_else(|e| e.into_inner());
                                failed.get_or_insert(error);
                            }
                        }
                    }
                });
            }
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(|e| e.into_inner()) {
            return Err(anyhow::Error::from(error).context("a log could not be created"));
        }
        let addresses = self.cluster.asked_at();
        level::wait_all_ready(&addresses, logs, READY)?;
        if self.auxiliaries > 0 {
            for log in logs {
                level::wait_at_rest(&addresses, log, READY)?;
            }
        }
        Ok(())
    }

    /// A node that leads one of these logs is a leader, whatever else it does.
    pub fn watched(&self, logs: &[String]) -> Result<Watched> {
        let active = self.nodes - self.auxiliaries;
        let mut processes = Vec::new();
        for node in 1..=self.nodes {
            let status = self.cluster.status(node)?;
            let leads = logs.iter().any(|log| {
                log_of(&status, log).is_some_and(|log| log.leader == Some(u64::from(node)))
            });
            let role = match leads {
                true => Role::Leader,
                false if node > active => Role::Auxiliary,
                false => Role::Follower,
            };
            let pid = self.cluster.pid(node);
            processes.push((role, pid.with_context(|| format!("node {node} ended"))?));
        }
        Ok(Watched::new(
            processes,
            Disk::below(self.cluster.directory()),
        ))
    }
}
