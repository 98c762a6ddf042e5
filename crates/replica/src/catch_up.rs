//! Fetches the bytes this replica missed, from whichever peer has them, at a bounded rate.
//!
//! Paxos lets a node that was away accept new slots at once. The bytes that it missed come behind: they are
//! named by ⟨stream, position⟩, carry no term and are no acceptance. The missing bytes are worked out only
//! when they can have grown: at start, when the state jumped, when a record turned out corrupt.
//!
//! Shape:  peer's segments -> data connection -> own segment.
//! Units:  bytes; a few requests under way, their sizes and times by [`Pace`].
//! Errors: a peer that does not have them, or does not answer, is passed over for the next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter;
use std::ops::Range;
use std::time::Duration;

use formats::frame::{BytesHeader, FetchBytes};
use ops::Buffer;
use paxos::{Engine, Input, LogState, NodeId, StreamName, StreamPosition, Time, Value};
use store::{NewRecord, Store, without};

use crate::env::Env;
use crate::lent::Core;
use crate::limits::Limits;
use crate::trim::trimmed_below;

mod pace;

use pace::Pace;

#[derive(Default)]
pub(crate) struct CatchUp {
    /// Ranges of chosen output that were not held when last counted and were not asked for since,
    /// in log order.
    missing: VecDeque<(StreamName, Range<u64>)>,
    /// Bytes that phase 1 needs and we lack; they go first.
    wanted: Option<Wanted>,
    /// The requests, in the order they were made.
    requests: VecDeque<Request>,
    /// The ranges that requests brought and that are not yet on disk.
    arrived: Vec<(StreamName, Range<u64>)>,
    last_request: u64,
    pace: Pace,
    /// The time before which no peer is asked: the one asked last did not have the bytes, which may be on
    /// their way to it.
    not_before: Time,
    /// Turns through the peers.
    turn: usize,
    /// The lapses so far. Each doubles the patience with a peer: a chunk that comes too late would be asked
    /// for for ever.
    lapses: u32,
    received: u64,
    told_at: Time,
    /// Everything was asked for: count again once it is on disk.
    recheck: bool,
    /// The end in each stream of bytes that were lost before they were known to be chosen.
    lost_ahead: BTreeMap<StreamName, StreamPosition>,
    state_jumped: bool,
    /// The places of bytes that peers said they do not hold either, and those peers.
    nowhere: BTreeMap<(StreamName, u64), BTreeSet<NodeId>>,
}

struct Wanted {
    stream: StreamName,
    range: Range<u64>,
    holders: Vec<NodeId>,
}

struct Request {
    id: u64,
    peer: NodeId,
    stream: StreamName,
    next: u64,
    to: u64,
    progress_at: Time,
    wanted: bool,
    /// The turn in which the request was made.
    turn: usize,
}

/// Requests under way: enough that a peer need not wait for the next one.
const REQUESTS_MAX: usize = 4;

/// The most doublings of the wait for a peer.
const LAPSES_MAX: u32 = 5;

/// The most places that nobody was seen to hold. There are more only where a disk is lost.
const NOWHERE_MAX: usize = 1024;

/// The interval at which a log that catches up says how far it is.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// The wait before another peer is asked for bytes that one did not have.
const NOT_HERE_WAIT: Duration = Duration::from_millis(10);

impl CatchUp {
    pub(crate) fn is_busy(&self) -> bool {
        !self.missing.is_empty()
            || self.wanted.is_some()
            || !self.requests.is_empty()
            || self.recheck
    }

    /// The time of the next request, if only the rate holds it back.
    pub(crate) fn due(&self, limits: &Limits) -> Option<Time> {
        let (_, range) = self.missing.front()?;
        let due = self.pace.due(limits, range.end - range.start);
        let free = self.requests.len() < REQUESTS_MAX && self.wanted.is_none();
        free.then_some(due.max(self.not_before))
    }

    /// Gives up a request that will not be answered: the bytes it has not brought are missing again.
    fn give_up(&mut self, index: usize) {
        if let Some(request) = self.requests.remove(index) {
            // The turn passes once for all requests to the same peer.
            if request.turn == self.turn {
                self.turn += 1;
            }
            if !request.wanted {
                let rest = (request.stream, request.next..request.to);
                self.missing.push_front(rest);
            }
        }
    }

