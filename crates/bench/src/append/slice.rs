//! One slice: a cluster, by TLS or not, or its floor, started on an empty directory, loaded, and gone.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use client::{Client, Timeouts};
use hdrhistogram::Histogram;
use serde::Serialize;

use super::{Arguments, recycled};
use crate::batches;
use crate::bed::Bed;
use crate::certificates::Certificates;
use crate::disk::Disk;
use crate::figures::Figures;
use crate::floor_cluster::FloorCluster;
use crate::load::Plan;
use crate::measure::{Load, Measured, Moment};
use crate::raw::Way;
use crate::roles::Watched;
use testbed::cluster::log_of;
use testbed::scratch::{Scratch, go_on};
use testbed::watch::sleep_until;

/// After each slice.
pub const REST: Duration = Duration::from_secs(1);

/// The setting that all slices of a run have in common.
pub struct Setting<'a> {
    pub arguments: &'a Arguments,
    pub plan: Plan,
    /// Those that are written come first.
    pub logs: Vec<String>,
    pub warm_up: Duration,
    pub length: Duration,
}

#[derive(Clone, Debug, Serialize)]
pub struct Slice {
    #[serde(flatten)]
    pub figures: Figures,
    pub over_time: Vec<Moment>,
    #[serde(skip)]
    pub micros: Histogram<u64>,
}

impl Slice {
    fn new(measured: Measured, mean_batch_bytes: Option<f64>) -> Slice {
        let mut figures = Figures::of(&measured);
        if let Some(bytes) = mean_batch_bytes {
            figures.add("mean_batch_bytes", bytes.round());
        }
        Slice {
            figures,
            over_time: measured.moments,
            micros: measured.micros,
        }
    }
}

impl Setting<'_> {
    fn written(&self) -> &[String] {
        &self.logs[..self.arguments.clients as usize]
    }

    /// The disk space that one slice needs: its files are gone before the next.
    pub fn bytes_needed(&self) -> u64 {
        // More than the disks we know take through one file system; and padding of small batches.
        const FLAT_OUT: f64 = 1e9;
        const PADDING: f64 = 25e6;
        const IDLE_LOG: u64 = 1 << 20;
        let arguments = self.arguments;
        let rate = arguments.rate.map_or(FLAT_OUT, |rate| rate as f64 * 1.1);
        let seconds = (self.warm_up + self.length).as_secs_f64() + 1.0;
        let padding = PADDING * f64::from(arguments.clients);
        let per_node = (rate + padding).min(FLAT_OUT) * seconds;
        let idle = IDLE_LOG * self.logs.len() as u64 * u64::from(arguments.nodes);
        let per_node = match arguments.recycled {
            true => (recycled::BYTES_PER_NODE * u64::from(arguments.clients)) as f64,
            false => per_node,
        };
        (per_node * f64::from(arguments.copies())) as u64 + idle
    }

    /// Also says how the nodes write.
    pub fn cluster(
        &self,
        scratch: &Scratch,
        certificates: Option<&Certificates>,
    ) -> Result<(Slice, String)> {
        go_on()?;
        let directory = scratch.path().join("cluster");
        let (nodes, auxiliaries) = (self.arguments.nodes, self.arguments.auxiliaries());
        let arguments = self.arguments.moving.arguments();
        let bed = match certificates {
            Some(certificates) => {
                Bed::start_secured(&directory, nodes, auxiliaries, (arguments, certificates))?
            }
            None => Bed::start_with(&directory, nodes, auxiliaries, arguments)?,
        };
        bed.create(&self.logs)?;
        if self.arguments.recycled {
            recycled::prepare(&bed.client, self.written())?;
        }
        let measured = self.measure(&bed.client, &bed.watched(self.written())?)?;
        let first = &self.logs[0];
        let leader = bed.cluster.leader(first);
        let leader = leader.context("the cluster has no leader")?;
        let status = bed.cluster.status(leader)?;
        let log = log_of(&status, first).context("the leader does not know its log")?;
        let log_directory = format!("log-{}", log.id);
        let log_directory = bed.cluster.node_directory(leader).join(log_directory);
        if self.arguments.recycled {
            recycled::check(log, &log_directory)?;
        }
        let batch = batches::mean_bytes(&log_directory)?;
        drop(bed);
        retire(scratch, &directory)?;
        Ok((Slice::new(measured, batch), status.write_path))
    }

    /// As many processes as there are copies, and the cluster's quorum.
    pub fn floor(&self, scratch: &Scratch) -> Result<Slice> {
        go_on()?;
        let directory = scratch.path().join("floor");
        let quorum = self.arguments.nodes / 2 + 1;
        let recycled = match self.arguments.recycled {
            true => self.arguments.clients,
            false => 0,
        };
        let copies = self.arguments.copies();
        let moving = &self.arguments.moving;
        let floor = FloorCluster::start(&directory, copies, quorum, recycled, moving)?;
        let client = Client::new(vec![floor.address().to_owned()], Timeouts::default());
        let watched = Watched::new(floor.processes(), Disk::below(scratch.path()));
        let measured = self.measure(&client, &watched)?;
        let batch = batches::mean_bytes(&floor.log_directory())?;
        drop(floor);
        retire(scratch, &directory)?;
        Ok(Slice::new(measured, batch))
    }

    fn measure(&self, client: &Client, watched: &Watched) -> Result<Measured> {
        let way = match (self.arguments.raw_writes, self.arguments.no_checksums) {
            (true, _) => Way::Socket,
            (false, true) => Way::Unchecked,
            (false, false) => Way::Library,
        };
        let load = Load::start_by(way, client, self.written(), &self.plan)?;
        load.measure(self.warm_up, self.length, watched)
    }
}

/// The disk was told of gigabytes of free space; the next slice is not to pay for that.
fn retire(scratch: &Scratch, directory: &Path) -> Result<()> {
    scratch.retire(directory)?;
    sleep_until(Instant::now() + REST)
}
