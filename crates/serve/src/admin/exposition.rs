//! Figures as Prometheus reads them (OpenMetrics 1.0). docs/operations.md lists them; a test compares.

use std::fmt;

use client::admin::State;
use formats::slots::group_of;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::figures::{Figures, Histogram, Log, RefusedCounts};

type Labels = Vec<(&'static str, String)>;

enum Value {
    Gauge(f64),
    Counter(u64),
    Histogram(Histogram),
    Info,
}

use Value::{Counter, Gauge};

pub fn text(figures: Figures) -> String {
    let mut registry = Registry::with_prefix("logberg");
    registry.register_collector(Box::new(Exposition(figures)));
    let mut text = String::new();
    text::encode(&mut text, &registry).expect("a string takes everything");
    text
}

#[derive(Debug)]
struct Exposition(Figures);

impl Collector for Exposition {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut families = Families {
            encoder,
            figures: &self.0,
        };
        families.of_the_node()?;
        families.of_peers()?;
        families.of_logs()?;
        families.counted_in_logs()?;
        families.of_the_door()?;
        families.of_http()
    }
}

struct Families<'a, 'e> {
    encoder: DescriptorEncoder<'e>,
    figures: &'a Figures,
}

impl Families<'_, '_> {
    fn of_the_node(&mut self) -> fmt::Result {
        let figures = self.figures;
        let number = figures.node.to_string();
        let about = vec![("node", number), ("version", figures.version.clone())];
        self.info("node", "Which node this is, and its program", about)?;
        self.one(
            "uptime",
            "Since the start of the process",
            Unit::Seconds,
            seconds(figures.uptime_us),
        )?;
        let state = match figures.state {
            State::Healthy => 0.0,
            State::AtRisk => 1.0,
            // Between the two, so that rules which compare with 1 and 2 go on to mean what they meant.
            State::Degraded => 1.5,
            State::Unavailable => 2.0,
        };
        self.plain(
            "health_state",
            "0 healthy, 1 at risk, 1.5 degraded: appends to a log are refused, 2 unavailable: something is not served",
            state,
        )?;
        let warnings = figures.warnings.iter();
        let warnings =
            warnings.map(|(code, count)| (vec![("code", code.clone())], Gauge(*count as f64)));
        self.family(
            "warnings",
            "Warnings of all nodes that are so now, by code",
            None,
            MetricType::Gauge,
            warnings,
        )?;
        self.plain(
            "connections",
            "Connections of clients and peers",
            figures.connections as f64,
        )?;
        self.plain(
            "connections_limit",
            "Connections that this node takes at most",
            figures.connections_max as f64,
        )?;
        let free = figures
            .disk_free_bytes
            .map(|free| (Labels::new(), Gauge(free as f64)));
        self.family(
            "disk_free",
            "Free on the disk of the data directory",
            Some(Unit::Bytes),
            MetricType::Gauge,
            free.into_iter(),
        )?;
        self.one(
            "disk_reserve",
            "Appends are refused when less is free",
            Unit::Bytes,
            figures.disk_reserve_bytes as f64,
        )?;
        let memory = resident_bytes().map(|bytes| (Labels::new(), Gauge(bytes as f64)));
        self.family(
            "resident_memory",
            "Memory of the process in use",
            Some(Unit::Bytes),
            MetricType::Gauge,
            memory.into_iter(),
        )?;
        let all = |histogram: &Histogram| {
            [(Labels::new(), Value::Histogram(histogram.clone()))].into_iter()
        };
        self.durations(
            "disk_write_duration",
            "Durable writes of all logs",
            all(&figures.write),
        )?;
        self.durations(
            "proposal_chosen_duration",
            "From a proposal of this leader until it was chosen",
            all(&figures.chosen),
        )?;
        self.counted(
            "disk_full",
            "Times at which appends began to be refused for want of space",
            figures.counts.disk_full,
        )?;
        self.counted(
            "process_gaps",
            "Times at which the process did not run for longer than peers wait",
            figures.counts.gaps,
        )?;
        self.counted(
            "peers_refused",
            "Peers that claimed an identity which was not theirs",
            figures.counts.peers_refused,
        )?;
        let by_door = |of: fn(&RefusedCounts) -> u64| {
            let doors = figures.refused.iter();
            doors.map(move |(door, refused)| (vec![("door", door.clone())], Counter(of(refused))))
        };
        self.family(
            "requests_unauthenticated",
            "Requests that were refused for want of a token that is good",
            None,
            MetricType::Counter,
            by_door(|refused| refused.unauthenticated),
        )?;
        self.family(
            "requests_forbidden",
            "Requests that were refused since no grant of their token allows them",
            None,
            MetricType::Counter,
            by_door(|refused| refused.forbidden),
        )
    }

