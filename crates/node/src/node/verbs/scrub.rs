//! `scrub`: the progress of a log's scrubs here, and beginning one.

use replica::Purpose;
use wire::Refusal;

use crate::greeting::Caller;
use crate::node::Node;

impl Node {
    /// `scrub NAME [start=1] [rate=BYTES]`
    pub(super) fn scrub_log(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { conn, request, .. } = caller;
        let id = self.log_named(request)?;
        request.check()?;
        let rate = request
            .parsed("rate")?
            .unwrap_or(self.env.limits.scrub_asked_bytes_per_second);
        let start = request.flag("start")?;
        let Some(log) = self.logs.get_mut(&id) else {
            return Ok(());
        };
        if start {
            log.check_leading(&self.env)?;
            log.begin_pass(&self.env, rate.max(1), true);
            self.disk.scrubbing.put_first(id, self.env.now);
        }
        let line = log.scrub_line(&self.env);
        self.env.conns.turn_to(*conn, Purpose::Request(id));
        self.env.part(*conn, line.as_bytes());
        let scrubbing = &mut self.disk.scrubbing;
        scrubbing.pump(&mut self.logs, &mut self.due, &mut self.env);
        Ok(())
    }
}
