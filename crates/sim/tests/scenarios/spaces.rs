//! Named streams asked for at the spaces of every node, while nodes crash, are cut off, stand still and lose states.
//!
//! Every append brings a token of its own, so what clients saw is judged exactly: each read is the beginning of what stands there in the end, and holds all
//! that was answered before it was asked for; a token that was answered stands where its answer says, once; one that was never done stands nowhere. A stream
//! that is deleted and made again shows by its id which life of it was seen, and no life comes back.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use formats::LogKind;
use host::{Bounds, Host, HostConfig, Machine, Shelves};
use node::hosted::Hosts;
use ops::{Letter, MachineId};
use paxos::Role;
use shelf::{Identity, Media, Memory, Shelf, ShelfError};
use sim::workload::small_limits;
use sim::{HostId, Process};
use spaces::{Asker, Fate, Moved, Noticed, OfView, See, Seen, Spaces, Submit};
use streams::{
    Answer, Append, Create, Expected, Found, From, Lifetime, MediaType, Offset, Path, Producer,
    Refusal, Request,
};

use crate::stage::{MS, SECOND, Stage, done};

const SPACE: &str = "default";
const SPACES: MachineId = MachineId(2);
/// They stay, and grow.
const GROWING: [&str; 2] = ["a", "b"];
/// It is deleted and made again.
const MORTAL: &str = "c";
const PRODUCERS: usize = 3;

#[derive(Clone, Default)]
struct OnMedia(Arc<Mutex<BTreeMap<u32, Media>>>);

impl OnMedia {
    fn of(&self, identity: Identity) -> Media {
        let mut media = self.0.lock().unwrap();
        media.entry(identity.log).or_default().clone()
    }

    fn each(&self, act: impl Fn(&Media)) {
        self.0.lock().unwrap().values().for_each(act);
    }
}

impl Shelves for OnMedia {
    fn open(&self, identity: Identity) -> Result<Arc<dyn Shelf>, ShelfError> {
        Ok(Arc::new(Memory::open(&self.of(identity), identity)?))
    }

    fn put_aside(&self, identity: Identity) -> Result<PathBuf, ShelfError> {
        self.of(identity).clear();
        Ok(PathBuf::from("aside"))
    }

    fn remove(&self, identity: Identity) -> Result<(), ShelfError> {
        self.of(identity).clear();
        Ok(())
    }
}

/// What an append was.
#[derive(Clone)]
struct Token {
    text: String,
    /// The tail that it expected.
    expected: Option<u64>,
}

/// What clients know of one growing stream.
#[derive(Default)]
struct Grown {
    /// Tokens and where they end.
    answered: Vec<(Token, u64)>,
    never: Vec<Token>,
    /// So long it is at least.
    length: u64,
    tail: Option<Offset>,
    /// Reads: the length known when they were asked for, and what they showed.
    shown: Vec<(u64, Vec<u8>)>,
}

/// A producer sends its next append until it knows that it stands.
#[derive(Clone, Default)]
struct Sends {
    sequence: u64,
    is_waiting: bool,
}

#[derive(Default)]
struct Book {
    asked: u64,

    unknown: u64,
    repeated: u64,
    refused: u64,
    grown: BTreeMap<&'static str, Grown>,
    sends: BTreeMap<usize, Sends>,
    /// Lives of the mortal stream that were seen, up to this id; and up to this one that were seen to be over.
    lived: u64,
    over: u64,
    moves: u64,
}

struct Tell(Box<dyn FnOnce(Fate) + Send>);

impl Asker for Tell {
    fn tell(self: Box<Self>, fate: Fate) {
        (self.0)(fate);
    }

    fn is_gone(&self) -> bool {
        false
    }
}

fn path(text: &str) -> Path {
    Path::new(text).expect("a name")
}

fn text() -> MediaType {
    MediaType::new("text/plain").expect("a type")
}

pub struct Play {
    pub stage: Stage,
    spaces: Vec<HostId>,
    media: Vec<OnMedia>,
    book: Arc<Mutex<Book>>,
    draws: u64,
    is_lost: bool,
}

impl Play {
    fn three(seed: u64) -> Play {
        Play::of(seed, Arc::new(spaces::Space))
    }

