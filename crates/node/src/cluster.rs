//! The cluster as its directory has it, and this node's acts by it. The node applies log 0, and where it
//! leads that, makes its commands; where it leads other logs, it brings them to what is wanted of them.
//!
//! ```text
//!   log 0 ─ applying ─▶ Directory ─┬─ confirming: is that all there is?
//!     ▲                            ├─ wishing, splitting: newer wishes, auxiliaries, retention  ─▶ logs that it leads
//!     └─ directing: commands ──────┼─ moving, parting: members, one legal step after the other ─▶
//!                                  └─ versions: from one to the next
//! ```

mod applying;
pub mod confirming;
mod directing;
mod moving;
mod parting;
mod splitting;
mod versions;
mod wishing;

use std::collections::BTreeMap;

use commands::{Replica, SessionBounds};
use formats::LogId;
use formats::version::Speaks;

use crate::directory::Directory;
use applying::Directing;
use confirming::Confirming;
use moving::Move;
use parting::Parted;
use splitting::Mark;
use versions::Versioning;
use wishing::Wishing;

pub use applying::News;
pub use directing::directory_members;

pub struct Cluster {
    pub directory: Replica<Directory>,
    directing: Directing,
    confirming: Confirming,
    wishing: Wishing,
    versioning: Versioning,
    parted: Parted,
    /// The logs that this node leads and whose configuration is not the wanted one.
    moves: BTreeMap<LogId, Move>,
    /// The marks of logs that this node leads and that are to have auxiliaries.
    marks: BTreeMap<LogId, Mark>,
}

impl Cluster {
    pub fn new(speaks: Speaks) -> Cluster {
        let directory = Directory {
            speaks,
            ..Directory::default()
        };
        Cluster {
            directory: Replica::new(directory, SessionBounds::default()),
            directing: Directing::default(),
            confirming: Confirming::default(),
            wishing: Wishing::default(),
            versioning: Versioning::default(),
            parted: Parted::default(),
            moves: BTreeMap::new(),
            marks: BTreeMap::new(),
        }
    }
}
