//! CONFIG, TIME and the like: about this program.

use std::collections::BTreeMap;
use std::time::Duration;

use kv::fits;
use resp::Value;

use super::{REDIS_VERSION, error, is, no_subcommand, number, text};
use crate::counts::Counts;
use crate::large::VALUE_BYTES_MAX;

/// The slow log's settings, and their bounds: a negative threshold is none.
const SLOWER_THAN: &str = "slowlog-log-slower-than";
const SLOW_MAX: &str = "slowlog-max-len";
const SLOW_ENTRIES_MAX: i64 = 1_024;
/// Redis takes 10 ms for slow, without the time that a client waits for a disk. Here a command is answered once it is on the disks of a majority,
/// so a slow disk's every write would be there and push out what somebody looks for.
const SLOWER_THAN_US: i64 = 100_000;

/// Settings that a client may change at this node. Those that choose how Redis keeps a value in its memory are taken and told again, since
/// programs set them; they change nothing here.
pub struct Settings {
    values: BTreeMap<&'static str, i64>,
    /// A command that takes so long, or longer, is slow; `None`: none is. It is looked at with every command.
    slower_than: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::of(BTreeMap::from([
            ("hash-max-listpack-entries", 128),
            ("hash-max-listpack-value", 64),
            ("hash-max-ziplist-entries", 128),
            ("hash-max-ziplist-value", 64),
            ("list-compress-depth", 0),
            ("list-max-listpack-size", -2),
            ("list-max-ziplist-size", -2),
            ("set-max-intset-entries", 512),
            (SLOWER_THAN, SLOWER_THAN_US),
            (SLOW_MAX, 128),
            ("zset-max-listpack-entries", 128),
            ("zset-max-listpack-value", 64),
            ("zset-max-ziplist-entries", 128),
            ("zset-max-ziplist-value", 64),
        ]))
    }
}

impl Settings {
    fn of(values: BTreeMap<&'static str, i64>) -> Settings {
        let slower_us = values.get(SLOWER_THAN).copied();
        let slower_us = u64::try_from(slower_us.unwrap_or(SLOWER_THAN_US)).ok();
        Settings {
            values,
            slower_than: slower_us.map(Duration::from_micros),
        }
    }

    pub fn slower_than(&self) -> Option<Duration> {
        self.slower_than
    }

    pub fn slow_entries_max(&self) -> usize {
        let entries = self.values.get(SLOW_MAX).copied().unwrap_or_default();
        usize::try_from(entries).unwrap_or_default()
    }

    /// Takes pairs of a name and a number: all, or none. `None`: some are others, or no numbers. Others may be said to be as they are.
    fn set(&mut self, pairs: &[&[u8]]) -> Option<()> {
        let mut taken = self.values.clone();
        for pair in pairs.chunks(2) {
            let [name, value] = pair else { return None };
            let name = name.to_ascii_lowercase();
            if fixed()
                .iter()
                .any(|(fixed, has)| fixed.as_bytes() == name && has.as_bytes() == *value)
            {
                continue;
            }
            let value = number(value).ok()?;
            if name == SLOW_MAX.as_bytes() && !(0..=SLOW_ENTRIES_MAX).contains(&value) {
                return None;
            }
            // A name of today and its older one are one setting.
            let name = String::from_utf8(name).ok()?;
            let names = [
                name.replace("ziplist", "listpack"),
                name.replace("listpack", "ziplist"),
            ];
            let mut is_known = false;
            for (known, kept) in &mut taken {
                if names.iter().any(|name| name == known) {
                    (*kept, is_known) = (value, true);
                }
            }
            is_known.then_some(())?;
        }
        *self = Settings::of(taken);
        Some(())
    }
}

pub fn config(settings: &mut Settings, counts: &mut Counts, words: &[&[u8]]) -> Value {
    let Some(subcommand) = words.get(1) else {
        return error("ERR wrong number of arguments for 'config' command");
    };
    match words.get(2..).unwrap_or_default() {
        [] if is(subcommand, "resetstat") => {
            counts.reset();
            Value::OK
        }
        patterns @ [_, ..] if is(subcommand, "get") => {
            let kept = settings.values.iter();
            let kept = kept.map(|(name, value)| (*name, value.to_string()));
            let settings = fixed().into_iter().chain(kept);
            let asked = |name: &str| {
                patterns
                    .iter()
                    .any(|pattern| fits(&pattern.to_ascii_lowercase(), name.as_bytes()))
            };
            let found = settings.filter(|(name, _)| asked(name));
            Value::Map(
                found
                    .map(|(name, value)| (text(name), text(value)))
                    .collect(),
            )
        }
        pairs @ [_, ..] if is(subcommand, "set") && settings.set(pairs).is_some() => Value::OK,
        _ if is(subcommand, "set") || is(subcommand, "rewrite") => error(
            "ERR CONFIG SET failed - settings are given when a node is started (logberg node --help); those of the slow log may be set (slowlog-max-len: 0 to 1024), and those of encodings are taken and have no effect",
        ),
        _ => no_subcommand("CONFIG", subcommand),
    }
}

