//! A client of Redis Cluster that does nothing twice: it follows redirects, which say that nothing was done, and asks nothing again of which
//! nobody knows what became.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use resp::Value;

use super::link::{Link, Words};
use crate::schedule::Chance;

/// What is asked for in one piece: one command, or a transaction, whose outcome is its last reply.
#[derive(Clone, Debug)]
pub struct Request(pub Vec<Words>);

#[derive(Clone, Debug)]
pub enum Came {
    Done(Value),
    /// An error, which says that it was not done; in its first word why.
    Refused(String),
    /// The connection ended, or was silent for too long.
    Unknown,
}

/// An outcome and its times, on the clock of the histories.
#[derive(Clone, Debug)]
pub struct Ended {
    pub came: Came,
    pub invoked: u64,
    pub completed: u64,
}

pub struct Caller {
    doors: Vec<String>,
    links: BTreeMap<String, Link>,
    /// The door that answered last for keys with this tag.
    known: BTreeMap<String, String>,
    chance: Chance,
    began: Instant,
    patience: Duration,
}

/// The patience of a client with one reply. A door holds a command for 1.8 s at most, and doubts for 5 s.
const REPLY_MAX: Duration = Duration::from_secs(4);
/// A client looks for so long for a door that serves its keys.
const SEARCH_MAX: Duration = Duration::from_secs(3);

impl Caller {
    pub fn new(doors: Vec<String>, chance: Chance, began: Instant) -> Caller {
        Caller {
            doors,
            links: BTreeMap::new(),
            known: BTreeMap::new(),
            chance,
            began,
            patience: REPLY_MAX,
        }
    }

    /// Waits no longer than this for a reply, and looks elsewhere.
    pub fn impatient(mut self, patience: Duration) -> Caller {
        self.patience = patience;
        self
    }

    pub fn now(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// Asks for all of these in one piece; all are about keys with this tag.
    pub fn ask(&mut self, tag: &str, requests: &[Request]) -> Vec<Ended> {
        let deadline = Instant::now() + SEARCH_MAX;
        loop {
            let known = self.known.get(tag).cloned();
            let door = known.unwrap_or_else(|| self.any_door());
            let invoked = self.now();
            let Some(link) = self.take_link(&door) else {
                self.known.remove(tag);
                if Instant::now() >= deadline {
                    let refused = Came::Refused("unreachable".to_owned());
                    return vec![self.ended(refused, invoked); requests.len()];
                }
                std::thread::sleep(self.chance.millis(5, 50));
                continue;
            };
            self.known.insert(tag.to_owned(), door.clone());
            let (all, link) = self.ask_at(link, requests, invoked);
            if let Some(link) = link {
                self.links.insert(door, link);
            }
            match redirect(&all) {
                Some(to) if Instant::now() < deadline => {
                    self.known.insert(tag.to_owned(), to);
                }
                _ => {
                    // Another node may know more, or be reached.
                    if all.iter().any(|ended| !matches!(ended.came, Came::Done(_))) {
                        self.known.remove(tag);
                    }
                    return all;
                }
            }
        }
    }

    /// Whether the connection is there in which it was asked last.
    pub fn is_linked(&self, tag: &str) -> bool {
        let door = self.known.get(tag);
        door.is_some_and(|door| self.links.contains_key(door))
    }

    /// Asks where it was asked last, in the same connection; `None` if that is over.
    pub fn ask_again(&mut self, tag: &str, request: Request) -> Option<Ended> {
        let door = self.known.get(tag)?.clone();
        let link = self.links.remove(&door)?;
        let invoked = self.now();
        let (mut all, link) = self.ask_at(link, &[request], invoked);
        if let Some(link) = link {
            self.links.insert(door, link);
        }
        all.pop()
    }

    fn ask_at(
        &self,
        mut link: Link,
        requests: &[Request],
        invoked: u64,
    ) -> (Vec<Ended>, Option<Link>) {
        let commands: Vec<Words> = requests.iter().flat_map(|one| one.0.clone()).collect();
        let mut is_up = link.send(&commands).is_ok();
        let mut all = Vec::new();
        for request in requests {
            let mut came = Came::Unknown;
            for _ in &request.0 {
                let received = is_up.then(|| link.receive().ok()).flatten();
                is_up = received.is_some();
                came = match received {
                    Some(Value::Error(error)) => Came::Refused(error.into_owned()),
                    Some(value) => Came::Done(value),
                    None => Came::Unknown,
                };
            }
            all.push(self.ended(came, invoked));
        }
        (all, is_up.then_some(link))
    }

    fn ended(&self, came: Came, invoked: u64) -> Ended {
        let completed = self.now();
        Ended {
            came,
            invoked,
            completed,
        }
    }

    fn any_door(&mut self) -> String {
        let at = self.chance.below(self.doors.len() as u64) as usize;
        self.doors.get(at).cloned().unwrap_or_default()
    }

    fn take_link(&mut self, door: &str) -> Option<Link> {
        self.links
            .remove(door)
            .or_else(|| Link::to(door, self.patience).ok())
    }

    /// Begins anew with every door.
    pub fn forget(&mut self) {
        self.links.clear();
        self.known.clear();
    }
}

/// Where to ask, if every reply says that this is elsewhere.
fn redirect(all: &[Ended]) -> Option<String> {
    let mut to = None;
    for ended in all {
        let Came::Refused(error) = &ended.came else {
            return None;
        };
        let place = error.strip_prefix("MOVED ")?.split(' ').nth(1)?;
        to = Some(place.to_owned());
    }
    to
}
