//! The machine that a kernel drives: requests on spaces, executed here or elsewhere.
//!
//! ```text
//!  Submit ─▶ the host: does this node lead? ── yes ─▶ its outcome
//!               └─ no ─▶ AskGroup ─▶ the node that leads ─▶ its outcome │ not there any more ─▶ again, for a while
//!                                       └─ no word ─▶ again, if twice is once; else: unknown
//! ```
//!
//! ‡ A request that may have been executed is asked for again only if its twin would do nothing: an append of a producer is known, a touch is a
//! touch. A stream that is made twice might be raised from the dead.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use formats::LogId;
use host::{Ask, Command, Host, Look, Outcome, Replier, View, What, Word};
use ops::{Completion, Machine, Op, Time};
use paxos::NodeId;
use paxos::mutation::{self, Mutation};
use streams::{Answer, Request};

use crate::rows::OfView;
use crate::word::Told;

/// A request is tried for so long where nobody leads, or another node than it was thought.
const TRIED_FOR: Duration = Duration::from_secs(5);
/// … again after so long.
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// A node that was asked and is silent for so long is asked again, or given up.
const SILENT_AFTER: Duration = Duration::from_secs(3);
/// Requests that other nodes are asked for at a time, and their bytes: they go where heartbeats go.
const ASKED_MAX: usize = 256;
const ASKED_BYTES_MAX: usize = 16 << 20;
/// Streams whose time may be over are looked for so often.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// ‡ At a time: each wants rows from the disk, and a command that wants too many is refused, again and again.
const SWEPT_AT_A_TIME: u32 = 64;

/// A request of this node's door: a letter to the spaces.
pub struct Submit {
    /// The name of the space's log.
    pub space: String,
    pub request: Request,
    pub asker: Box<dyn Asker>,
}

/// Whoever waits for the fate of a request.
pub trait Asker: Send {
    fn tell(self: Box<Self>, fate: Fate);

    /// Nobody waits any more. ‡ What was not executed by then is not executed: whoever asks again would be a second one.
    fn is_gone(&self) -> bool;
}

/// A look at a space's rows: a letter to the spaces.
pub struct See {
    /// The name of the space's log.
    pub space: String,
    /// As they are on this node, whatever the others have.
    pub stale: bool,
    /// Called on a lane of the host's.
    pub look: Box<dyn FnOnce(Seen<'_, '_>) + Send>,
}

/// What there is to be seen.
pub enum Seen<'a, 'v> {
    Rows(&'a View<'v>),
    /// Nothing, for now, for this reason.
    NotNow(String),
    /// This node has no log of that name.
    NotHere,
}

impl fmt::Debug for See {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a look at the space {}", self.space)
    }
}

impl fmt::Debug for Submit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a request on the space {}", self.space)
    }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A majority has it on disk. The bytes are those of an [`Answer`](streams::Answer).
    Answered {
        answer: Vec<u8>,
        /// It was handed on before, and nobody knew what came of that: what is known already may be this request.
        is_again: bool,
    },
    /// It was not executed, and never will be, for this reason.
    NotDone(String),
    /// This node has no log of that name.
    NotHere,
    /// It was executed, or never will be, and nobody can say which.
    Unknown,
}

/// A request that is not answered.
struct Waiting {
    space: String,
    command: Vec<u8>,
    /// Asked for twice it does no more than once.
    may_repeat: bool,
    /// It may have been executed already, by a node that said nothing.
    may_be_done: bool,
    until: Time,
    stands: Stands,
    asker: Box<dyn Asker>,
}

/// Where a request stands.
enum Stands {
    /// This node's host has it.
    Here,
    /// Another node was asked.
    Asked { silent_at: Time },
    /// It is tried again then.
    Again { at: Time },
    /// There is no room to ask for more elsewhere.
    Queued,
}

enum Came {
    /// Of a request of this node.
    Own { number: u64, outcome: Outcome },
    /// Of another node's.
    Others {
        log: LogId,
        by: NodeId,
        request: u64,
        outcome: Outcome,
    },
    /// Streams of this space may be over.
    Due { space: String },
    /// So many were asked for at a time.
    Swept {
        space: String,
        asked: u32,
        outcome: Outcome,
    },
}

pub struct Spaces {
    host: Host,
    waiting: BTreeMap<u64, Waiting>,
    numbers: u64,
    queued: VecDeque<u64>,
    asked: usize,
    asked_bytes: usize,
    tell: Sender<Came>,
    told: Receiver<Came>,
    sweep_at: Time,
    /// Streams that a sweep takes at a time, where its usual number was too many.
    swept: BTreeMap<String, u32>,
    now: Time,
    stopping: bool,
}

