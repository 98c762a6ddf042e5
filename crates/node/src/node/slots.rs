//! The slots of keys: their map goes from log 0 to the machine that serves them, and what that says goes to the directory, or to another group.
//!
//! ```text
//!  log 0 ─ the map ─▶ node ─ SlotsMapped ─▶ door ─ Serves ─▶ node ─ Frame::Serves ─▶ whoever leads log 0 ─▶ log 0
//!                                            door ─ AskGroup ─▶ node ─ Frame::AskGroup ─▶ the node that leads that group ─▶ its door
//!                                door ─ AskMap ─▶ node ─ a barrier of log 0 ─▶ SlotsMapped, where that is news ─▶ SlotsCurrent ─▶ door
//! ```
//!
//! ‡ A word on what a group serves is heard from nodes that have a vote in its log, and is a fact of that log: no delay makes it wrong, for a newer one
//! has a greater number.

use std::collections::BTreeMap;

use formats::frame::{Piece, ServedPart};
use formats::{Frame, LogId};
use letters::{SlotsCurrent, ToNode, Wish};
use ops::{Letter, MachineId, Op};
use paxos::NodeId;
use paxos::mutation::{self, Mutation};
use slots::{Change, Span};

use super::Node;
use crate::cluster::confirming::Asked;
use crate::directory::Command;

/// The machines of this process that want a map that is current.
#[derive(Default)]
pub(super) struct MapAsked(BTreeMap<MachineId, Question>);

struct Question {
    number: u64,
    asked: Asked,
    /// The last question that came meanwhile. It stands for those before it, and has a barrier of its own.
    next: Option<u64>,
}

impl MapAsked {
    fn ask(&mut self, by: MachineId, number: u64) {
        let fresh = Question::new(number);
        let question = self.0.entry(by).or_insert(fresh);
        if question.number < number {
            question.next = Some(number);
        }
    }
}

impl Question {
    fn new(number: u64) -> Question {
        Question {
            number,
            asked: Asked::default(),
            next: None,
        }
    }
}

impl Node {
    /// Takes a wish of a machine that concerns slots, or gives it back.
    pub(super) fn on_slots_wish(&mut self, from: MachineId, wish: ToNode) -> Option<ToNode> {
        let ToNode { log, what } = wish;
        match what {
            Wish::AskGroup { request, bytes } => self.ask_group(Piece {
                log,
                request,
                bytes,
            }),
            Wish::TellGroup { to, request, bytes } => {
                let piece = Piece {
                    log,
                    request,
                    bytes,
                };
                self.send_group_word(to, false, piece);
            }
            Wish::Serves { parts } => {
                let frame = Frame::Serves { log, parts };
                self.tell_director(frame);
            }
            Wish::WantSlots(change) => {
                let bytes = serde_json::to_vec(&change).unwrap_or_default();
                self.tell_director(Frame::WantSlots(bytes));
            }
            Wish::AskMap { number } => self.map_asked.ask(from, number),
            what => return Some(ToNode { log, what }),
        }
        None
    }

    fn ask_group(&mut self, piece: Piece) {
        let to = match self.logs.get_mut(&piece.log) {
            Some(log) => {
                let port = log.port(&mut self.env);
                match port.is_leading() {
                    true => Some(self.env.own.identity.node),
                    false => port.leader().map(|(node, ..)| node),
                }
            }
            None => self.host_of(piece.log, piece.request),
        };
        // ‡ Who asks is told if nobody hears the question: it did nothing.
        match to {
            Some(to) if self.peers.hears(to) || to == self.env.own.identity.node => {
                self.send_group_word(to, true, piece);
            }
            _ => {
                let nothing = Piece {
                    bytes: Vec::new(),
                    ..piece
                };
                let own = self.env.own.identity.node;
                self.send_group_word(own, false, nothing);
            }
        }
    }

    /// A live node with a replica of a log of which this one has none: its leader by that node's own word, or any. Who does not lead it says so, and the next question
    /// goes to another.
    fn host_of(&self, log: LogId, request: u64) -> Option<NodeId> {
        let entry = self.cluster.directory.logs.get(&log)?;
        let hosts = entry.hosts.iter().map(|host| NodeId(*host));
        let alive: Vec<NodeId> = hosts.filter(|host| self.peers.is_alive(*host)).collect();
        // Their numbers may have a common divisor with the count.
        let spread = request.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        // ‡ Whoever is believed to lead for ever, and does not, must not be asked for ever: some questions go to any.
        let leader = self.leader_elsewhere(log).filter(|_| spread & 3 != 0);
        if leader.is_some() {
            return leader;
        }
        let at = spread.checked_rem(alive.len() as u64)?;
        alive.get(usize::try_from(at).ok()?).copied()
    }

