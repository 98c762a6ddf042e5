//! An operator: commands, what was answered to them, and whether that is so at once.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use client::members::{Action, Change};
use client::{AdminError, Client, NewLog, Timeouts};

use super::place::Places;
use super::plan::Command;
use crate::answered::{Answered, Found, append};
use crate::content;
use testbed::scratch::go_on;

/// An operator's patience with one command.
const TOTAL: Duration = Duration::from_secs(20);
const JOIN_MAX: Duration = Duration::from_secs(30);
const REPLACE_MAX: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(100);
const ASIDE_BYTES: u64 = 300_000;
/// So many logs of the operator's own at a time.
const ASIDE_MAX: usize = 4;

pub struct Operator {
    /// The logs that others write, `main` first.
    logs: Vec<String>,
    seed: u64,
    answered: Answered,
    next: u32,
    pub acked_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Refused(String),
    /// It may be done, and may not.
    Unanswered(String),
}

impl Operator {
    pub fn new(logs: Vec<String>, seed: u64) -> Operator {
        Operator {
            logs,
            seed,
            answered: Answered::default(),
            next: 0,
            acked_bytes: 0,
        }
    }

    /// Gives a command, and asks each of `well` at once whether what was answered is so.
    ///
    /// Errors: what cannot be, as a sentence.
    pub fn give(&mut self, command: Command, places: &Places, well: &[u32]) -> Result<Outcome> {
        let client = places.client(TOTAL);
        let outcome = match command {
            Command::Weight { log, place, weight } => {
                let node = places.id(place);
                let mut change = Change::new(Action::Weight { node, weight });
                change.logs = vec![self.logs[log].clone()];
                let outcome = outcome(client.change_members(&change));
                let key = (self.logs[log].clone(), node);
                match &outcome {
                    Outcome::Done => drop(self.answered.weights.insert(key, weight)),
                    Outcome::Unanswered(_) => drop(self.answered.weights.remove(&key)),
                    Outcome::Refused(_) => {}
                }
                outcome
            }
            Command::Lead { log } => outcome(client.move_leader(&self.logs[log], None)),
            Command::Create => self.create(&client),
            Command::Delete => self.delete(&client),
            Command::Retain => self.retain(&client),
            Command::Replace { .. } => unreachable!("comes alone"),
        };
        if outcome == Outcome::Done {
            for place in well {
                self.check(places, *place)?;
            }
        }
        Ok(outcome)
    }

    /// Asks this node whether every answer holds.
    pub fn check(&self, places: &Places, place: u32) -> Result<()> {
        let timeouts = Timeouts {
            total: TOTAL,
            ..Timeouts::default()
        };
        let address = places.cluster.address(place).to_owned();
        let client = Client::new(vec![address.clone()], timeouts);
        let mut found = Found::default();
        let mut asked = self.answered.check_names(&client, &mut found);
        asked = asked.and_then(|()| self.answered.check_weights(&client, &mut found));
        if let Some(first) = found.violations.into_iter().next() {
            bail!("{address}: {first}");
        }
        // It may have lost its quorum's ear meanwhile. The rounds that heal ask again, and insist.
        drop(asked);
        Ok(())
    }

    /// Every answer holds, on every node; every byte of the operator's own streams is there.
    pub fn check_all(&self, places: &Places, found: &mut Found) -> Result<()> {
        let client = places.client(TOTAL);
        self.answered.check_names(&client, found)?;
        self.answered.check_weights(&client, found)?;
        let members = client.members()?;
        let mut most = 0;
        for place in places.all() {
            let node = places.id(place);
            // An auxiliary at rest holds none of them.
            let holds = |name: &str| {
                let log = members.logs.iter().find(|log| log.name == name);
                let member = log.and_then(|log| log.members.iter().find(|m| m.node == node));
                member.is_some_and(|member| member.role != "auxiliary")
            };
            let mut here = Found::default();
            let address = places.cluster.address(place);
            self.answered
                .check_streams(&client, address, &holds, &mut here);
            // A byte that is lost on every node is one byte.
            most = most.max(here.lost_bytes);
            found.violations.append(&mut here.violations);
        }
        found.lost_bytes += most;
        Ok(())
    }

    fn create(&mut self, client: &Client) -> Outcome {
        self.next += 1;
        let name = format!("aside-{}", self.next);
        let retention = "1GiB,9d".to_owned();
        let created = client.create_new_log(&NewLog {
            name: name.clone(),
            retention: Some(retention.clone()),
            ..NewLog::default()
        });
        let id = match created {
            Ok(log) => log.id,
            Err(error) => return outcome::<()>(Err(error)),
        };
        self.answered.logs.insert(name.clone(), (id, retention));
        let key = content::key(self.seed, 1000, self.next);
        match append(client, &name, key, ASIDE_BYTES) {
            Ok(stream) => {
                self.acked_bytes += stream.bytes;
                self.answered.streams.push(stream);
                Outcome::Done
            }
            Err(error) => Outcome::Unanswered(format!("{error:#}")),
        }
    }

