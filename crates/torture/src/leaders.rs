//! Counts how often a log gets another leader, by asking all nodes again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use testbed::level;

pub struct Leaders {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

const PAUSE: Duration = Duration::from_millis(200);

impl Leaders {
    pub fn watch(addresses: Vec<String>) -> Leaders {
        let stop = Arc::new(AtomicBool::new(false));
        let stops = stop.clone();
        let thread = std::thread::Builder::new().name("leaders".to_owned());
        let thread = thread.spawn(move || {
            let mut seen = Seen::default();
            while !stops.load(Ordering::Acquire) {
                for address in &addresses {
                    if let Some(status) = level::status(address) {
                        for log in status.logs.iter().filter(|log| log.role == "leader") {
                            seen.see(&log.name, level::term(&log.term), status.node);
                        }
                    }
                }
                std::thread::sleep(PAUSE);
            }
            seen.changes
        });
        Leaders {
            stop,
            thread: thread.ok(),
        }
    }

    /// The number of changes that were seen; some in quick succession may not have been.
    pub fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.take();
        thread.and_then(|thread| thread.join().ok()).unwrap_or(0)
    }
}

impl Drop for Leaders {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

#[derive(Default)]
struct Seen {
    /// The newest term in which somebody led each log, and that leader.
    leaders: BTreeMap<String, (Vec<u64>, u64)>,
    changes: u64,
}

impl Seen {
    fn see(&mut self, log: &str, term: Vec<u64>, node: u64) {
        match self.leaders.get_mut(log) {
            None => drop(self.leaders.insert(log.to_owned(), (term, node))),
            Some(newest) if newest.0 < term => {
                self.changes += u64::from(newest.1 != node);
                *newest = (term, node);
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_leader_in_a_later_term_is_a_change() {
        let mut seen = Seen::default();
        for (term, node) in [("1.1.1", 1), ("1.2.1", 1), ("1.3.2", 2), ("1.2.1", 1)] {
            seen.see("main", level::term(term), node);
        }
        assert_eq!(seen.changes, 1);
    }
}
