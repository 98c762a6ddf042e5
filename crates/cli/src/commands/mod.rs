//! The commands, one module each. A new one is a module, and a line in the list at the end.

use anyhow::Result;
use clap::Subcommand;

use crate::arguments::Global;

// Not by the macro, which rustfmt does not look into.
mod append;
mod backup;
mod bench;
mod demo;
mod dev;
mod doctor;
mod leader;
mod log;
mod members;
mod node;
mod read;
mod recover;
mod restore;
mod scrub;
mod sim;
mod status;
mod streams;
mod torture;
mod trim;
mod verify;

macro_rules! commands {
    ($($(#[$doc:meta])* $module:ident $name:ident),* $(,)?) => {
        #[derive(Debug, Subcommand)]
        pub enum Command {
            $($(#[$doc])* $name($module::Arguments),)*
        }

        impl Command {
            /// What it logs unless somebody asks for more or less. A simulated node is in trouble all
            /// the time.
            pub fn usual_log(&self) -> &'static str {
                match self {
                    Self::Node(_) => "info",
                    Self::Sim(_) => "off",
                    _ => "warn",
                }
            }

            pub fn run(self, global: &Global) -> Result<()> {
                match self { $(Self::$name(arguments) => arguments.run(global),)* }
            }
        }
    };
}

commands! {
    demo Demo,
    append Append,
    read Read,
    streams Streams,
    trim Trim,
    status Status,
    log Log,
    leader Leader,
    members Members,
    node Node,
    dev Dev,
    scrub Scrub,
    backup Backup,
    restore Restore,
    doctor Doctor,
    verify Verify,
    recover Recover,
    bench Bench,
    sim Sim,
    torture Torture,
}
