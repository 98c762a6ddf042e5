//! The commands, one module each. A new one is a module and a line in the list below.

use anyhow::Result;
use clap::Subcommand;

use crate::arguments::Global;

macro_rules! commands {
    ($($(#[$doc:meta])* $module:ident $name:ident),* $(,)?) => {
        $(mod $module;)*

        #[derive(Debug, Subcommand)]
        pub enum Command {
            $($(#[$doc])* $name($module::Arguments),)*
        }

        impl Command {
            pub fn is_node(&self) -> bool {
                matches!(self, Self::Node(_))
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
    status Status,
    log Log,
    node Node,
    dev Dev,
    verify Verify,
    bench Bench,
}
