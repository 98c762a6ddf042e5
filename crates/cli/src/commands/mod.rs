//! The commands, one module each. A new one is a module, and a line in the list at the end.

use anyhow::Result;
use clap::Subcommand;

use crate::global::Global;

// Not by the macro, which rustfmt does not look into.
mod append;
mod audit;
mod auth;
mod backup;
mod bench;
mod certs;
mod completions;
mod demo;
mod dev;
mod doctor;
mod heard;
mod issuer;
mod kv;
mod leader;
mod log;
mod manual;
mod members;
mod moved;
mod node;
mod read;
mod recover;
mod restore;
mod scrub;
mod status;
mod stream;
mod streams;
mod token;
mod trim;
mod verify;

macro_rules! commands {
    ($($(#[$doc:meta])* $module:ident $name:ident),* $(,)?) => {
        #[derive(Debug, Subcommand)]
        #[allow(clippy::large_enum_variant, reason = "there is one in a process")]
        pub enum Command {
            $($(#[$doc])* $name($module::Arguments),)*
            #[command(hide = true)]
            Sim(moved::Arguments),
            #[command(hide = true)]
            Torture(moved::Arguments),
        }

        impl Command {
            /// The log level of a command unless somebody asks for another: a node logs events off its normal
            /// path, other commands only errors.
            pub fn usual_log(&self) -> &'static str {
                match self {
                    Self::Node(_) => "info",
                    _ => "warn",
                }
            }

            pub fn run(self, global: &Global) -> Result<()> {
                match self {
                    $(Self::$name(arguments) => arguments.run(global),)*
                    Self::Sim(_) => Err(moved::to_the_lab("sim")),
                    Self::Torture(_) => Err(moved::to_the_lab("torture")),
                }
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
    kv Kv,
    stream Stream,
    leader Leader,
    members Members,
    certs Certs,
    token Token,
    issuer Issuer,
    auth Auth,
    audit Audit,
    node Node,
    dev Dev,
    scrub Scrub,
    backup Backup,
    restore Restore,
    doctor Doctor,
    verify Verify,
    recover Recover,
    bench Bench,
    completions Completions,
    manual Manual,
}
