//! Drawn requests at the spaces of three nodes, which are judged by the order of their log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host::{Machine, State, Stop};
use spaces::{Fate, OfView, Seen};
use streams::{Answer, Found, From, Request, View};

use super::draws::{IDLE, Known, NAMES, path};
use super::model::{Model, Shown, shown};
use crate::spaces::Play;
use crate::stage::SECOND;

/// How many requests wrote.
const COUNT: &[u8] = b"z";
/// The names that are looked at: what is over is there until somebody asks for it.
const LOOKED_AT: usize = IDLE;

/// A space whose requests are numbered.
struct Numbered;

fn row(number: u64) -> Vec<u8> {
    [COUNT, &number.to_be_bytes()].concat()
}

fn number_in(row: Option<Vec<u8>>) -> u64 {
    row.map_or(0, |row| {
        u64::from_be_bytes(row.try_into().expect("8 bytes"))
    })
}

impl Machine for Numbered {
    fn execute(&self, state: &mut State<'_>, command: &[u8]) -> Result<Vec<u8>, Stop> {
        let answer = spaces::Space.execute(state, command)?;
        let mut number = number_in(state.get(COUNT)?);
        let time = state.time_ms().to_be_bytes();
        if wrote(&Answer::decode(&answer).expect("an answer")) {
            number += 1;
            state.put(COUNT, &number.to_be_bytes())?;
            state.put(&row(number), &[&time, command].concat())?;
        }
        Ok([&number.to_be_bytes(), &time, &answer[..]].concat())
    }

    fn forgets(&self) -> bool {
        true
    }
}

/// Whether a request has a number of its own. A refusal may have removed what was over: the model does so likewise, by the time.
fn wrote(answer: &Answer) -> bool {
    matches!(
        answer,
        Answer::Created(_)
            | Answer::Appended { .. }
            | Answer::Deleted
            | Answer::Touched
            | Answer::Limits(_)
            | Answer::Swept { .. }
    )
}

/// A request that was answered.
struct Answered {
    request: Request,
    /// Numbers that were known to be answered before it was asked for.
    known: u64,
    number: u64,
    time_ms: u64,
    answer: Answer,
}

/// A look at a stream.
struct Looked {
    name: &'static str,
    from: From,
    bytes_max: usize,
    known: u64,
    number: u64,
    found: Found<Shown>,
}

#[derive(Default)]
struct Account {
    known: Known,
    /// The highest number of an answer, or of a look.
    number: u64,
    answered: Vec<Answered>,
    looked: Vec<Looked>,
    never: Vec<Request>,
    asked: Vec<Request>,
    unknown: u64,
}

type Shared = Arc<Mutex<Account>>;
/// Requests that wrote, with their times.
type Log = Vec<(u64, Request)>;

fn ask(play: &mut Play, account: &Shared, index: usize) {
    let mut held = account.lock().unwrap();
    let request = held.known.request(&mut |end| play.below(end));
    let known = held.number;
    held.asked.push(request.clone());
    drop(held);
    let (account, asked) = (account.clone(), request.clone());
    play.submit(index, request, move |fate| {
        let mut account = account.lock().unwrap();
        match fate {
            Fate::Answered { answer: bytes, .. } => {
                let word =
                    |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
                let (number, time_ms) = (word(0), word(8));
                let answer = Answer::decode(&bytes[16..]).expect("an answer");
                account.number = account.number.max(number);
                account.known.on_answer(&asked, &answer);
                account.answered.push(Answered {
                    request: asked,
                    known,
                    number,
                    time_ms,
                    answer,
                });
            }
            Fate::NotDone(_) | Fate::NotHere => account.never.push(asked),
            Fate::Unknown => account.unknown += 1,
        }
    });
}

fn look(play: &mut Play, account: &Shared, index: usize) {
    let mut held = account.lock().unwrap();
    let (name, from, bytes_max) = held.known.read(&mut |end| play.below(end), LOOKED_AT);
    let known = held.number;
    drop(held);
    let account = account.clone();
    play.look(index, move |seen| {
        let Seen::Rows(view) = seen else {
            return;
        };
        let mut rows = OfView(view);
        let number = number_in(rows.get(COUNT).expect("memory does not fail"));
        let found = streams::read(&mut rows, &path(name), from, bytes_max);
        let found = shown(found.expect("memory does not fail"));
        let mut account = account.lock().unwrap();
        account.number = account.number.max(number);
        if let Found::There(shown) = &found {
            account.known.on_place(name, &shown.place);
        }
        account.looked.push(Looked {
            name,
            from,
            bytes_max,
            known,
            number,
            found,
        });
    });
}

