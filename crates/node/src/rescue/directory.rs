//! What the cluster's directory says, read from a stopped node.

use commands::{Replica, SessionBounds};
use formats::LogId;
use paxos::StreamName;

use crate::directory::{DIRECTORY, Directory};

/// Takes the output of any log; only log 0's means something to it.
pub(super) struct Listener {
    replica: Option<Replica<Directory>>,
    stream: Option<StreamName>,
}

impl Listener {
    pub fn new(log: LogId) -> Listener {
        let replica = || Replica::new(Directory::default(), SessionBounds::default());
        Listener {
            replica: (log == DIRECTORY).then(replica),
            stream: None,
        }
    }

    /// Bytes from the first that is left on. (If what came before was trimmed, these begin with a
    /// snapshot; if not, an empty directory is what they begin with.)
    pub fn push(&mut self, stream: StreamName, bytes: &[u8]) {
        let Some(replica) = &mut self.replica else {
            return;
        };
        if self.stream.replace(stream).is_some_and(|s| s != stream) {
            replica.end_of_stream();
        }
        replica.push(bytes);
        while replica.apply_next().is_some() {}
    }

    pub fn finish(self) -> Option<Result<Directory, String>> {
        let replica = self.replica?;
        Some(match replica.halted() {
            Some(halted) => Err(halted.to_string()),
            None => Ok((*replica).clone()),
        })
    }
}
