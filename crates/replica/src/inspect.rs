//! The view of a checker. Nothing here changes anything.

use formats::LogId;
use paxos::{
    LogState, NodeId, PermitContent, PromisedTerm, Role, StreamName, StreamPosition, Time,
};

use crate::counts::LogCounts;
use crate::log::Log;

/// One log's replica, as it is now.
pub struct LogView<'a> {
    pub id: LogId,
    pub name: &'a str,
    pub role: Role,
    pub promised: PromisedTerm,
    /// All slots below `state.next` are chosen.
    pub state: &'a LogState,
    pub counts: LogCounts,
    /// The reason why the replica takes no part any more.
    pub stopped: Option<&'a str>,
    log: &'a Log,
}

impl LogView<'_> {
    /// Ranges of the chosen output whose bytes are not durable here. An auxiliary misses none: it need not
    /// hold them.
    pub fn missing(&self) -> Vec<(StreamName, std::ops::Range<StreamPosition>)> {
        let mut missing = Vec::new();
        if self.is_auxiliary() {
            return missing;
        }
        for stream in &self.state.streams {
            let range = stream.trimmed..stream.length;
            let gaps = self.log.core.store.holdings().missing(stream.name, range);
            missing.extend(gaps.into_iter().map(|gap| (stream.name, gap)));
        }
        missing
    }

    /// How the state of its guest stands.
    pub fn stand(&self) -> Option<formats::Stand> {
        self.log.stand()
    }

    /// The nodes whose states differ from this leader's, and how often states were compared.
    pub fn comparison(&self) -> (Vec<NodeId>, u64) {
        (self.log.states_differ(), self.log.states_compared())
    }

    /// The time when the engine wants to be woken.
    pub fn deadline(&self) -> Option<Time> {
        self.log.core.engine.deadline()
    }

    /// The holders of the bytes that this leader must propose again, while it lacks them itself.
    pub fn lacks_bytes_of(&self) -> Vec<NodeId> {
        let Some(PermitContent::Bound {
            stream,
            position,
            holders,
        }) = self.log.core.engine.permit().map(|permit| &permit.content)
        else {
            return Vec::new();
        };
        let next = *position..StreamPosition(position.0 + 1);
        match self.log.core.store.holdings().holds(*stream, next) {
            true => Vec::new(),
            false => holders.clone(),
        }
    }

    /// The nodes asked to promise, while this leader's casting vote runs.
    pub fn asked_at_a_casting_vote(&self) -> Option<&[NodeId]> {
        self.log.core.engine.asked_at_a_casting_vote()
    }

    /// Whether its casting vote runs, and all that the promise for it left open is proposed.
    pub fn waits_for_its_casting_vote(&self) -> bool {
        let permit = self.log.core.engine.permit();
        permit.is_some_and(|permit| permit.next == permit.limit)
            && self.asked_at_a_casting_vote().is_some()
    }

    pub fn is_auxiliary(&self) -> bool {
        self.log.core.engine.is_auxiliary()
    }

    /// Whether it leads, with auxiliaries that get its proposals.
    pub fn is_engaged(&self) -> bool {
        self.log.core.engine.is_engaged()
    }

    /// Whether all of these bytes are durable here.
    pub fn holds(&self, stream: StreamName, bytes: std::ops::Range<u64>) -> bool {
        let range = StreamPosition(bytes.start)..StreamPosition(bytes.end);
        self.log.core.store.holdings().holds(stream, range)
    }

    /// Bytes of streams that are durable here.
    pub fn held_bytes(&self) -> u64 {
        self.log.core.store.holdings().bytes()
    }

    /// Bytes that the files take: records, and trimmed files kept for the next ones.
    pub fn disk_bytes(&self) -> u64 {
        self.log.core.store.disk_bytes()
    }

    /// The promise that peers may have been told of.
    pub fn durable_promise(&self) -> PromisedTerm {
        self.log.core.engine.durable_promised()
    }
}

impl Log {
    pub fn view(&self) -> LogView<'_> {
        LogView {
            id: self.core.id,
            name: &self.core.name,
            role: self.core.engine.role(),
            promised: self.core.engine.promised(),
            state: self.core.engine.state(),
            counts: self.counts(),
            stopped: self.core.stopped.as_deref(),
            log: self,
        }
    }

    /// The counts of rare events.
    pub fn counts(&self) -> LogCounts {
        let (landed, places_given_up) = self.core.store.landed();
        LogCounts {
            files_reused: self.core.store.files_reused(),
            landed,
            places_given_up,
            ..self.core.counts
        }
    }

    /// Panics if its parts contradict each other.
    pub fn check_invariants(&self, unchosen_bytes_max: u64) {
        let first_unchosen = self.core.engine.first_unchosen();
        if let Some(permit) = self.core.engine.permit() {
            paxos::invariant!(
                first_unchosen <= permit.next && permit.next <= permit.limit,
                "I8: {first_unchosen} unchosen, {permit:?}"
            );
            paxos::invariant!(
                permit.limit.0 <= permit.next.0.max(first_unchosen.0 + unchosen_bytes_max),
                "more than W unchosen: {first_unchosen}, {permit:?}"
            );
            paxos::invariant!(self.core.is_leading(), "a permit is a leader's: {permit:?}");
            if let PermitContent::Bound { holders, .. } = &permit.content {
                paxos::invariant!(!holders.is_empty(), "somebody accepted what is bound");
            }
        }
        self.followers.check(&self.core);
        self.ingest.check_invariants();
    }
}
