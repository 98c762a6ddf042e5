//! Frames as they leave a node: what it tells others must be so, and durable where it must.

use std::ops::Range;

use formats::frame::{
    CONTROL_PREFIX, DATA_HEADER, DataHeader, Frame, decode_control_body, decode_control_prefix,
};
use formats::{Heartbeat, LogId, Speaks};
use node::Node;
use ops::{ConnId, Slice};
use paxos::{Message, NodeId, Proposal, Slot, StreamName, Term, Value};

use super::Witness;
use super::history::PromiseSeen;
use super::replica::Whose;
use crate::host::HostId;
use crate::world::World;

impl Witness {
    pub(super) fn on_send(&mut self, host: HostId, conn: ConnId, slices: &[Slice]) {
        let Some(node) = self.hosts.get(&host).map(|seen| seen.node) else {
            return;
        };
        let mut slices = slices.iter();
        while let Some(slice) = slices.next() {
            match slice.get(..4) {
                Some(b"LBct") => self.on_control(host, conn, node, slice),
                Some(b"LBdt") => {
                    let Ok(header) = DataHeader::decode(Speaks::ALL, slice) else {
                        continue; // A payload that looks like one.
                    };
                    let payload = match header.payload_length() {
                        0 => &[][..],
                        _ if slice.len() > DATA_HEADER => &slice[DATA_HEADER..],
                        _ => slices.next().map_or(&[][..], |slice| &slice[..]),
                    };
                    self.on_data(node, &header, payload);
                }
                _ => {}
            }
        }
    }

    /// Several frames may wait for the connection in one piece: heartbeats made long before they leave
    /// count as one.
    fn on_control(&mut self, host: HostId, conn: ConnId, node: NodeId, bytes: &[u8]) {
        let mut rest = bytes;
        let mut beats = false;
        while let Some((prefix, after)) = rest.split_first_chunk::<CONTROL_PREFIX>() {
            let Ok(prefix) = decode_control_prefix(Speaks::ALL, prefix) else {
                return;
            };
            let Some((body, after)) = after.split_at_checked(prefix.body_length()) else {
                return;
            };
            let frame = decode_control_body(&prefix, body);
            match frame.expect("a node sends what it could read itself") {
                Frame::Engine { log, message } => self.on_message(node, log, &message),
                Frame::Heartbeat(heartbeat) => {
                    for (log, message) in &heartbeat.entries {
                        self.on_message(node, *log, message);
                    }
                    self.on_heartbeat(host, &heartbeat);
                    beats = true;
                }
                Frame::Part(part) => {
                    let parts = self.parts.entry((host, conn)).or_default();
                    parts.extend_from_slice(&part.bytes);
                    if part.last {
                        let whole = std::mem::take(parts);
                        self.on_control(host, conn, node, &whole);
                    }
                }
                Frame::FetchBytes(_)
                | Frame::BytesNotHere(_)
                | Frame::AskDigest(_)
                | Frame::TellDigest(_)
                | Frame::Wishes(_)
                | Frame::Stand { .. }
                | Frame::AskPiece(_)
                | Frame::TellPiece(_)
                | Frame::AskGroup(_)
                | Frame::TellGroup(_)
                | Frame::Serves { .. }
                | Frame::WantSlots(_)
                | Frame::Leads(_)
                | Frame::AskDirector(_)
                | Frame::TellDirector(_)
                | Frame::Past(_) => {}
            }
            rest = after;
        }
        if let Some(seen) = self.hosts.get_mut(&host).filter(|_| beats) {
            seen.promises.on_heartbeat(seen.node);
        }
    }

    fn on_heartbeat(&mut self, host: HostId, heartbeat: &Heartbeat) {
        let Some(seen) = self.hosts.get_mut(&host) else {
            return;
        };
        for (log, message) in &heartbeat.entries {
            if let Message::FollowerStatus { promised, .. } = message {
                seen.promises.on_listed(*log, *promised);
            }
        }
    }

