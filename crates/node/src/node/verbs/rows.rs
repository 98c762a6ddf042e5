//! `save` and `fill`: all rows of a log's machine, and rows for an empty one.

use formats::LogId;
use wire::{Ask, LineError, Refusal};

use crate::directory::DIRECTORY;
use crate::greeting::Caller;
use crate::hosted::Wants;
use crate::node::Node;

impl Node {
    /// `save NAME`
    pub(super) fn save_rows(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let log = self.machines_log(caller)?;
        let here = self.logs.get_mut(&log);
        // ‡ As nobody copies what may be wrong, nobody saves it.
        if here.is_some_and(|here| here.port(&mut self.env).is_state_doubted()) {
            return Err(Refusal::new(
                "not-here",
                "the state here is not the same as another replica's, and may be the wrong one (`logberg status`): ask another node",
            ));
        }
        let conn = (log, caller.conn);
        self.hosted
            .begin_rows(conn, Wants::Rows, (&[], false), &mut self.env)
    }

    /// `fill NAME backup=HEX time=MS sessions=N`
    pub(super) fn fill_rows(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let log = self.machines_log(caller)?;
        let Ask::Fill {
            backup,
            time_ms,
            sessions,
            ..
        } = Ask::read(&caller.request)?
        else {
            return Err(LineError::NoVerb.into());
        };
        let wants = Wants::Room {
            backup: backup.0,
            time_ms,
            sessions,
        };
        let conn = (log, caller.conn);
        let rest = (&caller.rest[..], caller.ended);
        self.hosted.begin_rows(conn, wants, rest, &mut self.env)
    }

    fn machines_log(&self, caller: &Caller) -> Result<LogId, Refusal> {
        let id = self.log_named(&caller.request)?;
        caller.request.check()?;
        let kind = self.logs.get(&id).map(replica::Log::kind);
        match kind {
            Some(kind) if id != DIRECTORY && !kind.is_bytes() => Ok(id),
            _ => Err(Refusal::new(
                "bad-request",
                "this log holds bytes, and no machine's state",
            )),
        }
    }
}
