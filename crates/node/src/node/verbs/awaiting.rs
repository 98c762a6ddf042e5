//! Requests that wait for the directory: until this node knows it as it is, until what they ask for was chosen there,
//! and until the logs that it concerns have heard.

use commands::{Batch, TooLarge};
use ops::ConnId;
use paxos::{NodeId, Slot, Time};
use replica::Purpose;
use wire::Refusal;

use crate::cluster::confirming::{Asked, check_directory};
use crate::directory::{Command, DIRECTORY};
use crate::greeting::{Caller, still_joining};
use crate::node::Node;
use crate::node::noting::Noted;

/// Clients that wait, in the order of asking.
#[derive(Default)]
pub(in crate::node) struct Awaiting(Vec<Waiting>);

struct Waiting {
    conn: ConnId,
    /// The address from which it came.
    from: String,
    since: Time,
    /// The barrier. Once it passed, this node knows the directory as it was when it was asked.
    asked: Asked,
    wants: Box<dyn Want>,
}

/// A client's wish that waits for the directory. Each verb that waits has one.
pub(in crate::node) trait Want {
    /// Moves on: asks for the commands that it needs, or says the answer. The directory is known as it was when the
    /// client asked, or newer.
    fn answer(&mut self, node: &mut Node, commands: &mut Commands) -> Answer;

    /// The command that follows when the directory has given an id, proposed at this slot, if it was for this
    /// client.
    fn on_node_id(&mut self, _: Slot, _: NodeId) -> Option<Command> {
        None
    }

    /// The answer, where all that was asked for has taken effect by now: ‡ it is said also to one who may nothing more, for he
    /// may have asked for just that.
    fn when_done(&self, _: &Node) -> Option<Vec<u8>> {
        None
    }

    /// The line that is said, in place of this one, when it took too long.
    fn on_late(&self, _: &Node, refusal: Refusal) -> Refusal {
        refusal
    }

    /// The line that is said, in place of this one, when this node no longer leads the directory.
    fn on_deposed(&self, _: &Node, refusal: Refusal) -> Refusal {
        refusal
    }
}

pub(in crate::node) type Commands = Vec<Command>;

/// The result of a request to the directory.
pub(in crate::node) enum Answer {
    /// The request ends with this line.
    Line(Vec<u8>),
    /// The request ends with a long line, which is sent in pieces.
    List(String),
    /// The request needs more, perhaps what is in the commands now.
    Wait,
    /// The request waits for something else than the directory; this is said when that takes too long.
    Until(Refusal),
    /// The request is done. It waits for something that helps, and ends with this line, at last when that takes too long.
    AtLast(Vec<u8>),
}

pub(super) fn no_directory_quorum() -> Refusal {
    Refusal::new(
        "no-quorum",
        "the cluster's directory (log 0) has no quorum that answers: start or reconnect its nodes",
    )
}

/// The refusal for a command that was proposed, and of which the directory has not said what became of it.
pub(super) fn perhaps_done(look: &str) -> Refusal {
    Refusal::new(
        "no-quorum",
        format!(
            "the cluster's directory (log 0) has not answered yet, and may still do what was asked: {look}, and ask again if it is not so"
        ),
    )
}

impl Awaiting {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The command that follows when the directory has given this id to a node that asked to join, its entry; and that node.
    fn on_node_id(&mut self, slot: Slot, id: NodeId) -> Option<(Asker, Command)> {
        let mut waiting = self.0.iter_mut();
        waiting.find_map(|waiting| {
            let entry = waiting.wants.on_node_id(slot, id)?;
            Some(((waiting.conn, waiting.from.clone()), entry))
        })
    }
}

/// The connection of somebody who waits, and the address from which it came.
type Asker = (ConnId, String);

impl Node {
    /// Checks that this node leads the directory: only the leader knows all that is in it.
    fn directing(&self) -> Result<(), Refusal> {
        let log = self.logs.get(&DIRECTORY).ok_or_else(still_joining)?;
        log.check_leading(&self.env)
    }

    pub(super) fn await_directory(
        &mut self,
        caller: &Caller,
        wants: impl Want + 'static,
    ) -> Result<(), Refusal> {
        self.directing()?;
        self.tell_fresh(caller, wants)
    }

    /// Answers once this node, whether it leads log 0 or follows, knows all that is chosen there by now.
    pub(super) fn tell_fresh(
        &mut self,
        caller: &Caller,
        wants: impl Want + 'static,
    ) -> Result<(), Refusal> {
        check_directory(&self.logs, &self.env)?;
        self.await_from(caller.conn, caller.from.clone(), wants)
    }

