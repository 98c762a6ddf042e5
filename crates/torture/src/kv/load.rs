//! The clients: each asks for one thing after the other, of the objects of the moment.
//!
//! Objects live for some seconds, so that what was never answered of one is soon nobody's concern: the search stays short, however long
//! it all takes; and one with several such calls is left alone. At the end every one is read again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use history::register;

use super::book::Book;
use super::caller::{Caller, Came, Ended, Request};
use super::link::words;
use super::objects::{Answer, Call, KINDS, Kind, Object};
use super::token::Token;
use crate::conduct::Clients;
use crate::schedule::Chance;
use testbed::scratch::go_on;

/// A tag, and the group that serves it.
pub type Tag = (String, String);

#[derive(Clone)]
pub struct Plan {
    pub seed: u64,
    pub clients: u32,
    pub doors: Vec<String>,
    pub tags: Vec<Tag>,
    /// Now and then a client takes for the answer to a read what it was answered before: to see that it is seen.
    pub reads_are_stale: bool,
}

const ERA: Duration = Duration::from_secs(5);
const PIPELINE_MAX: u64 = 6;

pub struct Load {
    stop: Arc<AtomicBool>,
    book: Arc<Book>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub fn start(plan: &Plan, book: &Arc<Book>) -> Result<Load> {
        let mut load = Load {
            stop: Arc::default(),
            book: book.clone(),
            threads: Vec::new(),
        };
        for number in 1..=plan.clients {
            let mut job = Job {
                plan: plan.clone(),
                number,
                calls: 0,
                chance: Chance::new(plan.seed, 2000 + u64::from(number)),
                caller: Caller::new(
                    plan.doors.clone(),
                    Chance::new(plan.seed, 3000 + u64::from(number)),
                    book.began,
                ),
                book: book.clone(),
                last: None,
            };
            let stop = load.stop.clone();
            let thread = std::thread::Builder::new().name(format!("client-{number}"));
            load.threads.push(thread.spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    job.once();
                }
            })?);
        }
        Ok(load)
    }

    /// Has the clients stop, and waits for them.
    pub fn finish(mut self, patience: Duration) -> Result<()> {
        self.stop.store(true, Ordering::Release);
        let deadline = Instant::now() + patience;
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            if Instant::now() >= deadline {
                bail!("a client does not come to its end within {patience:?}");
            }
            go_on()?;
            std::thread::sleep(Duration::from_millis(20));
        }
        for thread in std::mem::take(&mut self.threads) {
            if thread.join().is_err() {
                bail!("a client panicked; its words stand above");
            }
        }
        Ok(())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

impl Clients for Load {
    fn check(&mut self) -> Result<()> {
        match self.threads.iter().any(JoinHandle::is_finished) {
            true => bail!("a client panicked; its words stand above"),
            false => Ok(()),
        }
    }

    fn so_far(&self) -> String {
        let counts = self.book.counts();
        let (done, refused, unknown) = (counts.done, counts.refused, counts.unknown);
        format!("{done} calls done, {refused} refused, {unknown} unknown")
    }
}

/// The things that each client's thread has.
struct Job {
    plan: Plan,
    number: u32,
    /// The number of its calls, each of which has a value of its own.
    calls: u32,
    chance: Chance,
    caller: Caller,
    book: Arc<Book>,
    /// The last read of an object that was answered.
    last: Option<(Object, Call, Came)>,
}

impl Job {
    fn once(&mut self) {
        let era = self.book.began.elapsed().as_secs() / ERA.as_secs();
        let at = self.chance.below(KINDS.len() as u64) as usize;
        let kind = KINDS[at];
        let tag = (era as usize).wrapping_add(at) % self.plan.tags.len();
        let tag = self.plan.tags[tag].0.clone();
        let object = Object { era, kind, tag };
        if !matches!(kind, Kind::Lines | Kind::Text) && self.book.is_full(&object) {
            std::thread::sleep(self.chance.millis(0, 5));
            return;
        }
        let is_well = match self.draw(&object) {
            Call::Register(register::Call::Swap { to, .. }) => self.swap(&object, to),
            first => self.pipeline(&object, first),
        };
        let pause = match is_well {
            true => self.chance.millis(0, 15),
            false => self.chance.millis(20, 200),
        };
        std::thread::sleep(pause);
    }

    fn draw(&mut self, object: &Object) -> Call {
        self.calls += 1;
        let unique = Token {
            client: self.number,
            number: self.calls,
        };
        let known = self.book.known(object);
        object.draw(&mut self.chance, unique, known)
    }

    /// One call or some of them, sent in one piece. False unless all was answered.
    fn pipeline(&mut self, object: &Object, first: Call) -> bool {
        // What is sent in one piece stays without an answer together, and of what only grows that costs the judge nothing.
        let count = match matches!(object.kind, Kind::Lines | Kind::Text) {
            true => self.chance.between(1, PIPELINE_MAX),
            false => 1 + u64::from(self.chance.one_in(5)),
        };
        let mut calls = vec![first];
        while (calls.len() as u64) < count {
            let call = self.draw(object);
            // A swap has to see what there is first.
            if !matches!(call, Call::Register(register::Call::Swap { .. })) {
                calls.push(call);
            }
        }
        let requests: Vec<Request> = calls.iter().map(|call| object.request(call)).collect();
        let mut ended = self.caller.ask(&object.tag, &requests);
        self.sabotage(object, &calls, &mut ended);
        let mut is_well = true;
        for (call, ended) in calls.iter().zip(&ended) {
            let answer = self.book.ended(object, self.number, call, ended);
            is_well &= answer.is_some();
        }
        is_well
    }

    /// WATCH and GET; then SET in a transaction, if nobody wrote meanwhile.
    fn swap(&mut self, object: &Object, to: String) -> bool {
        let get = Call::Register(register::Call::Get);
        let watch = Request(vec![words(["WATCH", &object.name()])]);
        let ended = self.caller.ask(&object.tag, &[watch, object.request(&get)]);
        let [watched, got] = ended.as_slice() else {
            return false;
        };
        let seen = self.book.ended(object, self.number, &get, got);
        let is_watched = matches!(watched.came, Came::Done(_));
        let Some(Answer::Register(register::Answer::Value(from))) = seen.filter(|_| is_watched)
        else {
            // What is watched here is not to be watched by the next one.
            self.caller.forget();
            return false;
        };
        std::thread::sleep(self.chance.millis(0, 8));
        let swap = Call::Register(register::Call::Swap { from, to });
        if !self.caller.is_linked(&object.tag) {
            return false;
        }
        let Some(ended) = self.caller.ask_again(&object.tag, object.request(&swap)) else {
            return false;
        };
        let answer = self.book.ended(object, self.number, &swap, &ended);
        answer.is_some()
    }

    fn sabotage(&mut self, object: &Object, calls: &[Call], ended: &mut [Ended]) {
        if !self.plan.reads_are_stale {
            return;
        }
        let look = object.look();
        let Some(at) = calls.iter().position(|call| *call == look) else {
            return;
        };
        let Some(now) = ended.get_mut(at) else { return };
        match self.last.take() {
            Some((of, call, came)) if of == *object && call == look => now.came = came,
            _ => self.last = Some((object.clone(), look, now.came.clone())),
        }
    }
}
