//! One cell: a fresh cluster, or its floor, loaded and gone.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use bench::bed::Bed;
use bench::disk::Disk;
use bench::floor_cluster::FloorCluster;
use bench::load::{Content, Plan};
use bench::measure::{Load, Measured};
use bench::raw::Way;
use bench::roles::Watched;
use client::{Client, Timeouts};
use terminal::moving::MovingAndInk;
use testbed::scratch::Scratch;

use super::cells::Cell;
use super::report::{LatencyOf, Ours, Who};

pub const NODES: u32 = 3;
pub const AUXILIARIES: u32 = 1;
/// Nodes that hold the bytes, and processes of the floor.
pub const COPIES: u32 = NODES - AUXILIARIES;
const QUORUM: u32 = NODES / 2 + 1;
const WINDOW_BYTES: usize = 16 << 20;

/// The circumstances that all cells of a run share.
pub struct Setting<'a> {
    pub scratch: &'a Scratch,
    pub moving: &'a MovingAndInk,
    pub warm_up: Duration,
    pub length: Duration,
    pub latency: LatencyOf,
}

/// Where bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    Cluster,
    /// The same without agreement.
    Floor,
}

impl Setting<'_> {
    pub fn measure(&self, cell: Cell, who: Who, to: To) -> Result<Ours> {
        let directory = self.scratch.path().join("cell");
        let measured = match to {
            To::Cluster => self.cluster(&directory, cell, who),
            To::Floor => self.floor(&directory, cell, who),
        };
        // A cell that failed leaves its files, too.
        self.scratch.retire(&directory)?;
        Ok(Ours::of(&measured?, cell, self.latency))
    }

    fn cluster(&self, directory: &Path, cell: Cell, who: Who) -> Result<Measured> {
        let bed = Bed::start_with(directory, NODES, AUXILIARIES, self.moving.arguments())?;
        let logs = ["paper".to_owned()];
        bed.create(&logs)?;
        let watched = bed.watched(&logs)?;
        self.load(&bed.client, &logs, cell, who, &watched)
    }

    fn floor(&self, directory: &Path, cell: Cell, who: Who) -> Result<Measured> {
        let floor = FloorCluster::start(directory, COPIES, QUORUM, 0, self.moving)?;
        let client = Client::new(vec![floor.address().to_owned()], Timeouts::default());
        let watched = Watched::new(floor.processes(), Disk::below(self.scratch.path()));
        self.load(&client, &["paper".to_owned()], cell, who, &watched)
    }

    fn load(
        &self,
        client: &Client,
        logs: &[String],
        cell: Cell,
        who: Who,
        watched: &Watched,
    ) -> Result<Measured> {
        let plan = Plan {
            write_bytes: cell.write_bytes as usize,
            rate: cell.rate.bytes_per_second(),
            buffer_bytes: WINDOW_BYTES,
            content: Content::Repeated,
        };
        let way = match who {
            Who::Library => Way::Library,
            Who::Raw => Way::Socket,
        };
        let load = Load::start_by(way, client, logs, &plan)?;
        load.measure(self.warm_up, self.length, watched)
    }
}
