//! Limits of this process, and what its kernel is set to.

use std::fs;

use rustix::process::{Resource, getrlimit};

use super::finding::Finding;
use wire::quantity;

/// A node takes half of these for clients, the other half is for segments and peers.
const FILES_GOOD: u64 = 16_384;
/// Below this a node says at its start that clients will be turned away.
const FILES_LEAST: u64 = 256;
/// The oldest whose io_uring has all that `uring::Ring` asks for.
const URING_LEAST: (u32, u32) = (6, 1);
const MEMORY_GOOD: u64 = 512 << 20;

pub(super) fn checks() -> Vec<Finding> {
    let kernel = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    vec![
        files(getrlimit(Resource::Nofile).maximum),
        io_uring(
            &kernel,
            read("/proc/sys/kernel/io_uring_disabled").as_deref(),
            seccomp(),
        ),
        clock(
            read("/sys/devices/system/clocksource/clocksource0/current_clocksource").as_deref(),
            read("/sys/devices/system/clocksource/clocksource0/available_clocksource").as_deref(),
        ),
        congestion(
            read("/proc/sys/net/ipv4/tcp_congestion_control").as_deref(),
            read("/proc/sys/net/ipv4/tcp_available_congestion_control").as_deref(),
        ),
        huge_pages(read("/sys/kernel/mm/transparent_hugepage/defrag").as_deref()),
        memory(read("/proc/meminfo").as_deref()),
    ]
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Whether system calls are filtered: containers refuse io_uring by default.
fn seccomp() -> bool {
    let status = read("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"));
    line.is_some_and(|mode| mode.trim() == "2")
}

/// A node raises its soft limit to the hard one.
fn files(limit: Option<u64>) -> Finding {
    const CHECK: &str = "open files";
    let change = "in the unit: LimitNOFILE=65536; in a shell, as root: ulimit -n 65536";
    match limit {
        None => Finding::ok(CHECK, "no limit"),
        Some(limit) if limit < FILES_LEAST => Finding::must(
            CHECK,
            format!("at most {limit}: clients would be turned away"),
            change,
        ),
        Some(limit) if limit < FILES_GOOD => Finding::better(
            CHECK,
            format!("at most {limit}: half of them for clients"),
            change,
        ),
        Some(limit) => Finding::ok(CHECK, format!("at most {limit}")),
    }
}

/// Only `--mover uring` and `auto` ask for it. `disabled`: 0 everybody may, 1 some may, 2 nobody; not there
/// before Linux 6.6.
fn io_uring(kernel: &str, disabled: Option<&str>, filtered: bool) -> Finding {
    const CHECK: &str = "io_uring";
    let mut numbers = kernel
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (least, minor) = URING_LEAST;
    match disabled {
        _ if version < URING_LEAST => Finding::better(
            CHECK,
            format!(
                "Linux {kernel} has too little of it: --mover auto is direct here, uring does not start"
            ),
            format!("boot Linux {least}.{minor} or later, or leave --mover at direct, the default"),
        ),
        Some("1" | "2") => Finding::better(
            CHECK,
            "the kernel is told to refuse it: --mover auto is direct then, and uring does not start",
            "sysctl -w kernel.io_uring_disabled=0, or leave --mover at direct, the default",
        ),
        _ if filtered => Finding::better(
            CHECK,
            "system calls are filtered here, in containers often this one too: --mover auto is direct then, and uring does not start",
            "allow io_uring_setup, io_uring_enter and io_uring_register in the container's seccomp profile, or leave --mover at direct, the default",
        ),
        _ => Finding::ok(CHECK, format!("allowed, Linux {kernel}")),
    }
}

/// Every round of a node reads the clock: of these without a system call.
fn clock(current: Option<&str>, available: Option<&str>) -> Finding {
    const CHECK: &str = "clock source";
    const FAST: [&str; 5] = [
        "tsc",
        "kvm-clock",
        "arch_sys_counter",
        "hyperv_clocksource_tsc_page",
        "stp",
    ];
    let Some(current) = current.filter(|name| !name.is_empty()) else {
        return Finding::ok(CHECK, "the kernel does not say which");
    };
    if FAST.contains(&current) {
        return Finding::ok(CHECK, current);
    }
    let found = format!("{current}: each look at the clock is a system call");
    let faster = available
        .unwrap_or_default()
        .split(' ')
        .find(|name| FAST.contains(name));
    match faster {
        Some(faster) => Finding::better(
            CHECK,
            found,
            format!(
                "echo {faster} > /sys/devices/system/clocksource/clocksource0/current_clocksource"
            ),
        ),
        None => Finding::ok(CHECK, format!("{found}, and the machine has no faster one")),
    }
}

