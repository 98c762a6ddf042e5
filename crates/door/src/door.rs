//! The machine: connections and requests, and the host with its groups.

mod asking;
mod counting;
mod holding;
mod migrating;
mod nothing;
mod preparing;
mod taking;
mod transactions;
mod unread;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use host::{Host, Outcome};
use letters::{DoorFigures, RightsBoard, Shown};
use ops::{Completion, ConnId, Machine, Op, Time};
use resp::{Found, Parser};

use crate::answers::error;
use crate::answers::server::Settings;
use crate::askers::Askers;
use crate::bounds::Bounds;
use crate::claims::Claims;
use crate::client::{Awaited, Client, Most, Sized, Unread, WaitsFor};
use crate::counts::Counts;
use crate::groups::Groups;
use crate::guard::Guard;
use crate::large::Ahead;
use crate::moving::Moving;
use crate::rooms::Rooms;
use crate::slots::Slots;
use crate::slow::SlowLog;
use crate::spread::Spread;

const TOO_LONG: &str =
    "ERR the command was left out: a word of it has more than 64 MiB, or all of it more than 65";
const CLIENTS_MAX: usize = 10_000;
/// So many requests of one client are taken before others have their turn: each waits for those of others, not for a long pipeline.
const TAKEN_AT_ONCE: usize = 64;
/// Without a leader for longer a group's slots are not served: an election has ended by then.
const ELECTED_WITHIN: Duration = Duration::from_secs(2);

/// The parts that a door is made with.
pub struct DoorConfig {
    /// HOST:PORT.
    pub listen: String,
    /// HOST:PORT, as clients reach it.
    pub advertise: String,
    pub version: &'static str,
    pub process: u32,
    /// 8 bytes that nobody can predict, or a simulation's.
    pub seed: u64,
    /// The machine that the host has, whose WATCH table is shared.
    pub slots: Slots,
    pub host: Host,
    /// The door's counts, for its node.
    pub figures: Arc<DoorFigures>,
    /// Where the node tells who may do what; nobody is asked for anything where it tells nothing.
    pub rights: Option<Arc<RightsBoard>>,
    pub system: System,
    pub ahead: Ahead,
    pub bounds: Bounds,
}

/// The things that the door asks of the system at once. ‡ Nothing is decided by it: it is for figures alone.
#[derive(Clone, Copy)]
pub struct System {
    /// The clock: not before the moment at which the door was called.
    pub now: fn(Time) -> Time,
    /// The memory of the process.
    pub resident_bytes: fn() -> Option<u64>,
}

/// A system in which no time passes while the door works.
impl Default for System {
    fn default() -> System {
        System {
            now: |now| now,
            resident_bytes: || None,
        }
    }
}

/// The outcome of a command.
struct Came {
    client: u64,
    number: u64,
    slot: u16,
    /// It was a piece of the command's value.
    is_piece: bool,
    outcome: Outcome,
}

/// The outcome of a look for keys whose deadline has passed.
struct Expired {
    group: String,
    next: u16,
    /// The keys that were taken away.
    keys: u64,
}

/// The fate of a request.
enum Next {
    Taken,
    /// Not before that.
    Waits(WaitsFor),
}