    fn of_peers(&mut self) -> fmt::Result {
        let peers = &self.figures.peers;
        let of = |node: u32| vec![("node", node.to_string())];
        let alive = peers
            .iter()
            .map(|peer| (of(peer.node), Gauge(f64::from(u8::from(peer.alive)))));
        self.family(
            "peer_alive",
            "1 if this node hears that one, and is heard",
            None,
            MetricType::Gauge,
            alive,
        )?;
        let heard = peers
            .iter()
            .filter_map(|peer| Some((of(peer.node), Gauge(seconds(peer.last_heard_us?)))));
        self.family(
            "peer_last_heard",
            "Since the last heartbeat of that node",
            Some(Unit::Seconds),
            MetricType::Gauge,
            heard,
        )?;
        let accepted = peers.iter().filter_map(|peer| {
            let histogram = peer.accepted.clone()?;
            Some((of(peer.node), Value::Histogram(histogram)))
        });
        self.durations(
            "proposal_accepted_duration",
            "From a proposal of this leader until that node had accepted it durably",
            accepted,
        )
    }

    fn of_logs(&mut self) -> fmt::Result {
        self.each_log("log_leading", "1 where this node leads", None, |log| {
            plays(log, "leader")
        })?;
        self.each_log(
            "log_stopped",
            "1 where this replica stopped after its disk failed",
            None,
            |log| plays(log, "stopped"),
        )?;
        self.each_log(
            "log_chosen_slots",
            "The first slot not known to be chosen",
            None,
            |log| log.first_unchosen as f64,
        )?;
        self.each_log(
            "log_proposed_slots",
            "The first slot not proposed",
            None,
            |log| log.proposed as f64,
        )?;
        let bytes = Some(Unit::Bytes);
        self.each_log(
            "log_output",
            "Chosen and not trimmed",
            bytes.clone(),
            |log| log.output_bytes as f64,
        )?;
        self.each_log("log_trimmed", "Chosen and trimmed", bytes.clone(), |log| {
            log.trimmed_bytes as f64
        })?;
        self.each_log(
            "log_missing",
            "Chosen, and not on this node's disk",
            bytes.clone(),
            |log| log.missing_bytes as f64,
        )?;
        self.each_log(
            "log_disk",
            "Taken by this log's files on this node's disk: records, and trimmed files that are kept for the next ones",
            bytes.clone(),
            |log| log.disk_bytes as f64,
        )?;
        self.each_log(
            "log_disk_queue",
            "Waiting for this node's disk",
            bytes.clone(),
            |log| log.queued_bytes as f64,
        )?;
        self.each_log(
            "log_replication_memory",
            "Proposals that a leader keeps in memory for followers",
            bytes.clone(),
            |log| log.ring_bytes as f64,
        )?;
        self.each_log("log_streams", "Streams that are not trimmed", None, |log| {
            log.streams as f64
        })?;
        let lags = self.figures.logs.iter().flat_map(|log| {
            let of = move |node: &u32| vec![("log", log.name.clone()), ("node", node.to_string())];
            log.lag_bytes
                .iter()
                .map(move |(node, lag)| (of(node), Gauge(*lag as f64)))
        });
        self.family(
            "log_lag",
            "Proposed by this leader, and not accepted by that node",
            bytes,
            MetricType::Gauge,
            lags,
        )
    }