/// Nodes ask for cubic where the system's paces.
fn congestion(current: Option<&str>, available: Option<&str>) -> Finding {
    const CHECK: &str = "congestion control";
    let Some(current) = current else {
        return Finding::ok(CHECK, "the kernel does not say which");
    };
    let has_cubic = available
        .unwrap_or_default()
        .split(' ')
        .any(|name| name == "cubic");
    match current {
        "bbr" if !has_cubic => Finding::better(
            CHECK,
            "bbr paces, which costs throughput between machines of one site",
            "modprobe tcp_cubic",
        ),
        "bbr" => Finding::ok(CHECK, "bbr; nodes ask for cubic themselves"),
        other => Finding::ok(CHECK, other),
    }
}

/// Huge pages themselves do no harm: a node's buffers are pooled. Waiting for memory to be made
/// contiguous does.
fn huge_pages(defrag: Option<&str>) -> Finding {
    const CHECK: &str = "transparent huge pages";
    match defrag {
        Some(text) if text.contains("[always]") => Finding::better(
            CHECK,
            "whoever touches new memory waits for huge pages to be made",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/defrag",
        ),
        Some(_) => Finding::ok(CHECK, "nobody waits for them"),
        None => Finding::ok(CHECK, "the kernel has none"),
    }
}

fn memory(meminfo: Option<&str>) -> Finding {
    const CHECK: &str = "memory";
    let available = meminfo.unwrap_or_default().lines().find_map(|line| {
        let kib = line
            .strip_prefix("MemAvailable:")?
            .trim()
            .strip_suffix(" kB")?;
        kib.parse::<u64>().ok()
    });
    match available.map(|kib| kib << 10) {
        None => Finding::ok(CHECK, "the kernel does not say how much"),
        Some(bytes) if bytes < MEMORY_GOOD => Finding::better(
            CHECK,
            format!("{} available", quantity::shown(bytes)),
            "stop something else, or run fewer logs: a log under load takes some 40 MiB, an idle one almost none",
        ),
        Some(bytes) => Finding::ok(CHECK, format!("{} available", quantity::shown(bytes))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict::{Better, Must, Ok};
    use super::*;

    #[test]
    fn each_limit_has_its_verdict() {
        let verdicts =
            [Some(100), Some(1024), Some(65_536), None].map(|limit| files(limit).verdict);
        assert_eq!(verdicts, [Must, Better, Ok, Ok]);
    }

    #[test]
    fn io_uring_is_refused_by_age_by_setting_and_by_filters() {
        let verdicts = [
            "4.19.0-9",
            "5.15.0-100",
            "6.0.19",
            "6.1.0",
            "6.10.3",
            "7.0.0-rc1",
        ];
        let verdicts = verdicts.map(|kernel| io_uring(kernel, None, false).verdict);
        assert_eq!(verdicts, [Better, Better, Better, Ok, Ok, Ok]);
        assert_eq!(
            io_uring("6.8.0-31-generic", Some("2"), false).verdict,
            Better
        );
        assert_eq!(io_uring("6.1.0", None, true).verdict, Better);
        assert_eq!(io_uring("6.8.0", Some("0"), false).verdict, Ok);
    }

    #[test]
    fn a_slow_clock_is_changed_only_where_there_is_a_faster_one() {
        assert_eq!(clock(Some("tsc"), None).verdict, Ok);
        let slow = clock(Some("hpet"), Some("tsc hpet acpi_pm"));
        assert_eq!(slow.verdict, Better);
        assert!(
            slow.change
                .is_some_and(|change| change.contains("echo tsc"))
        );
        assert_eq!(clock(Some("hpet"), Some("hpet acpi_pm")).verdict, Ok);
        assert_eq!(clock(None, None).verdict, Ok);
    }

    #[test]
    fn pacing_and_compaction_are_told() {
        assert_eq!(congestion(Some("bbr"), Some("reno bbr")).verdict, Better);
        assert_eq!(congestion(Some("bbr"), Some("reno cubic bbr")).verdict, Ok);
        assert_eq!(
            huge_pages(Some("[always] defer madvise never")).verdict,
            Better
        );
        assert_eq!(huge_pages(Some("always defer [madvise] never")).verdict, Ok);
        assert_eq!(
            memory(Some("MemTotal: 9 kB\nMemAvailable:   1000 kB\n")).verdict,
            Better
        );
    }
}
