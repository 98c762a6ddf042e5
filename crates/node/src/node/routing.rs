//! The owner of a completion: for a connection by its purpose, for a disk op by its token.

use std::ops::Range;

use formats::LogId;
use letters::ToNode;
use ops::{Buffer, Completion, ConnId, Letter, MachineId, Received, Token};
use replica::Purpose;

use super::Node;
use crate::tokens;

impl Node {
    /// `node`: the name in the certificate of a node that the other side showed.
    pub(super) fn on_connected(
        &mut self,
        conn: ConnId,
        result: std::io::Result<()>,
        node: Option<String>,
    ) {
        let result = self.check_dialled(conn, result, node);
        let ok = result.is_ok();
        match self.env.conns.purpose(conn) {
            Some(Purpose::ControlOut(peer)) => {
                self.peers.on_connected(&mut self.env, peer, conn, ok);
            }
            Some(Purpose::DataOut(log, peer)) => {
                self.due.touch(log);
                if let Some(log) = self.logs.get_mut(&log) {
                    log.on_data_out_connected(&mut self.env, peer, conn, ok);
                }
            }
            Some(Purpose::FeedOut(log, peer)) => {
                self.due.touch(log);
                if let Some(log) = self.logs.get_mut(&log) {
                    log.on_feed_connected(&mut self.env, peer, conn, ok);
                }
            }
            Some(Purpose::GuestOut(guest)) => {
                let guests = &mut self.peers.guests;
                guests.on_connected(&mut self.env, guest, conn, ok);
            }
            Some(Purpose::JoinOut) => self.on_join_connected(conn, result),
            _ => {}
        }
    }

    pub(super) fn on_sent(&mut self, conn: ConnId, ok: bool) {
        let Some(purpose) = self.env.conns.on_sent(conn) else {
            return;
        };
        let id = match purpose {
            Purpose::Answer => return self.logs.on_answer_sent(&mut self.env, conn, ok),
            Purpose::ControlOut(peer) => {
                return self.peers.on_sent(&mut self.env, peer, conn, ok);
            }
            Purpose::Rows(_) => return self.hosted.on_rows_sent(conn, ok, &mut self.env),
            Purpose::DataOut(log, _)
            | Purpose::FeedOut(log, _)
            | Purpose::Writer(log)
            | Purpose::Reader(log) => log,
            _ => return,
        };
        self.due.touch(id);
        let Some(log) = self.logs.get_mut(&id) else {
            return;
        };
        let env = &mut self.env;
        match purpose {
            Purpose::DataOut(_, peer) => log.on_data_out_sent(env, peer, conn, ok),
            Purpose::FeedOut(_, peer) => log.on_feed_sent(env, peer, conn, ok),
            Purpose::Writer(_) => log.on_writer_sent(env, conn, ok),
            Purpose::Reader(_) => log.on_reader_sent(env, conn, ok),
            _ => {}
        }
    }

    pub(super) fn on_received(
        &mut self,
        conn: ConnId,
        buffer: Buffer,
        range: Range<usize>,
        result: std::io::Result<Received>,
    ) {
        let Some(purpose) = self.env.conns.purpose(conn) else {
            return;
        };
        let count = result.as_ref().map_or(0, |r| r.count);
        let got = range.start..range.start + count;
        match purpose {
            Purpose::Greeting => {
                let env = &mut self.env;
                if let Some(caller) = self
                    .callers
                    .greetings
                    .on_received(env, conn, buffer, result)
                {
                    self.on_caller(caller);
                }
            }
            Purpose::Parting | Purpose::Answer | Purpose::Request(_) => {}
            Purpose::ControlIn(peer) => self.on_control_bytes(conn, peer, buffer, got, result),
            Purpose::ControlOut(peer) => self.on_peer_answered(conn, peer, buffer, got),
            Purpose::GuestIn(guest) => self.on_guest_bytes(conn, guest, buffer, got, result),
            Purpose::GuestOut(guest) => {
                let guests = &mut self.peers.guests;
                guests.on_answered(&mut self.env, guest, conn, buffer, got);
            }
            Purpose::Rows(_) => {
                let ended = !matches!(&result, Ok(received) if !received.end);
                let env = &mut self.env;
                self.hosted.on_rows_received(conn, &buffer[got], ended, env);
            }
            Purpose::JoinOut => self.on_join_received(conn, &buffer[got]),
            Purpose::DataIn(id, _)
            | Purpose::DataOut(id, _)
            | Purpose::FeedOut(id, _)
            | Purpose::Writer(id)
            | Purpose::Reader(id) => {
                self.due.touch(id);
                let Some(log) = self.logs.get_mut(&id) else {
                    return self.env.close(conn);
                };
                let env = &mut self.env;
                match purpose {
                    Purpose::DataIn(..) => log.on_source_received(env, conn, buffer, result),
                    Purpose::DataOut(_, peer) => {
                        log.on_data_out_received(env, peer, conn, buffer, got);
                    }
                    Purpose::FeedOut(_, peer) => {
                        log.on_feed_received(env, peer, conn, buffer, got);
                    }
                    Purpose::Writer(_) => log.on_writer_received(env, conn, buffer, result),
                    Purpose::Reader(_) => log.on_reader_received(env, conn, buffer, result),
                    _ => {}
                }
            }
        }
    }

    pub(super) fn on_letter(&mut self, from: MachineId, letter: Letter) {
        match letter.open::<ToNode>() {
            Ok(wish) => {
                let Some(wish) = self.on_slots_wish(from, wish) else {
                    return;
                };
                let (logs, due) = (&mut self.logs, &mut self.due);
                self.hosted.on_wish(wish, logs, due, &mut self.env);
            }
            Err(letter) => {
                tracing::debug!(?from, ?letter, "a letter that nobody here reads");
            }
        }
    }

    pub(super) fn on_disk(&mut self, token: Token, completion: Completion) {
        if tokens::is_of_node(token) {
            return match completion {
                Completion::Space { result, .. } => self.on_space(result),
                Completion::Done { result, .. } => self.on_written(token, result),
                _ => {}
            };
        }
        if matches!(completion, Completion::Done { .. }) {
            self.disk.space.on_written();
            self.env.moments.written_at = self.env.now;
        }
        let id = LogId((token.0 >> 32) as u32);
        if let Some(log) = self.logs.get_mut(&id) {
            log.on_disk(&mut self.env, completion);
            return self.due.touch(id);
        }
        if self.logs.coming.contains(id) {
            self.logs.coming.on_disk(&self.env, id, completion);
            return self.advance_coming();
        }
        let directory = &self.disk.directory;
        self.logs
            .going
            .on_disk(&mut self.env, directory, id, completion);
    }

    fn on_written(&mut self, token: Token, result: std::io::Result<()>) {
        match token {
            tokens::MANIFEST => self.on_manifest_written(result),
            tokens::PEERS => self.on_peers_written(result),
            tokens::REMOVED => {
                let directory = &self.disk.directory;
                self.logs.going.on_removed(&mut self.env, directory, result);
            }
            tokens::MET => self.on_met_written(result),
            tokens::REFUSED => self.on_refusal_written(result),
            tokens::ENDS => self.on_ends_noted(result),
            _ => {}
        }
    }
}
