//! The port: the dealings of a guest inside this process, such as a state machine, with one log.
//!
//! ```text
//!  chosen bytes ─▶ next ─▶ Bytes … Ended … Bytes …          the guest takes them, when it wants them
//!  this node leads, a stream of the guest's own is open, all before it is taken ─▶ Begins
//!  submit ─▶ own stream ─▶ proposed ─▶ chosen ─▶ Bytes of that stream
//!  another one leads, or writes ─▶ Deposed … Ended: so much of the own stream is chosen, and no more ever
//! ```
//!
//! *Credit* is given by taking: at most one chunk waits for the guest, and a guest that takes nothing costs
//! nothing. Young bytes come as a part of the very buffer that the followers were sent; a guest that keeps
//! them copies them.
//!
//! *Tickets* are positions: a submission ends at a position of the guest's stream. It is chosen once `Bytes`
//! of that stream reach the position, and never will be if the stream's length, as `Ended` tells it, does
//! not.
//!
//! ‡ Nothing but the stream's end tells that: bytes that a deposed leader alone has accepted may be chosen
//! under a third leader, however many barriers passed under the second. So a guest that begins to lead opens
//! a stream of its own, which ends the one before.

pub(crate) mod ends;
mod events;
mod reading;
mod submitting;
mod writing;

use formats::{Frame, Stand};
use ops::{Buffer, Letter, MachineId, Op};
use paxos::{Action, By, Input, NodeId, ReadId, Slot, StreamName, StreamPosition};
use store::{ReadBytes, ReadFailure};
use wire::Refusal;

use crate::env::Env;
use crate::lent::Wanted;
use crate::log::Log;

pub use events::{Event, NotNow};
use reading::Reading;
use writing::Writing;

/// A log, as its guest may use it.
pub struct Port<'a> {
    log: &'a mut Log,
    env: &'a mut Env,
    /// Whether the guest did something that the log has to be settled for.
    is_dirty: bool,
}

