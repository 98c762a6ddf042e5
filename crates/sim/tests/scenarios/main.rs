//! What broke other systems, as scripts: hand-written faults at exact moments. docs/scenarios.md has
//! the list, with the tests at other levels.

mod caller;
mod small_writes;
mod stage;

mod auxiliary;
mod clients;
mod durability;
mod elections;
mod gray;
mod health;
mod logs;
mod memory;
mod promises;
mod readers;
mod reconfiguration;
mod recovery;
mod scrub;
mod trims;
mod versions;
