//! Commands on rows: which group executes them, and what comes of it.

use std::sync::mpsc::Sender;
use std::time::Duration;

use host::{Ask, Caller, Command, Outcome, Replier, What};
use kv::{keys_of, prepares, slot_of};
use ops::Time;
use paxos::mutation::{self, Mutation};
use resp::{Protocol, Value, encode};

use super::{Came, Door, Expired, Next};
use crate::answers::error;
use crate::client::WaitsFor;
use crate::groups::Leads;
use crate::order::{self, ByMap};
use crate::rooms::{Hold, Which};
use crate::slots::EXPIRED_MAX;
use crate::spread::{Joins, Spread, cursor_at, slot_at};

/// Keys whose deadline has passed are looked for so often, in some slots of each group.
const EXPIRE_EVERY: Duration = Duration::from_millis(100);

/// The line for commands to all groups: no group has this name.
const ALL_GROUPS: &str = "";

/// A command that a group was asked for.
struct Asked {
    client: u64,
    number: u64,
    slot: u16,
    is_piece: bool,
    hold: Option<Hold>,
    tell: Sender<Came>,
}

impl Asked {
    fn tell(self, outcome: Outcome) {
        drop(self.hold);
        // A door that is gone hears nothing more.
        drop(self.tell.send(Came {
            client: self.client,
            number: self.number,
            slot: self.slot,
            is_piece: self.is_piece,
            outcome,
        }));
    }
}

impl Caller for Asked {
    fn reply(self: Box<Self>, outcome: Outcome) {
        self.tell(outcome);
    }

    /// ‡ Others' commands have its room: what it waits for may take minutes, and is no fault of theirs.
    fn put_aside(&mut self) {
        self.hold = None;
    }
}

impl Door {
    /// Where this slot is served, if that is not here.
    pub(super) fn redirect(&self, slot: u16) -> Option<Value> {
        let Some(group) = self.groups.of_slot(slot) else {
            return Some(error("CLUSTERDOWN Hash slot not served"));
        };
        match self.groups.leads_now(&self.host, group) {
            Leads::Here => None,
            Leads::There(place) => Some(error(format!("MOVED {slot} {}", place.address))),
            Leads::Nobody => Some(error("CLUSTERDOWN nobody leads the group of this slot now")),
        }
    }

    /// The answer to a command on a slot that its group does not have: that one has it, or had it last.
    fn elsewhere(&mut self, slot: u16, group: u32) -> Value {
        let group = match group {
            order::BY_THE_MAP => self.groups.served_at(slot).unwrap_or_default(),
            group => group,
        };
        let leads = self.groups.name_of(group);
        let leads = leads.map(|name| self.groups.leads_now(&self.host, name));
        match leads {
            Some(Leads::There(place)) => error(format!("MOVED {slot} {}", place.address)),
            Some(Leads::Here) => {
                // Asked again here, it goes to that group.
                self.groups.hint(slot, group);
                error(format!("MOVED {slot} {}", self.groups.own().address))
            }
            Some(Leads::Nobody) | None => {
                error("CLUSTERDOWN nobody leads the group that this slot went to")
            }
        }
    }

    /// The groups that are led here, in the order of their slots.
    pub(super) fn led(&self) -> Vec<String> {
        let served = self.groups.served(&self.host).into_iter();
        let led = served.filter(|served| served.leads == Leads::Here);
        let mut names: Vec<String> = Vec::new();
        for served in led {
            if !names.iter().any(|name| name == served.name) {
                names.push(served.name.to_owned());
            }
        }
        names
    }