    /// Three nodes, and this machine for their spaces.
    pub fn of(seed: u64, machine: Arc<dyn Machine>) -> Play {
        let hosts = Hosts::of_kind(SPACES, LogKind::Streams);
        let mut stage = Stage::hosting_within(seed, 3, hosts, small_limits());
        let media: Vec<OnMedia> = (0..3).map(|_| OnMedia::default()).collect();
        let book: Arc<Mutex<Book>> = Arc::default();
        let mut companions = Vec::new();
        for (index, media) in media.iter().enumerate() {
            let (media, book, machine) = (media.clone(), book.clone(), machine.clone());
            let mut starts = 0;
            let companion = stage
                .world
                .add_companion(stage.nodes[index], SPACES, move |_, now| {
                    starts += 1;
                    let seed = seed << 16 | (index as u64) << 8 | starts;
                    let book = book.clone();
                    let shelves = Noticed::new(media.clone(), move |moved| {
                        let is_one =
                            matches!(moved, Moved::Tails { streams, .. } if !streams.is_empty());
                        book.lock().unwrap().moves += u64::from(is_one);
                    });
                    let config = HostConfig {
                        others: Some(machine.clone()),
                        machines: BTreeMap::new(),
                        shelves: Arc::new(shelves),
                        bounds: Bounds {
                            kept_bytes_max: 0,
                            flush_bytes: 3_000,
                            flush_after: 2 * SECOND,
                            piece_bytes: 100,
                            copy_bytes_per_second: 20_000,
                            ..Bounds::default()
                        },
                        seed,
                    };
                    let spaces = Spaces::new(Host::new(config, now), seed, now);
                    Ok(Box::new(spaces) as Box<dyn Process>)
                });
            companions.push(companion.expect("it starts"));
        }
        done(&mut stage, "create-log default kind=streams");
        stage.pass(SECOND);
        Play {
            stage,
            spaces: companions,
            media,
            book,
            draws: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            is_lost: false,
        }
    }

    /// With streams that grow.
    fn growing(seed: u64) -> Play {
        let mut play = Play::three(seed);
        for name in GROWING {
            play.insist(Request::Create(Box::new(Create {
                path: path(name),
                media: Some(text()),
                lifetime: Lifetime::Endless,
                retention: streams::Retention::default(),
                closes: false,
                body: Vec::new(),
                fork: None,
                must_be_new: false,
            })));
            play.book
                .lock()
                .unwrap()
                .grown
                .insert(name, Grown::default());
        }
        play
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.draws ^= self.draws << 13;
        self.draws ^= self.draws >> 7;
        self.draws ^= self.draws << 17;
        self.draws % end
    }

    pub fn submit(
        &mut self,
        index: usize,
        request: Request,
        tell: impl FnOnce(Fate) + Send + 'static,
    ) {
        let submit = Submit {
            space: SPACE.to_owned(),
            request,
            asker: Box::new(Tell(Box::new(tell))),
        };
        // A node that is down hears nothing, and its clients hear nothing of it.
        if self.stage.world.is_running(self.stage.nodes[index]) {
            self.stage
                .world
                .write_to(self.spaces[index], Letter::new(submit));
        }
    }

    /// Asks until it is done.
    fn insist(&mut self, request: Request) -> Answer {
        for turn in 0..100 {
            let told: Arc<Mutex<Option<Fate>>> = Arc::default();
            let kept = told.clone();
            self.submit(turn % 3, request.clone(), move |fate| {
                *kept.lock().unwrap() = Some(fate);
            });
            self.stage.pass(SECOND / 2);
            if let Some(Fate::Answered { answer, .. }) = told.lock().unwrap().take() {
                return Answer::decode(&answer).expect("an answer");
            }
        }
        panic!("nobody answers {request:?}");
    }

    /// A client at that node asks something drawn.
    fn ask(&mut self, index: usize) {
        match self.below(12) {
            0..=2 => self.append(index),
            3..=5 => {
                let producer = self.below(PRODUCERS as u64) as usize;
                self.produce(index, producer);
            }
            6..=8 => self.read(index),
            9 => self.make(index),
            10 => self.delete(index),
            _ => self.read_mortal(index),
        }
    }

