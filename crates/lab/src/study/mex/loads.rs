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
    doors: Vec<String>,
    keys: Keys,
    links: Vec<Link>,
    /// By key: which link.
    at: Vec<usize>,
    next: usize,
}

/// A group that another node leads now is looked for that long.
const ELSEWHERE_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// Whether another node has the key, or will soon.
fn is_elsewhere(error: &str) -> bool {
    let first = error.split(' ').next().unwrap_or_default();
    ["MOVED", "CLUSTERDOWN", "TRYAGAIN"].contains(&first)
}

impl One {
    pub fn of(doors: &[String], keys: Keys) -> Result<One> {
        let map = Map::of_cluster(doors, keys.count())?;
        let links = map.servers.iter().map(|server| {
            let link = Link::to(&server.to_string(), REPLY_MAX);
            link.with_context(|| format!("{server} is not reached"))
        });
        Ok(One {
            doors: doors.to_vec(),
            keys,
            links: links.collect::<Result<_>>()?,
            at: (0..keys.count())
                .map(|key| map.range_of(key).server)
                .collect(),
            // A step that has no part in common with the number of keys comes by all of them, and by all groups soon.
            next: 0,
        })
    }

    /// Sets a key, and is told its old value. A client that is sent elsewhere goes there, and its time goes on.
    pub fn propose(&mut self) -> Result<Duration> {
        const STEP: usize = 7_919;
        self.next = (self.next + STEP) % self.at.len();
        let key = name_of(self.next as u32);
        let began = Instant::now();
        loop {
            let link = &mut self.links[self.at[self.next]];
            link.send(&[words([b"SET", &key[..], VALUE, b"GET"])])?;
            match link.receive()? {
                Value::Error(error) if is_elsewhere(&error) && began.elapsed() < ELSEWHERE_MAX => {
                    self.look_again()?;
                }
                Value::Error(error) => bail!("a command was refused: {error}"),
                _ => return Ok(began.elapsed()),
            }
        }
    }

    fn look_again(&mut self) -> Result<()> {
        std::thread::sleep(PAUSE);
        let next = self.next;
        *self = One::of(&self.doors, self.keys)?;
        self.next = next;
        Ok(())
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
