//! Looking up names: that may take many seconds, and one dead name must not delay another for long.
//!
//! ```text
//!  connect ──▶ the name ──▶ a queue of names ──▶ one of four threads ──▶ all who asked for that name
//! ```
//!
//! A node dials a dead name anew each second. All of its attempts wait for the one lookup that is under way, and
//! the one that is still wanted when that ends gets its addresses, however long it took.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ops::ConnId;

use crate::errors::copy_of;
use crate::inbox::{Inbox, Reply};

/// Threads that look up names; each is started when it is needed first.
const THREADS_MAX: usize = 4;
/// Names that are being looked up or wait for it. Whoever comes with another one is refused.
const NAMES_MAX: usize = 256;
/// Connections that wait for one name. With more, the oldest is refused: it was given up long ago.
const ASKERS_MAX: usize = 64;

type Find = fn(&str) -> io::Result<Vec<SocketAddr>>;

pub(crate) struct Resolver {
    shared: Arc<Shared>,
    threads: usize,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    inbox: Arc<Inbox>,
    find: Find,
}

#[derive(Default)]
struct Queue {
    /// Every name that waits or is being looked up.
    askers: BTreeMap<String, VecDeque<ConnId>>,
    waiting: VecDeque<String>,
    idle_threads: usize,
    is_over: bool,
}

impl Resolver {
    pub fn new(inbox: Arc<Inbox>) -> Resolver {
        Resolver::that(inbox, |name| name.to_socket_addrs().map(Iterator::collect))
    }

    fn that(inbox: Arc<Inbox>, find: Find) -> Resolver {
        Resolver {
            shared: Arc::new(Shared {
                queue: Mutex::default(),
                changed: Condvar::new(),
                inbox,
                find,
            }),
            threads: 0,
        }
    }

    /// The answer is put into the inbox.
    pub fn look_up(&mut self, conn: ConnId, name: String) {
        let mut queue = self.shared.queue();
        if let Some(askers) = queue.askers.get_mut(&name) {
            askers.push_back(conn);
            let oldest = (askers.len() > ASKERS_MAX).then(|| askers.pop_front());
            if let Some(oldest) = oldest.flatten() {
                self.shared
                    .refuse(oldest, "its name is still being looked up");
            }
            return;
        }
        if queue.askers.len() >= NAMES_MAX {
            return self
                .shared
                .refuse(conn, "too many names are being looked up");
        }
        queue.askers.insert(name.clone(), VecDeque::from([conn]));
        queue.waiting.push_back(name.clone());
        if queue.waiting.len() <= queue.idle_threads || self.threads == THREADS_MAX {
            return self.shared.changed.notify_one();
        }
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name("name-lookup".to_owned());
        match thread.spawn(move || shared.serve()) {
            Ok(_) => self.threads += 1,
            // The others come to it in their time.
            Err(_) if self.threads > 0 => {}
            Err(error) => {
                queue.waiting.retain(|waiting| *waiting != name);
                queue.askers.remove(&name);
                self.shared.answer(conn, Err(error));
            }
        }
    }
}

impl Drop for Resolver {
    /// Nobody waits for the threads: a lookup cannot be broken off, and its answer is nobody's any more.
    fn drop(&mut self) {
        self.shared.queue().is_over = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, conn: ConnId, result: io::Result<Vec<SocketAddr>>) {
        self.inbox.put(Reply::Resolved { conn, result });
    }

    fn refuse(&self, conn: ConnId, why: &str) {
        self.answer(conn, Err(io::Error::other(why)));
    }

    fn serve(&self) {
        let mut queue = self.queue();
        while !queue.is_over {
            let Some(name) = queue.waiting.pop_front() else {
                queue.idle_threads += 1;
                let waited = self.changed.wait(queue);
                queue = waited.unwrap_or_else(PoisonError::into_inner);
                queue.idle_threads -= 1;
                continue;
            };
            drop(queue);
            let found = (self.find)(&name);
            queue = self.queue();
            for conn in queue.askers.remove(&name).unwrap_or_default() {
                let result = found.as_ref().map(Vec::clone).map_err(copy_of);
                self.answer(conn, result);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use super::*;

    fn address() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 9))
    }

    /// Answers until so many have come.
    fn answers(inbox: &Inbox, count: usize) -> Vec<(ConnId, bool)> {
        let give_up = Instant::now() + Duration::from_secs(60);
        let mut all = Vec::new();
        let mut taken = Vec::new();
        while all.len() < count {
            assert!(Instant::now() < give_up, "only {all:?}");
            inbox.take(&mut taken);
            all.extend(taken.drain(..).map(|reply| match reply {
                Reply::Resolved { conn, result } => (conn, result.is_ok()),
                _ => panic!("only names are looked up"),
            }));
            std::thread::sleep(Duration::from_millis(1));
        }
        all
    }

    #[test]
    fn equal_names_are_looked_up_once_and_dead_ones_take_four_threads_at_most() {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        let inbox = Arc::new(Inbox::new().unwrap());
        let mut resolver = Resolver::that(inbox.clone(), |_| {
            CALLS.fetch_add(1, Ordering::SeqCst);
            let running = RUNNING.fetch_add(1, Ordering::SeqCst) + 1;
            MOST.fetch_max(running, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(50));
            RUNNING.fetch_sub(1, Ordering::SeqCst);
            Ok(vec![address()])
        });
        for conn in 0..200 {
            resolver.look_up(ConnId(conn), format!("dead-{}:1", conn % 10));
        }
        let answered = answers(&inbox, 200);
        assert!(answered.iter().all(|(_, found)| *found));
        let conns: BTreeSet<ConnId> = answered.iter().map(|(conn, _)| *conn).collect();
        assert_eq!(conns.len(), 200, "each is answered once");
        assert!(CALLS.load(Ordering::SeqCst) < 40, "they were merged");
        assert!(MOST.load(Ordering::SeqCst) <= THREADS_MAX);
    }

    #[test]
    fn names_and_attempts_beyond_the_bounds_are_refused_at_once() {
        static GO_ON: AtomicUsize = AtomicUsize::new(0);
        let inbox = Arc::new(Inbox::new().unwrap());
        let mut resolver = Resolver::that(inbox.clone(), |_| {
            while GO_ON.load(Ordering::SeqCst) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(vec![address()])
        });
        for conn in 0..300 {
            resolver.look_up(ConnId(conn), format!("dead-{conn}:1"));
        }
        let refused = answers(&inbox, 300 - NAMES_MAX);
        assert!(
            refused
                .iter()
                .all(|(conn, found)| !found && conn.0 >= NAMES_MAX as u64)
        );
        for conn in 1000..1100 {
            resolver.look_up(ConnId(conn), "dead-7:1".to_owned());
        }
        let refused = answers(&inbox, 101 - ASKERS_MAX);
        assert_eq!(refused[0], (ConnId(7), false), "the oldest attempt");
        GO_ON.store(1, Ordering::SeqCst);
        let found = answers(&inbox, NAMES_MAX - 1 + ASKERS_MAX);
        assert!(found.iter().all(|(_, found)| *found));
    }
}
