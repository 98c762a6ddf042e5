//! One request: answered here, or handed to a group.

use kv::{CommandSpec, check_words, prepares};
use letters::Shown;
use ops::Time;
use resp::{Protocol, Value};

use super::{Door, Next};
use crate::answers::cluster::{Cluster, Migration, Told};
use crate::answers::{connection, error, info, is, server};
use crate::client::{BULK_BYTES_MAX, Transaction, WaitsFor, Wants};
use crate::counts::place_of;
use crate::groups::Leads;
use crate::guard::{NOT_GOOD, is_change};
use crate::moving::Progress;
use crate::order;
use crate::rooms::Which;

const TOO_LONG: &str = "ERR a word is longer than 6 MiB, which only the value of SET, SETEX, PSETEX, SETNX and GETSET may be, outside of transactions";

impl Door {
    pub(super) fn take(&mut self, now: Time, id: u64, words: &[&[u8]]) -> Next {
        let Some(client) = self.clients.get_mut(&id) else {
            return Next::Taken;
        };
        client.said = None;
        if std::mem::take(&mut client.refuses_next) {
            client.answer(&error(connection::NO_CACHE));
            return Next::Taken;
        }
        let spec = match check_words(words) {
            Ok(spec) => spec,
            Err(why) => {
                if let Some(transaction) = &mut client.transaction {
                    transaction.has_failed = true;
                }
                client.answer(&error(why));
                let spec = words.first().and_then(|name| kv::lookup(name));
                self.counts.refuse(spec.map(place_of));
                return Next::Taken;
            }
        };
        let ahead = prepares(spec).filter(|_| client.transaction.is_none());
        let is_too_long =
            |(place, word): (usize, &&[u8])| word.len() > BULK_BYTES_MAX && ahead != Some(place);
        if words.iter().enumerate().any(is_too_long) {
            if let Some(transaction) = &mut client.transaction {
                transaction.has_failed = true;
            }
            client.answer(&error(TOO_LONG));
            self.counts.refuse(Some(place_of(spec)));
            return Next::Taken;
        }
        // Nothing is looked at while nobody is asked for a token.
        if self.guard.asks() {
            if self.guard.waits(now) {
                return Next::Waits(WaitsFor::Rights);
            }
            let wall_ms = self.now_us(now) / 1000;
            let Some(client) = self.clients.get_mut(&id) else {
                return Next::Taken;
            };
            if let Some(refusal) = self.guard.refusal(&client.shown, spec, words, wall_ms) {
                if let Some(transaction) = &mut client.transaction {
                    transaction.has_failed = true;
                }
                client.answer(&refusal);
                let who = client.shown.principal().to_string();
                let asker = (who.as_str(), client.peer.as_str());
                self.guard.tell((now, wall_ms), asker, spec.name, &refusal);
                self.counts.refuse(Some(place_of(spec)));
                return Next::Taken;
            }
        }
        let Some(client) = self.clients.get_mut(&id) else {
            return Next::Taken;
        };
        if is_change(spec, words) {
            let by = client.shown.principal();
            // ‡ No more than its second word: the others may be secrets.
            let second = words.get(1).map(|word| String::from_utf8_lossy(word));
            let second = second.filter(|_| !spec.name.starts_with("flush"));
            let what = format!(
                "{} {}",
                spec.name,
                second.unwrap_or_default().escape_debug()
            );
            tracing::info!(target: "audit", %by, from = client.peer, door = "keys", what, "a change");
        }
        let is_now = ["exec", "discard", "multi", "watch", "quit", "reset", "auth"];
        if let Some(transaction) = &mut client.transaction
            && !is_now.contains(&spec.name)
        {
            let reply = match transaction.queue(words) {
                true => Value::Simple("QUEUED".into()),
                false => {
                    transaction.has_failed = true;
                    error("ERR the transaction is larger than a frame has room for")
                }
            };
            client.answer(&reply);
            return Next::Taken;
        }
        let next = self.act(now, id, spec, words);
        if let Next::Taken = next {
            self.askers.note(id, now);
            self.note_taken(id, spec, words);
        }
        next
    }

    /// Answers a request that was too long to be kept.
    pub(super) fn refuse_too_long(&mut self, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.said = None;
        client.refuses_next = false;
        if let Some(transaction) = &mut client.transaction {
            transaction.has_failed = true;
        }
        client.answer(&error(super::TOO_LONG));
        self.counts.refuse(None);
    }

