//! The resources that a process has used, from /proc.

use std::fs;
use std::io;
use std::time::Duration;

/// Since the process was started, by all its threads, also those that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub user: Duration,
    pub system: Duration,
    /// The bytes that it caused to be sent to disks. Where that is a secret, 0.
    pub written_bytes: u64,
}

/// Source: proc_pid_stat(5), fields 14 and 15, in ticks of 10 ms; proc_pid_io(5), write_bytes.
pub fn used(pid: u32) -> io::Result<Used> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is the program's name in parentheses, which may contain both.
    let rest = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest)
        .unwrap_or_default();
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let (Some(user), Some(system)) = (ticks(), ticks()) else {
        return Err(odd());
    };
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    let time = |ticks: u64| Duration::from_secs_f64(ticks as f64 / per_second);
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    Ok(Used {
        user: time(user),
        system: time(system),
        written_bytes: number_after(&io, "write_bytes:").unwrap_or(0),
    })
}

pub fn cpu(pid: u32) -> io::Result<Duration> {
    let used = used(pid)?;
    Ok(used.user + used.system)
}

/// The time that the threads of a process that live now have run, to the nanosecond where the system tells it.
///
/// Source: /proc/PID/task/TID/schedstat, first field.
pub fn cpu_of_threads(pid: u32) -> io::Result<Duration> {
    let mut sum = Duration::ZERO;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else {
            return cpu(pid);
        };
        let nanos = text.split_ascii_whitespace().next().ok_or_else(odd)?;
        sum += Duration::from_nanos(nanos.parse().map_err(|_| odd())?);
    }
    Ok(sum)
}

/// The most memory that was ever resident.
///
/// Source: proc_pid_status(5), VmHWM.
pub fn peak_rss_bytes(pid: u32) -> io::Result<u64> {
    kib_in_status(pid, "VmHWM:")
}

/// Memory that is resident now.
pub fn rss_bytes(pid: u32) -> io::Result<u64> {
    kib_in_status(pid, "VmRSS:")
}

fn kib_in_status(pid: u32, name: &str) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = number_after(&status, name);
    kib.map(|kib| kib * 1024).ok_or_else(odd)
}

fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

fn odd() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "/proc says something else")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_has_used_something() {
        let pid = std::process::id();
        assert!(peak_rss_bytes(pid).unwrap() > 1 << 16);
        assert!(rss_bytes(pid).unwrap() <= peak_rss_bytes(pid).unwrap());
        used(pid).unwrap();
    }

    #[test]
    fn a_number_is_found_by_the_name_before_it() {
        let io = "wchar: 7\nwrite_bytes: 4096\ncancelled_write_bytes: 5\n";
        assert_eq!(number_after(io, "write_bytes:"), Some(4096));
        assert_eq!(number_after(io, "read_bytes:"), None);
    }
}
