//! Slots on their way: what each group that is led here has, what it is to have, and what is done about it.
//!
//! ```text
//!  log 0: wanted ─▶ the leader of the group that is to have them asks the one that has them (incoming)
//!                   the leader of the group that had them asks whether they are owned, and forgets them (outgoing)
//!  log 0: served ◀─ the leader of the group that has them says so
//! ```
//!
//! All of it goes by what stands in the groups' own logs, so any leader goes on where another was: the map says what is wanted, and whoever knows an old
//! one asks for what is refused. ‡ Nobody acts on another's word alone: a source freezes for whom its own map names, and forgets what it froze once the other's
//! chosen state says that it is owned.

mod asked;
mod incoming;
mod outgoing;
mod standing;
pub mod words;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use ::slots::Map;
use formats::LogId;
use formats::frame::ServedPart;
use host::{Ask, Command, Host, Outcome, Replier, What, Word as HostWord};
use letters::Wish;
use ops::Time;
use paxos::{NodeId, StreamName};

use crate::arrived::Arrived;
use crate::order;
use incoming::In;
use outgoing::Out;
use standing::Standing;
use words::{Held, Piece, Span, Step, Told, Word, decode, encode};

/// A group is looked at as often, though nothing came.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What it has is read again as often.
const STAND_EVERY: Duration = Duration::from_secs(10);
/// The directory is told again after so long.
const SERVES_EVERY: Duration = Duration::from_millis(200);
/// So many parts of the map at a time.
const NEWS_MAX: usize = 16;
/// A question without an answer is asked again after so long.
const PATIENCE: Duration = Duration::from_secs(1);
/// What was refused for now is tried again after so long.
const AGAIN_AFTER: Duration = Duration::from_millis(30);

/// For whom a step is taken.
#[derive(Clone, Debug)]
enum Whose {
    /// The group itself reads what it has: to know what to do, or to tell the directory.
    Stand,
    News,
    /// It keeps slots.
    Own(Box<Step>),
    /// The piece that begins with this slot, and the number of its question, or step. ‡ An answer to an earlier one is none to this.
    In(u16, u64),
    Out(u16, u64),
    /// Another group asked.
    Asked {
        by: NodeId,
        request: u64,
        step: Box<Step>,
    },
}

/// The outcome of a step of a group that was led here.
struct Came {
    log: u32,
    reign: StreamName,
    whose: Whose,
    outcome: Outcome,
}

/// A question to another group.
struct Asked {
    log: u32,
    whose: Whose,
    at: Time,
}

/// A group that is led here.
struct Led {
    name: String,
    reign: StreamName,
    standing: Standing,
    /// By the first slot of each piece.
    incoming: BTreeMap<u16, In>,
    outgoing: BTreeMap<u16, Out>,
    /// Keep is under way, or what it has is being read.
    is_busy: bool,
    is_standing: bool,
    stand_at: Time,
    serves_at: Time,
    look_at: Time,
    /// The group that slots come from serves clients, as far as it has said.
    is_source_loaded: bool,
    /// Beside clients nothing is begun before that.
    rests_until: Time,
    map: Arc<Map>,
}

/// A move that is under way, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    pub first: u16,
    pub last: u16,
    pub from: u32,
    pub to: u32,
    pub bytes: u64,
}

pub struct Moving {
    led: BTreeMap<u32, Led>,
    asked: BTreeMap<u64, Asked>,
    requests: u64,
    arrived: Arc<Arrived>,
    tell: Sender<Came>,
    told: Receiver<Came>,
    /// The bytes of rows that came here, and the slots that are owned since: for figures.
    pub taken_bytes: u64,
    pub owned_slots: u64,
}

/// The things that a round does.
struct Round<'a> {
    now: Time,
    host: &'a mut Host,
    /// Clients are served meanwhile.
    is_loaded: bool,
    acted: bool,
}

