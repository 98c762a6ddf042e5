//! INFO: figures where monitoring programs of Redis look for them. What this node cannot tell truthfully is not there.

use std::fmt::Write as _;

use resp::Value;

use super::{REDIS_VERSION, is};
use crate::counts::{CommandCount, Counts};

/// The figures of INFO beside the counts.
#[derive(Clone, Debug, Default)]
pub struct About {
    pub version: &'static str,
    pub process: u32,
    pub port: String,
    pub uptime_s: u64,
    pub now_us: u64,
    pub clients: usize,
    pub clients_max: usize,
    /// The bytes of requests that are not taken, and of replies that are not read.
    pub clients_bytes: usize,
    /// The memory of the process, if it is known.
    pub resident_bytes: Option<u64>,
    pub leads: usize,
    pub groups: usize,
}

/// The sections of an `INFO` that names none. The others are told to those who ask for all, or for them.
const DEFAULT: [&str; 8] = [
    "server",
    "clients",
    "memory",
    "persistence",
    "stats",
    "replication",
    "cluster",
    "logberg",
];

pub fn info(about: &About, counts: &Counts, words: &[&[u8]]) -> Value {
    let wanted = words.get(1..).unwrap_or_default();
    let is_wanted = |section: &str| {
        let is_default = DEFAULT.contains(&section.to_ascii_lowercase().as_str());
        (wanted.is_empty() && is_default)
            || wanted.iter().any(|word| {
                is(word, section)
                    || is(word, "all")
                    || is(word, "everything")
                    || (is(word, "default") && is_default)
            })
    };
    let mut lines = String::new();
    for (section, body) in sections(about, counts) {
        if is_wanted(section) {
            if !lines.is_empty() {
                lines.push_str("\r\n");
            }
            _ = write!(lines, "# {section}\r\n{body}");
        }
    }
    Value::Verbatim(*b"txt", lines.into_bytes())
}

