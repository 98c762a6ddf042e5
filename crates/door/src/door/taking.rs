//! One request: answered here, or handed to a group.

use kv::check_words;
use ops::Time;
use resp::{Protocol, Value};

use super::{Door, Next};
use crate::answers::cluster::{Cluster, Told};
use crate::answers::server::Figures;
use crate::answers::{command, connection, error, is, server};
use crate::client::Transaction;
use crate::order;

impl Door {
    pub(super) fn take(&mut self, now: Time, id: u64, words: &[&[u8]]) -> Next {
        let Some(client) = self.clients.get_mut(&id) else {
            return Next::Taken;
        };
        let name = words.first().copied().unwrap_or_default();
        let spec = match check_words(words) {
            Ok(spec) => spec,
            Err(why) => {
                if let Some(transaction) = &mut client.transaction {
                    transaction.has_failed = true;
                }
                client.answer(&error(why));
                return Next::Taken;
            }
        };
        let is_now = ["exec", "discard", "multi", "watch", "quit", "reset"];
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
        self.commands += 1;
        if spec.is_on_rows() {
            return self.order(now, id, spec.name, words);
        }
        let client = match self.clients.get_mut(&id) {
            Some(client) => client,
            None => return Next::Taken,
        };
        let value = match spec.name {
            "ping" => connection::ping(words),
            "echo" => Value::bulk(words.get(1).copied().unwrap_or_default()),
            "select" => connection::select(words),
            "hello" => connection::hello(client, words),
            "auth" => error(
                "ERR Client sent AUTH, but no password is set. Did you mean AUTH <username> <password>?",
            ),
            "client" if words.get(1).is_some_and(|word| is(word, "list")) => {
                let lines = self.clients.values().map(connection::line);
                let lines: String = lines.map(|line| line + "\n").collect();
                Value::Verbatim(*b"txt", lines.into_bytes())
            }
            "client" => match connection::client(client, words) {
                Some(value) => value,
                None => return Next::Taken,
            },
            "quit" => {
                client.answer(&Value::OK);
                client.end();
                return Next::Taken;
            }
            "reset" => {
                if !client.is_idle() {
                    return Next::Waits;
                }
                client.transaction = None;
                client.protocol = Protocol::Resp2;
                client.name.clear();
                self.unwatch(id);
                Value::Simple("RESET".into())
            }
            "readonly" | "readwrite" | "asking" => Value::OK,
            "multi" => match client.transaction.is_some() {
                true => error("ERR MULTI calls can not be nested"),
                false => {
                    client.transaction = Some(Transaction::default());
                    Value::OK
                }
            },
            "discard" => match client.transaction.take() {
                None => error("ERR DISCARD without MULTI"),
                Some(_) => {
                    self.unwatch(id);
                    Value::OK
                }
            },
            "exec" => return self.exec(now, id),
            "watch" => return self.watch(id, words),
            "unwatch" => {
                self.unwatch(id);
                Value::OK
            }
            "cluster" => return self.cluster(now, id, words),
            "command" => command::answer(words),
            "config" => server::config(words),
            "info" => server::info(&self.figures(now), words),
            "time" => server::time(self.now_us(now)),
            "latency" | "slowlog" | "memory" | "function" | "lolwut" => server::small(words),
            _ => {
                let name: String = String::from_utf8_lossy(name).chars().take(128).collect();
                error(format!("ERR {} is not supported here", name.to_uppercase()))
            }
        };
        if let Some(client) = self.clients.get_mut(&id) {
            client.answer(&value);
        }
        Next::Taken
    }

    pub(super) fn cluster(&mut self, now: Time, id: u64, words: &[&[u8]]) -> Next {
        let cluster = Cluster {
            id: self.groups.cluster(),
            own: self.groups.own(),
            served: self.groups.served(&self.host),
            is_complete: self.groups.is_complete(),
        };
        let told = cluster.answer(words);
        let Some(client) = self.clients.get_mut(&id) else {
            return Next::Taken;
        };
        match told {
            Told::Value(value) => client.answer(&value),
            Told::Keys { slot, count } => {
                if !client.is_idle() {
                    return Next::Waits;
                }
                match self.groups.of_slot(slot).map(str::to_owned) {
                    Some(group) => self.ask(now, id, group, slot, order::keys(slot, count)),
                    None => client.answer(&match count {
                        None => Value::Integer(0),
                        Some(_) => Value::Array(Vec::new()),
                    }),
                }
            }
        }
        Next::Taken
    }

    pub(super) fn now_us(&self, now: Time) -> u64 {
        let (wall, at) = self.wall;
        wall + (now - at).as_micros() as u64
    }

    pub(super) fn figures(&self, now: Time) -> Figures {
        Figures {
            version: self.config.version,
            process: self.config.process,
            port: self.config.port.clone(),
            uptime_s: (now - self.began).as_secs(),
            clients: self.clients.len(),
            connections: self.connections,
            commands: self.commands,
            leads: self.led().len(),
            groups: self.groups.names().count(),
            now_us: self.now_us(now),
        }
    }
}