    /// The missing bytes at whose beginning all of these replicas lack them too: all, if there are no others.
    fn lost(&self, others: &BTreeSet<NodeId>) -> Vec<(StreamName, Range<u64>)> {
        let asked = self.requests.iter().filter(|r| !r.wanted);
        let asked = asked.map(|r| (r.stream, r.next..r.to));
        let missing = asked.chain(self.missing.iter().cloned());
        let lost = missing.filter(|(stream, range)| {
            let said = self.nowhere.get(&(*stream, range.start));
            others.is_empty() || said.is_some_and(|said| others.is_subset(said))
        });
        lost.collect()
    }

    /// Notes that accepted bytes are gone. Those that are not known to be chosen are missing once they are.
    pub(crate) fn on_lost(&mut self, stream: StreamName, end: StreamPosition, state: &LogState) {
        if is_ahead(state, stream, end) {
            let known = self.lost_ahead.entry(stream).or_insert(end);
            *known = end.max(*known);
        }
    }

    /// Notes the acceptances of a start whose bytes it did not find.
    pub(crate) fn on_found(&mut self, engine: &Engine, store: &Store) {
        for run in engine.accepted() {
            let Value::Content { stream, offset } = run.value else {
                continue;
            };
            let begins = StreamPosition(run.slots.start.0 - offset.0);
            let ends = StreamPosition(run.slots.end.0 - offset.0);
            if !store.holdings().holds(stream, begins..ends) {
                self.on_lost(stream, ends, engine.state());
            }
        }
    }

    /// Notes that more is chosen.
    pub(crate) fn on_chosen(&mut self, state: &LogState) {
        if !self.lost_ahead.is_empty() {
            self.recount_soon();
            self.lost_ahead
                .retain(|stream, end| is_ahead(state, *stream, *end));
        }
    }

    /// Notes that the state jumped: missing bytes are counted once the engine's outputs are performed.
    pub(crate) fn recount_soon(&mut self) {
        self.state_jumped = true;
    }

    pub(crate) fn take_state_jumped(&mut self) -> bool {
        std::mem::take(&mut self.state_jumped)
    }

    pub(crate) fn missing_bytes(&self) -> u64 {
        let asked = self.requests.iter().filter(|r| !r.wanted);
        let asked: u64 = asked.map(|r| r.to - r.next).sum();
        let others = self.missing.iter().chain(&self.arrived);
        asked + others.map(|(_, r)| r.end - r.start).sum::<u64>()
    }

    /// Compares the chosen output with what is held.
    pub(crate) fn recount(&mut self, engine: &Engine, store: &Store) {
        self.missing.clear();
        let is_missing = |(stream, at): &(StreamName, u64)| {
            let byte = StreamPosition(*at)..StreamPosition(at + 1);
            !store.holdings().holds(*stream, byte)
        };
        self.nowhere.retain(|place, _| is_missing(place));
        if engine.is_auxiliary() {
            // An auxiliary holds what it accepted, until it is released, and fetches nothing.
            self.requests.clear();
            self.recheck = false;
            return;
        }
        self.forget_trimmed(engine.state());
        for stream in &engine.state().streams {
            let range = stream.trimmed..stream.length;
            for gap in store.holdings().missing(stream.name, range) {
                let whole = gap.start.0..gap.end.0;
                let mut gaps: Vec<Range<u64>> = iter::once(whole).collect();
                for taken in self.on_its_way(stream.name) {
                    gaps = gaps.iter().flat_map(|gap| without(gap, &taken)).collect();
                }
                let gaps = gaps.into_iter().map(|gap| (stream.name, gap));
                self.missing.extend(gaps);
            }
        }
        self.recheck = !self.arrived.is_empty() || !self.requests.is_empty();
    }

    /// Forgets requests for bytes trimmed since: these will not come, and if they came they would not be
    /// kept. The rest of such a request is missing again.
    fn forget_trimmed(&mut self, state: &LogState) {
        let below = |stream| trimmed_below(state, stream).0;
        self.requests
            .retain(|r| r.wanted || r.next >= below(r.stream));
        for (stream, range) in &mut self.arrived {
            range.start = range.start.max(below(*stream)).min(range.end);
        }
        self.arrived.retain(|(_, range)| !range.is_empty());
    }

