//! One log, told as stories: `crates/replica/testdata`. Whole nodes play them in the simulator, since a
//! log's connections are greeted by its node and its files are found by it; only what one log says is
//! told: its lines to clients, its frames, and its records, when they are given to the disk and when they are durable.
//!
//! | command | |
//! |---|---|
//! | `nodes SEED` | three nodes that vote and are whole; the seed says which of them leads |
//! | `call NAME NODE LINE` | somebody connects to this node, or to the `leader`, and says this line |
//! | `say NAME BYTES`, `end NAME` | sends so much; half-closes |
//! | `until NAME TEXT` | runs until this one has heard a line that begins so |
//! | `heard NAME BYTES` | runs until this one has heard so many bytes |
//! | `seen TEXT` | runs until a line that begins so is told |
//! | `crash NODE`, `restart NODE`, `isolate NODE`, `heal` | |
//! | `pass MS`, `whole` | so much time passes; until all that run hold the same |
//! | `look` | draws what each node holds of the log |
//!
//! `REWRITE=1 cargo test -p sim --test scenarios stories` writes what came of each command anew.

mod heard;

#[path = "../../../../paxos/tests/all/stories/text.rs"]
mod text;
#[path = "../../../../paxos/tests/all/stories/words.rs"]
mod words;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use crate::caller::Caller;
use crate::stage::{LOG, MS, Stage};

#[test]
fn stories_of_one_log_are_told_as_they_happen() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    text::hold::<Player>(&here.join("../replica/testdata"), 3);
}

#[derive(Default)]
struct Player {
    stage: Option<Stage>,
    callers: BTreeMap<String, Talk>,
    lines: Rc<RefCell<Vec<String>>>,
}

/// A client of the story.
struct Talk {
    caller: Caller,
    reads: bool,
    /// Bytes of what it heard that were told already.
    told: usize,
    told_end: bool,
}

impl text::Player for Player {
    fn perform(&mut self, command: &str) -> Result<Vec<String>, String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let word = |at: usize| words.get(at).copied().ok_or("a word is missing");
        let number = |at: usize| word(at)?.parse::<u64>().map_err(|_| "a number is missing");
        if word(0)? == "nodes" {
            let mut stage = Stage::three(number(1)?);
            heard::listen(&mut stage, &self.lines);
            self.stage = Some(stage);
            return Ok(Vec::new());
        }
        let stage = self.stage.as_mut().ok_or("nodes come first")?;
        match word(0)? {
            "call" => {
                let node = node(stage, word(2)?)?;
                let line = words.get(3..).unwrap_or_default().join(" ");
                let talk = Talk {
                    caller: stage.call(node, &line),
                    reads: line.starts_with("read"),
                    told: 0,
                    told_end: false,
                };
                self.callers.insert(word(1)?.to_owned(), talk);
            }
            "say" => {
                let (talk, count) = (talk(&mut self.callers, word(1)?)?, number(2)?);
                talk.caller.say(&mut stage.world, count);
            }
            "end" => talk(&mut self.callers, word(1)?)?
                .caller
                .half_close(&mut stage.world),
            "until" => {
                let begins = words.get(2..).unwrap_or_default().join(" ");
                self.until(word(1)?, |talk| {
                    let text = String::from_utf8_lossy(&talk.caller.heard()).into_owned();
                    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
                    whole.lines().any(|line| line.starts_with(&begins))
                })?;
            }
            "heard" => {
                let count = number(2)? as usize;
                self.until(word(1)?, |talk| talk.caller.heard().len() >= count)?;
            }
            "seen" => {
                let (begins, lines) = (words[1..].join(" "), self.lines.clone());
                self.run(move |_| {
                    let lines = lines.borrow();
                    let last = lines.last().map(|line| line.replace("  ", " "));
                    last.is_some_and(|line| line.starts_with(&begins))
                })?;
            }
            "crash" => stage.crash(node(stage, word(1)?)?),
            "restart" => stage.restart(node(stage, word(1)?)?),
            "isolate" => stage.isolate(node(stage, word(1)?)?),
            "heal" => stage.world.heal_all(),
            "pass" => {
                let time = number(1)? as u32;
                let until = stage.world.now() + time * MS;
                self.run(move |stage| stage.world.now() >= until)?;
            }
            "whole" => {
                let up = (0..3).filter(|index| stage.look().node(*index).is_some());
                let count = up.count();
                self.run(move |stage| stage.look().is_whole(count))?;
            }
            "look" => return Ok(heard::drawing(stage)),
            _ => return Err(String::from("there is no such command")),
        }
        self.hear();
        Ok(std::mem::take(&mut *self.lines.borrow_mut()))
    }
}

/// Steps of one command: minutes of the world.
const STEPS_MAX: u64 = 2_000_000;

impl Player {
    fn until(&mut self, name: &str, reached: impl Fn(&Talk) -> bool) -> Result<(), String> {
        for _ in 0..STEPS_MAX {
            if reached(talk(&mut self.callers, name)?) {
                return Ok(());
            }
            self.step();
        }
        Err(String::from("waited in vain"))
    }

    fn run(&mut self, reached: impl Fn(&Stage) -> bool) -> Result<(), String> {
        for _ in 0..STEPS_MAX {
            if self.stage.as_ref().is_some_and(&reached) {
                return Ok(());
            }
            self.step();
        }
        Err(String::from("waited in vain"))
    }

    fn step(&mut self) {
        if let Some(stage) = &mut self.stage {
            stage.world.step();
        }
        self.hear();
    }

    /// Takes what clients heard since.
    fn hear(&mut self) {
        let mut lines = self.lines.borrow_mut();
        for (name, talk) in &mut self.callers {
            let heard = talk.caller.heard();
            let new = &heard[talk.told..];
            if talk.reads && !new.is_empty() && !new.starts_with(b"error ") {
                lines.push(format!("{name} reads {} bytes", new.len()));
                talk.told = heard.len();
            } else if new.ends_with(b"\n") {
                let text = String::from_utf8_lossy(new);
                lines.extend(text.lines().map(|line| format!("{name} hears: {line}")));
                talk.told = heard.len();
            }
            if talk.caller.is_over() && !std::mem::replace(&mut talk.told_end, true) {
                lines.push(format!("{name}'s connection ends"));
            }
        }
    }
}

fn talk<'a>(callers: &'a mut BTreeMap<String, Talk>, name: &str) -> Result<&'a mut Talk, String> {
    callers
        .get_mut(name)
        .ok_or(format!("nobody is called {name}"))
}

/// Nodes are counted from 1.
fn node(stage: &Stage, word: &str) -> Result<usize, String> {
    if word == "leader" {
        return stage.look().leader().ok_or(format!("nobody leads {LOG}"));
    }
    match word.parse::<usize>() {
        Ok(node @ 1..=3) => Ok(node - 1),
        _ => Err(format!("there is no node {word}")),
    }
}
