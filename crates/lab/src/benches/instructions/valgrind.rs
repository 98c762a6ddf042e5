//! Running this program under callgrind, and the total it comes to.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::work::Work;

/// Why nothing can be counted here.
pub fn unusable() -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return Some("the baseline is of x86-64".to_owned());
    }
    if cfg!(debug_assertions) {
        return Some("the baseline is of release builds; say cargo run --release".to_owned());
    }
    let version = Command::new("valgrind").arg("--version").output();
    match version {
        Ok(output) if output.status.success() => None,
        _ => Some("there is no valgrind in PATH; install it to guard the baseline".to_owned()),
    }
}

pub struct Callgrind {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Callgrind {
    pub fn new() -> Result<Callgrind> {
        Ok(Callgrind {
            directory: tempfile::tempdir()?,
            program: std::env::current_exe().context("cannot find this program")?,
        })
    }

    /// Instructions in the work's counted functions and in all they call.
    pub fn count(&self, work: Work) -> Result<u64> {
        self.count_of(work, work.times(), work.batch_bytes())
    }

    /// The same, of so many batches of so many bytes.
    pub fn count_of(&self, work: Work, times: u64, bytes: u64) -> Result<u64> {
        let out = self.directory.path().join(work.name());
        let mut valgrind = Command::new("valgrind");
        valgrind
            .args(["--tool=callgrind", "--collect-atstart=no", "--quiet"])
            .arg(format!("--callgrind-out-file={}", out.display()));
        for function in work.counted() {
            valgrind.arg(format!("--toggle-collect={function}"));
        }
        let output = valgrind
            .arg(&self.program)
            .args(["bench", "instructions", "--work", work.name()])
            .args(["--times", &times.to_string()])
            .args(["--batch-bytes", &bytes.to_string()])
            .stdin(Stdio::null())
            .output()
            .context("cannot run valgrind")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("valgrind failed at {}: {}", work.name(), said.trim());
        }
        let text = fs::read_to_string(&out).context("callgrind wrote nothing")?;
        match total(&text) {
            Some(count) if count > 0 => Ok(count),
            _ => bail!(
                "callgrind counted nothing of {}: the functions it is to count have other names",
                work.name()
            ),
        }
    }
}

/// The format's last line, `totals: N`, of the one event that is counted.
fn total(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("totals:"));
    line?.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found_at_the_end() {
        let text = "version: 1\nevents: Ir\nfn=(1) main\n1 7\n\ntotals: 4711\n";
        assert_eq!(total(text), Some(4711));
        assert_eq!(total("version: 1\nevents: Ir\n"), None);
    }
}
