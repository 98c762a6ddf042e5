//! A group that leads, and clients who hold what it gave until they read it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};

use formats::LogId;
use letters::Wish;
use paxos::{NodeId, StreamName, StreamSequence};
use shelf::{Applied, Identity, Media, Memory, Shelf, ShelfError};

use super::*;
use crate::filling;
use crate::group::{Call, Caller, Core, Keeping, Out, Replier};
use crate::intake::Intake;
use crate::jobs::Shelves;
use crate::machine::{Command, Machine};
use crate::room::Room;
use crate::state::{State, Stop};

const STREAM: StreamName = StreamName {
    owner: NodeId(1),
    sequence: StreamSequence {
        incarnation: 1,
        counter: 1,
    },
};
const IDENTITY: Identity = Identity {
    cluster: [1; 16],
    log: 1,
};

/// Answers as many bytes as it is asked for, and the first of them tells who asked. It writes if it is asked to. All that was done, and drawn.
#[derive(Clone, Default)]
struct Sizes {
    done: Arc<Mutex<Vec<u8>>>,
    drawn: Arc<Mutex<BTreeMap<u8, Vec<u64>>>>,
}

fn command(name: u8, bytes: usize, writes: bool) -> Command {
    let length = (bytes as u32).to_le_bytes();
    Command::Plain([&[name, u8::from(writes)], &length[..]].concat())
}

impl Machine for Sizes {
    fn execute(&self, state: &mut State<'_>, command: &[u8]) -> Result<Vec<u8>, Stop> {
        let [name, writes, length @ ..] = command else {
            return Err(Stop::refused("no command"));
        };
        let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
        if *writes == 1 {
            state.put(b"row", &[*name])?;
        }
        let drawn = state.random();
        self.drawn
            .lock()
            .unwrap()
            .entry(*name)
            .or_default()
            .push(drawn);
        let (done, name) = (self.done.clone(), *name);
        state.once_done(move || done.lock().unwrap().push(name));
        Ok(vec![name; length as usize])
    }
}

impl Shelves for Sizes {
    fn open(&self, identity: Identity) -> Result<Arc<dyn Shelf>, ShelfError> {
        Ok(Arc::new(Memory::open(&Media::default(), identity)?))
    }

    fn put_aside(&self, _: Identity) -> Result<PathBuf, ShelfError> {
        Ok(PathBuf::new())
    }

    fn remove(&self, _: Identity) -> Result<(), ShelfError> {
        Ok(())
    }
}

/// Tells what became of a command of this name, and that it is put aside.
struct Named {
    name: u8,
    tell: mpsc::Sender<(u8, Outcome)>,
    aside: Arc<Mutex<String>>,
}

impl Caller for Named {
    fn reply(self: Box<Self>, outcome: Outcome) {
        _ = self.tell.send((self.name, outcome));
    }

    fn put_aside(&mut self) {
        self.aside.lock().unwrap().push(char::from(self.name));
    }
}

/// A group that leads, beside clients that hold what it gave until they take it.
struct Scene {
    core: Core,
    keeping: Keeping,
    leading: Leading,
    sizes: Sizes,
    now: Time,
    unread: usize,
    tell: mpsc::Sender<(u8, Outcome)>,
    told: mpsc::Receiver<(u8, Outcome)>,
    frames: u64,
    /// The names of those that were put aside.
    aside: Arc<Mutex<String>>,
}

/// Three commands have room where they are put aside.
const ASIDE_MAX: usize = 3 * (1_024 + 6);

/// There is room for 10,000 bytes, and an answer of 1,000 is large.
fn scene() -> Scene {
    let bounds = Bounds {
        answers_bytes_max: [0, 10_000],
        aside_bytes_max: ASIDE_MAX,
        counted_answer_bytes: 1_000,
        large_answer_bytes: 1_000,
        ..Bounds::default()
    };
    let sizes = Sizes::default();
    let (tell, told) = mpsc::channel();
    let mut scene = Scene {
        core: Core {
            log: LogId(1),
            own: NodeId(1),
            name: "sizes".to_owned(),
            identity: IDENTITY,
            bounds,
            shelves: Arc::new(sizes.clone()),
            machine: Arc::new(sizes.clone()),
            shelf: sizes.open(IDENTITY).ok(),
            intake: Intake::default(),
            generation: 0,
            copying: None,
            is_auxiliary: false,
            damage: None,
            was_damaged: false,
            attached: 0,
            told: None,
            told_stuck: None,
            told_filling: None,
            halted: None,
            is_gone: false,
        },
        keeping: Keeping::default(),
        leading: Leading::new(7, Room::new(&bounds)),
        sizes,
        now: Time::ZERO,
        unread: 0,
        tell,
        told,
        frames: 0,
        aside: Arc::default(),
    };
    scene.begin();
    scene
}

