//! The end of this process: its logs are handed over, flushed and closed; or it cannot go on.

use replica::Log;

use super::Node;

impl Node {
    pub(super) fn stop(&mut self) {
        if self.ending.has_begun() {
            self.finish();
            return;
        }
        tracing::info!("stopping: handing over, then flushing");
        self.ending.begin(self.env.now);
        self.env.stopping = true;
        self.abdicate();
        self.rounds.on_tick(self.env.now, true);
    }

    fn abdicate(&mut self) {
        for (id, log) in self.logs.iter_mut() {
            log.abdicate(&mut self.env);
            self.due.touch(*id);
        }
    }

    /// Goes on stopping with every tick, once it was asked to stop.
    pub(super) fn go_on_stopping(&mut self) {
        self.abdicate(); // perhaps nobody could succeed before
        let leaves = |log: &Log| log.may_hand_over() || log.holds_writers();
        let is_leading = self.logs.values().any(leaves);
        let writes = |log: &Log| !log.is_stopped() && log.store().queued_bytes() > 0;
        let is_writing = self.logs.values().any(writes);
        if self.ending.may_close(self.env.now, is_leading, is_writing) {
            self.close_logs();
        }
    }

    /// Closes the logs: nothing is said or taken any more; each log's last record says how far all is durable.
    fn close_logs(&mut self) {
        if self.ending.close(self.env.now) {
            for log in self.logs.values_mut() {
                log.close(&mut self.env);
            }
        }
        let mut open = Vec::new();
        for log in self.logs.values_mut() {
            if !log.is_closed(&mut self.env) {
                open.push(log.name());
            }
        }
        let late = self.ending.closes_late(self.env.now);
        if late && !open.is_empty() && !self.ending.is_finished() {
            tracing::warn!(
                "the disk has not ended what it was told to write for {}: this process keeps its directory until it has; nothing that was acknowledged needs it",
                open.join(", ")
            );
        }
        let is_all_closed = open.is_empty();
        if is_all_closed && self.past.note_ends(&mut self.env, &self.logs) || late {
            self.ending.finish();
        }
    }

    fn finish(&mut self) {
        for log in self.logs.values_mut() {
            log.stop_clients(
                &mut self.env,
                "shutting-down",
                "this node is stopping; ask another",
            );
        }
        self.ending.finish();
    }

    /// Ends this process: nothing is taken, written or said any more.
    pub(super) fn fail(&mut self, why: String) {
        for log in self.logs.values_mut() {
            log.end("this node is stopping");
        }
        self.ending.fail(why);
    }
}