    fn send_group_word(&mut self, to: NodeId, asks: bool, piece: Piece) {
        let own = self.env.own.identity.node;
        if to == own {
            let (logs, env) = (&mut self.logs, &mut self.env);
            return self.hosted.on_group_word(own, asks, piece, logs, env);
        }
        let frame = match asks {
            true => Frame::AskGroup(piece),
            false => Frame::TellGroup(piece),
        };
        self.peers.send(&mut self.env, to, &frame);
    }

    /// Takes a peer's word between groups.
    pub(super) fn on_group_word(&mut self, peer: NodeId, asks: bool, piece: Piece) {
        if !self.hears(peer, piece.log) {
            return;
        }
        // ‡ Whoever asks a node without a machine for that log is told so: nothing was done.
        if asks && !self.hosted.has(piece.log) {
            let nothing = Piece {
                bytes: Vec::new(),
                ..piece
            };
            self.send_group_word(peer, false, nothing);
        } else {
            let (logs, env) = (&mut self.logs, &mut self.env);
            self.hosted.on_group_word(peer, asks, piece, logs, env);
        }
    }

    /// Hands a word on slots to whoever leads the directory.
    fn tell_director(&mut self, frame: Frame) {
        let own = self.env.own.identity.node;
        match self.logs.director() {
            Some(director) if director == own => self.on_slots_told(own, &frame),
            Some(director) => self.peers.send(&mut self.env, director, &frame),
            None => {}
        }
    }

    /// Takes a word on slots, where this node leads the directory.
    pub(super) fn on_slots_told(&mut self, from: NodeId, frame: &Frame) {
        if !self.logs.can_direct() || !self.cluster.is_confirmed() {
            return;
        }
        let command = match frame {
            Frame::Serves { log, parts } => self.served(from, *log, parts),
            Frame::WantSlots(bytes) if self.cluster.directory.nodes.contains_key(&from) => {
                let change = serde_json::from_slice::<Change>(bytes).ok();
                let wanted =
                    change.filter(|change| self.cluster.directory.may_change_slots(change));
                wanted.map(|change| Command::ChangeSlots {
                    change,
                    expects: None,
                })
            }
            _ => None,
        };
        if let Some(command) = command {
            let (cluster, mut lent) = self.lend();
            cluster.propose_command(&mut lent, &command);
        }
    }

    /// What is news of a group's word.
    fn served(&self, from: NodeId, log: LogId, parts: &[ServedPart]) -> Option<Command> {
        let is_own = from == self.env.own.identity.node;
        if !is_own && !self.cluster.has_vote(&self.logs, from, log) {
            return None;
        }
        let map = &self.cluster.directory.slots;
        let is_news = |part: &&ServedPart| {
            let span = Span::new(part.first, part.last);
            span.is_some_and(|span| map.is_news(span, part.since, log.0))
        };
        let parts = parts.iter().filter(is_news);
        let parts: Vec<(u16, u16, u32)> = parts
            .map(|part| (part.first, part.last, part.since))
            .collect();
        (!parts.is_empty()).then_some(Command::ServeSlots {
            group: log.0,
            parts,
        })
    }

    /// Tells this node's machines of the map, once what is read of log 0 is current.
    pub(super) fn tell_slots(&mut self) {
        if self.cluster.is_confirmed() {
            let map = &self.cluster.directory.slots;
            self.hosted.tell_slots(map, &mut self.env);
            self.answer_for_map();
        }
    }

    /// ‡ Tells machines that their map is current, behind that map, once a barrier of log 0 that was begun after their question has passed.
    fn answer_for_map(&mut self) {
        for (machine, mut question) in std::mem::take(&mut self.map_asked.0) {
            let is_current = question.asked.has_passed(&mut self.lend().1)
                || mutation::is(Mutation::SlotsChangedByAnOldMap);
            let left = match is_current {
                true => {
                    let number = question.number;
                    let letter = Letter::new(SlotsCurrent { number });
                    let to = machine;
                    self.env.out.ops.push_back(Op::Post { to, letter });
                    question.next.map(Question::new)
                }
                false => Some(question),
            };
            if let Some(left) = left {
                self.map_asked.0.insert(machine, left);
            }
        }
    }
}
