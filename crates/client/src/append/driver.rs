//! The appender's thread: sends what the ring holds, hears what is acknowledged, and goes on
//! elsewhere when a leader is lost.
//!
//! ```text
//!   open ──► converse ──► closed
//!              │   ▲
//!        lost  ▼   │ stream open
//!             resume ───► failed: superseded, full, no leader in time
//! ```

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::opening::{Chain, Opened};
use super::{AppendError, Closed, OnAcknowledged, Shared};
use crate::answer::{Answer, Code, Refusal};
use crate::cluster::{Backoff, Cluster, Said, elsewhere};
use crate::connection::{Connection, NoLine, retry_interrupted};
use crate::line::StreamName;
use crate::lookout::{Lookout, OWED};

/// Parts per system call; at full chunks far more than a socket takes at once.
const PARTS_MAX: usize = 32;

/// While nothing waits for an acknowledgement, a lost cluster may take its time.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) struct Driver {
    pub shared: Arc<Shared>,
    pub cluster: Arc<Cluster>,
    pub chain: Chain,
    on_acknowledged: Option<OnAcknowledged>,
    /// When something was last acknowledged, or when bytes began to wait after none did.
    pub progress: Instant,
    /// When the present server last acknowledged, or when bytes began to wait for it.
    heard: Instant,
    /// The latest streams of the chain before the present one.
    pub wrote: VecDeque<StreamName>,
    /// Asks others whether the present server still leads, while it owes something.
    pub lookout: Lookout,
    /// Between connections that bring nothing.
    pub backoff: Backoff,
}

/// Why a conversation is over.
pub(super) enum Over {
    /// Elsewhere, or here again.
    Lost(Said),
    /// For good.
    Finished(Result<Closed, AppendError>),
    /// The appender was dropped.
    Abandoned,
}

/// Tells the writer when the thread ends without an outcome, which would let it wait for ever.
struct Epitaph(Arc<Shared>);

impl Drop for Epitaph {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.connection = None;
        let panicked = || Err(AppendError::Thread("it panicked".to_owned()));
        state.outcome.get_or_insert_with(panicked);
        self.0.ask_attention(&state);
        self.0.changed.notify_all();
    }
}

impl Driver {
    pub fn new(
        shared: Arc<Shared>,
        cluster: Arc<Cluster>,
        chain: Chain,
        on_acknowledged: Option<OnAcknowledged>,
    ) -> Self {
        Self {
            wrote: VecDeque::new(),
            lookout: Lookout::new(cluster.clone(), &chain.log),
            shared,
            cluster,
            chain,
            on_acknowledged,
            progress: Instant::now(),
            heard: Instant::now(),
            backoff: Backoff::graceful(),
        }
    }

    pub fn run(mut self, mut opened: Opened) {
        let _epitaph = Epitaph(self.shared.clone());
        let outcome = loop {
            let server = opened.server.clone();
            let said = match self.converse(opened) {
                Over::Lost(said) => self.lookout.verdict(said),
                Over::Finished(outcome) => break outcome,
                Over::Abandoned => break Err(AppendError::Dropped),
            };
            opened = match self.resume(&server, said) {
                Ok(opened) => opened,
                Err(Over::Finished(outcome)) => break outcome,
                Err(_) => break Err(AppendError::Dropped),
            };
        };
        self.shared.lock().outcome = Some(outcome);
    }

