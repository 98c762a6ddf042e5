//! The words of leaders in the view of another node: only they know how far the replicas of their logs are.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::Client;
use crate::admin::Status;

/// A leader that does not answer within this time is left out: a look at a cluster that is in trouble must not wait for it.
const WAIT_MAX: Duration = Duration::from_secs(1);

impl Client {
    /// Adds to a node's view how far the replicas of each log are, which its leader knows: `peers` and `copies`, with
    /// `peers_by`. A log whose leader is unknown or does not answer stays as it is.
    pub fn gather_replicas(&self, status: &mut Status) {
        let deadline = Instant::now() + self.cluster.timeouts.silence.min(WAIT_MAX);
        let own = status.node;
        let addresses: BTreeMap<u64, String> = status
            .nodes
            .iter()
            .filter(|node| node.alive && node.id != own)
            .map(|node| (node.id, node.address.clone()))
            .collect();
        let mut leaders: Vec<(u64, &String)> = status
            .logs
            .iter()
            .filter_map(|log| log.leader)
            .filter_map(|leader| Some((leader, addresses.get(&leader)?)))
            .collect();
        leaders.sort_unstable();
        leaders.dedup();
        let told: Vec<Status> = std::thread::scope(|scope| {
            let asked: Vec<_> = leaders
                .into_iter()
                .map(|(_, address)| {
                    scope.spawn(move || self.cluster.ask_for_status(address, deadline))
                })
                .collect();
            let answered = asked.into_iter().filter_map(|asked| asked.join().ok());
            answered.flatten().collect()
        });
        add_words_of_leaders(status, &told);
    }
}

fn add_words_of_leaders(status: &mut Status, told: &[Status]) {
    let own = status.node;
    let cluster = status.cluster.clone();
    for log in &mut status.logs {
        if log.role == "leader" {
            log.peers_by = Some(own);
            continue;
        }
        // It may lead no more, or be another cluster's node at that address.
        let words = told
            .iter()
            .filter(|said| said.cluster == cluster && Some(said.node) == log.leader)
            .flat_map(|said| &said.logs);
        let mut words = words.filter(|said| said.id == log.id && said.role == "leader");
        if let Some(said) = words.next() {
            log.peers.clone_from(&said.peers);
            log.copies = said.copies;
            log.peers_by = log.leader;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::{LogStatus, PeerStatus};

    fn status(node: u64, role: &str, peers: &[u64]) -> Status {
        let peer = |id: &u64| PeerStatus {
            id: *id,
            lag_bytes: Some(7),
            ..PeerStatus::default()
        };
        let log = LogStatus {
            id: 1,
            role: role.to_owned(),
            leader: Some(2),
            copies: (role == "leader").then_some(2),
            peers: peers.iter().map(peer).collect(),
            ..LogStatus::default()
        };
        Status {
            cluster: "c".to_owned(),
            node,
            logs: vec![log],
            ..Status::default()
        }
    }

    #[test]
    fn the_leaders_word_is_added_and_nobody_elses() {
        let mut seen = status(1, "follower", &[]);
        add_words_of_leaders(&mut seen, &[status(3, "leader", &[1])]);
        assert_eq!(seen.logs[0].peers_by, None, "it follows node 2");
        add_words_of_leaders(&mut seen, &[status(2, "follower", &[])]);
        assert_eq!(seen.logs[0].peers_by, None, "that leads no more");
        let mut other = status(2, "leader", &[1, 3]);
        other.cluster = "d".to_owned();
        add_words_of_leaders(&mut seen, &[other]);
        assert_eq!(seen.logs[0].peers_by, None, "another cluster's");
        add_words_of_leaders(&mut seen, &[status(2, "leader", &[1, 3])]);
        let log = &seen.logs[0];
        assert_eq!((log.peers_by, log.copies), (Some(2), Some(2)));
        assert_eq!(log.peers[1].lag_bytes, Some(7));
    }

    #[test]
    fn what_a_node_leads_it_knows_itself() {
        let mut seen = status(2, "leader", &[1, 3]);
        add_words_of_leaders(&mut seen, &[]);
        assert_eq!(seen.logs[0].peers_by, Some(2));
    }
}
