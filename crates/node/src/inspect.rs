//! What a checker may look at. Nothing here changes anything.

use formats::LogId;
use formats::version::Speaks;
use paxos::{
    LogState, NodeId, PermitContent, PromisedTerm, Role, StreamName, StreamPosition, Time,
};

use crate::counts::{LogCounts, NodeCounts};
use crate::health::{Code, State};
use crate::log::Log;
use crate::node::Node;

/// What a node could read, and what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionsView {
    pub speaks: Speaks,
    pub disk: u8,
    /// As far as this node knows.
    pub agreed: u8,
}

/// One log's replica, as it is now.
pub struct LogView<'a> {
    pub id: LogId,
    pub name: &'a str,
    pub role: Role,
    pub promised: PromisedTerm,
    /// All slots below `state.next` are chosen.
    pub state: &'a LogState,
    pub counts: LogCounts,
    /// Why it takes no part any more.
    pub stopped: Option<&'a str>,
    log: &'a Log,
}

impl LogView<'_> {
    /// Ranges of the chosen output whose bytes are not durable here. Of an auxiliary none are missing:
    /// it need not hold them.
    pub fn missing(&self) -> Vec<(StreamName, std::ops::Range<StreamPosition>)> {
        let mut missing = Vec::new();
        if self.is_auxiliary() {
            return missing;
        }
        for stream in &self.state.streams {
            let range = stream.trimmed..stream.length;
            let gaps = self.log.store.holdings().missing(stream.name, range);
            missing.extend(gaps.into_iter().map(|gap| (stream.name, gap)));
        }
        missing
    }

    /// When the engine wants to be woken.
    pub fn deadline(&self) -> Option<Time> {
        self.log.engine.deadline()
    }

    /// Who holds the bytes that this leader must propose again, while it lacks them itself.
    pub fn lacks_bytes_of(&self) -> Vec<NodeId> {
        let Some(PermitContent::Bound {
            stream,
            position,
            holders,
        }) = self.log.engine.permit().map(|permit| &permit.content)
        else {
            return Vec::new();
        };
        let next = *position..StreamPosition(position.0 + 1);
        match self.log.store.holdings().holds(*stream, next) {
            true => Vec::new(),
            false => holders.clone(),
        }
    }

    /// Who is asked to promise, while this leader's casting vote runs.
    pub fn asked_at_a_casting_vote(&self) -> Option<&[NodeId]> {
        self.log.engine.asked_at_a_casting_vote()
    }

    /// Its casting vote runs, and all that the promise for it left open is proposed.
    pub fn waits_for_its_casting_vote(&self) -> bool {
        let permit = self.log.engine.permit();
        permit.is_some_and(|permit| permit.next == permit.limit)
            && self.asked_at_a_casting_vote().is_some()
    }

    pub fn is_auxiliary(&self) -> bool {
        self.log.engine.is_auxiliary()
    }

    /// Leading, with auxiliaries that get its proposals.
    pub fn is_engaged(&self) -> bool {
        self.log.engine.is_engaged()
    }

    /// Whether all of these bytes are durable here.
    pub fn holds(&self, stream: StreamName, bytes: std::ops::Range<u64>) -> bool {
        let range = StreamPosition(bytes.start)..StreamPosition(bytes.end);
        self.log.store.holdings().holds(stream, range)
    }

    /// Bytes of streams that are durable here.
    pub fn held_bytes(&self) -> u64 {
        self.log.store.holdings().bytes()
    }

    /// Bytes that the files take: records, and trimmed files kept for the next ones.
    pub fn disk_bytes(&self) -> u64 {
        self.log.store.disk_bytes()
    }

    /// The promise that peers may have been told of.
    pub fn durable_promise(&self) -> PromisedTerm {
        self.log.engine.durable_promised()
    }
}

impl Node {
    /// 0 until it has joined.
    pub fn id(&self) -> NodeId {
        self.env.identity.node
    }

