//! The rows of a machine: asked of a node that has them, and brought to the node that leads.
//!
//! ```text
//!  save   any node with a whole state: one after the other is asked, and the first that has one gives all of it
//!  fill   the leader. ‡ It says how far the state is filled; whoever leads next says so, too, and the restore goes on there
//! ```

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use wire::told::Saving;
use wire::{Ask, BackupId, Code};

use super::format::Identity;
use super::link::{Link, LinkError};
use super::restore::RestoreError;
use super::set::{AllRows, Backup, Stop, Wrong};
use super::take::TakeError;
use crate::{Client, Timeouts};

/// All were asked, and are asked again after so long.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The meaning of a refusal for who asks.
#[derive(Debug)]
enum Meaning {
    /// Another node is to be asked, or the same later.
    Elsewhere(Option<String>),
    /// This node cannot, whatever the others say.
    NotThis,
    /// No node will.
    Never,
}

fn meaning(error: &LinkError) -> Meaning {
    let refusal = match error {
        LinkError::Refused(refusal) => refusal,
        LinkError::Lost(_) => return Meaning::Elsewhere(None),
        LinkError::Garbled(_) => return Meaning::NotThis,
    };
    match &refusal.code {
        Code::NotLeader => Meaning::Elsewhere(refusal.value("leader")),
        Code::NoQuorum
        | Code::ShuttingDown
        | Code::NotHere
        | Code::Overloaded
        | Code::TooLate
        | Code::Full => Meaning::Elsewhere(None),
        Code::NoMachine | Code::BadRequest => Meaning::NotThis,
        _ => Meaning::Never,
    }
}

/// What a server said, for people.
fn said(server: &str, error: &LinkError) -> String {
    match error {
        LinkError::Refused(refusal) if refusal.sentence.contains("unknown verb") => format!(
            "{server} runs an older program, which knows nothing of machines' rows: ask nodes of this version"
        ),
        error => format!("{server}: {error}"),
    }
}

/// The servers to ask, in turn.
struct Round {
    servers: VecDeque<String>,
    tried: Vec<(String, bool)>,
}

impl Round {
    /// Errors of who is asked for more servers are passed over, and no answer is waited for behind `until`.
    fn of(client: &Client, until: Instant) -> Round {
        let mut servers: VecDeque<String> = client.servers().into();
        let timeouts = Timeouts {
            total: until.saturating_duration_since(Instant::now()),
            ..client.cluster.timeouts
        };
        let hasty = match client.cluster() {
            Some(cluster) => Client::of_cluster(client.servers(), &cluster, timeouts),
            None => Client::new(client.servers(), timeouts),
        };
        if let Ok(status) = hasty.status() {
            let alive = status.nodes.into_iter().filter(|node| node.alive);
            for node in alive {
                if !node.address.is_empty() && !servers.contains(&node.address) {
                    servers.push_back(node.address);
                }
            }
        }
        let tried = Vec::new();
        Round { servers, tried }
    }

    /// All that was said, and whether another try may bring more.
    fn outcome(&self) -> (String, bool) {
        let may_help = self.tried.is_empty() || self.tried.iter().any(|(_, may_help)| *may_help);
        let said: Vec<&str> = self.tried.iter().map(|(said, _)| said.as_str()).collect();
        (said.join("; "), may_help)
    }

    /// Takes a refusal. Errors: nobody else is to be asked.
    fn take(&mut self, server: &str, error: &LinkError) -> Result<(), String> {
        let said = said(server, error);
        let meaning = meaning(error);
        match &meaning {
            Meaning::Never => return Err(said),
            Meaning::Elsewhere(Some(leader)) => {
                self.servers.retain(|known| known != leader);
                self.servers.push_front(leader.clone());
            }
            Meaning::Elsewhere(None) | Meaning::NotThis => {}
        }
        let may_help = !matches!(meaning, Meaning::NotThis);
        self.tried.push((said, may_help));
        Ok(())
    }
}

