//! Replies that clients have not taken: how many bytes they are, and which clients have to go for them.
//!
//! ```text
//!  more than a share of what is free ─▶ a client is not read
//!  another's command waits for room  ─▶ a client that holds more than 64 KiB, and takes less than 512 KiB or a 24th of it in 5 s, is closed
//!  320 MiB                           ─▶ who holds some, and has taken none for the longest, is closed
//! ```
//!
//! Replies from 64 KiB on are made once they have room below that bound (`host::Bounds`): small ones alone pass it, of very many clients.

use std::time::Duration;

use ops::{ConnId, Op, Time};

use super::Door;
use crate::client::{Client, Sized, Unread};

/// Clients have shares of so many bytes of replies that they did not take …
const SHARED_BYTES: usize = 128 << 20;
/// … and beyond so many of all together, by the least of very many clients and by replies that came at once, some have to go.
const UNSENT_BYTES_MAX: usize = 320 << 20;
/// It is looked so often whether shares have become more.
const SHARES_EVERY: Duration = Duration::from_millis(100);
/// While a command waits for room, clients are looked at so often …
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// … and a look that comes so much later finds what could not be sent meanwhile, as where the process stood still.
const LATE_AFTER: Duration = Duration::from_secs(1);
/// A client that holds more than this …
const HELD_BYTES: usize = 64 << 10;
/// … has to take as much as this, or this part of what it holds if that is more …
const TAKEN_BYTES: usize = 512 << 10;
const TAKEN_PART: usize = 24;
/// … within so long.
const WITHIN: Duration = Duration::from_secs(5);

impl Door {
    /// So many replies a client may hold now and be read all the same.
    pub(super) fn unread_max(&self) -> Unread {
        let [middling, large] = self.host.answers_bytes_max();
        let [of_middling, of_large] = self.unsent_sized;
        let free = SHARED_BYTES.saturating_sub(self.unsent_bytes);
        let middling = middling.saturating_sub(of_middling);
        Unread::of(free, [middling, large.saturating_sub(of_large)])
    }

    /// Reads on whoever was not read because of his replies, once his share is more than it was: others have read theirs.
    pub(super) fn read_on_unread(&mut self, now: Time) {
        if self.held_back.is_empty() || now < self.held_back_at {
            return;
        }
        self.held_back_at = now + SHARES_EVERY;
        let share = self.unread_max();
        if share.exceeds(&self.held_back_by) {
            self.ready.append(&mut self.held_back);
        }
        self.held_back_by = share;
    }

    /// This client is not read because of its replies.
    pub(super) fn hold_back(&mut self, now: Time, id: u64, share: Unread) {
        if self.held_back.is_empty() {
            self.held_back_at = now + SHARES_EVERY;
            self.held_back_by = share;
        }
        // ‡ The least of all shares that somebody was held back by: none is forgotten whose share has become more.
        self.held_back_by = self.held_back_by.least(&share);
        self.held_back.insert(id);
    }

    /// Counts the replies that this client has not taken. Where that is too much of all together, whoever holds some and has taken none for the longest has to
    /// go.
    pub(super) fn count_unsent(&mut self, now: Time, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        count(client, now, &mut self.unsent_bytes, &mut self.unsent_sized);
        if self.unsent_bytes <= UNSENT_BYTES_MAX {
            return;
        }
        if let Some(id) = stalled_longest(self.clients.values()) {
            tracing::warn!(
                "clients of keys have not read 320 MiB of replies: the one who has taken none for the longest is disconnected"
            );
            self.close_at_once(id);
        }
    }

    fn close_at_once(&mut self, id: u64) {
        let conn = ConnId(id);
        self.counts.figures.clients_closed.add(1);
        self.ops.push_back(Op::Close { conn, flush: false });
        self.forget(id);
    }

    /// Counts what clients hold that were answered since, and tells the host.
    pub(super) fn count_ready(&mut self, now: Time) {
        for id in &self.ready {
            if let Some(client) = self.clients.get_mut(id) {
                count(client, now, &mut self.unsent_bytes, &mut self.unsent_sized);
            }
        }
        self.tell_unread();
    }

    pub(super) fn tell_unread(&mut self) {
        let [middling, large] = self.unsent_sized;
        self.host.hold_unread(middling, large);
    }

