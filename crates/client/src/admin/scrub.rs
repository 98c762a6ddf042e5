//! Scrubs: what lies on the disks is read and compared before somebody needs it.

use std::sync::Arc;

use wire::told::ScrubView;

use crate::Client;
use crate::answer::Code;
use crate::asked::{AdminError, Json};
use crate::request::Request;

impl Client {
    /// Begins a scrub of a log at its leader, whose address comes with the answer. One that somebody asked
    /// for before goes on instead.
    pub fn start_scrub(
        &self,
        log: &str,
        rate: Option<u64>,
    ) -> Result<(String, ScrubView), AdminError> {
        self.ask_for_scrub(log, true, rate)
    }

    /// The scrubs of a log at this server; no other is asked.
    pub fn scrub_at(&self, server: &str, log: &str) -> Result<ScrubView, AdminError> {
        let only = self.cluster.only(server);
        let client = Client {
            cluster: Arc::new(only),
        };
        client.ask_for_scrub(log, false, None).map(|(_, view)| view)
    }

    fn ask_for_scrub(
        &self,
        log: &str,
        start: bool,
        rate: Option<u64>,
    ) -> Result<(String, ScrubView), AdminError> {
        let log = log.to_owned();
        let request = Request::Scrub {
            log: log.clone(),
            start,
            rate,
        };
        let asked = self.cluster.ask(&request, self.deadline())?;
        let server = asked.server.clone();
        match &asked.answer {
            Err(refusal) if refusal.code == Code::UnknownLog => Err(AdminError::UnknownLog { log }),
            _ => Ok((server, asked.json()?)),
        }
    }
}
