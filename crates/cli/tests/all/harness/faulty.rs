//! Nodes whose disks fail when they are told to. The program that is shipped has none: this test program is such a
//! node itself, made of the same `serve`, with the switch of `linux` that tests have.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use clap::Parser;
use linux::KernelConfig;
use terminal::exit;
use terminal::program::{LogFormat, start_logging};

/// Names the file that says how the disk fails (`linux/src/fault_file.rs`).
const FAULTS: &str = "FAULTS_OF_THIS_NODE";

#[derive(Parser)]
struct Node {
    #[command(flatten)]
    node: serve::Arguments,
}

/// A command that lacks the node's own arguments.
pub fn node(faults: &Path) -> Command {
    let program = std::env::current_exe().expect("this is a program");
    let mut command = Command::new(program);
    command.args(["--exact", "harness::faulty::child", "--nocapture"]);
    command.args(["--test-threads=1", "--"]);
    command.env(FAULTS, faults);
    command
}

/// Not a test of its own: the process of such a node. It is run as one by [`node`] alone.
#[test]
fn child() {
    let Some(faults) = std::env::var_os(FAULTS) else {
        return;
    };
    let mut kernel = KernelConfig::default();
    kernel.faults.file = Some(faults.into());
    start_logging(LogFormat::Text, "info");
    let own = std::env::args_os().skip_while(|argument| argument != OsStr::new("--"));
    let ran = Node::parse_from(own).node.run(kernel, None);
    std::process::exit(match ran {
        Ok(()) => 0,
        Err(error) => {
            exit::report("logberg", &error, false);
            1
        }
    });
}
