//! Threads that remove what is large, at a pace that leaves the disk to others (`leftover`).

use std::io;
use std::sync::Arc;

use crate::disk_thread::Worker;
use crate::inbox::{Inbox, Reply};
use crate::leftover::Pace;

/// A thread that removes what is large.
pub(crate) struct Remover {
    pace: Arc<Pace>,
    worker: Worker,
}

impl Remover {
    pub fn start(name: String, inbox: Arc<Inbox>) -> io::Result<Remover> {
        Ok(Remover {
            pace: Arc::default(),
            worker: Worker::start(name, inbox)?,
        })
    }

    pub fn put(&self, remove: impl FnOnce(&Pace) -> Reply + Send + 'static) {
        let pace = self.pace.clone();
        pace.add_waiting();
        self.worker.put(move || {
            pace.take_waiting();
            Some(remove(&pace))
        });
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        self.pace.end();
    }
}
