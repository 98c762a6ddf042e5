//! The nodes of the demo, and their log.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use terminal::moving::Moving;
use testbed::cluster::{LocalCluster, LocalOptions};

use super::cleanup::Cleanup;

pub const NODES: u32 = 3;
pub const LOG: &str = "main";
const READY_MAX: Duration = Duration::from_secs(30);

/// Starts the nodes, again on other ports if somebody took one in between.
pub fn start(directory: &Path, moving: &Moving, cleanup: &Cleanup) -> Result<Arc<LocalCluster>> {
    let mut attempts = 3;
    loop {
        attempts -= 1;
        let mut options = LocalOptions::new(directory, NODES);
        options.arguments = moving.arguments();
        let cluster = LocalCluster::prepare(options)?;
        let cluster = Arc::new(cluster);
        cleanup.cluster(cluster.clone());
        let ready = cluster
            .launch()
            .and_then(|()| cluster.wait_ready(READY_MAX));
        match ready {
            Ok(()) => return Ok(cluster),
            Err(error) if attempts > 0 && format!("{error:#}").contains("is in use") => {
                cluster.end();
                for id in 1..=NODES {
                    // A beginning must not be taken for a cluster of other addresses.
                    let _ = std::fs::remove_dir_all(cluster.node_directory(id));
                    let _ = std::fs::remove_file(cluster.node_log(id));
                }
            }
            Err(error) => return Err(error),
        }
    }
}