    /// The bytes asked for because they were missing, and those that came and are being written. (The bytes
    /// that phase 1 wants are not counted as missing, so if they became chosen meanwhile they have to be
    /// counted here.)
    fn on_its_way(&self, stream: StreamName) -> impl Iterator<Item = Range<u64>> {
        let asked = self.requests.iter();
        let asked = asked.filter(move |r| r.stream == stream && !r.wanted);
        let arrived = self.arrived.iter().filter(move |(s, _)| *s == stream);
        asked
            .map(|r| r.next..r.to)
            .chain(arrived.map(|(_, range)| range.clone()))
    }

    /// Whether the byte is asked for, for whatever reason, or being written.
    fn is_coming(&self, stream: StreamName, at: u64) -> bool {
        let asked = self.requests.iter().filter(|r| r.stream == stream);
        let arrived = self.arrived.iter().filter(|(s, _)| *s == stream);
        let mut ranges = asked
            .map(|r| r.next..r.to)
            .chain(arrived.map(|(_, range)| range.clone()));
        ranges.any(|range| range.contains(&at))
    }

    pub(crate) fn want(
        &mut self,
        stream: StreamName,
        range: Range<StreamPosition>,
        holders: &[NodeId],
    ) {
        let range = range.start.0..range.end.0;
        if !self
            .wanted
            .as_ref()
            .is_some_and(|w| w.stream == stream && w.range == range && w.holders == holders)
        {
            self.wanted = Some(Wanted {
                stream,
                range,
                holders: holders.to_vec(),
            });
        }
    }

    /// Drops the wish of a term of ours that needs no such bytes any more. Nobody else may have them ever
    /// again, and missing bytes must not wait for them.
    pub(crate) fn want_nothing(&mut self) {
        self.wanted = None;
    }
}

impl CatchUp {
    /// As `recount`; and tells the engine.
    pub fn recount_and_tell(&mut self, core: &mut Core, env: &Env) {
        self.recount(&core.engine, &core.store);
        let lacking = match core.kind.is_bytes() {
            true => 0,
            false => core.stands.lacking(core.engine.state()),
        };
        let missing = Input::MissingBytes(self.missing_bytes() + lacking);
        core.engine.handle(env.now, missing);
        core.judge_states(env);
    }

    /// Whether others may be needed to fill this replica. (An auxiliary is not to be filled.)
    pub fn lacks_bytes(&self, core: &Core) -> bool {
        self.missing_bytes() > 0 && !core.engine.is_auxiliary()
    }

    /// Asks for the next missing bytes, if there are any and the rate allows.
    pub fn pump(&mut self, core: &mut Core, env: &mut Env) {
        if !self.is_busy() {
            return;
        }
        if core.store.queued_bytes() == 0 {
            self.arrived.clear();
            if self.recheck && self.requests.is_empty() {
                self.recount_and_tell(core, env);
            }
        }
        self.forget_what_came(core);
        let catch_up = &mut *self;
        let patience = env.limits.fetch_timeout * (1 << catch_up.lapses.min(LAPSES_MAX));
        let late = |r: &Request| env.now > r.progress_at + patience;
        if catch_up.requests.iter().any(late) {
            catch_up.lapses += 1;
            // The requests are given up from behind, so that bytes that were asked for first are asked for
            // first again.
            while let Some(index) = catch_up.requests.iter().rposition(late) {
                catch_up.give_up(index);
            }
        }
        while self.request_bytes(core, env) {}
    }

