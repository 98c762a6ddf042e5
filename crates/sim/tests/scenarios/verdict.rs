//! Holds what clients of keys were told to the order that the log chose.
//!
//! ```text
//!  frame 1      frame 2 │ gap │ frame 3            rows of one slot after each frame, by the log alone
//!               ▲       └ SET, INCR, GET … ┘ ▲     commands in the gap, in some order, come to exactly those of the next frame
//!        chosen when asked            chosen when answered
//! ```
//!
//! A frame does not say which commands wrote it, nor in which order. So an order is searched for in which, slot by slot,
//!
//! - each command that was answered is done once, behind the frames that were chosen when it was asked, in a frame that was chosen when
//!   its reply came, and comes to just that reply;
//! - one that was refused with `MOVED` or `CLUSTERDOWN` is not done, and one without a reply once or not at all;
//! - commands of one line are done in their order;
//! - what a transaction watched is as its client saw it;
//! - the rows after each frame are what the log says, and its time is that of the frame: a key is expired for everybody, or for nobody.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use host::Frame;
use ops::Time;
use resp::Value;
use shelf::Write;

use crate::model::{Map, run, work_off};
use crate::patrons::{Asked, Fate};

/// Rows of slots, and the time at which somebody saw a key expired, as `door::slots` keeps them.
const ROWS: &[u8] = b"ms";
const TIME: &[u8] = b"mt";

/// So many steps are enough for what is right.
const STEPS_MAX: u64 = 30_000;

const READS: [&str; 14] = [
    "GET",
    "MGET",
    "HGET",
    "HGETALL",
    "LRANGE",
    "SMEMBERS",
    "ZRANGE",
    "EXISTS",
    "PEXPIRETIME",
    "TYPE",
    "STRLEN",
    "LLEN",
    "SCARD",
    "ZCARD",
];

/// One slot, frame by frame.
struct Story {
    slot: u16,
    /// By frames: the time, the rows if it wrote any of the slot's, whether somebody's clock is noted.
    frames: Vec<(u64, Option<Rc<Map>>, bool)>,
    /// By token: the first frame that has it.
    tokens: BTreeMap<Vec<u8>, usize>,
}

impl Story {
    fn of(slot: u16, frames: &[Frame]) -> Story {
        let prefix = [ROWS, &slot.to_be_bytes()].concat();
        let mut rows = Map::new();
        let mut tokens = BTreeMap::new();
        let frames = frames.iter().enumerate().map(|(index, frame)| {
            let (mut is_touched, mut notes_time) = (false, false);
            for write in &frame.writes {
                match write {
                    Write::Put { key, value } if key.starts_with(&prefix) => {
                        is_touched = true;
                        for token in tokens_of(key).into_iter().chain(tokens_of(value)) {
                            tokens.entry(token).or_insert(index);
                        }
                        rows.insert(key[ROWS.len()..].to_vec(), value.clone());
                    }
                    Write::Put { key, .. } => notes_time |= key == TIME,
                    Write::Delete { key } if key.starts_with(&prefix) => {
                        is_touched = true;
                        rows.remove(&key[ROWS.len()..]);
                    }
                    Write::Delete { .. } => {}
                    Write::Forget { prefix: gone } => {
                        if gone.starts_with(&prefix) {
                            is_touched = true;
                            rows.retain(|key, _| !key.starts_with(&gone[ROWS.len()..]));
                        }
                    }
                }
            }
            let after = is_touched.then(|| Rc::new(rows.clone()));
            (frame.time_ms, after, notes_time)
        });
        let frames = frames.collect();
        Story {
            slot,
            frames,
            tokens,
        }
    }
}

/// What only one client writes, as long as he does not ask again.
fn tokens_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut tokens = Vec::new();
    let mut rest = bytes;
    while let Some(end) = rest.iter().position(|byte| *byte == b'>') {
        // Of one that was written over only a part is left.
        if let Some(begin) = rest[..end].iter().rposition(|byte| *byte == b'<') {
            tokens.push(rest[begin..=end].to_vec());
        }
        rest = &rest[end + 1..];
    }
    tokens
}

/// Where a command can have written, by the tokens that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    Anywhere,
    /// Behind so many frames.
    Behind(usize),
    Nowhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Done,
    /// Nobody was told of it, and something behind it on its line is done.
    Passed,
}