    fn on_data(&mut self, node: NodeId, header: &DataHeader, payload: &[u8]) {
        let DataHeader::Propose(header) = header else {
            return;
        };
        let proposal = header.proposal(Speaks::ALL, payload);
        let proposal = proposal.expect("a node sends what it could read itself");
        if matches!(proposal.value, Value::Action(_)) {
            self.written.on_action(payload);
        }
        self.on_proposal(node, header.log, &proposal);
    }

    fn on_proposal(&mut self, node: NodeId, log: LogId, proposal: &Proposal) {
        let term = proposal.term;
        self.check_chosen(node, log, proposal.chosen_up_to);
        self.check_may_propose(Whose { node, log }, term, proposal.slots.start);
        let history = self.logs.entry(log).or_default();
        history.on_proposed(node, term, proposal.slots, &proposal.value);
    }

    /// A term is its owner's from when its own promise of it is durable until the owner's end.
    pub(super) fn check_may_propose(&mut self, whose: Whose, term: Term, from: Slot) {
        let replica = self.replicas.entry((whose.log, whose.node)).or_default();
        assert!(
            replica.promised.0 >= term,
            "I4: {whose} proposes in {term} before its own promise of it is durable ({})",
            replica.promised.0
        );
        assert!(
            term > replica.promised_at_start.0,
            "I3: {whose} proposes in {term}, which it had promised before it was started ({})",
            replica.promised_at_start.0
        );
        if let Some(open) = replica.take_over(term, from) {
            let history = self.logs.entry(whose.log).or_default();
            let mut runs = history.proposed_in(open.term, from);
            runs.extend(replica.accepted_from(from));
            history.on_promise(whose.node, term, PromiseSeen { from, runs });
        }
    }

    /// I5: bytes that a node is told to drop, others hold now: every active member of the era does.
    pub(super) fn check_releases(&mut self, world: &World) {
        for (whose, era, below) in std::mem::take(&mut self.releases) {
            let Some(history) = self.logs.get(&whose.log) else {
                panic!("I5: {whose} releases bytes of a log that nobody has made");
            };
            let Some(configuration) = history.configuration(era) else {
                panic!("I7: {whose} releases in era {}, which never began", era.0);
            };
            let auxiliaries = configuration.members().iter().filter(|m| m.auxiliary);
            for auxiliary in auxiliaries.clone() {
                let replica = self
                    .replicas
                    .entry((whose.log, auxiliary.node))
                    .or_default();
                replica.released_below = replica.released_below.max(below);
            }
            for (stream, bytes) in history.bytes_below(below) {
                let members = configuration.members().iter();
                for member in members.filter(|member| !member.auxiliary) {
                    assert!(
                        self.holds(member.node, whose.log, stream, bytes.clone(), world),
                        "I5: {whose} releases all below {below}, and node {} lacks some of {bytes:?} of {stream}",
                        member.node
                    );
                }
            }
            // Also of what is trimmed by now: the auxiliary may hear of the release first.
            let there = history.output_below(below);
            let there = there.map(|(stream, end)| (stream.name, end));
            for (stream, end) in there.chain(history.forgotten_below(below)) {
                for auxiliary in auxiliaries.clone() {
                    let replica = self.replicas.entry((whose.log, auxiliary.node));
                    replica.or_default().release(stream, end);
                }
            }
        }
    }

    /// As the node says, if it runs; else, or where its disk refused to be read for a moment, as its
    /// disk does. A damaged disk is excused.
    pub(super) fn holds(
        &self,
        node: NodeId,
        log: LogId,
        stream: StreamName,
        bytes: Range<u64>,
        world: &World,
    ) -> bool {
        let host = self.hosts.iter().find(|(_, seen)| seen.node == node);
        let machine = host.and_then(|(host, _)| world.machine::<Node>(*host));
        let view = machine.and_then(|node| node.log_views().find(|view| view.id == log));
        let replica = self.replicas.get(&(log, node));
        let on_disk = |bytes| replica.is_some_and(|replica| replica.holds(stream, bytes));
        let unread = host.is_some_and(|(host, _)| world.disk(*host).counts.failed_reads > 0);
        host.is_some_and(|(_, seen)| seen.damaged)
            || match view {
                Some(view) => view.holds(stream, bytes.clone()) || unread && on_disk(bytes),
                None => on_disk(bytes),
            }
    }

