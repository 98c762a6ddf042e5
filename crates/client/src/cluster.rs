//! A cluster as one client knows it, and questions to it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use talk::{Asker, Input, Known, Learner, NoAnswer};
use wire::told::Status;

use crate::asked::{AdminError, Asked};
use crate::credential::Credential;
use crate::machine::{Host, Machine};
use crate::request::Request;
use crate::sockets::Sockets;
use crate::transport::Transport;

pub use talk::{Said, Timeouts, Unreachable};

/// The known addresses of a cluster. Shared by all that one client opens.
#[derive(Debug)]
pub(crate) struct Cluster {
    known: Mutex<Known>,
    pub timeouts: Timeouts,
    /// From when the machines count time.
    began: Instant,
    /// At most one thread asks a server who else there is.
    learning: AtomicBool,
    /// Shown at the beginning of each connection.
    credential: OnceLock<Credential>,
    /// Makes connections private.
    transport: OnceLock<Arc<dyn Transport>>,
}

/// How servers are approached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Approach {
    /// Said first on each connection.
    pub credential: Option<Credential>,
    pub transport: Option<Arc<dyn Transport>>,
}

impl Cluster {
    pub fn new(servers: Vec<String>, timeouts: Timeouts) -> Self {
        Self::over(Known::new(servers, chance()), timeouts)
    }

    fn over(known: Known, timeouts: Timeouts) -> Self {
        Self {
            known: Mutex::new(known),
            timeouts,
            began: Instant::now(),
            learning: AtomicBool::new(false),
            credential: OnceLock::new(),
            transport: OnceLock::new(),
        }
    }

    /// Shows this on each connection from now on. The first one stays.
    pub fn show(&self, credential: Credential) {
        let _ = self.credential.set(credential);
    }

    /// Has this one make each connection from now on. The first one stays.
    pub fn go_by(&self, transport: Arc<dyn Transport>) {
        let _ = self.transport.set(transport);
    }

    pub fn approach(&self) -> Approach {
        Approach {
            credential: self.credential.get().cloned(),
            transport: self.transport.get().cloned(),
        }
    }

    fn approaching(self, approach: Approach) -> Self {
        if let Some(credential) = approach.credential {
            self.show(credential);
        }
        if let Some(transport) = approach.transport {
            self.go_by(transport);
        }
        self
    }

    /// One that asks this server and no other, with the same to show.
    pub fn only(&self, server: &str) -> Self {
        let only = Self::new(vec![server.to_owned()], self.timeouts);
        only.approaching(self.approach()).alone()
    }

    /// As it is known now, with less time for each thing where that is more than `total`.
    pub fn within(&self, total: Duration) -> Self {
        let timeouts = Timeouts {
            connect: self.timeouts.connect.min(total),
            silence: self.timeouts.silence.min(total),
            total: self.timeouts.total.min(total),
        };
        Self::over(self.known().clone(), timeouts).approaching(self.approach())
    }

    /// Talks to no server of another cluster.
    pub fn of(self, cluster: Option<String>) -> Self {
        let approach = self.approach();
        let known = self.known.into_inner();
        let known = known.unwrap_or_else(PoisonError::into_inner);
        Self::over(known.of(cluster), self.timeouts).approaching(approach)
    }

    /// Never asks anyone but the servers it was given.
    pub fn alone(self) -> Self {
        let approach = self.approach();
        let known = self.known.into_inner();
        let known = known.unwrap_or_else(PoisonError::into_inner);
        Self::over(known.alone(), self.timeouts).approaching(approach)
    }

    /// The cluster's id, once it is known.
    pub fn id(&self) -> Option<String> {
        self.known().cluster().map(str::to_owned)
    }

    pub fn servers(&self) -> Vec<String> {
        self.known().servers().to_vec()
    }

    pub fn known(&self) -> MutexGuard<'_, Known> {
        // A holder that panicked left a list of addresses, which is still one.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn began(&self) -> Instant {
        self.began
    }

    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// The same moment, as the machines count time.
    fn at(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.began)
    }

    /// A server did what was asked: learn from it who else there is, in the background, so that its death
    /// later is no problem even if it is the only one we know.
    fn run_errand(self: &Arc<Self>, mut known: MutexGuard<'_, Known>) {
        let Some(server) = known.take_errand() else {
            return;
        };
        drop(known);
        if self.learning.swap(true, Ordering::SeqCst) {
            return;
        }
        let cluster = self.clone();
        let thread = std::thread::Builder::new().name("logberg-learn".to_owned());
        let spawned = thread.spawn(move || {
            let deadline = Instant::now() + cluster.timeouts.silence;
            let _ = cluster.ask_for_status(&server, deadline);
            cluster.learning.store(false, Ordering::SeqCst);
        });
        if spawned.is_err() {
            self.learning.store(false, Ordering::SeqCst);
        }
    }

    /// The cluster as this server sees it. Its words are learned.
    pub fn ask_for_status(self: &Arc<Self>, server: &str, deadline: Instant) -> Option<Status> {
        let deadline = self.at(deadline);
        let within = deadline.saturating_sub(self.now());
        let within = within.min(self.timeouts.connect);
        let mut learner = Learner::new(server, within, deadline);
        let mut sockets = Sockets::new(self.approach()).ok()?;
        loop {
            sockets.turn(&mut learner, self);
            if let Some(told) = learner.told() {
                return told.ok();
            }
        }
    }

    /// Asks until a server answers with more than "elsewhere" or "later".
    pub fn ask(
        self: &Arc<Self>,
        request: &Request,
        deadline: Instant,
    ) -> Result<Asked, AdminError> {
        let mut sockets =
            Sockets::new(self.approach()).map_err(|error| self.without_sockets(&error))?;
        let (now, until) = (self.now(), self.at(deadline));
        let mut asker = Asker::new(now, &self.known(), request.clone(), self.timeouts, until);
        self.handle(&mut asker, &Input::Time);
        loop {
            match asker.outcome() {
                Some(Ok(asked)) => return Ok(asked),
                Some(Err(NoAnswer::Unreachable(unreachable))) => return Err(unreachable.into()),
                Some(Err(NoAnswer::Garbled { server, what })) => {
                    return Err(AdminError::Garbled { server, what });
                }
                None => sockets.turn(&mut asker, self),
            }
        }
    }

    /// This process may have no more files.
    pub fn without_sockets(&self, error: &io::Error) -> Unreachable {
        let said = |server: String| (server, Said::from(error));
        Unreachable {
            of: None,
            after: Duration::ZERO,
            tried: self.servers().into_iter().map(said).collect(),
        }
    }
}

impl Host for Arc<Cluster> {
    fn now(&self) -> Duration {
        Cluster::now(self)
    }

    fn handle(&self, machine: &mut impl Machine, input: &Input) {
        let mut known = self.known();
        machine.handle(Cluster::now(self), &mut known, input);
        self.run_errand(known);
    }

    fn filled(&self, machine: &mut impl Machine, count: usize) {
        let mut known = self.known();
        machine.filled(Cluster::now(self), &mut known, count);
    }
}

/// The hasher's random keys are the standard library's own source of chance.
fn chance() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}
