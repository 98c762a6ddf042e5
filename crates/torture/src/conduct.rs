//! Strikes, one round after the other, until the time is over.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::corrupt::{self, Flipped};
use super::rack::Rack;
use super::schedule::{Chance, Detail, Kind, Round, Schedule, Strike};
use testbed::scratch::go_on;
use testbed::watch::Watch;
use wire::quantity;

const LOOK: Duration = Duration::from_millis(20);

/// The clients that go on meanwhile.
pub trait Clients {
    /// Errors: one of them ended that must not.
    fn check(&mut self) -> Result<()>;
    /// What came of them until now, in a few words.
    fn so_far(&self) -> String;
}

pub struct Conductor<'a, C> {
    rack: &'a Rack,
    watch: &'a Watch,
    clients: C,
    began: Instant,
    length: Duration,
    disk_max: u64,
    shown_seconds: u64,
    /// In lines of their own, where nobody can watch.
    told_minutes: u64,
    looked_at_disk: Instant,
    active: Vec<Active>,
    conducted: Conducted,
}

/// The strikes, and what came of them.
pub struct Conducted {
    /// From which the histories count.
    clock: Instant,
    /// The number of strikes that took effect.
    pub counts: BTreeMap<Kind, u64>,
    /// Begun and without effect, and why.
    without_effect: BTreeMap<Kind, &'static str>,
    strikes: Vec<Done>,
    pub violations: Vec<String>,
}

struct Done {
    what: String,
    began: Instant,
    /// Healed and recovered.
    ended: Instant,
}

struct Active {
    strike: Strike,
    began: Instant,
    flipped: Vec<Flipped>,
    healed: bool,
}

impl<'a, C: Clients> Conductor<'a, C> {
    pub fn new(
        rack: &'a Rack,
        watch: &'a Watch,
        clients: C,
        clock: Instant,
        length: Duration,
        disk_max: u64,
    ) -> Self {
        let began = Instant::now();
        Self {
            rack,
            watch,
            clients,
            began,
            length,
            disk_max,
            shown_seconds: 0,
            told_minutes: 0,
            looked_at_disk: began,
            active: Vec::new(),
            conducted: Conducted {
                clock,
                counts: BTreeMap::new(),
                without_effect: BTreeMap::new(),
                strikes: Vec::new(),
                violations: Vec::new(),
            },
        }
    }

    /// Rounds until so much of the time has passed.
    pub fn conduct(&mut self, schedule: &mut Schedule, until: Duration) -> Result<()> {
        let until = self.began + until.min(self.length);
        while Instant::now() < until {
            let round = schedule.next_round();
            self.sleep_until(until.min(Instant::now() + round.quiet))?;
            if Instant::now() < until {
                self.round(round, until)?;
            }
        }
        Ok(())
    }

    fn round(&mut self, round: Round, until: Instant) -> Result<()> {
        for strike in round.strikes {
            self.begin(strike)?;
        }
        // In the order in which they end, and none later than the whole.
        self.active.sort_by_key(|active| active.strike.length);
        for at in 0..self.active.len() {
            let end = self.active[at].began + self.active[at].strike.length;
            self.sleep_until(end.min(until))?;
            self.heal(at)?;
        }
        self.recover()
    }

    fn begin(&mut self, strike: Strike) -> Result<()> {
        let began = Instant::now();
        let mut flipped = Vec::new();
        if let Detail::Flip {
            records,
            dead,
            choice,
        } = strike.detail
        {
            if dead {
                self.rack.cluster.kill(strike.victim)?;
            }
            let mut chance = Chance::new(choice, 0);
            flipped = corrupt::flip(self.rack, strike.victim, records, dead, &mut chance)?;
        } else {
            self.rack.begin(&strike)?;
        }
        self.active.push(Active {
            strike,
            began,
            flipped,
            healed: false,
        });
        Ok(())
    }

    fn heal(&mut self, at: usize) -> Result<()> {
        let rack = self.rack;
        let Active {
            strike, flipped, ..
        } = &self.active[at];
        let effect = match strike.kind {
            Kind::IoError if !rack.has_stopped(strike.victim) => Err("no write met it in its time"),
            Kind::Corrupt if flipped.is_empty() => Err("no record could be flipped yet"),
            _ => Ok(()),
        };
        match effect {
            Ok(()) => *self.conducted.counts.entry(strike.kind).or_default() += 1,
            Err(why) => drop(self.conducted.without_effect.insert(strike.kind, why)),
        }
        match strike.detail {
            Detail::Flip { dead: true, .. } => rack.cluster.restart(strike.victim)?,
            _ => rack.heal(strike)?,
        }
        self.active[at].healed = true;
        Ok(())
    }