    /// I1, P7: slots that a node calls chosen are chosen.
    fn check_chosen(&self, node: NodeId, log: LogId, up_to: Slot) {
        let whose = Whose { node, log };
        let chosen = self.history_next(log);
        assert!(
            up_to <= chosen,
            "I1: {} says that all below {up_to} is chosen, and a quorum accepted only what is below {chosen}",
            whose
        );
    }

    fn on_message(&mut self, node: NodeId, log: LogId, message: &Message) {
        let whose = Whose { node, log };
        match message {
            Message::SeekVotes { first_unchosen, .. }
            | Message::OfferCatchUp { first_unchosen }
            | Message::RequestState { first_unchosen, .. } => {
                self.check_chosen(node, log, *first_unchosen);
            }
            Message::State(state) => {
                self.check_chosen(node, log, state.next);
                if let Some(history) = self.logs.get(&log) {
                    history.check_state(whose, state);
                }
            }
            Message::Promise(promise) => {
                self.check_chosen(node, log, promise.from);
                let replica = self.replicas.entry((log, node)).or_default();
                assert!(
                    replica.promised.0 >= promise.term,
                    "I4: {whose} tells its promise of {} before it is durable ({})",
                    promise.term,
                    replica.promised.0
                );
                let own = promise.runs.iter().find(|run| run.term.0 >= promise.term);
                assert!(
                    own.is_none(),
                    "I4: {whose} promises {} after it accepted {own:?}",
                    promise.term
                );
                // The node owes nobody the acceptances in that term, or later, before its promise went out.
                let below = Some(promise.term);
                replica.check_promise(whose, promise.from, below, &promise.runs);
                let history = self.logs.entry(log).or_default();
                let era = history.state.as_ref().map(|state| state.era);
                assert!(
                    era.is_some_and(|era| promise.term.era <= era),
                    "I7: {whose} promises {}, and era {era:?} is the last",
                    promise.term
                );
                let seen = PromiseSeen {
                    from: promise.from,
                    runs: promise.runs.clone(),
                };
                history.on_promise(node, promise.term, seen);
            }
            Message::Accepted { term, slots, .. } => {
                let history = self.logs.entry(log).or_default();
                let so = history.has_accepted(node, *term, slots.start.0..slots.end.0);
                assert!(
                    so,
                    "I4: {} announces {slots} in {term}, which its disk has not accepted",
                    whose
                );
            }
            Message::LeaderStatus {
                term,
                chosen_up_to,
                finishing,
                ..
            } => {
                self.check_chosen(node, log, *chosen_up_to);
                if let (Some(_), Some(history)) = (finishing, self.logs.get(&log)) {
                    history.check_split(whose, *term);
                }
            }
            Message::FollowerStatus {
                promised,
                accepted_term,
                accepted_up_to,
                first_unchosen,
                ..
            } => {
                self.check_chosen(node, log, *first_unchosen);
                let replica = self.replicas.entry((log, node)).or_default();
                let durable = replica.promised;
                let range = first_unchosen.0..accepted_up_to.0;
                let history = self.logs.entry(log).or_default();
                let so = history.has_accepted(node, accepted_term.0, range.clone());
                assert!(
                    *promised <= durable,
                    "I4: {} tells the promise {} before it is durable ({})",
                    whose,
                    promised.0,
                    durable.0
                );
                assert!(
                    so,
                    "I4: {} announces {range:?} in {}, which its disk has not accepted",
                    whose, accepted_term.0
                );
            }
            Message::Release { era, below } => {
                self.check_chosen(node, log, *below);
                self.releases.push((whose, *era, *below));
            }
            Message::Barrier { slot, .. } => self.check_chosen(node, log, *slot),
            Message::Released { below, .. } => self.check_chosen(node, log, *below),
            Message::Prepare { .. }
            | Message::OfferVote { .. }
            | Message::Refuse { .. }
            | Message::Propose(_)
            | Message::Confirm { .. }
            | Message::Confirmed { .. }
            | Message::AskBarrier { .. } => {}
        }
    }
}