fn fixed() -> [(&'static str, String); 10] {
    let text = |value: &str| value.to_owned();
    [
        ("appendfsync", text("always")),
        ("appendonly", text("yes")),
        ("cluster-enabled", text("yes")),
        ("databases", text("1")),
        ("maxclients", text("10000")),
        ("maxmemory", text("0")),
        ("maxmemory-policy", text("noeviction")),
        ("proto-max-bulk-len", VALUE_BYTES_MAX.to_string()),
        ("save", text("")),
        ("timeout", text("0")),
    ]
}

pub fn time(now_us: u64) -> Value {
    let parts = [now_us / 1_000_000, now_us % 1_000_000];
    Value::Array(parts.map(|part| text(part.to_string())).to_vec())
}

/// LATENCY, MEMORY, FUNCTION, LOLWUT: as much as programs ask for at their start.
pub fn small(words: &[&[u8]]) -> Value {
    let (name, subcommand) = (
        words.first().copied().unwrap_or_default(),
        words.get(1).copied().unwrap_or_default(),
    );
    match () {
        () if is(name, "lolwut") => text(format!("Logberg, as Redis ver. {REDIS_VERSION}\n")),
        () if is(name, "function") && is(subcommand, "flush") => Value::OK,
        () if is(name, "function") && is(subcommand, "list") => Value::Array(Vec::new()),
        () if is(name, "latency") && is(subcommand, "reset") => Value::Integer(0),
        () if is(name, "latency") && is(subcommand, "latest") => Value::Array(Vec::new()),
        () if is(name, "memory") && is(subcommand, "doctor") => {
            text("Data lies on disks here, and memory is bounded.")
        }
        () => {
            let name = String::from_utf8_lossy(name).to_uppercase();
            let subcommand = String::from_utf8_lossy(subcommand).to_uppercase();
            let shown: String = format!("{name} {subcommand}").chars().take(128).collect();
            error(format!("ERR {} is not supported here", shown.trim_end()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn ask(settings: &mut Settings, line: &str) -> Value {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        config(settings, &mut Counts::new(Arc::default()), &words)
    }

    #[test]
    fn settings_of_encodings_are_told_as_they_were_set() {
        let encodings = &mut Settings::default();
        let set = "CONFIG SET zset-max-ziplist-entries 7 SET-MAX-INTSET-ENTRIES 9";
        assert_eq!(ask(encodings, set), Value::OK);
        for (name, value) in [
            ("zset-max-listpack-entries", "7"),
            ("zset-max-ziplist-entries", "7"),
            ("set-max-intset-entries", "9"),
            ("hash-max-listpack-entries", "128"),
        ] {
            let told = Value::Map(vec![(text(name), text(value))]);
            assert_eq!(ask(encodings, &format!("CONFIG GET {name}")), told);
        }
        let as_it_is = "CONFIG SET save  appendonly yes";
        assert_eq!(ask(encodings, as_it_is), Value::OK);
        for other in [
            "CONFIG SET set-max-intset-entries 1 maxmemory 1",
            "CONFIG SET set-max-intset-entries",
            "CONFIG SET set-max-intset-entries many",
            "CONFIG SET save 1",
            "CONFIG SET slowlog-max-len 1025",
            "CONFIG SET slowlog-max-len -1",
        ] {
            let told = ask(encodings, other);
            assert!(matches!(told, Value::Error(_)), "{other}: {told:?}");
        }
        let told = ask(encodings, "CONFIG GET set-max-intset-entries");
        assert_eq!(
            told,
            Value::Map(vec![(text("set-max-intset-entries"), text("9"))])
        );
    }

    #[test]
    fn the_slow_logs_settings_are_a_clients() {
        let settings = &mut Settings::default();
        assert_eq!(settings.slower_than(), Some(Duration::from_millis(100)));
        let set = "CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 5";
        assert_eq!(ask(settings, set), Value::OK);
        assert_eq!(settings.slower_than(), Some(Duration::ZERO));
        assert_eq!(settings.slow_entries_max(), 5);
        let none = "CONFIG SET slowlog-log-slower-than -1";
        assert_eq!(ask(settings, none), Value::OK);
        assert_eq!(settings.slower_than(), None);
    }
}
