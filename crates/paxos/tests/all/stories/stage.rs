//! The commands of a story, on a world that moves by hand.
//!
//! | command | |
//! |---|---|
//! | `nodes N MEMBER…` | N nodes, of which these are members with one vote each; all hear each other. At first |
//! | `led N MEMBER…` | the same, and node 1 leads, with a stream open, which everybody knows |
//! | `timer N`, `pass MS` | the clock goes to this node's next deadline; so much time passes for all |
//! | `durable N [RECORDS]` | its disk has written what it was given, or the first of it |
//! | `deliver [FROM TO]`, `drop [FROM TO]` | what is under way arrives, or is lost; `*` is anybody |
//! | `cut A B`, `heal A B` | nothing gets through between them; it does again |
//! | `hear A B`, `miss A B` | A's failure detector says that B is alive, is silent; `*` is everybody else |
//! | `beat N`, `beat *` | a heartbeat: its status, and proposals to those that lack them |
//! | `crash N`, `restart N` | what was not durable is gone |
//! | `slow N`, `quick N` | `settle` leaves this disk alone, or not any more |
//! | `settle` | disks write and messages arrive until nothing is left to do |
//! | `level` | the same, with heartbeats of all, until everybody has told what it knows |
//! | `open N`, `continue N`, `write N BYTES` | a client of N opens a stream, one behind the last; writes |
//! | `write-bound N` | a new leader proposes again the bytes that its permit names |
//! | `reconfigure N CHANGE BY`, `trim N SLOT` | `increment`, `decrement`, `mark`, `unmark` a node; `multiply`, `divide` all |
//! | `read N` | a linearizable read |
//! | `abdicate N [TO]`, `step-down N` | |
//! | `look` | draws all replicas |
//!
//! `quietly` in front of a command tells only of roles, reads and what is chosen. `led` and `level` are quiet.

use std::collections::BTreeSet;

use paxos::*;

use super::shown;
use super::text::Player;
use crate::world::{Flight, World};

#[derive(Default)]
pub struct Stage {
    world: Option<World>,
    slow: BTreeSet<usize>,
}

/// Steps of a `settle`: more than any story has.
const STEPS_MAX: usize = 200;

/// Commands that answer with a word where they come to nothing.
const ANSWERED: [&str; 7] = [
    "timer",
    "pass",
    "deliver",
    "read",
    "write",
    "abdicate",
    "step-down",
];

/// The heartbeats of a round: one tells the followers, one the leader.
const HEARTBEATS: usize = 2;

impl Player for Stage {
    fn perform(&mut self, line: &str) -> Result<Vec<String>, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (quietly, words) = match words.split_first() {
            Some((&"quietly", rest)) => (true, rest),
            Some((&("led" | "level"), _)) => (true, &words[..]),
            _ => (false, &words[..]),
        };
        let Some((command, words)) = words.split_first() else {
            return Err(String::from("a command is missing"));
        };
        if *command == "nodes" {
            self.nodes(words)?;
        } else if *command == "led" {
            self.nodes(words)?;
            for line in ["timer 1", "settle", "open 1", "settle", "level"] {
                let words: Vec<&str> = line.split(' ').collect();
                self.act(words[0], &words[1..])?;
            }
        } else if *command == "look" {
            let world = self.world.as_ref().ok_or("nodes come first")?;
            return Ok(shown::drawing(world));
        } else {
            self.act(command, words)?;
        }
        let seen = self.world.as_mut().and_then(|world| world.seen.as_mut());
        let seen = seen.map(std::mem::take).unwrap_or_default();
        let lines = shown::lines(&seen, quietly);
        let nothing = lines.is_empty() && ANSWERED.contains(command) && !quietly;
        Ok(match nothing {
            true => vec![String::from("nothing")],
            false => lines,
        })
    }

    /// One value was chosen in each slot.
    fn end(&mut self) {
        if let Some(world) = &self.world {
            world.check_agreement();
        }
    }
}

impl Stage {
    fn nodes(&mut self, words: &[&str]) -> Result<(), String> {
        let nodes = number(words, 0)? as u32;
        let members = (1..words.len()).map(|at| Ok((number(words, at)? as u32, 1)));
        let members = members.collect::<Result<Vec<(u32, u32)>, String>>()?;
        let mut world = World::new(1, &members, nodes);
        world.seen = Some(Vec::new());
        for at in 0..nodes as usize {
            for peer in (1..=nodes)
                .map(NodeId)
                .filter(|peer| peer.0 as usize != at + 1)
            {
                world.hear(at, peer);
            }
        }
        self.world = Some(world);
        Ok(())
    }