impl Port<'_> {
    /// The next event, or nothing for now. There may be more whenever the log was settled.
    pub fn next_event(&mut self) -> Option<Event> {
        self.log.next_event(self.env)
    }

    /// Asks for a stream of the guest's own, which ends the one that is written now. `Begins` follows. False,
    /// and nothing happens, where this node does not lead, the log has ended, or the guest has a stream or
    /// waits for it.
    pub fn open(&mut self) -> bool {
        let opens = self.log.open_for_guest(self.env);
        self.is_dirty |= opens;
        opens
    }

    /// Asks for another stream after the own one, once nothing is on its way. True if the stream is on its way now.
    pub fn open_anew(&mut self) -> bool {
        let opens = self.log.open_anew_for_guest(self.env);
        self.is_dirty |= opens;
        opens
    }

    /// Whether the guest may submit.
    pub fn has_begun(&self) -> bool {
        self.log.guest_has_begun()
    }

    /// Submits all of these bytes or none. Returns where they end in the guest's stream.
    ///
    /// Errors: see [`NotNow`].
    pub fn submit(&mut self, bytes: &[u8]) -> Result<u64, NotNow> {
        let end = self.log.submit(self.env, bytes, false)?;
        self.is_dirty = true;
        Ok(end)
    }

    /// As `submit`; where disks are full, of half of their reserve: for a guest that takes only what frees room then.
    pub fn submit_what_frees(&mut self, bytes: &[u8]) -> Result<u64, NotNow> {
        let end = self.log.submit(self.env, bytes, true)?;
        self.is_dirty = true;
        Ok(end)
    }

    /// Whether full disks have room for what frees room.
    pub fn may_free(&self) -> bool {
        self.log.core.may_free(self.env)
    }

    /// Asks for a barrier, for a guest that must know all that is chosen by now: it does once the barrier has
    /// passed, and [`Port::is_current`].
    pub fn ask_barrier(&mut self) -> Result<ReadId, Refusal> {
        let asked = self.log.ask_barrier(self.env);
        self.is_dirty |= asked.is_ok();
        asked
    }

    pub fn has_passed(&self, barrier: ReadId) -> bool {
        self.log.has_passed(barrier)
    }

    /// Whether the barrier will not pass: another is to be asked for.
    pub fn has_failed(&self, barrier: ReadId) -> bool {
        self.log.has_failed(barrier)
    }

    /// ‡ Whether the guest has taken all that is chosen, as far as this replica knows.
    pub fn is_current(&self) -> bool {
        self.log.guest_is_current()
    }

    pub fn is_leading(&self) -> bool {
        self.log.is_leading()
    }

    /// Whether it leads, and is free to propose something.
    pub fn can_propose(&self) -> bool {
        self.log.can_propose()
    }

    /// Where the output ends, as far as this replica knows. Positions mean the same for ever, however much is trimmed.
    pub fn output_end(&self) -> u64 {
        let reading = self.log.port.reading.as_ref();
        reading
            .and_then(|reading| reading.end(&self.log.core))
            .unwrap_or(0)
    }

    /// Where the output ends, as far as this replica knows, if the guest was attached behind that.
    pub fn ends_before_guest(&self) -> Option<u64> {
        let reading = self.log.port.reading.as_ref()?;
        reading.is_beyond(&self.log.core)
    }

    /// The guest's stream, if it may submit.
    pub fn own_stream(&self) -> Option<StreamName> {
        self.log.port.writing.begun.filter(|_| self.has_begun())
    }

    /// The refusal of clients' bytes while disks are full.
    pub fn full(&self) -> Option<Refusal> {
        let core = &self.log.core;
        core.is_full(self.env).then(|| core.disk_full(self.env))
    }

    /// The node that leads, if that is another one: its address, and where it answers clients of keys.
    pub fn leader(&self) -> Option<(NodeId, &str, Option<&str>)> {
        let (leader, _) = self.log.core.engine.leader()?;
        let address = self.env.peers.addresses.get(&leader)?;
        let door = self.env.peers.doors.get(&leader);
        Some((leader, address, door.map(String::as_str)))
    }

    /// Whether the log is over: it goes on as another, elsewhere.
    pub fn is_over(&self) -> bool {
        self.log.core.engine.state().is_sealed()
    }

    /// Lets somebody else lead.
    pub fn step_aside(&mut self) {
        if self.log.may_hand_over() {
            self.log.core.input(self.env, Input::Abdicate { to: None });
            self.is_dirty = true;
        }
    }

    /// Tells another machine of this process something.
    pub fn post(&mut self, to: MachineId, letter: Letter) {
        self.env.out.ops.push_back(Op::Post { to, letter });
    }

    /// Says how the guest's state stands. What is trimmed goes by it, and whether this replica counts as whole.
    pub fn stand(&mut self, stand: Stand) {
        if self.log.core.stands.own() != Some(stand) {
            let core = &mut self.log.core;
            core.stands.set_own(core.own, stand);
            core.tell_differences();
            self.log
                .catch_up
                .recount_and_tell(&mut self.log.core, self.env);
            self.is_dirty = true;
        }
    }

    /// Whether this member holds nothing but what others cannot: its state would be one.
    pub fn is_auxiliary(&self) -> bool {
        self.log.core.engine.is_auxiliary()
    }

    /// ‡ Whether the guest's state differs from another, and no quorum says the same as this one: it is given to nobody.
    pub fn is_state_doubted(&self) -> bool {
        self.log.core.is_state_doubted(self.log.core.own)
    }

    /// Whether a quorum of other states contradicts the guest's: any of those serves better.
    pub fn is_state_outvoted(&self) -> bool {
        self.log.core.is_state_outvoted(self.log.core.own)
    }

    /// Other replicas of the log that may give their state, as far as this one knows, the leader last. Auxiliaries have nothing to
    /// give, nor has one whose state a quorum contradicts.
    pub fn peers(&self) -> Vec<NodeId> {
        let core = &self.log.core;
        let leader = core.engine.leader().map(|(leader, _)| leader);
        let configuration = &core.engine.state().configuration;
        let alive = core.alive.iter().copied();
        let mut peers: Vec<NodeId> = alive
            .filter(|node| !configuration.is_auxiliary(*node) && !core.is_state_outvoted(*node))
            .collect();
        peers.sort_by_key(|node| Some(*node) == leader);
        peers
    }

    /// Sends another node something of this log.
    pub fn send(&mut self, to: NodeId, frame: Frame) {
        self.env.out.outbox.push_back((to, frame));
    }

    /// The length of the output, as far as it is left.
    pub fn output_bytes(&self) -> u64 {
        crate::output_bytes(self.log.core.engine.state())
    }

    /// Proposes that all before that stream is forgotten, everywhere: the guest's state, as it stands at the
    /// stream's beginning, stands for it. True if that is proposed now.
    pub fn trim_before(&mut self, stream: StreamName) -> bool {
        let Some(before) = self.trim_point(stream) else {
            return false;
        };
        // The guest speaks for the maker of this log: it keeps what it needs, whatever the directory wants kept.
        let by = By::Hand;
        let proposed = self.log.propose(self.env, Action::Trim { before, by });
        self.is_dirty |= proposed.is_ok();
        proposed.is_ok()
    }

    /// Whether anything stands before that stream.
    pub fn has_more_before(&self, stream: StreamName) -> bool {
        self.trim_point(stream).is_some()
    }

    fn trim_point(&self, stream: StreamName) -> Option<Slot> {
        let state = self.log.core.engine.state();
        let point = state.trim_point(stream, StreamPosition(0))?;
        state.would_forget(point).then_some(point)
    }

    /// Whether the log has to be settled for what was done by this.
    pub fn is_dirty(&self) -> bool {
        self.is_dirty
    }
}

