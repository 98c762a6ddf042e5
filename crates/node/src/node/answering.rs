//! Answers in pieces: the next one, once the last is with the kernel.

use ops::ConnId;
use replica::Rest;

use super::Node;

impl Node {
    pub(crate) fn on_answer_sent(&mut self, conn: ConnId, ok: bool) {
        let Some(rest) = self.env.memory.answers.leave(conn) else {
            return;
        };
        if !ok {
            return self.env.close(conn);
        }
        match rest {
            Rest::Nothing => self.env.part(conn, b""),
            Rest::Line { bytes, at } => self.env.send_line(conn, bytes, at),
            Rest::Streams(id, list) => match self.logs.get_mut(&id) {
                Some(log) => log.send_streams(&mut self.env, conn, list),
                // It was deleted meanwhile.
                None => self.env.reset(conn),
            },
        }
    }
}