pub struct Door {
    config: Config,
    host: Host,
    slots: Slots,
    groups: Groups,
    guard: Guard,
    moving: Moving,
    /// Clients that wait for the map of slots to be as they want it.
    wanted: Vec<migrating::Wanted>,
    /// When all groups were led last, as far as this node knows.
    led_at: Time,
    askers: Askers,
    clients: BTreeMap<u64, Client>,
    /// Clients of which something may be taken, or sent.
    ready: BTreeSet<u64>,
    ops: VecDeque<Op>,
    tell: Sender<Came>,
    told: Receiver<Came>,
    spreads: BTreeMap<(u64, u64), Spread>,
    /// The last number under which a value went ahead. Nobody else's values have the same.
    ticket: u64,
    /// Clients whose large values are on their way, and some who had one.
    with_large: BTreeSet<u64>,
    /// ‡ A client is gone whose pieces were under way: nobody tells what became of them, and others may have waited for their turn.
    has_large_left: bool,
    ahead: Ahead,
    expire_at: Time,
    /// By group: the slot where the next look begins. `None`: one is under way.
    expire_from: BTreeMap<String, Option<u16>>,
    tell_expired: Sender<Expired>,
    told_expired: Receiver<Expired>,
    began: Time,
    /// The wall clock's last word, in microseconds, and when it came.
    wall: (u64, Time),
    bounds: Bounds,
    rooms: Rooms,
    claims: Claims,
    /// When clients are looked for that keep others waiting, while any wait.
    slow_at: Option<Time>,
    /// The bytes of all clients' unfinished requests.
    input_bytes: usize,
    unsent_bytes: usize,
    /// Those of middling replies, and of large ones.
    unsent_sized: Sized,
    /// Clients that are not read because of their replies, when their shares are looked at, and the share that they had.
    held_back: BTreeSet<u64>,
    held_back_at: Time,
    held_back_by: Unread,
    /// While a command waits for room: when it is looked which clients take their replies.
    unread_at: Option<Time>,
    settings: Settings,
    system: System,
    counts: Counts,
    slow: SlowLog,
    /// When what is taken now was taken.
    taken_at: Time,
    /// The place in its request of a value that is to go ahead.
    is_to_go_ahead: Option<Range<usize>>,
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
            moving: Moving::new(config.seed, config.slots.arrived.clone()),
            slots: config.slots,
            groups: Groups::new(config.advertise),
            guard: Guard::of(config.rights),
            wanted: Vec::new(),
            led_at: now,
            askers: Askers::default(),
            clients: BTreeMap::new(),
            ready: BTreeSet::new(),
            ops: VecDeque::from([Op::Listen { address }]),
            tell,
            told,
            spreads: BTreeMap::new(),
            ticket: config.seed.rotate_left(32),
            with_large: BTreeSet::new(),
            has_large_left: false,
            ahead: config.ahead,
            expire_at: now,
            expire_from: BTreeMap::new(),
            tell_expired,
            told_expired,
            began: now,
            wall: (0, now),
            bounds: config.bounds,
            rooms: Rooms::new(config.bounds),
            claims: Claims::new(config.bounds),
            slow_at: None,
            input_bytes: 0,
            unsent_bytes: 0,
            unsent_sized: [0; 2],
            held_back: BTreeSet::new(),
            held_back_at: now,
            held_back_by: Unread::default(),
            unread_at: None,
            settings: Settings::default(),
            system: config.system,
            counts: Counts::new(config.figures),
            slow: SlowLog::default(),
            taken_at: now,
            is_to_go_ahead: None,
            stopping: false,
        }
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    /// So much a client may have under way, and unread.
    fn most(&self, now: Time, id: u64) -> Most {
        let under_way = match self.askers.others(id, now) {
            true => self.bounds.beside,
            false => self.bounds.alone,
        };
        Most {
            under_way,
            unread: self.unread_max(),
            ahead_bytes: self.bounds.ahead_bytes,
        }
    }

    fn accept(&mut self, conn: ConnId, peer: String, by_handshake: Shown) {
        let figures = &self.counts.figures;
        figures.connections.add(1);
        let mut client = Client::new(conn.0, peer, by_handshake);
        if self.clients.len() >= CLIENTS_MAX {
            figures.connections_refused.add(1);
            client.answer(&error("ERR max number of clients reached"));
            client.end();
        }
        self.clients.insert(conn.0, client);
        self.ready.insert(conn.0);
    }

    fn forget(&mut self, id: u64) {
        if let Some(client) = self.clients.remove(&id) {
            self.has_large_left |= client.large.is_some();
            self.input_bytes -= client.counted;
            self.claims.give(id, client.claimed);
            self.unsent_bytes -= client.counted_unsent;
            for (all, counted) in self.unsent_sized.iter_mut().zip(client.counted_sized) {
                *all -= counted;
            }
            self.count_gone(&client);
            if client.watches || client.unwatches.is_some() {
                self.slots.watched.forget(id);
            }
        }
        self.ready.remove(&id);
        self.held_back.remove(&id);
        self.rooms.forget(id);
        self.claims.leave_line(id);
        self.wanted.retain(|wanted| !wanted.is_of(id));
        // Some of the groups that it asked together may never answer now.
        self.spreads.retain(|(client, _), _| *client != id);
        self.host.forget_order(id);
    }

    /// Takes what a client's bytes ask for, as long as it may. It is ready again where that is more than is taken at once.
    fn serve(&mut self, now: Time, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let Some((mut parser, mut input, mut done)) = client.take_input() else {
            return;
        };
        self.taken_at = (self.system.now)(now);
        let most = self.most(now, id);
        let takes_more = |client: &Client| client.takes_more(most);
        if let Some(client) = self.clients.get_mut(&id)
            && takes_more(client)
        {
            client.waits_for = None;
        }
        let mut taken = 0;
        while self.clients.get(&id).is_some_and(takes_more) && taken < TAKEN_AT_ONCE {
            taken += 1;
            let rest = input.get(done..).unwrap_or_default();
            match self.next(now, id, &mut parser, rest) {
                Ok(Some(length)) => {
                    done += length;
                    if let Some(place) = self.is_to_go_ahead.take() {
                        let rest = input.split_off(done);
                        let begin = done - length;
                        self.send_ahead(now, id, input, begin + place.start..begin + place.end);
                        (input, done) = (rest, 0);
                    }
                }
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
            client.has_more = taken == TAKEN_AT_ONCE && takes_more(client);
            if client.has_more {
                self.ready.insert(id);
            }
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
            Found::Nothing { length } | Found::Dropped { length } => Some(length),
            Found::TooLong { length } => {
                self.refuse_too_long(id);
                Some(length)
            }
            Found::Request(request) => {
                let words: Vec<&[u8]> = request.arguments().collect();
                let length = request.length();
                match self.take(now, id, &words) {
                    Next::Taken => {
                        self.find_value(id, rest, &words);
                        Some(length)
                    }
                    Next::Waits(waits_for) => {
                        if let Some(client) = self.clients.get_mut(&id) {
                            client.waits_for = Some(waits_for);
                        }
                        *parser = Parser::new(crate::client::limits());
                        None
                    }
                }
            }
        })
    }

    /// Sends what is answered, asks for more, and closes what is over.
    fn settle_client(&mut self, now: Time, id: u64) {
        let most = self.most(now, id);
        self.count_unsent(now, id);
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let conn = ConnId(id);
        while let Some(slices) = client.take_output() {
            let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
            self.counts.figures.sent_bytes.add(bytes as u64);
            self.ops.push_back(Op::Send { conn, slices });
        }
        if client.is_over() {
            self.ops.push_back(Op::Close { conn, flush: true });
            self.forget(id);
            return;
        }
        let (begins, awaited) = (client.begins_to_receive(most), client.awaited());
        if let Some(bytes) = begins {
            let bytes_max = self.receive_bytes_max(id).min(bytes);
            self.ops.push_back(Op::ReceiveWhenThere { conn, bytes_max });
        }
        if awaited == Awaited::Reads {
            self.hold_back(now, id, most.unread);
        }
    }
}

