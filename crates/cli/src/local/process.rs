//! What a process has used, from /proc.

use std::fs;
use std::io;
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu_user: Duration,
    pub cpu_system: Duration,
    /// Memory that is resident now.
    pub rss_bytes: u64,
}

impl Usage {
    pub fn cpu(&self) -> Duration {
        self.cpu_user + self.cpu_system
    }

    /// Source: proc_pid_stat(5), proc_pid_statm(5).
    pub(super) fn of(pid: u32) -> io::Result<Usage> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let statm = fs::read_to_string(format!("/proc/{pid}/statm"))?;
        let odd = || io::Error::new(io::ErrorKind::InvalidData, "/proc says something else");
        let mut usage = parse_stat(&stat).ok_or_else(odd)?;
        let pages: u64 = statm
            .split_ascii_whitespace()
            .nth(1)
            .and_then(|pages| pages.parse().ok())
            .ok_or_else(odd)?;
        usage.rss_bytes = pages * rustix::param::page_size() as u64;
        Ok(usage)
    }
}

fn parse_stat(stat: &str) -> Option<Usage> {
    // The second field is the program's name in parentheses, which may contain both.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let ticks_per_second = rustix::param::clock_ticks_per_second() as f64;
    // Fields 14 and 15 of the whole line: the first here is the third there.
    let mut time = |skipped: usize| -> Option<Duration> {
        let ticks: u64 = fields.nth(skipped)?.parse().ok()?;
        Some(Duration::from_secs_f64(ticks as f64 / ticks_per_second))
    };
    Some(Usage {
        cpu_user: time(11)?,
        cpu_system: time(0)?,
        rss_bytes: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_uses_memory() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.rss_bytes > 1 << 16, "{usage:?}");
    }

    #[test]
    fn a_name_with_parentheses_moves_no_field() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 1 0 5 6 7";
        let usage = parse_stat(stat).unwrap();
        assert_eq!(usage.cpu_user, usage.cpu_system * 5);
        assert!(usage.cpu() > Duration::ZERO);
    }
}