impl Client {
    /// A node that gives all rows of the machine, as of one position. It waits until `until` for one that begins; each
    /// node has its share of that time, so that a silent one leaves some to the others.
    pub(super) fn ask_for_rows(
        &self,
        log: &str,
        cluster: &str,
        until: Instant,
    ) -> Result<(String, Link, Saving), TakeError> {
        let request = Ask::Save {
            log: log.to_owned(),
        };
        loop {
            let mut round = Round::of(self, until);
            while let Some(server) = round.servers.pop_front() {
                let left = until.saturating_duration_since(Instant::now());
                let share = left / (round.servers.len() as u32 + 1);
                let patience = (self.cluster.timeouts.connect, share);
                let asked = Link::ask(
                    &server,
                    &request,
                    Some(cluster),
                    &self.cluster.approach(),
                    patience,
                );
                let begun = asked.and_then(|mut link| {
                    let saving = link.saving()?;
                    // A node that falls silent between pages leaves half of the time to another one.
                    link.be_patient(self.cluster.timeouts.total / 2)?;
                    Ok((saving, link))
                });
                match begun {
                    Ok((saving, link)) => return Ok((server, link, saving)),
                    Err(error) => round.take(&server, &error).map_err(TakeError::Machine)?,
                }
            }
            let (said, may_help) = round.outcome();
            if !may_help {
                return Err(TakeError::Machine(said));
            }
            if Instant::now() >= until {
                return Err(TakeError::Nobody(said));
            }
            thread::sleep(AGAIN_AFTER);
        }
    }

    /// Fills an empty machine with the rows of a backup, which was read to its end before. `progress` hears how much of its newest part is done.
    pub(super) fn fill_rows(
        &self,
        log: &str,
        (backup, identity, saved): (&Backup, Identity, Saving),
        mut progress: impl FnMut(u64),
    ) -> Result<AllRows, RestoreError> {
        let request = Ask::Fill {
            log: log.to_owned(),
            backup: BackupId(identity),
            time_ms: saved.time_ms,
            sessions: saved.sessions,
        };
        let cluster = self.status()?.cluster;
        let mut until = self.deadline();
        let mut done = 0;
        // The end was said and its answer lost: a machine that was filled before was filled by this.
        let mut said_end = None;
        loop {
            let mut round = Round::of(self, until);
            // A leader that is named is asked next: not for ever.
            let mut tries = 4 * round.servers.len();
            while tries > 0
                && (round.tried.is_empty() || Instant::now() < until)
                && let Some(server) = round.servers.pop_front()
            {
                tries -= 1;
                // A page may wait for a majority's disks.
                let timeouts = self.cluster.timeouts;
                let patience = (timeouts.connect, timeouts.total);
                let link = Link::ask(
                    &server,
                    &request,
                    Some(&cluster),
                    &self.cluster.approach(),
                    patience,
                );
                let filled = link.map_err(RestoreError::from).and_then(|mut link| {
                    let progress = &mut |pages, read| {
                        if pages > done {
                            done = pages;
                            until = self.deadline();
                        }
                        progress(read);
                    };
                    fill(&mut link, (backup, identity), progress, &mut said_end)
                });
                let error = match filled {
                    Ok(all) => return Ok(all),
                    Err(RestoreError::Link(error)) => error,
                    Err(error) => return Err(error),
                };
                if let LinkError::Refused(refusal) = &error {
                    match refusal.code {
                        Code::NotEmpty => return Err(RestoreError::NotEmpty(error.to_string())),
                        Code::FilledBefore => {
                            return said_end.ok_or(RestoreError::FilledBefore(error.to_string()));
                        }
                        _ => {}
                    }
                }
                round.take(&server, &error).map_err(RestoreError::Refused)?;
            }
            let (said, may_help) = round.outcome();
            if !may_help {
                return Err(RestoreError::NoMachine(said));
            }
            if Instant::now() >= until {
                return Err(RestoreError::NotFilled(said));
            }
            thread::sleep(AGAIN_AFTER);
        }
    }
}

/// Brings the pages that the machine does not have yet, one at a time, and ends.
fn fill(
    link: &mut Link,
    (backup, identity): (&Backup, Identity),
    progress: &mut dyn FnMut(u64, u64),
    said_end: &mut Option<AllRows>,
) -> Result<AllRows, RestoreError> {
    let mut next = link.filled()?;
    let read = backup.read_rows(|number, page, read| {
        if number == next {
            let sent = link.send(number, page).and_then(|()| link.filled());
            next = sent.map_err(|error| Stop(Box::new(error)))?;
            progress(next, read);
        }
        Ok(())
    });
    let all = read.map_err(|wrong| match wrong {
        Wrong::Stopped(Stop(error)) => match error.downcast::<LinkError>() {
            Ok(error) => RestoreError::Link(*error),
            Err(error) => RestoreError::Other(error.to_string()),
        },
        wrong => RestoreError::Wrong(wrong),
    })?;
    if all.identity != identity {
        let why = "the backup was changed while it was restored";
        return Err(RestoreError::Other(why.to_owned()));
    }
    *said_end = Some(all);
    link.send(all.pages, &[])?;
    link.ended()?;
    Ok(all)
}
