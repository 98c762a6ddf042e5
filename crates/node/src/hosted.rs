//! Guests of this node: state machines that are not the node's own, one for each log that somebody made one for.
//!
//! ```text
//!  a log appears ─▶ Hosts, by its name ─▶ a Hosted is attached ─▶ after each round of the log: what it has, then on_settled
//! ```
//!
//! The directory is a guest of log 0 by the same port, and part of the node since it steers it.

mod hearing;
mod remote;
mod rows;
mod small;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use formats::frame::Piece;
use formats::{LogId, LogKind, Stand};
use letters::{DoorFigures, Elsewhere, HttpFigures, News, RightsBoard, SlotsMapped, ToNode, Wish};
use ops::{ConnId, Letter, MachineId, Op};
use paxos::{NodeId, Time};
use replica::{Env, Event, Log, Port};
use slots::Map;
use wire::Refusal;

use crate::logs::Logs;
use crate::logs::agenda::Agenda;
use crate::logs::due::Due;
use remote::Remote;
use rows::Clients;
pub(crate) use rows::Wants;

pub use small::{CallId, Outcome, Small};

/// A guest of one log. It reads no clock and draws no randomness, so that it lives in a simulated node, too.
pub trait Hosted {
    /// The position in the log's output at which it goes on: its own state may stand for all before.
    fn from(&self) -> u64 {
        0
    }

    /// Whether it takes more now. Events that it does not take wait in the log.
    fn takes_more(&self, _now: Time, _port: &Port<'_>) -> bool {
        true
    }