    fn aside(&self) -> Option<String> {
        let mut names = self.answered.logs.keys();
        names.find(|name| !self.logs.contains(name)).cloned()
    }

    fn delete(&mut self, client: &Client) -> Outcome {
        let Some(name) = self.aside() else {
            return self.create(client);
        };
        let outcome = outcome(client.delete_log(&name));
        if !matches!(outcome, Outcome::Refused(_)) {
            self.answered.logs.remove(&name);
            self.answered.streams.retain(|stream| stream.log != name);
        }
        if outcome == Outcome::Done {
            self.answered.deleted.push(name);
        }
        outcome
    }

    /// Nothing is trimmed by it: the bounds are wide.
    fn retain(&mut self, client: &Client) -> Outcome {
        self.next += 1;
        let log = match self.answered.logs.len() > ASIDE_MAX {
            true => return self.delete(client),
            false => self.logs[self.next as usize % self.logs.len()].clone(),
        };
        let retention = format!("{}GiB", 100 + self.next);
        let outcome = outcome(client.retain(&log, &retention));
        match &outcome {
            Outcome::Done => match client.log(&log) {
                Ok(details) => {
                    let kept = (details.id, retention);
                    self.answered.logs.insert(log, kept);
                }
                Err(_) => drop(self.answered.logs.remove(&log)),
            },
            Outcome::Unanswered(_) => drop(self.answered.logs.remove(&log)),
            Outcome::Refused(_) => {}
        }
        outcome
    }

    /// The disk at this place is lost, and what stood there is replaced by a new node.
    ///
    /// Errors: it cannot be done, though all others are well.
    pub fn replace(&mut self, places: &mut Places, place: u32) -> Result<()> {
        let old = places.id(place);
        places.lose_disk(place)?;
        let client = places.client(TOTAL);
        let deadline = Instant::now() + JOIN_MAX;
        let new = loop {
            go_on()?;
            match places.status(place).map(|status| status.node) {
                Some(new) if new != 0 && new != old => break new,
                said if Instant::now() > deadline => {
                    bail!("a new node does not join within {JOIN_MAX:?}: {said:?}")
                }
                _ => std::thread::sleep(POLL),
            }
        };
        places.ids[place as usize - 1] = new;
        // The new node is to have the weights of the old one.
        let moved: Vec<_> = self
            .answered
            .weights
            .keys()
            .filter(|(_, node)| *node == old)
            .cloned()
            .collect();
        for key in moved {
            let weight = self.answered.weights.remove(&key);
            self.answered
                .weights
                .insert((key.0, new), weight.unwrap_or_default());
        }
        // One that had no weight has none to give.
        let has_weight = |client: &Client| -> Result<bool, AdminError> {
            let members = client.members()?;
            let mut all = members.logs.iter().flat_map(|log| &log.members);
            Ok(all.any(|member| member.node == old && member.weight.max(member.wanted) > 0))
        };
        let deadline = Instant::now() + REPLACE_MAX;
        loop {
            go_on()?;
            let action = has_weight(&client).map(|has_weight| match has_weight {
                true => Action::Replace { old, new },
                false => Action::Remove { node: old },
            });
            let why = match action.and_then(|action| client.change_members(&Change::new(action))) {
                Ok(_) | Err(AdminError::NotInForce { .. }) => break,
                Err(error) => error.to_string(),
            };
            if Instant::now() > deadline {
                bail!("node {old} cannot be replaced by node {new}: {why}");
            }
            std::thread::sleep(POLL);
        }
        loop {
            go_on()?;
            let why = match client.members() {
                Err(error) => error.to_string(),
                Ok(members) => {
                    let left = members.nodes.iter().all(|node| node.id != old);
                    let steps = members.logs.iter().find(|log| !log.steps.is_empty());
                    match steps {
                        None if left => return Ok(()),
                        None => format!("node {old} has not left"),
                        Some(log) => format!("{}: {:?}, {:?}", log.name, log.steps, log.waits_for),
                    }
                }
            };
            if Instant::now() > deadline {
                bail!("{REPLACE_MAX:?} after node {old} was replaced by node {new}: {why}");
            }
            std::thread::sleep(POLL);
        }
    }
}

fn outcome<T>(answer: Result<T, AdminError>) -> Outcome {
    match answer {
        Ok(_) => Outcome::Done,
        Err(error @ (AdminError::Refused { .. } | AdminError::Exists { .. })) => {
            Outcome::Refused(error.to_string())
        }
        Err(error) => Outcome::Unanswered(error.to_string()),
    }
}
