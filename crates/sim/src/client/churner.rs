//! Creates a log and deletes it, again and again.

use node::op::{Completion, Machine, Op, Time};

use super::Asker;

/// Finishes after so many rounds, with no log left.
pub struct Churner {
    log: String,
    nodes: Vec<String>,
    rest_us: u64,
    /// Creations are even, deletions odd.
    left: u32,
    asker: Asker,
    rest_until: Option<Time>,
}

impl Churner {
    pub fn new(log: &str, nodes: Vec<String>, rounds: u32, rest_us: u64) -> Churner {
        Churner {
            asker: create(log, &nodes),
            log: log.to_owned(),
            nodes,
            rest_us,
            left: 2 * rounds.max(1),
            rest_until: None,
        }
    }
}

fn create(log: &str, nodes: &[String]) -> Asker {
    Asker::new(&[format!("create-log {log}")], "exists", nodes.to_vec())
}

impl Machine for Churner {
    fn handle(&mut self, now: Time, completion: Completion) {
        self.asker.handle(now, completion);
    }

    fn on_time(&mut self, now: Time) {
        if self.rest_until.is_some_and(|until| until <= now) {
            self.rest_until = None;
            self.asker = match self.left.is_multiple_of(2) {
                true => create(&self.log, &self.nodes),
                false => {
                    let request = format!("delete-log {}", self.log);
                    Asker::new(&[request], "unknown-log", self.nodes.clone())
                }
            };
        }
        self.asker.on_time(now);
        if self.asker.is_finished() && self.rest_until.is_none() && self.left > 0 {
            self.left -= 1;
            self.rest_until = Some(Time(now.0 + self.rest_us));
        }
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.asker.poll_op()
    }

    fn deadline(&self) -> Option<Time> {
        match self.is_finished() {
            true => None,
            false => self.rest_until.or_else(|| self.asker.deadline()),
        }
    }

    fn is_finished(&self) -> bool {
        self.left == 0
    }
}