    /// Answers what is not queued, or hands it to a group.
    fn act(&mut self, now: Time, id: u64, spec: &'static CommandSpec, words: &[&[u8]]) -> Next {
        if goes_to_rows(spec, words) {
            return self.order(now, id, spec.name, words);
        }
        let Some(client) = self.clients.get_mut(&id) else {
            return Next::Taken;
        };
        let value = match spec.name {
            "auth" => self.authenticate(now, id, words.get(1..).unwrap_or_default()),
            "hello" => self.hello(now, id, words),
            "client" if !words.get(1).is_some_and(|word| is(word, "list")) => {
                match connection::client(client, words) {
                    Some(value) => value,
                    None => return Next::Taken,
                }
            }
            "quit" => {
                client.answer(&Value::OK);
                client.end();
                return Next::Taken;
            }
            "reset" => {
                if !client.is_idle() {
                    return Next::Waits(WaitsFor::Answers);
                }
                client.transaction = None;
                client.protocol = Protocol::Resp2;
                client.name.clear();
                client.wants = Wants::All;
                client.shown = client.by_handshake.clone();
                self.unwatch(id);
                Value::Simple("RESET".into())
            }
            "multi" => match client.transaction.is_some() {
                true => error("ERR MULTI calls can not be nested"),
                false => {
                    client.transaction = Some(Transaction::default());
                    Value::OK
                }
            },
            // What is watched is noted where its group is led: what ends that follows it.
            "discard" | "unwatch" if client.watches && !client.is_idle() => {
                return Next::Waits(WaitsFor::Answers);
            }
            "discard" => match client.transaction.take() {
                None => error("ERR DISCARD without MULTI"),
                Some(_) => {
                    self.unwatch(id);
                    Value::OK
                }
            },
            "exec" => return self.exec(now, id),
            "watch" => return self.watch(now, id, words),
            "unwatch" => {
                self.unwatch(id);
                Value::OK
            }
            "cluster" => return self.cluster(now, id, words),
            name => self.own_answer(now, id, name, words),
        };
        if let Some(client) = self.clients.get_mut(&id) {
            client.answer(&value);
        }
        Next::Taken
    }

    /// `AUTH TOKEN`, `AUTH NAME SECRET`.
    fn authenticate(&mut self, now: Time, id: u64, words: &[&[u8]]) -> Value {
        let wall_ms = self.now_us(now) / 1000;
        let taken = self.guard.take(words, wall_ms);
        let Some(client) = self.clients.get_mut(&id) else {
            return Value::OK;
        };
        match taken {
            Ok(shown) => {
                client.shown = shown;
                Value::OK
            }
            Err(value) => {
                let asker = (NOT_GOOD, client.peer.as_str());
                self.guard.tell((now, wall_ms), asker, "auth", &value);
                value
            }
        }
    }

    fn hello(&mut self, now: Time, id: u64, words: &[&[u8]]) -> Value {
        let wall_ms = self.now_us(now) / 1000;
        let (guard, asks) = (&self.guard, self.guard.asks());
        let Some(client) = self.clients.get_mut(&id) else {
            return Value::OK;
        };
        let by_handshake = client.by_handshake.clone();
        let value = connection::hello(client, words, |name, secret| match asks {
            true => guard.take(&[name, secret], wall_ms),
            // Where nothing is asked for, the one user there is has no password.
            false if is(name, "default") => Ok(by_handshake.clone()),
            false => Err(error(crate::guard::WRONG)),
        });
        let asker = (NOT_GOOD, client.peer.as_str());
        self.guard.tell((now, wall_ms), asker, "hello", &value);
        value
    }

