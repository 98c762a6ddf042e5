//! An act that cannot be undone is what somebody wanted: bytes are trimmed, and weights moved, by what the
//! cluster was told and has not been told otherwise since.
//!
//! ```text
//!   wanted of a log, by log 0:   A ──────── B ──────── C ──────── D …
//!   answers:                          asked B … ok        asked D …
//!                                     ▲ floor: from the ok on, what only A explains is refused
//! ```
//!
//! A log that has chosen what is wanted of it has heard that, too: from then on nothing of before counts.
//! An answer says that what was asked for was in force at some moment since: the floor is the first
//! point at which log 0 said so. What comes later in log 0 is never refused: it may be in force already.

use std::collections::{BTreeMap, BTreeSet};

use formats::LogId;
use node::directory::DIRECTORY;
use paxos::{Change, Era, NodeId, Wish};
use wire::Retention;

use super::history::Act;
use super::said::{Point, Said, Wanted};
use crate::client::{Answer, Attempt, Entry, Line};

#[derive(Default)]
pub(super) struct Intent {
    attempts: BTreeMap<Attempt, Asked>,
    floors: BTreeMap<LogId, Point>,
    /// The last that each log chose.
    wished: BTreeMap<LogId, Point>,
    /// Steps of log 0, and the floor when each was proposed first.
    proposed: BTreeMap<(Era, NodeId, bool), Point>,
    /// Asked for by people: the log, and the place as it is written.
    trims: Vec<(LogId, String)>,
    /// Names that somebody asked to delete.
    deletions: BTreeSet<String>,
    /// Names, and what somebody asked to keep of them.
    retentions: BTreeMap<String, Vec<Retention>>,
    /// The point up to which log 0 was held to the requests.
    judged: Point,
}

struct Asked {
    request: Line,
    at: Point,
}

impl Intent {
    pub fn on_entry(&mut self, entry: &Entry, said: &Said) {
        match entry {
            Entry::Asked { attempt, request } => {
                let request = Line::parse(request);
                let log = request.arguments.first();
                if let ("trim", Some(log)) = (request.word.as_str(), log)
                    && let (Some(log), Some(before)) = (said.named(log), request.key("before"))
                {
                    self.trims.push((log, before.to_owned()));
                }
                self.on_asked(&request);
                let at = said.point;
                if said.is_kept() {
                    self.attempts.insert(*attempt, Asked { request, at });
                }
            }
            Entry::Heard { attempt, answer } => {
                let granted = matches!(answer, Answer::Line(line) if line.starts_with("ok"));
                let Some(asked) = self.attempts.remove(attempt).filter(|_| granted) else {
                    return;
                };
                match asked.request.word.as_str() {
                    "retain" => self.on_retained(&asked, said),
                    "change-members" => self.on_members_changed(&asked, said),
                    _ => {}
                }
            }
        }
    }

    fn on_asked(&mut self, request: &Line) {
        let Some(name) = request.arguments.first() else {
            return;
        };
        match request.word.as_str() {
            "delete-log" => _ = self.deletions.insert(name.clone()),
            "retain" => {
                let retention = request.key("retention");
                let retention = retention.and_then(|text| text.parse::<Retention>().ok());
                let of_name = self.retentions.entry(name.clone()).or_default();
                of_name.extend(retention);
            }
            _ => {}
        }
    }

    /// Log 0 says more than before: it ends no log, and keeps nothing of one, that nobody asked for.
    pub fn on_said(&mut self, said: &Said) {
        let before = std::mem::replace(&mut self.judged, said.point);
        for (log, name) in said.ended() {
            assert!(
                self.deletions.contains(name),
                "intent: log 0 ends {name}, which is log {}, and nobody asked for that",
                log.0
            );
        }
        for log in said.logs() {
            let Some(name) = said.name_of(log) else {
                continue;
            };
            let asked = self.retentions.get(name).map_or(&[][..], |asked| asked);
            // The first entry is what was wanted before; a log begins with nothing said of it.
            for (point, wanted) in said.wanted_since(log, before) {
                let retention = wanted.retention;
                let is_asked = retention == Retention::default() || asked.contains(&retention);
                assert!(
                    *point <= before || is_asked,
                    "intent: log 0 keeps {retention} of {name}, and nobody asked for that"
                );
            }
        }
    }

    fn raise(&mut self, log: LogId, to: Point) {
        let floor = self.floors.entry(log).or_default();
        *floor = to.max(*floor);
    }

    fn on_retained(&mut self, asked: &Asked, said: &Said) {
        let Asked { request, at } = asked;
        let log = request.arguments.first().and_then(|log| said.named(log));
        let retention = request.key("retention").and_then(|text| text.parse().ok());
        let (Some(log), Some(retention)) = (log, retention) else {
            return;
        };
        let retention: Retention = retention;
        let mut since = said.wanted_since(log, *at).iter();
        let found = since.find(|(_, wanted)| wanted.retention == retention);
        let Some((point, _)) = found else {
            panic!(
                "intent: \"retain\" was answered with ok, and log 0 said at no point since it was asked that log {} keeps {retention}",
                log.0
            );
        };
        self.raise(log, *point.max(at));
    }

