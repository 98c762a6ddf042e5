//! Leaving nothing behind, however the command ends.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use testbed::cluster::LocalCluster;

/// The things to clean up. This is done at the first of: the end of the command, a signal.
#[derive(Clone, Default)]
pub struct Cleanup {
    left: Arc<Mutex<Left>>,
    /// A signal came: the exit code is its thread's to give.
    interrupted: Arc<AtomicBool>,
}

#[derive(Default)]
struct Left {
    cluster: Option<Arc<LocalCluster>>,
    directory: Option<PathBuf>,
    /// The directory was there before: it stays, and only its contents go.
    directory_stays: bool,
}

impl Cleanup {
    /// From now on SIGINT, SIGTERM and SIGHUP clean up and end the process.
    pub fn on_signals(&self) -> Result<()> {
        let mut signals =
            Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot prepare for Ctrl-C")?;
        let cleanup = self.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                if let Some(signal) = signals.forever().next() {
                    cleanup.interrupted.store(true, Ordering::SeqCst);
                    cleanup.clean();
                    std::process::exit(128 + signal);
                }
            })
            .context("cannot start a thread")?;
        Ok(())
    }

    pub fn directory(&self, directory: PathBuf, stays: bool) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.directory = Some(directory);
        left.directory_stays = stays;
    }

    pub fn cluster(&self, cluster: Arc<LocalCluster>) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.cluster = Some(cluster);
    }

    /// Ends the nodes, then removes the directory. Does not return after a signal: what the command
    /// would say then, of nodes that are gone, is of no interest.
    pub fn run(&self) {
        self.clean();
        while self.interrupted.load(Ordering::SeqCst) {
            std::thread::park();
        }
    }

    /// The second caller waits for the first.
    fn clean(&self) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cluster) = left.cluster.take() {
            cluster.end();
        }
        if let Some(directory) = left.directory.take() {
            let removed = match left.directory_stays {
                false => fs::remove_dir_all(&directory),
                true => remove_contents(&directory),
            };
            if let Err(error) = removed {
                eprintln!("logberg: cannot remove {}: {error}", directory.display());
            }
        }
    }
}

fn remove_contents(directory: &PathBuf) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}
