//! WATCH and EXEC.

use kv::{check_words, keys_of, slot_of};
use ops::Time;
use resp::Value;

use super::{Door, Next};
use crate::answers::error;
use crate::order;

impl Door {
    pub(super) fn unwatch(&mut self, id: u64) {
        if let Some(client) = self.clients.get_mut(&id)
            && std::mem::take(&mut client.watches)
        {
            self.slots.watched.forget(id);
        }
    }

    /// ‡ Watched keys are noted once all that was asked before is answered, and where the slot is led: else a write in between would be
    /// missed.
    pub(super) fn watch(&mut self, id: u64, words: &[&[u8]]) -> Next {
        let keys = words.get(1..).unwrap_or_default();
        let mut slots = keys.iter().map(|key| slot_of(key));
        let slot = slots.next().unwrap_or_default();
        let is_crossing = slots.any(|other| other != slot);
        let redirect = self.redirect(slot);
        let Some(client) = self.clients.get_mut(&id) else {
            return Next::Taken;
        };
        if client.transaction.is_some() {
            client.answer(&error("ERR WATCH inside MULTI is not allowed"));
            return Next::Taken;
        }
        if !client.is_idle() {
            return Next::Waits;
        }
        let answer = match redirect {
            _ if is_crossing => error("CROSSSLOT Keys in request don't hash to the same slot"),
            Some(redirect) => redirect,
            None => {
                client.watches = true;
                for key in keys {
                    self.slots.watched.watch(id, key);
                }
                Value::OK
            }
        };
        client.answer(&answer);
        Next::Taken
    }

    pub(super) fn exec(&mut self, now: Time, id: u64) -> Next {
        let Some(client) = self.clients.get_mut(&id) else {
            return Next::Taken;
        };
        let Some(transaction) = &client.transaction else {
            client.answer(&error("ERR EXEC without MULTI"));
            return Next::Taken;
        };
        if !client.is_idle() {
            return Next::Waits;
        }
        let mut slot = None;
        let mut is_crossing = false;
        let mut is_of_rows = true;
        for words in &transaction.commands {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let Ok(spec) = check_words(&words) else {
                continue;
            };
            is_of_rows &= spec.is_on_rows();
            for key in keys_of(spec, &words).unwrap_or_default() {
                let of_key = slot_of(key);
                is_crossing |= *slot.get_or_insert(of_key) != of_key;
            }
        }
        let refusal = match () {
            () if transaction.has_failed => {
                Some("EXECABORT Transaction discarded because of previous errors.")
            }
            () if is_crossing => Some("CROSSSLOT Keys in request don't hash to the same slot"),
            () if !is_of_rows => {
                Some("EXECABORT Transaction discarded: it has a command that is not about keys")
            }
            () => None,
        };
        let watches = client.watches;
        let transaction = client.transaction.take().unwrap_or_default();
        if let Some(refusal) = refusal {
            client.answer(&error(refusal));
            self.unwatch(id);
            return Next::Taken;
        }
        if transaction.commands.is_empty() && !watches {
            client.answer(&Value::Array(Vec::new()));
            return Next::Taken;
        }
        let protocol = client.protocol;
        let bytes = order::exec(protocol, id, &transaction.commands);
        let group = match slot {
            Some(slot) => self.groups.of_slot(slot).map(str::to_owned),
            None => self.led().first().cloned(),
        };
        match group {
            Some(group) => self.ask(now, id, group, slot.unwrap_or_default(), bytes),
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
            client.unwatches = watches;
        }
        Next::Taken
    }
}