/// What is looked at. The first that finds an order is enough.
#[derive(Clone, Copy)]
struct Care {
    /// So many commands of each frame may change what the frame does not.
    strays_max: u32,
    /// A command that says that it did nothing is taken where it first fits.
    is_greedy: bool,
    /// Tokens say where a command wrote, and what nobody was told of is done soon or never.
    has_homes: bool,
}

const CARES: [Care; 5] = [
    Care {
        strays_max: 1,
        is_greedy: true,
        has_homes: true,
    },
    Care {
        strays_max: 2,
        is_greedy: false,
        has_homes: true,
    },
    // Many changes of a frame that leave nothing in it, as after an election.
    Care {
        strays_max: 8,
        is_greedy: true,
        has_homes: true,
    },
    Care {
        strays_max: 1,
        is_greedy: true,
        has_homes: false,
    },
    Care {
        strays_max: 12,
        is_greedy: false,
        has_homes: false,
    },
];

struct Search<'a> {
    story: Story,
    asked: Vec<&'a Asked>,
    /// By command: those before it on its line.
    before: Vec<Vec<usize>>,
    homes: Vec<Home>,
    /// By command: whether it was done for certain.
    is_done: Vec<bool>,
    /// By command: it is done behind so many frames at least, and in so many at most. Without what tokens say, and with it.
    windows: [Vec<(u64, u64)>; 2],
    states: Vec<State>,
    seen: BTreeSet<u64>,
    care: Care,
    steps: u64,
    /// There was more than was looked at, with this care. The last care looks at most.
    is_cut: bool,
    furthest: (usize, String),
    /// What was done when it came so far first.
    there: Vec<State>,
}

/// Whether an order was found. What nobody was told of may have been done in so many places that not all are looked at.
///
/// Errors: a sentence, if no order of the commands on this slot is what clients were told and the log holds.
pub fn judge(slot: u16, frames: &[Frame], all: &[Asked]) -> Result<bool, String> {
    let is_of_it = |asked: &&Asked| {
        let is_null = |value: &Value| matches!(value, Value::Null | Value::NullArray);
        let is_empty = match &asked.fate {
            Fate::Waits => panic!("the account is not closed"),
            Fate::Never => true,
            // What it watched has changed: it did nothing.
            Fate::Reply(value) => {
                asked.is_transaction && is_null(value) && !asked.watched.is_empty()
            }
            Fate::Unknown => asked.commands.iter().all(|words| is_read(words)),
        };
        asked.slot == slot && !is_empty
    };
    let asked: Vec<&Asked> = all.iter().filter(is_of_it).collect();
    let before = (0..asked.len()).map(|at| {
        let earlier = (0..at).filter(|other| asked[*other].line == asked[at].line);
        earlier.collect()
    });
    let before = before.collect();
    let story = Story::of(slot, frames);
    let homes = homes_of(&story, &asked);
    let told = |asked: &&Asked| matches!(asked.fate, Fate::Reply(_));
    let is_told: Vec<bool> = asked.iter().map(told).collect();
    let is_behind = |home: &Home| matches!(home, Home::Behind(_));
    let is_done: Vec<bool> = is_told
        .iter()
        .zip(&homes)
        .map(|(told, home)| *told || is_behind(home))
        .collect();
    let anywhere = vec![Home::Anywhere; asked.len()];
    let windows = [
        windows_of(&asked, &anywhere, &is_told, false),
        windows_of(&asked, &homes, &is_done, true),
    ];
    let mut search = Search {
        homes,
        is_done,
        windows,
        story,
        states: vec![State::Open; asked.len()],
        asked,
        before,
        seen: BTreeSet::new(),
        care: CARES[0],
        steps: 0,
        is_cut: false,
        furthest: (0, String::new()),
        there: Vec::new(),
    };
    // What is likely first.
    let is_found = CARES.into_iter().any(|care| {
        (search.care, search.steps, search.is_cut) = (care, 0, false);
        search.seen.clear();
        let is_found = search.go(0, &Rc::default(), None);
        search.is_cut |= search.steps > STEPS_MAX;
        is_found
    });
    match is_found {
        true => Ok(true),
        false if search.is_cut => Ok(false),
        false => Err(format!(
            "slot {slot}: no order of commands is what clients were told, from frame {} of {} on ({} steps): {}\n{}",
            search.furthest.0 + 1,
            search.story.frames.len(),
            search.steps,
            search.furthest.1,
            search.picture()
        )),
    }
}