impl Log {
    /// Attaches a guest, which takes this log's output from that position on.
    ///
    /// `uses_reserve`: its bytes are taken when a disk is full, too. That is for a guest that frees disks.
    pub fn attach(&mut self, from: u64, uses_reserve: bool) {
        self.port.reading = Some(Reading::from(from));
        self.port.writing = Writing::default();
        self.core.uses_reserve = uses_reserve;
    }

    pub fn port<'a>(&'a mut self, env: &'a mut Env) -> Port<'a> {
        Port {
            log: self,
            env,
            is_dirty: false,
        }
    }

    /// ‡ See [`Port::is_current`].
    pub fn guest_is_current(&self) -> bool {
        let reading = self.port.reading.as_ref();
        reading.is_some_and(|reading| reading.is_current(&self.core))
    }

    /// Whether nothing that the guest submitted, or wants to, is on its way.
    pub fn guest_is_idle(&self) -> bool {
        self.port.writing.is_idle() && self.ingest.is_all_acknowledged()
    }

    fn next_event(&mut self, env: &mut Env) -> Option<Event> {
        if self.core.stopped.is_some() {
            return None;
        }
        if let Some(stream) = self.take_deposed() {
            return Some(Event::Deposed { stream });
        }
        let reading = self.port.reading.as_mut()?;
        if let Some(event) = reading.next(&mut self.core, env) {
            return Some(event);
        }
        self.drain(env); // The store was asked to read, perhaps.
        let stream = self.take_begun()?;
        Some(Event::Begins { stream })
    }

    /// Whether all before this stream, and none of it, is taken.
    fn guest_has_reached(&self, stream: StreamName) -> bool {
        let reading = self.port.reading.as_ref();
        reading.is_some_and(|reading| reading.has_reached(stream))
    }

    pub(crate) fn on_port_read(
        &mut self,
        env: &Env,
        wanted: Wanted,
        buffer: Buffer,
        result: Result<ReadBytes, ReadFailure>,
    ) {
        if let Some(reading) = &mut self.port.reading {
            reading.on_read(env.now, wanted, buffer, result);
        }
    }
}