    fn name(&mut self) -> &'static str {
        GROWING[self.below(2) as usize]
    }

    fn append(&mut self, index: usize) {
        let name = self.name();
        let wants = self.below(3) == 0;
        let mut book = self.book.lock().unwrap();
        book.asked += 1;
        let grown = &book.grown[name];
        let expected = grown.tail.filter(|_| wants);
        let token = Token {
            text: format!("t{},", book.asked),
            expected: expected.map(|offset| offset.position),
        };
        drop(book);
        let request = Request::Append(Box::new(Append {
            path: path(name),
            principal: String::new(),
            media: Some(text()),
            body: token.text.clone().into_bytes(),
            closes: false,
            sequence: None,
            producer: None,
            expected: expected.map(Expected::At),
        }));
        let book = self.book.clone();
        self.submit(index, request, move |fate| {
            let mut book = book.lock().unwrap();
            match fate {
                Fate::Answered { answer, .. } => {
                    match Answer::decode(&answer).expect("an answer") {
                        Answer::Appended { place, .. } => {
                            let grown = book.grown.get_mut(name).expect("it is there");
                            grown.length = grown.length.max(place.tail.position);
                            grown.tail = Some(place.tail);
                            grown.answered.push((token, place.tail.position));
                        }
                        Answer::Refused(Refusal::Unexpected(place)) => {
                            book.refused += 1;
                            let grown = book.grown.get_mut(name).expect("it is there");
                            grown.length = grown.length.max(place.tail.position);
                            grown.tail = Some(place.tail);
                            grown.never.push(token);
                        }
                        other => panic!("{other:?}"),
                    }
                }
                Fate::NotDone(_) | Fate::NotHere => {
                    book.grown
                        .get_mut(name)
                        .expect("it is there")
                        .never
                        .push(token);
                }
                Fate::Unknown => book.unknown += 1,
            }
        });
    }

    /// A producer's next append, or the one before, of which it does not know.
    fn produce(&mut self, index: usize, producer: usize) {
        let name = GROWING[producer % 2];
        let mut book = self.book.lock().unwrap();
        let sends = book.sends.entry(producer).or_default();
        // It asks again though nobody has answered: the twin may be on its way.
        if std::mem::replace(&mut sends.is_waiting, true) {
            book.repeated += 1;
        }
        let sequence = book.sends[&producer].sequence;
        drop(book);
        let body = format!("p{producer}-{sequence},");
        let request = Request::Append(Box::new(Append {
            path: path(name),
            principal: String::new(),
            media: Some(text()),
            body: body.clone().into_bytes(),
            closes: false,
            sequence: None,
            producer: Some(Producer {
                id: format!("p{producer}"),
                epoch: 0,
                sequence,
                ..Producer::default()
            }),
            expected: None,
        }));
        let book = self.book.clone();
        self.submit(index, request, move |fate| {
            let mut book = book.lock().unwrap();
            let Fate::Answered { answer, .. } = fate else {
                book.unknown += u64::from(fate == Fate::Unknown);
                return;
            };
            let (place, is_new) = match Answer::decode(&answer).expect("an answer") {
                Answer::Appended { place, .. } => (place, true),
                Answer::Known { place, .. } => (place, false),
                other => panic!("{other:?}"),
            };
            let grown = book.grown.get_mut(name).expect("it is there");
            grown.length = grown.length.max(place.tail.position);
            if is_new {
                let token = Token {
                    text: body,
                    expected: None,
                };
                grown.answered.push((token, place.tail.position));
            }
            let sends = book.sends.get_mut(&producer).expect("it sends");
            if sends.sequence == sequence {
                sends.sequence += 1;
                sends.is_waiting = false;
            }
        });
    }

    fn see(
        &mut self,
        index: usize,
        name: &str,
        seen: impl FnOnce(Found<streams::Read>) + Send + 'static,
    ) {
        let path = path(name);
        self.look(index, move |shown| {
            if let Seen::Rows(view) = shown {
                let found = streams::read(&mut OfView(view), &path, From::Start, 1 << 30);
                seen(found.expect("memory does not fail"));
            }
        });
    }

    /// A client at that node looks at the rows of the space.
    pub fn look(&mut self, index: usize, look: impl FnOnce(Seen<'_, '_>) + Send + 'static) {
        let see = See {
            space: SPACE.to_owned(),
            stale: false,
            look: Box::new(look),
        };
        if self.stage.world.is_running(self.stage.nodes[index]) {
            self.stage
                .world
                .write_to(self.spaces[index], Letter::new(see));
        }
    }

    fn read(&mut self, index: usize) {
        let name = self.name();
        let known = self.book.lock().unwrap().grown[name].length;
        let book = self.book.clone();
        self.see(index, name, move |found| {
            let Found::There(read) = found else {
                panic!("{name}: {found:?}");
            };
            let mut book = book.lock().unwrap();
            let grown = book.grown.get_mut(name).expect("it is there");
            grown.length = grown.length.max(read.next.position);
            grown.tail = Some(read.standing.place.tail);
            grown.shown.push((known, read.bytes));
        });
    }

    fn make(&mut self, index: usize) {
        let over = self.book.lock().unwrap().over;
        let request = Request::Create(Box::new(Create {
            path: path(MORTAL),
            media: Some(text()),
            lifetime: Lifetime::Endless,
            retention: streams::Retention::default(),
            closes: false,
            body: b"x".to_vec(),
            fork: None,
            must_be_new: false,
        }));
        let book = self.book.clone();
        self.submit(index, request, move |fate| {
            let mut book = book.lock().unwrap();
            let Fate::Answered { answer, .. } = fate else {
                book.unknown += u64::from(fate == Fate::Unknown);
                return;
            };
            match Answer::decode(&answer).expect("an answer") {
                Answer::Created(place) | Answer::Found(place) => book.on_life(place.id, over),
                other => panic!("{other:?}"),
            }
        });
    }

    fn delete(&mut self, index: usize) {
        let before = self.book.lock().unwrap().lived;
        let book = self.book.clone();
        self.submit(index, Request::Delete { path: path(MORTAL) }, move |fate| {
            let mut book = book.lock().unwrap();
            match fate {
                // All lives that were seen before it was asked for are over.
                Fate::Answered { .. } => book.over = book.over.max(before),
                Fate::Unknown => book.unknown += 1,
                _ => {}
            }
        });
    }

    fn read_mortal(&mut self, index: usize) {
        let (before, over) = {
            let book = self.book.lock().unwrap();
            (book.lived, book.over)
        };
        let book = self.book.clone();
        self.see(index, MORTAL, move |found| {
            let mut book = book.lock().unwrap();
            match found {
                Found::There(read) => book.on_life(read.standing.place.id, over),
                Found::Nothing => book.over = book.over.max(before),
                other => panic!("{other:?}"),
            }
        });
    }

    fn leader(&self) -> Option<usize> {
        let look = self.stage.look();
        (0..3).find(|index| {
            let view = look.view_of(*index, SPACE);
            view.is_some_and(|view| matches!(view.role, Role::Leader { .. }))
        })
    }

    pub fn strike(&mut self) {
        let index = self.below(3) as usize;
        let leader = self.leader().unwrap_or(index);
        match self.below(8) {
            0 | 1 => self.crash(leader),
            2 => self.crash(index),
            3 => self.stage.isolate(leader),
            4 => {
                for other in (0..3).filter(|other| *other != leader) {
                    self.stage.cut(other, leader);
                }
            }
            5 => {
                let pause = MS * (1 + self.below(3_000) as u32);
                let node = self.stage.nodes[index];
                self.stage.world.pause(node, pause);
            }
            6 if !self.is_lost => {
                // Once: of three replicas one may lose its state before it is made good.
                self.is_lost = true;
                self.crash(index);
                self.media[index].each(Media::clear);
            }
            _ => {}
        }
    }

    fn crash(&mut self, index: usize) {
        if self.stage.world.is_running(self.stage.nodes[index]) {
            self.stage.crash(index);
        }
    }

    pub fn mend(&mut self) {
        self.stage.world.heal_all();
        for index in 0..3 {
            if !self.stage.world.is_running(self.stage.nodes[index]) {
                self.stage.restart(index);
            }
        }
    }

    /// The bytes of a stream as one node has them, with all that was answered.
    fn last(&mut self, index: usize, name: &str) -> Vec<u8> {
        for _ in 0..60 {
            let found: Arc<Mutex<Option<Vec<u8>>>> = Arc::default();
            let kept = found.clone();
            self.see(index, name, move |found| {
                if let Found::There(read) = found {
                    *kept.lock().unwrap() = Some(read.bytes);
                }
            });
            self.stage.pass(SECOND / 2);
            if let Some(bytes) = found.lock().unwrap().take() {
                return bytes;
            }
        }
        panic!("node {index} shows no {name}");
    }

    fn judge(&mut self, seed: u64) {
        let mut lasts = BTreeMap::new();
        for name in GROWING {
            let last = self.last(0, name);
            for index in 1..3 {
                assert_eq!(
                    self.last(index, name),
                    last,
                    "seed {seed}: {name} at {index}"
                );
            }
            self.book.lock().unwrap().grown[name].judge(&last, seed);
            lasts.insert(name, String::from_utf8(last).expect("text"));
        }
        let book = self.book.lock().unwrap();
        for (producer, sends) in &book.sends {
            let last = &lasts[GROWING[producer % 2]];
            for sequence in 0..sends.sequence {
                let token = format!("p{producer}-{sequence},");
                assert_eq!(last.matches(&token).count(), 1, "seed {seed}: {token}");
            }
        }
    }
}

