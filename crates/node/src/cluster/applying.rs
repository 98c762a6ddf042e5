//! Log 0 becomes the directory: chosen commands are applied, and this node does what they say. Its leader
//! also keeps the log short.
//!
//! ```text
//!  … commands │ a new stream of the leader's: snapshot, commands …
//!             ▲ once the snapshot is chosen, all before is trimmed
//! ```

use std::collections::BTreeSet;

use commands::{Applied, Halted, Torn};
use formats::LogId;
use paxos::{Action, By, NodeId, StreamName, StreamPosition};
use replica::Event;

use super::Cluster;
use crate::directory::{DIRECTORY, Directory};
use crate::lent::Lent;

#[derive(Default)]
pub struct Directing {
    /// The applied commands that this node has not acted on.
    news: News,
    /// The logs of which something may be wanted that they have not heard.
    wishes: News,
    /// The directory's count of rescues when it was last acted on.
    rescues: u32,
    halt_told: bool,
    /// The stream that the last snapshot begins.
    snapshot_in: Option<StreamName>,
    /// The snapshot's size, or rather what was applied when it was taken.
    snapshot_bytes: u64,
    /// Whole frames that are not in the log's hands yet, where this node leads.
    commands: Vec<u8>,
}

/// The news of log 0 that is not acted on yet. A command that concerns one log must not cost a look at all:
/// thousands of logs may be created one after the other.
#[derive(Default)]
pub enum News {
    #[default]
    Nothing,
    Of(BTreeSet<LogId>),
    OfAll,
}

impl News {
    fn add(&mut self, one: Option<LogId>) {
        match (&mut *self, one) {
            (_, None) => *self = News::OfAll,
            (News::Nothing, Some(log)) => *self = News::Of(BTreeSet::from([log])),
            (News::Of(logs), Some(log)) => _ = logs.insert(log),
            (News::OfAll, Some(_)) => {}
        }
    }
}

impl Directing {
    pub(super) fn add_commands(&mut self, frames: &[u8]) {
        self.commands.extend_from_slice(frames);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.commands.is_empty()
    }

    fn forget_commands(&mut self) {
        self.commands.clear();
    }
}

impl Cluster {
    /// Takes the applied commands that this node has not acted on.
    pub fn take_news(&mut self) -> News {
        std::mem::take(&mut self.directing.news)
    }

    /// Takes the logs of which something may be wanted that they have not heard: none while that may not be
    /// acted on.
    pub fn take_wishes(&mut self) -> News {
        match self.is_confirmed() {
            true => std::mem::take(&mut self.directing.wishes),
            false => News::Nothing,
        }
    }

    /// Whether a node went on alone since this was last asked.
    pub fn notice_rescue(&mut self) -> bool {
        let rescues = self.directory.rescues;
        std::mem::replace(&mut self.directing.rescues, rescues) != rescues
    }

    /// Forgets the commands of a node that no longer leads log 0: its clients hear so.
    pub fn forget_commands(&mut self) {
        self.directing.forget_commands();
    }

    /// Applies what log 0 has for the directory.
    pub fn take_directory(&mut self, lent: &mut Lent<'_>) {
        loop {
            let Some(log) = lent.logs.get_mut(&DIRECTORY) else {
                return;
            };
            let Some(event) = log.port(lent.env).next_event() else {
                return;
            };
            match event {
                Event::Bytes { stream, bytes, .. } => self.on_directory_bytes(stream, &bytes),
                Event::Ended { .. } => self.on_directory_stream_ended(),
                Event::Skipped { .. } => self.directory.skip(),
                Event::Begins { .. } => self.begin_directory_stream(lent),
                Event::Deposed { .. } => self.directing.forget_commands(),
            }
        }
    }

    fn on_directory_bytes(&mut self, stream: StreamName, bytes: &[u8]) {
        self.directory.push(bytes);
        loop {
            let applied = match self.directory.apply_next() {
                Ok(Some(applied)) => applied,
                Ok(None) => return,
                Err(halted) => return self.tell_halt(stream, &halted),
            };
            let one = match &applied {
                Applied::Command { answer } => Directory::concerned_by(answer),
                _ => None,
            };
            self.directing.news.add(one);
            self.directing.wishes.add(one);
            if let Applied::Snapshot { was_equal, bytes } = applied {
                tracing::info!(%stream, bytes, was_equal, "the directory's snapshot");
                self.directing.snapshot_in = Some(stream);
                self.directing.snapshot_bytes = bytes;
            }
        }
    }

