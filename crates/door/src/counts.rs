//! The counts of a door: for its node, which tells /metrics, and for INFO.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kv::CommandSpec;
use letters::{DoorFigures, Family, Fate};
use ops::Time;
use resp::Value;

/// Rates are those of so long, seen in so many steps.
const SEEN_EVERY: Duration = Duration::from_millis(100);
const SEEN_MAX: usize = 16;

/// One command, as INFO tells of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandCount {
    /// Executed, or tried: not redirected, and not refused.
    pub calls: u64,
    pub sum_us: u64,
    /// Not executed.
    pub rejected: u64,
    /// An error was the answer.
    pub failed: u64,
}

/// Counts at a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    at: Time,
    commands: u64,
    received_bytes: u64,
    sent_bytes: u64,
}

/// The counts of the last seconds, each of one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    pub commands: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
}

/// The totals that INFO tells since CONFIG RESETSTAT. The figures themselves only grow, for /metrics is a record of counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub connections: u64,
    pub connections_refused: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub expired_keys: u64,
    /// Replies that were errors.
    pub errors: u64,
    pub slow_commands: u64,
    pub requests_refused: u64,
    pub clients_closed: u64,
}

impl Totals {
    fn of(figures: &DoorFigures) -> Totals {
        let errors = [Fate::Error, Fate::Moved, Fate::ClusterDown];
        let errors: u64 = errors.iter().map(|fate| figures.of_fate(*fate)).sum();
        Totals {
            connections: figures.connections.get(),
            connections_refused: figures.connections_refused.get(),
            received_bytes: figures.received_bytes.get(),
            sent_bytes: figures.sent_bytes.get(),
            expired_keys: figures.expired_keys.get(),
            errors: errors + figures.requests_refused.get(),
            slow_commands: figures.slow_commands.get(),
            requests_refused: figures.requests_refused.get(),
            clients_closed: figures.clients_closed.get(),
        }
    }

    fn since(self, before: Totals) -> Totals {
        let more = |now: u64, before: u64| now.wrapping_sub(before);
        Totals {
            connections: more(self.connections, before.connections),
            connections_refused: more(self.connections_refused, before.connections_refused),
            received_bytes: more(self.received_bytes, before.received_bytes),
            sent_bytes: more(self.sent_bytes, before.sent_bytes),
            expired_keys: more(self.expired_keys, before.expired_keys),
            errors: more(self.errors, before.errors),
            slow_commands: more(self.slow_commands, before.slow_commands),
            requests_refused: more(self.requests_refused, before.requests_refused),
            clients_closed: more(self.clients_closed, before.clients_closed),
        }
    }
}

pub struct Counts {
    pub figures: Arc<DoorFigures>,
    /// By the place in [`kv::commands`].
    by_command: Vec<(Family, CommandCount)>,
    /// When CONFIG RESETSTAT was asked for last.
    reset: Totals,
    seen: VecDeque<Seen>,
}

impl Counts {
    pub fn new(figures: Arc<DoorFigures>) -> Counts {
        let commands = kv::commands().iter();
        Counts {
            figures,
            by_command: commands
                .map(|spec| (family_of(spec), CommandCount::default()))
                .collect(),
            reset: Totals::default(),
            seen: VecDeque::new(),
        }
    }

    /// Begins anew what INFO tells.
    pub fn reset(&mut self) {
        self.reset = Totals::of(&self.figures);
        for (_, count) in &mut self.by_command {
            *count = CommandCount::default();
        }
        self.seen.clear();
    }

    /// The totals since the last reset.
    pub fn totals(&self) -> Totals {
        Totals::of(&self.figures).since(self.reset)
    }