    fn counted_in_logs(&mut self) -> fmt::Result {
        let bytes = Some(Unit::Bytes);
        self.count_logs(
            "log_elections",
            "Elections that this node stood for",
            None,
            |log| log.counts.candidacies,
        )?;
        self.count_logs("log_elections_won", "Elections that it won", None, |log| {
            log.counts.elections_won
        })?;
        self.reasons(
            "log_steps_down",
            "Times at which this node stopped leading",
            |log| {
                let counts = &log.counts;
                vec![
                    ("later-term", counts.deposed_by_later_term),
                    ("no-quorum", counts.deposed_without_quorum),
                    ("asked", counts.stepped_down_when_asked),
                ]
            },
        )?;
        self.reasons(
            "log_throttled",
            "Rounds in which received bytes were not proposed yet, by what they waited for",
            |log| {
                let counts = &log.counts;
                vec![
                    ("quorum", counts.held_by_quorum),
                    ("followers", counts.held_by_followers),
                    ("disk", counts.held_by_disk),
                ]
            },
        )?;
        self.count_logs(
            "log_proposals_sent",
            "To all followers together",
            bytes.clone(),
            |log| log.counts.proposal_bytes_sent,
        )?;
        self.count_logs(
            "log_fetched",
            "Missed by this replica and fetched from others",
            bytes,
            |log| log.counts.bytes_fetched,
        )?;
        self.count_logs(
            "log_streams_opened",
            "Streams opened under this leader",
            None,
            |log| log.counts.streams_opened,
        )?;
        self.count_logs("log_trims", "Trims applied", None, |log| log.counts.trims)?;
        self.count_logs(
            "log_lost_ranges",
            "Ranges of streams that could not be read any more while running",
            None,
            |log| log.counts.ranges_lost,
        )?;
        self.count_logs(
            "log_scrubs",
            "Scrubs that this leader led to their end",
            None,
            |log| log.counts.scrub_passes,
        )?;
        self.count_logs(
            "log_scrubbed",
            "Read and compared by scrubs under this leader",
            Some(Unit::Bytes),
            |log| log.counts.scrub_bytes,
        )?;
        self.count_logs(
            "log_scrub_damaged",
            "Records on this node's disk that a scrub found damaged",
            None,
            |log| log.counts.scrub_damaged,
        )?;
        self.count_logs(
            "log_scrub_repaired",
            "Of those, the ones that are whole again",
            None,
            |log| log.counts.scrub_repaired,
        )?;
        self.count_logs(
            "log_scrub_differences",
            "Times at which a scrub saw different bytes with right checksums",
            None,
            |log| log.counts.scrub_differences,
        )?;
        self.count_logs(
            "log_disk_failures",
            "Times at which the replica stopped after its disk failed",
            None,
            |log| log.counts.disk_failures,
        )?;
        self.count_logs(
            "log_disk_stalls",
            "Times at which this leader gave up leading because its disk hung",
            None,
            |log| log.counts.disk_stalls,
        )
    }