    /// The answer to what is neither about rows nor changes how this connection goes on: in a transaction, too.
    pub(super) fn own_answer(&mut self, now: Time, id: u64, name: &str, words: &[&[u8]]) -> Value {
        match name {
            "ping" => connection::ping(words),
            "acl" => {
                let wall_ms = self.now_us(now) / 1000;
                let nobody = Shown::Nothing;
                let client = self.clients.get(&id);
                let shown = client.map_or(&nobody, |client| &client.shown);
                self.guard.acl(shown, words, wall_ms)
            }
            "echo" => Value::bulk(words.get(1).copied().unwrap_or_default()),
            "select" => connection::select(words),
            "client" if words.get(1).is_some_and(|word| is(word, "list")) => {
                let lines = self.clients.values().map(connection::line);
                let lines: String = lines.map(|line| line + "\n").collect();
                Value::Verbatim(*b"txt", lines.into_bytes())
            }
            "client" if !words.get(1).is_some_and(|word| is(word, "reply")) => {
                let client = self.clients.get_mut(&id);
                let value = client.and_then(|client| connection::client(client, words));
                value.unwrap_or(Value::OK)
            }
            // What was watched is forgotten with the transaction.
            "readonly" | "readwrite" | "asking" | "unwatch" => Value::OK,
            "command" => super::nothing::reply(words),
            "config" => server::config(&mut self.settings, &mut self.counts, words),
            "info" => info::info(&self.about(now), &self.counts, words),
            "slowlog" => self.slow.answer(words),
            "time" => server::time(self.now_us(now)),
            "latency" | "memory" | "function" | "lolwut" => server::small(words),
            _ => error(format!("ERR {} is not supported here", name.to_uppercase())),
        }
    }

    pub(super) fn cluster(&mut self, now: Time, id: u64, words: &[&[u8]]) -> Next {
        let cluster = Cluster {
            id: self.groups.cluster(),
            own: self.groups.own(),
            served: self.groups.served(&self.host),
            is_complete: self.groups.is_complete() && now < self.led_at + super::ELECTED_WITHIN,
            epoch: self.groups.map().version(),
            moves: self.moves(),
        };
        let told = cluster.answer(words);
        match told {
            Told::Migrate => return self.migrate(now, id, words),
            Told::Cancel => return self.cancel_migrations(now, id),
            _ => {}
        }
        let Some(client) = self.clients.get_mut(&id) else {
            return Next::Taken;
        };
        match told {
            Told::Migrate | Told::Cancel => {}
            Told::Value(value) => client.answer(&value),
            Told::Keys { slot, count } => {
                if !client.is_idle() {
                    return Next::Waits(WaitsFor::Answers);
                }
                match self.groups.of_slot(slot).map(str::to_owned) {
                    Some(group) => {
                        let by_map = self.groups.by_map(slot, &group);
                        let group = (group, Which::Any);
                        self.ask(now, id, group, slot, order::keys(slot, by_map, count));
                    }
                    None => client.answer(&match count {
                        None => Value::Integer(0),
                        Some(_) => Value::Array(Vec::new()),
                    }),
                }
            }
        }
        Next::Taken
    }

    /// The slots that are on their way, and the nodes that lead where from and where to.
    fn moves(&self) -> Vec<Migration> {
        let all = self.groups.all(&self.host);
        let node = |group: u32| {
            let leads = all.iter().find(|(of, _)| *of == group);
            match leads.map(|(_, leads)| leads) {
                Some(Leads::Here) => Some(self.groups.own().node),
                Some(Leads::There(place)) => Some(place.node),
                _ => None,
            }
        };
        let name = |group: u32| self.groups.name_of(group).unwrap_or_default().to_owned();
        let moving = self.groups.map().moving().into_iter();
        let copies: Vec<Progress> = self.moving.progress().collect();
        moving
            .map(|one| {
                let its = copies
                    .iter()
                    .filter(|copy| copy.to == one.to && one.span.contains(copy.first));
                Migration {
                    first: one.span.first(),
                    last: one.span.last(),
                    from: one.from.map(|group| (name(group), node(group))),
                    to: (name(one.to), node(one.to)),
                    since: one.since,
                    bytes: its.map(|copy| copy.bytes).sum(),
                }
            })
            .collect()
    }

    pub(super) fn now_us(&self, now: Time) -> u64 {
        let (wall, at) = self.wall;
        wall + (now - at).as_micros() as u64
    }
}

/// Whether a group executes it. Of MEMORY, USAGE alone is about a key.
pub(super) fn goes_to_rows(spec: &CommandSpec, words: &[&[u8]]) -> bool {
    let is_usage = words.get(1).is_some_and(|word| is(word, "usage"));
    spec.is_on_rows() && (spec.name != "memory" || is_usage)
}