    /// Counts a command that has come to its end.
    pub fn count(&mut self, command: u16, fate: Fate, took: Duration) {
        let Some((family, count)) = self.by_command.get_mut(usize::from(command)) else {
            return;
        };
        self.figures.family(*family).count(fate, took);
        match fate {
            Fate::Moved | Fate::ClusterDown => count.rejected += 1,
            Fate::Answered | Fate::Error | Fate::Unknown => {
                count.calls += 1;
                count.failed += u64::from(fate == Fate::Error);
                count.sum_us += u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            }
            Fate::Gone => {}
        }
    }

    /// Counts a request that is no command, or not as it is to be.
    pub fn refuse(&mut self, command: Option<u16>) {
        self.figures.requests_refused.add(1);
        let command = command.and_then(|command| self.by_command.get_mut(usize::from(command)));
        if let Some((_, count)) = command {
            count.rejected += 1;
        }
    }

    /// The commands that were asked for since the last reset.
    pub fn by_command(&self) -> impl Iterator<Item = (&'static str, CommandCount)> {
        let counts = kv::commands().iter().zip(&self.by_command);
        counts
            .map(|(spec, (_, count))| (spec.name, *count))
            .filter(|(_, count)| *count != CommandCount::default())
    }

    /// All commands that were executed since the last reset.
    pub fn calls(&self) -> u64 {
        self.by_command.iter().map(|(_, count)| count.calls).sum()
    }

    /// Takes note of the counts of this moment, now and then.
    pub fn look(&mut self, now: Time) {
        if self
            .seen
            .back()
            .is_some_and(|seen| now < seen.at + SEEN_EVERY)
        {
            return;
        }
        let seen = Seen {
            at: now,
            commands: self.calls(),
            received_bytes: self.figures.received_bytes.get(),
            sent_bytes: self.figures.sent_bytes.get(),
        };
        self.seen.push_back(seen);
        if self.seen.len() > SEEN_MAX {
            self.seen.pop_front();
        }
        self.figures.commands_per_second.set(self.rates().commands);
    }

    pub fn rates(&self) -> Rates {
        let (Some(first), Some(last)) = (self.seen.front(), self.seen.back()) else {
            return Rates::default();
        };
        let within_us = (last.at - first.at).as_micros();
        let rate = |first: u64, last: u64| {
            let more = u128::from(last.saturating_sub(first));
            (more * 1_000_000).checked_div(within_us).unwrap_or(0) as u64
        };
        Rates {
            commands: rate(first.commands, last.commands),
            received_bytes: rate(first.received_bytes, last.received_bytes),
            sent_bytes: rate(first.sent_bytes, last.sent_bytes),
        }
    }
}

/// The place of a command in [`kv::commands`].
pub fn place_of(spec: &CommandSpec) -> u16 {
    let found = kv::commands().binary_search_by(|known| known.name.cmp(spec.name));
    found.unwrap_or_default() as u16
}

fn family_of(spec: &CommandSpec) -> Family {
    match spec.group {
        "string" => Family::String,
        "hash" => Family::Hash,
        "list" => Family::List,
        "set" => Family::Set,
        "sorted-set" => Family::SortedSet,
        "generic" => Family::Keys,
        "transactions" => Family::Transactions,
        "connection" => Family::Connection,
        _ => Family::Server,
    }
}

/// The fate of a command, by its reply; `None`: its connection is closed without a word.
pub fn fate_of(reply: Option<&[u8]>) -> Fate {
    match reply {
        None => Fate::Unknown,
        Some([b'-', words @ ..]) => fate_of_error(words),
        Some(_) => Fate::Answered,
    }
}

pub fn fate_of_value(value: &Value) -> Fate {
    match value {
        Value::Error(words) => fate_of_error(words.as_bytes()),
        _ => Fate::Answered,
    }
}