    /// Takes the next event of its log.
    fn on_event(&mut self, event: Event, port: &mut Port<'_>);

    /// Called when something happened to its log, or its deadline came, and it has taken what it takes.
    fn on_settled(&mut self, now: Time, port: &mut Port<'_>);

    /// The time when it wants to be looked at in any case. Asked when it is attached, and after each time it
    /// was settled.
    fn deadline(&self) -> Option<Time> {
        None
    }
}

/// A log's guest, or the machine of this process that has it.
enum Guest {
    Here(Box<dyn Hosted>),
    There(Box<Remote>),
}

enum Made {
    Here(Box<dyn Hosted>),
    There(MachineId),
}

type Make = dyn Fn(&str, LogKind) -> Option<Made> + Send + Sync;

/// The guests of this node: asked with the name and the kind of each log that appears here and is one of a machine.
#[derive(Clone)]
pub struct Hosts {
    make: Arc<Make>,
    /// The counts of the door that has these guests.
    door: Option<Arc<DoorFigures>>,
    /// The counts of the door for HTTP of this process.
    http: Option<Arc<HttpFigures>>,
    /// Where the doors of this process look who may do what.
    rights: Option<Arc<RightsBoard>>,
}

impl Hosts {
    pub fn new(make: impl Fn(&str) -> Option<Box<dyn Hosted>> + Send + Sync + 'static) -> Hosts {
        Hosts::made(move |name, _| make(name).map(Made::Here))
    }

    /// Another machine of this process hosts the logs of these names: `letters` are what it and the node tell each other.
    pub fn in_machine(
        machine: MachineId,
        hosts: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Hosts {
        Hosts::made(move |name, kind| {
            let is = kind == LogKind::State && hosts(name);
            is.then_some(Made::There(machine))
        })
    }

    /// Another machine of this process hosts all logs of this kind.
    pub fn of_kind(machine: MachineId, kind: LogKind) -> Hosts {
        Hosts::made(move |_, other| (other == kind).then_some(Made::There(machine)))
    }

    /// … of which there is none yet: `begin` is called before each log is handed over, and says whether the machine is there by then.
    pub fn of_kind_once_begun(
        machine: MachineId,
        kind: LogKind,
        begin: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Hosts {
        Hosts::made(move |_, other| {
            let is = other == kind && begin();
            is.then_some(Made::There(machine))
        })
    }

    /// … and those hosts have the logs that these have not.
    pub fn and(self, others: Hosts) -> Hosts {
        let make = self.make;
        let both = move |name: &str, kind| make(name, kind).or_else(|| (others.make)(name, kind));
        Hosts {
            make: Arc::new(both),
            door: self.door.or(others.door),
            http: self.http.or(others.http),
            rights: self.rights.or(others.rights),
        }
    }

    fn made(make: impl Fn(&str, LogKind) -> Option<Made> + Send + Sync + 'static) -> Hosts {
        let make = Arc::new(make);
        Hosts {
            make,
            door: None,
            http: None,
            rights: None,
        }
    }

    /// … and a door, whose figures the node tells with its own.
    pub fn with_door(self, figures: Arc<DoorFigures>) -> Hosts {
        let door = Some(figures);
        Hosts { door, ..self }
    }

    /// … and a door for HTTP, likewise.
    pub fn with_http(self, figures: Arc<HttpFigures>) -> Hosts {
        let http = Some(figures);
        Hosts { http, ..self }
    }

    /// These hosts' doors are told there who may do what.
    pub fn with_rights(self, board: Arc<RightsBoard>) -> Hosts {
        let rights = Some(board);
        Hosts { rights, ..self }
    }

    pub(crate) fn rights(&self) -> Option<&RightsBoard> {
        self.rights.as_deref()
    }

    pub(crate) fn http(&self) -> Option<&HttpFigures> {
        self.http.as_deref()
    }

    pub(crate) fn door(&self) -> Option<&DoorFigures> {
        self.door.as_deref()
    }
}

impl Default for Hosts {
    fn default() -> Hosts {
        Hosts::new(|_| None)
    }
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hosts")
    }
}

/// The guests that are here, each with its log.
#[derive(Default)]
pub(crate) struct HostedLogs {
    by_log: BTreeMap<LogId, Guest>,
    agenda: Agenda,
    /// Those who take rows of machines, or bring some.
    clients: Clients,
    /// The machines that have logs, and the map of slots that each was told last.
    told_slots: BTreeMap<MachineId, Option<SlotsMapped>>,
    /// The groups of which this node has no replica.
    elsewhere: Arc<Elsewhere>,
}

impl HostedLogs {
    /// Attaches the guest that somebody made for this log, if anybody did, and the log is one of a machine.
    pub fn attach(&mut self, hosts: &Hosts, log: &mut Log, env: &mut Env) {
        // Clients write to the others: their bytes are no machine's.
        if log.kind().is_bytes() {
            return;
        }
        let guest = match (hosts.make)(log.name(), log.kind()) {
            None => return,
            Some(Made::Here(hosted)) => {
                log.attach(hosted.from(), false);
                self.agenda.set(log.id(), hosted.deadline());
                log.port(env).stand(Stand::IN_LOG);
                Guest::Here(hosted)
            }
            Some(Made::There(machine)) => {
                let cluster = env.own.identity.cluster;
                let remote = Remote::new(log.id(), machine, log.engine().is_auxiliary());
                let appeared = News::Appeared {
                    name: log.name().to_owned(),
                    cluster: cluster.0,
                    own: env.own.identity.node,
                    is_auxiliary: log.engine().is_auxiliary(),
                };
                remote.tell(&mut log.port(env), appeared);
                self.told_slots.entry(machine).or_default();
                Guest::There(Box::new(remote))
            }
        };
        self.by_log.insert(log.id(), guest);
    }

    /// A machine of this process wishes something of a log.
    pub fn on_wish(&mut self, wish: ToNode, logs: &mut Logs, due: &mut Due, env: &mut Env) {
        let ToNode { log: id, what } = wish;
        let what = match what {
            Wish::ToClient { client, word } => return self.clients.on_word(client, word, env),
            what => what,
        };
        let (Some(Guest::There(remote)), Some(log)) = (self.by_log.get_mut(&id), logs.get_mut(&id))
        else {
            return;
        };
        due.touch(id);
        match what {
            Wish::Attach { from, number } => {
                log.attach(from, false);
                remote.on_wish(Wish::Attach { from, number });
            }
            what => remote.on_wish(what),
        }
    }

    /// Tells the machines of this process which group is to serve which slots, where that is news.
    pub fn tell_slots(&mut self, map: &Arc<Map>, env: &mut Env) {
        for (machine, told) in &mut self.told_slots {
            let is_same = |told: &SlotsMapped| {
                Arc::ptr_eq(&told.map, map) && Arc::ptr_eq(&told.elsewhere, &self.elsewhere)
            };
            if !told.as_ref().is_some_and(is_same) {
                let mapped = SlotsMapped {
                    map: map.clone(),
                    elsewhere: self.elsewhere.clone(),
                };
                *told = Some(mapped.clone());
                let (to, letter) = (*machine, Letter::new(mapped));
                env.out.ops.push_back(Op::Post { to, letter });
            }
        }
    }

    /// The groups of which this node has no replica: machines hear of them with the map.
    pub fn note_elsewhere(&mut self, elsewhere: Elsewhere) {
        if *self.elsewhere != elsewhere {
            self.elsewhere = Arc::new(elsewhere);
        }
    }

    /// Takes a word between groups: to the leader of this log's group, or its answer.
    pub fn on_group_word(
        &mut self,
        by: NodeId,
        asks: bool,
        piece: Piece,
        logs: &mut Logs,
        env: &mut Env,
    ) {
        let Piece {
            log: id,
            request,
            bytes,
        } = piece;
        // An answer is known by its number: where this node has no replica of that group, any log's guest hears it.
        let is_there = |guest: &Guest| matches!(guest, Guest::There(_));
        let mut others = self.by_log.iter().filter(|(_, guest)| is_there(guest));
        let id = match self.by_log.contains_key(&id) || asks {
            true => id,
            false => others.next().map_or(id, |(other, _)| *other),
        };
        let guest = self.by_log.get_mut(&id);
        if let (Some(Guest::There(remote)), Some(log)) = (guest, logs.get_mut(&id)) {
            let news = match asks {
                true => News::GroupAsked { by, request, bytes },
                false => News::GroupTold { request, bytes },
            };
            remote.tell(&mut log.port(env), news);
        }
    }

    /// Takes a peer's question for a piece of a state, or its answer, for the machine that has it.
    pub fn on_piece(
        &mut self,
        by: NodeId,
        asks: bool,
        piece: Piece,
        logs: &mut Logs,
        env: &mut Env,
    ) {
        let id = piece.log;
        let guest = self.by_log.get_mut(&id);
        if let (Some(Guest::There(remote)), Some(log)) = (guest, logs.get_mut(&id)) {
            remote.on_piece(by, asks, piece, &mut log.port(env));
        }
    }

    /// Turns a client over to the machine of this log.
    pub fn begin_rows(
        &mut self,
        (log, conn): (LogId, ConnId),
        wants: Wants,
        (rest, ended): (&[u8], bool),
        env: &mut Env,
    ) -> Result<(), Refusal> {
        match self.by_log.get(&log) {
            Some(Guest::There(remote)) => {
                let machine = remote.machine();
                self.clients.begin(conn, log, machine, wants, env)?;
                if !rest.is_empty() || ended {
                    self.clients.on_received(conn, rest, ended, env);
                }
                Ok(())
            }
            _ => Err(Refusal::new(
                "no-machine",
                "the program of this node has no machine for this log: ask nodes that embed one of its name (docs/embedding.md)",
            )),
        }
    }

    pub fn on_rows_sent(&mut self, conn: ConnId, ok: bool, env: &mut Env) {
        self.clients.on_sent(conn, ok, env);
    }

    pub fn on_rows_received(&mut self, conn: ConnId, bytes: &[u8], ended: bool, env: &mut Env) {
        self.clients.on_received(conn, bytes, ended, env);
    }

    /// Ends a client that takes rows, or brings some.
    pub fn end_client(&mut self, conn: ConnId, why: &Refusal, env: &mut Env) {
        self.clients.end_one(conn, why, env);
    }

    pub fn expire_clients(&mut self, env: &mut Env) {
        self.clients.expire(env);
    }

    /// Whether this log has a machine here.
    pub fn has(&self, id: LogId) -> bool {
        self.by_log.contains_key(&id)
    }

    /// The logs whose states go no further here, and why.
    pub fn halted(&self) -> impl Iterator<Item = (LogId, &str)> {
        let guests = self.by_log.iter();
        guests.filter_map(|(id, guest)| match guest {
            Guest::Here(_) => None,
            Guest::There(remote) => Some((*id, remote.halted()?)),
        })
    }

    /// The logs whose states a restore has begun to fill, and fills no more.
    pub fn half_filled(&self, now: Time) -> impl Iterator<Item = LogId> {
        let guests = self.by_log.iter();
        guests.filter_map(move |(id, guest)| match guest {
            Guest::There(remote) if remote.is_left_half_filled(now) => Some(*id),
            Guest::There(_) | Guest::Here(_) => None,
        })
    }

    pub fn remove(&mut self, id: LogId, env: &mut Env) {
        self.agenda.set(id, None);
        self.clients.end_of(id, env);
        if let Some(Guest::There(remote)) = self.by_log.remove(&id) {
            env.out.ops.push_back(remote.farewell());
        }
    }

    /// Hands each guest what its log has.
    pub fn serve(
        &mut self,
        settled: &BTreeSet<LogId>,
        logs: &mut Logs,
        due: &mut Due,
        env: &mut Env,
    ) {
        if self.by_log.is_empty() {
            return;
        }
        let now = env.now;
        for id in settled {
            let (Some(guest), Some(log)) = (self.by_log.get_mut(id), logs.get_mut(id)) else {
                continue;
            };
            let hosted: &mut dyn Hosted = match guest {
                Guest::Here(hosted) => hosted.as_mut(),
                Guest::There(remote) => remote.as_mut(),
            };
            if log.is_stopped() {
                self.agenda.set(*id, None);
                continue;
            }
            let mut port = log.port(env);
            while hosted.takes_more(now, &port)
                && let Some(event) = port.next_event()
            {
                hosted.on_event(event, &mut port);
            }
            hosted.on_settled(now, &mut port);
            if port.is_dirty() {
                due.touch(*id);
            }
            self.agenda.set(*id, hosted.deadline());
        }
    }

    pub fn deadline(&self) -> Option<Time> {
        self.agenda.first()
    }

    /// The logs whose guests are to be looked at in any case.
    pub fn due(&self, now: Time) -> impl Iterator<Item = LogId> {
        self.agenda.due(now)
    }
}
