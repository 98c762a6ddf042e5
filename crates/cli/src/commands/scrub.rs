//! `logberg scrub`: what lies on the disks is read and compared now.

use std::io::{self, IsTerminal};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use client::Client;
use client::admin::{ScrubReport, ScrubView};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::global::Global;
use terminal::exit::{Failure, Kind};
use terminal::show;
use wire::quantity;

/// Read and compare all replicas of a log now, and repair what has rotted
#[derive(Debug, Args)]
#[command(after_help = "\
Nodes do this by themselves, slowly, once a day (`logberg node --scrub-rate`). Every replica reads its own
bytes and checks them; what is damaged is fetched from a peer. The digests of all replicas are compared.
Replicas with different bytes and right checksums are told and left alone: nothing says which of them is
right. Read the range that is named with `logberg read --from-node` at each, and replace the node that is wrong.

Ends at once unless --wait is given, and then with 6 if something is not repaired or differs, and with 9 if
bytes are lost: no member holds them any more.

Example:
  logberg scrub --log main --wait
  logberg scrub --json")]
pub struct Arguments {
    /// The log; without it all of them, one after the other
    #[arg(long, value_name = "LOG")]
    log: Option<String>,
    /// Show how far it is, and return when it is over
    #[arg(long)]
    wait: bool,
    /// Read so many bytes a second at the leader
    #[arg(long, value_name = "RATE", value_parser = quantity::bytes_per_second)]
    rate: Option<u64>,
}

#[derive(Serialize)]
struct Outcome<'a> {
    sound: bool,
    scrubs: &'a [ScrubView],
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let client = global.client();
        let logs = match &self.log {
            Some(log) => vec![log.clone()],
            None => client.logs()?.into_iter().map(|log| log.name).collect(),
        };
        let mut views = Vec::new();
        for log in &logs {
            views.push(match self.wait {
                true => self.wait_for(&client, log, global)?,
                false => client.start_scrub(log, self.rate)?.1,
            });
        }
        let is_sound = |view: &ScrubView| match &view.last {
            Some(last) if self.wait => last.is_sound(),
            _ => view.differences.is_empty(),
        };
        let unsound: Vec<&str> = views
            .iter()
            .filter(|view| !is_sound(view))
            .map(|view| view.log.as_str())
            .collect();
        match global.json {
            true => show::print_json(&Outcome {
                sound: unsound.is_empty(),
                scrubs: &views,
            })?,
            false => show::print(render(&views, self.wait))?,
        }
        match unsound.is_empty() {
            true => Ok(()),
            false => {
                let sentence = format!(
                    "{} is not the same and sound on all its nodes: see above, and their logs",
                    unsound.join(" and ")
                );
                let lost = |view: &ScrubView| {
                    let last = view.last.as_ref().filter(|_| self.wait);
                    last.is_some_and(|last| last.lost_bytes > 0)
                };
                let kind = match views.iter().any(lost) {
                    true => Kind::Lost,
                    false => Kind::Corrupt,
                };
                Err(Failure::new(kind, sentence).into())
            }
        }
    }

    /// The leader may change meanwhile: then the next one begins anew.
    fn wait_for(&self, client: &Client, log: &str, global: &Global) -> Result<ScrubView> {
        let bar = bar(global);
        bar.set_message(log.to_owned());
        loop {
            let (server, begun) = client.start_scrub(log, self.rate)?;
            let number = begun.pass.as_ref().map_or(0, |pass| pass.number);
            // An older pass may still be the last one.
            let ended =
                |view: &ScrubView| view.last.as_ref().is_some_and(|last| last.number >= number);
            let mut seen_at = Instant::now();
            while seen_at.elapsed() < global.timeout {
                sleep(Duration::from_millis(100));
                let Ok(view) = client.scrub_at(&server, log) else {
                    continue;
                };
                seen_at = Instant::now();
                if view.leads && ended(&view) {
                    bar.finish_and_clear();
                    return Ok(view);
                }
                match &view.pass {
                    Some(pass) => show_progress(&bar, pass),
                    None => break,
                }
            }
            tracing::warn!(
                log,
                server,
                "the leader changed: the scrub begins anew at the next one"
            );
        }
    }
}

fn show_progress(bar: &ProgressBar, pass: &ScrubReport) {
    bar.set_length(pass.of_bytes.max(pass.bytes));
    bar.set_position(pass.bytes);
}

fn bar(global: &Global) -> ProgressBar {
    if global.json || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template =
        "{bar:30} {binary_bytes} of {binary_total_bytes} of {msg} compared, {binary_bytes_per_sec}";
    match ProgressStyle::with_template(template) {
        Ok(style) => ProgressBar::new(0).with_style(style),
        Err(_) => ProgressBar::new(0),
    }
}

fn render(views: &[ScrubView], waited: bool) -> String {
    let mut lines = Vec::new();
    for view in views {
        let log = &view.log;
        match (&view.pass, &view.last) {
            (_, Some(last)) if waited => lines.extend(sentences(log, last)),
            (Some(pass), _) => lines.push(format!(
                "{log}: node {} compares {} with its peers; logberg scrub --log {log} --wait says what comes of it",
                view.node,
                quantity::shown(pass.of_bytes)
            )),
            _ => lines.push(format!("{log}: nothing to compare")),
        }
        for difference in &view.differences {
            let digests = difference
                .digests
                .iter()
                .map(|(node, digest)| format!("node {node} has {digest}"));
            lines.push(format!(
                "{log}: DIFFERENT BYTES in stream {} from {} to {}: {}. Every checksum is right, so nothing was changed",
                difference.stream,
                difference.from,
                difference.to,
                digests.collect::<Vec<_>>().join(", ")
            ));
        }
    }
    lines.join("\n")
}

fn sentences(log: &str, last: &ScrubReport) -> Vec<String> {
    let mut lines = vec![format!(
        "{log}: {} read, {} the same on two nodes or more, in {:.1} s",
        quantity::shown(last.bytes),
        quantity::shown(last.compared_bytes),
        last.took_ms as f64 / 1000.0
    )];
    if last.damaged > 0 {
        lines.push(format!(
            "{log}: {} found, {} repaired, {} trimmed since",
            quantity::counted(last.damaged, "damaged place"),
            last.repaired,
            last.trimmed
        ));
    }
    if last.lost_bytes > 0 {
        lines.push(format!(
            "{log}: {} LOST: they were chosen, and every member says that it does not hold them",
            quantity::shown(last.lost_bytes)
        ));
    }
    if last.unchecked_bytes > 0 {
        lines.push(format!(
            "{log}: {} could not be compared with all nodes: some do not hold it yet, or did not answer",
            quantity::shown(last.unchecked_bytes)
        ));
    }
    lines
}