fn fate_of_error(words: &[u8]) -> Fate {
    match () {
        () if words.starts_with(b"MOVED ") => Fate::Moved,
        () if words.starts_with(b"CLUSTERDOWN ") => Fate::ClusterDown,
        () => Fate::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> u16 {
        place_of(kv::lookup(name.as_bytes()).expect("a command"))
    }

    #[test]
    fn each_command_is_counted_as_itself_and_in_its_family() {
        let mut counts = Counts::new(Arc::default());
        for spec in kv::commands() {
            assert_eq!(kv::commands()[usize::from(place_of(spec))].name, spec.name);
        }
        let (get, zadd) = (place("get"), place("zadd"));
        counts.count(get, Fate::Answered, Duration::from_micros(5));
        counts.count(get, Fate::Error, Duration::from_micros(7));
        counts.count(get, Fate::Moved, Duration::from_micros(9));
        counts.refuse(Some(get));
        counts.refuse(None);
        counts.count(zadd, Fate::Gone, Duration::from_secs(1));
        let told: Vec<_> = counts.by_command().collect();
        let of_get = CommandCount {
            calls: 2,
            sum_us: 12,
            rejected: 2,
            failed: 1,
        };
        assert_eq!(told, [("get", of_get)]);
        assert_eq!(counts.figures.requests_refused.get(), 2);
        let of_fate = |family, fate| counts.figures.family(family).of_fate(fate);
        assert_eq!(of_fate(Family::String, Fate::Moved), 1);
        assert_eq!(of_fate(Family::SortedSet, Fate::Gone), 1);
        for (name, family) in [
            ("exec", Family::Transactions),
            ("ttl", Family::Keys),
            ("client", Family::Connection),
            ("cluster", Family::Server),
            ("lpush", Family::List),
        ] {
            let spec = kv::lookup(name.as_bytes()).expect("a command");
            assert_eq!(family_of(spec), family, "{name}");
        }
    }

    #[test]
    fn a_reset_begins_what_is_told_anew_and_leaves_the_figures() {
        let mut counts = Counts::new(Arc::default());
        let get = place("get");
        let happen = |counts: &mut Counts| {
            counts.count(get, Fate::Error, Duration::from_micros(5));
            counts.refuse(Some(get));
            counts.figures.connections.add(3);
            counts.figures.expired_keys.add(1);
        };
        happen(&mut counts);
        let once = (counts.totals(), counts.calls());
        assert_eq!((once.0.errors, once.0.connections, once.1), (2, 3, 1));
        counts.reset();
        assert_eq!((counts.totals(), counts.calls()), (Totals::default(), 0));
        assert_eq!(counts.by_command().count(), 0);
        happen(&mut counts);
        assert_eq!((counts.totals(), counts.calls()), once);
        assert_eq!(counts.figures.connections.get(), 6);
    }

    #[test]
    fn a_fate_is_seen_by_the_reply() {
        for (reply, fate) in [
            (&b"+OK\r\n"[..], Fate::Answered),
            (b"-MOVED 5 a:1\r\n", Fate::Moved),
            (b"-CLUSTERDOWN nobody\r\n", Fate::ClusterDown),
            (b"-ERR MOVED \r\n", Fate::Error),
            (b"", Fate::Answered),
        ] {
            assert_eq!(fate_of(Some(reply)), fate);
        }
        assert_eq!(fate_of(None), Fate::Unknown);
        assert_eq!(fate_of_value(&Value::error("MOVED 1 a:1")), Fate::Moved);
    }

    #[test]
    fn rates_are_of_the_last_seconds() {
        let mut counts = Counts::new(Arc::default());
        let get = place("get");
        let mut now = Time::ZERO;
        for step in 0..100 {
            if step < 50 {
                counts.count(get, Fate::Answered, Duration::ZERO);
                counts.figures.sent_bytes.add(100);
            }
            counts.look(now);
            counts.look(now + Duration::from_millis(50));
            if step == 49 {
                let rates = counts.rates();
                assert_eq!((rates.commands, rates.sent_bytes), (10, 1_000));
                assert_eq!(counts.figures.commands_per_second.get(), 10);
            }
            now += Duration::from_millis(100);
        }
        assert_eq!(counts.rates(), Rates::default());
    }
}
