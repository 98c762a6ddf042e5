//! `status fresh=1`: what this node sees, once it knows all that is chosen of the directory.

use super::Answer;
use crate::directory::DIRECTORY;
use crate::env::Purpose;
use crate::line::Refusal;
use crate::node::{Asked, Node, Request, Wants};
use crate::op::ConnId;

impl Node {
    /// Any node answers that can pass a barrier of log 0, whether it leads there or follows.
    pub(crate) fn on_fresh_status(&mut self, conn: ConnId) -> Result<(), Refusal> {
        self.check_directory()?;
        self.env.conns.insert(conn, Purpose::Request(DIRECTORY));
        self.requests.push(Request {
            conn,
            since: self.env.now,
            asked: Asked::default(),
            wants: Wants::FreshStatus,
        });
        self.answer_requests();
        Ok(())
    }

    /// The barrier was passed before this is asked.
    pub(super) fn answer_fresh_status(&self) -> Answer {
        Answer::Line(self.status_line().into_bytes())
    }
}