    pub(in crate::node) fn await_from(
        &mut self,
        conn: ConnId,
        from: String,
        wants: impl Want + 'static,
    ) -> Result<(), Refusal> {
        self.env.conns.turn_to(conn, Purpose::Request(DIRECTORY));
        self.callers.awaiting.0.push(Waiting {
            conn,
            from,
            since: self.env.now,
            asked: Asked::default(),
            wants: Box::new(wants),
        });
        self.answer_requests();
        Ok(())
    }

    /// Moves every waiting request on: proposes what it needs, answers what the directory has.
    pub(in crate::node) fn answer_requests(&mut self) {
        if !self.logs.contains_key(&DIRECTORY) {
            return;
        }
        let mut commands = Commands::new();
        let mut kept = Vec::new();
        for mut request in std::mem::take(&mut self.callers.awaiting.0) {
            if !self.env.conns.is_open(request.conn) {
                continue;
            }
            let current = request.asked.has_passed(&mut self.lend().1);
            let before = commands.len();
            let answer = match current && self.cluster.is_listed(&self.env) {
                true => request.wants.answer(self, &mut commands),
                false => Answer::Wait,
            };
            if let Err(refused) = self.check_sizes(&commands[before..]) {
                commands.truncate(before);
                let refusal = Refusal::new("bad-request", refused.to_string());
                self.env.refuse(request.conn, refusal);
                continue;
            }
            self.note_changes((request.conn, &request.from), before, &mut commands);
            let waited = self.env.now - request.since;
            let late = waited > self.env.limits.directory_wait;
            match answer {
                Answer::Line(line) => self.env.part(request.conn, &line),
                Answer::List(line) => self.env.answer(request.conn, line),
                Answer::Until(refusal) if late => self.env.refuse(request.conn, refusal),
                Answer::Wait if late => {
                    let refusal = request.wants.on_late(self, no_directory_quorum());
                    self.env.refuse(request.conn, refusal);
                }
                Answer::AtLast(line) if late => self.env.part(request.conn, &line),
                Answer::Wait | Answer::Until(_) | Answer::AtLast(_) => kept.push(request),
            }
        }
        self.callers.awaiting.0.append(&mut kept);
        let (cluster, mut lent) = self.lend();
        cluster.propose_commands(&mut lent, &commands);
    }

    /// The directory has given an id to a node that asked to join, if this slot is that: its entry is proposed.
    pub(in crate::node) fn on_node_id(&mut self, slot: Slot, id: NodeId) {
        let Some(((conn, from), entry)) = self.callers.awaiting.on_node_id(slot, id) else {
            return;
        };
        let mut commands = vec![entry];
        self.note_changes((conn, &from), 0, &mut commands);
        let (cluster, mut lent) = self.lend();
        cluster.propose_commands(&mut lent, &commands);
    }

    /// Tells who asked for these commands, from `before` on, and has the directory remember it.
    fn note_changes(&self, asker: (ConnId, &str), before: usize, commands: &mut Commands) {
        let said = commands[before..].iter();
        let said = said.filter_map(|command| self.cluster.directory.said(command));
        let what = said.collect::<Vec<_>>().join("; ");
        if !what.is_empty() {
            let (conn, from) = asker;
            let noted = Noted {
                by: self.gate.who(conn).by(),
                from: from.to_owned(),
                what,
            };
            commands.extend(self.told(noted));
        }
    }

    /// The answer that waits for this connection, if what was asked for is done.
    pub(in crate::node) fn done_for(&self, conn: ConnId) -> Option<Vec<u8>> {
        let mut waiting = self.callers.awaiting.0.iter();
        let waiting = waiting.find(|waiting| waiting.conn == conn)?;
        waiting.wants.when_done(self)
    }

    /// Refuses commands that no replica would take, before they are proposed.
    fn check_sizes(&self, commands: &[Command]) -> Result<(), TooLarge> {
        let mut batch = Batch::default();
        let encoded = commands.iter().map(|c| c.encode(self.env.version.logs));
        encoded.into_iter().try_for_each(|c| batch.command(&c))
    }

    pub(in crate::node) fn refuse_requests(&mut self) {
        let Some(log) = self.logs.get(&DIRECTORY) else {
            return;
        };
        let refusal = log.not_leader(&self.env);
        for request in std::mem::take(&mut self.callers.awaiting.0) {
            let refusal = request.wants.on_deposed(self, refusal.clone());
            self.env.refuse(request.conn, refusal);
        }
    }
}