fn homes_of(story: &Story, asked: &[&Asked]) -> Vec<Home> {
    let tokens = |asked: &&Asked| -> BTreeSet<Vec<u8>> {
        let words = asked.commands.iter().flatten();
        words.flat_map(|word| tokens_of(word)).collect()
    };
    let mut count: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for token in asked.iter().flat_map(tokens) {
        *count.entry(token).or_default() += 1;
    }
    let home = |asked: &&Asked| {
        let tokens = tokens(asked);
        let is_told = matches!(asked.fate, Fate::Reply(_));
        let there = tokens.iter().find_map(|token| story.tokens.get(token));
        match there {
            None if tokens.is_empty() || is_told => Home::Anywhere,
            None => Home::Nowhere,
            Some(_) if tokens.iter().any(|token| count[token] > 1) => Home::Anywhere,
            Some(home) => Home::Behind(*home),
        }
    };
    asked.iter().map(home).collect()
}

fn asked_until(asked: &Asked) -> u64 {
    match asked.fate {
        Fate::Reply(_) => asked.answered_at,
        _ => u64::MAX,
    }
}

/// What is done before or behind another command of its line bounds it, too.
fn windows_of(
    asked: &[&Asked],
    homes: &[Home],
    is_done: &[bool],
    is_gone_soon: bool,
) -> Vec<(u64, u64)> {
    let window = |(asked, home): (&&Asked, &Home)| {
        let until = match asked.parted_at.filter(|_| is_gone_soon) {
            Some(parted_at) => parted_at,
            None => asked_until(asked),
        };
        match home {
            Home::Behind(home) => (
                asked.asked_at.max(*home as u64),
                asked_until(asked).min(*home as u64 + 1),
            ),
            _ => (asked.asked_at, until),
        }
    };
    let mut windows: Vec<(u64, u64)> = asked.iter().zip(homes).map(window).collect();
    let mut from: BTreeMap<u64, u64> = BTreeMap::new();
    for at in 0..asked.len() {
        let least = from.entry(asked[at].line).or_default();
        windows[at].0 = windows[at].0.max(*least);
        if is_done[at] {
            *least = windows[at].0;
        }
    }
    let mut until: BTreeMap<u64, u64> = BTreeMap::new();
    for at in (0..asked.len()).rev() {
        let most = until.entry(asked[at].line).or_insert(u64::MAX);
        windows[at].1 = windows[at].1.min(*most);
        if is_done[at] {
            *most = windows[at].1;
        }
    }
    windows
}

/// Whether all that a command changed was to be changed.
fn is_toward(before: &Map, after: &Map, wanted: Option<&Map>) -> bool {
    let Some(wanted) = wanted else { return false };
    let mut keys = before.keys().chain(after.keys());
    keys.all(|key| before.get(key) == after.get(key) || before.get(key) != wanted.get(key))
}

/// Whether the reply is one that comes with no write, whatever stands there.
fn says_nothing(asked: &Asked) -> bool {
    let [words] = &asked.commands[..] else {
        return false;
    };
    let name = std::str::from_utf8(&words[0]).unwrap_or_default();
    let has = |option: &[u8]| words.iter().any(|word| word == option);
    !asked.is_transaction
        && match &asked.fate {
            Fate::Reply(Value::Error(_)) => true,
            Fate::Reply(Value::Null) => name != "GETSET" && !has(b"GET"),
            Fate::Reply(Value::Integer(0)) => {
                ["HDEL", "SREM", "DEL", "PERSIST", "SMOVE", "PEXPIRE"].contains(&name)
            }
            Fate::Reply(Value::Array(items)) => items.is_empty(),
            _ => false,
        }
}