impl Book {
    /// The mortal stream was seen in this life, when so many were known to be over.
    fn on_life(&mut self, id: u64, over: u64) {
        assert!(id > over, "life {id} came back: {over} was over");
        self.lived = self.lived.max(id);
    }
}

impl Grown {
    fn judge(&self, last: &[u8], seed: u64) {
        let text = String::from_utf8(last.to_vec()).expect("text");
        let at = |token: &Token| {
            text.split_inclusive(',')
                .filter(|part| *part == token.text)
                .count()
        };
        for (token, end) in &self.answered {
            let begin = *end as usize - token.text.len();
            let there = text.get(begin..*end as usize);
            assert_eq!(
                there,
                Some(&*token.text),
                "seed {seed}: it is not where it was said to be"
            );
            assert_eq!(at(token), 1, "seed {seed}: {}", token.text);
            if let Some(expected) = token.expected {
                assert_eq!(expected, begin as u64, "seed {seed}: somebody came between");
            }
        }
        for token in &self.never {
            assert_eq!(
                at(token),
                0,
                "seed {seed}: {} was never to be done",
                token.text
            );
        }
        for (known, shown) in &self.shown {
            assert!(
                last.starts_with(shown),
                "seed {seed}: a read that was not so"
            );
            assert!(
                shown.len() as u64 >= *known,
                "seed {seed}: a read is behind an answer"
            );
        }
    }
}