/// The requests that wrote, in their order, as one node has them: each with its time.
fn log_at(play: &mut Play, index: usize) -> Log {
    for _ in 0..60 {
        let found: Arc<Mutex<Option<Log>>> = Arc::default();
        let kept = found.clone();
        play.look(index, move |seen| {
            let Seen::Rows(view) = seen else {
                return;
            };
            let mut rows = OfView(view);
            let count = number_in(rows.get(COUNT).expect("memory does not fail"));
            let all = (1..=count).map(|number| {
                let row = rows.get(&row(number)).expect("memory does not fail");
                let row = row.expect("each number has a row");
                let (time, command) = row.split_first_chunk::<8>().expect("a time");
                let request = Request::decode(command).expect("a request");
                (u64::from_be_bytes(*time), request)
            });
            *kept.lock().unwrap() = Some(all.collect());
        });
        play.stage.pass(SECOND / 2);
        if let Some(log) = found.lock().unwrap().take() {
            return log;
        }
    }
    panic!("node {index} shows nothing");
}

/// Whether a request is told from all others by its body.
fn is_one(request: &Request) -> bool {
    match request {
        Request::Create(create) => !create.body.is_empty(),
        Request::Append(append) => !append.body.is_empty(),
        _ => false,
    }
}

impl Account {
    fn judge(&mut self, log: &Log, seed: u64) {
        let counts = |request: &Request| log.iter().filter(|(_, of)| of == request).count();
        for request in self.asked.iter().filter(|request| is_one(request)) {
            let times = counts(request);
            assert!(times <= 1, "seed {seed}: done {times} times: {request:?}");
        }
        for request in self.never.iter().filter(|request| is_one(request)) {
            assert_eq!(counts(request), 0, "seed {seed}: done: {request:?}");
        }
        // What wrote comes first of its number; what did not, by its time.
        self.answered
            .sort_by_key(|one| (one.number, !wrote(&one.answer), one.time_ms));
        self.looked.sort_by_key(|look| look.number);
        let (mut answered, mut looked) = (
            self.answered.iter().peekable(),
            self.looked.iter().peekable(),
        );
        let mut model = Model::default();
        for number in 0..=log.len() as u64 {
            let mut done = None;
            if let Some(before) = number.checked_sub(1) {
                let (time_ms, request) = &log[before as usize];
                done = Some((request, model.execute(request, *time_ms)));
            }
            // Before the time goes on: a look shows what is removed, not what is over.
            while let Some(look) = looked.next_if(|look| look.number == number) {
                assert!(
                    look.known <= number,
                    "seed {seed}: a look is behind an answer"
                );
                let expected = model.read(&path(look.name), look.from, look.bytes_max);
                assert_eq!(
                    look.found, expected,
                    "seed {seed}, number {number}: {} from {:?}",
                    look.name, look.from
                );
            }
            while let Some(one) = answered.next_if(|one| one.number == number) {
                let is_own = wrote(&one.answer);
                assert!(
                    one.known < number || (one.known == number && !is_own),
                    "seed {seed}: number {number} is not behind {}: {:?}",
                    one.known,
                    one.request
                );
                let expected = match is_own {
                    true => {
                        let (request, answer) = done.take().expect("one has this number");
                        assert_eq!(*request, one.request, "seed {seed}, number {number}");
                        answer
                    }
                    false => model.execute(&one.request, one.time_ms),
                };
                assert_eq!(
                    one.answer, expected,
                    "seed {seed}, number {number}: {:?}",
                    one.request
                );
            }
        }
        assert!(
            answered.next().is_none() && looked.next().is_none(),
            "seed {seed}: an answer has a number that nobody has"
        );
    }
}

/// Drawn requests at all nodes while they crash, are cut off, stand still and lose a state.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn every_answer_of_a_space_is_explained_by_one_order() {
    let (mut answered, mut looked, mut unknown, mut kinds) = (0, 0, 0, BTreeMap::new());
    for seed in 0..6 {
        let mut play = Play::of(100 + seed, Arc::new(Numbered));
        let account = Shared::default();
        for step in 0..1_200u32 {
            match step % 100 {
                30 | 45 => play.strike(),
                70 => play.mend(),
                _ => {}
            }
            let index = play.below(3) as usize;
            match play.below(3) {
                0 => look(&mut play, &account, index),
                _ => ask(&mut play, &account, index),
            }
            let us = 200 * (1 + play.below(40));
            play.stage.pass(Duration::from_micros(us));
            if step % 100 == 99 {
                play.stage.pass(3 * SECOND);
            }
        }
        play.mend();
        play.stage.pass(15 * SECOND);
        let log = log_at(&mut play, 0);
        let mut account = account.lock().unwrap();
        account.judge(&log, seed);
        for index in 1..3 {
            let other = log_at(&mut play, index);
            assert!(other.len() >= log.len(), "seed {seed}: node {index}");
            assert_eq!(other[..log.len()], log[..], "seed {seed}: node {index}");
        }
        answered += account.answered.len();
        looked += account.looked.len();
        unknown += account.unknown;
        for one in &account.answered {
            let name = format!("{:?}", one.answer);
            let end = name.find([' ', '(']).unwrap_or(name.len());
            *kinds.entry(name[..end].to_owned()).or_insert(0u64) += 1;
        }
    }
    println!(
        "{answered} answers {kinds:?}, {looked} looks, {unknown} unknown; of {:?}",
        NAMES
    );
    assert!(answered > 2_000 && looked > 1_000 && unknown > 10);
}
