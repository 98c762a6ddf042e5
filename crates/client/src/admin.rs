//! The questions about a cluster.

use std::sync::Arc;
use std::time::Instant;

use crate::Client;
use crate::answer::Code;
use crate::asked::Json;
use crate::cluster::Cluster;
use crate::line::StreamName;
use crate::listed;
use crate::request::{Before, Request};

mod heard;
mod logs;
mod scrub;
mod tokens;

pub use crate::asked::AdminError;
pub use heard::Heard;
pub use logs::NewLog;
pub use tokens::NewToken;
pub use wire::change_slots::{ChangeSlots, SlotsVerb};
pub use wire::told::{
    Altered, Continues, DeletedLog, Health, LogDetails, LogInfo, LogStatus, NodeStatus, PeerStatus,
    Retained, ScrubDifference, ScrubReport, ScrubView, SlotsChanged, SlotsGroup, SlotsMove,
    SlotsPart, SlotsTold, SlotsUnderWay, State, Status, StreamEnd, StreamInfo, Trimmed, Warning,
    Weight,
};
pub use wire::told::{AuthTold, ChangeTold, Explained, IssuerTold, TokenTold, WhoTold};

/// The part of a list that is wanted; the default is all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<T> {
    /// It begins behind this one.
    pub after: Option<T>,
    /// It names so many at most, and at least one.
    pub limit: Option<u64>,
}

impl<T> Default for Part<T> {
    fn default() -> Self {
        let (after, limit) = (None, None);
        Self { after, limit }
    }
}

impl Cluster {
    pub(crate) fn streams(
        self: &Arc<Self>,
        log: &str,
        part: Part<StreamName>,
        deadline: Instant,
    ) -> Result<Vec<StreamInfo>, AdminError> {
        let request = Request::Streams {
            log: log.to_owned(),
            stale: false,
            after: part.after,
            limit: part.limit,
        };
        let asked = self.ask(&request, deadline)?;
        if asked
            .answer
            .as_ref()
            .is_err_and(|refusal| refusal.code == Code::UnknownLog)
        {
            return Err(AdminError::UnknownLog {
                log: log.to_owned(),
            });
        }
        let server = asked.server.clone();
        let streams: Vec<StreamInfo> = asked.json()?;
        match listed::contradiction(streams.iter()) {
            Some(what) => Err(AdminError::Garbled { server, what }),
            None => Ok(streams),
        }
    }
}

/// Whether it is the word of a node that is of its cluster no more.
fn is_removed(status: &Status) -> bool {
    let mut warnings = status.health.warnings.iter();
    warnings.any(|warning| warning.code == "removed")
}

impl Client {
    /// The cluster as the first server that answers sees it.
    ///
    /// Errors: [`AdminError::Unreachable`] when none does within `timeouts.total`.
    pub fn status(&self) -> Result<Status, AdminError> {
        let status = self.any_status()?;
        if !is_removed(&status) {
            return Ok(status);
        }
        // It knows nothing any more, and may know who does.
        let others = self.servers();
        let told = status.nodes.iter().map(|node| node.address.clone());
        let mut others: Vec<String> = others.into_iter().chain(told).collect();
        others.retain(|server| *server != status.address);
        let deadline = self.deadline();
        let mut asked = others.iter().filter_map(|server| {
            let other = self.cluster.ask_for_status(server, deadline)?;
            (other.cluster == status.cluster && !is_removed(&other)).then_some(other)
        });
        Ok(asked.next().unwrap_or(status))
    }

    fn any_status(&self) -> Result<Status, AdminError> {
        let request = Request::Status { fresh: false };
        self.cluster.ask(&request, self.deadline())?.json()
    }

    /// As [`Client::status`], by a server that knows all that the directory has chosen when it is asked.
    ///
    /// Errors: [`AdminError::Unreachable`] when none can know that, because the directory has no quorum;
    /// [`AdminError::Refused`] by a server whose program is older than the question.
    pub fn fresh_status(&self) -> Result<Status, AdminError> {
        let request = Request::Status { fresh: true };
        self.cluster.ask(&request, self.deadline())?.json()
    }

    /// The figures of one server, as docs/wire.md has them; no other is asked.
    pub fn metrics_of(&self, server: &str) -> Result<serde_json::Value, AdminError> {
        let only = self.cluster.only(server);
        let only = Arc::new(only);
        only.ask(&Request::Metrics, self.deadline())?.json()
    }

    /// The cluster as one server sees it; no other is asked.
    pub fn status_of(&self, server: &str) -> Result<Status, AdminError> {
        let only = self.cluster.only(server);
        let client = Client {
            cluster: Arc::new(only),
        };
        client.any_status()
    }

