//! One closed-loop client whose latency is measured, and many whose throughput is.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bench::roles::Watched;
use resp::Value;
use torture::link::{Link, words};

use crate::benches::kv::generator::{Generator, Length};
use crate::benches::kv::load::{Load, Op};
use crate::benches::kv::slots::Map;
use crate::benches::kv::values::name_of;

/// Longer than a node holds a command.
const REPLY_MAX: Duration = Duration::from_millis(2500);
const VALUE: &[u8] = b"some bytes";
pub const MANY: u32 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    One,
    Many,
}

impl Keys {
    pub fn name(self) -> &'static str {
        match self {
            Keys::One => "one key",
            Keys::Many => "many keys",
        }
    }

    fn count(self) -> u32 {
        match self {
            Keys::One => 1,
            Keys::Many => MANY,
        }
    }
}

/// Asks one command at a time, at the node that leads the key's group.
pub struct One {
    links: Vec<Link>,
    /// By key: which link.
    at: Vec<usize>,
    next: usize,
}

impl One {
    pub fn of(doors: &[String], keys: Keys) -> Result<One> {
        let map = Map::of_cluster(doors, keys.count())?;
        let links = map.servers.iter().map(|server| {
            let link = Link::to(&server.to_string(), REPLY_MAX);
            link.with_context(|| format!("{server} is not reached"))
        });
        Ok(One {
            links: links.collect::<Result<_>>()?,
            at: (0..keys.count())
                .map(|key| map.range_of(key).server)
                .collect(),
            // A step that has no part in common with the number of keys comes by all of them, and by all groups soon.
            next: 0,
        })
    }

    /// Sets a key, and is told its old value.
    pub fn propose(&mut self) -> Result<Duration> {
        const STEP: usize = 7_919;
        self.next = (self.next + STEP) % self.at.len();
        let key = name_of(self.next as u32);
        let link = &mut self.links[self.at[self.next]];
        let began = Instant::now();
        link.send(&[words([b"SET", &key[..], VALUE, b"GET"])])?;
        match link.receive()? {
            Value::Error(error) => bail!("a command was refused: {error}"),
            _ => Ok(began.elapsed()),
        }
    }
}

/// So many clients, all of which ask all the time.
pub struct Crowd(Generator);

impl Crowd {
    pub fn of(doors: &[String], keys: Keys) -> Result<Crowd> {
        let map = Map::of_cluster(doors, keys.count())?;
        let mut generator = Generator::new(map, VALUE.len())?;
        generator.fill(|_| ())?;
        Ok(Crowd(generator))
    }

    /// Commands a second.
    pub fn slice(&mut self, clients: u32, length: Length) -> Result<f64> {
        let load = Load {
            op: Op::Set,
            clients,
            pipeline: 1,
        };
        let turn = self.0.turn(load, length, &Watched::new(Vec::new(), None))?;
        if turn.failed + turn.wrong > 0 {
            let why = turn.why.unwrap_or_default();
            bail!(
                "{} commands failed or were wrong: {why}",
                turn.failed + turn.wrong
            );
        }
        turn.figures.get("ops_per_s").context("a turn has a rate")
    }
}
