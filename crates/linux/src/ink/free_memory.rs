//! How much memory the files of the `ram` ink may still take.

use std::io;
use std::path::Path;

/// What the system could still give without swapping, and what our control groups let us have.
pub(super) fn free_memory() -> io::Result<u64> {
    let about = std::fs::read_to_string("/proc/meminfo")?;
    let available = available_bytes(&about).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "/proc/meminfo does not say MemAvailable",
        )
    })?;
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let allowed = allowed_bytes(Path::new("/sys/fs/cgroup"), own_group(&groups));
    Ok(allowed.map_or(available, |allowed| allowed.min(available)))
}

fn available_bytes(meminfo: &str) -> Option<u64> {
    let mut lines = meminfo.lines();
    let line = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

/// Our group's path below the root of version 2; of a container it is the root itself.
fn own_group(groups: &str) -> &Path {
    let mut lines = groups.lines();
    let path = lines.find_map(|line| line.strip_prefix("0::/"));
    Path::new(path.unwrap_or_default())
}

/// The least of what a group and those above it leave; none if nobody sets a limit.
fn allowed_bytes(root: &Path, group: &Path) -> Option<u64> {
    let groups = group.ancestors().map(|group| root.join(group));
    groups.filter_map(|group| left_in(&group)).min()
}

fn left_in(group: &Path) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    // Without a limit it is `max`.
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let limits = [number("memory.max"), number("memory.high")];
    let limit = limits.into_iter().flatten().min()?;
    // Of what is taken, pages of files that nobody has used lately are given up first.
    let stat = read("memory.stat").unwrap_or_default();
    let mut lines = stat.lines();
    let cached = lines.find_map(|line| line.strip_prefix("inactive_file ")?.parse::<u64>().ok());
    let taken = number("memory.current")?.saturating_sub(cached.unwrap_or(0));
    Some(limit.saturating_sub(taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_from_its_line() {
        let text = "MemTotal:  24 kB\nMemFree:  3 kB\nMemAvailable:   5 kB\n";
        assert_eq!(available_bytes(text), Some(5 << 10));
        assert_eq!(available_bytes("MemFree: 3 kB\n"), None);
        assert!(free_memory().unwrap() > 0);
    }

    #[test]
    fn the_tightest_group_from_ours_to_the_root_decides() {
        let root = tempfile::tempdir().unwrap();
        let set = |group: &str, name: &str, text: &str| {
            let group = root.path().join(group);
            std::fs::create_dir_all(&group).unwrap();
            std::fs::write(group.join(name), text).unwrap();
        };
        let ours = own_group("1:name=systemd:/old\n0::/system.slice/logberg.service\n");
        let allowed = || allowed_bytes(root.path(), ours);
        assert_eq!(allowed(), None);
        set("system.slice/logberg.service", "memory.max", "max\n");
        set("system.slice/logberg.service", "memory.current", "700\n");
        assert_eq!(allowed(), None);
        set("system.slice/logberg.service", "memory.max", "1000\n");
        assert_eq!(allowed(), Some(300));
        set(
            "system.slice/logberg.service",
            "memory.stat",
            "anon 1\ninactive_file 200\n",
        );
        assert_eq!(allowed(), Some(500));
        set("system.slice", "memory.high", "2000\n");
        set("system.slice", "memory.current", "1990\n");
        assert_eq!(allowed(), Some(10));
        assert_eq!(own_group("0::/\n"), Path::new(""));
    }
}
