//! WATCH and EXEC.

use kv::{check_words, keys_of, slot_of};
use ops::Time;
use resp::Value;

use super::asking::bytes_of;
use super::taking::goes_to_rows;
use super::{Door, Next};
use crate::answers::error;
use crate::client::{BULK_BYTES_MAX, WaitsFor};
use crate::order::{self, Queued};
use crate::rooms::Which;

const MAY_NO_MORE: &str =
    "EXECABORT Transaction discarded because not all of it may be asked for any more";
const OTHERS_WATCHED: &str =
    "CROSSSLOT Watched keys and those of the transaction are served by different groups";

impl Door {
    pub(super) fn unwatch(&mut self, id: u64) {
        if let Some(client) = self.clients.get_mut(&id)
            && std::mem::take(&mut client.watches)
        {
            self.slots.watched.forget(id);
        }
    }

    /// ‡ Watched keys are noted once all that was asked before is answered, and where the group is led, as a command of it: else a write in
    /// between would be missed.
    pub(super) fn watch(&mut self, now: Time, id: u64, words: &[&[u8]]) -> Next {
        let keys = words.get(1..).unwrap_or_default();
        let mut slots = keys.iter().map(|key| slot_of(key));
        let slot = slots.next().unwrap_or_default();
        let is_crossing = slots.any(|other| other != slot);
        let group = self.groups.of_slot(slot).map(str::to_owned);
        let Some(client) = self.clients.get_mut(&id) else {
            return Next::Taken;
        };
        if client.transaction.is_some() {
            client.answer(&error("ERR WATCH inside MULTI is not allowed"));
            return Next::Taken;
        }
        if !client.is_idle() {
            return Next::Waits(WaitsFor::Answers);
        }
        let is_elsewhere = client.watches && client.watches_in != group;
        let refusal = match &group {
            _ if is_crossing => "CROSSSLOT Keys in request don't hash to the same slot",
            // It has moved: nothing is executed, whatever is watched besides.
            Some(_) if is_elsewhere && client.watched_slots.contains(&slot) => {
                client.answer(&Value::OK);
                return Next::Taken;
            }
            Some(_) if is_elsewhere => OTHERS_WATCHED,
            Some(group)
                if !self
                    .rooms
                    .admits(group, Which::Brief, client, bytes_of(keys)) =>
            {
                return Next::Waits(WaitsFor::Room);
            }
            Some(group) => {
                let is_first = !std::mem::replace(&mut client.watches, true);
                if is_first {
                    client.watched_slots.clear();
                }
                client.watched_slots.insert(slot);
                client.watches_in = Some(group.clone());
                let by_map = self.groups.by_map(slot, group);
                let bytes = order::watch(client.protocol, by_map, id, keys.iter().copied());
                self.ask(now, id, (group.clone(), Which::Brief), slot, bytes);
                if let Some(client) = self.clients.get_mut(&id).filter(|_| is_first) {
                    client.first_watch = client.last_awaited();
                }
                return Next::Taken;
            }
            None => "CLUSTERDOWN Hash slot not served",
        };
        client.answer(&error(refusal));
        Next::Taken
    }

    /// The parts of a transaction. The door answers at once what is not about rows; `None`: with more than a frame has room for.
    fn steps(&mut self, now: Time, id: u64, commands: Vec<Vec<Vec<u8>>>) -> Option<Vec<Queued>> {
        let (mut steps, mut left) = (Vec::new(), BULK_BYTES_MAX);
        for words in commands {
            let borrowed: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let value = match check_words(&borrowed) {
                Ok(spec) if goes_to_rows(spec, &borrowed) => {
                    steps.push(Queued::Command(words));
                    continue;
                }
                Ok(spec) if ["hello", "cluster"].contains(&spec.name) => error(format!(
                    "ERR {} is not allowed in a transaction",
                    spec.name.to_uppercase()
                )),
                Ok(spec) => self.own_answer(now, id, spec.name, &borrowed),
                Err(why) => error(why),
            };
            let reply = order::answered(&value);
            left = left.checked_sub(reply.len())?;
            steps.push(Queued::Answered(reply));
        }
        Some(steps)
    }

    /// The first of the queued commands that may not be asked for any more, and why.
    fn refused_since(&self, now: Time, id: u64) -> Option<(&'static str, Value)> {
        if !self.guard.asks() {
            return None;
        }
        let wall_ms = self.now_us(now) / 1000;
        let client = self.clients.get(&id)?;
        let queued = &client.transaction.as_ref()?.commands;
        queued.iter().find_map(|words| {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let spec = check_words(&words).ok()?;
            let refusal = self.guard.refusal(&client.shown, spec, &words, wall_ms)?;
            Some((spec.name, refusal))
        })
    }