impl Moving {
    /// `seed`: nobody else's questions have the same numbers.
    pub fn new(seed: u64, arrived: Arc<Arrived>) -> Moving {
        let (tell, told) = mpsc::channel();
        Moving {
            led: BTreeMap::new(),
            asked: BTreeMap::new(),
            requests: seed,
            arrived,
            tell,
            told,
            taken_bytes: 0,
            owned_slots: 0,
        }
    }

    /// True if a group is to take a step.
    pub fn settle(&mut self, now: Time, host: &mut Host, is_loaded: bool) -> bool {
        self.look_who_is_led(now, host);
        let mut round = Round {
            now,
            host,
            is_loaded,
            acted: false,
        };
        while let Ok(came) = self.told.try_recv() {
            self.on_came(came, &mut round);
        }
        while let Some(word) = round.host.take_word() {
            self.on_word(word, &mut round);
        }
        let late = self.asked.iter();
        let late = late.filter(|(_, asked)| now >= asked.at + PATIENCE);
        let late: Vec<u64> = late.map(|(request, _)| *request).collect();
        for request in late {
            if let Some(asked) = self.asked.remove(&request) {
                self.on_told(asked, Told::NotNow, &mut round);
            }
        }
        for log in self.led.keys().copied().collect::<Vec<_>>() {
            self.look(log, &mut round);
        }
        round.acted
    }

    fn look_who_is_led(&mut self, now: Time, host: &Host) {
        let reigns = host.groups().filter(|group| group.is_leading());
        let reigns =
            reigns.filter_map(|group| Some((group.log().0, (group.name(), group.reign()?))));
        let reigns: BTreeMap<u32, (&str, StreamName)> = reigns.collect();
        self.led.retain(|log, led| {
            reigns
                .get(log)
                .is_some_and(|(_, reign)| *reign == led.reign)
        });
        for (log, (name, reign)) in reigns {
            self.led.entry(log).or_insert_with(|| Led {
                name: name.to_owned(),
                reign,
                standing: Standing::default(),
                incoming: BTreeMap::new(),
                outgoing: BTreeMap::new(),
                is_busy: false,
                is_standing: false,
                stand_at: now,
                serves_at: now,
                look_at: now,
                is_source_loaded: true,
                rests_until: Time::ZERO,
                map: Arc::default(),
            });
        }
    }

    /// Has a group that is led here take a step.
    fn step(
        &self,
        log: u32,
        whose: Whose,
        step: &Step,
        not_before: Option<u64>,
        round: &mut Round<'_>,
    ) {
        let Some(led) = self.led.get(&log) else {
            return;
        };
        let (tell, reign) = (self.tell.clone(), led.reign);
        let replier = Replier::new(move |outcome| {
            drop(tell.send(Came {
                log,
                reign,
                whose,
                outcome,
            }));
        });
        let bytes = order::moves(step);
        let command = match not_before {
            Some(time_ms) => Command::NotBefore {
                time_ms,
                command: bytes,
            },
            None => Command::Plain(bytes),
        };
        let what = What::Call {
            command,
            replier,
            order: None,
        };
        let machine = led.name.clone();
        round.acted = true;
        round.host.ask(round.now, Ask { machine, what });
    }

    /// Asks another group to take a step.
    fn ask(&mut self, log: u32, group: u32, whose: Whose, step: Step, round: &mut Round<'_>) {
        let number = self.next_number();
        let asked = Asked {
            log,
            whose,
            at: round.now,
        };
        self.asked.insert(number, asked);
        let bytes = encode(&Word::Take(step));
        round.host.ask_group(LogId(group), number, bytes);
    }

    fn next_number(&mut self) -> u64 {
        self.requests = self.requests.wrapping_add(1);
        self.requests
    }

