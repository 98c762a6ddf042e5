//! The fates of requests, and how long that took: for figures and the slow log.

use kv::CommandSpec;
use letters::Fate;
use ops::Time;

use super::{CLIENTS_MAX, Door};
use crate::answers::info::About;
use crate::client::{Client, Said};
use crate::counts::{fate_of, place_of};

impl Door {
    /// Takes note of a request that was taken: answered by now, or to be.
    pub(super) fn note_taken(&mut self, id: u64, spec: &CommandSpec, words: &[&[u8]]) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let command = place_of(spec);
        let at = self.taken_at;
        match client.said.take() {
            Some(Said::Later(number)) => {
                let keeps_words = self.settings.slower_than().is_some();
                client
                    .unanswered
                    .push(number, command, at, words, keeps_words);
            }
            Some(Said::Now(fate)) => self.counts.count(command, fate, Default::default()),
            // Its client wants no reply.
            None => self
                .counts
                .count(command, Fate::Answered, Default::default()),
        }
    }

    /// Counts the reply of that number, which a group or several gave; `None`: nobody can say what became of the request.
    pub(super) fn count_answer(&mut self, at: Time, id: u64, number: u64, reply: Option<&[u8]>) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let fate = fate_of(reply);
        let Some(asked) = client.unanswered.take(number) else {
            // It was answered while it was taken.
            if client.said == Some(Said::Later(number)) {
                client.said = Some(Said::Now(fate));
            }
            return;
        };
        let took = at - asked.at;
        self.counts.count(asked.command, fate, took);
        let is_slow = self.settings.slower_than().is_some_and(|slow| took >= slow);
        // A command that was not executed was not slow.
        if is_slow && !matches!(fate, Fate::Moved | Fate::ClusterDown) {
            self.counts.figures.slow_commands.add(1);
            let words = client.unanswered.words(&asked);
            let (wall_us, seen) = self.wall;
            let at_s = (wall_us + (at - seen).as_micros() as u64) / 1_000_000;
            let whose = (client.peer.clone(), client.name.clone());
            let entries_max = self.settings.slow_entries_max();
            self.slow.push(entries_max, (at_s, took), words, whose);
        }
        client.unanswered.settle();
    }

    /// Counts what a client that is gone had not been answered.
    pub(super) fn count_gone(&mut self, client: &Client) {
        for asked in client.unanswered.left() {
            self.counts
                .count(asked.command, Fate::Gone, Default::default());
        }
    }

    /// Tells what is so now.
    pub(super) fn tell_figures(&self) {
        let figures = &self.counts.figures;
        figures.clients.set(self.clients.len() as u64);
        figures.unread_bytes.set(self.unsent_bytes as u64);
        figures.unfinished_bytes.set(self.input_bytes as u64);
        figures.slots_coming.set(self.moving.slots_left());
        figures.moved_bytes.set(self.moving.taken_bytes);
        figures.moved_slots.set(self.moving.owned_slots);
    }

    /// The figures of INFO beside the counts.
    pub(super) fn about(&self, now: Time) -> About {
        About {
            version: self.config.version,
            process: self.config.process,
            port: self.config.port.clone(),
            uptime_s: (now - self.began).as_secs(),
            now_us: self.now_us(now),
            clients: self.clients.len(),
            clients_max: CLIENTS_MAX,
            clients_bytes: self.unsent_bytes + self.input_bytes,
            resident_bytes: (self.system.resident_bytes)(),
            leads: self.led().len(),
            groups: self.groups.names().count(),
        }
    }
}
