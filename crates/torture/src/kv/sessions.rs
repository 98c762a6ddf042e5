//! Clients that send again what they got no answer to, in sessions: each adds to a counter of its own, and its sum is exact.
//!
//! Others, whose calls are judged by an order, do nothing twice. These do everything again until they are answered, and sometimes after: each answer has to be the sum of
//! what was added so far, each time, whatever died and whoever leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use resp::Value;
use serde::Serialize;
use testbed::scratch::go_on;

use super::caller::{Caller, Came, Request};
use super::link::words;
use super::load::Plan;
use crate::schedule::Chance;

/// A session is given up for another one after so many commands, more or less.
const SESSION_COMMANDS: u64 = 200;
const PATIENCE: Duration = Duration::from_secs(1);
const READ_MAX: Duration = Duration::from_secs(30);
const WRONG_MAX: usize = 20;

/// The outcome of the commands of all sessions.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sums {
    pub sessions: u64,
    /// Commands that were answered, each counted once.
    pub commands: u64,
    /// Commands that were sent again, without an answer or in spite of one.
    pub again: u64,
    #[serde(skip)]
    pub wrong: Vec<String>,
    /// By tag: the sum that its counter has to have.
    #[serde(skip)]
    sums: Vec<(String, i64)>,
}

pub struct Sessions {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Sums>>,
}

impl Sessions {
    /// One client for each tag.
    pub fn start(plan: &Plan) -> Result<Sessions> {
        let mut sessions = Sessions {
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for (number, (tag, _)) in (0..).zip(&plan.tags) {
            let chance = Chance::new(plan.seed, 7000 + number);
            let caller = Caller::new(plan.doors.clone(), chance, Instant::now());
            let mut client = Client {
                caller: caller.impatient(PATIENCE),
                chance: Chance::new(plan.seed, 8000 + number),
                tag: tag.clone(),
                stop: sessions.stop.clone(),
                sum: 0,
                sums: Sums::default(),
            };
            let thread = std::thread::Builder::new().name(format!("session-{number}"));
            sessions.threads.push(thread.spawn(move || {
                while !client.is_over() {
                    client.session();
                }
                client.sums.sums.push((client.tag, client.sum));
                client.sums
            })?);
        }
        Ok(sessions)
    }

    /// Has the clients come to the end of what they do, and waits for them.
    pub fn end(mut self, patience: Duration) -> Result<Sums> {
        self.stop.store(true, Ordering::Release);
        let deadline = Instant::now() + patience;
        let mut all = Sums::default();
        for thread in std::mem::take(&mut self.threads) {
            while !thread.is_finished() {
                if Instant::now() >= deadline {
                    bail!("a client of a session is not answered within {patience:?}");
                }
                go_on()?;
                std::thread::sleep(Duration::from_millis(20));
            }
            let Ok(one) = thread.join() else {
                bail!("a client of a session panicked; its words stand above");
            };
            all.sessions += one.sessions;
            all.commands += one.commands;
            all.again += one.again;
            all.wrong.extend(one.wrong);
            all.sums.extend(one.sums);
        }
        Ok(all)
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

fn counter(tag: &str) -> String {
    format!("{{{tag}}}sum")
}

struct Client {
    caller: Caller,
    chance: Chance,
    tag: String,
    stop: Arc<AtomicBool>,
    sum: i64,
    sums: Sums,
}

impl Client {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Acquire) || self.sums.wrong.len() >= WRONG_MAX
    }

    /// Asks until there is a reply. What leaves it unknown whether it was done is asked again like what was not done.
    fn ask(&mut self, line: &[&str]) -> Value {
        loop {
            let request = Request(vec![words(line)]);
            let mut ended = self.caller.ask(&self.tag, &[request]);
            match ended.pop().map(|ended| ended.came) {
                Some(Came::Done(value)) => return value,
                Some(Came::Refused(why)) if !is_refusal_for_now(&why) => return Value::error(why),
                Some(Came::Unknown) => self.sums.again += 1,
                _ => {}
            }
            std::thread::sleep(self.chance.millis(5, 40));
        }
    }

    fn session(&mut self) {
        let key = counter(&self.tag);
        let session = match self.ask(&["ONCE.OPEN", &key]) {
            Value::Integer(session) => session.to_string(),
            other => return self.sums.wrong.push(format!("ONCE.OPEN {key}: {other:?}")),
        };
        self.sums.sessions += 1;
        let mut sequence = 0;
        while !self.is_over() && self.chance.below(SESSION_COMMANDS) > 0 {
            sequence += 1 + self.chance.below(3);
            let add = 1 + self.chance.below(9) as i64;
            let (sequence, added) = (sequence.to_string(), add.to_string());
            let line = ["ONCE", &key, &session, &sequence, "INCRBY", &key, &added];
            self.sum += add;
            let again = u64::from(self.chance.below(8) == 0);
            for _ in 0..=again {
                let reply = self.ask(&line);
                if reply != Value::Integer(self.sum) {
                    let wanted = self.sum;
                    let what = line.join(" ");
                    let why = format!("{what}: {reply:?}, and the sum is {wanted}");
                    self.sums.wrong.push(why);
                    if let Value::Integer(now) = reply {
                        self.sum = now;
                    }
                }
            }
            self.sums.commands += 1;
            self.sums.again += again;
            std::thread::sleep(self.chance.millis(0, 20));
        }
    }
}

/// Nothing was done, and it may be in a moment.
fn is_refusal_for_now(why: &str) -> bool {
    ["MOVED ", "CLUSTERDOWN", "unreachable"]
        .iter()
        .any(|word| why.starts_with(word))
}

impl Sums {
    /// Reads all counters where they are served now.
    pub fn read(&mut self, caller: &mut Caller) -> Result<()> {
        let deadline = Instant::now() + READ_MAX;
        for (tag, sum) in &self.sums {
            let key = counter(tag);
            let found = loop {
                go_on()?;
                let mut ended = caller.ask(tag, &[Request(vec![words(["GET", &key])])]);
                match ended.pop().map(|ended| ended.came) {
                    Some(Came::Done(Value::Bulk(text))) => {
                        break String::from_utf8_lossy(&text).into_owned();
                    }
                    Some(Came::Done(_)) => break "0".to_owned(),
                    came if Instant::now() >= deadline => {
                        bail!("{key} cannot be read in the end: {came:?}")
                    }
                    _ => {}
                }
            };
            if found != sum.to_string() {
                self.wrong
                    .push(format!("{key} is {found} in the end, and {sum} was added"));
            }
        }
        Ok(())
    }
}
