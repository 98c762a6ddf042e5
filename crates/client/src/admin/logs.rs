//! Logs come, are looked at, and go.

use wire::LogKind;
use wire::told::{DeletedLog, LogDetails, LogInfo};

use crate::Client;
use crate::answer::Code;
use crate::asked::{AdminError, Json};
use crate::request::{NodeIds, Request};

/// The log that is to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewLog {
    /// The name.
    pub name: String,
    /// The nodes that host it; empty for all of the cluster, also those that join.
    pub members: Vec<u64>,
    /// Those of them that vote, and hold bytes only while others cannot.
    pub auxiliary: Vec<u64>,
    /// `10GiB`, `7d`, both as `10GiB,7d`; everything if there is none.
    pub retention: Option<String>,
    /// The number of full members that are to hold what is acknowledged; a majority decides if there is none.
    pub min_copies: Option<u32>,
    /// Its writers: clients, or a machine.
    pub kind: LogKind,
}

impl Client {
    /// Creates a log on all nodes.
    ///
    /// Errors: [`AdminError::Exists`] if there is one of that name. When an answer was lost and
    /// the next attempt finds the log, it counts as created by the lost one.
    pub fn create_log(&self, name: &str) -> Result<LogInfo, AdminError> {
        self.create_log_with(name, &[])
    }

    /// As [`Client::create_log`]; these nodes vote in the log and hold its bytes only while others
    /// cannot.
    pub fn create_log_with(&self, name: &str, auxiliary: &[u64]) -> Result<LogInfo, AdminError> {
        self.create_new_log(&NewLog {
            name: name.to_owned(),
            auxiliary: auxiliary.to_vec(),
            ..NewLog::default()
        })
    }

    /// As [`Client::create_log`], with all that can be said of a log.
    ///
    /// Errors: [`AdminError::Refused`] if the cluster has no such members, or the auxiliary ones
    /// have half of the votes or more.
    pub fn create_new_log(&self, new: &NewLog) -> Result<LogInfo, AdminError> {
        let name = &new.name;
        let request = Request::CreateLog {
            name: name.clone(),
            members: NodeIds(new.members.clone()),
            auxiliary: NodeIds(new.auxiliary.clone()),
            retention: new.retention.clone(),
            min_copies: new.min_copies,
            kind: new.kind,
        };
        let asked = self.cluster.ask(&request, self.deadline())?;
        match asked.answer {
            Err(refusal) if refusal.code == Code::Exists && !asked.answer_lost => {
                return Err(AdminError::Exists { name: name.clone() });
            }
            Err(refusal) if refusal.code != Code::Exists => {
                return Err(AdminError::refused(asked.server, refusal));
            }
            // Other nodes may not have heard of it yet: what is said here is enough.
            Ok(json) => {
                if let Ok(created) = serde_json::from_str::<LogInfo>(&json) {
                    check_name(&asked.server, name, &created.name)?;
                    return Ok(created);
                }
            }
            Err(_) => {}
        }
        let created = self.logs()?.into_iter().find(|log| log.name == *name);
        created.ok_or_else(|| AdminError::UnknownLog { log: name.clone() })
    }

    /// The directory's entry of a log, as chosen at the time of the call.
    pub fn log(&self, name: &str) -> Result<LogDetails, AdminError> {
        let request = Request::ShowLog {
            name: name.to_owned(),
        };
        let asked = self.cluster.ask(&request, self.deadline())?;
        match &asked.answer {
            Err(refusal) if refusal.code == Code::UnknownLog => Err(unknown(name)),
            _ => asked.json(),
        }
    }

    /// Deletes a log with all its bytes, for good. Returns once that is chosen; each node then
    /// frees its files by itself.
    ///
    /// Errors: [`AdminError::UnknownLog`] if there is none of that name. When an answer was lost and
    /// the next attempt finds no log, it counts as deleted by the lost one.
    ///
    /// [`AdminError::NotInForce`] if it is agreed and the log has not ended, because it has no leader that
    /// could: until then its name is taken, and nothing is acknowledged under it.
    pub fn delete_log(&self, name: &str) -> Result<DeletedLog, AdminError> {
        self.ask_to_delete(name, false)
    }

    /// Frees the name of a log that cannot end. On the other side of whatever keeps its nodes away, its leader
    /// may go on acknowledging appends to it, which are lost.
    pub fn abandon_log(&self, name: &str) -> Result<DeletedLog, AdminError> {
        self.ask_to_delete(name, true)
    }

    fn ask_to_delete(&self, name: &str, abandon: bool) -> Result<DeletedLog, AdminError> {
        let request = Request::DeleteLog {
            name: name.to_owned(),
            abandon,
        };
        let asked = self.cluster.ask(&request, self.deadline())?;
        match &asked.answer {
            Err(refusal) if refusal.code == Code::UnknownLog && asked.answer_lost => {
                Ok(DeletedLog {
                    id: None,
                    name: name.to_owned(),
                })
            }
            Err(refusal) if refusal.code == Code::UnknownLog => Err(unknown(name)),
            _ => {
                let server = asked.server.clone();
                let deleted: DeletedLog = asked.json()?;
                check_name(&server, name, &deleted.name)?;
                Ok(deleted)
            }
        }
    }
}

/// What was done to another log was not asked for.
fn check_name(server: &str, asked: &str, told: &str) -> Result<(), AdminError> {
    match asked == told {
        true => Ok(()),
        false => Err(AdminError::Garbled {
            server: server.to_owned(),
            what: format!("it was asked about {asked:?}, and tells of {told:?}"),
        }),
    }
}

fn unknown(name: &str) -> AdminError {
    AdminError::UnknownLog {
        log: name.to_owned(),
    }
}
