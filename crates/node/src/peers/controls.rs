//! Incoming control connections: the bytes that arrived and are no whole frame yet, and their end.

use ops::ConnId;
use paxos::NodeId;
use replica::{Env, Purpose};

use super::{Inbound, Peers};

/// The bytes of unfinished frames that each peer may always have.
const UNFINISHED_FREE: usize = 1 << 20;

impl Peers {
    /// ‡ Bounds the bytes held of frames that are not whole, over all peers together. A peer that exceeds the
    /// bound sends again, when others have ended; a short frame passes always.
    pub fn check_unfinished(&self, env: &Env, conn: ConnId) -> Result<(), String> {
        let held = |control: &Inbound| control.held();
        let own = self.controls.get(&conn).map_or(0, held);
        if own <= UNFINISHED_FREE {
            return Ok(());
        }
        let all: usize = self.controls.values().map(held).sum();
        match all <= env.limits.unfinished_bytes_max {
            true => Ok(()),
            false => Err(format!(
                "frames that are not whole take {all} bytes, of which {own} are this peer's"
            )),
        }
    }

    /// Ends connections of peers that began a frame and did not end it in time.
    pub fn expire_frames(&mut self, env: &mut Env) {
        let (now, within) = (env.now, env.limits.unfinished_timeout);
        let late = self.controls.iter();
        let late = late.filter(|(_, control)| control.is_late(now, within));
        for conn in late.map(|(conn, _)| *conn).collect::<Vec<_>>() {
            match env.conns.purpose(conn) {
                Some(Purpose::ControlIn(peer)) => {
                    tracing::warn!(
                        peer = peer.0,
                        "a frame is not whole in time: the peer's control connection is closed"
                    );
                    self.end_control(env, conn, peer);
                }
                Some(Purpose::GuestIn(guest)) => {
                    self.part_from_guest(env, guest);
                }
                _ => _ = self.controls.remove(&conn),
            }
        }
    }

    pub fn end_control(&mut self, env: &mut Env, conn: ConnId, peer: NodeId) {
        self.controls.remove(&conn);
        env.close(conn);
        let state = self.get_or_add(peer);
        if state.admission.on_ended(conn) {
            self.shorten(env, peer);
        }
    }

    pub fn part_from_guest(&mut self, env: &mut Env, guest: NodeId) {
        let Some(guest) = self.guests.here.remove(&guest) else {
            return;
        };
        for conn in guest.conns() {
            self.controls.remove(&conn);
            env.close(conn);
        }
    }
}