/// Errors: a sentence, if a command of one group was done before one of another that its line asked for earlier. `groups`: their frames, and
/// when each was first known to be chosen.
pub fn judge_lines(groups: &[(Vec<Frame>, Vec<Time>)], all: &[Asked]) -> Result<(), String> {
    let tokens = |asked: &Asked| -> BTreeSet<Vec<u8>> {
        let words = asked.commands.iter().flatten();
        words.flat_map(|word| tokens_of(word)).collect()
    };
    let mut count: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    for token in all.iter().flat_map(tokens) {
        *count.entry(token).or_default() += 1;
    }
    let mut times: BTreeMap<Vec<u8>, (usize, Time)> = BTreeMap::new();
    for (group, (frames, at)) in groups.iter().enumerate() {
        for (frame, at) in frames.iter().zip(at) {
            for write in &frame.writes {
                if let Write::Put { key, value } = write {
                    for token in tokens_of(key).into_iter().chain(tokens_of(value)) {
                        times.entry(token).or_insert((group, *at));
                    }
                }
            }
        }
    }
    let mut lines: BTreeMap<u64, Vec<(usize, Time)>> = BTreeMap::new();
    for asked in all
        .iter()
        .filter(|asked| matches!(asked.fate, Fate::Reply(_)))
    {
        let tokens = tokens(asked);
        let line = lines.entry(asked.line).or_default();
        if tokens.iter().all(|token| count[token] == 1)
            && let Some((group, at)) = tokens.iter().find_map(|token| times.get(token))
        {
            if let Some(earlier) = line
                .iter()
                .find(|(other, then)| other != group && then > at)
            {
                return Err(format!(
                    "line {}: group {group} did {asked:?} at {at:?}, and what was asked for before was chosen in group {} at {:?}",
                    asked.line, earlier.0, earlier.1
                ));
            }
            line.push((*group, *at));
        }
    }
    Ok(())
}

fn is_read(words: &[Vec<u8>]) -> bool {
    let name = words.first().map(Vec::as_slice).unwrap_or_default();
    READS.iter().any(|read| read.as_bytes() == name)
}

