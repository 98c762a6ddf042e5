//! Lanes: threads for work that a machine gives away, one for each lane that was ever used.

use std::collections::BTreeMap;
use std::sync::Arc;

use ops::{Completion, Lane, Token, Work};

use crate::disk_thread::Worker;
use crate::inbox::{Inbox, Reply};

/// The niceness of threads whose work nobody waits for: one that others have their turn before, and that still gets a tenth of a busy processor.
const BACKGROUND_NICE: i32 = 10;

/// Dropping them waits for the work that each has begun. The rest is dropped undone: who needs it done waits for its `Ran`.
pub(crate) struct Lanes {
    inbox: Arc<Inbox>,
    workers: BTreeMap<Lane, Worker>,
}

impl Lanes {
    pub fn new(inbox: Arc<Inbox>) -> Lanes {
        Lanes {
            inbox,
            workers: BTreeMap::new(),
        }
    }

    pub fn run(&mut self, token: Token, lane: Lane, work: Work, completions: &mut Vec<Completion>) {
        if !self.workers.contains_key(&lane) {
            match start(lane, self.inbox.clone()) {
                Ok(worker) => _ = self.workers.insert(lane, worker),
                Err(error) => {
                    let result = Err(format!("there is no thread for it: {error}"));
                    return completions.push(Completion::Ran { token, result });
                }
            }
        }
        if let Some(worker) = self.workers.get(&lane) {
            worker.put(move || {
                let result = work.perform();
                Some(Reply::Completed(Completion::Ran { token, result }))
            });
        }
    }
}

fn start(lane: Lane, inbox: Arc<Inbox>) -> std::io::Result<Worker> {
    if !lane.is_background() {
        return Worker::start(format!("lane-{}", lane.0), inbox);
    }
    let worker = Worker::start("background".to_owned(), inbox)?;
    worker.put(|| {
        // Where it is not allowed, the work is done like any other.
        let _ = rustix::process::nice(BACKGROUND_NICE);
        None
    });
    Ok(worker)
}

impl Drop for Lanes {
    /// All are told before one is waited for.
    fn drop(&mut self) {
        self.workers.values().for_each(Worker::abandon);
    }
}
