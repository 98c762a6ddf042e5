//! The machine: connections and requests, and the host with its groups.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use host::{Ask, Command, Host, Outcome, Replier, What};
use kv::{check_words, keys_of, slot_of};
use ops::{Completion, ConnId, LENT_BYTES_MAX, Machine, Op, Slice, Time};
use resp::{Found, Parser, Protocol, Value, encode};

use crate::answers::cluster::{Cluster, Told};
use crate::answers::server::Figures;
use crate::answers::{command, connection, error, is, server};
use crate::client::{Client, Transaction};
use crate::groups::{Groups, Leads};
use crate::order;
use crate::slots::Slots;
use crate::spread::{Joins, Spread, cursor_at, slot_at};

/// The unfinished requests of all clients together, in bytes.
const INPUT_BYTES_MAX: usize = 256 << 20;
const CLIENTS_MAX: usize = 10_000;
/// Keys whose deadline has passed are looked for so often, in one slot of each group.
const EXPIRE_EVERY: Duration = Duration::from_millis(100);

/// The parts that a door is made with.
pub struct DoorConfig {
    /// HOST:PORT.
    pub listen: String,
    /// HOST:PORT, as clients reach it.
    pub advertise: String,
    pub version: &'static str,
    pub process: u32,
    /// The machine that the host has, whose WATCH table is shared.
    pub slots: Slots,
    pub host: Host,
}

/// What became of a command.
struct Came {
    client: u64,
    number: u64,
    slot: u16,
    outcome: Outcome,
}

/// The outcome of a look for keys whose deadline has passed.
struct Expired {
    group: String,
    next: u16,
}

/// What a request comes to.
enum Next {
    Taken,
    /// Not before all that this client asked is answered.
    Waits,
}

pub struct Door {
    config: Config,
    host: Host,
    slots: Slots,
    groups: Groups,
    clients: BTreeMap<u64, Client>,
    /// Clients of which something may be taken, or sent.
    ready: BTreeSet<u64>,
    ops: VecDeque<Op>,
    tell: Sender<Came>,
    told: Receiver<Came>,
    spreads: BTreeMap<(u64, u64), Spread>,
    expire_at: Time,
    expire_from: BTreeMap<String, u16>,
    tell_expired: Sender<Expired>,
    told_expired: Receiver<Expired>,
    began: Time,
    /// The wall clock's last word, in microseconds, and when it came.
    wall: (u64, Time),
    /// Of all clients' unfinished requests.
    input_bytes: usize,
    connections: u64,
    commands: u64,
    stopping: bool,
}

struct Config {
    version: &'static str,
    process: u32,
    port: String,
}