    /// Waits until those that were struck take part again, and have what was damaged.
    fn recover(&mut self) -> Result<()> {
        let mut victims: Vec<u32> = self.active.iter().map(|a| a.strike.victim).collect();
        if self.active.iter().any(|active| {
            active.strike.kind == Kind::RestartAll || active.strike.detail == Detail::All
        }) {
            victims = self.rack.ids().collect();
        }
        self.rack.wait_recovered(&victims)?;
        for active in std::mem::take(&mut self.active) {
            for flipped in &active.flipped {
                let victim = active.strike.victim;
                let wrong = corrupt::wait_repaired(self.rack, victim, flipped)?;
                self.conducted.violations.extend(wrong);
            }
            self.conducted.strikes.push(Done {
                what: active.strike.to_string(),
                began: active.began,
                ended: Instant::now(),
            });
        }
        Ok(())
    }

    /// After an error in the middle, too.
    pub fn heal_all(&mut self) -> Result<()> {
        for at in 0..self.active.len() {
            if !self.active[at].healed {
                self.heal(at)?;
            }
        }
        for id in self.rack.ids() {
            if self.rack.cluster.pid(id).is_none() {
                self.rack.cluster.restart(id)?;
            }
        }
        self.recover()
    }

    pub fn end(self) -> (C, Conducted) {
        (self.clients, self.conducted)
    }

    fn sleep_until(&mut self, until: Instant) -> Result<()> {
        loop {
            go_on()?;
            self.clients.check()?;
            self.show();
            self.look_at_disk()?;
            if let Some(ended) = self.rack.cluster.take_ended()?.into_iter().next() {
                bail!("{}", ended.sentence());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    fn show(&mut self) {
        let seconds = self.began.elapsed().min(self.length).as_secs();
        self.watch.step(seconds - self.shown_seconds);
        self.shown_seconds = seconds;
        let faults: u64 = self.conducted.counts.values().sum();
        let now = self.active.iter().filter(|active| !active.healed);
        let now: Vec<String> = now.map(|active| active.strike.to_string()).collect();
        let so_far = format!("{faults} faults, {}", self.clients.so_far());
        if seconds / 60 > self.told_minutes && !std::io::stderr().is_terminal() {
            self.told_minutes = seconds / 60;
            eprintln!("{} min: {so_far}", self.told_minutes);
        }
        self.watch.says(format!("{so_far}  {}", now.join("; ")));
    }

    fn look_at_disk(&mut self) -> Result<()> {
        if self.looked_at_disk.elapsed() < Duration::from_secs(10) {
            return Ok(());
        }
        self.looked_at_disk = Instant::now();
        let used = size(self.rack.cluster.directory())?;
        if used > self.disk_max {
            bail!(
                "the nodes hold {}, more than --disk allows; lower --rate",
                quantity::shown(used)
            );
        }
        Ok(())
    }
}

/// The size of all files below; those that vanish meanwhile count nothing.
fn size(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)?.flatten() {
        bytes += match entry.metadata() {
            Ok(about) if about.is_dir() => size(&entry.path())?,
            Ok(about) => about.len(),
            Err(_) => 0,
        };
    }
    Ok(bytes)
}

impl Conducted {
    pub fn why_not(&self, kind: Kind) -> String {
        let why = self.without_effect.get(&kind).copied();
        why.unwrap_or("its turn did not come in so short a time")
            .to_owned()
    }

    /// The strikes of which something was between these times.
    pub fn during(&self, from: Instant, to: Instant) -> Vec<String> {
        let within = |done: &&Done| done.began <= to && done.ended >= from;
        let strikes = self.strikes.iter().filter(within);
        strikes.map(|done| done.what.clone()).collect()
    }

    pub fn strikes_text(&self) -> String {
        let mut text = String::new();
        for done in &self.strikes {
            let micros = |at: Instant| at.saturating_duration_since(self.clock).as_micros();
            let (from, to) = (micros(done.began), micros(done.ended));
            let _ = writeln!(text, "{from:>12} {to:>12} {}", done.what);
        }
        text
    }
}