fn sections(about: &About, counts: &Counts) -> [(&'static str, String); 9] {
    [
        ("Server", server(about)),
        ("Clients", clients(about)),
        ("Memory", memory(about)),
        (
            "Persistence",
            "loading:0\r\naof_enabled:1\r\nrdb_bgsave_in_progress:0\r\naof_rewrite_in_progress:0\r\n"
                .to_owned(),
        ),
        ("Stats", stats(counts)),
        (
            "Replication",
            "role:master\r\nconnected_slaves:0\r\n".to_owned(),
        ),
        ("Cluster", "cluster_enabled:1\r\n".to_owned()),
        ("Commandstats", by_command(counts)),
        ("Logberg", own(about, counts)),
    ]
}

fn server(about: &About) -> String {
    let About {
        version,
        process,
        port,
        uptime_s,
        now_us,
        ..
    } = about;
    format!(
        "redis_version:{REDIS_VERSION}\r\nredis_mode:cluster\r\nlogberg_version:{version}\r\nos:Linux\r\narch_bits:64\r\nprocess_id:{process}\r\ntcp_port:{port}\r\nserver_time_usec:{now_us}\r\nuptime_in_seconds:{uptime_s}\r\nuptime_in_days:{}\r\nhz:10\r\n",
        uptime_s / 86_400
    )
}

fn clients(about: &About) -> String {
    let About {
        clients,
        clients_max,
        ..
    } = about;
    format!(
        "connected_clients:{clients}\r\nmaxclients:{clients_max}\r\nblocked_clients:0\r\ntracking_clients:0\r\n"
    )
}

/// There is no figure of what is allocated, so there is no `used_memory`: that of the process is `used_memory_rss`.
fn memory(about: &About) -> String {
    let resident = about.resident_bytes.map(|bytes| {
        let shown = bytes as f64 / f64::from(1 << 20);
        format!("used_memory_rss:{bytes}\r\nused_memory_rss_human:{shown:.2}M\r\n")
    });
    format!(
        "{}mem_clients_normal:{}\r\nmaxmemory:0\r\nmaxmemory_human:0B\r\nmaxmemory_policy:noeviction\r\n",
        resident.unwrap_or_default(),
        about.clients_bytes
    )
}

fn stats(counts: &Counts) -> String {
    let (rates, totals) = (counts.rates(), counts.totals());
    let kib_per_s = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    let lines = [
        ("total_connections_received", totals.connections.to_string()),
        ("total_commands_processed", counts.calls().to_string()),
        ("instantaneous_ops_per_sec", rates.commands.to_string()),
        ("total_net_input_bytes", totals.received_bytes.to_string()),
        ("total_net_output_bytes", totals.sent_bytes.to_string()),
        ("instantaneous_input_kbps", kib_per_s(rates.received_bytes)),
        ("instantaneous_output_kbps", kib_per_s(rates.sent_bytes)),
        (
            "rejected_connections",
            totals.connections_refused.to_string(),
        ),
        ("expired_keys", totals.expired_keys.to_string()),
        ("evicted_keys", "0".to_owned()),
        ("total_error_replies", totals.errors.to_string()),
    ];
    lines
        .map(|(name, value)| format!("{name}:{value}\r\n"))
        .concat()
}

fn by_command(counts: &Counts) -> String {
    let mut lines = String::new();
    for (name, count) in counts.by_command() {
        let CommandCount {
            calls,
            sum_us,
            rejected,
            failed,
        } = count;
        let each_us = sum_us as f64 / calls.max(1) as f64;
        _ = write!(
            lines,
            "cmdstat_{name}:calls={calls},usec={sum_us},usec_per_call={each_us:.2},rejected_calls={rejected},failed_calls={failed}\r\n"
        );
    }
    lines
}

fn own(about: &About, counts: &Counts) -> String {
    let totals = counts.totals();
    format!(
        "kv_groups:{}\r\nkv_groups_led:{}\r\nkv_slow_commands:{}\r\nkv_requests_refused:{}\r\nkv_clients_closed:{}\r\n",
        about.groups,
        about.leads,
        totals.slow_commands,
        totals.requests_refused,
        totals.clients_closed,
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use letters::Fate;

    use super::*;
    use crate::counts::place_of;

    fn told(counts: &Counts, resident_bytes: Option<u64>, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let about = About {
            clients: 3,
            resident_bytes,
            ..About::default()
        };
        let Value::Verbatim(_, text) = info(&about, counts, &words) else {
            panic!("it is a text")
        };
        String::from_utf8(text).expect("a text")
    }

    #[test]
    fn figures_stand_where_monitoring_programs_look() {
        let mut counts = Counts::new(Arc::default());
        let get = place_of(kv::lookup(b"get").expect("a command"));
        counts.count(get, Fate::Answered, Duration::from_micros(10));
        counts.count(get, Fate::Error, Duration::from_micros(5));
        counts.count(get, Fate::Moved, Duration::from_micros(5));
        counts.refuse(None);
        counts.figures.connections.add(7);
        counts.figures.expired_keys.add(4);
        let all = told(&counts, Some(5 << 20), "INFO all");
        for line in [
            "connected_clients:3",
            "total_connections_received:7",
            "total_commands_processed:2",
            "total_error_replies:3",
            "expired_keys:4",
            "used_memory_rss:5242880",
            "used_memory_rss_human:5.00M",
            "cmdstat_get:calls=2,usec=15,usec_per_call=7.50,rejected_calls=1,failed_calls=1",
        ] {
            assert!(all.contains(&format!("{line}\r\n")), "{line}: {all}");
        }
        // A figure that nobody can tell is left out.
        assert!(!all.contains("used_memory:") && !all.contains("keyspace_hits"));
        assert!(!told(&counts, None, "INFO").contains("used_memory_rss"));
        // As with Redis, single commands are told to those who ask for them.
        assert!(!told(&counts, None, "INFO").contains("cmdstat_"));
        assert!(!told(&counts, None, "INFO default").contains("cmdstat_"));
        let some = told(&counts, None, "INFO commandstats CLIENTS");
        assert!(some.starts_with("# Clients\r\n") && some.contains("\r\n\r\n# Commandstats\r\n"));
        assert!(!some.contains("# Server"));
    }
}
