//! Warnings as `status` shows them: a sentence, and a remedy.

use std::time::Duration;

use commands::{Halted, Replica};
use formats::LogId;
use paxos::NodeId;
use replica::Env;
use serde::Serialize;
use wire::quantity;

use super::board::Posted;
use super::causes::{LACKS_TLS, LACKS_TOKENS};
use super::{Board, Code, State, Warning};
use crate::counts::micros;
use crate::directory::Directory;
use crate::hosted::HostedLogs;
use crate::logs::Logs;
use crate::peers::Peers;

/// The health shown in `status`.
#[derive(Serialize)]
pub(crate) struct Health {
    pub state: State,
    /// The worst first.
    pub warnings: Vec<Shown>,
}

#[derive(Serialize)]
pub(crate) struct Shown {
    pub code: &'static str,
    /// The state in which it puts the whole.
    pub state: State,
    /// It is so now; else it was so within the last ten seconds.
    pub active: bool,
    /// The time for which it has been known.
    pub for_ms: u64,
    /// The node whose word it is.
    pub by: u32,
    pub node: Option<u32>,
    /// The other one of a pair.
    pub with: Option<u32>,
    /// The first log that it concerns, and how many there are.
    pub log: Option<String>,
    pub logs: u32,
    /// Bytes, microseconds or a count.
    pub amount: u64,
    pub sentence: String,
    pub remedy: String,
}

/// The names that this node knows: with them it makes sentences of warnings.
pub(crate) struct View<'a> {
    pub board: &'a Board,
    pub env: &'a Env,
    pub logs: &'a Logs,
    pub peers: &'a Peers,
    pub directory: &'a Replica<Directory>,
    pub hosted: &'a HostedLogs,
    /// The sentence that says what a log's change of members waits for.
    pub waits_for: &'a dyn Fn(LogId) -> Option<String>,
}

