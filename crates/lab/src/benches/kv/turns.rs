//! We and our rivals in turn: each is asked for the same, and each is the first as often as the others.

use anyhow::{Context, Result};
use testbed::scratch::go_on;
use testbed::watch::Watch;

use super::etcd::Etcd;
use super::generator::{Generator, Length};
use super::load::{Load, Op, Turn};
use super::nodes::{Nodes, RAW};
use super::redis::Redis;
use crate::benches::raw;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    We,
    /// Appends to a log of our nodes.
    Raw,
    Etcd,
    Redis,
}

impl Who {
    pub fn name(self) -> &'static str {
        match self {
            Who::We => "logberg",
            Who::Raw => "raw append",
            Who::Etcd => "etcd",
            Who::Redis => "Redis, AOF always, one copy",
        }
    }

    /// In JSON.
    pub fn key(self) -> &'static str {
        match self {
            Who::We => "logberg",
            Who::Raw => "raw_append",
            Who::Etcd => "etcd",
            Who::Redis => "redis_aof",
        }
    }
}

pub const RIVALS: [Who; 2] = [Who::Etcd, Who::Redis];

/// All that are measured. They run beside each other, and one of them has something to do.
pub struct Contenders<'a> {
    pub nodes: &'a Nodes,
    pub generator: Generator,
    pub etcd: Option<Etcd>,
    pub redis: Option<Redis>,
    pub value_bytes: usize,
}

/// The turns of one load.
#[derive(Debug)]
pub struct Turns {
    pub load: Load,
    pub we: Vec<Turn>,
    pub raw_p50_ms: Vec<f64>,
    pub rivals: Vec<Rival>,
}

#[derive(Debug)]
pub struct Rival {
    pub who: Who,
    pub turns: Vec<Turn>,
    /// The reasons of turns that came to nothing.
    pub failures: Vec<String>,
}

impl Contenders<'_> {
    pub fn taking_part(&self, load: Load) -> Vec<Who> {
        let single = Load {
            op: Op::Set,
            clients: 1,
            pipeline: 1,
        };
        let all = [
            (Who::We, true),
            (Who::Raw, load == single),
            (Who::Etcd, self.etcd.is_some() && Etcd::can(load)),
            (Who::Redis, self.redis.is_some()),
        ];
        let there = all.into_iter().filter(|(_, is_there)| *is_there);
        there.map(|(who, _)| who).collect()
    }

    pub fn measure(
        &mut self,
        load: Load,
        times: u32,
        length: Length,
        watch: &Watch,
    ) -> Result<Turns> {
        let order = self.taking_part(load);
        let rivals = RIVALS.iter().filter(|who| order.contains(who));
        let rival = |who: &Who| Rival {
            who: *who,
            turns: Vec::new(),
            failures: Vec::new(),
        };
        let mut turns = Turns {
            load,
            we: Vec::new(),
            raw_p50_ms: Vec::new(),
            rivals: rivals.map(rival).collect(),
        };
        for time in 0..times {
            let mut order = order.clone();
            let first = time as usize % order.len();
            order.rotate_left(first);
            for who in order {
                watch.says(format!("{}: {}", load.sentence(), who.name()));
                self.take(who, &mut turns, length)
                    .with_context(|| format!("{}: {}", load.sentence(), who.name()))?;
                watch.step(1);
            }
        }
        Ok(turns)
    }

    fn take(&mut self, who: Who, turns: &mut Turns, length: Length) -> Result<()> {
        let turn = match (who, &mut self.etcd, &mut self.redis) {
            (Who::We, ..) => {
                let watched = self.nodes.watched()?;
                turns
                    .we
                    .push(self.generator.turn(turns.load, length, &watched)?);
                return Ok(());
            }
            (Who::Raw, ..) => {
                let p50_ms = raw::p50_ms(
                    &self.nodes.client(),
                    RAW,
                    self.value_bytes,
                    length.warm_up,
                    length.counted,
                )?;
                turns.raw_p50_ms.push(p50_ms);
                return Ok(());
            }
            (Who::Etcd, Some(etcd), _) => etcd.turn(turns.load, length),
            (Who::Redis, _, Some(redis)) => redis.turn(turns.load, length),
            (Who::Etcd | Who::Redis, ..) => return Ok(()),
        };
        // Asked to end, and not a rival that cannot be measured.
        go_on()?;
        let mut rivals = turns.rivals.iter_mut();
        if let Some(rival) = rivals.find(|rival| rival.who == who) {
            match turn {
                Ok(turn) => rival.turns.push(turn),
                Err(error) => rival.failures.push(format!("{error:#}")),
            }
        }
        Ok(())
    }
}