    fn on_came(&mut self, came: Came, round: &mut Round<'_>) {
        let Came {
            log,
            reign,
            whose,
            outcome,
        } = came;
        let told = match &outcome {
            Outcome::Chosen(bytes) => decode::<Told>(bytes),
            _ => None,
        };
        if let Whose::Asked { by, request, step } = whose {
            return self.on_asked_done(log, (by, request), *step, told, round);
        }
        let Some(led) = self.led.get_mut(&log).filter(|led| led.reign == reign) else {
            return;
        };
        let Some(told) = told else {
            // What became of it stands in the log.
            tracing::debug!(
                log,
                ?outcome,
                "a step of a group was not taken, or nobody knows"
            );
            led.read_again(round.now + AGAIN_AFTER);
            return;
        };
        match whose {
            Whose::Stand if led.is_standing => led.on_stand(told),
            Whose::Stand => {}
            Whose::News => tell_served(log, &told, round),
            Whose::Own(step) if told == Told::Done => {
                led.is_busy = led.is_standing;
                led.on_own(*step);
            }
            Whose::Own(_) => led.read_again(round.now),
            Whose::In(first, number) => self.on_own_step(log, (first, number), told, round),
            Whose::Out(first, number) => {
                let gone = led.on_gone(first, number);
                gone.into_iter()
                    .for_each(|piece| self.arrived.forget(piece));
            }
            Whose::Asked { .. } => {}
        }
        if let Some(led) = self.led.get_mut(&log) {
            led.look_at = round.now;
        }
    }

    fn on_word(&mut self, word: HostWord, round: &mut Round<'_>) {
        match word {
            HostWord::Asked {
                log,
                by,
                request,
                bytes,
            } => match decode::<Word>(&bytes) {
                Some(Word::Take(step)) => self.on_asked(log.0, (by, request), step, round),
                Some(Word::Look) => {
                    if let Some(led) = self.led.get_mut(&log.0) {
                        led.outgoing.values_mut().for_each(Out::look_now);
                        led.look_at = round.now;
                    }
                }
                None => {}
            },
            // Nobody was asked: the question is asked again in its time.
            HostWord::Told { bytes, .. } if bytes.is_empty() => {}
            HostWord::Told { request, bytes } => {
                let told = decode::<Told>(&bytes).unwrap_or(Told::NotNow);
                if let Some(asked) = self.asked.remove(&request) {
                    self.on_told(asked, told, round);
                }
            }
        }
    }

    /// Another group's answer, or none in time.
    fn on_told(&mut self, asked: Asked, told: Told, round: &mut Round<'_>) {
        let Asked { log, whose, .. } = asked;
        match whose {
            Whose::In(first, number) => self.on_source_told(log, (first, number), told, round),
            Whose::Out(first, number) => {
                self.on_target_told(log, (first, number), &told, round);
            }
            _ => {}
        }
    }

    fn look(&mut self, log: u32, round: &mut Round<'_>) {
        let now = round.now;
        let map = round.host.map().clone();
        let Some(led) = self.led.get_mut(&log) else {
            return;
        };
        if !Arc::ptr_eq(&led.map, &map) {
            led.map = map.clone();
            led.look_at = now;
        }
        if now < led.deadline() {
            return;
        }
        led.look_at = now + LOOK_EVERY;
        if now >= led.stand_at && led.is_quiet() {
            led.stand_at = now + STAND_EVERY;
            led.is_busy = true;
            led.is_standing = true;
            let span = Span::ALL;
            return self.step(log, Whose::Stand, &Step::Stand { span }, None, round);
        }
        if !led.acts() {
            return;
        }
        led.standing.work_out(log, &map);
        if !led.is_busy
            && let Some(step) = led.standing.take_own_step()
        {
            led.is_busy = true;
            let whose = Whose::Own(Box::new(step.clone()));
            self.step(log, whose, &step, None, round);
        }
        let Some(led) = self.led.get_mut(&log) else {
            return;
        };
        let parts = led.standing.news();
        if !parts.is_empty() && now >= led.serves_at {
            led.serves_at = now + SERVES_EVERY;
            // ‡ The directory is told what the log says, and not what was thought here.
            let spans: Vec<Span> = parts.iter().map(|(span, _)| *span).take(NEWS_MAX).collect();
            for span in spans {
                self.step(log, Whose::News, &Step::Stand { span }, None, round);
            }
        }
        self.look_out(log, round);
        self.look_in(log, &map, round);
    }

