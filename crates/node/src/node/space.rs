//! Room on this node's disk: the consequences of an answer about it ([`crate::disk::space`]).

use std::io;

use super::Node;
use crate::disk::space::Found;

impl Node {
    pub(super) fn on_space(&mut self, free: io::Result<u64>) {
        let (free, gone) = match self.disk.space.on_answer(free) {
            Found::Nothing => return,
            Found::Room(free) => (free, None),
            Found::LogGone(free, log) => (free, Some(log)),
            Found::NodeGone => {
                return self.fail(format!(
                    "{} is gone: somebody removed or moved this node's directory while it ran, and nothing is acknowledged any more that would go there; put it back, or let a new node join with --join and an empty directory",
                    self.config.directory.display()
                ));
            }
        };
        let busy = self.due.busy().filter_map(|id| self.logs.get(id));
        let queued: u64 = busy.map(|log| log.store().queued_bytes()).sum();
        self.env.room.free_bytes = free.saturating_sub(queued);
        if let Some(log) = gone.and_then(|log| self.logs.get_mut(&log)) {
            log.on_directory_gone(&mut self.env);
            self.due.touch(log.id());
        }
    }
}