    /// Makes a request. Returns whether there may be more to ask for.
    fn request_bytes(&mut self, core: &Core, env: &mut Env) -> bool {
        let catch_up = &mut *self;
        if catch_up.requests.len() >= REQUESTS_MAX
            || core.store.queued_bytes() > env.room.share.queue_bytes / 2
            || env.now < catch_up.not_before
        {
            return false;
        }
        let (stream, range, holders, wanted) = match (&catch_up.wanted, catch_up.missing.front()) {
            (Some(w), _) => (w.stream, w.range.clone(), w.holders.clone(), true),
            (None, Some((stream, range))) => (*stream, range.clone(), Vec::new(), false),
            (None, None) => return false,
        };
        // Wanted bytes are asked for once, and again if they did not get to the disk.
        if wanted && catch_up.is_coming(stream, range.start) {
            return false;
        }
        // Missing bytes wait for space: a replica that cannot write stops, and then not even a trim helps it.
        // (The bytes that phase 1 wants are bounded, and everybody waits for them.)
        if !wanted && env.is_full() {
            return false;
        }
        let mut peers: Vec<NodeId> = core.alive.iter().copied().collect();
        if wanted {
            peers.retain(|p| holders.contains(p));
        } else if let Some((leader, _)) = core.engine.leader() {
            // The leader has enough to do: ask it last.
            peers.sort_by_key(|p| *p == leader);
            let others = peers.iter().filter(|p| **p != leader).count();
            if others > 0 && catch_up.turn % 4 != 3 {
                peers.truncate(others);
            }
        }
        if peers.is_empty() {
            return false;
        }
        let peer = peers[catch_up.turn % peers.len()];
        let left = range.end - range.start;
        let count = match wanted {
            true => left.min(env.limits.fetch_bytes_max),
            false => {
                let pace = &mut catch_up.pace;
                let Some(count) = pace.take(env.now, env.moments.appended_at, &env.limits, left)
                else {
                    return false;
                };
                if let Some((_, range)) = catch_up.missing.front_mut() {
                    range.start += count;
                    if range.is_empty() {
                        catch_up.missing.pop_front();
                    }
                }
                count
            }
        };
        catch_up.last_request += 1;
        let request = Request {
            id: catch_up.last_request,
            peer,
            stream,
            next: range.start,
            to: range.start + count,
            progress_at: env.now,
            wanted,
            turn: catch_up.turn,
        };
        env.send_fetch(
            peer,
            FetchBytes {
                log: core.id,
                request: request.id,
                stream,
                from: StreamPosition(request.next),
                to: StreamPosition(request.to),
            },
        );
        catch_up.requests.push_back(request);
        if env.now > catch_up.told_at + TELL_EVERY {
            catch_up.told_at = env.now;
            let (missing, received) = (catch_up.missing_bytes(), catch_up.received);
            tracing::info!(
                log = core.id.0,
                missing,
                received,
                peer = peer.0,
                "catching up with bytes"
            );
        }
        true
    }

    /// Drops the bytes held by now from the list of missing ones.
    fn forget_what_came(&mut self, core: &Core) {
        let holdings = core.store.holdings();
        self.arrived.retain(|(stream, range)| {
            !holdings.holds(
                *stream,
                StreamPosition(range.start)..StreamPosition(range.end),
            )
        });
        let before = self.missing.is_empty();
        while let Some((stream, range)) = self.missing.front().cloned() {
            let asked = StreamPosition(range.start)..StreamPosition(range.end);
            let gap = core.store.holdings().missing(stream, asked).next();
            match gap {
                None => {
                    self.missing.pop_front();
                }
                Some(gap) => {
                    if let Some(front) = self.missing.front_mut() {
                        front.1.start = gap.start.0;
                    }
                    break;
                }
            }
        }
        if let Some(wanted) = &self.wanted {
            let range = StreamPosition(wanted.range.start)..StreamPosition(wanted.range.end);
            if core.store.holdings().holds(wanted.stream, range) {
                self.wanted = None;
            }
        }
        if !before && self.missing.is_empty() {
            self.recheck = true;
        }
    }

    /// Takes bytes we asked for, checked against their digest.
    pub fn on_fetched(
        &mut self,
        core: &mut Core,
        env: &mut Env,
        peer: NodeId,
        header: &BytesHeader,
        buffer: Buffer,
    ) {
        let (stream, position) = (header.stream, header.position);
        let length = header.payload_length as usize;
        let context = core.context();
        let end = position.0 + length as u64;
        let mut requests = self.requests.iter_mut();
        let Some(current) = requests.find(|r| {
            (r.id, r.peer, r.stream) == (header.request, peer, stream) && r.next == position.0
        }) else {
            return;
        };
        if end > current.to {
            return;
        }
        current.next = end;
        if env.now <= current.progress_at + env.limits.fetch_timeout {
            self.lapses = 0;
        }
        // A peer answers in order: later requests have waited for this one.
        for waiting in &mut self.requests {
            if waiting.peer == peer {
                waiting.progress_at = env.now;
            }
        }
        self.received += length as u64;
        self.arrived.push((stream, position.0..end));
        core.counts.bytes_fetched += length as u64;
        env.wrote(length);
        let digest = formats::digest(&buffer[formats::RECORD_HEADER..][..length]);
        let tag = core.persisted.0;
        core.store.append(
            NewRecord::Bytes {
                stream,
                position,
                length,
                digest,
                buffer,
            },
            context,
            tag,
        );
        // The bytes are on their way to disk. A recount at the end finds those that were lost.
        let catch_up = &mut *self;
        catch_up.requests.retain(|r| r.next < r.to);
        catch_up.recheck |= catch_up.requests.is_empty() && catch_up.missing.is_empty();
    }