impl Scene {
    fn begin(&mut self) {
        self.leading.begin(self.now, STREAM, Applied::default());
        self.leading.overlay.learn(0, filling::ROW, None);
    }

    fn ask(&mut self, name: u8, order: u64, bytes: usize, writes: bool) {
        let named = Named {
            name,
            tell: self.tell.clone(),
            aside: self.aside.clone(),
        };
        let call = Call {
            command: command(name, bytes, writes),
            replier: Replier::new(named),
            since: self.now,
            order: Some(order),
            aside: None,
        };
        self.leading.call(call, &self.core.bounds);
    }

    /// One round, as the host has it, in which all that was executed is chosen. The names that are answered.
    fn round(&mut self) -> String {
        self.leading.room.set_unread(Size::Large, self.unread);
        while let Some((_, bytes)) = self.leading.waits_for_room(Size::Large) {
            if !self.leading.room.has(bytes) {
                break;
            }
            self.leading.let_in(Size::Large);
        }
        if self.leading.waits_for_room(Size::Large).is_none() {
            self.leading.room.set_awaited(Size::Large, false);
        }
        let mut out = Out::default();
        let (core, keeping) = (&self.core, &self.keeping);
        self.leading.settle(self.now, None, core, keeping, &mut out);
        for wish in out.wishes {
            match wish.what {
                Wish::Submit { bytes, .. } => {
                    self.frames += 1;
                    let end = self.leading.reign.as_ref().map_or(0, |reign| reign.end);
                    assert!(!bytes.is_empty());
                    self.leading.on_chosen(STREAM, end, self.frames);
                }
                Wish::Barrier { barrier } => self.leading.on_passed(barrier, Some(STREAM)),
                _ => {}
            }
        }
        let (mut names, mut unread) = (String::new(), 0);
        for (name, outcome) in self.told.try_iter() {
            names.push(char::from(name));
            match outcome {
                Outcome::Chosen(answer) => unread += answer.len(),
                other => names.push_str(&format!(" {other:?} ")),
            }
        }
        self.unread += unread;
        assert_eq!(self.leading.answers_bytes(), 0);
        names
    }

    fn done(&self) -> String {
        String::from_utf8(self.sizes.done.lock().unwrap().clone()).unwrap()
    }
}

#[test]
fn large_answers_wait_until_others_are_read_in_the_order_in_which_they_were_asked_for() {
    let mut scene = scene();
    for (name, bytes) in [
        (b'a', 4_000),
        (b'b', 5_000),
        (b'c', 3_000),
        (b'd', 900),
        (b'e', 1_000),
    ] {
        scene.ask(name, u64::from(name), bytes, false);
    }
    // There would be room for the last one: it is behind one that waits. Small ones go on.
    assert_eq!(scene.round(), "abd");
    assert_eq!(scene.leading.deadline(), None, "nobody spins");
    assert_eq!(scene.round(), "");
    scene.ask(b'f', 6, 2_000, false);
    scene.unread -= 2_000;
    assert_eq!(
        scene.round(),
        "",
        "the first needs 3,000, and there are 2,100"
    );
    scene.unread -= 900;
    assert_eq!(scene.round(), "c");
    scene.unread = 8_000;
    assert_eq!(scene.round(), "e");
    scene.unread = 0;
    assert_eq!(scene.round(), "f");
    // However large it is, and with nothing else there.
    scene.ask(b'g', 7, 50_000, false);
    assert_eq!(scene.round(), "");
    scene.unread = 0;
    assert_eq!(scene.round(), "g");
    for drawn in scene.sizes.drawn.lock().unwrap().values() {
        assert!(
            drawn.iter().all(|one| *one == drawn[0]),
            "the same each time"
        );
    }
}

#[test]
fn nothing_of_a_command_is_done_whose_answer_has_no_room() {
    let mut scene = scene();
    scene.unread = 9_500;
    scene.ask(b'w', 1, 2_000, true);
    assert_eq!((scene.round().as_str(), scene.frames), ("", 0));
    assert!(scene.leading.overlay.get(b"mrow").is_none());
    assert_eq!(scene.done(), "");
    // Neither is what follows it in its order, however small, and others go on.
    scene.ask(b'x', 1, 1, true);
    scene.ask(b'y', 2, 1, true);
    assert_eq!((scene.round().as_str(), scene.frames), ("y", 1));
    scene.unread = 8_000;
    assert_eq!(scene.round(), "wx");
    assert_eq!(scene.done(), "ywx");
    let row = scene.leading.overlay.get(b"mrow").expect("it is written");
    assert_eq!(row.value.as_deref(), Some(&b"x"[..]));
}

