//! The cluster of one way between nodes: its proposers, what they learned, and the next decree.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::super::decrees::Proposer;
use super::super::ways::Spoken;
use super::found::Learned;
use crate::carriers::Transport;

pub struct Cluster {
    pub way: Transport,
    pub spoken: Spoken,
    pub learned: Learned,
    decree: u64,
}

impl Cluster {
    /// To be called on a thread that lives as long as its nodes.
    pub fn start(directory: &Path, way: Transport, machines: u32) -> Result<Cluster> {
        let directory = directory.join(format!("nodes-{way}"));
        Ok(Cluster {
            way,
            spoken: Spoken::start(&directory, way, machines)?,
            learned: Learned::default(),
            decree: 0,
        })
    }

    pub fn proposer(&self, at: usize, bytes: usize) -> Proposer {
        Proposer::beside(at, &self.spoken.nodes.doors, bytes)
    }

    /// The number of the next decree.
    pub fn next(&mut self) -> u64 {
        self.decree += 1;
        self.decree
    }

    /// The next decree, by one alone.
    pub fn propose(&mut self, proposer: &mut Proposer) -> Result<Duration> {
        let decree = self.next();
        let (value, took) = proposer.propose(decree)?;
        self.learned.note(decree, value);
        Ok(took)
    }

    /// Holds what was learned beside what stands in the end, at each node.
    pub fn look(&mut self) -> Result<()> {
        self.learned.look_at(&self.spoken.nodes)
    }
}

/// `two+unix`, and `one+unix-again` of what is measured twice. TCP is not named.
pub fn variant(name: &str, way: Transport) -> String {
    match (way, name.strip_suffix("-again")) {
        (Transport::Tcp, _) => name.to_owned(),
        (way, Some(once)) => format!("{once}+{way}-again"),
        (way, None) => format!("{name}+{way}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_twice_is_told_by_the_end_of_its_name() {
        assert_eq!(variant("one-again", Transport::Tcp), "one-again");
        assert_eq!(variant("one-again", Transport::Unix), "one+unix-again");
        assert_eq!(variant("two", Transport::GrpcStream), "two+grpc-stream");
    }
}
