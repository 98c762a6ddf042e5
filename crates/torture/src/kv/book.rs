//! What clients asked of every object and what came of it, while it goes on.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use history::{Counters, Fields, History, Lease, List, Register, Timed, lease};

use super::caller::{Came, Ended};
use super::objects::{Answer, Call, Kind, LEASE_MS, Object};
use super::token::Token;

pub struct Book {
    /// The clock of the histories.
    pub began: Instant,
    state: Mutex<State>,
}

/// What only grows is judged however many there are.
const OPEN_MAX: u32 = 6;

#[derive(Default)]
struct State {
    records: BTreeMap<Object, Record>,
    counts: Counts,
    /// The calls of objects that were never answered.
    open: BTreeMap<Object, u32>,
    /// Replies that no call may have.
    wrong: Vec<String>,
}

/// The calls of one object.
pub enum Record {
    Register(History<Register>),
    Counters(History<Counters>),
    Fields(History<Fields>),
    List(History<List>),
    Lease(History<Lease>),
    Growing(Growing),
}

/// What was asked of a list or a string that only grows.
#[derive(Default)]
pub struct Growing {
    pub pushes: Vec<Timed<Token, u64>>,
    pub looks: Vec<Look>,
}

pub struct Look {
    pub client: u32,
    pub from: u64,
    pub length: u64,
    pub tokens: Vec<Token>,
    pub invoked: u64,
    pub completed: u64,
}

#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Counts {
    /// Answered.
    pub done: u64,
    /// Told that it was not done.
    pub refused: u64,
    /// Never told.
    pub unknown: u64,
    /// The refused ones, by the first word of why, and transactions whose watched key had changed.
    pub refusals: BTreeMap<String, u64>,
    /// The done ones, by the object.
    pub by_object: BTreeMap<&'static str, u64>,
}

