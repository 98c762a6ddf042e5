//! Three engines in one thread, whose messages arrive in an order that is drawn, and are counted.

use std::collections::VecDeque;

use anyhow::{Context, Result, bail};
use paxos::{
    Action, Configuration, Engine, EngineConfig, Input, LogState, Message, NodeId, OpenStream,
    Output, Recovery, Role, StreamName, StreamSequence, Time, Timing,
};

use crate::study::rounds::Draw;

pub const NODES: u32 = 3;
/// More steps than any agreement takes.
const STEPS_MAX: u32 = 10_000;

/// The messages and records of some agreements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub prepares: u64,
    pub proposals: u64,
    pub questions: u64,
    pub records: u64,
}

impl Counts {
    pub fn requests(self) -> u64 {
        self.prepares + self.proposals
    }

    fn count(&mut self, message: &Message) {
        match message {
            Message::Prepare { .. } => self.prepares += 1,
            Message::Propose(_) => self.proposals += 1,
            Message::SeekVotes { .. } => self.questions += 1,
            _ => {}
        }
    }
}

/// Engines whose disks and network take no time.
pub struct Network {
    engines: Vec<Engine>,
    underway: VecDeque<(NodeId, NodeId, Message)>,
    now: Time,
    pub counts: Counts,
    values: u32,
}

impl Network {
    pub fn new(seed: u64) -> Result<Network> {
        let members = Configuration::equal((1..=NODES).map(NodeId))
            .ok()
            .context("three nodes are members")?;
        let engine = |node| {
            let config = EngineConfig {
                node: NodeId(node),
                incarnation: 1,
                seed: seed.wrapping_mul(u64::from(NODES)) + u64::from(node),
                unchosen_bytes_max: 64 << 20,
                timing: Timing::default(),
                phase_one: paxos::PhaseOne::PerTerm,
            };
            let checkpoint = Recovery::new(LogState::new(members.clone())).finish();
            Engine::new(config, checkpoint, Time::ZERO)
        };
        let mut network = Network {
            engines: (1..=NODES).map(engine).collect(),
            underway: VecDeque::new(),
            now: Time::ZERO,
            counts: Counts::default(),
            values: 0,
        };
        for at in 0..network.engines.len() {
            for peer in (1..=NODES).filter(|peer| *peer as usize != at + 1) {
                network.tell(at, Input::PeerAlive(NodeId(peer)));
            }
        }
        network.settle(&mut Draw::new(seed));
        network.counts = Counts::default();
        Ok(network)
    }

    fn tell(&mut self, at: usize, input: Input) {
        self.engines[at].handle(self.now, input);
        self.flush(at);
    }

    /// Performs what an engine wants: its records are durable at once.
    fn flush(&mut self, at: usize) {
        let from = NodeId(at as u32 + 1);
        let others = |from: NodeId| (1..=NODES).map(NodeId).filter(move |to| *to != from);
        loop {
            let mut durable = None;
            while let Some(output) = self.engines[at].poll_output() {
                match output {
                    Output::Persist { record, .. } => {
                        self.counts.records += 1;
                        durable = Some(record);
                    }
                    Output::Send { to, message, .. } => {
                        self.underway.push_back((from, to, message))
                    }
                    Output::Replicate(proposal) => self.underway.extend(
                        others(from).map(|to| (from, to, Message::Propose(proposal.clone()))),
                    ),
                    _ => {}
                }
            }
            // A message is sent after the record that it stands on: here at once.
            let Some(up_to) = durable else { break };
            self.engines[at].handle(self.now, Input::Durable { up_to });
        }
    }

    /// Delivers one message, of a sender and a receiver that are drawn; those of one pair keep their order.
    fn deliver(&mut self, draw: &mut Draw) -> bool {
        let mut pairs: Vec<(NodeId, NodeId)> = Vec::new();
        for (from, to, _) in &self.underway {
            if !pairs.contains(&(*from, *to)) {
                pairs.push((*from, *to));
            }
        }
        let Some(pair) = draw.one_of(&pairs).copied() else {
            return false;
        };
        let mut places = self.underway.iter();
        let place = places.position(|(from, to, _)| (*from, *to) == pair);
        let Some((from, to, message)) = place.and_then(|place| self.underway.remove(place)) else {
            return false;
        };
        self.counts.count(&message);
        self.tell(to.0 as usize - 1, Input::Message { from, message });
        true
    }

    fn settle(&mut self, draw: &mut Draw) {
        while self.deliver(draw) {}
    }

    fn leads(&self, at: usize) -> bool {
        let engine = &self.engines[at];
        matches!(engine.role(), Role::Leader { .. }) && engine.permit().is_some()
    }

    fn agreed(&self) -> u64 {
        let each = self.engines.iter().map(|engine| engine.first_unchosen().0);
        each.max().unwrap_or(0)
    }

    /// Fires a node's timer when it is due.
    fn fire(&mut self, at: usize) {
        if let Some(due) = self.engines[at].deadline() {
            self.now = self.now.max(due);
            self.tell(at, Input::Timer);
        }
    }

    fn propose(&mut self, at: usize) -> Result<()> {
        self.values += 1;
        let stream = StreamName {
            owner: NodeId(at as u32 + 1),
            sequence: StreamSequence {
                incarnation: 1,
                counter: self.values,
            },
        };
        let value = Action::OpenStream(OpenStream {
            stream,
            label: String::new(),
            metadata: Vec::new(),
            continues: None,
        });
        if let Err(refused) = self.engines[at].propose(self.now, value) {
            bail!("a leader may not propose: {refused:?}");
        }
        self.flush(at);
        Ok(())
    }

    /// One agreement, for which these nodes want to lead first if nobody does.
    pub fn agree(&mut self, proposers: usize, draw: &mut Draw) -> Result<()> {
        let before = self.agreed();
        let mut has_proposed = [false; NODES as usize];
        let mut order: Vec<usize> = (0..proposers).collect();
        draw.shuffle(&mut order);
        let leads = |network: &Network| (0..proposers).find(|at| network.leads(*at));
        if leads(self).is_none() {
            for at in &order {
                self.fire(*at);
            }
        }
        for _ in 0..STEPS_MAX {
            if let Some(at) = leads(self)
                && !has_proposed[at]
            {
                self.propose(at)?;
                has_proposed[at] = true;
            }
            if !self.deliver(draw) {
                if self.agreed() > before {
                    return Ok(());
                }
                let at = draw.one_of(&order).copied().unwrap_or(0);
                self.fire(at);
            }
        }
        bail!("no agreement after {STEPS_MAX} steps");
    }

    pub fn step_down(&mut self, draw: &mut Draw) {
        for at in 0..self.engines.len() {
            if matches!(self.engines[at].role(), Role::Leader { .. }) {
                self.tell(at, Input::StepDown);
            }
        }
        self.settle(draw);
    }
}