    /// Where clients of keys are answered, and how.
    fn of_the_door(&mut self) -> fmt::Result {
        let figures = self.figures;
        let Some(kv) = &figures.kv else {
            return Ok(());
        };
        let groups = figures
            .logs
            .iter()
            .filter(|log| group_of(&log.name).is_some());
        let led = groups.filter(|log| log.role == "leader").count();
        self.plain(
            "kv_groups_led",
            "Groups of keys that this node leads",
            led as f64,
        )?;
        self.plain(
            "kv_clients",
            "Connections of clients of keys",
            kv.clients as f64,
        )?;
        self.counted("kv_connections", "Connections taken", kv.connections)?;
        self.counted(
            "kv_connections_refused",
            "Connections closed at once, since there were as many as may be",
            kv.connections_refused,
        )?;
        self.counted(
            "kv_clients_closed",
            "Connections closed because they had read too little, or sent too much",
            kv.clients_closed,
        )?;
        let commands = kv.families.iter().flat_map(|family| {
            family.commands.iter().map(|(outcome, count)| {
                let labels = vec![
                    ("family", family.family.clone()),
                    ("outcome", outcome.clone()),
                ];
                (labels, Counter(*count))
            })
        });
        self.family(
            "kv_commands",
            "Commands, by what became of them",
            None,
            MetricType::Counter,
            commands,
        )?;
        let durations = kv.families.iter().map(|family| {
            let labels = vec![("family", family.family.clone())];
            (labels, Value::Histogram(family.duration.clone()))
        });
        self.durations(
            "kv_command_duration",
            "From a command's coming to its answer",
            durations,
        )?;
        self.counted(
            "kv_requests_refused",
            "Requests that are no command, or have the wrong number of words",
            kv.requests_refused,
        )?;
        self.counted(
            "kv_slow_commands",
            "Commands that took as long as the slow log is for",
            kv.slow_commands,
        )?;
        self.counted_bytes("kv_received", "Received from clients", kv.received_bytes)?;
        self.counted_bytes("kv_sent", "Sent to clients", kv.sent_bytes)?;
        self.one(
            "kv_unread",
            "Replies that clients have not taken",
            Unit::Bytes,
            kv.unread_bytes as f64,
        )?;
        self.one(
            "kv_unfinished",
            "Requests that are not taken",
            Unit::Bytes,
            kv.unfinished_bytes as f64,
        )?;
        self.counted(
            "kv_expired_keys",
            "Keys that were taken away after their time, though nobody asked for them",
            kv.expired_keys,
        )?;
        self.plain(
            "kv_slots_coming",
            "Slots on their way to groups that this node leads",
            kv.slots_coming as f64,
        )?;
        self.one(
            "kv_slots_under_way",
            "Since this node heard of the oldest change of the map by which slots are on their way; 0: none are",
            Unit::Seconds,
            kv.slots_under_way_ms as f64 / 1e3,
        )?;
        self.counted_bytes(
            "kv_moved",
            "Rows that came with slots to groups that this node leads",
            kv.moved_bytes,
        )?;
        self.counted(
            "kv_moved_slots",
            "Slots that groups led by this node own since, from others",
            kv.moved_slots,
        )
    }

    /// Where streams and logs are answered over HTTP, and how.
    fn of_http(&mut self) -> fmt::Result {
        let figures = self.figures;
        let Some(http) = &figures.http else {
            return Ok(());
        };
        self.plain(
            "http_clients",
            "Connections of clients over HTTP",
            http.clients as f64,
        )?;
        self.counted("http_connections", "Connections taken", http.connections)?;
        self.counted(
            "http_connections_refused",
            "Connections closed at once, since there were as many as may be",
            http.connections_refused,
        )?;
        let requests = http.methods.iter().flat_map(|method| {
            method.requests.iter().map(|(class, count)| {
                let method = method.method.clone();
                let labels = vec![("method", method), ("class", class.clone())];
                (labels, Counter(*count))
            })
        });
        self.family(
            "http_requests",
            "Requests, by the class of their answer's status",
            None,
            MetricType::Counter,
            requests,
        )?;
        let durations = http.methods.iter().map(|method| {
            let labels = vec![("method", method.method.clone())];
            (labels, Value::Histogram(method.duration.clone()))
        });
        self.durations(
            "http_request_duration",
            "From a request's head to its answer's, but of live reads",
            durations,
        )?;
        let refused = http.refused.iter();
        let refused = refused.map(|(code, count)| (vec![("code", code.clone())], Counter(*count)));
        self.family(
            "http_refused",
            "Requests that were refused, by the code in their answer",
            None,
            MetricType::Counter,
            refused,
        )?;
        self.plain(
            "http_live_readers",
            "Readers who wait for what comes to streams",
            http.live_readers as f64,
        )?;
        self.counted_bytes("http_received", "Received over HTTP", http.received_bytes)?;
        self.counted_bytes("http_sent", "Sent over HTTP", http.sent_bytes)
    }

