//! CLUSTER MIGRATESLOTS and CANCELSLOTMIGRATIONS: a wish for the map in log 0, answered once the map has it.
//!
//! ```text
//!  command ─ AskMap ─▶ node … the map is current ─▶ what is to change, or why not ─ WantSlots, again and again ─▶ … the map is so ─▶ OK
//! ```
//!
//! ‡ A node may have read an older map than the client has seen elsewhere: by that one a move is not there to be cancelled, or is done that was
//! taken back. So what is to change, and whether it is so, is judged by a map that has all that was chosen when the command came.

use std::time::Duration;

use ::slots::{Change, Map, Refused, Span};
use formats::LogId;
use letters::Wish;
use ops::Time;
use resp::{Protocol, Value};

use super::{Door, Next};
use crate::answers::error;
use crate::client::WaitsFor;
use crate::groups::Leads;

/// A wish that is not in the map after so long may be there later: nobody says that it is not.
const PATIENCE: Duration = Duration::from_secs(5);
const NOTHING_DONE: &str = "ERR the cluster's directory (log 0) does not answer this node, and nothing was changed: look with `logberg status`, and ask again";
const UNKNOWN: &str = "ERR the cluster's directory has not answered, and may still do what was asked: look with CLUSTER GETSLOTMIGRATIONS, and ask again";
/// It is told again as often, for a word to whoever leads log 0 may be lost.
const AGAIN_EVERY: Duration = Duration::from_millis(500);

/// A client that waits for the map to be so.
pub(super) struct Wanted {
    client: u64,
    number: u64,
    protocol: Protocol,
    what: What,
    /// The number of the question for a map that is current.
    map: u64,
    until: Time,
    again_at: Time,
}

/// The state of a wish.
enum What {
    /// Nothing is judged yet.
    Moves(Vec<Change>),
    CancelAll,
    /// The changes that the map does not have yet.
    Left(Vec<Change>),
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
        self.want(now, id, changes.map(What::Moves))
    }

    pub(super) fn cancel_migrations(&mut self, now: Time, id: u64) -> Next {
        self.want(now, id, Ok(What::CancelAll))
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

    fn want(&mut self, now: Time, id: u64, what: Result<What, String>) -> Next {
        let Some(client) = self.clients.get_mut(&id) else {
            return Next::Taken;
        };
        if !client.is_idle() {
            return Next::Waits(WaitsFor::Answers);
        }
        let what = match what {
            Ok(what) => what,
            Err(why) => {
                client.answer(&error(why));
                return Next::Taken;
            }
        };
        let protocol = client.protocol;
        let number = client.await_answer(0);
        client.group = Some(String::new());
        self.wanted.push(Wanted {
            client: id,
            number,
            protocol,
            what,
            map: self.host.ask_map(),
            until: now + PATIENCE,
            again_at: now,
        });
        Next::Taken
    }

    /// Tells the directory what is wanted, and answers whoever waits for what is so.
    pub(super) fn settle_wanted(&mut self, now: Time) {
        for mut wanted in std::mem::take(&mut self.wanted) {
            let Wanted {
                client,
                number,
                protocol,
                ..
            } = wanted;
            match self.advance_wanted(now, &mut wanted) {
                Some(value) => self.answer(now, client, number, protocol, Some(&value)),
                None => self.wanted.push(wanted),
            }
        }
    }

    /// The answer, once there is one.
    fn advance_wanted(&mut self, now: Time, wanted: &mut Wanted) -> Option<Value> {
        let map = self.host.map().clone();
        let is_late = now >= wanted.until;
        let left = match &mut wanted.what {
            What::Left(left) => {
                left.retain(|change| !is_so(&map, change));
                left
            }
            _ if !self.host.map_is_current(wanted.map) => {
                return is_late.then(|| error(NOTHING_DONE));
            }
            what => {
                let left = match left_of(what, &map) {
                    Ok(left) => left,
                    Err(why) => return Some(error(self.refusal(&why))),
                };
                *what = What::Left(left);
                return self.advance_wanted(now, wanted);
            }
        };
        if left.is_empty() {
            return Some(Value::OK);
        }
        if is_late {
            return Some(error(UNKNOWN));
        }
        if now >= wanted.again_at {
            wanted.again_at = now + AGAIN_EVERY;
            for change in left {
                self.host.wish(LogId(0), Wish::WantSlots(change.clone()));
            }
        }
        None
    }

    /// Clients know groups by their names.
    fn refusal(&self, why: &Refused) -> String {
        let name = match why {
            Refused::NotIn(group) => self.groups.name_of(*group),
            _ => None,
        };
        match name {
            Some(name) => {
                format!("ERR {name} has not joined: let it join first (logberg kv join {name})")
            }
            None => format!("ERR {why}"),
        }
    }

    pub(super) fn wanted_deadline(&self) -> Option<Time> {
        let at = self.wanted.iter().map(|wanted| match wanted.what {
            What::Left(_) => wanted.again_at.min(wanted.until),
            // The map comes as a letter.
            What::Moves(_) | What::CancelAll => wanted.until,
        });
        at.min()
    }
}

/// The changes that are to be made to this map, which is current; or the reason why they cannot be made.
fn left_of(what: &What, map: &Map) -> Result<Vec<Change>, Refused> {
    let mut changes = match what {
        What::Moves(changes) | What::Left(changes) => changes.clone(),
        // A move out of a group that has left cannot be taken back, and goes on alone.
        What::CancelAll => {
            let back = map.moving().into_iter().filter_map(|moving| {
                let group = moving.from?;
                let spans = vec![moving.span];
                Some(Change::Move { spans, group })
            });
            let may = |change: &Change| !matches!(map.changed(change), Err(Refused::NotIn(_)));
            back.filter(may).collect()
        }
    };
    let refused = changes.iter().find_map(|change| map.changed(change).err());
    if let Some(why) = refused {
        return Err(why);
    }
    changes.retain(|change| !is_so(map, change));
    Ok(changes)
}

/// Whether the map is as wanted.
fn is_so(map: &Map, change: &Change) -> bool {
    map.changed(change).as_ref() == Ok(map)
}