    fn act(&mut self, command: &str, words: &[&str]) -> Result<(), String> {
        let world = self.world.as_mut().ok_or("nodes come first")?;
        let nodes = world.nodes.len();
        let everybody = || (1..=nodes as u32).map(NodeId);
        if command == "settle" {
            return settle(world, &self.slow);
        }
        if command == "level" {
            for _ in 0..HEARTBEATS {
                (0..nodes).for_each(|at| world.beat_of(at));
                settle(world, &self.slow)?;
            }
            return Ok(());
        }
        if command == "beat" && words == ["*"] {
            (0..nodes).for_each(|at| world.beat_of(at));
            return Ok(());
        }
        if command == "deliver" || command == "drop" {
            let matches = |at: usize, node: NodeId| {
                let word = words.get(at).copied().unwrap_or("*");
                word == "*" || word == node.to_string()
            };
            let which = |flight: &Flight| matches(0, flight.from) && matches(1, flight.to);
            if !world.net.iter().any(which) {
                return Err(String::from("nothing is under way there"));
            }
            match command {
                "deliver" => _ = world.deliver_those(which),
                _ => world.lose_those(which),
            }
            return Ok(());
        }
        let first = number(words, 0)?;
        if command == "pass" {
            return world.pass(first * 1000);
        }
        let node = NodeId(first as u32);
        let at = world.index(node);
        if at >= nodes {
            return Err(format!("there is no node {node}"));
        }
        let others = || -> Result<Vec<NodeId>, String> {
            match words.get(1) {
                Some(&"*") => Ok(everybody().filter(|other| *other != node).collect()),
                _ => Ok(vec![NodeId(number(words, 1)? as u32)]),
            }
        };
        match command {
            "timer" => return world.fire_timer(at),
            "durable" => world.write_to_disk(at, number(words, 1).ok()),
            "cut" | "heal" => {
                for other in others()? {
                    for pair in [(node, other), (other, node)] {
                        match command {
                            "cut" => world.cut.insert(pair),
                            _ => world.cut.remove(&pair),
                        };
                    }
                }
            }
            "hear" => others()?.into_iter().for_each(|peer| world.hear(at, peer)),
            "miss" => others()?.into_iter().for_each(|peer| world.miss(at, peer)),
            "beat" => world.beat_of(at),
            "crash" => world.kill(at),
            "restart" => world.start(at),
            "slow" => _ = self.slow.insert(at),
            "quick" => _ = self.slow.remove(&at),
            "open" => world.open_by_hand(at, false),
            "continue" => world.open_by_hand(at, true),
            "write" => world.write(at, number(words, 1)?),
            "write-bound" => return world.write_what_is_bound(at),
            "reconfigure" => {
                let from = world.engine(node.0).state().era;
                let (change, by) = (change(words)?, By::Unsaid);
                world.act(at, Action::Reconfigure { from, change, by });
            }
            "trim" => {
                let (before, by) = (Slot(number(words, 1)?), By::Unsaid);
                world.act(at, Action::Trim { before, by });
            }
            "read" => world.read_by_hand(at),
            "abdicate" => {
                let to = number(words, 1).ok().map(|to| NodeId(to as u32));
                world.input(at, Input::Abdicate { to });
            }
            "step-down" => world.input(at, Input::StepDown),
            _ => return Err(String::from("there is no such command")),
        }
        Ok(())
    }
}

fn settle(world: &mut World, slow: &BTreeSet<usize>) -> Result<(), String> {
    for _ in 0..STEPS_MAX {
        let mut moved = world.deliver_those(|_| true);
        for at in (0..world.nodes.len()).filter(|at| !slow.contains(at)) {
            moved += world.records_to_write(at);
            world.write_to_disk(at, None);
        }
        if moved == 0 {
            return Ok(());
        }
    }
    Err(String::from("it does not settle"))
}

fn number(words: &[&str], at: usize) -> Result<u64, String> {
    let word = words.get(at).ok_or("a number is missing")?;
    word.parse().map_err(|_| format!("{word} is no number"))
}

fn change(words: &[&str]) -> Result<Change, String> {
    let by = number(words, 2)? as u32;
    Ok(match words.get(1).copied().unwrap_or_default() {
        "increment" => Change::Increment(NodeId(by)),
        "decrement" => Change::Decrement(NodeId(by)),
        "mark" => Change::MarkAuxiliary(NodeId(by)),
        "unmark" => Change::UnmarkAuxiliary(NodeId(by)),
        "multiply" => Change::Multiply(by),
        "divide" => Change::Divide(by),
        other => return Err(format!("{other} is no change")),
    })
}