    /// The moves to groups that are led here.
    pub fn progress(&self) -> impl Iterator<Item = Progress> {
        let led = self.led.iter();
        led.flat_map(|(log, led)| {
            led.incoming.values().map(|incoming| Progress {
                first: incoming.piece.span.first,
                last: incoming.piece.span.last,
                from: incoming.from,
                to: *log,
                bytes: incoming.bytes(),
            })
        })
    }

    /// The slots that groups which are led here are to have, and do not.
    pub fn slots_left(&self) -> u64 {
        let left = self.led.values().map(|led| led.standing.left());
        left.sum()
    }

    pub fn deadline(&self) -> Option<Time> {
        let looks = self.led.values().map(Led::deadline);
        let late = self.asked.values().map(|asked| asked.at + PATIENCE);
        looks.chain(late).min()
    }
}

/// Tells the directory which slots the group serves, by what its log says.
fn tell_served(log: u32, told: &Told, round: &mut Round<'_>) {
    let Told::Stand { runs, .. } = told else {
        return;
    };
    let map = round.host.map().clone();
    let mut standing = Standing::default();
    standing.learn(runs);
    standing.work_out(log, &map);
    let parts = standing.news().iter().map(|(span, since)| ServedPart {
        first: span.first,
        last: span.last,
        since: *since,
    });
    let parts: Vec<ServedPart> = parts.collect();
    if !parts.is_empty() {
        round.host.wish(LogId(log), Wish::Serves { parts });
    }
}

impl Led {
    /// Whether nothing is under way of which the outcome would have to be known.
    fn is_quiet(&self) -> bool {
        !self.is_busy && self.incoming.values().all(In::is_idle)
    }

    /// Whether anything is done about what is wanted, and what is on its way.
    fn acts(&self) -> bool {
        !self.is_standing && self.standing.is_known() && self.map.version() > 0
    }

    fn on_stand(&mut self, told: Told) {
        self.is_busy = false;
        self.is_standing = false;
        let Told::Stand { runs, coming } = told else {
            return;
        };
        self.standing.learn(&runs);
        let known = coming.into_iter();
        let known = known.map(|copy| (copy.piece.span.first, In::of(copy)));
        self.incoming = known.collect();
        let outgoing = std::mem::take(&mut self.outgoing);
        let frozen = runs.iter().filter_map(Out::of);
        self.outgoing = frozen.collect();
        for (first, out) in outgoing {
            if let Some(same) = self.outgoing.get_mut(&first) {
                *same = out;
            }
        }
    }

    /// What it has is to be read again before anything else is done.
    fn read_again(&mut self, at: Time) {
        self.is_busy = false;
        self.is_standing = false;
        self.standing = Standing::default();
        self.incoming.clear();
        self.stand_at = at;
        self.look_at = at;
    }

    fn on_own(&mut self, step: Step) {
        if let Step::Keep { piece, .. } = step {
            self.standing.set(piece.span, Held::Owned, Some(piece.wish));
        }
    }

    /// The piece of which the rows are gone.
    fn on_gone(&mut self, first: u16, number: u64) -> Option<Piece> {
        let is_its = |out: &mut Out| out.awaits(number);
        let its = self.outgoing.get_mut(&first).is_some_and(is_its);
        let gone = its.then(|| self.outgoing.remove(&first)).flatten()?;
        self.standing.set(gone.piece.span, Held::Gone, None);
        Some(gone.piece)
    }

    fn deadline(&self) -> Time {
        if !self.acts() {
            return self.look_at;
        }
        let incoming = self.incoming.values();
        let incoming = incoming.filter_map(|incoming| incoming.deadline(self.rests_until));
        let outgoing = self.outgoing.values().filter_map(Out::deadline);
        incoming
            .chain(outgoing)
            .chain([self.look_at])
            .min()
            .unwrap_or(self.look_at)
    }
}
