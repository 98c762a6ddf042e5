//! `--wait`: until each node goes by what was changed.

use client::Client;
use client::admin::{Heard, NodeStatus};
use terminal::exit::{Failure, Kind};

/// Waits until each node has heard; `done`: what was changed, for people. Returns the ids of the nodes.
///
/// Errors: some have not. They are named, each with why.
pub fn wait(client: &Client, nodes: &[NodeStatus], done: &str) -> Result<Vec<u64>, Failure> {
    let heard = client.wait_heard(nodes);
    let lack: Vec<String> = heard.iter().filter_map(lacks).collect();
    if lack.is_empty() {
        return Ok(heard.iter().map(|one| one.node).collect());
    }
    let sentence = format!(
        "{done}, and not every node is known to have heard: {}; until then each of them goes by what it knew: start or reconnect them, and repeat the command",
        lack.join(", ")
    );
    Err(Failure::new(Kind::NotInForce, sentence))
}

/// What is said behind the change, where it was waited for.
pub fn said(heard_by: Option<&[u64]>) -> String {
    match heard_by.map(<[u64]>::len) {
        None => String::new(),
        Some(1) => "; its node has heard".to_owned(),
        Some(count) => format!("; all {count} nodes have heard"),
    }
}

fn lacks(heard: &Heard) -> Option<String> {
    let why = heard.why_not.as_ref()?;
    Some(format!("node {} at {} {why}", heard.node, heard.address))
}