impl View<'_> {
    pub fn health(&self) -> Health {
        let posted = self.board.posted(self.env.own.identity.node);
        Health {
            state: posted.iter().map(|p| p.state).max().unwrap_or_default(),
            warnings: posted.iter().map(|posted| self.shown(posted)).collect(),
        }
    }

    fn shown(&self, posted: &Posted) -> Shown {
        let warning = &posted.held.warning;
        let some = |node: NodeId| (node != NodeId(0)).then_some(node.0);
        let now = self.env.now;
        let sentence = self.sentence(posted.by, warning);
        Shown {
            code: warning.code.name(),
            state: posted.state,
            active: posted.held.is_active,
            for_ms: micros(now - posted.held.since) / 1000,
            by: posted.by.0,
            node: some(warning.about),
            with: some(warning.with),
            log: (warning.logs > 0).then(|| self.log_name(warning.log)),
            logs: warning.logs,
            amount: warning.amount,
            sentence: match posted.held.is_active {
                true => sentence,
                false => format!("resolved: {sentence}"),
            },
            remedy: self.remedy(warning),
        }
    }

    fn log_name(&self, id: LogId) -> String {
        let here = self.logs.get(&id).map(|log| log.name().to_owned());
        let listed = || Some(self.directory.logs.get(&id)?.name.clone());
        here.or_else(listed).unwrap_or_else(|| format!("log {id}"))
    }

    fn logs_of(&self, warning: &Warning) -> String {
        let name = self.log_name(warning.log);
        match warning.logs {
            0 | 1 => name,
            2 => format!("{name} and one more log"),
            more => format!("{name} and {} more logs", more - 1),
        }
    }

    fn node_at(&self, node: NodeId) -> String {
        let known = self.env.peers.addresses.get(&node).map(String::as_str);
        let own = (node == self.env.own.identity.node).then_some(self.env.own.advertise.as_str());
        let listed = || Some(self.directory.nodes.get(&node)?.address.as_str());
        match known.or(own).or_else(listed) {
            Some(address) => format!("node {node} at {address}"),
            None => format!("node {node}"),
        }
    }

    /// Whether a node's disk is full, as far as this one knows.
    fn is_full(&self, node: NodeId) -> bool {
        match node == self.env.own.identity.node {
            true => self.env.room.own_is_full,
            false => self.env.room.full_peers.contains(&node),
        }
    }

    /// The reason why a peer's directory is refused here.
    fn old_copy_of(&self, node: NodeId) -> Option<&str> {
        self.peers.get(node)?.admission.old_copy()
    }

    /// The fact that this node's replicas know to be chosen and another one contradicts.
    fn contradiction(&self, node: NodeId) -> Option<&str> {
        let own = node == self.env.own.identity.node;
        let mut logs = self
            .logs
            .values()
            .filter(|log| own && log.is_contradicted());
        logs.find_map(|log| log.stopped())
    }

    /// The reason why this node follows the directory no more, if it is the one that is meant.
    fn halted_at(&self, node: NodeId) -> Option<&Halted> {
        let own = node == self.env.own.identity.node;
        self.directory.halted().filter(|_| own)
    }

    fn sentence(&self, by: NodeId, warning: &Warning) -> String {
        let about = self.node_at(warning.about);
        let logs = self.logs_of(warning);
        let by = format!("node {by}");
        let time = quantity::time(Duration::from_micros(warning.amount));
        let amount = warning.amount;
        match warning.code {
            Code::Election => format!("{by} sees an election in {logs}"),
            Code::NoLeader => format!(
                "{by} sees no leader for {logs}: appends stop, and only `logberg read --from-node ID` still reads"
            ),
            Code::LeaderFlapping => {
                format!("{logs} changed its leader three times within a minute")
            }
            Code::NodeUnreachable => match self.old_copy_of(warning.about) {
                Some(why) => {
                    format!("{about} is silent, and what claims to be it is refused: {why}")
                }
                None => format!("{about} is silent"),
            },
            Code::PairCannotTalk => {
                let other = self.node_at(warning.with);
                format!("{about} and {other} do not hear each other, though others hear both")
            }
            Code::NodeRefused => {
                let peer = self.peers.get(warning.about);
                let why = peer.and_then(|peer| peer.way.refuses_us());
                let why = why.map_or(String::new(), |why| format!(": {why}"));
                format!("what answers at the address of {about} refuses {by}{why}")
            }
            Code::DiskSlow => format!("a write to the disk of {about} took {time} ({logs})"),
            Code::DiskStalled if self.is_full(warning.about) => format!(
                "the disk of {about} is full: a write has waited for room for {time} ({logs})"
            ),
            Code::DiskStalled => {
                format!("the disk of {about} has not finished a write for {time} ({logs})")
            }
            Code::DiskFull if warning.logs > 0 => {
                format!(
                    "the disk of {about} is almost full ({} free): appends to {logs} are refused",
                    quantity::shown(amount)
                )
            }
            Code::DiskFull => {
                format!(
                    "the disk of {about} is almost full ({} free): it stores nothing more of logs that other nodes can store",
                    quantity::shown(amount)
                )
            }
            Code::ReplicaStopped => match self.contradiction(warning.about) {
                Some(why) => format!("the replica of {logs} on {about} stopped: {why}"),
                None => format!(
                    "the replica of {logs} on {about} stopped: its disk failed or was full, or another one contradicts it"
                ),
            },
            Code::BytesNotEverywhere => {
                format!(
                    "{about} is {} behind on {logs} (last report)",
                    quantity::shown(amount)
                )
            }
            Code::QuorumAtRisk => {
                format!("{logs}: losing one more voter stops appends")
            }
            Code::FewCopies => {
                format!("{logs}: losing one voter stops appends")
            }
            Code::ZoneAtRisk => {
                let zone = self.directory.members.zones.get(&warning.about.0);
                let zone = zone.map_or("one zone".to_owned(), |zone| format!("the zone {zone}"));
                format!(
                    "half or more of the votes for {logs} are in {zone}: losing it stops appends"
                )
            }
            Code::ReplicaSlow => format!(
                "{about} takes {time} to accept appends to {logs}, much longer than the others"
            ),
            Code::ProcessPaused => format!("the process of {by} was paused for {time}"),
            Code::VersionHeldBack => format!(
                "the cluster cannot move to a newer version: it waits for {about}, which is silent"
            ),
            Code::ChangeHeldUp => {
                match (self.waits_for)(warning.log).filter(|why| !why.is_empty()) {
                    Some(why) => format!("the change of members of {logs} waits: {why}"),
                    None => format!("the change of members of {logs} waits; {by} knows for what"),
                }
            }
            Code::HostsDown => {
                format!("{by} hears too few running replicas of {logs}")
            }
            Code::NotJoined => "this node has not joined its cluster yet".to_owned(),
            Code::Removed => format!("{about} was removed from the cluster"),
            Code::ConnectionsCrowded => {
                format!("{by} has {amount} connections, which is close to its limit")
            }
            Code::ReplicasDiffer => {
                format!("nodes hold different bytes of {logs}, though every checksum is right")
            }
            Code::StatesDiffer => format!(
                "{about} and the leader of {logs} applied the same and hold different rows: one of the two states is wrong"
            ),
            Code::StateLost => {
                format!(
                    "no reachable node has the complete state of {logs}: nothing of it is served"
                )
            }
            Code::MachineMissing => format!(
                "{about} leads {logs} and its program has no machine there: nothing of it is served"
            ),
            Code::RestoreStopped => format!(
                "a restore of {logs} was begun and goes no further: nothing of it is served"
            ),
            Code::CertificateExpires => {
                let days = amount / 86_400_000_000;
                format!(
                    "the certificate of {about} ends in {days} days: then nobody believes it any more"
                )
            }
            Code::CertificateExpired => format!(
                "the certificate of {about} has expired: clients refuse it, and other nodes once their connections end"
            ),
            Code::PlainConnections => format!(
                "{about} takes plain text beside TLS, and somebody spoke it within the last ten minutes"
            ),
            Code::PlainIsPrivate => format!(
                "other machines reach {about} in plain text, which is taken to have been encrypted on the way: nothing here looks at that"
            ),
            Code::Insecure => {
                let lacks = match amount {
                    LACKS_TLS => "nothing that they say is encrypted",
                    LACKS_TOKENS => "anyone who reaches it may do all",
                    _ => "nothing that they say is encrypted, and anyone who reaches it may do all",
                };
                format!("other machines reach {about}: {lacks}")
            }
            Code::NamesNotBound => {
                let more = match amount {
                    0 | 1 => String::new(),
                    all => format!(" and {} more", all - 1),
                };
                format!(
                    "{by} takes nodes by certificates alone, and the names of {about}{more} are not bound to their ids: any node's certificate is good for them"
                )
            }
            Code::TooFewCopies => {
                let entry = self.directory.logs.get(&warning.log);
                let wanted = entry.map_or(0, |entry| entry.min_copies);
                match warning.logs {
                    1 => format!(
                        "{logs} wants {wanted} copies of what it acknowledges, and {amount} of its voters are there and hold all of it: appends to it are refused"
                    ),
                    _ => format!(
                        "fewer voters hold all of {logs} than these want copies: appends to them are refused"
                    ),
                }
            }
            Code::NotInForce => format!(
                "what was agreed for {logs} is not in force yet: no leader of it has received it"
            ),
            Code::CommandsHalted => match self.halted_at(warning.about) {
                Some(why) => format!("{about} no longer applies {logs}: {why}"),
                None => {
                    format!("{about} no longer applies {logs}; `logberg status` there says why")
                }
            },
            Code::StateHalted => {
                let own = warning.about == self.env.own.identity.node;
                match self.hosted.halted().find(|_| own) {
                    Some((_, why)) => {
                        format!("{about} no longer updates the state of {logs}: {why}")
                    }
                    None => format!(
                        "{about} no longer updates the state of {logs}; `logberg status` there says why"
                    ),
                }
            }
            Code::BytesLost => format!(
                "{} of {logs} were committed and are lost: {about} lacks them, and all other members report the same",
                quantity::shown(amount)
            ),
        }
    }

    fn remedy(&self, warning: &Warning) -> String {
        let id = warning.about;
        let text = match warning.code {
            Code::Election => {
                "it settles by itself; if it comes again, check node load and network"
            }
            Code::NoLeader => {
                "start or reconnect the silent nodes; if most are lost for good: logberg recover"
            }
            Code::LeaderFlapping => {
                "look for a slow disk, a loaded machine or a lossy network at those that led"
            }
            Code::NodeUnreachable if self.old_copy_of(warning.about).is_some() => {
                return format!(
                    "do not start that directory again: put the newer one back and start it; if it is lost for good: logberg members replace {id} NEW"
                );
            }
            Code::NodeUnreachable => {
                return format!(
                    "start it, or reconnect it; if it alone is lost for good: logberg members replace {id} NEW"
                );
            }
            Code::PairCannotTalk => {
                "check network and firewall between the two, and what each advertises"
            }
            Code::NodeRefused => {
                "start the right directory at that address, or correct it: logberg members address ID HOST:PORT"
            }
            Code::DiskSlow => "check what else uses that disk",
            Code::DiskStalled if self.is_full(warning.about) => {
                "free space there: what waits is then written, and the node goes on by itself"
            }
            Code::DiskStalled => {
                return format!(
                    "replace the disk if it does not come back; then: logberg members replace {id} NEW"
                );
            }
            Code::DiskFull => {
                "free space there, or, of logs that clients write: logberg trim LOG --before PLACE, or: logberg log retain LOG SIZE"
            }
            Code::ReplicaStopped if self.contradiction(id).is_some() => {
                "stop both nodes, keep both directories, and see docs/first-aid.md: two histories of one log"
            }
            Code::ReplicaStopped => {
                return format!(
                    "repair the disk or make space there, and restart the node; if the disk is lost: logberg members replace {id} NEW"
                );
            }
            Code::BytesNotEverywhere => {
                "keep that node running: it catches up by itself, as far as a reachable node has the bytes"
            }
            Code::TooFewCopies => {
                "start or reconnect that log's voters and wait until they have caught up; to do with fewer copies: logberg log set NAME --min-copies N"
            }
            Code::RestoreStopped => {
                "run the restore again with the same backup, which goes on where it stopped; or delete the log: logberg log delete NAME"
            }
            Code::CertificateExpires | Code::CertificateExpired => {
                "put a new one, of the same name, in its --tls-dir: it is read within ten seconds, and at SIGHUP (logberg certs node NAME --again, or whatever gives certificates out)"
            }
            Code::PlainConnections => {
                "give --ca to the clients that lack it; once none is left: start each node with --tls require"
            }
            Code::Insecure => {
                "--tls and --tls-dir encrypt, logberg auth enable asks for tokens (docs/security.md); if all who reach it are friends, this warning says so"
            }
            Code::PlainIsPrivate => {
                "let nothing but that mesh or proxy reach it (a network policy, a firewall); --tls require in its place ends this warning"
            }
            Code::NamesNotBound => "logberg members bind, once all nodes run with --tls",
            Code::NotInForce => {
                "start or reconnect that log's nodes: it then takes effect by itself; a log that is to be deleted and cannot come back: logberg log delete NAME --abandon"
            }
            Code::CommandsHalted => {
                "start that node as the newest program; if it says the same: keep all directories, and see docs/operations.md: commands-halted"
            }
            Code::StateHalted => {
                "do what its sentence says, and start that node again; nodes that do not say so go on meanwhile"
            }
            Code::StatesDiffer => {
                "logberg status --json shows the marks of all nodes: stop the node whose mark is alone, remove that log's directory below state/ there, and start it: it copies another's"
            }
            Code::StateLost => {
                "start the silent nodes that host it, with the directories that they had; if the state is nowhere any more: logberg log delete NAME, and restore a backup (docs/operations.md: state-lost)"
            }
            Code::MachineMissing => {
                "groups of keys: start that node with --kv HOST:PORT; other machines: run the program that embeds them there; until then: logberg leader move NAME --to ID, to a node that has one"
            }
            Code::BytesLost => {
                "if a copy of them is elsewhere (a backup, a disk that was taken away), save it; logberg streams and logberg read say which bytes can still be read"
            }
            Code::QuorumAtRisk => "start the silent voters before anything else is taken down",
            Code::FewCopies => {
                "start more nodes with --join; where members were changed by hand, then: logberg members add ID"
            }
            Code::ZoneAtRisk => "move weight to other zones: logberg members replace OLD NEW",
            Code::ReplicaSlow => "check its disk and its network",
            Code::ProcessPaused => {
                "look for a stopped process, a paused machine or one without memory"
            }
            Code::VersionHeldBack => {
                return format!(
                    "start it as the newer program; if it is lost for good: logberg members remove {id}"
                );
            }
            Code::ChangeHeldUp => "logberg members shows the steps; do what its sentence says",
            Code::HostsDown => {
                "start those nodes (logberg log show NAME lists them), and those again whose replicas stopped"
            }
            Code::NotJoined => "start a node of the cluster that --join names, or correct --join",
            Code::Removed => {
                "stop it; to come back it joins anew, with --join and an empty directory"
            }
            Code::ConnectionsCrowded => {
                "let clients share connections, or raise the limit on open files"
            }
            Code::ReplicasDiffer => {
                "logberg scrub --wait names the range: read it at each node, and replace the one that is wrong"
            }
        };
        text.to_owned()
    }
}
