//! The file system of a directory, and how long it takes to make a block durable there.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use bench::machine::{Writes, write_blocks};
use linux::LinuxDisk;
use ops::Disk as _;
use replica::Limits;
use rustix::fs::statvfs;
use testbed::watch::Watch;
use wire::quantity;

use super::finding::Finding;

const MEASURED: Duration = Duration::from_secs(1);
const BLOCK: usize = 4096;
const FREE_GOOD: u64 = 10 << 30;
const FILES_LEAST: u64 = 1000;
/// A leader whose disk hangs for 1.5 s is succeeded; it should never come near.
const SLOW_MS: f64 = 20.0;
const TOO_SLOW_MS: f64 = 200.0;

pub(super) fn checks(directory: &Path, watch: &Watch) -> Vec<Finding> {
    let mut checks = vec![match Mount::of(directory) {
        Ok(mount) => mount.judge(),
        Err(error) => Finding::ok(
            "file system",
            format!("the kernel does not say which: {error:#}"),
        ),
    }];
    checks.push(write_cache(queue_of(directory).as_deref()));
    checks.extend(space(directory));
    let path = LinuxDisk::new().write_path(directory);
    checks.push(write_path(&path));
    for (check, direct) in [
        ("durable writes (O_DIRECT)", true),
        ("durable writes (fdatasync)", false),
    ] {
        watch.says(check);
        checks.push(match timed(directory, direct) {
            Ok(Some(writes)) => latency(check, &writes),
            Ok(None) => Finding::ok(check, "not possible here, see above"),
            Err(error) => Finding::must(
                check,
                format!("{error:#}"),
                "choose a directory that the node's user may write to, on a disk that works",
            ),
        });
        watch.step(1);
    }
    checks
}

/// The mount of a directory's files.
struct Mount {
    kind: String,
    options: String,
}

impl Mount {
    /// The one whose path is the longest that leads there.
    fn of(directory: &Path) -> Result<Mount> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("no list of mounts")?;
        let directory = fs::canonicalize(directory)?;
        let mount = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (path, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
            let path = unescaped(path);
            directory
                .starts_with(&path)
                .then_some((path.len(), kind, options))
        });
        let (_, kind, options) = mount
            .max_by_key(|(length, ..)| *length)
            .context("it is on no mount")?;
        Ok(Mount {
            kind: kind.to_owned(),
            options: options.to_owned(),
        })
    }

    fn judge(&self) -> Finding {
        const CHECK: &str = "file system";
        let kind = self.kind.as_str();
        let has = |option| self.options.split(',').any(|o| o == option);
        if has("nobarrier") || has("barrier=0") {
            return Finding::must(
                CHECK,
                format!("{kind} without barriers: what it calls durable is lost with the power"),
                "mount it without nobarrier and barrier=0",
            );
        }
        match kind {
            "tmpfs" | "ramfs" => Finding::must(
                CHECK,
                format!("{kind} is memory: nothing survives"),
                "choose a directory on a disk, ext4 or xfs",
            ),
            "overlay" => Finding::must(
                CHECK,
                "overlay: the data would go with its container",
                "mount a volume there, of a disk with ext4 or xfs",
            ),
            "ext4" if has("data=journal") => Finding::better(
                CHECK,
                "ext4 with data=journal writes every byte twice, and not past the page cache",
                "mount it with data=ordered",
            ),
            "ext4" | "xfs" => Finding::ok(CHECK, kind),
            "nfs" | "nfs4" | "cifs" | "9p" | "fuse" | "ceph" => Finding::better(
                CHECK,
                format!(
                    "{kind} is not a disk of this machine: one fault may take all nodes that use it"
                ),
                "choose a local disk with ext4 or xfs",
            ),
            "btrfs" | "zfs" | "bcachefs" => Finding::better(
                CHECK,
                format!("{kind} copies on write, which durable writes of a block wait for"),
                "choose ext4 or xfs, or measure with logberg bench machine --directory",
            ),
            other => Finding::better(
                CHECK,
                format!("{other} is not known here"),
                "choose ext4 or xfs, or measure with logberg bench machine --directory",
            ),
        }
    }
}

/// In the list of mounts a space in a path is `\040`.
fn unescaped(path: &str) -> String {
    let names = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    names
        .into_iter()
        .fold(path.to_owned(), |path, (from, to)| path.replace(from, to))
}

/// The kernel's view of the cache of the disk that this directory is on.
fn queue_of(directory: &Path) -> Option<String> {
    let device = fs::metadata(directory).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let device = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    // A partition's queue is its disk's.
    let queues = [device.join("queue"), device.parent()?.join("queue")];
    let said = queues
        .iter()
        .find_map(|queue| fs::read_to_string(queue.join("write_cache")).ok())?;
    Some(said.trim().to_owned())
}

/// A hint, no proof: the kernel believes what the disk says of itself, or what somebody wrote there.
fn write_cache(said: Option<&str>) -> Finding {
    const CHECK: &str = "disk cache";
    match said {
        Some("write back") => Finding::ok(
            CHECK,
            "write back: the disk may hold what is written in memory that is lost with the power. Nodes have it flushed \
             before they acknowledge; a disk, or a virtual machine's host, that does not obey loses acknowledged bytes",
        ),
        Some("write through") => Finding::ok(
            CHECK,
            "write through: the kernel never has the disk flushed. That is right if its cache survives a loss of power \
             or it has none, and loses acknowledged bytes if somebody only told the kernel so",
        ),
        Some(other) => Finding::ok(
            CHECK,
            format!("the kernel says {other:?}, which is not known here"),
        ),
        None => Finding::ok(CHECK, "the kernel does not say whether there is one"),
    }
}

