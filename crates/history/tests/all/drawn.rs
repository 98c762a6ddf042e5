//! Histories of objects by number: of one that behaves, whose clients have to wait, and then perhaps with one thing changed.

use std::collections::{BTreeMap, VecDeque};

use history::{Counters, Fields, History, Lease, List, Model, Register, Timed};
use history::{counters, fields, lease, list, register};

use crate::small::Chance;

/// An object of the real kind: it is changed in place, and says what it says.
pub trait Real: Model {
    type Held: Default;

    fn draw(&self, chance: &mut Chance, step: u64) -> Self::Call;
    fn call(held: &mut Self::Held, call: &Self::Call) -> Self::Answer;
    /// Another answer than this one.
    fn spoil(answer: &mut Self::Answer, chance: &mut Chance);
}

/// Every call happens at a moment of its own and is seen to last a little longer. One of so many is never answered, and half of these never
/// happen.
pub fn drawn<M: Real>(model: &M, number: u64, steps: u64, unanswered: u64) -> History<M> {
    let mut chance = Chance(number);
    let mut held = M::Held::default();
    let mut history = Vec::new();
    for step in 1..=steps {
        let moment = 10 * step;
        let call = model.draw(&mut chance, step);
        let is_answered = !chance.one_in(unanswered);
        let happens = is_answered || chance.one_in(2);
        let answer = happens.then(|| M::call(&mut held, &call));
        history.push(Timed {
            client: step as u32 % 4,
            call,
            answer: answer.filter(|_| is_answered),
            invoked: moment.saturating_sub(chance.below(25)),
            completed: is_answered.then(|| moment + chance.below(25)),
        });
    }
    history
}

/// Changes one thing, which may make the history impossible or not.
pub fn spoil<M: Real>(history: &mut History<M>, number: u64) {
    let mut chance = Chance(number ^ 0x5eed);
    let at = chance.below(history.len() as u64) as usize;
    let timed = &mut history[at];
    match (chance.below(3), &mut timed.answer) {
        (0, _) => {
            let later = 10 + chance.below(60);
            timed.invoked += later;
            timed.completed = timed.completed.map(|time| time + later);
        }
        (_, Some(answer)) => M::spoil(answer, &mut chance),
        (_, None) => {
            history.remove(at);
        }
    }
}

fn value(chance: &mut Chance) -> String {
    format!("v{}", chance.below(4))
}

impl Real for Register {
    type Held = Option<String>;

    fn draw(&self, chance: &mut Chance, _step: u64) -> register::Call {
        match chance.below(8) {
            0..=2 => register::Call::Get,
            3 => register::Call::Set(value(chance)),
            4 => register::Call::Replace(value(chance)),
            5 => register::Call::SetIfNone(value(chance)),
            6 => register::Call::Delete,
            _ => register::Call::Swap {
                from: Some(value(chance)),
                to: value(chance),
            },
        }
    }

    fn call(held: &mut Option<String>, call: &register::Call) -> register::Answer {
        use register::{Answer, Call};
        match call {
            Call::Get => Answer::Value(held.clone()),
            Call::Set(value) => {
                *held = Some(value.clone());
                Answer::Done
            }
            Call::Replace(value) => Answer::Value(held.replace(value.clone())),
            Call::SetIfNone(value) => {
                let is_none = held.is_none();
                held.get_or_insert_with(|| value.clone());
                Answer::Did(is_none)
            }
            Call::Delete => Answer::Did(held.take().is_some()),
            // Those that fail are not part of histories: here it is made to succeed.
            Call::Swap { to, .. } => {
                *held = Some(to.clone());
                Answer::Done
            }
        }
    }

    fn spoil(answer: &mut register::Answer, chance: &mut Chance) {
        match answer {
            register::Answer::Done => {}
            register::Answer::Value(seen) => *seen = Some(value(chance)),
            register::Answer::Did(did) => *did = !*did,
        }
    }
}

impl Real for Counters {
    type Held = BTreeMap<usize, i64>;

    fn draw(&self, chance: &mut Chance, _step: u64) -> counters::Call {
        let count = self.0 as u64;
        match chance.below(5) {
            0..=1 => counters::Call((0..self.0).map(|number| (number, 0)).collect()),
            2..=3 => counters::Call(vec![(chance.below(count) as usize, 1)]),
            _ => {
                let by = chance.below(3) as i64 + 1;
                let numbers = (0..self.0).zip([by, -by]);
                counters::Call(numbers.collect())
            }
        }
    }

    fn call(held: &mut BTreeMap<usize, i64>, call: &counters::Call) -> counters::Answer {
        let mut all = Vec::new();
        for (number, by) in &call.0 {
            let counter = held.entry(*number).or_default();
            *counter += by;
            all.push(*counter);
        }
        counters::Answer(all)
    }

