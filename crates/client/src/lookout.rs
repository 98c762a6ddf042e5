//! While a server owes an answer and says nothing: ask the others, on the side, whether it still
//! leads.
//!
//! A stopped process and a machine whose network vanished look alike from here, and like a slow
//! one: the connection stands and nothing comes. Only time tells them apart, and much of it, since
//! a slow leader must not be left. But the other nodes notice sooner, and elect; from then on one
//! question to any of them settles it.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::answer::Answer;
use crate::cluster::{Cluster, Said};
use crate::connection::{Connection, NoLine};

/// An answer that is owed this long makes us ask others.
pub(crate) const OWED: Duration = Duration::from_millis(400);
/// The same where a sign of life comes each second.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_millis(1500);
/// Between two rounds of questions.
const PAUSE: Duration = Duration::from_millis(150);
/// For one question, connecting included.
const QUESTION: Duration = Duration::from_millis(300);

/// Watches over one connection at a time, with at most one thread and one question under way.
///
/// When another node leads, the connection is shut down: whoever waits for it, in a read or in
/// poll, wakes up and finds it ended, and [`Lookout::verdict`] says why.
#[derive(Debug)]
pub(crate) struct Lookout {
    cluster: Arc<Cluster>,
    log: String,
    shared: Arc<Shared>,
    has_thread: bool,
    /// Watching, or done watching and not asked yet. Spares the lock while answers come in time.
    armed: bool,
}

#[derive(Debug, Default)]
struct Shared {
    watch: Mutex<Watch>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Watch {
    suspect: Option<Suspect>,
    /// Counts the suspects, so that what was learned of one is not held against the next.
    number: u64,
    /// Another node leads than the present suspect, whose connection was shut down.
    superseded: bool,
    /// Nobody looks any more.
    over: bool,
}

#[derive(Debug)]
struct Suspect {
    server: String,
    stream: TcpStream,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Watch> {
        // Each statement under the lock leaves a consistent watch.
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lookout {
    pub fn new(cluster: Arc<Cluster>, log: &str) -> Self {
        Self {
            cluster,
            log: log.to_owned(),
            shared: Arc::default(),
            has_thread: false,
            armed: false,
        }
    }

    pub fn is_armed(&self) -> bool {
        self.armed
    }

    /// `server` has been silent for long enough: begin to ask the others. Again and again, until
    /// [`Lookout::disarm`].
    pub fn arm(&mut self, server: &str, connection: &Connection) {
        if self.armed {
            return;
        }
        self.armed = true;
        // Without a second handle or a thread there is no lookout, only patience.
        let Ok(stream) = connection.stream().try_clone() else {
            return;
        };
        let mut watch = self.shared.lock();
        watch.number += 1;
        watch.superseded = false;
        watch.suspect = Some(Suspect {
            server: server.to_owned(),
            stream,
        });
        drop(watch);
        self.shared.changed.notify_all();
        if !self.has_thread {
            let (cluster, log) = (self.cluster.clone(), self.log.clone());
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("logberg-lookout".to_owned());
            let spawned = thread.spawn(move || look_out(&cluster, &log, &shared));
            self.has_thread = spawned.is_ok();
        }
    }

    /// The server said something, or the connection is over.
    pub fn disarm(&mut self) {
        if std::mem::take(&mut self.armed) {
            self.shared.lock().suspect = None;
        }
    }

    /// What to think of a server whose connection ended: what `said` says, unless it was ended
    /// from here because another node leads.
    pub fn verdict(&mut self, said: Said) -> Said {
        let superseded = self.armed && std::mem::take(&mut self.shared.lock().superseded);
        self.disarm();
        match superseded {
            true => Said::Silent,
            false => said,
        }
    }

    /// The next answer of `server`. After `patience` without one others are asked too; at the
    /// deadline, or when one of them says that another node leads, the server counts as silent.
    pub fn answer(
        &mut self,
        server: &str,
        connection: &mut Connection,
        patience: Duration,
        deadline: Option<Instant>,
    ) -> Result<Answer, NoLine> {
        self.watched(
            server,
            connection,
            patience,
            deadline,
            |connection, until| connection.answer_by(until),
        )
    }

    /// Calls `wait`, which may be called again after it was [`NoLine::Silent`].
    pub fn watched<T>(
        &mut self,
        server: &str,
        connection: &mut Connection,
        patience: Duration,
        deadline: Option<Instant>,
        mut wait: impl FnMut(&mut Connection, Option<Instant>) -> Result<T, NoLine>,
    ) -> Result<T, NoLine> {
        let soon = Instant::now() + patience;
        if deadline.is_some_and(|deadline| deadline <= soon) {
            return wait(connection, deadline);
        }
        match wait(connection, Some(soon)) {
            Err(NoLine::Silent) => {}
            result => return result,
        }
        self.arm(server, connection);
        match wait(connection, deadline) {
            Err(NoLine::Lost(error)) => match self.verdict(Said::Lost) {
                Said::Silent => Err(NoLine::Silent),
                _ => Err(NoLine::Lost(error)),
            },
            result => {
                self.disarm();
                result
            }
        }
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        let mut watch = self.shared.lock();
        watch.over = true;
        watch.suspect = None;
        drop(watch);
        // Not joined: the thread may be in the middle of a question, and only answers go astray.
        self.shared.changed.notify_all();
    }
}

fn look_out(cluster: &Cluster, log: &str, shared: &Shared) {
    // Those that did not answer are asked last.
    let mut mute = Vec::new();
    let mut watch = shared.lock();
    while !watch.over {
        let number = watch.number;
        let Some(server) = watch.suspect.as_ref().map(|suspect| suspect.server.clone()) else {
            let woken = shared.changed.wait(watch);
            watch = woken.unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(watch);
        let still = || {
            let watch = shared.lock();
            watch.number == number && watch.suspect.is_some()
        };
        let successor = successor(cluster, log, &server, &mut mute, still);
        watch = shared.lock();
        if watch.number != number {
            continue;
        }
        if let (Some(successor), Some(suspect)) = (successor, &watch.suspect) {
            cluster.prefer(&successor);
            let _ = suspect.stream.shutdown(Shutdown::Both);
            watch.superseded = true;
            watch.suspect = None;
            continue;
        }
        let waited = shared.changed.wait_timeout(watch, PAUSE);
        watch = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Asks each of the others once, until one knows who leads in the place of `suspect`.
fn successor(
    cluster: &Cluster,
    log: &str,
    suspect: &str,
    mute: &mut Vec<String>,
    still: impl Fn() -> bool,
) -> Option<String> {
    let mut servers = cluster.servers();
    servers.retain(|server| !cluster.is_same_node(server, suspect));
    if servers.is_empty() {
        return None;
    }
    servers.sort_by_key(|server| mute.contains(server));
    // Under a name that only the user knows, the suspect itself has to say which node it is, or a
    // leader that is merely slow would be left for itself.
    if !cluster.knows_node_of(suspect) {
        servers.insert(0, suspect.to_owned());
    }
    for server in servers {
        if !still() {
            return None;
        }
        let status = cluster.ask_for_status(&server, Instant::now() + QUESTION);
        mute.retain(|known| *known != server);
        match status {
            None => mute.push(server),
            Some(status) => {
                cluster.learn(&server, &status);
                let leader = cluster.leader_by(&status, log);
                if let Some(leader) = leader.filter(|leader| !cluster.is_same_node(leader, suspect))
                {
                    return Some(leader);
                }
            }
        }
    }
    None
}