    /// Closes clients that hold many replies and do not take them, while others wait for theirs.
    pub(super) fn close_unread(&mut self, now: Time) {
        let Some(at) = self.unread_at.filter(|at| *at <= now) else {
            return;
        };
        self.unread_at = Some(now + LOOK_EVERY);
        if now > at + LATE_AFTER {
            return self
                .clients
                .values_mut()
                .for_each(|client| begin(client, now));
        }
        let mut over = Vec::new();
        for (id, client) in &mut self.clients {
            match client.takes_since {
                Some((since, enough)) if client.due_bytes() > HELD_BYTES => {
                    if client.taken_bytes() >= enough {
                        begin(client, now);
                    } else if now >= since + WITHIN {
                        over.push(*id);
                    }
                }
                _ => begin(client, now),
            }
        }
        for id in over {
            // A client whose own command is the only one that waits may read later.
            if self.host.others_wait_for_room(id) {
                tracing::warn!(
                    "a client of keys has taken less than 512 KiB of its replies within 5 s, or less than a 24th of what it holds, which others wait for: it is disconnected"
                );
                self.close_at_once(id);
            }
        }
    }

    /// Looks again in a while, as long as a command waits for room. The host knows what is unread.
    pub(super) fn look_at_unread(&mut self, now: Time) {
        self.tell_unread();
        match (self.host.waits_for_room(), self.unread_at) {
            (false, _) => self.unread_at = None,
            (true, None) => {
                self.unread_at = Some(now + LOOK_EVERY);
                self.clients
                    .values_mut()
                    .for_each(|client| begin(client, now));
            }
            (true, Some(_)) => {}
        }
    }
}

/// From now on it is seen how much this client takes, if it holds much.
fn begin(client: &mut Client, now: Time) {
    // A reply before which another is to come cannot be taken.
    let due = client.due_bytes();
    let enough = TAKEN_BYTES.max(due / TAKEN_PART) as u64;
    client.takes_since = (due > HELD_BYTES).then(|| (now, client.taken_bytes() + enough));
}

/// The client that could take many replies, and has taken none for the longest.
fn stalled_longest<'a>(clients: impl Iterator<Item = &'a Client>) -> Option<u64> {
    let holding = clients.filter(|client| client.due_bytes() > HELD_BYTES);
    let longest = holding.min_by_key(|client| client.taken_at);
    longest.map(|client| client.id)
}

fn count(client: &mut Client, now: Time, all: &mut usize, all_sized: &mut Sized) {
    if client.counted_unsent == 0 {
        // It had nothing to take until now.
        client.taken_at = now;
    }
    let unsent = client.unsent_bytes();
    let counted = std::mem::replace(&mut client.counted_unsent, unsent);
    *all = *all - counted + unsent;
    let unsent = client.unsent_sized();
    let counted = std::mem::replace(&mut client.counted_sized, unsent);
    for ((all, counted), unsent) in all_sized.iter_mut().zip(counted).zip(unsent) {
        *all = *all - counted + unsent;
    }
}

#[cfg(test)]
mod tests {
    use letters::Shown;
    use resp::Value;

    use super::*;

    #[test]
    fn the_one_who_could_take_some_and_took_none_for_the_longest_has_to_go() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let (mut all, mut sized) = (0, Sized::default());
        let mut holds = |id, bytes, seconds| {
            let mut client = Client::new(id, String::new(), Shown::Nothing);
            client.answer(&Value::Bulk(vec![0; bytes]));
            count(&mut client, at(seconds), &mut all, &mut sized);
            client
        };
        let mut clients = [
            holds(1, HELD_BYTES / 2, 1),
            holds(2, HELD_BYTES + 1, 3),
            holds(3, 50 << 20, 2),
            holds(4, 1 << 20, 4),
        ];
        // Another reply is before its own: it cannot take it.
        let mut waits = Client::new(5, String::new(), Shown::Nothing);
        waits.await_answer(0);
        waits.answer(&Value::Bulk(vec![0; 1 << 20]));
        let stalled = |clients: &[Client]| stalled_longest(clients.iter().chain([&waits]));
        assert_eq!(stalled(&clients), Some(3));
        // It begins to read: the one who holds less and reads nothing goes before it.
        _ = clients[2].take_output();
        clients[2].on_sent(at(5));
        assert_eq!(stalled(&clients), Some(2));
        assert!(all > 51 << 20 && sized[1] > 51 << 20);
    }
}