impl Book {
    pub fn new() -> Book {
        Book {
            began: Instant::now(),
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what came of a call. The answer, if there was one.
    pub fn ended(
        &self,
        object: &Object,
        client: u32,
        call: &Call,
        ended: &Ended,
    ) -> Option<Answer> {
        self.lock().note(object, client, call, ended)
    }

    /// Notes a call of the last reader.
    pub fn looked(&self, object: &Object, call: &Call, ended: &Ended) -> Option<Answer> {
        self.lock().note(object, LAST_READER, call, ended)
    }

    /// The number of tokens that somebody saw of a growing object.
    pub fn known(&self, object: &Object) -> u64 {
        match self.lock().records.get(object) {
            Some(Record::Growing(growing)) => growing
                .looks
                .iter()
                .map(|look| look.length)
                .max()
                .unwrap_or(0),
            _ => 0,
        }
    }

    /// Whether so many calls on it were never answered that the search would have to try too much.
    pub fn is_full(&self, object: &Object) -> bool {
        self.lock()
            .open
            .get(object)
            .is_some_and(|open| *open >= OPEN_MAX)
    }

    pub fn objects(&self) -> Vec<Object> {
        self.lock().records.keys().cloned().collect()
    }

    pub fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    pub fn wrong(&self) -> Vec<String> {
        self.lock().wrong.clone()
    }

    /// Lends all that was noted.
    pub fn with_records<T>(&self, look: impl FnOnce(&BTreeMap<Object, Record>) -> T) -> T {
        look(&self.lock().records)
    }
}

/// The number in the histories of the reader that reads at the end.
const LAST_READER: u32 = 0;

impl State {
    fn note(&mut self, object: &Object, client: u32, call: &Call, ended: &Ended) -> Option<Answer> {
        let answer = match &ended.came {
            Came::Refused(why) => {
                let word = why.split([' ', ':']).next().unwrap_or_default();
                self.refused(word);
                return None;
            }
            Came::Unknown => {
                self.counts.unknown += 1;
                *self.open.entry(object.clone()).or_default() += 1;
                None
            }
            Came::Done(value) => match object.answer(call, value) {
                Ok(Answer::NotExecuted) => {
                    self.refused("not-executed");
                    return None;
                }
                Ok(answer) => {
                    self.counts.done += 1;
                    *self.counts.by_object.entry(object.kind.name()).or_default() += 1;
                    Some(answer)
                }
                Err(sentence) => {
                    self.wrong.push(sentence);
                    None
                }
            },
        };
        let record = self.records.entry(object.clone());
        let record = record.or_insert_with(|| Record::of(object.kind));
        record.add(client, call, answer.clone(), ended);
        answer
    }

    fn refused(&mut self, why: &str) {
        self.counts.refused += 1;
        *self.counts.refusals.entry(why.to_owned()).or_default() += 1;
    }
}

impl Record {
    fn of(kind: Kind) -> Record {
        match kind {
            Kind::Register | Kind::Pair => Record::Register(Vec::new()),
            Kind::Counter | Kind::Accounts => Record::Counters(Vec::new()),
            Kind::Fields => Record::Fields(Vec::new()),
            Kind::List => Record::List(Vec::new()),
            Kind::Lease => Record::Lease(Vec::new()),
            Kind::Lines | Kind::Text => Record::Growing(Growing::default()),
        }
    }

    /// Without an answer: it may have been done.
    fn add(&mut self, client: u32, call: &Call, answer: Option<Answer>, ended: &Ended) {
        match (self, call) {
            (Record::Register(all), Call::Register(call) | Call::Pair { call, .. }) => {
                let answer = answer.and_then(|answer| match answer {
                    Answer::Register(answer) => Some(answer),
                    _ => None,
                });
                all.push(timed(client, call.clone(), answer, ended));
            }
            (Record::Counters(all), Call::Counters(call)) => {
                let answer = answer.and_then(|answer| match answer {
                    Answer::Counters(answer) => Some(answer),
                    _ => None,
                });
                all.push(timed(client, call.clone(), answer, ended));
            }
            (Record::Fields(all), Call::Fields(call)) => {
                let answer = answer.and_then(|answer| match answer {
                    Answer::Fields(answer) => Some(answer),
                    _ => None,
                });
                all.push(timed(client, call.clone(), answer, ended));
            }
            (Record::List(all), Call::List(call)) => {
                let answer = answer.and_then(|answer| match answer {
                    Answer::List(answer) => Some(answer),
                    _ => None,
                });
                all.push(timed(client, call.clone(), answer, ended));
            }
            (Record::Lease(all), Call::Lease(ask)) => {
                let answer = answer.and_then(|answer| match answer {
                    Answer::Lease(answer) => Some(answer),
                    _ => None,
                });
                let call = with_times(ask.clone(), answer.is_some(), ended);
                all.push(timed(client, call, answer, ended));
            }
            (Record::Growing(growing), Call::Push(token)) => {
                let answer = answer.and_then(|answer| match answer {
                    Answer::Pushed(length) => Some(length),
                    _ => None,
                });
                growing.pushes.push(timed(client, *token, answer, ended));
            }
            (Record::Growing(growing), Call::Look { from }) => {
                if let Some(Answer::Seen { length, tokens }) = answer {
                    growing.looks.push(Look {
                        client,
                        from: *from,
                        length,
                        tokens,
                        invoked: ended.invoked,
                        completed: ended.completed,
                    });
                }
            }
            _ => debug_assert!(false, "an object is asked for what it is"),
        }
    }
}

/// The clocks of nodes go in milliseconds, and are looked at some time before a command is executed.
const CLOCKS_US: u64 = 50_000;

fn with_times(mut ask: lease::Ask, is_answered: bool, ended: &Ended) -> lease::Call {
    if let lease::Ask::Take {
        gone_from, gone_by, ..
    } = &mut ask
    {
        *gone_from = (ended.invoked + LEASE_MS * 1000).saturating_sub(CLOCKS_US);
        *gone_by = is_answered.then_some(ended.completed + LEASE_MS * 1000 + CLOCKS_US);
    }
    lease::Call {
        ask,
        begun: ended.invoked,
        ended: is_answered.then_some(ended.completed),
    }
}

fn timed<C, A>(client: u32, call: C, answer: Option<A>, ended: &Ended) -> Timed<C, A> {
    Timed {
        client,
        call,
        completed: answer.is_some().then_some(ended.completed),
        answer,
        invoked: ended.invoked,
    }
}