    pub(super) fn exec(&mut self, now: Time, id: u64) -> Next {
        if self.guard.asks() && self.guard.waits(now) {
            return Next::Waits(WaitsFor::Rights);
        }
        // ‡ What was queued was judged then: another token was shown since, or this one may less.
        let refused = self.refused_since(now, id);
        let wall_ms = self.now_us(now) / 1000;
        let Some(client) = self.clients.get_mut(&id) else {
            return Next::Taken;
        };
        let Some(transaction) = &client.transaction else {
            client.answer(&error("ERR EXEC without MULTI"));
            return Next::Taken;
        };
        if !client.is_idle() {
            return Next::Waits(WaitsFor::Answers);
        }
        if let Some((command, refusal)) = refused {
            client.transaction = None;
            client.answer(&error(MAY_NO_MORE));
            let who = client.shown.principal().to_string();
            let asker = (who.as_str(), client.peer.as_str());
            self.guard.tell((now, wall_ms), asker, command, &refusal);
            self.unwatch(id);
            return Next::Taken;
        }
        let mut slot = None;
        let mut is_crossing = false;
        let mut is_of_rows = false;
        for words in &transaction.commands {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let Ok(spec) = check_words(&words) else {
                continue;
            };
            is_of_rows |= goes_to_rows(spec, &words);
            for key in keys_of(spec, &words).unwrap_or_default() {
                let of_key = slot_of(key);
                is_crossing |= *slot.get_or_insert(of_key) != of_key;
            }
        }
        let watches = client.watches;
        // ‡ Whoever leads one group knows nothing of what others do in another.
        let group = slot.map(|slot| self.groups.of_slot(slot));
        let is_elsewhere =
            watches && group.is_some_and(|group| group != client.watches_in.as_deref());
        let refusal = match () {
            () if transaction.has_failed => {
                Some("EXECABORT Transaction discarded because of previous errors.")
            }
            () if is_crossing => Some("CROSSSLOT Keys in request don't hash to the same slot"),
            () if is_elsewhere => Some(OTHERS_WATCHED),
            () => None,
        };
        let bytes = transaction.bytes;
        let which = match transaction.is_brief() {
            true => Which::Brief,
            false => Which::Any,
        };
        if let (None, Some(Some(group))) = (&refusal, group)
            && !self.rooms.admits(group, which, client, bytes)
        {
            return Next::Waits(WaitsFor::Room);
        }
        // ‡ A watched slot that is served by another group since has moved: nobody here sees what became of its keys.
        let has_moved = slot.is_some_and(|slot| client.watched_slots.contains(&slot));
        let refusal = match refusal {
            Some(OTHERS_WATCHED) if has_moved => Some(Value::NullArray),
            refusal => refusal.map(error),
        };
        let watched = client.watches_in.clone().filter(|_| watches);
        let transaction = client.transaction.take().unwrap_or_default();
        if let Some(refusal) = refusal {
            client.answer(&refusal);
            self.unwatch(id);
            return Next::Taken;
        }
        let protocol = client.protocol;
        let Some(steps) = self.steps(now, id, transaction.commands) else {
            if let Some(client) = self.clients.get_mut(&id) {
                let why = "EXECABORT Transaction discarded: its answers are larger than a frame has room for";
                client.answer(&error(why));
            }
            self.unwatch(id);
            return Next::Taken;
        };
        if !is_of_rows && !watches {
            let replies = steps.iter().map(|step| match step {
                Queued::Answered(reply) => order::value_of(reply),
                Queued::Command(_) => Value::Null,
            });
            let replies = Value::Array(replies.collect());
            if let Some(client) = self.clients.get_mut(&id) {
                client.answer(&replies);
            }
            return Next::Taken;
        }
        let group = match slot {
            Some(slot) => self.groups.of_slot(slot).map(str::to_owned),
            None => watched.or_else(|| self.led().first().cloned()),
        };
        match group {
            Some(group) => {
                let by_map = slot.map(|slot| self.groups.by_map(slot, &group));
                let by_map = by_map.unwrap_or_default();
                let bytes = order::exec(protocol, by_map, id, &steps);
                let group = (group, which);
                self.ask(now, id, group, slot.unwrap_or_default(), bytes);
            }
            None => {
                let refusal = self.redirect(slot.unwrap_or_default());
                let refusal = refusal.unwrap_or_else(|| error("CLUSTERDOWN Hash slot not served"));
                if let Some(client) = self.clients.get_mut(&id) {
                    client.answer(&refusal);
                }
            }
        }
        // Watched keys count until the transaction is executed: then it is forgotten.
        if let Some(client) = self.clients.get_mut(&id) {
            client.watches = false;
            client.unwatches = client.last_awaited().filter(|_| watches);
        }
        Next::Taken
    }
}
