//! The seam at which the lab stands between a node and its kernel, in a node that is else the one that is shipped.

use std::net::SocketAddr;

use anyhow::Result;
use linux::{Kernel, PostOffice};
use ops::Machine;
use replica::Limits;
use wire::told::Altered;

/// Changes how the bytes between nodes travel (docs/decisions/0071-carriers-around-the-node.md). Nothing that is shipped has one.
pub trait Carry: Send {
    /// Called before the node starts, when its kernel listens and has connected to nobody.
    fn set_up(&mut self, kernel: &mut Kernel, seat: &Seat) -> Result<()>;
    /// Every timer of the node takes so many times as long, and it may have more voters beside it than a cluster that is run.
    fn pace(&self) -> u32 {
        1
    }

    /// The word for how the bytes travel, as status tells it.
    fn name(&self) -> &'static str;

    /// All that is not as it is shipped, for status.
    fn told(&self) -> Altered {
        Altered {
            carry: self.name().to_owned(),
            time_scale: self.pace(),
            phase_one: "per-term".to_owned(),
        }
    }

    /// Bounds that are not the product's.
    fn adjust(&self, _limits: &mut Limits) {}

    /// The machine that the kernel drives in the node's place.
    fn around<'a>(&'a mut self, node: &'a mut dyn Machine) -> Result<Box<dyn Machine + 'a>>;
}

/// Where a node listens, and gets letters.
pub struct Seat {
    /// As it was said.
    pub listen: String,
    pub bound: SocketAddr,
    pub office: PostOffice,
}
