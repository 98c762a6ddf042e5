//! Sending answers in pieces ([`crate::answers`]).

use ops::ConnId;

use super::Env;
use crate::answers::Rest;
use crate::conns::Purpose;

impl Env {
    /// Says a last line, which may be long, and closes.
    pub fn answer(&mut self, conn: ConnId, line: String) {
        // A line that is no longer than a piece is sent at once, as other answers are.
        match line.len() <= self.limits.answer_piece_bytes {
            true => self.part(conn, line.as_bytes()),
            false => self.send_line(conn, line.into_bytes(), 0),
        }
    }

    pub fn send_line(&mut self, conn: ConnId, bytes: Vec<u8>, at: usize) {
        let end = bytes.len().min(at + self.limits.answer_piece_bytes);
        let piece = bytes[at..end].to_vec();
        let rest = match end < bytes.len() {
            true => Rest::Line { bytes, at: end },
            false => Rest::Nothing,
        };
        self.send_piece(conn, &piece, rest);
    }

    /// Sends a piece. Nothing more of this answer is made before the piece is with the kernel.
    pub(crate) fn send_piece(&mut self, conn: ConnId, piece: &[u8], rest: Rest) {
        if !self.conns.is_open(conn) {
            return;
        }
        self.conns.turn_to(conn, Purpose::Answer);
        let kept = match &rest {
            Rest::Line { bytes, .. } => bytes.len(),
            Rest::Nothing | Rest::Streams(..) => 0,
        };
        let held = (piece.len() + kept) as u64;
        self.memory.answers.enter(self.now, conn, rest, held);
        self.send_bytes(conn, piece);
        while let Some(idle) = self.memory.answers.excess(self.limits.answers_bytes_max) {
            self.memory.answers.count_broken();
            self.break_off(idle);
        }
    }

    fn break_off(&mut self, conn: ConnId) {
        self.memory.answers.leave(conn);
        // A clean end might look like that of a whole answer.
        self.reset(conn);
    }

    pub fn expire_answers(&mut self) {
        while let Some(late) = self
            .memory
            .answers
            .late(self.now, self.limits.answer_timeout)
        {
            self.break_off(late);
        }
    }
}