    fn on_directory_stream_ended(&mut self) {
        if let Some(torn) = self.directory.end_of_stream() {
            let Torn { position, bytes } = torn;
            tracing::info!(
                position,
                bytes,
                "a stream of the directory ended within a command: it was never chosen whole"
            );
        }
    }

    /// Tells a halt once: health goes on saying it (`commands-halted`).
    fn tell_halt(&mut self, stream: StreamName, halted: &Halted) {
        if !std::mem::replace(&mut self.directing.halt_told, true) {
            tracing::error!(%stream, %halted, "this node follows the directory no more");
        }
    }

    /// Begins this leader's stream with a snapshot. All that was chosen before the stream is applied and
    /// nobody adds to it any more, so a snapshot at its beginning stands for everything before.
    fn begin_directory_stream(&mut self, lent: &mut Lent<'_>) {
        let grown = self.directory_has_grown(lent);
        let parts = grown.then(|| self.directory.snapshot()).flatten();
        let mut first: Vec<u8> = parts.into_iter().flatten().flatten().collect();
        first.append(&mut self.directing.commands);
        self.directing.commands = first;
        self.submit_commands(lent);
    }

    /// Submits commands to the log, as many as it takes now.
    pub fn submit_commands(&mut self, lent: &mut Lent<'_>) {
        let Some(log) = lent.logs.get_mut(&DIRECTORY) else {
            return;
        };
        if self.directing.commands.is_empty() {
            return;
        }
        let mut port = log.port(lent.env);
        // Commands that the log does not take now are tried again at the end of the next round.
        let has_news = match port.has_begun() {
            false => port.open(),
            true => port.submit(&self.directing.commands).is_ok(),
        };
        if port.has_begun() && has_news {
            self.directing.commands.clear();
        }
        if has_news {
            lent.due.touch(DIRECTORY);
        }
    }

    fn directory_has_grown(&self, lent: &Lent<'_>) -> bool {
        let bytes = lent
            .logs
            .get(&DIRECTORY)
            .map_or(0, |log| replica::output_bytes(log.engine().state()));
        // The bound keeps snapshots a small part of all that is written.
        bytes > lent.env.limits.directory_growth_bytes + 3 * self.directing.snapshot_bytes
    }

    /// Shortens the directory, on its leader, now and then: opens another stream when the log has grown, and
    /// trims what a chosen snapshot stands for.
    pub fn shorten_directory(&mut self, lent: &mut Lent<'_>) {
        let grown = self.directory_has_grown(lent);
        let snapshot_in = self.directing.snapshot_in;
        let Some(log) = lent.logs.get_mut(&DIRECTORY).filter(|l| l.can_propose()) else {
            return;
        };
        let state = log.engine().state();
        let point = snapshot_in.and_then(|stream| state.trim_point(stream, StreamPosition(0)));
        if let Some(before) = point.filter(|before| state.would_forget(*before)) {
            let by = By::Unsaid;
            let trim = Action::Trim { before, by };
            if log.propose(lent.env, trim).is_ok() {
                lent.due.touch(DIRECTORY);
            }
        } else if grown {
            let mut port = log.port(lent.env);
            if port.has_begun() && port.open_anew() {
                lent.due.touch(DIRECTORY);
            }
        }
    }

    /// Parts a log's replica from nodes that do not host the log.
    pub fn part_from_strangers(&mut self, lent: &mut Lent<'_>) {
        for (id, entry) in self.directory.logs.iter() {
            let Some(log) = lent.logs.get_mut(id).filter(|_| !entry.hosts.is_empty()) else {
                continue;
            };
            let peers = log.alive().iter().copied();
            let strangers = peers.filter(|peer| !self.directory.hosts(*id, *peer));
            let strangers: Vec<NodeId> = strangers.collect();
            for peer in strangers {
                log.break_links(lent.env, peer);
                log.set_alive(lent.env, peer, false);
                lent.due.touch(*id);
            }
        }
    }
}
