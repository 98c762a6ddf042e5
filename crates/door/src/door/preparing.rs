//! Large values: sent ahead of their commands, piece by piece.

use std::ops::Range;

use host::Outcome;
use kv::{lookup, prepares, slot_of};
use ops::Time;

use super::{Door, Next};
use crate::answers::error;
use crate::client::WaitsFor;
use crate::large::{Due, Large, PIECES_ALONE, PIECES_BESIDE, PIECES_OF_ALL};
use crate::order;
use crate::rooms::Which;

/// The beginning of the reply to a command whose value is gone.
const NOT_PREPARED: &[u8] = b"-NOTPREPARED";
const TRY_AGAIN: &str = "CLUSTERDOWN the value was not sent to its group in time: ask again";

impl Door {
    /// A command whose value goes ahead. ‡ Not before all that was asked before it is answered: what follows it waits for it as well.
    pub(super) fn prepare(
        &mut self,
        id: u64,
        group: String,
        slot: u16,
        words: &[&[u8]],
        value: usize,
    ) -> Next {
        let Some(client) = self.clients.get_mut(&id) else {
            return Next::Taken;
        };
        if !client.is_idle() {
            return Next::Waits(WaitsFor::Answers);
        }
        self.ticket = self.ticket.wrapping_add(1);
        let others = words.iter().enumerate().map(|(place, word)| match place {
            place if place == value => Vec::new(),
            _ => word.to_vec(),
        });
        let key = words.get(1).copied().unwrap_or_default().to_vec();
        let number = client.await_answer(0);
        client.group = Some(group);
        let whose = (number, slot, client.protocol);
        let ahead = (self.ticket, self.ahead.piece_bytes);
        client.large = Some(Large::new(whose, others.collect(), key, ahead));
        Next::Taken
    }

    /// Finds the value that is to go ahead in the bytes of its request.
    pub(super) fn find_value(&mut self, id: u64, request: &[u8], words: &[&[u8]]) {
        let client = self.clients.get_mut(&id);
        let Some(large) = client.and_then(|client| client.large.as_mut()) else {
            return;
        };
        let spec = words.first().and_then(|name| lookup(name));
        let Some(value) = spec.and_then(prepares).and_then(|place| words.get(place)) else {
            return;
        };
        let begin = value.as_ptr().addr().checked_sub(request.as_ptr().addr());
        let place = begin.map(|begin| begin..begin + value.len());
        match place.filter(|place| place.end <= request.len()) {
            Some(place) => self.is_to_go_ahead = Some(place),
            // A quoted word of a line is a copy.
            None => {
                large.fill(value.to_vec(), 0..value.len());
                self.with_large.insert(id);
                self.has_large_left = true;
            }
        }
    }

    /// Sends a value ahead, which lies there in these bytes.
    pub(super) fn send_ahead(&mut self, now: Time, id: u64, bytes: Vec<u8>, value: Range<usize>) {
        let client = self.clients.get_mut(&id);
        if let Some(large) = client.and_then(|client| client.large.as_mut()) {
            large.fill(bytes, value);
            self.with_large.insert(id);
            self.go_ahead_all(now, id);
        }
    }

    /// Does what is due for all values, that of this client last.
    pub(super) fn go_ahead_all(&mut self, now: Time, id: u64) {
        let clients = &self.clients;
        let large_of = |id: &u64| clients.get(id).and_then(|client| client.large.as_ref());
        self.with_large.retain(|id| large_of(id).is_some());
        let under_way = self.with_large.iter().filter_map(large_of);
        let under_way: usize = under_way.map(Large::under_way).sum();
        let behind = self.with_large.range(id + 1..);
        let ids: Vec<u64> = behind
            .chain(self.with_large.range(..=id))
            .copied()
            .collect();
        let mut left = PIECES_OF_ALL.saturating_sub(under_way);
        for id in ids {
            self.go_ahead(now, id, &mut left);
        }
    }

