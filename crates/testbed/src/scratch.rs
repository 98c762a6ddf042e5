//! A bench's directory: made for it, large enough, and gone afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use clap::Args;

use terminal::exit::{Failure, Kind};
use wire::quantity;

const PREFIX: &str = "logberg-scratch-";
/// Left free for everybody else.
const RESERVE_BYTES: u64 = 2 << 30;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Where a bench keeps its files.
#[derive(Clone, Debug, Args)]
pub struct Place {
    /// Keep files under this directory, on the disk to be measured [default: the temporary directory]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Leave the files and the nodes' logs where they are
    #[arg(long)]
    keep: bool,
}

/// A directory that is removed when this is dropped, unless it is to be kept.
pub struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Place {
    /// Makes the directory. `bytes_needed`: on its disk, beside a reserve.
    pub fn make(&self, bytes_needed: u64) -> Result<Scratch> {
        watch_signals()?;
        let parent = self.directory.clone().unwrap_or_else(std::env::temp_dir);
        fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
        remove_abandoned(&parent);
        let free = free_bytes(&parent)?;
        if free < bytes_needed + RESERVE_BYTES {
            let sentence = format!(
                "this may write {} to {}, where {} are free, and leaves {} to others: \
                 name a larger disk with --directory, or ask for less",
                quantity::shown(bytes_needed),
                parent.display(),
                quantity::shown(free),
                quantity::shown(RESERVE_BYTES),
            );
            return Err(Failure::new(Kind::Refused, sentence).into());
        }
        // A number after the prefix says that it may go when that process has gone.
        let kept = if self.keep { "kept-" } else { "" };
        let path = parent.join(format!("{PREFIX}{kept}{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Scratch {
            path,
            keep: self.keep,
        })
    }
}

impl Scratch {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A part of it has had its use: removes it, or keeps it instead of the one kept before, and
    /// lets the disk come to rest. A part whose files were all in memory is not there.
    pub fn retire(&self, part: &Path) -> Result<()> {
        match self.keep {
            _ if !part.exists() => {}
            true => {
                let kept = part.with_extension("last");
                if kept.exists() {
                    fs::remove_dir_all(&kept)?;
                }
                fs::rename(part, kept)?;
            }
            false => fs::remove_dir_all(part)
                .with_context(|| format!("cannot remove {}", part.display()))?,
        }
        let directory = fs::File::open(&self.path)?;
        rustix::fs::syncfs(&directory)?;
        Ok(())
    }

    /// Somebody wants to look at it: it stays, whatever was asked for. Nothing may be using it.
    pub fn keep(&mut self) -> Result<()> {
        if !self.keep {
            let kept = format!("{PREFIX}kept-{}", std::process::id());
            let path = self.path.with_file_name(kept);
            fs::rename(&self.path, &path)?;
            (self.path, self.keep) = (path, true);
        }
        Ok(())
    }

    pub fn check_space(&self) -> Result<()> {
        let free = free_bytes(&self.path)?;
        if free < RESERVE_BYTES / 2 {
            let sentence = format!("only {} are free; this bench stops", quantity::shown(free));
            return Err(Failure::new(Kind::Refused, sentence).into());
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.keep {
            eprintln!("kept: {}", self.path.display());
        } else if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("{} is left: {error}", self.path.display());
        }
    }
}

fn free_bytes(path: &Path) -> Result<u64> {
    let stat =
        rustix::fs::statvfs(path).with_context(|| format!("cannot look at {}", path.display()))?;
    Ok(stat.f_bavail * stat.f_frsize)
}

/// Removes the files that a killed bench could not remove itself.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok()) else {
            continue;
        };
        if !Path::new(&format!("/proc/{pid}")).exists() {
            // Somebody else's, or removed by a bench that started with us.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Ctrl-C makes the next [`go_on`] fail, and everything is cleaned up on the way out.
pub fn watch_signals() -> Result<()> {
    static WATCHING: OnceLock<()> = OnceLock::new();
    if WATCHING.set(()).is_err() {
        return Ok(());
    }
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if INTERRUPTED.swap(true, Ordering::Relaxed) {
                std::process::exit(128 + signal);
            }
            eprintln!("cleaning up; once more ends at once");
        }
    });
    Ok(())
}

/// An error once somebody asked us to end. To be called wherever a bench waits.
pub fn go_on() -> Result<()> {
    match INTERRUPTED.load(Ordering::Relaxed) {
        true => Err(Failure::new(Kind::Failure, "interrupted").into()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_small_a_disk_is_refused_and_says_so() {
        let parent = tempfile::tempdir().unwrap();
        let place = Place {
            directory: Some(parent.path().to_owned()),
            keep: false,
        };
        let Err(error) = place.make(1 << 60) else {
            panic!("no disk is so large")
        };
        assert!(error.to_string().contains("are free"), "{error}");
    }

    #[test]
    fn a_part_whose_files_were_in_memory_has_nothing_to_be_removed() {
        let parent = tempfile::tempdir().unwrap();
        for keep in [false, true] {
            let directory = Some(parent.path().to_owned());
            let scratch = Place { directory, keep }.make(1).unwrap();
            scratch.retire(&scratch.path().join("floor")).unwrap();
        }
    }

    #[test]
    fn what_a_killed_bench_left_is_removed_by_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join(format!("{PREFIX}4294967294"));
        fs::create_dir(&left).unwrap();
        let kept = parent.path().join(format!("{PREFIX}kept-4294967294"));
        fs::create_dir(&kept).unwrap();
        remove_abandoned(parent.path());
        assert!(!left.exists());
        assert!(kept.exists(), "somebody wants to look at it");
    }
}
