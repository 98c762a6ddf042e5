//! What heartbeats carry besides what they are for.

use std::cell::RefCell;
use std::rc::Rc;

use node::Speaks;
use node::format::Heartbeat;
use node::format::frame::{CONTROL_PREFIX, Frame, decode_control_body, decode_control_prefix};
use node::op::Op;

use super::{build, wait_until_whole};
use crate::disk::SimDisk;
use crate::host::{HostId, Process};
use crate::scenario::Scenario;
use crate::swarm::Swarm;
use crate::world::{Watch, World};

#[derive(Default)]
struct Counts {
    heartbeats: u64,
    /// Those that say what is wrong, if anything is.
    telling: u64,
    warnings: usize,
}

struct Counting(Rc<RefCell<Counts>>);

impl Counting {
    fn on_heartbeat(&self, heartbeat: &Heartbeat) {
        let mut counts = self.0.borrow_mut();
        counts.heartbeats += 1;
        if let Some(warnings) = &heartbeat.warnings {
            counts.telling += 1;
            counts.warnings += warnings.len();
        }
    }

    fn on_control(&self, mut rest: &[u8]) {
        while let Some((prefix, after)) = rest.split_first_chunk::<CONTROL_PREFIX>() {
            let prefix = decode_control_prefix(Speaks::ALL, prefix).expect("a frame's");
            let (body, after) = after.split_at(prefix.body_length());
            if let Frame::Heartbeat(heartbeat) =
                decode_control_body(&prefix, body).expect("what a node sends")
            {
                self.on_heartbeat(&heartbeat);
            }
            rest = after;
        }
    }
}

impl Watch for Counting {
    fn on_op(&mut self, _host: HostId, op: &Op, _number: u64) {
        if let Op::Send { slices, .. } = op {
            let control = slices.iter().filter(|slice| slice.starts_with(b"LBct"));
            control.for_each(|slice| self.on_control(slice));
        }
    }

    fn on_disk_done(&mut self, _host: HostId, _number: u64, _done: bool) {}
    fn on_last_look(&mut self, _host: HostId, _process: &dyn Process) {}
    fn on_end(&mut self, _host: HostId, _disk: &SimDisk) {}
    fn on_start(&mut self, _host: HostId, _process: Option<&dyn Process>) {}
    fn after_step(&mut self, _host: HostId, _world: &World) {}
    fn when_whole(&mut self, _hosts: &[HostId], _world: &World) {}
}

/// Over a slow network warnings in each of them made heartbeats so late that healthy nodes took each
/// other for silent, which is one more warning.
#[test]
fn heartbeats_seldom_say_what_is_wrong() {
    let scenario = Scenario {
        logs: vec!["main".to_owned()],
        readers_per_writer: 0,
        bytes_per_writer: 1_000,
        swarm: Swarm::calm(),
        ..Scenario::draw(1)
    };
    let mut cluster = build(&scenario);
    wait_until_whole(&mut cluster).expect("nothing hinders it");
    let third = cluster.nodes[2];
    cluster.world.crash(third);
    let counts: Rc<RefCell<Counts>> = Rc::default();
    cluster.world.watch = Some(Box::new(Counting(counts.clone())));
    cluster.world.run_for(10_000_000, u64::MAX);
    let counts = counts.borrow();
    let (heartbeats, telling) = (counts.heartbeats, counts.telling);
    assert!(counts.warnings > 0, "one node is dead, and nobody says so");
    assert!(
        4 * telling < heartbeats,
        "{telling} of {heartbeats} heartbeats say what is wrong"
    );
}