    fn spoil(answer: &mut counters::Answer, chance: &mut Chance) {
        if let Some(first) = answer.0.first_mut() {
            *first += if chance.one_in(2) { 1 } else { -1 };
        }
    }
}

impl Real for Fields {
    type Held = BTreeMap<String, String>;

    fn draw(&self, chance: &mut Chance, _step: u64) -> fields::Call {
        use fields::Call;
        let field = ["a", "b"][chance.below(2) as usize].to_owned();
        let value = chance.below(9).to_string();
        let by = 1 + chance.below(2) as i64;
        match chance.below(7) {
            0..=1 => Call::Get(field),
            2 => Call::All,
            3..=4 => Call::Set { field, value },
            5 => Call::Add { field, by },
            _ => Call::Delete(field),
        }
    }

    fn call(held: &mut BTreeMap<String, String>, call: &fields::Call) -> fields::Answer {
        use fields::{Answer, Call};
        match call {
            Call::Get(field) => Answer::Value(held.get(field).cloned()),
            Call::All => Answer::All(held.clone()),
            Call::Set { field, value } => {
                Answer::Did(held.insert(field.clone(), value.clone()).is_none())
            }
            Call::Add { field, by } => {
                let value = held.entry(field.clone()).or_insert("0".to_owned());
                let number = value.parse::<i64>().expect("a number") + by;
                *value = number.to_string();
                Answer::Number(number)
            }
            Call::Delete(field) => Answer::Did(held.remove(field).is_some()),
        }
    }

    fn spoil(answer: &mut fields::Answer, chance: &mut Chance) {
        match answer {
            fields::Answer::Value(seen) => *seen = Some(chance.below(9).to_string()),
            fields::Answer::All(all) => drop(all.pop_last()),
            fields::Answer::Number(number) => *number += 1,
            fields::Answer::Did(did) => *did = !*did,
        }
    }
}

impl Real for List {
    type Held = VecDeque<String>;

    fn draw(&self, chance: &mut Chance, step: u64) -> list::Call {
        use list::Call;
        match chance.below(7) {
            0..=1 => Call::All,
            2..=3 => Call::PushBack(format!("i{step}")),
            4 => Call::PushFront(format!("i{step}")),
            5 => Call::PopBack,
            _ => Call::PopFront,
        }
    }

    fn call(held: &mut VecDeque<String>, call: &list::Call) -> list::Answer {
        use list::{Answer, Call};
        match call {
            Call::All => Answer::All(held.iter().cloned().collect()),
            Call::PushBack(item) => {
                held.push_back(item.clone());
                Answer::Length(held.len())
            }
            Call::PushFront(item) => {
                held.push_front(item.clone());
                Answer::Length(held.len())
            }
            Call::PopBack => Answer::Value(held.pop_back()),
            Call::PopFront => Answer::Value(held.pop_front()),
        }
    }

    fn spoil(answer: &mut list::Answer, chance: &mut Chance) {
        match answer {
            list::Answer::All(items) if chance.one_in(2) => items.reverse(),
            list::Answer::All(items) => drop(items.pop()),
            list::Answer::Length(length) => *length += 1,
            list::Answer::Value(value) => *value = value.is_none().then(|| "i1".to_owned()),
        }
    }
}

impl Real for Lease {
    /// The value, and when it is gone.
    type Held = Option<(String, u64)>;

    fn draw(&self, chance: &mut Chance, step: u64) -> lease::Call {
        let moment = 10 * step;
        let ask = match chance.below(6) {
            0..=1 => lease::Ask::Take {
                value: format!("v{step}"),
                gone_from: moment + 25,
                gone_by: (!chance.one_in(4)).then_some(moment + 45),
            },
            2..=4 => lease::Ask::Get,
            _ => lease::Ask::Delete,
        };
        lease::Call {
            ask,
            begun: moment - 5,
            ended: Some(moment + 5),
        }
    }

    fn call(held: &mut Self::Held, call: &lease::Call) -> lease::Answer {
        let now = call.begun + 5;
        held.take_if(|(_, gone)| *gone <= now);
        match &call.ask {
            lease::Ask::Take { value, .. } => {
                let is_free = held.is_none();
                held.get_or_insert_with(|| (value.clone(), now + 35));
                lease::Answer::Did(is_free)
            }
            lease::Ask::Get => lease::Answer::Value(held.clone().map(|(value, _)| value)),
            lease::Ask::Delete => lease::Answer::Did(held.take().is_some()),
        }
    }

    fn spoil(answer: &mut lease::Answer, chance: &mut Chance) {
        match answer {
            lease::Answer::Value(value) => {
                *value = value.is_none().then(|| format!("v{}", 1 + chance.below(6)));
            }
            lease::Answer::Did(did) => *did = !*did,
        }
    }
}
