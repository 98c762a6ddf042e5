//! All clients, on one thread: it shares processors with the servers, so what it costs is measured too.
//!
//! ```text
//!   Draw: keys ──▶ Client: requests ──▶ its connection to the server of these keys
//!     ▲                                      │ epoll
//!     └── all answered ◀── replies, each held to the book of versions
//! ```

use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use bench::roles::Watched;
use testbed::scratch::go_on;

use super::apart::Apart;
use super::client::{Client, Next, Shared};
use super::connection::Connection;
use super::draw::{Chance, Draw};
use super::load::{Load, Op, Tally, Turn};
use super::slots::Map;
use super::values::Values;

pub struct Generator {
    shared: Shared,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    clients: Vec<Client>,
    resting: Vec<(Instant, usize)>,
    /// Clients who ask no more often than that, and those of them who wait for their time.
    pace: Option<Duration>,
    asks_at: Vec<(Instant, usize)>,
    /// Clients that wait for replies.
    waiting: usize,
    pipeline: u32,
    draw: Draw,
    /// Room for what is read, and for keys that are drawn.
    piece: Vec<u8>,
    keys: Vec<u32>,
    turns: u64,
    /// When a reply was last seen that was wanted, and how many there were.
    heard: (Instant, u64),
}

/// One turn's length, and what comes before it.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    pub warm_up: Duration,
    pub counted: Duration,
}

const EVENTS_MAX: usize = 256;
const PIECE_BYTES: usize = 256 << 10;
/// A client that got no reply rests for so long.
const REST: Duration = Duration::from_millis(10);
/// Servers that answer nothing for so long are given up.
const SILENCE_MAX: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(50);
const LOOK_PACED: Duration = Duration::from_millis(5);

/// Bytes of values that are on their way while keys are written.
const FILL_BYTES: usize = 8 << 20;
const FILL_ATTEMPTS: u32 = 20;

