//! The JSON that follows `ok`, as far as two sides use it. Fields that an older node does not say have a
//! default, and additional fields of a newer node are passed over.

mod health;
mod logs;
mod members;
mod moved;
mod rows;
mod scrub;
mod slots;
mod status;
mod streams;
mod tokens;

pub use health::{Health, State, Warning};
pub use logs::{DeletedLog, LogDetails, LogInfo, Retained};
pub use members::{Log, Member, Members, Node, Planned, PlannedLog, weights};
pub use moved::Moved;
pub use rows::{Filled, Saving};
pub use scrub::{ScrubDifference, ScrubReport, ScrubView};
pub use slots::{
    SlotsChanged, SlotsGroup, SlotsMove, SlotsPart, SlotsRun, SlotsTold, SlotsUnderWay,
};
pub use status::{Altered, LogStatus, MarkInfo, NodeStatus, PeerStatus, StateInfo, Status, Weight};
pub use streams::{Continues, StreamEnd, StreamInfo, Trimmed};
pub use tokens::{AuthTold, ChangeTold, Explained, IssuerTold, TokenTold, WhoTold};
