//! The cluster's directory, read from a stopped node.

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
            // A torn command was never chosen whole.
            let _ = replica.end_of_stream();
        }
        replica.push(bytes);
        // An error stays, and `finish` tells it.
        while matches!(replica.apply_next(), Ok(Some(_))) {}
    }

    pub fn finish(self) -> Option<Result<Directory, String>> {
        let replica = self.replica?;
        Some(match replica.halted() {
            Some(halted) => Err(halted.to_string()),
            None => Ok((*replica).clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Command;
    use paxos::{NodeId, StreamSequence};

    #[test]
    fn a_damaged_directory_is_told_and_not_passed_over() {
        let stream = |counter| StreamName {
            owner: NodeId(1),
            sequence: StreamSequence {
                incarnation: 1,
                counter,
            },
        };
        let voters = |voters| {
            let command = Command::SetVoters { voters };
            commands::encode(&command.encode(1)).unwrap()
        };
        let mut sound = Listener::new(DIRECTORY);
        sound.push(stream(1), &[voters(3), voters(5)[..9].to_vec()].concat());
        sound.push(stream(2), &voters(7));
        assert_eq!(sound.finish().unwrap().unwrap().voters, 7);
        let mut damaged = Listener::new(DIRECTORY);
        let mut frame = voters(5);
        frame[20] ^= 1;
        damaged.push(stream(1), &[voters(3), frame].concat());
        damaged.push(stream(2), &voters(7));
        let position = voters(3).len();
        assert_eq!(
            damaged.finish().unwrap().unwrap_err(),
            format!(
                "what the log holds is damaged: the stream is broken at byte {position}: the checksum of the frame there is wrong"
            )
        );
    }
}
