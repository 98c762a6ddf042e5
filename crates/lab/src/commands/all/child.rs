//! An experiment as a process of its own, and the file that it leaves.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use testbed::scratch::go_on;

use super::experiments::Experiment;
use crate::study::paper::kept::Kept;

/// The end of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    Whole,
    /// Somebody asked it to end, and it kept what it had.
    Interrupted,
    /// It left nothing.
    Failed,
}

/// One that came to an end.
#[derive(Debug, Serialize)]
pub struct Told {
    pub experiment: String,
    pub end: End,
    pub seconds: f64,
    /// The run. `None`: it left none.
    pub kept: Option<PathBuf>,
    pub checks: usize,
    pub missed: usize,
}

/// The circumstances that all of them share.
pub struct Setting<'a> {
    pub program: &'a Path,
    pub to: &'a Path,
    pub quick: bool,
    pub seed: u64,
    pub directory: Option<&'a Path>,
}

/// A process is looked at so often.
const POLL: Duration = Duration::from_millis(50);

impl Setting<'_> {
    /// The run, too, if it left one.
    pub fn run(&self, experiment: &Experiment) -> Result<(Told, Option<Kept>)> {
        let json = self.to.join(format!("{}.json", experiment.name));
        let since = Instant::now();
        let status = self.wait(self.start(experiment, &json)?)?;
        let seconds = since.elapsed().as_secs_f64().round();
        // A process that was ended says what it had, and that it had no more.
        let kept = Kept::read(&json).ok();
        let is_whole = |kept: &Kept| kept.circumstances().is_none_or(|(run, _)| run.complete);
        let end = match &kept {
            None => End::Failed,
            Some(kept) if is_whole(kept) && status.success() => End::Whole,
            Some(_) => End::Interrupted,
        };
        let path = match kept {
            Some(_) => Some(compress(&json)?),
            None => {
                fs::remove_file(&json)?;
                None
            }
        };
        let checks = kept.as_ref().map_or(&[][..], Kept::checks);
        let told = Told {
            experiment: experiment.command.to_owned(),
            end,
            seconds,
            kept: path,
            checks: checks.len(),
            missed: checks.iter().filter(|check| check.is_missed()).count(),
        };
        Ok((told, kept))
    }

    fn start(&self, experiment: &Experiment, json: &Path) -> Result<Child> {
        let file =
            File::create(json).with_context(|| format!("cannot write {}", json.display()))?;
        let mut command = Command::new(self.program);
        command
            .args(experiment.words(self.quick))
            .arg("--json")
            .stdin(Stdio::null())
            .stdout(Stdio::from(file))
            // Ctrl-C in a terminal goes to us, and we pass it on once.
            .process_group(0);
        if self.quick {
            command.arg("--quick");
        }
        if let Some(directory) = self.directory {
            command.arg("--directory").arg(directory);
        }
        match experiment.is_grid() {
            true => {
                let page = self.to.join(format!("{}.html", experiment.name));
                command.arg("--report").arg(page);
            }
            false => {
                command.arg("--seed").arg(self.seed.to_string());
            }
        }
        let started = command.spawn();
        started.with_context(|| format!("cannot run {}", self.program.display()))
    }

    /// Has it end, once, when somebody wants us to.
    fn wait(&self, mut child: Child) -> Result<ExitStatus> {
        let mut is_asked = false;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if !is_asked && go_on().is_err() {
                is_asked = true;
                // Not waited for yet, so its number is its own.
                kill_process(Pid::from_child(&child), Signal::TERM)?;
            }
            std::thread::sleep(POLL);
        }
    }
}

/// As docs/runs has them.
fn compress(json: &Path) -> Result<PathBuf> {
    let path = json.with_extension("json.gz");
    let text = fs::read(json)?;
    let mut into = GzEncoder::new(File::create(&path)?, Compression::best());
    io::copy(&mut &*text, &mut into)?;
    into.finish()?;
    fs::remove_file(json)?;
    Ok(path)
}
