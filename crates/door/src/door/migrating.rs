//! CLUSTER MIGRATESLOTS and CANCELSLOTMIGRATIONS: a wish for the map in log 0, answered once the map has it.

use std::time::Duration;

use ::slots::{Change, Map, Span};
use formats::LogId;
use letters::Wish;
use ops::Time;
use resp::{Protocol, Value};

use super::{Door, Next};
use crate::answers::error;
use crate::groups::Leads;

/// A wish that is not in the map after so long may be there later: nobody says that it is not.
const PATIENCE: Duration = Duration::from_secs(5);
const UNKNOWN: &str = "ERR the cluster's directory has not answered, and may still do what was asked: look with CLUSTER GETSLOTMIGRATIONS, and ask again";
/// It is told again as often, for a word to whoever leads log 0 may be lost.
const AGAIN_EVERY: Duration = Duration::from_millis(500);

/// A client that waits for the map to be so.
pub(super) struct Wanted {
    client: u64,
    number: u64,
    protocol: Protocol,
    changes: Vec<Change>,
    until: Time,
    again_at: Time,
}

impl Wanted {
    pub fn is_of(&self, client: u64) -> bool {
        self.client == client
    }
}

impl Door {
    /// `SLOTSRANGE first last … NODE id`, as often as wanted.
    pub(super) fn migrate(&mut self, now: Time, id: u64, words: &[&[u8]]) -> Next {
        let changes = self.migrations(words.get(2..).unwrap_or_default());
        self.want(now, id, changes)
    }

    pub(super) fn cancel_migrations(&mut self, now: Time, id: u64) -> Next {
        let changes = self.groups.map().moving().into_iter().filter_map(|moving| {
            let group = moving.from?;
            let spans = vec![moving.span];
            Some(Change::Move { spans, group })
        });
        self.want(now, id, Ok(changes.collect()))
    }

    fn migrations(&self, words: &[&[u8]]) -> Result<Vec<Change>, String> {
        const SHAPE: &str =
            "ERR say CLUSTER MIGRATESLOTS SLOTSRANGE first last [first last ...] NODE node-id";
        let (mut changes, mut spans, mut rest) = (Vec::new(), Vec::new(), words.iter());
        let mut word = rest.next();
        while let Some(name) = word {
            if name.eq_ignore_ascii_case(b"node") && !spans.is_empty() {
                let node = rest.next().ok_or(SHAPE)?;
                let group = self.group_at(node)?;
                let spans = std::mem::take(&mut spans);
                changes.push(Change::Move { spans, group });
                word = rest.next();
                continue;
            }
            if !name.eq_ignore_ascii_case(b"slotsrange") || !spans.is_empty() {
                return Err(SHAPE.to_owned());
            }
            word = rest.next();
            while let Some(first) = word.and_then(|word| resp::integer_of(word)) {
                let last = rest.next().and_then(|word| resp::integer_of(word));
                let slot = |number: i64| u16::try_from(number).ok();
                let span = slot(first).zip(last.and_then(slot));
                let span = span.and_then(|(first, last)| Span::new(first, last));
                spans.push(span.ok_or("ERR Invalid or out of range slot")?);
                word = rest.next();
            }
        }
        match changes.is_empty() || !spans.is_empty() {
            true => Err(SHAPE.to_owned()),
            false => Ok(changes),
        }
    }

    /// The one group that this node leads.
    fn group_at(&self, node: &[u8]) -> Result<u32, String> {
        let text = String::from_utf8_lossy(node);
        let its = |leads: &Leads| match leads {
            Leads::Here => Some(self.groups.own().node),
            Leads::There(place) => Some(place.node),
            Leads::Nobody => None,
        };
        let id = |node: u32| crate::answers::cluster::id_of(&self.groups.cluster(), node);
        let led = self.groups.all(&self.host);
        let led = led
            .iter()
            .filter(|(_, leads)| its(leads).is_some_and(|node| id(node) == text));
        let led: Vec<u32> = led.map(|(group, _)| *group).collect();
        match led[..] {
            [group] => Ok(group),
            [] => Err(format!(
                "ERR node {text} leads no group of keys: `logberg kv move SLOTS --to GROUP` names the group, and `logberg leader move` has it led elsewhere"
            )),
            _ => Err(format!(
                "ERR node {text} leads {} groups of keys: `logberg kv move SLOTS --to GROUP` says which",
                led.len()
            )),
        }
    }

    fn want(&mut self, now: Time, id: u64, changes: Result<Vec<Change>, String>) -> Next {
        let map = self.groups.map();
        let changes = changes.and_then(|changes| {
            let refused = changes.iter().find_map(|change| map.changed(change).err());
            refused.map_or(Ok(changes), |why| Err(format!("ERR {why}")))
        });
        let Some(client) = self.clients.get_mut(&id) else {
            return Next::Taken;
        };
        if !client.is_idle() {
            return Next::Waits;
        }
        let changes = match changes {
            Ok(changes) => changes,
            Err(why) => {
                client.answer(&error(why));
                return Next::Taken;
            }
        };
        let protocol = client.protocol;
        let number = client.await_answer();
        client.group = Some(String::new());
        self.wanted.push(Wanted {
            client: id,
            number,
            protocol,
            changes,
            until: now + PATIENCE,
            again_at: now,
        });
        Next::Taken
    }

    /// Tells the directory what is wanted, and answers whoever waits for what is so.
    pub(super) fn settle_wanted(&mut self, now: Time) {
        let map = self.groups.map().clone();
        for mut wanted in std::mem::take(&mut self.wanted) {
            let Wanted {
                client,
                number,
                protocol,
                ..
            } = wanted;
            wanted.changes.retain(|change| !is_so(&map, change));
            let value = match () {
                () if wanted.changes.is_empty() => Value::OK,
                () if now >= wanted.until => error(UNKNOWN),
                () => {
                    if now >= wanted.again_at {
                        wanted.again_at = now + AGAIN_EVERY;
                        for change in &wanted.changes {
                            self.host.wish(LogId(0), Wish::WantSlots(change.clone()));
                        }
                    }
                    self.wanted.push(wanted);
                    continue;
                }
            };
            self.answer(now, client, number, protocol, Some(&value));
        }
    }

    pub(super) fn wanted_deadline(&self) -> Option<Time> {
        let at = self
            .wanted
            .iter()
            .map(|wanted| wanted.again_at.min(wanted.until));
        at.min()
    }
}

/// Whether the map is as wanted.
fn is_so(map: &Map, change: &Change) -> bool {
    map.changed(change).as_ref() == Ok(map)
}
