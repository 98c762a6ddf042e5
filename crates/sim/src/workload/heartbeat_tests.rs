//! The additional contents of heartbeats, and the times when heartbeats are said.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use formats::frame::{CONTROL_PREFIX, Frame, decode_control_body, decode_control_prefix};
use formats::{Heartbeat, Speaks};
use ops::{Op, Time};

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
    cluster.world.run_for(Duration::from_secs(10), u64::MAX);
    let counts = counts.borrow();
    let (heartbeats, telling) = (counts.heartbeats, counts.telling);
    assert!(counts.warnings > 0, "one node is dead, and nobody says so");
    assert!(
        4 * telling < heartbeats,
        "{telling} of {heartbeats} heartbeats say what is wrong"
    );
}

/// Times at which some node did something, each a while after the last one.
#[derive(Default)]
struct Moments {
    nodes: Vec<HostId>,
    did_something: bool,
    last: Time,
    count: u64,
}

struct Clock(Rc<RefCell<Moments>>);

impl Watch for Clock {
    fn on_op(&mut self, host: HostId, _op: &Op, _number: u64) {
        let mut moments = self.0.borrow_mut();
        moments.did_something |= moments.nodes.contains(&host);
    }

    fn after_step(&mut self, _host: HostId, world: &World) {
        let mut moments = self.0.borrow_mut();
        if std::mem::take(&mut moments.did_something) {
            let now = world.now();
            moments.count += u64::from(now > moments.last + Duration::from_millis(5));
            moments.last = now;
        }
    }

    fn on_disk_done(&mut self, _host: HostId, _number: u64, _done: bool) {}
    fn on_last_look(&mut self, _host: HostId, _process: &dyn Process) {}
    fn on_end(&mut self, _host: HostId, _disk: &SimDisk) {}
    fn on_start(&mut self, _host: HostId, _process: Option<&dyn Process>) {}
    fn when_whole(&mut self, _hosts: &[HostId], _world: &World) {}
}

/// An idle node costs what its wake-ups cost: heartbeats are said together, and all else that comes again
/// and again is done then too.
#[test]
fn idle_nodes_wake_in_the_same_moments_also_when_the_one_they_follow_dies() {
    let scenario = Scenario {
        logs: vec!["main".to_owned()],
        readers_per_writer: 0,
        bytes_per_writer: 1_000,
        swarm: Swarm::calm(),
        ..Scenario::draw(1)
    };
    let mut cluster = build(&scenario);
    wait_until_whole(&mut cluster).expect("nothing hinders it");
    // Their timers would run together by themselves: they were started in one moment.
    for (node, away_us) in [(2, 113_000), (1, 131_000)] {
        let node = cluster.nodes[node];
        cluster.world.crash(node);
        cluster
            .world
            .run_for(Duration::from_micros(away_us), u64::MAX);
        cluster.world.restart(node).expect("its disk is sound");
    }
    wait_until_whole(&mut cluster).expect("nothing hinders it");
    // Clients end, and memory is given back.
    cluster.world.run_for(Duration::from_secs(5), u64::MAX);
    let moments = Rc::new(RefCell::new(Moments {
        nodes: cluster.nodes.clone(),
        ..Moments::default()
    }));
    cluster.world.watch = Some(Box::new(Clock(moments.clone())));
    for running in [3, 2] {
        let before = moments.borrow().count;
        cluster.world.run_for(Duration::from_secs(20), u64::MAX);
        let count = moments.borrow().count - before;
        assert!(
            (390..=440).contains(&count),
            "{running} nodes that beat 20 times a second wake {count} times in 20 s"
        );
        let first = cluster.nodes[0];
        cluster.world.crash(first);
        cluster.world.run_for(Duration::from_secs(5), u64::MAX);
    }
}