impl Generator {
    pub fn new(map: Map, value_bytes: usize) -> Result<Generator> {
        Ok(Generator {
            shared: Shared::new(map, Values::new(value_bytes)),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).context("there is no epoll")?,
            events: Vec::with_capacity(EVENTS_MAX),
            clients: Vec::new(),
            resting: Vec::new(),
            pace: None,
            asks_at: Vec::new(),
            waiting: 0,
            pipeline: 1,
            draw: Draw::Nothing,
            piece: vec![0; PIECE_BYTES],
            keys: Vec::new(),
            turns: 0,
            heard: (Instant::now(), 0),
        })
    }

    /// Writes every key once. `says`: how many percent are written.
    pub fn fill(&mut self, mut says: impl FnMut(u64)) -> Result<()> {
        for _ in 0..FILL_ATTEMPTS {
            let book = &self.shared.book;
            let ranges = self.shared.map.ranges.iter();
            let left = ranges.map(|range| {
                let keys = range.keys.iter().copied();
                keys.filter(|key| !book.is_written(*key)).collect()
            });
            let left: Vec<Vec<u32>> = left.collect();
            let count: usize = left.iter().map(Vec::len).sum();
            if count == 0 {
                return Ok(());
            }
            self.shared.tally = Tally::new();
            self.start(load_to_fill(self.shared.values.bytes()), Draw::Each(left));
            while !self.drive(Instant::now() + Duration::from_millis(300))? {
                let all = u64::from(self.shared.map.keys());
                let written = all - count as u64 + self.shared.tally.micros.len();
                says(100 * written / all);
            }
        }
        let why = self.shared.tally.why.as_deref();
        let why = why.unwrap_or("nobody knows why");
        bail!("not all keys could be written: {why}");
    }

    /// The figures of the load, with the time of the processes that are watched.
    pub fn turn(&mut self, load: Load, length: Length, watched: &Watched) -> Result<Turn> {
        self.turns += 1;
        self.start(load, Draw::Random(Chance::new(self.turns)));
        self.drive(Instant::now() + length.warm_up)?;
        self.shared.tally = Tally::new();
        let before = watched.look()?;
        self.drive(Instant::now() + length.counted)?;
        let tally = std::mem::replace(&mut self.shared.tally, Tally::new());
        let spent = watched.spent(&before, &watched.look()?)?;
        self.draw = Draw::Nothing;
        while !self.drive(Instant::now() + SILENCE_MAX)? {}
        if tally.micros.is_empty() {
            let why = tally.why.as_deref().unwrap_or("nobody knows why");
            bail!("{}: nothing was answered: {why}", load.sentence());
        }
        let mut turn = Turn::new(tally, &spent);
        // Its last replies came after its time; a wrong one is wrong all the same.
        turn.wrong += self.shared.tally.wrong;
        Ok(turn)
    }

    /// Clients that ask no more often than at that pace each, while `goes_on` says so, which is asked again and again.
    /// Replies about these slots are told apart. Returns what came of it.
    pub fn paced(
        &mut self,
        load: Load,
        pace: Duration,
        slots: RangeInclusive<u16>,
        mut goes_on: impl FnMut(&mut Apart) -> Result<bool>,
    ) -> Result<(Tally, Apart)> {
        self.turns += 1;
        self.pace = Some(pace);
        self.shared.tally = Tally::new();
        self.shared.apart = Some(Apart::new(slots));
        self.start(load, Draw::Random(Chance::new(self.turns)));
        while let Some(apart) = &mut self.shared.apart
            && goes_on(apart)?
        {
            self.drive(Instant::now() + LOOK_PACED)?;
        }
        self.draw = Draw::Nothing;
        while !self.drive(Instant::now() + SILENCE_MAX)? {}
        self.pace = None;
        let tally = std::mem::replace(&mut self.shared.tally, Tally::new());
        let apart = self.shared.apart.take().context("nothing was told apart")?;
        Ok((tally, apart))
    }

    fn start(&mut self, load: Load, draw: Draw) {
        self.shared.op = load.op;
        self.pipeline = load.pipeline;
        self.draw = draw;
        self.heard = (Instant::now(), self.shared.tally.micros.len());
        self.clients
            .resize_with(load.clients as usize, Client::default);
        if let Some(pace) = self.pace {
            // Spread over one step, so that they do not all ask at once.
            let (now, step) = (Instant::now(), pace / load.clients);
            let asks = (0..load.clients).map(|client| (now + step * client, client as usize));
            self.asks_at.extend(asks);
            return;
        }
        for client in 0..self.clients.len() {
            self.waiting += 1;
            self.next(client, Next::Ask);
        }
    }

    /// Goes on until then, or until no client has anything to do, and returns whether that is so.
    fn drive(&mut self, until: Instant) -> Result<bool> {
        loop {
            go_on()?;
            let now = Instant::now();
            self.wake(now);
            if self.waiting == 0 && self.resting.is_empty() && self.asks_at.is_empty() {
                return Ok(true);
            }
            if now >= until {
                return Ok(false);
            }
            match self.shared.tally.micros.len() {
                answered if answered != self.heard.1 => self.heard = (now, answered),
                _ if now.saturating_duration_since(self.heard.0) > SILENCE_MAX => self.give_up()?,
                _ => {}
            }
            let rests = self.resting.iter().chain(&self.asks_at);
            let rests = rests.map(|(until, _)| *until).min();
            let wait = until.min(rests.unwrap_or(until));
            let wait = wait.saturating_duration_since(now);
            self.wait(wait.min(LOOK))?;
            let events = std::mem::take(&mut self.events);
            for event in &events {
                let token = event.data.u64();
                self.on_event((token >> 16) as usize, (token & 0xffff) as usize);
            }
            self.events = events;
        }
    }

    fn give_up(&self) -> Result<()> {
        let seconds = SILENCE_MAX.as_secs();
        let why = self.shared.tally.why.as_deref();
        bail!(
            "no server answers for {seconds} s: {}",
            why.unwrap_or("nobody says why")
        );
    }

    fn wait(&mut self, longest: Duration) -> Result<()> {
        self.events.clear();
        let longest = Timespec {
            tv_sec: longest.as_secs() as i64,
            tv_nsec: i64::from(longest.subsec_nanos()),
        };
        let events = spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, events, Some(&longest)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("epoll fails"),
        }
    }

    fn on_event(&mut self, client: usize, server: usize) {
        // One that is no more may have been reported just before.
        let Some(one) = self.clients.get_mut(client) else {
            return;
        };
        let epoll = &self.epoll;
        let mut connect = |server, address| registered(epoll, client, server, address);
        let next = one.on_event(server, &mut self.shared, &mut self.piece, &mut connect);
        match (next, self.pace) {
            (Next::Ask, Some(pace)) => {
                // From when it last asked: who waited long asks at once.
                let asked = one.asked_at().unwrap_or_else(Instant::now);
                self.waiting -= 1;
                self.asks_at.push((asked + pace, client));
            }
            _ => self.next(client, next),
        }
    }

    /// The state of a client that waits.
    fn next(&mut self, client: usize, mut next: Next) {
        while next == Next::Ask {
            self.draw
                .next(&self.shared.map, self.pipeline, &mut self.keys);
            if self.keys.is_empty() {
                self.waiting -= 1;
                return;
            }
            let epoll = &self.epoll;
            let mut connect = |server, address| registered(epoll, client, server, address);
            next = self.clients[client].ask(&self.keys, &mut self.shared, &mut connect);
        }
        if next == Next::Rest {
            self.waiting -= 1;
            self.resting.push((Instant::now() + REST, client));
        }
    }

    fn wake(&mut self, now: Instant) {
        let asks_at = std::mem::take(&mut self.asks_at);
        for (at, client) in asks_at {
            match at <= now {
                true => {
                    self.waiting += 1;
                    self.next(client, Next::Ask);
                }
                false => self.asks_at.push((at, client)),
            }
        }
        if self.resting.iter().all(|(until, _)| *until > now) {
            return;
        }
        // Another server may lead. If none can say, those that are known are asked.
        let _ = self.shared.map.ask_again();
        let resting = std::mem::take(&mut self.resting);
        for (until, client) in resting {
            match until <= now {
                true => {
                    self.waiting += 1;
                    self.next(client, Next::Ask);
                }
                false => self.resting.push((until, client)),
            }
        }
    }
}

/// Many small values are on their way at once, or a few large ones.
fn load_to_fill(value_bytes: usize) -> Load {
    let values = (FILL_BYTES / value_bytes).clamp(2, 64 * 16) as u32;
    let clients = values.min(64);
    Load {
        op: Op::Set,
        clients,
        pipeline: values / clients,
    }
}

fn registered(
    epoll: &OwnedFd,
    client: usize,
    server: usize,
    address: std::net::SocketAddr,
) -> std::io::Result<Connection> {
    let connection = Connection::to(address)?;
    let data = epoll::EventData::new_u64((client as u64) << 16 | server as u64);
    let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
    epoll::add(epoll, connection.as_fd(), data, flags)?;
    Ok(connection)
}

#[cfg(test)]
mod tests;
