//! Guests of a node: two banks, one on a log each, through crashes, cuts and moves of their leaders.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bank::Bank;
use commands::{Applied, Frame, SessionBounds};
use node::hosted::{CallId, Hosted, Hosts, Outcome, Small};
use paxos::{Role, Time};
use replica::{Event, Port};

use crate::stage::{MS, SECOND, Stage, done};

#[path = "../../../commands/examples/bank.rs"]
#[allow(dead_code)]
mod bank;

const BANKS: [&str; 2] = ["bank-a", "bank-b"];
const PACE: Duration = Duration::from_millis(20);

/// The outcomes of all calls, and the balances of each living teller's bank.
#[derive(Default)]
struct Books {
    tellers: u64,
    closed: bool,
    /// Each deposits one coin into an account of its own.
    called: u64,
    answered: Vec<String>,
    never: Vec<String>,
    unknown: u64,
    /// By teller: the bank's name, and its balances.
    now: BTreeMap<u64, (String, BTreeMap<String, u64>)>,
}

/// A guest that deposits a coin now and then where this node leads the bank.
struct Teller {
    number: u64,
    name: String,
    small: Small<Bank>,
    books: Arc<Mutex<Books>>,
    waiting: BTreeMap<CallId, String>,
    next_at: Time,
}

impl Teller {
    fn deposit(&mut self) {
        let account = {
            let mut books = self.books.lock().unwrap();
            books.called += 1;
            format!("{}-{}", self.name, books.called)
        };
        let command = format!("deposit {account} 1");
        let call = self.small.call(&Frame::Command(command.as_bytes()));
        self.waiting.insert(call.expect("there is room"), account);
    }

    fn note(&mut self) {
        let mut books = self.books.lock().unwrap();
        while let Some((call, outcome)) = self.small.next_outcome() {
            let account = self.waiting.remove(&call).expect("it was called once");
            match outcome {
                Outcome::Answered(Applied::Command { answer }) => {
                    assert_eq!(answer, b"1", "{account} got its coin twice");
                    books.answered.push(account);
                }
                Outcome::Answered(other) => panic!("{account}: {other:?}"),
                Outcome::Never => books.never.push(account),
                Outcome::Unknown => books.unknown += 1,
            }
        }
        if books.closed {
            let balances = self.small.replica().balances.clone();
            books.now.insert(self.number, (self.name.clone(), balances));
        }
    }
}

impl Hosted for Teller {
    fn on_event(&mut self, event: Event, port: &mut Port<'_>) {
        self.small.on_event(event, port);
    }

    fn on_settled(&mut self, now: Time, port: &mut Port<'_>) {
        let closed = self.books.lock().unwrap().closed;
        if port.is_leading() && now >= self.next_at && !closed {
            self.deposit();
            self.next_at = now + PACE;
        } else if now >= self.next_at {
            self.next_at = now + 10 * PACE;
        }
        self.small.on_settled(now, port);
        assert_eq!(self.small.halted(), None);
        self.note();
    }

    fn deadline(&self) -> Option<Time> {
        Some(self.next_at)
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        if let Ok(mut books) = self.books.lock() {
            books.now.remove(&self.number);
        }
    }
}

fn hosts(books: &Arc<Mutex<Books>>) -> Hosts {
    let books = books.clone();
    Hosts::new(move |name| {
        let name = BANKS.iter().find(|bank| **bank == name)?;
        let mut all = books.lock().unwrap();
        all.tellers += 1;
        Some(Box::new(Teller {
            number: all.tellers,
            name: name.to_string(),
            small: Small::new(Bank::default(), SessionBounds::default(), 4_000),
            books: books.clone(),
            waiting: BTreeMap::new(),
            next_at: Time::ZERO,
        }))
    })
}

fn leader_of(stage: &Stage, bank: &str) -> Option<usize> {
    let leads = |index: &usize| {
        let look = stage.look();
        let view = look.view_of(*index, bank);
        view.is_some_and(|view| matches!(view.role, Role::Leader { .. }))
    };
    (0..3).find(leads)
}

/// The leader's proposals are accepted, and it does not hear so: the next leader finds them.
fn cut_off_from_answers(stage: &mut Stage, bank: &str) {
    let leader = leader_of(stage, bank);
    for other in (0..3).filter(|other| Some(*other) != leader) {
        stage.cut(other, leader.unwrap_or(0));
    }
}

impl Books {
    /// All three replicas of the bank are alike, and have what was said, and none of what was said never to be.
    fn check(&self, bank: &str, seed: u64) {
        let mut of = self.now.values().filter(|(name, _)| name == bank);
        let (_, first) = of.next().expect("there are three");
        assert_eq!(of.clone().count(), 2, "three replicas");
        assert!(
            of.all(|(_, balances)| balances == first),
            "{bank}: they differ"
        );
        let is_here = |account: &&String| account.starts_with(&format!("{bank}-"));
        for account in self.answered.iter().filter(is_here) {
            assert_eq!(first.get(account), Some(&1), "seed {seed}: {account}");
        }
        for account in self.never.iter().filter(is_here) {
            assert_eq!(first.get(account), None, "seed {seed}: {account}");
        }
        assert!(first.values().all(|coins| *coins == 1));
    }
}