    /// Serves one connection until it is over.
    fn converse(&mut self, opened: Opened) -> Over {
        let Opened {
            mut connection,
            server,
            ..
        } = opened;
        if let Err(error) = connection.stream().set_nonblocking(true) {
            return Over::Lost(Said::from(&error));
        }
        self.heard = Instant::now();
        let mut lent = Vec::with_capacity(PARTS_MAX);
        // Answers may have come together with the line that opened the stream.
        if let Err(over) = self.hear(&mut connection, &server) {
            return over;
        }
        // Something may be there to be received. A look costs a system call, and poll, which every
        // wait begins with, is one: only sends without a wait in between need another.
        let (mut readable, mut sent) = (true, false);
        loop {
            if readable {
                readable = match connection.receive() {
                    Ok(0) => return Over::Lost(Said::Lost),
                    Ok(_) => match self.hear(&mut connection, &server) {
                        Ok(()) => connection.is_full(),
                        Err(over) => return over,
                    },
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
                    Err(error) => return Over::Lost(Said::from(&error)),
                };
                sent = false;
                if readable {
                    continue;
                }
            }
            let mut state = self.shared.lock();
            if state.abandoned {
                return Over::Abandoned;
            }
            if state.closing_since.is_some() && state.all_acknowledged() {
                drop(state);
                return self.close(&server);
            }
            let idle = state.all_acknowledged();
            let sends = state.has_to_send();
            if sends && sent {
                readable = true;
                continue;
            }
            match sends {
                true => state.ring.lend(PARTS_MAX, &mut lent),
                false if self.shared.fall_asleep(&mut state) => {}
                false => {
                    // More was written meanwhile. If it makes nothing to send, answers may.
                    readable = true;
                    continue;
                }
            }
            let waits = state.ring.sent() > state.ring.acknowledged();
            drop(state);
            if sends {
                match self.send(&connection, &mut lent) {
                    Ok(true) => {
                        sent = true;
                        continue;
                    }
                    Ok(false) => {}
                    Err(error) => return Over::Lost(Said::from(&error)),
                }
            }
            readable = match self.sleep(&connection, &server, sends, waits || sends) {
                Ok(readable) => readable,
                Err(over) => return over,
            };
            sent = false;
            if idle {
                (self.progress, self.heard) = (Instant::now(), Instant::now());
                self.lookout.disarm();
            }
        }
    }

    /// Sends once. False: the socket takes nothing more for now.
    fn send(&self, connection: &Connection, lent: &mut Vec<crate::ring::Lent>) -> io::Result<bool> {
        let mut parts = [IoSlice::new(&[]); PARTS_MAX];
        for (part, lent) in parts.iter_mut().zip(lent.iter()) {
            *part = IoSlice::new(lent.bytes());
        }
        let offered: usize = lent.iter().map(|part| part.bytes().len()).sum();
        let parts = &parts[..lent.len()];
        let sent = match retry_interrupted(|| connection.stream().write_vectored(parts)) {
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => {
                lent.clear();
                return Err(error);
            }
        };
        // What is lent goes back before the lock: a writer that waits for it then finds it free.
        lent.clear();
        let mut state = self.shared.lock();
        let again = state.ring.advance_sent(sent as u64);
        state.statistics.bytes_resent += again;
        if state.waiters > 0 {
            self.shared.changed.notify_all();
        }
        Ok(sent == offered)
    }