/// Requests at the spaces of all nodes, whatever fails.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn streams_are_what_was_answered_whatever_fails() {
    let (mut answered, mut unknown, mut repeated, mut refused, mut moves) = (0, 0, 0, 0, 0);
    for seed in 0..12 {
        let mut play = Play::growing(seed);
        for step in 0..1_200u32 {
            match step % 100 {
                30 | 45 => play.strike(),
                70 => play.mend(),
                _ => {}
            }
            let index = play.below(3) as usize;
            play.ask(index);
            let us = 200 * (1 + play.below(40));
            play.stage.pass(Duration::from_micros(us));
            if step % 100 == 99 {
                play.stage.pass(3 * SECOND);
            }
        }
        play.mend();
        play.stage.pass(15 * SECOND);
        play.judge(seed);
        let book = play.book.lock().unwrap();
        answered += book
            .grown
            .values()
            .map(|grown| grown.answered.len())
            .sum::<usize>();
        (unknown, repeated) = (unknown + book.unknown, repeated + book.repeated);
        (refused, moves) = (refused + book.refused, moves + book.moves);
    }
    println!(
        "{answered} appends, {unknown} unknown, {repeated} asked again, {refused} with another tail, {moves} moves of tails"
    );
    assert!(answered > 2_000 && unknown > 10 && repeated > 200 && refused > 50 && moves > 4_000);
}

