//! Many seeds, on as many threads as were asked for. The result does not depend on how many. An interrupted
//! search tells of the seeds that came to their end; a second signal ends it at once.

use std::io::{self, IsTerminal};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use ::sim::workload::{Report, Violation};
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::report::Summary;

pub fn run(
    seeds: Range<u64>,
    jobs: u16,
    quiet: bool,
    run: impl Fn(u64) -> Result<Report, Violation> + Sync,
) -> Result<Summary> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 128 + signal, interrupted.clone())?;
        flag::register(signal, interrupted.clone())?;
    }
    let bar = bar(&seeds, quiet);
    let mut summary = Summary::begin();
    let next = AtomicU64::new(seeds.start);
    let (done, outcomes) = mpsc::channel();
    let mut wrong = 0;
    thread::scope(|scope| {
        for _ in 0..jobs {
            let (done, next, end, run) = (done.clone(), &next, seeds.end, &run);
            let interrupted = &interrupted;
            scope.spawn(move || {
                while !interrupted.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || done.send(run(seed)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        for outcome in outcomes {
            wrong += u64::from(outcome.is_err());
            bar.inc(1);
            bar.set_message(format!("{wrong} wrong"));
            if let (Err(violation), false) = (&outcome, quiet) {
                bar.suspend(|| eprintln!("{violation}"));
            }
            summary.add(outcome);
        }
    });
    bar.finish_and_clear();
    Ok(summary.end())
}

fn bar(seeds: &Range<u64>, quiet: bool) -> ProgressBar {
    if quiet || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(seeds.end - seeds.start);
    match ProgressStyle::with_template("{bar:30} {pos}/{len} seeds, {eta} left, {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