    fn family(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        kind: MetricType,
        values: impl Iterator<Item = (Labels, Value)>,
    ) -> fmt::Result {
        let mut encoder = self
            .encoder
            .encode_descriptor(name, help, unit.as_ref(), kind)?;
        for (labels, value) in values {
            match (labels.is_empty(), &value) {
                (_, Value::Info) => encoder.encode_info(&labels)?,
                (true, value) => value.encode(&self.figures.bounds_us, &mut encoder)?,
                (false, value) => {
                    let mut encoder = encoder.encode_family(&labels)?;
                    value.encode(&self.figures.bounds_us, &mut encoder)?;
                }
            }
        }
        Ok(())
    }

    fn info(&mut self, name: &str, help: &str, labels: Labels) -> fmt::Result {
        self.family(
            name,
            help,
            None,
            MetricType::Info,
            [(labels, Value::Info)].into_iter(),
        )
    }

    fn one(&mut self, name: &str, help: &str, unit: Unit, value: f64) -> fmt::Result {
        let value = [(Labels::new(), Gauge(value))].into_iter();
        self.family(name, help, Some(unit), MetricType::Gauge, value)
    }

    fn plain(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let value = [(Labels::new(), Gauge(value))].into_iter();
        self.family(name, help, None, MetricType::Gauge, value)
    }

    fn counted(&mut self, name: &str, help: &str, count: u64) -> fmt::Result {
        let value = [(Labels::new(), Counter(count))].into_iter();
        self.family(name, help, None, MetricType::Counter, value)
    }

    fn counted_bytes(&mut self, name: &str, help: &str, count: u64) -> fmt::Result {
        let value = [(Labels::new(), Counter(count))].into_iter();
        self.family(name, help, Some(Unit::Bytes), MetricType::Counter, value)
    }

    fn durations(
        &mut self,
        name: &str,
        help: &str,
        values: impl Iterator<Item = (Labels, Value)>,
    ) -> fmt::Result {
        self.family(
            name,
            help,
            Some(Unit::Seconds),
            MetricType::Histogram,
            values,
        )
    }

    fn each_log(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        value: impl Fn(&Log) -> f64,
    ) -> fmt::Result {
        let values = self
            .figures
            .logs
            .iter()
            .map(|log| (log_label(log), Gauge(value(log))));
        self.family(name, help, unit, MetricType::Gauge, values)
    }

    fn count_logs(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        value: impl Fn(&Log) -> u64,
    ) -> fmt::Result {
        let values = self
            .figures
            .logs
            .iter()
            .map(|log| (log_label(log), Counter(value(log))));
        self.family(name, help, unit, MetricType::Counter, values)
    }

    fn reasons(
        &mut self,
        name: &str,
        help: &str,
        counts: impl Fn(&Log) -> Vec<(&'static str, u64)>,
    ) -> fmt::Result {
        let values = self.figures.logs.iter().flat_map(|log| {
            counts(log).into_iter().map(move |(reason, count)| {
                let labels = vec![("log", log.name.clone()), ("reason", reason.to_owned())];
                (labels, Counter(count))
            })
        });
        self.family(name, help, None, MetricType::Counter, values)
    }
}

impl Value {
    fn encode(&self, bounds_us: &[u64], encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            Gauge(value) => encoder.encode_gauge(value),
            Counter(count) => encoder.encode_counter::<NoLabelSet, _, u64>(count, None),
            Value::Histogram(histogram) => {
                let bounds = bounds_us
                    .iter()
                    .map(|bound| seconds(*bound))
                    .chain([f64::INFINITY]);
                let buckets: Vec<(f64, u64)> =
                    bounds.zip(histogram.counts.iter().copied()).collect();
                let count = histogram.counts.iter().sum();
                encoder.encode_histogram::<NoLabelSet>(
                    seconds(histogram.sum_us),
                    count,
                    &buckets,
                    None,
                )
            }
            Value::Info => Ok(()),
        }
    }
}

fn plays(log: &Log, role: &str) -> f64 {
    f64::from(u8::from(log.role == role))
}

fn log_label(log: &Log) -> Labels {
    vec![("log", log.name.clone())]
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// The resident memory of this process, which is the node's.
pub fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