    pub fn on_bytes_not_here(&mut self, core: &Core, env: &mut Env, peer: NodeId, request: u64) {
        let asked = |r: &Request| r.id == request && r.peer == peer;
        let catch_up = &mut *self;
        let Some(index) = catch_up.requests.iter().position(asked) else {
            return;
        };
        let request = &catch_up.requests[index];
        let place = (request.stream, request.next);
        let is_wanted = request.wanted;
        catch_up.give_up(index);
        catch_up.not_before = env.now + NOT_HERE_WAIT;
        if is_wanted
            || catch_up.nowhere.len() >= NOWHERE_MAX && !catch_up.nowhere.contains_key(&place)
        {
            return;
        }
        let said = catch_up.nowhere.entry(place).or_default();
        said.insert(peer);
        // Bytes that nobody holds must not keep the rest waiting, and are asked for again behind it.
        if core.alive.is_subset(&self.nowhere[&place]) {
            self.missing.rotate_left(1);
        }
    }

    /// Chosen and untrimmed bytes that no member holds: each of them said so. While a member is silent, there
    /// are none.
    pub fn lost_bytes(&self, core: &Core) -> Vec<(StreamName, Range<u64>)> {
        if !self.lacks_bytes(core) {
            return Vec::new();
        }
        let configuration = &core.engine.state().configuration;
        let own = core.engine.node();
        let members = configuration.members().iter().map(|member| member.node);
        let mut others: BTreeSet<NodeId> = members.filter(|node| *node != own).collect();
        others.extend(&core.alive);
        self.lost(&others)
    }
}

/// Whether more of the stream may yet become known to be chosen, below that end.
fn is_ahead(state: &LogState, stream: StreamName, end: StreamPosition) -> bool {
    let known = state.streams.iter().find(|known| known.name == stream);
    let ended = known.is_some_and(|known| state.current != Some(known.name));
    !ended && known.is_none_or(|known| known.length < end)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use paxos::{
        Action, Configuration, Offset, OpenStream, Slot, SlotRange, StreamSequence, Value,
    };

    use super::*;

    #[test]
    fn what_was_lost_before_it_was_known_to_be_chosen_is_counted_once_it_is() {
        let stream = StreamName {
            owner: NodeId(1),
            sequence: StreamSequence {
                incarnation: 1,
                counter: 1,
            },
        };
        let mut state = LogState::new(Configuration::equal([NodeId(1)]).unwrap());
        let open = Action::OpenStream(OpenStream {
            stream,
            label: String::new(),
            metadata: Vec::new(),
            continues: None,
        });
        state.apply(
            SlotRange::new(Slot(0), Slot(1)),
            &Value::Action(Arc::new(open)),
        );
        let content = Value::Content {
            stream,
            offset: Offset(1),
        };
        let mut choose = |slots: std::ops::Range<u64>| {
            state.apply(SlotRange::new(Slot(slots.start), Slot(slots.end)), &content);
            state.clone()
        };
        let state = choose(1..11);
        let mut catch_up = CatchUp::default();
        catch_up.on_lost(stream, StreamPosition(10), &state);
        catch_up.on_chosen(&state);
        assert!(
            !catch_up.take_state_jumped(),
            "it was counted when it was lost"
        );
        catch_up.on_lost(stream, StreamPosition(20), &state);
        for (slots, counts) in [(11..16, true), (16..21, true), (21..26, false)] {
            catch_up.on_chosen(&choose(slots.clone()));
            assert_eq!(catch_up.take_state_jumped(), counts, "{slots:?}");
        }
    }

    #[test]
    fn what_is_on_its_way_is_not_missing() {
        let left = |range, taken| {
            let parts = without(&range, &taken);
            parts.map(|part| (part.start, part.end)).collect::<Vec<_>>()
        };
        assert_eq!(left(10..20, 0..5), [(10, 20)]);
        assert_eq!(left(10..20, 20..30), [(10, 20)]);
        assert_eq!(left(10..20, 12..14), [(10, 12), (14, 20)]);
        assert_eq!(left(10..20, 0..12), [(12, 20)]);
        assert_eq!(left(10..20, 18..99), [(10, 18)]);
        assert_eq!(left(10..20, 12..12), [(10, 20)]);
        assert!(left(10..20, 0..99).is_empty());
    }
}
