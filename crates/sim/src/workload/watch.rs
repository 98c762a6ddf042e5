//! The observers: the witness, and what each process counted at its end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use formats::{LogId, Speaks};
use node::Node;
use ops::Op;
use paxos::PromisedTerm;

use super::coverage::Coverage;
use crate::client::Ledger;
use crate::disk::SimDisk;
use crate::host::{HostId, Process};
use crate::scenario::Scenario;
use crate::witness::Witness;
use crate::world::{Watch, World};

pub(super) struct Watcher {
    coverage: Rc<RefCell<Coverage>>,
    witness: Witness,
    /// The versions that the running nodes speak, or spoke last.
    programs: BTreeMap<HostId, Speaks>,
    /// Casting votes that were waited for, each log's last.
    waited_for: BTreeMap<LogId, PromisedTerm>,
}

impl Watcher {
    pub fn new(scenario: &Scenario, coverage: Rc<RefCell<Coverage>>, ledger: Ledger) -> Watcher {
        let mut witness = Witness::of(ledger);
        if let Some(host) = scenario.damaged_node() {
            witness.excuse(host);
        }
        Watcher {
            coverage,
            witness,
            programs: BTreeMap::new(),
            waited_for: BTreeMap::new(),
        }
    }
}

impl Watch for Watcher {
    fn on_op(&mut self, host: HostId, op: &Op, number: u64) {
        self.witness.on_op(host, op, number);
    }

    fn on_disk_done(&mut self, host: HostId, number: u64, done: bool) {
        self.witness.on_disk_done(host, number, done);
    }

    fn on_last_look(&mut self, _host: HostId, process: &dyn Process) {
        self.coverage.borrow_mut().take(process);
    }

    fn on_end(&mut self, host: HostId, disk: &SimDisk) {
        self.witness.on_end(host, disk);
    }

    fn on_start(&mut self, host: HostId, process: Option<&dyn Process>) {
        if let Some(process) = process {
            self.witness.on_start(host, process);
        }
        let machine = process.map(|process| process as &dyn std::any::Any);
        if let Some(node) = machine.and_then(|machine| machine.downcast_ref::<Node>()) {
            let speaks = node.versions().speaks;
            let before = self.programs.insert(host, speaks);
            let others = self.programs.values().any(|other| *other != speaks);
            let goes_back = before.is_some_and(|before| before.newest() > speaks.newest());
            self.coverage.borrow_mut().on_program(others, goes_back);
        }
        let is_node = process.is_none_or(|process| {
            let process: &dyn std::any::Any = process;
            process.is::<Node>()
        });
        if is_node {
            self.coverage.borrow_mut().on_start(process.is_some());
        }
    }

    fn on_copied(&mut self, host: HostId) {
        self.witness.on_copied(host);
    }

    fn on_put_back(&mut self, host: HostId) {
        self.witness.on_put_back(host);
    }

    fn after_step(&mut self, host: HostId, world: &World) {
        self.witness.after_step(host, world);
        let node = world.machine::<Node>(host);
        let views = node.into_iter().flat_map(Node::log_views);
        for view in views.filter(|view| view.waits_for_its_casting_vote()) {
            if self.waited_for.insert(view.id, view.promised) != Some(view.promised) {
                self.coverage.borrow_mut().on_casting_vote_waited_for();
            }
        }
    }

    fn when_whole(&mut self, hosts: &[HostId], world: &World) {
        self.witness.check_whole(hosts, world);
    }
}
