//! While a server owes an answer and says nothing: ask the others, on the side, whether it still
//! leads.
//!
//! A stopped process and a machine whose network vanished look alike from here, and like a slow
//! one: the connection stands and nothing comes. Only time tells them apart, and much of it, since
//! a slow leader must not be left. But the other nodes notice sooner, and elect; from then on one
//! question to any of them settles it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::known::Known;
use crate::links::{Input, Links};
use crate::question::Question;

/// An answer that is owed this long makes us ask others.
pub(crate) const OWED: Duration = Duration::from_millis(400);
/// The same where a sign of life comes each second.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_millis(1500);
/// Between two rounds of questions.
const PAUSE: Duration = Duration::from_millis(150);
/// For one question, connecting included.
const QUESTION: Duration = Duration::from_millis(300);

/// Watches over one server at a time, with at most one question under way.
#[derive(Debug)]
pub(crate) struct Lookout {
    /// The log whose leader is looked for; `None` where no leader is needed.
    log: Option<String>,
    /// Those that did not answer are asked last.
    mute: Vec<String>,
    watch: Option<Watch>,
}

#[derive(Debug)]
struct Watch {
    suspect: String,
    round: VecDeque<String>,
    question: Option<Question>,
    /// When the next round begins.
    next_at: Duration,
}

impl Lookout {
    pub fn new(log: Option<&str>) -> Self {
        Self {
            log: log.map(str::to_owned),
            mute: Vec::new(),
            watch: None,
        }
    }

    /// Nobody need be asked to begin: it looks out already, or never does.
    pub fn is_armed(&self) -> bool {
        self.watch.is_some() || self.log.is_none()
    }

    /// `server` has been silent for long enough: begin to ask the others. Again and again, until
    /// [`Lookout::disarm`].
    pub fn arm(&mut self, now: Duration, server: &str) {
        if self.is_armed() {
            return;
        }
        self.watch = Some(Watch {
            suspect: server.to_owned(),
            round: VecDeque::new(),
            question: None,
            next_at: now,
        });
    }

    /// The server said something, or the connection is over.
    pub fn disarm(&mut self, links: &mut Links) {
        if let Some(question) = self.watch.take().and_then(|watch| watch.question) {
            question.give_up(links);
        }
    }

    pub fn deadline(&self) -> Option<Duration> {
        let watch = self.watch.as_ref()?;
        let question = watch.question.as_ref();
        Some(question.map_or(watch.next_at, |question| question.deadline))
    }

    /// True if another node leads than the one that is silent; it is asked first from then on.
    pub fn handle(
        &mut self,
        now: Duration,
        links: &mut Links,
        known: &mut Known,
        input: &Input,
    ) -> bool {
        let (Some(watch), Some(log)) = (&mut self.watch, &self.log) else {
            return false;
        };
        if let Some(question) = &mut watch.question
            && let Some(told) = question.handle(now, links, input)
        {
            let server = std::mem::take(&mut question.server);
            watch.question = None;
            self.mute.retain(|known| *known != server);
            match told {
                Err(_) => self.mute.push(server),
                Ok(status) => {
                    known.learn(&server, &status);
                    let leader = known.leader_by(&status, log);
                    let leader =
                        leader.filter(|leader| !known.is_same_node(leader, &watch.suspect));
                    if let Some(leader) = leader {
                        known.prefer(&leader);
                        self.watch = None;
                        return true;
                    }
                }
            }
            if watch.round.is_empty() {
                watch.next_at = now + PAUSE;
            }
        }
        if watch.question.is_some() {
            return false;
        }
        if watch.round.is_empty() && now >= watch.next_at {
            watch.round = round(known, &watch.suspect, &self.mute);
            watch.next_at = now + PAUSE;
        }
        watch.question = watch
            .round
            .pop_front()
            .map(|server| Question::ask(links, &server, QUESTION, now + QUESTION));
        false
    }
}

/// All but the suspect, each once.
fn round(known: &Known, suspect: &str, mute: &[String]) -> VecDeque<String> {
    let mut servers = known.servers().to_vec();
    servers.retain(|server| !known.is_same_node(server, suspect));
    servers.sort_by_key(|server| mute.contains(server));
    // Under a name that only the user knows, the suspect itself has to say which node it is, or a
    // leader that is merely slow would be left for itself.
    if !servers.is_empty() && !known.knows_node_of(suspect) {
        servers.insert(0, suspect.to_owned());
    }
    servers.into()
}
