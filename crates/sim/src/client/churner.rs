//! Creates a log, uses it and deletes it, again and again: strictly one thing after the other.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ops::{Completion, Machine, Op, Time};

use super::{Asker, Ledger, Visit, VisitorConfig};
use crate::random::Random;

/// Finishes after so many rounds, with no log left.
pub struct Churner {
    config: VisitorConfig,
    ledger: Ledger,
    /// Told to those who use the log meanwhile.
    over: Rc<Cell<bool>>,
    random: Random,
    habits: Habits,
    clients: u64,
    doing: Doing,
    step: Step,
    rest_until: Option<Time>,
}

#[derive(Clone, Copy)]
pub struct Habits {
    pub rounds: u32,
    /// The log is always on all nodes; else mostly on some, and those may be the very ones that are dead, or whose disk
    /// is lost.
    pub on_all: bool,
    /// Half of the deletions do without the log's word.
    pub abandons: bool,
}

enum Doing {
    Asking(Box<Asker>),
    Visiting(Box<Visit>),
}

#[derive(Clone, Copy)]
enum Step {
    Create,
    Append,
    Read,
    Delete,
}

/// Attempts of one visit.
const TRIES: u32 = 6;

impl Churner {
    /// It rests within `config.rest_us`.
    pub fn new(
        seed: u64,
        config: VisitorConfig,
        mut habits: Habits,
        ledger: &Ledger,
        over: Rc<Cell<bool>>,
    ) -> Churner {
        habits.rounds = habits.rounds.max(1);
        let mut churner = Churner {
            random: Random::new(seed ^ 0x63_6875_726e),
            ledger: ledger.clone(),
            over,
            habits,
            clients: 0,
            doing: Doing::Asking(Asker::new(&[String::new()], "", config.nodes.clone()).into()),
            step: Step::Create,
            rest_until: None,
            config,
        };
        churner.doing = churner.begin();
        churner
    }

    fn begin(&mut self) -> Doing {
        let log = &self.config.log;
        let client = self.config.first_client + self.clients;
        let nodes = self.config.nodes.clone();
        let (ledger, config) = (&self.ledger, &self.config);
        let before = match &self.doing {
            Doing::Asking(asker) => asker.conversation(),
            Doing::Visiting(visit) => visit.conversation(),
        };
        let requests = match self.step {
            Step::Create => {
                // On all nodes, or on some; not all need have an id yet, or be there still.
                let all = nodes.len() as u64;
                let mut some: Vec<u64> = (1..=all).collect();
                while self.random.below(all) > 0 && some.len() > 1 {
                    some.remove(self.random.below(some.len() as u64) as usize);
                }
                let some: Vec<String> = some.iter().map(u64::to_string).collect();
                let on_some = format!("create-log {log} members={}", some.join(","));
                let on_all = format!("create-log {log}");
                match self.random.below(3) {
                    0 => vec![on_all],
                    _ if self.habits.on_all => vec![on_all],
                    _ => vec![on_some, on_all],
                }
            }
            Step::Append => {
                self.clients += u64::from(TRIES);
                let visit = Visit::append(config, ledger, client, TRIES);
                return Doing::Visiting(visit.after(before).into());
            }
            Step::Read => {
                self.clients += 1;
                let visit = Visit::read(config, ledger, client, TRIES);
                return Doing::Visiting(visit.after(before).into());
            }
            Step::Delete if self.habits.abandons && self.random.coin() => {
                vec![format!("delete-log {log} abandon=1")]
            }
            Step::Delete => vec![format!("delete-log {log}")],
        };
        let granted = match self.step {
            Step::Create => "exists",
            _ => "unknown-log",
        };
        let asker = Asker::new(&requests, granted, nodes);
        Doing::Asking(asker.in_ledger(ledger).after(before).into())
    }

    fn machine(&mut self) -> &mut dyn Machine {
        match &mut self.doing {
            Doing::Asking(asker) => asker.as_mut(),
            Doing::Visiting(visit) => visit.as_mut(),
        }
    }

    /// Mostly at once.
    fn next_step(&mut self, now: Time) {
        self.step = match (self.step, self.random.below(4)) {
            (Step::Create, 0) => Step::Delete,
            (Step::Create, 1) => Step::Read,
            (Step::Create, _) => Step::Append,
            (Step::Append, 0) => Step::Append,
            (Step::Append, _) => Step::Read,
            (Step::Read, 0) => Step::Append,
            (Step::Read, _) => Step::Delete,
            (Step::Delete, _) => Step::Create,
        };
        if matches!(self.step, Step::Create) {
            self.habits.rounds -= 1;
            if self.habits.rounds == 0 {
                self.over.set(true);
                return;
            }
        }
        let rest_us = match self.random.below(3) {
            0 => self.random.within(&self.config.rest_us),
            _ => 1,
        };
        self.rest_until = Some(now + Duration::from_micros(rest_us.max(1)));
    }
}

impl Machine for Churner {
    fn handle(&mut self, now: Time, completion: Completion) {
        self.machine().handle(now, completion);
    }

    fn on_time(&mut self, now: Time) {
        if self.rest_until.is_some_and(|until| until <= now) {
            self.rest_until = None;
            self.doing = self.begin();
        }
        self.machine().on_time(now);
        if self.machine().is_finished() && self.rest_until.is_none() && !self.is_finished() {
            self.next_step(now);
        }
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.machine().poll_op()
    }

    fn deadline(&self) -> Option<Time> {
        if self.is_finished() {
            return None;
        }
        self.rest_until.or_else(|| match &self.doing {
            Doing::Asking(asker) => asker.deadline(),
            Doing::Visiting(visit) => visit.deadline(),
        })
    }

    fn is_finished(&self) -> bool {
        self.habits.rounds == 0
    }
}