impl Machine for Door {
    fn handle(&mut self, now: Time, completion: Completion) {
        match completion {
            Completion::Accepted {
                conn, peer, client, ..
            } => self.accept(conn, peer, Shown::by_handshake(client.as_ref())),
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
                        self.counts
                            .figures
                            .received_bytes
                            .add(received.count as u64);
                        client.on_received(now, &slice.slice(range.start..end));
                        if received.end {
                            // ‡ Its commands that are not executed yet are dropped: whoever retries would be a second one.
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
                    client.on_sent(now);
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
        if self.groups.are_led(&self.host) {
            self.led_at = now;
        }
        if self.guard.look(now) {
            self.ready.extend(self.clients.keys());
        }
        self.expire(now);
        // ‡ Before anything is executed: the answers that groups have given are unread from now on.
        self.take_outcomes(now);
        self.close_unread(now);
        self.read_on_unread(now);
        // Twice: what the host answers at once lets clients go on, and frees what they wait for.
        for _ in 0..2 {
            for id in std::mem::take(&mut self.ready) {
                self.serve(now, id);
                self.settle_client(now, id);
            }
            if std::mem::take(&mut self.has_large_left) {
                self.go_ahead_all(now, 0);
            }
            while let Some(id) = self.rooms.next() {
                self.have_turn(now, id);
            }
            self.tell_unread();
            self.host.on_time(now);
            self.take_outcomes(now);
        }
        self.read_on(now);
        let is_loaded = self.askers.any(now);
        self.settle_wanted(now);
        if self.moving.settle(now, &mut self.host, is_loaded) {
            self.count_ready(now);
            self.host.on_time(now);
        }
        for id in self.ready.clone() {
            self.settle_client(now, id);
        }
        self.look_at_unread(now);
        self.tell_figures();
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front().or_else(|| self.host.poll_op())
    }

    fn deadline(&self) -> Option<Time> {
        let is_due = !self.ready.is_empty() || self.has_large_left || self.rooms.are_due();
        let soon = is_due.then_some(Time::ZERO);
        let guard = self.guard.deadline();
        let own = [Some(self.expire_at), soon, guard, self.unread_at];
        let own = own.into_iter().flatten();
        let moving = self.moving.deadline();
        let own = own.chain(self.host.deadline()).chain(moving);
        let held_back = (!self.held_back.is_empty()).then_some(self.held_back_at);
        let own = own.chain(self.slow_at).chain(held_back);
        own.chain(self.wanted_deadline()).min()
    }

    fn is_finished(&self) -> bool {
        self.stopping && self.host.is_finished()
    }
}