    /// Does what is due for a value. `left`: so many pieces may go still.
    fn go_ahead(&mut self, now: Time, id: u64, left: &mut usize) {
        let wall_ms = self.now_us(now) / 1000;
        let pieces_max = match self.askers.others(id, now) {
            true => PIECES_BESIDE,
            false => PIECES_ALONE,
        };
        while let Some(client) = self.clients.get_mut(&id)
            && let Some(large) = &mut client.large
        {
            let (number, slot) = (large.number, large.slot);
            let group = self.groups.of_slot(slot).unwrap_or_default().to_owned();
            let by_map = self.groups.by_map(slot, &group);
            let pieces_max = pieces_max.min(large.under_way() + *left);
            let (is_piece, bytes) = match large.due(pieces_max) {
                Due::Piece { ticket, at } => {
                    *left -= 1;
                    let place = (ticket, at.start as u64);
                    let bytes = order::piece(by_map, place, &large.key, large.piece(at));
                    (true, bytes)
                }
                Due::Name(prepared) => {
                    let words: Vec<&[u8]> = large.words.iter().map(Vec::as_slice).collect();
                    // ‡ Its client may have lost its right meanwhile.
                    let spec = words.first().and_then(|name| lookup(name));
                    let refusal = spec
                        .filter(|_| self.guard.asks())
                        .and_then(|spec| self.guard.refusal(&client.shown, spec, &words, wall_ms));
                    if let Some(refusal) = refusal {
                        let protocol = large.protocol;
                        client.large = None;
                        return self.answer(now, id, number, protocol, Some(&refusal));
                    }
                    let words = words.into_iter();
                    (false, order::named(prepared, large.protocol, by_map, words))
                }
                Due::Anew => {
                    self.ticket = self.ticket.wrapping_add(1);
                    large.begin_anew(self.ticket);
                    continue;
                }
                Due::Nothing => return,
                Due::GivenUp => {
                    let protocol = large.protocol;
                    client.large = None;
                    return self.answer(now, id, number, protocol, Some(&error(TRY_AGAIN)));
                }
            };
            let which = (!is_piece).then_some(Which::Any);
            self.call(now, (group, which), (id, number, slot), bytes);
        }
    }

    /// Whether the value of this command is gone: then it is sent again. A value that was named is let go of.
    pub(super) fn is_gone(
        &mut self,
        now: Time,
        id: u64,
        number: u64,
        reply: Option<&[u8]>,
    ) -> bool {
        let Some(client) = self.clients.get_mut(&id) else {
            return false;
        };
        let Some(large) = client.large.as_mut().filter(|large| large.number == number) else {
            return false;
        };
        if reply.is_some_and(|reply| reply.starts_with(NOT_PREPARED)) {
            large.on_gone();
            self.go_ahead_all(now, id);
            return true;
        }
        client.large = None;
        self.count_input(id);
        false
    }

    /// Takes note of what became of a piece.
    pub(super) fn take_piece(&mut self, now: Time, id: u64, number: u64, outcome: Outcome) {
        let client = self.clients.get_mut(&id);
        let large = client.and_then(|client| client.large.as_mut());
        let Some(large) = large.filter(|large| large.number == number) else {
            return;
        };
        match &outcome {
            Outcome::Chosen(bytes) if bytes == b":1\r\n" => large.on_piece(true),
            Outcome::Chosen(bytes) if bytes == b":0\r\n" => large.on_piece(false),
            _ => {
                let protocol = large.protocol;
                let slot = slot_of(&large.key);
                // ‡ The command was not executed, whatever became of the piece.
                let bytes = self.reply(id, slot, outcome).unwrap_or_else(|| {
                    let mut bytes = Vec::new();
                    resp::encode(&error(TRY_AGAIN), protocol, &mut bytes);
                    bytes
                });
                self.count_answer((self.system.now)(now), id, number, Some(&bytes));
                if let Some(client) = self.clients.get_mut(&id) {
                    client.large = None;
                    client.on_answer(number, Some(bytes));
                    self.ready.insert(id);
                }
                self.count_input(id);
            }
        }
        self.go_ahead_all(now, id);
    }
}
