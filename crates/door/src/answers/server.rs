//! INFO, CONFIG, TIME and the like: about this program.

use std::fmt::Write as _;

use kv::fits;
use resp::Value;

use super::{REDIS_VERSION, error, is, no_subcommand, text};
use crate::client::BULK_BYTES_MAX;

/// The figures that INFO tells.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub version: &'static str,
    pub process: u32,
    pub port: String,
    pub uptime_s: u64,
    pub clients: usize,
    pub connections: u64,
    pub commands: u64,
    pub leads: usize,
    pub groups: usize,
    pub now_us: u64,
}

pub fn info(figures: &Figures, words: &[&[u8]]) -> Value {
    let wanted = words.get(1..).unwrap_or_default();
    let everything = ["all", "everything", "default"];
    let is_wanted = |section: &str| {
        wanted.is_empty()
            || wanted
                .iter()
                .any(|word| is(word, section) || everything.iter().any(|all| is(word, all)))
    };
    let mut lines = String::new();
    for (section, body) in sections(figures) {
        if is_wanted(section) {
            if !lines.is_empty() {
                lines.push_str("\r\n");
            }
            _ = write!(lines, "# {section}\r\n{body}");
        }
    }
    Value::Verbatim(*b"txt", lines.into_bytes())
}

fn sections(figures: &Figures) -> [(&'static str, String); 8] {
    let Figures {
        version,
        process,
        port,
        uptime_s,
        clients,
        connections,
        commands,
        leads,
        groups,
        now_us,
    } = figures;
    [
        (
            "Server",
            format!(
                "redis_version:{REDIS_VERSION}\r\nredis_mode:cluster\r\nlogberg_version:{version}\r\nos:Linux\r\narch_bits:64\r\nprocess_id:{process}\r\ntcp_port:{port}\r\nserver_time_usec:{now_us}\r\nuptime_in_seconds:{uptime_s}\r\nuptime_in_days:{}\r\nhz:10\r\n",
                uptime_s / 86_400
            ),
        ),
        (
            "Clients",
            format!("connected_clients:{clients}\r\nblocked_clients:0\r\nmaxclients:10000\r\n"),
        ),
        (
            "Memory",
            "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n".to_owned(),
        ),
        (
            "Persistence",
            "loading:0\r\naof_enabled:1\r\nrdb_bgsave_in_progress:0\r\naof_rewrite_in_progress:0\r\n"
                .to_owned(),
        ),
        (
            "Stats",
            format!(
                "total_connections_received:{connections}\r\ntotal_commands_processed:{commands}\r\n"
            ),
        ),
        (
            "Replication",
            "role:master\r\nconnected_slaves:0\r\n".to_owned(),
        ),
        ("Cluster", "cluster_enabled:1\r\n".to_owned()),
        (
            "Logberg",
            format!("kv_groups:{groups}\r\nkv_groups_led:{leads}\r\n"),
        ),
    ]
}

pub fn config(words: &[&[u8]]) -> Value {
    let Some(subcommand) = words.get(1) else {
        return error("ERR wrong number of arguments for 'config' command");
    };
    match words.get(2..).unwrap_or_default() {
        [] if is(subcommand, "resetstat") => Value::OK,
        patterns @ [_, ..] if is(subcommand, "get") => {
            let settings = settings().into_iter();
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
        _ if is(subcommand, "set") || is(subcommand, "rewrite") => error(
            "ERR settings are given when a node is started (logberg node --help): CONFIG SET changes none",
        ),
        _ => no_subcommand("CONFIG", subcommand),
    }
}

fn settings() -> [(&'static str, String); 14] {
    let text = |value: &str| value.to_owned();
    [
        ("appendfsync", text("always")),
        ("appendonly", text("yes")),
        ("cluster-enabled", text("yes")),
        ("databases", text("1")),
        ("hash-max-listpack-entries", text("128")),
        ("list-max-listpack-size", text("-2")),
        ("maxclients", text("10000")),
        ("maxmemory", text("0")),
        ("maxmemory-policy", text("noeviction")),
        ("proto-max-bulk-len", BULK_BYTES_MAX.to_string()),
        ("save", text("")),
        ("set-max-intset-entries", text("512")),
        ("timeout", text("0")),
        ("zset-max-listpack-entries", text("128")),
    ]
}

pub fn time(now_us: u64) -> Value {
    let parts = [now_us / 1_000_000, now_us % 1_000_000];
    Value::Array(parts.map(|part| text(part.to_string())).to_vec())
}

/// LATENCY, SLOWLOG, MEMORY, FUNCTION, LOLWUT: as much as programs ask for at their start.
pub fn small(words: &[&[u8]]) -> Value {
    let (name, subcommand) = (
        words.first().copied().unwrap_or_default(),
        words.get(1).copied().unwrap_or_default(),
    );
    match () {
        () if is(name, "lolwut") => text(format!("Logberg, as Redis ver. {REDIS_VERSION}\n")),
        () if is(name, "function") && is(subcommand, "flush") => Value::OK,
        () if is(name, "function") && is(subcommand, "list") => Value::Array(Vec::new()),
        () if is(name, "slowlog") && is(subcommand, "get") => Value::Array(Vec::new()),
        () if is(name, "slowlog") && is(subcommand, "len") => Value::Integer(0),
        () if is(name, "slowlog") && is(subcommand, "reset") => Value::OK,
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