impl Spaces {
    /// `seed`: 8 bytes that nobody can predict, or a simulation's. ‡ Numbers begin there: an answer to a question of an earlier life is nobody's.
    pub fn new(host: Host, seed: u64, now: Time) -> Spaces {
        let (tell, told) = mpsc::channel();
        Spaces {
            host,
            waiting: BTreeMap::new(),
            numbers: seed,
            queued: VecDeque::new(),
            asked: 0,
            asked_bytes: 0,
            tell,
            told,
            sweep_at: now,
            swept: BTreeMap::new(),
            now,
            stopping: false,
        }
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    fn submit(&mut self, submit: Submit) {
        let may_repeat = match &submit.request {
            Request::Append(append) => append.producer.is_some(),
            Request::Touch { .. } | Request::Sweep { .. } => true,
            // Whoever changed it in between would be overruled by the twin.
            Request::Limit(_) => false,
            Request::Create(_) | Request::Delete { .. } => {
                mutation::is(Mutation::UnknownAskedAgain)
            }
        };
        self.numbers = self.numbers.wrapping_add(1);
        let number = self.numbers;
        let waiting = Waiting {
            space: submit.space,
            command: submit.request.encode(),
            may_repeat,
            may_be_done: false,
            until: self.now + TRIED_FOR,
            stands: Stands::Here,
            asker: submit.asker,
        };
        self.waiting.insert(number, waiting);
        self.try_here(number);
    }

    fn see(&mut self, see: See) {
        let See { space, stale, look } = see;
        if self.host.group(&space).is_none() {
            return look(Seen::NotHere);
        }
        let look = Look::new(move |view| match view {
            Ok(view) => look(Seen::Rows(view)),
            Err(why) => look(Seen::NotNow(why)),
        });
        let stale = stale || mutation::is(Mutation::StaleLooks);
        let what = What::Look { look, stale };
        self.host.ask(
            self.now,
            Ask {
                machine: space,
                what,
            },
        );
    }

    /// Hands it to the host, or to another node if that leads.
    fn try_here(&mut self, number: u64) {
        let Some(waiting) = self.waiting.get_mut(&number) else {
            return;
        };
        if waiting.asker.is_gone() {
            self.waiting.remove(&number);
            return;
        }
        let Some(group) = self.host.group(&waiting.space) else {
            return self.end(number, Fate::NotHere);
        };
        if !group.is_leading() && group.leader().is_some() {
            return self.ask(number);
        }
        waiting.stands = Stands::Here;
        let tell = self.tell.clone();
        let replier = Replier::new(move |outcome| _ = tell.send(Came::Own { number, outcome }));
        let ask = Ask {
            machine: waiting.space.clone(),
            what: What::Call {
                command: Command::Plain(waiting.command.clone()),
                replier,
                order: None,
            },
        };
        self.host.ask(self.now, ask);
    }

    /// Asks the node that leads, if there is room.
    fn ask(&mut self, number: u64) {
        let has_room = self.asked < ASKED_MAX && self.asked_bytes < ASKED_BYTES_MAX;
        let Some(waiting) = self.waiting.get_mut(&number) else {
            return;
        };
        let Some(log) = self.host.group(&waiting.space).map(host::Group::log) else {
            return self.end(number, Fate::NotHere);
        };
        if !has_room {
            waiting.stands = Stands::Queued;
            return self.queued.push_back(number);
        }
        let silent_at = self.now + SILENT_AFTER;
        waiting.stands = Stands::Asked { silent_at };
        let command = waiting.command.clone();
        self.asked += 1;
        self.asked_bytes += command.len();
        self.host.ask_group(log, number, command);
    }

    /// What was asked for elsewhere takes no room any more.
    fn give_room(&mut self, number: u64) {
        let Some(waiting) = self.waiting.get(&number) else {
            return;
        };
        if matches!(waiting.stands, Stands::Asked { .. }) {
            self.asked -= 1;
            self.asked_bytes -= waiting.command.len();
        }
    }

    fn answered(&mut self, number: u64, answer: Vec<u8>) {
        let waiting = self.waiting.get(&number);
        let is_again = waiting.is_some_and(|waiting| waiting.may_be_done);
        self.end(number, Fate::Answered { answer, is_again });
    }

    fn end(&mut self, number: u64, fate: Fate) {
        self.give_room(number);
        if let Some(waiting) = self.waiting.remove(&number) {
            waiting.asker.tell(fate);
        }
    }

    /// It was not executed by whoever was asked last.
    fn try_again(&mut self, number: u64, why: &str) {
        self.give_room(number);
        let now = self.now;
        let Some(waiting) = self.waiting.get_mut(&number) else {
            return;
        };
        if now < waiting.until && !self.stopping {
            let at = now + AGAIN_AFTER;
            waiting.stands = Stands::Again { at };
            return;
        }
        let fate = match waiting.may_be_done {
            true => Fate::Unknown,
            false => Fate::NotDone(why.to_owned()),
        };
        if let Some(waiting) = self.waiting.remove(&number) {
            waiting.asker.tell(fate);
        }
    }

    /// Nobody knows whether it was executed.
    fn not_known(&mut self, number: u64) {
        let Some(waiting) = self.waiting.get_mut(&number) else {
            return;
        };
        waiting.may_be_done = !mutation::is(Mutation::SilentTakenForNever);
        match waiting.may_repeat {
            true => self.try_again(number, ""),
            false if mutation::is(Mutation::SilentTakenForNever) => self.try_again(number, ""),
            false => self.end(number, Fate::Unknown),
        }
    }

    fn on_own(&mut self, number: u64, outcome: Outcome) {
        let nobody = "no node that is known here leads this space now";
        match outcome {
            Outcome::Chosen(answer) => self.answered(number, answer),
            Outcome::Refused(why) => self.end(number, Fate::NotDone(why)),
            Outcome::NotLeader { leader: Some(_) } => self.ask(number),
            Outcome::NotLeader { leader: None } => self.try_again(number, nobody),
            Outcome::NotNow(why) => self.try_again(number, &why),
            // No sessions are used.
            Outcome::NoSession | Outcome::Superseded | Outcome::Unknown => self.not_known(number),
        }
    }

    fn on_word(&mut self, word: Word) {
        match word {
            Word::Asked {
                log,
                by,
                request,
                bytes,
            } => self.on_asked(log, by, request, bytes),
            Word::Told { request, bytes } => {
                let is_asked = self
                    .waiting
                    .get(&request)
                    .is_some_and(|waiting| matches!(waiting.stands, Stands::Asked { .. }));
                if !is_asked {
                    return;
                }
                // The node itself says that nobody was asked.
                let told = match bytes.is_empty() {
                    true => Some(Told::NotDone),
                    false => Told::decode(&bytes),
                };
                match told {
                    Some(Told::Answered(answer)) => self.answered(request, answer),
                    Some(Told::NotDone) => {
                        let why = "the node that leads this space changed several times";
                        self.try_again(request, why);
                    }
                    Some(Told::NotNow(why)) => self.try_again(request, &why),
                    Some(Told::Unknown) | None => self.not_known(request),
                }
            }
        }
    }

    /// Another node's request, for what is led here.
    fn on_asked(&mut self, log: LogId, by: NodeId, request: u64, command: Vec<u8>) {
        let group = self.host.groups().find(|group| group.log() == log);
        let Some(group) = group.filter(|group| group.is_leading()) else {
            let told = Told::NotDone.encode();
            return self.host.tell_group(log, by, request, told);
        };
        let machine = group.name().to_owned();
        let tell = self.tell.clone();
        let replier = Replier::new(move |outcome| {
            let came = Came::Others {
                log,
                by,
                request,
                outcome,
            };
            _ = tell.send(came);
        });
        let ask = Ask {
            machine,
            what: What::Call {
                command: Command::Plain(command),
                replier,
                order: None,
            },
        };
        self.host.ask(self.now, ask);
    }

    /// Whether anything came.
    fn take_came(&mut self) -> bool {
        let mut is_any = false;
        while let Ok(came) = self.told.try_recv() {
            is_any = true;
            match came {
                Came::Own { number, outcome } => self.on_own(number, outcome),
                Came::Others {
                    log,
                    by,
                    request,
                    outcome,
                } => {
                    let told = match outcome {
                        Outcome::Chosen(answer) => Told::Answered(answer),
                        Outcome::NotLeader { .. } => Told::NotDone,
                        Outcome::NotNow(why) | Outcome::Refused(why) => Told::NotNow(why),
                        Outcome::NoSession | Outcome::Superseded | Outcome::Unknown => {
                            Told::Unknown
                        }
                    };
                    self.host.tell_group(log, by, request, told.encode());
                }
                Came::Due { space } => self.sweep(space),
                Came::Swept {
                    space,
                    asked,
                    outcome,
                } => self.on_swept(space, asked, &outcome),
            }
        }
        is_any
    }

    fn on_deadlines(&mut self) {
        let now = self.now;
        let of = |is: &dyn Fn(&Stands) -> bool, waiting: &BTreeMap<u64, Waiting>| -> Vec<u64> {
            let due = waiting.iter().filter(|(_, waiting)| is(&waiting.stands));
            due.map(|(number, _)| *number).collect()
        };
        let is_silent =
            |stands: &Stands| matches!(stands, Stands::Asked { silent_at } if *silent_at <= now);
        for number in of(&is_silent, &self.waiting) {
            self.not_known(number);
        }
        let is_due = |stands: &Stands| matches!(stands, Stands::Again { at } if *at <= now);
        for number in of(&is_due, &self.waiting) {
            self.try_here(number);
        }
        // Each is looked at once: with no room it is behind the others again.
        for _ in 0..self.queued.len() {
            if self.asked >= ASKED_MAX || self.asked_bytes >= ASKED_BYTES_MAX {
                break;
            }
            let Some(number) = self.queued.pop_front() else {
                break;
            };
            match self.waiting.get(&number).map(|waiting| waiting.until > now) {
                Some(true) => self.try_here(number),
                Some(false) => self.try_again(
                    number,
                    "too many requests wait for the node that leads this space",
                ),
                None => {}
            }
        }
    }

    /// Looks for streams whose time may be over, where their spaces are led. A look costs nobody else anything.
    fn look_for_due(&mut self) {
        if self.now < self.sweep_at || self.stopping {
            return;
        }
        self.sweep_at = self.now + SWEEP_EVERY;
        let Some(wall_ms) = self.host.wall_ms() else {
            return;
        };
        let led = self.host.groups().filter(|group| group.is_leading());
        let led: Vec<String> = led.map(|group| group.name().to_owned()).collect();
        for space in led {
            let tell = self.tell.clone();
            let machine = space.clone();
            let look = Look::new(move |view| {
                let due = view.map(|view| streams::due(&mut OfView(view), wall_ms));
                if matches!(due, Ok(Ok(true))) {
                    _ = tell.send(Came::Due { space });
                }
            });
            let what = What::Look { look, stale: true };
            self.host.ask(self.now, Ask { machine, what });
        }
    }

    /// ‡ A sweep that was too much is not begun again as it was: fewer streams go at a time, down to one.
    fn on_swept(&mut self, space: String, asked: u32, outcome: &Outcome) {
        match outcome {
            Outcome::Refused(_) if asked > 1 => _ = self.swept.insert(space, asked / 4 + 1),
            Outcome::Chosen(answer) => {
                self.swept.remove(&space);
                let swept = match Answer::decode(answer) {
                    Some(Answer::Swept { streams }) => streams,
                    _ => 0,
                };
                // There may be more.
                if swept >= asked {
                    self.sweep_at = self.now;
                }
            }
            _ => {}
        }
    }

    fn sweep(&mut self, machine: String) {
        let asked = self.swept.get(&machine).copied().unwrap_or(SWEPT_AT_A_TIME);
        let request = Request::Sweep { streams_max: asked };
        let tell = self.tell.clone();
        let space = machine.clone();
        let replier = Replier::new(move |outcome| {
            let came = Came::Swept {
                space,
                asked,
                outcome,
            };
            _ = tell.send(came);
        });
        let what = What::Call {
            command: Command::Plain(request.encode()),
            replier,
            order: None,
        };
        self.host.ask(self.now, Ask { machine, what });
    }
}

impl Machine for Spaces {
    fn handle(&mut self, now: Time, completion: Completion) {
        self.now = now;
        match completion {
            Completion::Delivered { from, letter } => match letter.open::<Submit>() {
                Ok(submit) => self.submit(submit),
                Err(letter) => match letter.open::<See>() {
                    Ok(see) => self.see(see),
                    Err(letter) => self
                        .host
                        .handle(now, Completion::Delivered { from, letter }),
                },
            },
            Completion::StopRequested => {
                self.stopping = true;
                self.host.handle(now, Completion::StopRequested);
            }
            other => self.host.handle(now, other),
        }
    }

    fn on_time(&mut self, now: Time) {
        self.now = now;
        self.look_for_due();
        while let Some(word) = self.host.take_word() {
            self.on_word(word);
        }
        // What the host answers at once may be asked for elsewhere, or again.
        loop {
            self.on_deadlines();
            self.host.on_time(now);
            if !self.take_came() {
                break;
            }
        }
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.host.poll_op()
    }

    fn deadline(&self) -> Option<Time> {
        let own = self
            .waiting
            .values()
            .filter_map(|waiting| match waiting.stands {
                Stands::Asked { silent_at } => Some(silent_at),
                Stands::Again { at } => Some(at),
                Stands::Here | Stands::Queued => None,
            });
        let all = own.chain(self.host.deadline());
        all.chain([self.sweep_at]).min()
    }

    fn is_finished(&self) -> bool {
        self.stopping && self.host.is_finished()
    }
}