    /// The streams of a log in the order of their opening. Each is as it was chosen at the time of the
    /// call or since; a list that is long is not of one moment.
    pub fn streams(&self, log: &str) -> Result<Vec<StreamInfo>, AdminError> {
        self.streams_part(log, Part::default())
    }

    /// A part of [`Client::streams`]: those opened after a stream, the first of these, or both. Programs of
    /// version 0.1.0 refuse to answer for a part.
    ///
    /// Errors: [`AdminError::Refused`] if the stream to begin after is not there, or not any more.
    pub fn streams_part(
        &self,
        log: &str,
        part: Part<StreamName>,
    ) -> Result<Vec<StreamInfo>, AdminError> {
        self.cluster.streams(log, part, self.deadline())
    }

    /// The logs of the cluster, in the order of their ids, as chosen at the time of the call.
    pub fn logs(&self) -> Result<Vec<LogInfo>, AdminError> {
        self.logs_part(Part::default())
    }

    /// A part of [`Client::logs`]: those with an id above `after`, the first of these, or both.
    pub fn logs_part(&self, part: Part<u64>) -> Result<Vec<LogInfo>, AdminError> {
        let Part { after, limit } = part;
        let request = Request::Logs {
            stale: false,
            after,
            limit,
        };
        self.cluster.ask(&request, self.deadline())?.json()
    }

    /// As [`Client::logs_part`], as the first server that answers has read so far: the directory needs no quorum
    /// for it, and what is said may be old.
    pub fn stale_logs_part(&self, part: Part<u64>) -> Result<Vec<LogInfo>, AdminError> {
        let Part { after, limit } = part;
        let request = Request::Logs {
            stale: true,
            after,
            limit,
        };
        self.cluster.ask(&request, self.deadline())?.json()
    }

    /// Sets the retention of a log: `10GiB`, `7d`, both as `10GiB,7d`, or `forever`. Its leader trims the
    /// excess, now and then.
    ///
    /// Errors: [`AdminError::Refused`] if `retention` is no such text.
    pub fn retain(&self, log: &str, retention: &str) -> Result<Retained, AdminError> {
        self.set_log(log, Some(retention), None)
    }

    /// Sets what is said: the retention of a log, and the number of full members that hold what it acknowledges.
    ///
    /// Errors: [`AdminError::Refused`] if the log has no such number of full members.
    pub fn set_log(
        &self,
        log: &str,
        retention: Option<&str>,
        min_copies: Option<u32>,
    ) -> Result<Retained, AdminError> {
        let log = log.to_owned();
        let request = Request::Retain {
            log: log.clone(),
            retention: retention.map(str::to_owned),
            min_copies,
        };
        let asked = self.cluster.ask(&request, self.deadline())?;
        match &asked.answer {
            Err(refusal) if refusal.code == Code::UnknownLog => Err(AdminError::UnknownLog { log }),
            _ => asked.json(),
        }
    }

    /// Which group of keys is to serve which slots, and which one does; or what an earlier version of the map wanted.
    ///
    /// Errors: [`AdminError::Refused`] if that version is not known any more.
    pub fn slots(&self, version: Option<u32>) -> Result<SlotsTold, AdminError> {
        let request = Request::Slots { version };
        self.cluster.ask(&request, self.deadline())?.json()
    }

    /// Changes which group of keys is to serve which slots. Returns once that is chosen; the groups then hand slots over by themselves.
    ///
    /// Errors: [`AdminError::Refused`] if there is no such group, or the map has another version.
    pub fn change_slots(&self, change: &ChangeSlots) -> Result<SlotsChanged, AdminError> {
        let request = Request::ChangeSlots(change.clone());
        self.cluster.ask(&request, self.deadline())?.json()
    }

    /// Forgets everything before a place, on every node. Returns once that is chosen; each node then frees
    /// its files by itself. A trim of forgotten bytes may be asked for again.
    ///
    /// Errors: [`AdminError::Refused`] if there is no such stream, or it is shorter.
    pub fn trim(&self, log: &str, before: Before) -> Result<Trimmed, AdminError> {
        self.ask_to_trim(log, before, false)
    }

    /// The outcome that [`Client::trim`] would have now. Nothing is changed.
    pub fn plan_trim(&self, log: &str, before: Before) -> Result<Trimmed, AdminError> {
        self.ask_to_trim(log, before, true)
    }

    fn ask_to_trim(&self, log: &str, before: Before, plan: bool) -> Result<Trimmed, AdminError> {
        let log = log.to_owned();
        let request = Request::Trim {
            log: log.clone(),
            before,
            plan,
        };
        let asked = self.cluster.ask(&request, self.deadline())?;
        match &asked.answer {
            Err(refusal) if refusal.code == Code::UnknownLog => Err(AdminError::UnknownLog { log }),
            _ => asked.json(),
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.cluster.timeouts.total
    }
}