impl Search<'_> {
    /// Whether the rest can be, after so many frames, with these rows. `strays`: they are not those of a whole frame, and so many
    /// commands of it were of no use to it.
    fn go(&mut self, frames: usize, rows: &Rc<Map>, strays: Option<u32>) -> bool {
        self.steps += 1;
        let wrote = strays.is_some();
        if self.steps > STEPS_MAX || !self.is_new(frames, rows, strays) {
            return false;
        }
        let mut undo = Vec::new();
        self.read(frames, rows, wrote, &mut undo);
        if self.go_on(frames, rows, strays) {
            return true;
        }
        for (at, state) in undo {
            self.states[at] = state;
        }
        false
    }

    fn go_on(&mut self, frames: usize, rows: &Rc<Map>, strays: Option<u32>) -> bool {
        let Some((time_ms, after, _)) = self.story.frames.get(frames).cloned() else {
            let is_open = |at: &usize| self.states[*at] == State::Open && self.is_due(*at);
            let left = (0..self.asked.len()).find(is_open);
            if let Some(left) = left {
                self.note(frames, format!("left is {}", self.told(left)));
            }
            return left.is_none() || self.try_idle(frames, rows, strays);
        };
        if self.is_late(frames) {
            return false;
        }
        match &after {
            None if strays.is_none() => {
                return self.go(frames + 1, rows, None) || self.try_idle(frames, rows, strays);
            }
            None => return false,
            Some(after) => {
                let worked_off = work_off(rows, self.story.slot, time_ms);
                let is_it = after == rows || **after == worked_off;
                if is_it && self.go(frames + 1, after, None) {
                    return true;
                }
                // Keys whose time has passed were taken away first, and commands of the frame came behind that.
                let takes_away = worked_off != **rows;
                let strays = Some(strays.unwrap_or(0));
                if takes_away && self.go(frames, &Rc::new(worked_off), strays) {
                    return true;
                }
            }
        }
        self.try_writes(frames, rows, after.as_deref(), strays)
            || self.try_idle(frames, rows, strays)
    }

    /// Commands that only read, and whose reply is what they read here. None of them is worse off for it.
    fn read(&mut self, frames: usize, rows: &Rc<Map>, wrote: bool, undo: &mut Vec<(usize, State)>) {
        loop {
            let found = (0..self.asked.len()).find(|at| {
                let asked = self.asked[*at];
                (asked.commands.iter().all(|words| is_read(words))
                    || self.care.is_greedy && says_nothing(asked))
                    && self.may_be_next(*at, frames)
                    && self.fits_idle(*at, frames, rows, wrote)
            });
            let Some(at) = found else { return };
            self.take(at, undo);
        }
    }

    /// Commands that might write, and do not here.
    fn try_idle(&mut self, frames: usize, rows: &Rc<Map>, strays: Option<u32>) -> bool {
        for at in 0..self.asked.len() {
            let asked = self.asked[at];
            let reads = asked.commands.iter().all(|words| is_read(words));
            if reads
                || !self.is_told(at)
                || !self.may_be_next(at, frames)
                || !self.fits_idle(at, frames, rows, strays.is_some())
            {
                continue;
            }
            let mut undo = Vec::new();
            self.take(at, &mut undo);
            if self.go(frames, rows, strays) {
                return true;
            }
            for (at, state) in undo {
                self.states[at] = state;
            }
        }
        false
    }

    fn try_writes(
        &mut self,
        frames: usize,
        rows: &Rc<Map>,
        wanted: Option<&Map>,
        strays: Option<u32>,
    ) -> bool {
        let time_ms = self.story.frames[frames].0;
        // Those that were answered before those that may not have been done.
        for is_due in [true, false] {
            for at in 0..self.asked.len() {
                let asked = self.asked[at];
                if self.is_due(at) != is_due
                    || !self.may_be_next(at, frames)
                    || !self.is_home(at, frames)
                {
                    continue;
                }
                if frames as u64 + 1 > self.window(at).1 {
                    continue;
                }
                let came = run(
                    rows,
                    asked.slot,
                    time_ms,
                    asked.protocol,
                    &asked.commands,
                    asked.is_transaction,
                );
                let Some(after) = came.rows else { continue };
                if after == **rows && !self.is_due(at) {
                    continue;
                }
                if !self.is_answer(at, &came.reply) || !self.is_as_watched(at, rows, time_ms) {
                    continue;
                }
                let is_stray = !is_toward(rows, &after, wanted);
                let strays = strays.unwrap_or(0) + u32::from(is_stray);
                if strays > self.care.strays_max {
                    self.is_cut = true;
                    continue;
                }
                let mut undo = Vec::new();
                self.take(at, &mut undo);
                if self.go(frames, &Rc::new(after), Some(strays)) {
                    return true;
                }
                for (at, state) in undo {
                    self.states[at] = state;
                }
            }
        }
        false
    }

    /// Whether a command that writes nothing here comes to its reply.
    fn fits_idle(&self, at: usize, frames: usize, rows: &Map, wrote: bool) -> bool {
        let asked = self.asked[at];
        let next = self.story.frames.get(frames);
        let time_of = |frames: usize| match frames.checked_sub(1) {
            Some(last) => self.story.frames[last].0,
            None => 0,
        };
        // At the time of the last frame, or at that of the next one, if it notes that a key is gone by then.
        let moments = [
            (!wrote).then(|| (frames, time_of(frames), false)),
            next.map(|(time_ms, _, notes)| (frames + 1, *time_ms, *notes)),
        ];
        moments
            .into_iter()
            .flatten()
            .any(|(place, time_ms, notes)| {
                if place as u64 > self.window(at).1 || place == frames + 1 && !wrote && !notes {
                    return false;
                }
                let came = run(
                    rows,
                    asked.slot,
                    time_ms,
                    asked.protocol,
                    &asked.commands,
                    asked.is_transaction,
                );
                !came.wrote
                    && (!came.notes_time || notes)
                    && self.is_answer(at, &came.reply)
                    && self.is_as_watched(at, rows, time_ms)
            })
    }

    /// Whether it was done for certain.
    fn is_due(&self, at: usize) -> bool {
        match self.care.has_homes {
            true => self.is_done[at],
            false => self.is_told(at),
        }
    }

    fn window(&self, at: usize) -> (u64, u64) {
        self.windows[usize::from(self.care.has_homes)][at]
    }

    fn is_told(&self, at: usize) -> bool {
        matches!(self.asked[at].fate, Fate::Reply(_))
    }

    fn is_answer(&self, at: usize, reply: &Value) -> bool {
        match &self.asked[at].fate {
            Fate::Reply(told) => told == reply,
            _ => true,
        }
    }

    fn is_as_watched(&self, at: usize, rows: &Map, time_ms: u64) -> bool {
        let asked = self.asked[at];
        asked.watched.iter().all(|(key, looked)| {
            let get = vec![b"GET".to_vec(), key.clone()];
            let now = run(rows, asked.slot, time_ms, asked.protocol, &[get], false);
            now.reply == *looked
        })
    }

    fn is_home(&self, at: usize, frames: usize) -> bool {
        !self.care.has_homes
            || match self.homes[at] {
                Home::Anywhere => true,
                Home::Behind(home) => home == frames,
                Home::Nowhere => false,
            }
    }

    fn may_be_next(&self, at: usize, frames: usize) -> bool {
        let before = self.before[at].iter();
        let is_free = |other: &usize| self.states[*other] != State::Open || !self.is_due(*other);
        self.states[at] == State::Open
            && self.window(at).0 <= frames as u64
            && before.clone().all(is_free)
    }

    fn take(&mut self, at: usize, undo: &mut Vec<(usize, State)>) {
        for other in self.before[at].clone() {
            if self.states[other] == State::Open {
                undo.push((other, State::Open));
                self.states[other] = State::Passed;
            }
        }
        undo.push((at, State::Open));
        self.states[at] = State::Done;
    }

    /// Whether something that is not done was answered before the next frame was chosen.
    fn is_late(&mut self, frames: usize) -> bool {
        let late = (0..self.asked.len()).find(|at| {
            self.states[*at] == State::Open
                && self.is_due(*at)
                && self.window(*at).1 <= frames as u64
        });
        // It may be done yet in this gap, but not behind the next frame.
        let Some(late) = late else { return false };
        self.note(frames, format!("late is {}", self.told(late)));
        let reads = self.asked[late].commands.iter().all(|words| is_read(words));
        reads || self.window(late).1 < frames as u64
    }

    fn told(&self, at: usize) -> String {
        let asked = self.asked[at];
        let text = |words: &Vec<Vec<u8>>| {
            let words = words.iter().map(|word| {
                String::from_utf8_lossy(word)
                    .chars()
                    .take(40)
                    .collect::<String>()
            });
            words.collect::<Vec<_>>().join(" ")
        };
        let commands: Vec<String> = asked.commands.iter().map(text).collect();
        let fate: String = format!("{:?}", asked.fate).chars().take(300).collect();
        format!(
            "{} on line {}, asked at {}, answered at {}, so done behind {:?}: {fate}",
            commands.join("; "),
            asked.line,
            asked.asked_at,
            asked.answered_at,
            self.windows[1][at]
        )
    }

    /// What the frame behind the furthest one changes, and the commands that might have.
    fn picture(&self) -> String {
        let frames = self.furthest.0;
        let of = |frames: usize| {
            let mut before = self.story.frames.iter().take(frames).rev();
            before
                .find_map(|(_, rows, _)| rows.clone())
                .unwrap_or_default()
        };
        let (before, after) = (of(frames), of(frames + 1));
        let mut lines = Vec::new();
        for key in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
            let shown = |rows: &Map| {
                let value = rows.get(key).map(|value| {
                    let text = String::from_utf8_lossy(value).replace("vv", "");
                    text.chars().take(160).collect::<String>()
                });
                value.unwrap_or_else(|| "absent".to_owned())
            };
            if before.get(key) != after.get(key) {
                let key = String::from_utf8_lossy(&key[14..]).into_owned();
                lines.push(format!(
                    "{key:?}: {:?} becomes {:?}",
                    shown(&before),
                    shown(&after)
                ));
            }
        }
        for (at, state) in self.there.iter().enumerate() {
            if *state == State::Open
                && self.windows[1][at].0 <= frames as u64
                && self.windows[1][at].1 > frames as u64
            {
                lines.push(self.told(at));
            }
        }
        lines.truncate(40);
        lines.join("\n")
    }

    fn note(&mut self, frames: usize, what: String) {
        if frames >= self.furthest.0 {
            self.furthest = (frames, what);
        }
    }

    /// False if nothing came of the same before.
    fn is_new(&mut self, frames: usize, rows: &Map, strays: Option<u32>) -> bool {
        if frames > self.furthest.0 {
            self.furthest = (frames, "nothing makes the next frame".to_owned());
            self.there.clone_from(&self.states);
        }
        let mut hasher = DefaultHasher::new();
        (frames, strays).hash(&mut hasher);
        if strays.is_some() {
            rows.hash(&mut hasher);
        }
        let states = self.states.iter().map(|state| *state as u8);
        states.collect::<Vec<u8>>().hash(&mut hasher);
        self.seen.insert(hasher.finish())
    }
}