    /// Raises the logs for which it changed something: where nothing was to be changed nothing was waited for.
    fn on_members_changed(&mut self, asked: &Asked, said: &Said) {
        let Asked { request, at } = asked;
        let number = |index: usize| request.arguments.get(index)?.parse::<u32>().ok();
        let weight = match request.arguments.first().map(String::as_str) {
            Some("weight") => number(2),
            Some("add") => request.key("weight").and_then(|weight| weight.parse().ok()),
            _ => None,
        };
        let (Some(node), Some(weight)) = (number(1), weight) else {
            return;
        };
        let logs = match request.key("log") {
            Some(name) if name == node::directory::DIRECTORY_NAME => vec![DIRECTORY],
            Some(name) => said.named(name).into_iter().collect(),
            None => said.logs(),
        };
        for log in logs {
            let since = said.wanted_since(log, *at);
            let has = |(_, wanted): &(Point, Wanted)| wanted.weight(node) == weight;
            if !since.first().is_some_and(has)
                && let Some((point, _)) = since.iter().find(|entry| has(entry))
            {
                self.raise(log, *point);
            }
        }
    }

    /// The wish in force when an answer last said that one is, and all wishes since.
    fn in_force<'a>(&self, said: &'a Said, log: LogId) -> impl Iterator<Item = &'a Wanted> {
        let floor = self.floors.get(&log).copied().unwrap_or_default();
        let wanted = said.wanted_since(log, floor).iter();
        wanted.map(|(_, wanted)| wanted)
    }

    /// Something in this log took effect.
    pub fn on_act(&mut self, log: LogId, act: &Act, said: &Said) {
        if !said.is_kept() {
            return;
        }
        match act {
            Act::Trimmed {
                forgotten_bytes,
                left_bytes,
                by,
                by_hand_from,
            } => {
                if *forgotten_bytes == 0 || log == DIRECTORY {
                    return;
                }
                let asked = self.trims.iter().filter(|(of, _)| *of == log);
                let mut places = asked.map(|(_, place)| place.as_str());
                if places.any(by_hand_from) {
                    return;
                }
                let allows = |wanted: &Wanted| {
                    let retention = wanted.retention;
                    let by_size = retention.max_bytes.is_some_and(|max| *left_bytes >= max);
                    by_size || retention.max_age_s.is_some()
                };
                let all: Vec<&Wanted> = self.in_force(said, log).collect();
                let retentions = || all.iter().map(|wanted| wanted.retention.to_string());
                assert!(
                    all.iter().any(|wanted| allows(wanted)),
                    "intent: {forgotten_bytes} bytes of log {} are trimmed and {left_bytes} left by {by:?}, and nobody wants that: the log chose at {:?}, the floor is {:?}, and what was in force then and what was said since is {:?}",
                    log.0,
                    self.wished.get(&log),
                    self.floors.get(&log),
                    retentions().collect::<Vec<_>>()
                );
            }
            Act::Wished(wish) => self.on_wished(log, wish, said),
            Act::StepProposed { from, change } => {
                if let (DIRECTORY, Some((node, up))) = (log, of_weight(*change)) {
                    let floor = self.floor(log);
                    let first = self.proposed.entry((*from, node, up));
                    first.or_insert(floor);
                }
            }
            Act::Stepped { from, was, change } => {
                let mut since = self.floor(log);
                if log == DIRECTORY {
                    // Its steps and its commands follow each other in one log: one that was proposed
                    // before a command may come after it.
                    let first = of_weight(*change).map(|(node, up)| (*from, node, up));
                    let first = first.and_then(|first| self.proposed.get(&first));
                    since = first.copied().unwrap_or_default();
                }
                let from = (self.wished.get(&log), since);
                check_step(log, was, *change, said.wanted_since(log, since), from);
            }
        }
    }

    fn floor(&self, log: LogId) -> Point {
        self.floors.get(&log).copied().unwrap_or_default()
    }

    fn on_wished(&mut self, log: LogId, wish: &Wish, said: &Said) {
        let all = said.wanted_since(log, Point(0));
        let found = all
            .iter()
            .find(|(_, wanted)| wanted.wish.as_ref() == Some(wish));
        let Some((point, _)) = found else {
            panic!(
                "intent: log {} chose {wish:?}, which log 0 said at no point",
                log.0
            );
        };
        let before = self.wished.insert(log, *point).unwrap_or_default();
        assert!(
            *point > before,
            "intent: log {} chose {wish:?}, which log 0 took back: it had chosen a later one",
            log.0
        );
        self.raise(log, *point);
    }
}

/// The node whose weight changes, and whether it grows.
fn of_weight(change: Change) -> Option<(NodeId, bool)> {
    match change {
        Change::Increment(node) => Some((node, true)),
        Change::Decrement(node) => Some((node, false)),
        _ => None,
    }
}

fn check_step(
    log: LogId,
    was: &[(u32, u32)],
    change: Change,
    since: &[(Point, Wanted)],
    from: (Option<&Point>, Point),
) {
    let weight = |node: NodeId| {
        let found = was.iter().find(|(other, _)| *other == node.0);
        found.map_or(0, |(_, weight)| *weight)
    };
    let explains = |wanted: &Wanted| {
        let right_way = match of_weight(change) {
            Some((node, true)) if weight(node) == 0 => wanted.weight(node.0) > 0,
            Some((node, false)) if weight(node) == 1 => wanted.weight(node.0) == 0,
            _ => true,
        };
        right_way && was != wanted.weights
    };
    let is_of_weights = !matches!(
        change,
        Change::MarkAuxiliary(_) | Change::UnmarkAuxiliary(_)
    );
    assert!(
        !is_of_weights || since.iter().any(|(_, wanted)| explains(wanted)),
        "intent: log {} moves from {was:?} by {change:?}, and nobody wants that: from {from:?} on {:?}",
        log.0,
        since
            .iter()
            .map(|(_, wanted)| &wanted.weights)
            .collect::<Vec<_>>()
    );
}