/// The leader alone has accepted its last deposits when another one leads, which has nothing to write. Then
/// that one dies, and the deposits that the first accepted are chosen after all.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn what_a_deposed_leader_alone_accepted_is_not_said_never_to_be() {
    for seed in 0..4 {
        let books = Arc::new(Mutex::new(Books::default()));
        let mut stage = Stage::hosting(seed, 3, hosts(&books));
        let bank = BANKS[0];
        done(&mut stage, &format!("create-log {bank} kind=state"));
        stage.pass(SECOND);
        let first = leader_of(&stage, bank).expect("somebody leads");
        stage.isolate(first);
        stage.pass(300 * MS);
        books.lock().unwrap().closed = true;
        stage.pass(3 * SECOND);
        stage.world.heal_all();
        stage.pass(3 * SECOND);
        let second = leader_of(&stage, bank).expect("somebody leads");
        assert_ne!(first, second, "seed {seed}");
        stage.crash(second);
        stage.pass(3 * SECOND);
        stage.restart(second);
        stage.pass(3 * SECOND);
        let books = books.lock().unwrap();
        books.check(bank, seed);
        let known = books.answered.len() + books.never.len();
        assert_eq!(
            known as u64, books.called,
            "nothing was trimmed, and no caller died"
        );
    }
}

/// A leader's last deposits are chosen, stand in a snapshot, and are trimmed before that leader hears anything again.
#[cfg_attr(not(feature = "mutations"), test)]
fn what_was_trimmed_before_a_deposed_leader_read_it_is_said_to_be_unknown() {
    for seed in 0..4 {
        let books = Arc::new(Mutex::new(Books::default()));
        let mut stage = Stage::hosting(seed, 3, hosts(&books));
        let bank = BANKS[0];
        done(&mut stage, &format!("create-log {bank} kind=state"));
        stage.pass(SECOND);
        cut_off_from_answers(&mut stage, bank);
        stage.pass(40 * SECOND);
        stage.world.heal_all();
        stage.pass(3 * SECOND);
        books.lock().unwrap().closed = true;
        stage.pass(3 * SECOND);
        let books = books.lock().unwrap();
        books.check(bank, seed);
        assert!(books.unknown > 0, "seed {seed}");
    }
}

/// Every coin is there once of which that was said, and none of which the contrary was; all three replicas of each bank are
/// alike. Snapshots are written and taken over meanwhile.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn two_banks_in_one_node_lose_no_coin_and_pay_none_twice() {
    for seed in 0..4 {
        let books = Arc::new(Mutex::new(Books::default()));
        let mut stage = Stage::hosting(seed, 3, hosts(&books));
        for bank in BANKS {
            done(&mut stage, &format!("create-log {bank} kind=state"));
        }
        stage.pass(SECOND);
        for round in 0..12 {
            let index = (seed as usize + round) % 3;
            match round % 4 {
                0 => stage.crash(index),
                1 => cut_off_from_answers(&mut stage, BANKS[round / 4 % 2]),
                2 => stage.cut_power(index),
                _ => {
                    let to = (seed as usize + round) % 3 + 1;
                    let caller = stage.call(index, &format!("lead {} to={to}", BANKS[round % 2]));
                    stage.wait("an answer", |_| caller.is_over() || caller.is_open());
                }
            }
            stage.pass(1_500 * MS);
            stage.world.heal_all();
            if matches!(round % 4, 0 | 2) {
                stage.restart(index);
            }
            stage.pass(700 * MS);
        }
        stage.pass(3 * SECOND);
        books.lock().unwrap().closed = true;
        stage.pass(3 * SECOND);
        let books = books.lock().unwrap();
        assert_eq!(books.now.len(), 6, "three replicas of two banks");
        for bank in BANKS {
            books.check(bank, seed);
            let look = stage.look();
            let view = look.view_of(0, bank).expect("it is there");
            let trimmed = view.state.streams_trimmed.count;
            assert!(trimmed > 0, "seed {seed}: nothing of {bank} was forgotten");
        }
        let (answered, never) = (books.answered.len(), books.never.len());
        println!(
            "seed {seed}: {} called, {answered} done, {never} never",
            books.called
        );
        assert!(
            answered > 500,
            "seed {seed}: {answered} of {}",
            books.called
        );
        let known = answered + never + books.unknown as usize;
        assert!(
            known as u64 + 200 > books.called,
            "few are of processes that died"
        );
    }
}
