//! Clients that wait for room: for their commands in a group, and for requests that are not whole in the door's memory.

use std::time::Duration;

use ops::{LENT_BYTES_MAX, Time};

use super::Door;
use crate::answers::error;
use crate::client::{Awaited, Client, WaitsFor};
use crate::large::Large;

/// The unfinished requests of all clients together, in bytes.
const INPUT_BYTES_MAX: usize = 320 << 20;
const TOO_MANY_BYTES: &str = "ERR too many bytes of unfinished requests at this node";
/// While anybody waits, it is looked so often for clients that keep room and are slow.
const SLOW_EVERY: Duration = Duration::from_secs(1);
/// A client has so long for all that it claims, if that is slower than the least pace.
const CLAIMED_SECONDS: u64 = 120;
/// A look that comes so much later judges nobody: the process stood still, and could not receive.
const LATE_AFTER: Duration = Duration::from_millis(500);
/// A client with fewer bytes is not ended for their sake.
const FEW_BYTES: usize = 4 << 10;

impl Door {
    /// Serves a client that stood in line for room in its group.
    pub(super) fn have_turn(&mut self, now: Time, id: u64) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.waits_for.take_if(|what| *what == WaitsFor::Room);
        }
        self.serve(now, id);
        self.settle_client(now, id);
    }

    /// The bytes that a client's unfinished requests take, and what it watches.
    fn held_bytes(&self, client: &Client) -> usize {
        // A value that goes on beside an ending is in memory as before.
        if client.is_ending() {
            return client.large.as_ref().map_or(0, Large::held_bytes);
        }
        let watched = match client.watches {
            true => self.slots.watched.bytes_of(client.id),
            false => 0,
        };
        client.input_bytes() + watched
    }

    /// Counts what this client has sent and is not taken, and what it claims. Where all together is too much, the one that has sent nothing for the
    /// longest has to go.
    pub(super) fn count_input(&mut self, id: u64) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let held = self.held_bytes(client);
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let counted = std::mem::replace(&mut client.counted, held);
        self.input_bytes = self.input_bytes - counted + held;
        let wants = match client.is_ending() {
            true => held,
            false => client.foreseen_bytes(&self.bounds),
        };
        let is_granted = self.claims.change(id, client.claimed, wants);
        if is_granted {
            client.claimed = wants;
        }
        let was_in_line = std::mem::replace(&mut client.is_in_line, !is_granted);
        if was_in_line && is_granted {
            self.claims.leave_line(id);
        }
        if self.input_bytes <= INPUT_BYTES_MAX {
            return;
        }
        let others = self.clients.iter().filter(|(_, client)| {
            !client.is_ending()
                && client.awaited() != Awaited::Nothing
                && client.counted >= FEW_BYTES
        });
        if let Some((id, _)) = others.min_by_key(|(_, client)| client.received_at) {
            tracing::warn!(
                "clients of keys have sent 320 MiB of requests that are not whole: the one who has sent nothing for the longest is disconnected"
            );
            self.end_for_bytes(*id);
        }
    }

    /// Reads on whoever stood in line and has room now, and ends those that keep others waiting.
    pub(super) fn read_on(&mut self, now: Time) {
        loop {
            let mut any = false;
            for id in self.claims.next() {
                self.count_input(id);
                let goes_on = self.clients.get(&id).is_some_and(|one| !one.is_in_line);
                any |= goes_on;
                if goes_on {
                    self.settle_client(now, id);
                }
            }
            if !any {
                break;
            }
        }
        if !self.claims.are_waited_for() {
            self.slow_at = None;
            return;
        }
        if self.slow_at.is_some_and(|at| now < at) {
            return;
        }
        let judges_nobody = self.slow_at.is_none_or(|at| now >= at + LATE_AFTER);
        self.slow_at = Some(now + SLOW_EVERY);
        let least = self.bounds.bytes_per_second_min;
        let mut slow = Vec::new();
        for (id, client) in &mut self.clients {
            // Whoever waits for others can do nothing.
            let may_go_on = client.awaited() != Awaited::Nothing;
            let claims = may_go_on && self.claims.are_needed(client.claimed);
            let moved = client.moved_bytes();
            let had = std::mem::replace(&mut client.had_moved, claims.then_some(moved));
            let least = least.max(client.claimed as u64 / CLAIMED_SECONDS);
            let is_slow = had.is_some_and(|had| moved - had < least);
            if claims && is_slow && !judges_nobody {
                slow.push((*id, client.claimed));
            }
        }
        self.claims.on_look();
        for (id, claimed) in slow {
            self.claims.on_kept(claimed);
            tracing::warn!(
                "a client of keys has begun a large request and sends it too slowly, while others wait: it is disconnected"
            );
            self.end_for_bytes(id);
        }
    }

    /// While others stand in line, whoever claims nothing yet is received in small pieces: ten thousand that come to the line have little each.
    pub(super) fn receive_bytes_max(&self, id: u64) -> usize {
        let client = self.clients.get(&id);
        let has_room = client.is_some_and(|client| self.claims.are_needed(client.claimed));
        match has_room || !self.claims.are_waited_for() {
            true => LENT_BYTES_MAX,
            false => LENT_BYTES_MAX / 8,
        }
    }

    /// Ends a client whose unfinished requests take too much.
    fn end_for_bytes(&mut self, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let too_many = error(TOO_MANY_BYTES);
        let given_up = client.give_large_up();
        self.has_large_left |= given_up.is_some();
        if given_up.is_none() {
            client.answer(&too_many);
        }
        client.end();
        let protocol = client.protocol;
        self.counts.figures.clients_closed.add(1);
        self.ready.insert(id);
        if let Some(number) = given_up {
            self.answer(self.taken_at, id, number, protocol, Some(&too_many));
        }
        self.count_input(id);
    }
}
