//! `bench append --tls`: what encryption costs, by the same cluster with and without it in turns.

use anyhow::Result;
use serde::{Serialize, Serializer};

use super::slice::{self, Setting, Slice};
use crate::certificates::Certificates;
use crate::figures::{Compared, Figures};
use crate::latency::rounded;
use terminal::show;
use testbed::environment::Machine;
use testbed::watch::Watch;

/// Those that people are shown. `--json` has all.
const SHOWN: [&str; 15] = [
    "mb_per_s",
    "p50_ms",
    "p99_ms",
    "max_ms",
    "all_cpu_s_per_gb",
    "client_cpu_s_per_gb",
    "client_user_s_per_gb",
    "client_system_s_per_gb",
    "leader_cpu_s_per_gb",
    "leader_user_s_per_gb",
    "leader_system_s_per_gb",
    "follower_cpu_s_per_gb",
    "follower_user_s_per_gb",
    "follower_system_s_per_gb",
    "leader_peak_mb",
];

#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    nodes: u32,
    auxiliaries: u32,
    clients: u32,
    logs: usize,
    write_bytes: u64,
    rate: Option<u64>,
    window_bytes: u64,
    slice_ms: f64,
    warm_up_ms: f64,
    /// Parts of the rate in plain text.
    rate_ratio: f64,
    /// The CPU time per byte of all processes together, of that in plain text.
    cpu_ratio: f64,
    #[serde(serialize_with = "by_name")]
    figures: Vec<Compared>,
    alternations: Vec<Turn>,
    write_path: String,
    machine: Machine,
}

#[derive(Debug, Serialize)]
struct Turn {
    tls: Slice,
    plain: Slice,
}

/// A figure by TLS beside the same in plain text.
#[derive(Serialize)]
struct Beside {
    tls: f64,
    plain: Option<f64>,
    ratio: Option<f64>,
}

impl From<&Compared> for Beside {
    fn from(compared: &Compared) -> Beside {
        Beside {
            tls: compared.cluster,
            plain: compared.floor,
            ratio: compared.ratio,
        }
    }
}

fn by_name<S: Serializer>(all: &[Compared], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(all.iter().map(|one| (&one.name, Beside::from(one))))
}

pub fn run(setting: &Setting, json: bool) -> Result<()> {
    let arguments = setting.arguments;
    let scratch = arguments.place.make(setting.bytes_needed())?;
    let machine = Machine::look(scratch.path())?;
    machine.warn_if_no_disk();
    let certificates = Certificates::make(scratch.path().join("certs"), arguments.nodes)?;
    let slice = setting.warm_up + setting.length + slice::REST;
    let watch = Watch::of(slice * 2 * arguments.alternations);
    let mut write_path = String::new();
    let mut measure = |by_tls: bool| {
        watch.says(match by_tls {
            true => "by TLS",
            false => "in plain text",
        });
        let certificates = by_tls.then_some(&certificates);
        let (measured, path) = setting.cluster(&scratch, certificates)?;
        watch.passed(slice);
        write_path = path;
        anyhow::Ok(measured)
    };
    let mut turns = Vec::new();
    for turn in 0..arguments.alternations {
        // The second of the two finds the disk as the first left it, so each comes first equally often.
        let first = measure(turn % 2 == 0)?;
        let second = measure(turn % 2 == 1)?;
        let (tls, plain) = match turn % 2 {
            0 => (first, second),
            _ => (second, first),
        };
        turns.push(Turn { tls, plain });
    }
    drop(watch);
    let report = Report::new(setting, turns, (machine, write_path));
    match json {
        true => show::print_json(&report),
        false => report.print(),
    }
}

impl Report {
    fn new(
        setting: &Setting,
        turns: Vec<Turn>,
        (machine, write_path): (Machine, String),
    ) -> Report {
        let pairs: Vec<(&Figures, &Figures)> = turns
            .iter()
            .map(|turn| (&turn.tls.figures, &turn.plain.figures))
            .collect();
        let figures = Figures::compare(&pairs);
        let ratio = |name| {
            let found = figures.iter().find(|figure| figure.name == name);
            found.and_then(|figure| figure.ratio).unwrap_or(0.0)
        };
        let arguments = setting.arguments;
        Report {
            bench: "append --tls",
            nodes: arguments.nodes,
            auxiliaries: arguments.auxiliaries(),
            clients: arguments.clients,
            logs: setting.logs.len(),
            write_bytes: arguments.write_size,
            rate: arguments.rate,
            window_bytes: arguments.window,
            slice_ms: rounded(setting.length.as_secs_f64() * 1e3),
            warm_up_ms: rounded(arguments.warm_up * 1e3),
            rate_ratio: ratio("mb_per_s"),
            cpu_ratio: ratio("all_cpu_s_per_gb"),
            figures,
            alternations: turns,
            write_path,
            machine,
        }
    }

    fn print(&self) -> Result<()> {
        let mut table = show::table(&["figure", "by TLS", "plain", "ratio"]);
        let cell = |value: Option<f64>| {
            show::number(value.map_or("-".to_owned(), |value| value.to_string()))
        };
        for name in SHOWN {
            let Some(figure) = self.figures.iter().find(|figure| figure.name == name) else {
                continue;
            };
            table.add_row([
                comfy_table::Cell::new(name),
                show::number(figure.cluster),
                cell(figure.floor),
                cell(figure.ratio),
            ]);
        }
        show::print(show::lines(&table))?;
        show::print(format!(
            "\nthroughput {} of plain text's (turn by turn: {}); its CPU time per byte {} times over (turn by turn: {})",
            self.rate_ratio,
            self.turn_by_turn("mb_per_s"),
            self.cpu_ratio,
            self.turn_by_turn("all_cpu_s_per_gb"),
        ))?;
        show::print(format!("{}, {}", self.machine.sentence(), self.write_path))
    }

    fn turn_by_turn(&self, name: &str) -> String {
        let ratios = self.alternations.iter().filter_map(|turn| {
            let figure = |slice: &Slice| slice.figures.get(name);
            Some(rounded(figure(&turn.tls)? / figure(&turn.plain)?).to_string())
        });
        ratios.collect::<Vec<_>>().join(", ")
    }
}
