//! The goals, and whether they are reached. Goals are about 64 clients, pipelines of 16 and the rivals that are there.

use serde::Serialize;

use super::load::Op;
use super::report::{Cell, Report};

#[derive(Debug, Serialize)]
pub struct Goal {
    pub goal: String,
    /// None is more than this, or none is less.
    pub at_most: bool,
    pub bound: f64,
    pub measured: f64,
    pub is_met: bool,
}

const MANY: u32 = 64;
const PIPELINE: u32 = 16;
const IDLE: u32 = 10_000;

impl Report {
    /// Those that something was measured for.
    pub fn goals(&self) -> Vec<Goal> {
        let mut goals = Vec::new();
        let mut add = |goal: &str, at_most, bound, measured: Option<f64>| {
            let Some(measured) = measured else { return };
            let is_met = match at_most {
                true => measured <= bound,
                false => measured >= bound,
            };
            goals.push(Goal {
                goal: goal.to_owned(),
                at_most,
                bound,
                measured,
                is_met,
            });
        };
        let set = |clients, pipeline| self.cell(Op::Set, clients, pipeline);
        let get = |clients, pipeline| self.cell(Op::Get, clients, pipeline);
        let rate = |cell: Option<&Cell>| cell?.figures.get("ops_per_s");
        let times = |cell: Option<&Cell>, rival| cell?.rivals.get(rival)?.we_ops_ratio;
        let raw = set(1, 1).and_then(|cell| cell.p50_of_raw_append);
        add("SET, 1 client: p50 of a raw append's", true, 1.25, raw);
        let one = times(set(1, 1), "etcd");
        add("SET, 1 client: rate of etcd's", false, 3.0, one);
        let many = set(MANY, 1);
        let etcd = times(many, "etcd");
        add("SET, 64 clients: rate of etcd's", false, 10.0, etcd);
        let redis = times(many, "redis_aof");
        let what = "SET, 64 clients: rate of Redis', AOF always";
        add(what, false, 1.0, redis);
        let one = times(get(1, 1), "etcd");
        add("GET, 1 client: rate of etcd's", false, 3.0, one);
        let many = times(get(MANY, 1), "etcd");
        add("GET, 64 clients: rate of etcd's", false, 5.0, many);
        for (op, cell) in [("SET", set(MANY, PIPELINE)), ("GET", get(MANY, PIPELINE))] {
            let what = format!("{op}, 64 clients × 16: commands/s");
            add(&what, false, 200_000.0, rate(cell));
        }
        let failover = self.failover.as_ref();
        let median = failover.map(|failover| failover.median_ms);
        add("leader killed: median ms", true, 400.0, median);
        let max = failover.map(|failover| failover.max_ms);
        add("leader killed: longest ms", true, 1000.0, max);
        for beside in &self.beside {
            let what = format!(
                "{} beside {} × {}: p99 of that alone",
                beside.op.name(),
                beside.connections,
                beside.neighbour.name()
            );
            add(&what, true, 1.5, Some(beside.p99_ratio));
        }
        let idle = self.idle.as_ref();
        let idle = idle.filter(|idle| idle.connections == IDLE);
        let added = idle.map(|idle| idle.added_mb);
        add("10,000 idle connections: MB", true, 100.0, added);
        let Some(moves) = &self.moves else {
            return goals;
        };
        for of in &moves.under_load {
            let figure = |name| of.figures.get(name);
            let (op, clients) = (of.op.name(), of.clients);
            let what = format!("slots move under {op}, {clients} clients: errors");
            add(&what, true, 0.0, Some(of.errors as f64));
            let longest =
                figure("longest_of_slot_p99_ms").zip(figure("before_longest_of_slot_p99_ms"));
            let above = longest.map(|(longest, before)| longest - before);
            let what = format!("… {op}: longest wait of a slot, p99 ms above before");
            add(&what, true, 20.0, above.map(bench::latency::rounded));
            let others = figure("others_p99_ms").zip(figure("before_others_p99_ms"));
            let times = others.map(|(during, before)| during / before);
            let what = format!("… {op}: p99 of other slots, × before");
            add(&what, true, 1.25, times.map(bench::latency::rounded));
        }
        let rate = Some(moves.at_rest.mb_per_s);
        add("slots move at rest: MB/s", false, 50.0, rate);
        goals
    }
}
