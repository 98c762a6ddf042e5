//! Nodes that have nothing to do sleep.

use std::time::Duration;

use ops::{ConnId, Op};
use sim::{Scenario, Swarm, workload};

use crate::support::puppet::puppet;

#[test]
fn a_follower_of_a_log_without_streams_keeps_no_node_awake() {
    let scenario = Scenario {
        logs: Vec::new(),
        swarm: Swarm::calm(),
        ..workload::draw(1)
    };
    let mut cluster = workload::build(&scenario);
    let world = &mut cluster.world;
    world.run_for(Duration::from_secs(5), 1_000_000);
    let reader = puppet(world, "reader");
    let (conn, address) = (ConnId(0), cluster.addresses[0].clone());
    reader.ask(world, Op::Connect { conn, address });
    let request = b"logberg/1 read main follow=1 format=framed stale=1\n";
    reader.send(world, conn, request);
    world.run_for(Duration::from_secs(1), 1_000_000);
    reader.heard();
    let before = world.steps();
    let heard = reader.read(world, conn, 40).expect("it is open");
    let heard = String::from_utf8(heard).expect("lines");
    assert!(
        heard.starts_with("reading from=0 length=0 stale=1"),
        "{heard}"
    );
    world.run_for(Duration::from_secs(4), 1_000_000);
    reader.heard();
    let steps = world.steps() - before;
    assert!(steps < 20_000, "{steps} steps in five seconds of nothing");
    let signs = reader.read(world, conn, 40).expect("it is open");
    let signs = String::from_utf8(signs).expect("lines");
    assert!(signs.contains("data 0 0 00000000\n"), "{signs}");
}