    /// A command on rows: for the group of its keys, or for all that are led here.
    pub(super) fn order(&mut self, now: Time, id: u64, name: &str, words: &[&[u8]]) -> Next {
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
        let is_other = |busy: &str| busy != group && !mutation::is(Mutation::GroupsNotAwaited);
        if client.group.as_deref().is_some_and(is_other) {
            return Next::Waits(WaitsFor::Answers);
        }
        let group = group.to_owned();
        let value = spec.and_then(prepares);
        let value = value.filter(|value| {
            words
                .get(*value)
                .is_some_and(|w| w.len() >= self.ahead.from_bytes)
        });
        if let Some(value) = value {
            return self.prepare(id, group, slot, words, value);
        }
        let which = match spec.is_some_and(|spec| kv::has_brief_reply(spec, words)) {
            true => Which::Brief,
            false => Which::Any,
        };
        if !self.rooms.admits(&group, which, client, bytes_of(words)) {
            return Next::Waits(WaitsFor::Room);
        }
        let by_map = self.groups.by_map(slot, &group);
        let bytes = order::run(client.protocol, by_map, words.iter().copied());
        self.ask(now, id, (group, which), slot, bytes);
        Next::Taken
    }

    pub(super) fn ask(
        &mut self,
        now: Time,
        id: u64,
        (group, which): (String, Which),
        slot: u16,
        bytes: Vec<u8>,
    ) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if client.group.as_ref() != Some(&group) {
            client.group = Some(group.clone());
        }
        let number = client.await_answer(bytes.len());
        self.call(now, (group, Some(which)), (id, number, slot), bytes);
    }

    /// A command, or, where it needs no room, a piece of the value of one: there are few of them.
    pub(super) fn call(
        &mut self,
        now: Time,
        (group, which): (String, Option<Which>),
        whose: (u64, u64, u16),
        bytes: Vec<u8>,
    ) {
        let (client, number, slot) = whose;
        let tell = self.tell.clone();
        let is_piece = which.is_none();
        let hold = which.map(|which| self.rooms.hold(&group, which, bytes.len()));
        let asked = Asked {
            client,
            number,
            slot,
            is_piece,
            hold,
            tell,
        };
        if self.host.group(&group).is_none()
            && let Some(place) = self.groups.place_elsewhere(&group)
        {
            let leader = Some(place.address);
            return asked.tell(Outcome::NotLeader { leader });
        }
        let replier = Replier::new(asked);
        let what = What::Call {
            command: Command::Plain(bytes),
            replier,
            order: Some(client),
        };
        let machine = group;
        self.host.ask(now, Ask { machine, what });
    }

    pub(super) fn spread(&mut self, now: Time, id: u64, name: &str, words: &[&[u8]]) -> Next {
        let mut led = self.led();
        let Some(client) = self.clients.get_mut(&id) else {
            return Next::Taken;
        };
        if !client.is_idle() {
            return Next::Waits(WaitsFor::Answers);
        }
        let joins = Joins::of(name);
        let (mut then, mut until) = (None, kv::SLOTS - 1);
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
            let at = from
                .next()
                .map(|served| (served.name.to_owned(), served.range.1));
            then = from.next().map(|served| cursor_at(served.range.0));
            until = at.as_ref().map_or(until, |(_, last)| *last);
            led = at.map(|(name, _)| name).into_iter().collect();
        }
        let protocol = client.protocol;
        // ‡ One such command at a time: nobody counts what some groups have told while others have not, and two that hold it could wait for each other.
        let bytes = self.bounds.group_bytes_max;
        let is_large = Spread::is_large(led.len(), joins);
        if is_large && !self.rooms.admits(ALL_GROUPS, Which::Any, client, bytes) {
            return Next::Waits(WaitsFor::Room);
        }
        let hold = is_large.then(|| self.rooms.hold(ALL_GROUPS, Which::Any, bytes));
        let number = client.await_answer(0);
        // ‡ No group has this name: what follows waits for all of them.
        client.group = Some(String::new());
        if led.is_empty() {
            let value = super::nothing::reply(words);
            self.answer(now, id, number, protocol, Some(&value));
            return Next::Taken;
        }
        let bytes = order::run(Protocol::Resp2, ByMap::default(), words.iter().copied());
        let mut spread = Spread::new(led.len(), joins, protocol, hold);
        spread.then = then;
        spread.until = until;
        self.spreads.insert((id, number), spread);
        for group in led {
            let group = (group, Some(Which::Any));
            self.call(now, group, (id, number, 0), bytes.clone());
        }
        Next::Taken
    }

    /// ‡ A reply has the protocol in which it was asked for: `HELLO` may be answered before it.
    pub(super) fn answer(
        &mut self,
        now: Time,
        id: u64,
        number: u64,
        protocol: Protocol,
        value: Option<&Value>,
    ) {
        let bytes = value.map(|value| {
            let mut bytes = Vec::new();
            encode(value, protocol, &mut bytes);
            bytes
        });
        self.count_answer((self.system.now)(now), id, number, bytes.as_deref());
        if let Some(client) = self.clients.get_mut(&id) {
            client.on_answer(number, bytes);
            self.ready.insert(id);
        }
    }

    /// Tells clients what became of their commands.
    pub(super) fn take_outcomes(&mut self, now: Time) {
        let at = (self.system.now)(now);
        while let Ok(came) = self.told.try_recv() {
            let Came {
                client: id,
                number,
                slot,
                is_piece,
                outcome,
            } = came;
            if is_piece {
                self.take_piece(now, id, number, outcome);
                continue;
            }
            let is_chosen = matches!(outcome, Outcome::Chosen(_));
            let bytes = self.reply(id, slot, outcome);
            if self.is_gone(now, id, number, bytes.as_deref()) {
                continue;
            }
            let done = match self.spreads.get_mut(&(id, number)) {
                None => {
                    self.count_answer(at, id, number, bytes.as_deref());
                    if let Some(client) = self.clients.get_mut(&id) {
                        client.on_answer(number, bytes);
                        let was_first = client.first_watch.take_if(|watch| *watch == number);
                        if was_first.is_some() && !is_chosen {
                            client.watches = false;
                            self.slots.watched.forget(id);
                        }
                        if client.unwatches.take_if(|exec| *exec == number).is_some() {
                            self.slots.watched.forget(id);
                        }
                        self.ready.insert(id);
                    }
                    continue;
                }
                Some(spread) => spread.take(bytes.as_deref()),
            };
            if done && let Some(spread) = self.spreads.remove(&(id, number)) {
                let protocol = spread.protocol;
                let value = spread.join();
                self.answer(now, id, number, protocol, value.as_ref());
            }
        }
        while let Ok(expired) = self.told_expired.try_recv() {
            self.counts.figures.expired_keys.add(expired.keys);
            if expired.keys >= EXPIRED_MAX as u64 {
                // There may be more.
                self.expire_at = now;
            }
            self.expire_from.insert(expired.group, Some(expired.next));
        }
    }

    /// ‡ `None`: nobody can say what became of it.
    pub(super) fn reply(&mut self, id: u64, slot: u16, outcome: Outcome) -> Option<Vec<u8>> {
        let value = match outcome {
            Outcome::Chosen(bytes) => match order::elsewhere_in(&bytes) {
                Some(group) => self.elsewhere(slot, group),
                None => return Some(bytes),
            },
            Outcome::Unknown if mutation::is(Mutation::UnknownRedirected) => {
                error("CLUSTERDOWN nobody leads the group of this slot now")
            }
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
    pub(super) fn expire(&mut self, now: Time) {
        if now < self.expire_at || self.stopping {
            return;
        }
        self.expire_at = now + EXPIRE_EVERY;
        self.counts.look(now);
        for group in self.led() {
            // ‡ One look of a group at a time: looks that take longer than the time between them would else be more and more.
            let next = self.expire_from.entry(group.clone()).or_insert(Some(0));
            let Some(from) = next.take() else {
                continue;
            };
            let tell = self.tell_expired.clone();
            let name = group.clone();
            let replier = Replier::new(move |outcome| {
                let (next, keys) = match outcome {
                    Outcome::Chosen(bytes) => order::expiry_answered(&bytes).unwrap_or_default(),
                    _ => (0, 0),
                };
                let group = name;
                drop(tell.send(Expired { group, next, keys }));
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
}

/// The bytes of a command.
pub(super) fn bytes_of(words: &[&[u8]]) -> usize {
    words.iter().map(|word| word.len()).sum()
}
