//! Failures of other systems, as scripts: hand-written faults at exact moments. docs/scenarios.md has the
//! list, with the tests at other levels.

// A scenario that is run with rules broken on purpose is no test of its own then (tests/directed_mutations.rs).
#![cfg_attr(feature = "mutations", expect(dead_code))]

mod caller;
mod model;
mod patrons;
mod porters;
mod rebuilt;
mod small_writes;
mod stage;
mod still;
mod verdict;

mod abandoned;
mod auxiliary;
mod certificates;
mod claims;
mod clients;
mod clusters;
mod copies;
mod crossings;
mod directory;
mod doors;
mod doorstep;
mod drawn;
mod durability;
mod elections;
mod followers;
mod gone;
mod grammar;
mod gray;
mod guests;
mod halted;
mod handed;
mod health;
mod histories;
mod hosted;
mod hosts;
mod large_reads;
mod lists;
mod logs;
mod memory;
mod min_copies;
mod moves;
mod names;
mod overtaken;
mod past;
mod promises;
mod readers;
mod reconfiguration;
mod recovery;
mod removals;
mod revocations;
mod rooms;
mod saved;
mod scrub;
mod spaces;
mod spares;
mod stories;
mod streamed;
mod tickets_shown;
mod tokens;
mod tokens_ending;
mod tokens_joining;
mod tokens_passing;
mod trims;
mod truths;
mod unread;
mod versions;
