//! Opening a stream: the first of a chain, or one that continues the chain after a loss.

use std::sync::Arc;
use std::time::Instant;

use super::{AppendError, AppendOptions};
use crate::answer::{Answer, Code, Refusal};
use crate::cluster::{Cluster, Said, Search, elsewhere};
use crate::connection::Connection;
use crate::line::{StreamName, StreamPlace};
use crate::lookout::{Lookout, OWED, SIGN_OF_LIFE};
use crate::request::{ConnectionEnd, Mode, Request};

/// An open stream and the connection that writes it.
pub(super) struct Opened {
    pub connection: Connection,
    pub server: String,
    pub name: StreamName,
    /// The chain position at which it begins.
    pub at: u64,
}

/// What all streams of one chain have in common.
pub(super) struct Chain {
    pub log: String,
    pub label: Option<String>,
    pub mode: Mode,
}

impl Chain {
    pub fn request(&self, continues: Option<StreamPlace>, mode: Mode) -> Request {
        Request::Append {
            log: self.log.clone(),
            label: self.label.clone(),
            continues,
            mode,
            end: ConnectionEnd::Cut,
        }
    }

    /// The refusals that mean the same whenever they come.
    pub fn final_error(&self, server: &str, refusal: Refusal) -> AppendError {
        let log = self.log.clone();
        match refusal.code {
            Code::UnknownLog => AppendError::UnknownLog { log },
            Code::Superseded => AppendError::Superseded {
                by: refusal.value("stream"),
            },
            Code::Busy => AppendError::Busy {
                log,
                stream: refusal.value("stream"),
            },
            Code::Full => AppendError::Full {
                server: server.to_owned(),
                disks: refusal.value("disks"),
            },
            _ => AppendError::Refused {
                server: server.to_owned(),
                refusal,
            },
        }
    }
}

/// What came of asking one server to open a stream.
pub(super) enum Attempt {
    Opened(Opened),
    /// Nothing was opened there.
    Elsewhere(Said),
    /// The question may have been understood, and the stream be open, but no answer came.
    Unknown(Said),
    Refused(Refusal),
}

/// Asks `server` once. `connected` sees the connection before anything is waited for;
/// `waiting` is called when the server says that it waits for another writer.
pub(super) fn attempt(
    cluster: &Arc<Cluster>,
    lookout: &mut Lookout,
    server: &str,
    request: &Request,
    connected: impl FnOnce(&Connection),
    mut waiting: impl FnMut(),
) -> Attempt {
    let silence = cluster.timeouts.silence;
    let mut connection = match cluster.reach(server) {
        Ok(connection) => connection,
        Err(said) => return Attempt::Elsewhere(said),
    };
    connected(&connection);
    if let Err(error) = connection.ask(request, silence) {
        return Attempt::Unknown(Said::from(&error));
    }
    let mut patience = OWED;
    loop {
        let deadline = Some(Instant::now() + silence);
        match lookout.answer(server, &mut connection, patience, deadline) {
            Ok(Answer::Waiting) => {
                patience = SIGN_OF_LIFE;
                waiting();
            }
            Ok(Answer::Stream { name, at }) => {
                if let Request::Append { log, .. } = request {
                    cluster.leads(server, log, name.owner);
                }
                return Attempt::Opened(Opened {
                    connection,
                    server: server.to_owned(),
                    name,
                    at,
                });
            }
            Ok(Answer::Error(refusal)) => {
                // A node that stopped leading in the middle names the stream that may be open.
                let began = refusal.value::<StreamName>("stream").is_some();
                return match elsewhere(&refusal) {
                    Some(said @ (Said::NoQuorum | Said::ShuttingDown)) => Attempt::Unknown(said),
                    Some(said) if began => Attempt::Unknown(said),
                    Some(said) => Attempt::Elsewhere(said),
                    None if cluster.misunderstood(server, &connection, &refusal) => {
                        Attempt::Elsewhere(Said::Lost)
                    }
                    None => Attempt::Refused(refusal),
                };
            }
            Ok(other) => {
                let what = other.to_line().trim_end().to_owned();
                return Attempt::Unknown(Said::Garbled(what));
            }
            Err(no_line) => return Attempt::Unknown(Said::from(&no_line)),
        }
    }
}

/// Opens the first stream of an appender.
pub(super) fn open(
    cluster: &Arc<Cluster>,
    log: &str,
    options: &AppendOptions,
) -> Result<Opened, AppendError> {
    let chain = Chain {
        log: log.to_owned(),
        label: options.label.clone(),
        mode: options.mode,
    };
    let request = chain.request(options.continues, options.mode);
    let total = cluster.timeouts.total;
    let mut deadline = Instant::now() + total;
    let mut search = Search::new(cluster);
    let mut lookout = Lookout::new(cluster.clone(), log);
    let mut answer_lost = false;
    let mut busy = None;
    loop {
        let server = match search.next(deadline) {
            Ok(server) => server,
            Err(unreachable) => return Err(busy.unwrap_or(unreachable.into())),
        };
        let waiting = || deadline = Instant::now() + total;
        let refusal = match attempt(cluster, &mut lookout, &server, &request, |_| {}, waiting) {
            Attempt::Opened(opened) => return Ok(opened),
            Attempt::Refused(refusal) => refusal,
            Attempt::Elsewhere(said) => {
                search.said(&server, said);
                continue;
            }
            Attempt::Unknown(said) => {
                answer_lost = true;
                search.said(&server, said);
                continue;
            }
        };
        match (refusal.code.clone(), options.continues) {
            // The active writer may be our own attempt, whose connection the node still has to
            // miss. It holds no bytes; it will be cut, and stay empty.
            (Code::Busy, _) if answer_lost => {
                search.said(&server, Said::Busy);
                busy = Some(chain.final_error(&server, refusal));
            }
            (Code::Continues, Some(place)) => {
                return Err(AppendError::Continues {
                    place,
                    length: refusal.value("length").unwrap_or(0),
                    by: refusal.value("by"),
                });
            }
            (Code::UnknownStream, Some(place)) => {
                return Err(AppendError::UnknownStream {
                    stream: place.stream,
                });
            }
            _ => return Err(chain.final_error(&server, refusal)),
        }
    }
}