#[test]
fn who_is_gone_waits_no_more_and_keeps_nobody() {
    let mut scene = scene();
    scene.unread = 9_000;
    scene.ask(b'a', 1, 9_999, false);
    scene.ask(b'b', 1, 1, false);
    assert_eq!(scene.round(), "");
    let others = |scene: &Scene| [1, 2].map(|order| scene.leading.others_wait_for_room(order));
    assert_eq!(others(&scene), [false, true]);
    scene.ask(b'c', 2, 1_000, false);
    assert_eq!(scene.round(), "");
    assert_eq!(others(&scene), [true, true]);
    scene.leading.forget_order(1);
    assert_eq!(scene.round(), "c");
    assert!(scene.leading.held.is_empty() && scene.leading.roomless.is_empty());
    assert_eq!(scene.leading.roomless.bytes, 0);
}

#[test]
fn who_waits_for_room_when_a_reign_ends_waits_as_others_do() {
    let mut scene = scene();
    scene.unread = 10_000;
    for name in [b'a', b'b'] {
        scene.ask(name, 1, 2_000, true);
    }
    scene.ask(b'c', 2, 2_000, true);
    assert_eq!(scene.round(), "");
    scene.leading.on_deposed(scene.now, STREAM);
    assert_eq!(scene.leading.waits_for_room(Size::Large), None);
    let waiting = scene.leading.waiting.iter();
    let numbers: Vec<u64> = waiting.map(|waiting| waiting.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    // It leads again, and then never more.
    scene.begin();
    assert_eq!(scene.round(), "");
    scene.unread = 5_000;
    assert_eq!(scene.round(), "ac");
    // It is held for a leader from now on, however long it waited for room.
    scene.now += super::super::HOLD;
    scene.leading.on_deposed(scene.now, STREAM);
    assert_eq!(scene.round(), "");
    scene.now += super::super::HOLD;
    assert!(scene.round().contains("NotLeader"));
    assert_eq!(scene.leading.deadline(), None);
}

#[test]
fn who_was_let_in_keeps_the_room_and_gives_it_back_when_his_reign_ends() {
    let mut scene = scene();
    scene.unread = 9_000;
    scene.ask(b'a', 1, 6_000, false);
    assert_eq!(scene.round(), "");
    scene.unread = 0;
    scene.leading.room.set_unread(Size::Large, 0);
    scene.leading.let_in(Size::Large);
    assert!(!scene.leading.room.has(5_000), "it is set aside");
    scene.leading.on_deposed(scene.now, STREAM);
    assert!(scene.leading.room.has(10_000));
    scene.leading.refuse_all(&Outcome::NotNow("no".to_owned()));
    assert_eq!(scene.told.try_iter().count(), 1);
}

#[test]
fn who_waits_for_room_and_those_behind_are_put_aside_as_far_as_there_is_room_for_that() {
    let mut scene = scene();
    scene.unread = 10_000;
    scene.ask(b'a', 1, 1_000, false);
    scene.ask(b'b', 1, 1, false);
    assert_eq!(scene.round(), "");
    scene.ask(b'c', 1, 1, false);
    scene.ask(b'd', 2, 1, false);
    scene.ask(b'e', 3, 1_000, false);
    scene.ask(b'f', 1, 1, false);
    assert_eq!(scene.round(), "d");
    let aside = scene.aside.clone();
    let aside = || aside.lock().unwrap().clone();
    assert_eq!(aside(), "abc", "there is no more room");
    // Commands that are put aside stay so until they are answered.
    scene.leading.on_deposed(scene.now, STREAM);
    scene.begin();
    assert_eq!(scene.round(), "");
    assert_eq!(aside(), "abc");
    scene.unread = 8_000;
    assert_eq!(scene.round(), "aebcf");
    scene.unread = 10_000;
    scene.ask(b'g', 1, 1_000, false);
    scene.ask(b'h', 1, 1_000, false);
    assert_eq!(scene.round(), "");
    assert_eq!(aside(), "abcgh");
    scene.leading.forget_order(1);
    assert!(scene.leading.room.take_aside(ASIDE_MAX - 1_024).is_some());
}
