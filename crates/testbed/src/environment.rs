//! The circumstances of a figure.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// When the bench began, in UTC.
    pub at: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    /// And what of it makes durable writes wait: a journal or none, `discard`.
    pub filesystem: String,
    /// The system's; nodes ask for cubic where it paces.
    pub congestion: String,
    /// The number of processes that wanted to run when the bench began, averaged over a minute: above 0.2 or
    /// so the machine was shared.
    pub load_before: f64,
}

impl Machine {
    /// `directory`: on the file system that is measured.
    pub fn look(directory: &Path) -> Result<Machine> {
        let congestion = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let first = |text: &str| text.split_ascii_whitespace().next().map(str::to_owned);
        let total = memory
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"));
        let kib = total
            .and_then(first)
            .and_then(|kib| kib.parse::<u64>().ok());
        let now = std::time::SystemTime::now();
        Ok(Machine {
            at: humantime::format_rfc3339_seconds(now).to_string(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kib.unwrap_or(0) * 1024,
            kernel: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            filesystem: filesystem_of(directory)?,
            congestion: congestion.unwrap_or_default().trim().to_owned(),
            load_before: first(&load)
                .and_then(|load| load.parse().ok())
                .unwrap_or(0.0),
        })
    }

    pub fn warn_if_no_disk(&self) {
        if matches!(self.filesystem.as_str(), "tmpfs" | "overlay") {
            tracing::warn!(
                self.filesystem,
                "this is no disk; name one with --directory"
            );
        }
    }

    pub fn sentence(&self) -> String {
        format!(
            "{}: {} cores, {} GiB, Linux {}, {}, {}, load before {}",
            self.at,
            self.cores,
            self.memory_bytes >> 30,
            self.kernel,
            self.filesystem,
            self.congestion,
            self.load_before
        )
    }
}

/// The file system of the mount whose path is the longest that leads to `directory`.
fn filesystem_of(directory: &Path) -> Result<String> {
    let directory = fs::canonicalize(directory)?;
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mount = mounts
        .lines()
        .filter_map(Mount::parse)
        .filter(|mount| directory.starts_with(mount.path))
        .max_by_key(|mount| mount.path.len());
    Ok(mount.map_or("unknown".to_owned(), |mount| mount.describe()))
}

struct Mount<'a> {
    device: &'a str,
    path: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl Mount<'_> {
    fn parse(line: &str) -> Option<Mount<'_>> {
        let mut fields = line.split(' ');
        Some(Mount {
            device: fields.next()?,
            path: fields.next()?,
            kind: fields.next()?,
            options: fields.next()?,
        })
    }

    fn describe(&self) -> String {
        let mut text = self.kind.to_owned();
        let device = Path::new(self.device).file_name().unwrap_or_default();
        let journal = Path::new("/sys/fs/ext4").join(device).join("journal_task");
        if self.kind == "ext4"
            && fs::read_to_string(journal).is_ok_and(|task| task.trim() == "<none>")
        {
            text += " without a journal";
        }
        if self.options.split(',').any(|option| option == "discard") {
            text += ", discard";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_on_proc() {
        assert_eq!(filesystem_of(Path::new("/proc/self")).unwrap(), "proc");
    }
}