    /// Those that take part, or stopped.
    pub fn log_views(&self) -> impl Iterator<Item = LogView<'_>> {
        self.logs.values().map(|log| LogView {
            id: log.id,
            name: &log.name,
            role: log.engine.role(),
            promised: log.engine.promised(),
            state: log.engine.state(),
            counts: LogCounts {
                files_reused: log.store.files_reused(),
                landed: log.store.landed().0,
                places_given_up: log.store.landed().1,
                ..log.counts
            },
            stopped: log.stopped.as_deref(),
            log,
        })
    }

    /// Which start of the node this is.
    pub fn incarnation(&self) -> u32 {
        self.env.incarnation
    }

    /// The last start of that node that this one met, and remembers after a start of its own.
    pub fn has_met(&self, node: NodeId) -> Option<u32> {
        let seen = self.past.seen(node).filter(|_| self.past.is_written());
        seen.map(|seen| seen.incarnation)
    }

    pub fn counts(&self) -> NodeCounts {
        self.counts
    }

    /// Bytes that the leader of each log may hold in memory now, while so many hold some.
    pub fn ring_share(&self) -> u64 {
        self.env.share.ring_bytes
    }

    /// ⟨node, weight⟩ of a log, as the directory says that is known here.
    pub fn wanted(&self, log: LogId) -> Option<impl Iterator<Item = (u32, u32)>> {
        let wanted = self.directory.members.wanted.get(&log.0)?;
        Some(wanted.weights.iter().map(|(node, weight)| (*node, *weight)))
    }

    /// Of the cluster, as the directory says that is known here.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.directory.nodes.keys().copied()
    }

    pub fn versions(&self) -> VersionsView {
        VersionsView {
            speaks: self.env.speaks,
            disk: self.env.disk_version,
            agreed: self.directory.versions.agreed,
        }
    }

    /// Why it follows the directory no more.
    pub fn halted(&self) -> Option<String> {
        self.directory.halted().map(ToString::to_string)
    }

    pub fn removed_nodes(&self) -> impl Iterator<Item = u32> {
        self.directory.members.removed.iter().copied()
    }

    /// To be removed.
    pub fn leaving_nodes(&self) -> Vec<u32> {
        self.directory.members.leaving.iter().copied().collect()
    }

    /// What this node says of the cluster's health, and each warning: its code, the node that it is
    /// about (0: none), and whether it is so now.
    pub fn warnings(&self) -> (State, Vec<(Code, NodeId, bool)>) {
        let health = self.health();
        let by_name = |name: &str| Code::ALL.into_iter().find(|code| code.name() == name);
        let warnings = health.warnings.iter().filter_map(|warning| {
            let about = NodeId(warning.node.unwrap_or_default());
            Some((by_name(warning.code)?, about, warning.active))
        });
        (health.state, warnings.collect())
    }

    /// Panics if this node's parts contradict each other.
    pub fn check_invariants(&self) {
        // A replica that stopped stands as it stood.
        for log in self.logs.values().filter(|log| log.stopped.is_none()) {
            log.check_invariants(self.env.limits.unchosen_bytes_max);
        }
    }
}

impl Log {
    fn check_invariants(&self, unchosen_bytes_max: u64) {
        let first_unchosen = self.engine.first_unchosen();
        if let Some(permit) = self.engine.permit() {
            paxos::invariant!(
                first_unchosen <= permit.next && permit.next <= permit.limit,
                "I8: {first_unchosen} unchosen, {permit:?}"
            );
            paxos::invariant!(
                permit.limit.0 <= permit.next.0.max(first_unchosen.0 + unchosen_bytes_max),
                "more than W unchosen: {first_unchosen}, {permit:?}"
            );
            paxos::invariant!(self.is_leading(), "a permit is a leader's: {permit:?}");
            if let PermitContent::Bound { holders, .. } = &permit.content {
                paxos::invariant!(!holders.is_empty(), "somebody accepted what is bound");
            }
        }
        self.check_replication();
        self.ingest.check_invariants();
    }
}
