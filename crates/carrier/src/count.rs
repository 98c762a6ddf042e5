//! A machine whose words to other nodes are counted.

use std::collections::BTreeMap;

use ops::{Completion, ConnId, Machine, Op, Time};

use crate::tally::{Counts, Reading};

/// A node around which the frames to other nodes are counted, and nothing is moved differently.
///
/// Frames go from whoever dials alone, and a node dials only other nodes; so that is where they are counted. The line with which a connection is
/// answered is not.
pub struct Count<'a> {
    node: &'a mut dyn Machine,
    counts: Counts,
    dialled: BTreeMap<ConnId, Reading>,
}

impl<'a> Count<'a> {
    pub fn new(node: &'a mut dyn Machine, counts: Counts) -> Count<'a> {
        Count {
            node,
            counts,
            dialled: BTreeMap::new(),
        }
    }

    fn see(&mut self, op: &Op) {
        match op {
            Op::Connect { conn, .. } => {
                self.dialled.insert(*conn, Reading::new());
            }
            Op::Send { conn, slices } => {
                if let Some(reading) = self.dialled.get_mut(conn) {
                    reading.read(slices, &self.counts);
                }
            }
            Op::Close { conn, .. } | Op::Reset { conn } => {
                self.dialled.remove(conn);
            }
            _ => {}
        }
    }
}

impl Machine for Count<'_> {
    fn handle(&mut self, now: Time, completion: Completion) {
        self.node.handle(now, completion);
    }

    fn on_time(&mut self, now: Time) {
        self.node.on_time(now);
    }

    fn poll_op(&mut self) -> Option<Op> {
        let op = self.node.poll_op()?;
        self.see(&op);
        Some(op)
    }

    fn deadline(&self) -> Option<Time> {
        self.node.deadline()
    }

    fn is_finished(&self) -> bool {
        self.node.is_finished()
    }
}
