//! What a process has used, from /proc.

use std::fs;
use std::io;
use std::time::Duration;

/// User and system time of all its threads, also of those that ended.
///
/// Source: proc_pid_stat(5), fields 14 and 15; a tick is 10 ms.
pub fn cpu(pid: u32) -> io::Result<Duration> {
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
    Ok(Duration::from_secs_f64((user + system) as f64 / per_second))
}

pub fn own_cpu() -> io::Result<Duration> {
    cpu(std::process::id())
}

/// The most memory that was ever resident.
///
/// Source: proc_pid_status(5), VmHWM.
pub fn peak_rss_bytes(pid: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(odd)
}

fn odd() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "/proc says something else")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_has_used_something() {
        assert!(peak_rss_bytes(std::process::id()).unwrap() > 1 << 16);
        own_cpu().unwrap();
    }
}