    /// Waits for the socket or the writer, and gives a silent server up. True if there is something
    /// to receive.
    fn sleep(
        &mut self,
        connection: &Connection,
        server: &str,
        wants_to_send: bool,
        waits: bool,
    ) -> Result<bool, Over> {
        let silence = self.cluster.timeouts.silence;
        let until = match self.lookout.is_armed() {
            true => silence,
            false => silence.min(OWED),
        };
        let timeout = waits.then(|| timespec(until.saturating_sub(self.heard.elapsed())));
        let mut interest = PollFlags::IN;
        interest.set(PollFlags::OUT, wants_to_send);
        let mut fds = [
            PollFd::new(connection.stream(), interest),
            PollFd::new(&self.shared.wake, PollFlags::IN),
        ];
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Over::Lost(Said::from(&io::Error::from(error)))),
        }
        if !fds[1].revents().is_empty() {
            let _ = rustix::io::read(&self.shared.wake, &mut [0u8; 8]);
        }
        self.shared.awake(&mut self.shared.lock());
        let readable = !fds[0].revents().difference(PollFlags::OUT).is_empty();
        // Judged after the look: what came while this thread did something else counts.
        if waits && !readable {
            let silent = self.heard.elapsed();
            if silent >= silence {
                return Err(Over::Lost(Said::Silent));
            }
            if silent >= OWED {
                self.lookout.arm(server, connection);
            }
        }
        Ok(readable)
    }

    /// Takes in every whole answer that was received.
    fn hear(&mut self, connection: &mut Connection, server: &str) -> Result<(), Over> {
        let mut acknowledged = None;
        let garbled = |what: String| {
            Over::Finished(Err(AppendError::Garbled {
                server: server.to_owned(),
                what,
            }))
        };
        let over = loop {
            match connection.buffered_answer() {
                Ok(None) => break None,
                Ok(Some(Answer::Ack(position))) => acknowledged = Some(position),
                Ok(Some(Answer::Waiting)) => {}
                Ok(Some(Answer::Error(refusal))) => {
                    break Some(match elsewhere(&refusal) {
                        Some(said) => Over::Lost(said),
                        None if was_cut_off(&refusal) => Over::Lost(Said::Lost),
                        None => Over::Finished(Err(self.chain.final_error(server, refusal))),
                    });
                }
                Ok(Some(Answer::Closed(position))) => {
                    acknowledged = Some(position);
                    break Some(Over::Finished(Err(AppendError::Closed)));
                }
                Ok(Some(other)) => break Some(garbled(other.to_line().trim_end().to_owned())),
                Err(NoLine::Garbled(error)) => break Some(garbled(error.to_string())),
                Err(no_line) => break Some(Over::Lost(Said::from(&no_line))),
            }
        };
        // Acknowledgements are cumulative: of those that came together the last says all, and
        // what was acknowledged before an error stays.
        if let Some(position) = acknowledged
            && !self.acknowledge(position)
        {
            return Err(garbled(format!(
                "it acknowledges {position}, which was not sent"
            )));
        }
        over.map_or(Ok(()), Err)
    }

    fn acknowledge(&mut self, position: u64) -> bool {
        let now = Instant::now();
        let mut state = self.shared.lock();
        let before = state.ring.acknowledged();
        let chain_position = state.base.saturating_add(position);
        if !state.ring.acknowledge(chain_position) {
            return false;
        }
        let after = state.ring.acknowledged();
        if after > before {
            drop(state);
            self.made_progress(after, now);
        }
        true
    }

    pub(super) fn made_progress(&mut self, acknowledged: u64, now: Instant) {
        let gap = now.saturating_duration_since(self.progress);
        (self.progress, self.heard) = (now, now);
        self.lookout.disarm();
        self.backoff = Backoff::graceful();
        let mut state = self.shared.lock();
        let longest = &mut state.statistics.acknowledge_gap_max;
        *longest = gap.max(*longest);
        if state.waiters > 0 {
            self.shared.changed.notify_all();
        }
        drop(state);
        if let Some(on_acknowledged) = &mut self.on_acknowledged {
            on_acknowledged(acknowledged, now);
        }
    }

    /// Until when a leader must be found. While no byte waits there is time.
    pub(super) fn deadline(&mut self) -> Result<Instant, Over> {
        let state = self.shared.lock();
        if state.abandoned {
            return Err(Over::Abandoned);
        }
        if state.all_acknowledged() && state.closing_since.is_none() {
            self.progress = Instant::now();
            return Ok(self.progress + PATIENCE);
        }
        // The wait of a close begins with the close, not with the last byte long before.
        let since = state
            .closing_since
            .map_or(self.progress, |since| since.max(self.progress));
        Ok(since + self.cluster.timeouts.total)
    }
}

pub(super) fn finished(error: impl Into<AppendError>) -> Over {
    Over::Finished(Err(error.into()))
}

/// A change of leader ended the stream, and no other writer: the chain goes on, as after a loss.
/// Should another have come meanwhile, the resumption is told.
fn was_cut_off(refusal: &Refusal) -> bool {
    refusal.code == Code::Superseded && refusal.value::<StreamName>("stream").is_none()
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