impl Door {
    pub fn new(config: DoorConfig, now: Time) -> Door {
        let (tell, told) = mpsc::channel();
        let (tell_expired, told_expired) = mpsc::channel();
        let address = config.listen;
        let port = address.rsplit_once(':').map(|(_, port)| port.to_owned());
        Door {
            config: Config {
                version: config.version,
                process: config.process,
                port: port.unwrap_or_default(),
            },
            host: config.host,
            slots: config.slots,
            groups: Groups::new(config.advertise),
            clients: BTreeMap::new(),
            ready: BTreeSet::new(),
            ops: VecDeque::from([Op::Listen { address }]),
            tell,
            told,
            spreads: BTreeMap::new(),
            expire_at: now,
            expire_from: BTreeMap::new(),
            tell_expired,
            told_expired,
            began: now,
            wall: (0, now),
            input_bytes: 0,
            connections: 0,
            commands: 0,
            stopping: false,
        }
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    fn accept(&mut self, conn: ConnId, peer: String) {
        self.connections += 1;
        let mut client = Client::new(conn.0, peer);
        if self.clients.len() >= CLIENTS_MAX {
            client.answer(&error("ERR max number of clients reached"));
            client.end();
        }
        self.clients.insert(conn.0, client);
        self.ready.insert(conn.0);
    }

    fn forget(&mut self, id: u64) {
        if let Some(client) = self.clients.remove(&id) {
            self.input_bytes -= client.counted;
            if client.watches || client.unwatches {
                self.slots.watched.forget(id);
            }
        }
        self.ready.remove(&id);
        self.host.forget_order(id);
    }

    /// Takes what a client's bytes ask for, as long as it may.
    fn serve(&mut self, now: Time, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let Some((mut parser, input)) = client.take_input() else {
            return;
        };
        let mut done = 0;
        while self.clients.get(&id).is_some_and(Client::takes_more) {
            let rest = input.get(done..).unwrap_or_default();
            match self.next(now, id, &mut parser, rest) {
                Ok(Some(length)) => done += length,
                Ok(None) => break,
                Err(wrong) => {
                    if let Some(client) = self.clients.get_mut(&id) {
                        if !wrong.is_silent() {
                            client.answer(&error(wrong.to_string()));
                        }
                        client.end();
                    }
                    break;
                }
            }
        }
        if let Some(client) = self.clients.get_mut(&id) {
            client.give_back(parser, input, done);
        }
        self.count_input(id);
    }

    /// The bytes of the next request, if it was taken.
    fn next(
        &mut self,
        now: Time,
        id: u64,
        parser: &mut Parser,
        rest: &[u8],
    ) -> Result<Option<usize>, resp::Wrong> {
        Ok(match parser.next(rest)? {
            Found::More => None,
            Found::Nothing { length } => Some(length),
            Found::Request(request) => {
                let words: Vec<&[u8]> = request.arguments().collect();
                let length = request.length();
                match self.take(now, id, &words) {
                    Next::Taken => Some(length),
                    Next::Waits => {
                        *parser = Parser::new(crate::client::limits());
                        None
                    }
                }
            }
        })
    }

    fn take(&mut self, now: Time, id: u64, words: &[&[u8]]) -> Next {
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
            "ping" => connection::ping(client, words),
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

    fn unwatch(&mut self, id: u64) {
        if let Some(client) = self.clients.get_mut(&id)
            && std::mem::take(&mut client.watches)
        {
            self.slots.watched.forget(id);
        }
    }

    /// ‡ What is watched is noted once all that was asked before is answered, and where the slot is led: else a write in between would be
    /// missed.
    fn watch(&mut self, id: u64, words: &[&[u8]]) -> Next {
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

    /// Where this slot is served, if that is not here.
    fn redirect(&self, slot: u16) -> Option<Value> {
        let Some(group) = self.groups.of_slot(slot) else {
            return Some(error("CLUSTERDOWN Hash slot not served"));
        };
        match self.groups.leads_now(&self.host, group) {
            Leads::Here => None,
            Leads::There(place) => Some(error(format!("MOVED {slot} {}", place.address))),
            Leads::Nobody => Some(error("CLUSTERDOWN nobody leads the group of this slot now")),
        }
    }

    fn exec(&mut self, now: Time, id: u64) -> Next {
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
        // What is watched counts until the transaction is executed: then it is forgotten.
        if let Some(client) = self.clients.get_mut(&id) {
            client.watches = false;
            client.unwatches = watches;
        }
        Next::Taken
    }

    /// The groups that are led here, in the order of their slots.
    fn led(&self) -> Vec<String> {
        let served = self.groups.served(&self.host).into_iter();
        let led = served.filter(|served| served.leads == Leads::Here);
        led.map(|served| served.name.to_owned()).collect()
    }

    /// A command on rows: for the group of its keys, or for all that are led here.
    fn order(&mut self, now: Time, id: u64, name: &str, words: &[&[u8]]) -> Next {
        let Some(client) = self.clients.get_mut(&id) else {
            return Next::Taken;
        };
        let spec = kv::lookup(name.as_bytes());
        let keys = spec.and_then(|spec| keys_of(spec, words).ok());
        let key = keys.as_ref().and_then(|keys| keys.first());
        let Some(slot) = key.map(|key| slot_of(key)) else {
            return self.spread(now, id, name, words);
        };
        let Some(group) = self.groups.of_slot(slot) else {
            client.answer(&error("CLUSTERDOWN Hash slot not served"));
            return Next::Taken;
        };
        // ‡ A connection's commands take effect in their order: those of another group follow once these are answered.
        if client.group.as_deref().is_some_and(|busy| busy != group) {
            return Next::Waits;
        }
        let group = group.to_owned();
        let bytes = order::run(client.protocol, words.iter().copied());
        self.ask(now, id, group, slot, bytes);
        Next::Taken
    }

    fn ask(&mut self, now: Time, id: u64, group: String, slot: u16, bytes: Vec<u8>) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if client.group.as_ref() != Some(&group) {
            client.group = Some(group.clone());
        }
        let number = client.await_answer();
        self.call(now, group, (id, number, slot), bytes);
    }

    fn call(&mut self, now: Time, group: String, whose: (u64, u64, u16), bytes: Vec<u8>) {
        let (client, number, slot) = whose;
        let tell = self.tell.clone();
        let replier = Replier::new(move |outcome| {
            let came = Came {
                client,
                number,
                slot,
                outcome,
            };
            drop(tell.send(came));
        });
        let what = What::Call {
            command: Command::Plain(bytes),
            replier,
            order: Some(client),
        };
        let machine = group;
        self.host.ask(now, Ask { machine, what });
    }

    fn spread(&mut self, now: Time, id: u64, name: &str, words: &[&[u8]]) -> Next {
        let mut led = self.led();
        let Some(client) = self.clients.get_mut(&id) else {
            return Next::Taken;
        };
        if !client.is_idle() {
            return Next::Waits;
        }
        let joins = Joins::of(name);
        let mut then = None;
        if joins == Joins::Scan {
            let cursor = words
                .get(1)
                .and_then(|word| resp::integer_of(word))
                .unwrap_or(0);
            let slot = slot_at(u64::try_from(cursor).unwrap_or(0));
            let served = self.groups.served(&self.host);
            let mut from = served
                .iter()
                .filter(|served| served.leads == Leads::Here && served.range.1 >= slot);
            let at = from.next().map(|served| served.name.to_owned());
            then = from.next().map(|served| cursor_at(served.range.0));
            led = at.into_iter().collect();
        }
        let number = client.await_answer();
        if led.is_empty() {
            let value = match joins {
                Joins::Sum => Value::Integer(0),
                Joins::Items => Value::Array(Vec::new()),
                Joins::Scan => Value::Array(vec![Value::bulk("0"), Value::Array(Vec::new())]),
                Joins::First if name.starts_with("flush") => Value::OK,
                Joins::First => Value::Null,
            };
            self.answer(id, number, Some(&value));
            return Next::Taken;
        }
        let bytes = order::run(Protocol::Resp2, words.iter().copied());
        let mut spread = Spread::new(led.len(), joins);
        spread.then = then;
        self.spreads.insert((id, number), spread);
        for group in led {
            self.call(now, group, (id, number, 0), bytes.clone());
        }
        Next::Taken
    }

    fn answer(&mut self, id: u64, number: u64, value: Option<&Value>) {
        if let Some(client) = self.clients.get_mut(&id) {
            let bytes = value.map(|value| {
                let mut bytes = Vec::new();
                encode(value, client.protocol, &mut bytes);
                bytes
            });
            client.on_answer(number, bytes);
            self.ready.insert(id);
        }
    }

    fn cluster(&mut self, now: Time, id: u64, words: &[&[u8]]) -> Next {
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

    fn now_us(&self, now: Time) -> u64 {
        let (wall, at) = self.wall;
        wall + (now - at).as_micros() as u64
    }

    fn figures(&self, now: Time) -> Figures {
        Figures {
            version: self.config.version,
            process: self.config.process,
            port: self.config.port.clone(),
            uptime_s: (now - self.began).as_secs(),
            clients: self.clients.len(),
            connections: self.connections,
            commands: self.commands,
            refused: 0,
            leads: self.led().len(),
            groups: self.groups.names().count(),
            now_us: self.now_us(now),
        }
    }

    /// Tells clients what became of their commands.
    fn take_outcomes(&mut self) {
        while let Ok(came) = self.told.try_recv() {
            let Came {
                client: id,
                number,
                slot,
                outcome,
            } = came;
            let bytes = self.reply(id, slot, outcome);
            let done = match self.spreads.get_mut(&(id, number)) {
                None => {
                    if let Some(client) = self.clients.get_mut(&id) {
                        client.on_answer(number, bytes);
                        if std::mem::take(&mut client.unwatches) {
                            self.slots.watched.forget(id);
                        }
                        self.ready.insert(id);
                    }
                    continue;
                }
                Some(spread) => spread.take(bytes.as_deref()),
            };
            if done && let Some(spread) = self.spreads.remove(&(id, number)) {
                let value = spread.join();
                self.answer(id, number, value.as_ref());
            }
        }
        while let Ok(expired) = self.told_expired.try_recv() {
            self.expire_from.insert(expired.group, expired.next);
        }
    }

    /// ‡ `None`: nobody can say what became of it.
    fn reply(&self, id: u64, slot: u16, outcome: Outcome) -> Option<Vec<u8>> {
        let value = match outcome {
            Outcome::Chosen(bytes) => return Some(bytes),
            Outcome::Unknown => return None,
            Outcome::Refused(why) => error(format!("ERR {why}")),
            Outcome::NotLeader { .. } => match self.redirect(slot) {
                Some(redirect) => redirect,
                None => error("CLUSTERDOWN this node has just begun to lead: ask again"),
            },
            Outcome::NotNow(why) => error(format!("CLUSTERDOWN {why}")),
            Outcome::NoSession | Outcome::Superseded => error("ERR there is no such session"),
        };
        let client = self.clients.get(&id);
        let protocol = client.map_or(Protocol::Resp2, |client| client.protocol);
        let mut bytes = Vec::new();
        encode(&value, protocol, &mut bytes);
        Some(bytes)
    }

    /// Looks for keys whose deadline has passed, where nobody asks for them.
    fn expire(&mut self, now: Time) {
        if now < self.expire_at || self.stopping {
            return;
        }
        self.expire_at = now + EXPIRE_EVERY;
        for group in self.led() {
            // One look of a group at a time.
            let Some(from) = self.expire_from.remove(&group) else {
                self.expire_from.entry(group).or_insert(0);
                continue;
            };
            let tell = self.tell_expired.clone();
            let name = group.clone();
            let replier = Replier::new(move |outcome| {
                let next = match outcome {
                    Outcome::Chosen(bytes) => order::slot_answered(&bytes).unwrap_or(0),
                    _ => 0,
                };
                let group = name;
                drop(tell.send(Expired { group, next }));
            });
            let what = What::Call {
                command: Command::Plain(order::expire(from)),
                replier,
                order: None,
            };
            let machine = group;
            self.host.ask(now, Ask { machine, what });
        }
    }

    /// Sends what is answered, asks for more, and closes what is over.
    fn settle_client(&mut self, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let conn = ConnId(id);
        if let Some(bytes) = client.take_output() {
            let slices = vec![Slice::copied_from(&bytes)];
            self.ops.push_back(Op::Send { conn, slices });
        }
        if client.is_over() {
            self.ops.push_back(Op::Close { conn, flush: true });
            self.forget(id);
        } else if client.begins_to_receive() {
            let bytes_max = LENT_BYTES_MAX;
            self.ops.push_back(Op::ReceiveWhenThere { conn, bytes_max });
        }
    }

    /// Counts what this client has sent and is not taken; the one with whom it becomes too much has to go.
    fn count_input(&mut self, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        self.input_bytes = self.input_bytes - client.counted + client.input_bytes();
        client.counted = client.input_bytes();
        if self.input_bytes > INPUT_BYTES_MAX {
            client.answer(&error(
                "ERR too many bytes of unfinished requests at this node",
            ));
            client.end();
            self.input_bytes -= std::mem::take(&mut client.counted);
        }
    }
}

impl Machine for Door {
    fn handle(&mut self, now: Time, completion: Completion) {
        match completion {
            Completion::Accepted { conn, peer, .. } => self.accept(conn, peer),
            Completion::ListenFailed { address, error } => {
                tracing::error!(%error, "cannot listen for clients of keys on {address}: choose another address with --kv");
            }
            Completion::Received {
                conn,
                buffer,
                range,
                result,
            } => {
                let Some(client) = self.clients.get_mut(&conn.0) else {
                    return;
                };
                match result {
                    Ok(received) => {
                        let end = range.start + received.count;
                        let slice = buffer.freeze();
                        client.on_received(&slice.slice(range.start..end));
                        if received.end {
                            // ‡ What it asked for and is not executed yet is dropped: whoever retries would be a second one.
                            self.ops.push_back(Op::Close { conn, flush: false });
                            return self.forget(conn.0);
                        }
                        self.ready.insert(conn.0);
                        self.count_input(conn.0);
                    }
                    Err(_) => {
                        self.ops.push_back(Op::Close { conn, flush: false });
                        self.forget(conn.0);
                    }
                }
            }
            Completion::Sent { conn, result } => {
                if let Some(client) = self.clients.get_mut(&conn.0) {
                    client.on_sent();
                    self.ready.insert(conn.0);
                    if result.is_err() {
                        self.ops.push_back(Op::Close { conn, flush: false });
                        self.forget(conn.0);
                    }
                }
            }
            Completion::WallClock { token, since_1970 } => {
                if let Some(wall) = since_1970 {
                    self.wall = (wall.as_micros() as u64, now);
                }
                let completion = Completion::WallClock { token, since_1970 };
                self.host.handle(now, completion);
            }
            Completion::StopRequested => {
                self.stopping = true;
                self.host.handle(now, Completion::StopRequested);
            }
            other => self.host.handle(now, other),
        }
    }

    fn on_time(&mut self, now: Time) {
        self.groups.look(&self.host);
        self.expire(now);
        // Twice: what the host answers at once lets clients go on, and frees what they wait for.
        for _ in 0..2 {
            for id in std::mem::take(&mut self.ready) {
                self.serve(now, id);
                self.settle_client(id);
            }
            self.host.on_time(now);
            self.take_outcomes();
        }
        for id in self.ready.clone() {
            self.settle_client(id);
        }
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front().or_else(|| self.host.poll_op())
    }

    fn deadline(&self) -> Option<Time> {
        let soon = (!self.ready.is_empty()).then_some(Time::ZERO);
        let own = [Some(self.expire_at), soon];
        own.into_iter().flatten().chain(self.host.deadline()).min()
    }

    fn is_finished(&self) -> bool {
        self.stopping && self.host.is_finished()
    }
}