fn space(directory: &Path) -> Vec<Finding> {
    let space = match statvfs(directory) {
        Ok(space) => space,
        Err(error) => {
            return vec![Finding::ok(
                "free space",
                format!("cannot be asked for: {error}"),
            )];
        }
    };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    // Some file systems make inodes as they go, and say that there are none.
    let files = (space.f_files > 0).then_some(space.f_favail);
    vec![free_space(free), free_files(files)]
}

fn free_space(free: u64) -> Finding {
    const CHECK: &str = "free space";
    let reserve = Limits::default().disk_reserve_bytes;
    let found = quantity::shown(free);
    match free {
        _ if free < 2 * reserve => Finding::must(
            CHECK,
            format!(
                "{found}, and appends are refused below {}",
                quantity::shown(reserve)
            ),
            "free space, or keep less in reserve with --disk-reserve (32MiB or more is safe)",
        ),
        _ if free < FREE_GOOD => Finding::better(
            CHECK,
            found,
            "free space, or bound what logs keep: logberg log retain LOG 10GiB",
        ),
        _ => Finding::ok(CHECK, found),
    }
}

fn free_files(files: Option<u64>) -> Finding {
    const CHECK: &str = "free inodes";
    match files {
        Some(files) if files < FILES_LEAST => Finding::must(
            CHECK,
            format!("{files}: a segment that cannot be made stops its log"),
            "remove files there, or make the file system anew with more inodes",
        ),
        Some(files) => Finding::ok(CHECK, files.to_string()),
        None => Finding::ok(CHECK, "made as they are needed"),
    }
}

fn write_path(path: &str) -> Finding {
    const CHECK: &str = "write path";
    match path.strip_prefix("buffered: ") {
        None => Finding::ok(CHECK, path),
        Some(why) => Finding::better(
            CHECK,
            format!("through the page cache, with an fdatasync each: {why}"),
            "choose a directory on a disk with ext4 or xfs and blocks of at most 4096 bytes",
        ),
    }
}

/// In a file without a name: nothing stays, however this ends.
fn timed(directory: &Path, direct: bool) -> Result<Option<Writes>> {
    let path = directory.join(format!(".doctor-{}", std::process::id()));
    let file =
        File::create_new(&path).with_context(|| format!("cannot make {}", path.display()))?;
    fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    write_blocks(&file, BLOCK, direct, MEASURED)
}

fn latency(check: &'static str, writes: &Writes) -> Finding {
    let Writes { p50_ms, p99_ms, .. } = *writes;
    let found = format!("{p50_ms} ms each, 1 in 100 takes {p99_ms} ms or more");
    let change = "choose a disk whose cache survives a loss of power (enterprise NVMe), and let nothing else write to it";
    match p50_ms {
        _ if p50_ms > TOO_SLOW_MS => Finding::must(check, found, change),
        _ if p50_ms > SLOW_MS || p99_ms > 5.0 * SLOW_MS => Finding::better(check, found, change),
        _ => Finding::ok(check, found),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict::{Better, Must, Ok};
    use super::*;

    fn mount(kind: &str, options: &str) -> Finding {
        let (kind, options) = (kind.to_owned(), options.to_owned());
        Mount { kind, options }.judge()
    }

    #[test]
    fn what_does_not_survive_must_be_changed() {
        for (kind, options) in [
            ("tmpfs", "rw"),
            ("overlay", "rw"),
            ("ext4", "rw,nobarrier"),
            ("xfs", "rw,barrier=0"),
        ] {
            assert_eq!(mount(kind, options).verdict, Must, "{kind} {options}");
        }
        assert_eq!(mount("ext4", "rw,relatime").verdict, Ok);
        assert_eq!(mount("ext4", "rw,data=journal").verdict, Better);
        assert_eq!(mount("nfs4", "rw").verdict, Better);
    }

    #[test]
    fn a_cache_is_told_with_what_it_means() {
        let found = |said| write_cache(said).found;
        assert!(found(Some("write back")).contains("lost with the power"));
        assert!(found(Some("write through")).contains("never has the disk flushed"));
        assert!(found(None).contains("does not say"));
        assert_eq!(unescaped(r"/a\040b\134c"), r"/a b\c");
    }

    #[test]
    fn little_space_is_told_before_there_is_none() {
        assert_eq!(free_space(100 << 20).verdict, Must);
        assert_eq!(free_space(5 << 30).verdict, Better);
        assert_eq!(free_space(50 << 30).verdict, Ok);
        assert_eq!(free_files(Some(3)).verdict, Must);
        assert_eq!(free_files(None).verdict, Ok);
    }

    #[test]
    fn a_slow_disk_is_told() {
        let writes = |p50_ms, p99_ms| Writes {
            path: "direct",
            bytes: BLOCK,
            p50_ms,
            p99_ms,
            mb_per_s: 1.0,
        };
        assert_eq!(latency("disk", &writes(0.5, 3.0)).verdict, Ok);
        assert_eq!(latency("disk", &writes(0.5, 300.0)).verdict, Better);
        assert_eq!(latency("disk", &writes(300.0, 300.0)).verdict, Must);
    }

    #[test]
    fn the_page_cache_is_a_way_but_not_the_best() {
        assert_eq!(write_path("O_DIRECT").verdict, Ok);
        assert_eq!(
            write_path("buffered: the file system has no O_DIRECT").verdict,
            Better
        );
    }
}
