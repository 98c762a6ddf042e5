//! What any node answers that can pass a barrier of log 0, whether it leads there or follows: `status fresh=1`, `logs`.

use crate::directory::DIRECTORY;
use crate::env::Purpose;
use crate::line::Refusal;
use crate::node::{Asked, Node, Request, Wants};
use crate::op::ConnId;

impl Node {
    /// Answered once this node knows all that is chosen of the directory by now.
    pub(crate) fn tell_fresh(&mut self, conn: ConnId, wants: Wants) -> Result<(), Refusal> {
        self.check_directory()?;
        self.env.conns.insert(conn, Purpose::Request(DIRECTORY));
        self.requests.push(Request {
            conn,
            since: self.env.now,
            asked: Asked::default(),
            wants,
        });
        self.answer_requests();
        Ok(())
    }
}