/// A follower's request is handed on, and one that waits for an election as well.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_request_is_done_through_any_node_and_over_an_election() {
    let mut play = Play::growing(3);
    let leader = play.leader().expect("somebody leads");
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    for index in others {
        play.append(index);
    }
    play.stage.pass(SECOND);
    let told = |play: &Play| {
        play.book
            .lock()
            .unwrap()
            .grown
            .values()
            .map(|grown| grown.answered.len())
            .sum::<usize>()
    };
    assert_eq!(told(&play), 2);
    play.crash(leader);
    // Nobody leads now: they are asked at once.
    for index in others {
        play.append(index);
    }
    play.stage.pass(4 * SECOND);
    let book = play.book.lock().unwrap();
    let never: usize = book.grown.values().map(|grown| grown.never.len()).sum();
    drop(book);
    assert_eq!(
        (
            told(&play) as u64 + play.book.lock().unwrap().unknown,
            never
        ),
        (4, 0)
    );
    play.mend();
    play.stage.pass(5 * SECOND);
    play.judge(3);
}

/// A stream is made, the answer is lost, and somebody deletes it: nobody makes it again for a client who knows nothing of that.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_stream_whose_making_was_not_answered_does_not_come_back() {
    let mut play = Play::growing(5);
    let leader = play.leader().expect("somebody leads");
    let (asked, third) = ((leader + 1) % 3, (leader + 2) % 3);
    // What is asked there comes to the leader, and no answer comes back.
    play.stage.cut(leader, asked);
    let told: Arc<Mutex<Option<Fate>>> = Arc::default();
    let kept = told.clone();
    let request = Request::Create(Box::new(Create {
        path: path(MORTAL),
        media: Some(text()),
        lifetime: Lifetime::Endless,
        retention: streams::Retention::default(),
        closes: false,
        body: b"x".to_vec(),
        fork: None,
        must_be_new: true,
    }));
    play.submit(asked, request, move |fate| {
        *kept.lock().unwrap() = Some(fate);
    });
    play.stage.pass(100 * MS);
    play.crash(leader);
    // The asker waits for the one that died, for 3 s.
    while play.leader().is_none_or(|leads| leads == leader) {
        play.stage.pass(10 * MS);
    }
    let deleted: Arc<Mutex<Option<Fate>>> = Arc::default();
    let kept = deleted.clone();
    play.submit(third, Request::Delete { path: path(MORTAL) }, move |fate| {
        *kept.lock().unwrap() = Some(fate);
    });
    play.stage.pass(SECOND / 2);
    let Some(Fate::Answered { answer, .. }) = deleted.lock().unwrap().take() else {
        panic!("nobody deletes it");
    };
    assert_eq!(Answer::decode(&answer), Some(Answer::Deleted));
    // By then nobody waits for the answer any more.
    play.stage.pass(4 * SECOND);
    play.mend();
    play.stage.pass(10 * SECOND);
    for index in 0..3 {
        let found: Arc<Mutex<Option<bool>>> = Arc::default();
        let kept = found.clone();
        play.see(index, MORTAL, move |found| {
            *kept.lock().unwrap() = Some(matches!(found, Found::Nothing));
        });
        play.stage.pass(SECOND);
        assert_eq!(*found.lock().unwrap(), Some(true), "node {index}");
    }
    assert_eq!(told.lock().unwrap().take(), Some(Fate::Unknown));
}

/// A stream's time is over for everybody at once, and its removal is agreed on.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_stream_whose_time_is_over_is_gone_on_every_node() {
    let mut play = Play::growing(4);
    let request = Request::Create(Box::new(Create {
        path: path(MORTAL),
        media: Some(text()),
        lifetime: Lifetime::Idle { seconds: 2 },
        retention: streams::Retention::default(),
        closes: false,
        body: b"x".to_vec(),
        fork: None,
        must_be_new: false,
    }));
    assert!(matches!(play.insist(request), Answer::Created(_)));
    // It is used, at whichever node.
    for _ in 0..4 {
        let touch = Request::Touch {
            path: path(MORTAL),
            uses: true,
        };
        assert_eq!(play.insist(touch), Answer::Touched);
        play.stage.pass(SECOND);
    }
    play.stage.pass(4 * SECOND);
    // Nobody asked for it, and it is gone: the leader looked.
    for index in 0..3 {
        let found: Arc<Mutex<Option<bool>>> = Arc::default();
        let kept = found.clone();
        play.see(index, MORTAL, move |found| {
            *kept.lock().unwrap() = Some(matches!(found, Found::Nothing));
        });
        play.stage.pass(SECOND);
        assert_eq!(*found.lock().unwrap(), Some(true), "node {index}");
    }
}
