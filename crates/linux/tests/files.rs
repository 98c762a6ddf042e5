//! Files through the real kernel: what is durable, in which order, and what fails.

mod harness;

use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use harness::{Harness, pattern, quiet};
use linux::{Faults, KernelConfig, LinuxDisk, Mover};
use ops::{BLOCK, Buffer, Completion, Disk, FileId, Op, OpenMode, Slice};

const CREATE: OpenMode = OpenMode::Create { size_hint: 1 << 20 };

#[test]
fn what_was_written_is_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let mut h = Harness::new();
    h.open(1, &path, CREATE).unwrap();
    let payload = pattern(1, 10 * BLOCK);
    h.write(1, 0, &payload).unwrap();
    assert!(h.read(1, 0, 10 * BLOCK).unwrap() == payload);
    // Of a file that still grows, the new end is seen.
    h.write(1, 10 * BLOCK as u64, &payload).unwrap();
    assert!(
        h.read(1, 9 * BLOCK as u64, 4 * BLOCK).unwrap()
            == [&payload[9 * BLOCK..], &payload].concat()[..4 * BLOCK]
    );
    // Fewer bytes mean end of file.
    assert_eq!(
        h.read(1, 18 * BLOCK as u64, 4 * BLOCK).unwrap().len(),
        2 * BLOCK
    );
    assert_eq!(h.read(1, 30 * BLOCK as u64, BLOCK).unwrap().len(), 0);
    h.close_file(1).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // By other readers too: nothing was only in a cache of ours.
    assert!(std::fs::read(&path).unwrap() == [&payload[..], &payload].concat());
}

#[test]
fn a_block_read_before_it_was_overwritten_is_not_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let mut h = Harness::new();
    h.open(1, &path, CREATE).unwrap();
    for generation in 0..20 {
        let payload = pattern(generation, 4 * BLOCK);
        h.write(1, 0, &payload).unwrap();
        assert!(h.read(1, 0, 4 * BLOCK).unwrap() == payload);
    }
}

#[test]
fn a_file_that_ends_within_a_block_is_read_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("torn");
    let bytes = pattern(2, 5 * BLOCK + 700);
    std::fs::write(&path, &bytes).unwrap();
    let mut h = Harness::new();
    h.open(1, &path, OpenMode::Read).unwrap();
    h.open(2, &path, OpenMode::ReadWrite).unwrap();
    for id in [1, 2] {
        assert!(h.read(id, 0, 5 * BLOCK).unwrap() == bytes[..5 * BLOCK]);
        assert!(h.read(id, 0, 16 * BLOCK).unwrap() == bytes);
        assert!(h.read(id, 5 * BLOCK as u64, BLOCK).unwrap() == bytes[5 * BLOCK..]);
        assert_eq!(h.read(id, 6 * BLOCK as u64, BLOCK).unwrap().len(), 0);
    }
}

#[test]
fn modes_say_what_must_exist() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let mut h = Harness::new();
    for mode in [OpenMode::Read, OpenMode::ReadWrite] {
        assert_eq!(
            h.open(1, &path, mode).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }
    h.open(1, &path, CREATE).unwrap();
    assert_eq!(
        h.open(1, &path, CREATE).unwrap_err().kind(),
        ErrorKind::AlreadyExists,
        "the id"
    );
    assert_eq!(
        h.open(2, &path, CREATE).unwrap_err().kind(),
        ErrorKind::AlreadyExists,
        "the name"
    );
    h.open(2, &path, OpenMode::Read).unwrap();
    assert!(h.write(2, 0, b"not allowed").is_err());
    h.write(1, 0, b"allowed").unwrap();
    h.open(3, &path, OpenMode::ReadWrite).unwrap();
    h.write(3, BLOCK as u64, b"too").unwrap();
    assert_eq!(&h.read(2, 0, 2 * BLOCK).unwrap()[BLOCK..BLOCK + 3], b"too");
}

#[test]
fn unaligned_ops_are_refused_before_they_reach_a_disk() {
    let directory = tempfile::tempdir().unwrap();
    let mut h = Harness::new();
    h.open(1, &directory.path().join("segment"), CREATE)
        .unwrap();
    let shared = Buffer::new(4 * BLOCK).freeze();
    for (offset, slices) in [
        (1, vec![shared.slice(0..BLOCK)]),
        (0, vec![shared.slice(0..BLOCK - 1)]),
        (0, vec![shared.slice(512..512 + BLOCK)]),
        (
            0,
            vec![shared.slice(0..100), shared.slice(BLOCK..2 * BLOCK - 100)],
        ),
        (0, vec![Slice::copied_from(&[0; 100])]),
    ] {
        let token = h.token();
        h.kernel.submit(Op::Write {
            token,
            file: FileId(1),
            offset,
            slices,
        });
        assert_eq!(h.done(token).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    for (offset, range) in [
        (1, 0..BLOCK),
        (0, 0..100),
        (0, 100..100 + BLOCK),
        (0, 0..1 << 20),
    ] {
        let token = h.token();
        h.kernel.submit(Op::Read {
            token,
            file: FileId(1),
            offset,
            buffer: Buffer::new(4 * BLOCK),
            range,
        });
        assert_eq!(
            h.read_done(token).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
    h.write(1, 0, b"and the file is none the worse").unwrap();
}

#[test]
fn ops_on_a_file_that_is_not_open_are_answered() {
    let mut h = Harness::new();
    assert_eq!(h.write(9, 0, b"x").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(h.read(9, 0, BLOCK).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(h.close_file(9).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn queued_writes_merge_and_complete_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let mut h = Harness::with(KernelConfig {
        faults: Faults {
            write_delay: Duration::from_millis(20),
            ..Faults::default()
        },
        ..quiet()
    });
    let payload = pattern(5, 200 * BLOCK);
    let started = Instant::now();
    // All before the file is open: nothing needs to wait for an answer.
    let opened = h.token();
    h.kernel.submit(Op::Open {
        token: opened,
        file: FileId(1),
        path: path.clone(),
        mode: CREATE,
    });
    let tokens: Vec<_> = (0..200)
        .map(|n| h.start_write(1, (n * BLOCK) as u64, &payload[n * BLOCK..(n + 1) * BLOCK]))
        .collect();
    let closed = h.token();
    h.kernel.submit(Op::CloseFile {
        token: closed,
        file: FileId(1),
    });
    let mut order = Vec::new();
    while order.last() != Some(&closed) {
        h.round(100);
        order.extend(h.rest().iter().map(|c| match c {
            Completion::Done {
                token,
                result: Ok(()),
            } => *token,
            other => panic!("{other:?}"),
        }));
    }
    assert_eq!(order, [&[opened], &tokens[..], &[closed]].concat());
    assert!(
        started.elapsed() < Duration::from_secs(4),
        "200 single writes would sleep for four seconds"
    );
    assert!(std::fs::read(&path).unwrap() == payload);
}

#[test]
fn one_write_may_have_more_slices_than_a_system_call() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let mut h = Harness::new();
    h.open(1, &path, CREATE).unwrap();
    let payload = pattern(6, 2500 * BLOCK);
    let shared = Buffer::holding(&payload).freeze();
    let token = h.token();
    h.kernel.submit(Op::Write {
        token,
        file: FileId(1),
        offset: 0,
        slices: (0..2500)
            .map(|n| shared.slice(n * BLOCK..(n + 1) * BLOCK))
            .collect(),
    });
    h.done(token).unwrap();
    assert!(std::fs::read(&path).unwrap() == payload);
}

#[test]
fn a_slow_write_delays_no_read_and_no_other_file() {
    let directory = tempfile::tempdir().unwrap();
    let delay = Duration::from_secs(4);
    let mut h = Harness::with(KernelConfig {
        faults: Faults {
            write_delay: delay,
            ..Faults::default()
        },
        ..quiet()
    });
    let path = directory.path().join("old");
    std::fs::write(&path, pattern(7, BLOCK)).unwrap();
    h.open(1, &directory.path().join("new"), CREATE).unwrap();
    h.open(2, &path, OpenMode::Read).unwrap();
    let started = Instant::now();
    let write = h.start_write(1, 0, b"slow");
    assert_eq!(h.read(2, 0, BLOCK).unwrap(), pattern(7, BLOCK));
    h.open(3, &directory.path().join("third"), CREATE).unwrap();
    assert!(h.rest().is_empty(), "they waited for the write");
    h.done(write).unwrap();
    assert!(started.elapsed() >= delay);
}

#[test]
fn after_a_failed_write_all_later_ones_of_the_file_fail() {
    let directory = tempfile::tempdir().unwrap();
    let mut h = Harness::with(KernelConfig {
        faults: Faults {
            fail_write_after: Some(1),
            ..Faults::default()
        },
        ..quiet()
    });
    let path = directory.path().join("segment");
    h.open(1, &path, CREATE).unwrap();
    h.write(1, 0, b"good").unwrap();
    assert_eq!(
        h.write(1, BLOCK as u64, b"bad").unwrap_err().raw_os_error(),
        Some(5)
    );
    assert!(h.write(1, BLOCK as u64, b"also").is_err());
    assert_eq!(
        &h.read(1, 0, 4 * BLOCK).unwrap()[..4],
        b"good",
        "reads go on"
    );
    h.close_file(1).unwrap();
}

#[test]
fn a_full_disk_is_an_error_that_stays() {
    // The device that is always full; it also refuses O_DIRECT.
    let mut h = Harness::new();
    h.open(1, Path::new("/dev/full"), OpenMode::ReadWrite)
        .unwrap();
    let first = h.start_write(1, 0, b"no");
    let second = h.start_write(1, BLOCK as u64, b"no");
    assert_eq!(h.done(first).unwrap_err().kind(), ErrorKind::StorageFull);
    assert!(h.done(second).is_err());
    let later = h.write(1, 0, b"no").unwrap_err().to_string();
    assert!(later.contains("earlier write"), "{later}");
}

/// Needs root and a loop device, and does nothing without.
#[test]
fn a_file_system_that_fills_up_fails_the_write_that_did_not_fit() {
    let Some(small) = SmallFileSystem::mount() else {
        return;
    };
    let mut h = Harness::new();
    h.open(1, &small.mountpoint().join("segment"), CREATE)
        .unwrap();
    let payload = pattern(8, 256 << 10);
    let mut durable = 0;
    let error = loop {
        match h.write(1, durable, &payload) {
            Ok(()) => durable += payload.len() as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(durable > 1 << 20);
    assert!(h.write(1, durable, b"small enough").is_err());
    for offset in (0..durable).step_by(payload.len()) {
        assert!(h.read(1, offset, payload.len()).unwrap() == payload);
    }
    h.close_file(1).unwrap();
}

/// Needs root and a loop device, and does nothing without.
#[test]
fn a_write_that_finds_no_room_waits_for_it_and_holds_up_no_other_file() {
    let Some(small) = SmallFileSystem::mount() else {
        return;
    };
    let waits = KernelConfig {
        room_again_after: Some(Duration::from_millis(10)),
        ..quiet()
    };
    let is_paged = waits.mover == Mover::Splice;
    let mut h = Harness::with(waits);
    let at = |name: &str| small.mountpoint().join(name);
    h.open(1, &at("segment"), CREATE).unwrap();
    h.open(2, &at("other"), CREATE).unwrap();
    let payload = pattern(8, 256 << 10);
    let end = payload.len() as u64;
    h.write(1, 0, &payload).unwrap();
    h.write(2, 0, &payload).unwrap();
    let mut ballast = std::fs::File::create(at("ballast")).unwrap();
    while ballast.write_all(&[1; BLOCK]).is_ok() {}
    drop(ballast);
    let first = h.start_write(1, end, &payload);
    let second = h.start_write(1, 2 * end, &payload);
    if is_paged {
        // Bytes that the page cache could not write are never written again.
        assert_eq!(h.done(first).unwrap_err().kind(), ErrorKind::StorageFull);
        assert!(h.done(second).is_err());
        return;
    }
    for _ in 0..5 {
        h.write(2, 0, &payload).unwrap();
    }
    std::fs::remove_file(at("ballast")).unwrap();
    h.done(first).unwrap();
    h.done(second).unwrap();
    for offset in [0, end, 2 * end] {
        assert!(h.read(1, offset, payload.len()).unwrap() == payload);
    }
    // A kernel that ends waits no longer.
    let mut ballast = std::fs::File::create(at("ballast")).unwrap();
    while ballast.write_all(&[1; BLOCK]).is_ok() {}
    h.start_write(1, 3 * end, &payload);
    h.write(2, 0, &payload).unwrap();
}

struct SmallFileSystem {
    directory: tempfile::TempDir,
}

impl SmallFileSystem {
    /// An ext4 of 16 MiB in a file.
    fn mount() -> Option<SmallFileSystem> {
        let directory = tempfile::tempdir().ok()?;
        let image = directory.path().join("image");
        std::fs::File::create(&image).ok()?.set_len(16 << 20).ok()?;
        let small = SmallFileSystem { directory };
        std::fs::create_dir(small.mountpoint()).ok()?;
        let run = |program: &str, arguments: &[&std::ffi::OsStr]| {
            std::process::Command::new(program)
                .args(arguments)
                .output()
                .is_ok_and(|output| output.status.success())
        };
        let made = run("mkfs.ext4", &["-q".as_ref(), image.as_ref()]);
        let mountpoint = small.mountpoint();
        (made
            && run(
                "mount",
                &[
                    "-o".as_ref(),
                    "loop".as_ref(),
                    image.as_ref(),
                    mountpoint.as_ref(),
                ],
            ))
        .then_some(small)
    }

    fn mountpoint(&self) -> PathBuf {
        self.directory.path().join("mounted")
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .args(["-l".as_ref(), self.mountpoint().as_os_str()])
            .output();
    }
}

#[test]
fn where_o_direct_is_refused_writes_go_through_the_page_cache() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let mut h = Harness::with(KernelConfig {
        faults: Faults {
            refuse_direct: true,
            ..Faults::default()
        },
        ..quiet()
    });
    h.open(1, &path, CREATE).unwrap();
    let payload = pattern(9, 3 * BLOCK);
    h.write(1, 0, &payload).unwrap();
    h.write(1, payload.len() as u64, &payload).unwrap();
    assert!(h.read(1, 0, 3 * BLOCK).unwrap() == payload);
}

#[test]
fn files_in_memory_work_and_are_called_what_they_are() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let answer = LinuxDisk::new().write_path(directory.path());
    assert!(answer.starts_with("buffered: "), "{answer}");
    let mut h = Harness::new();
    h.open(1, &directory.path().join("segment"), CREATE)
        .unwrap();
    let payload = pattern(10, 3 * BLOCK);
    h.write(1, 0, &payload).unwrap();
    assert!(h.read(1, 0, 3 * BLOCK).unwrap() == payload);
    assert!(
        LinuxDisk::new()
            .write_path(Path::new("/no/such/directory"))
            .starts_with("buffered: ")
    );
}

#[test]
fn small_files_are_replaced_as_a_whole() {
    let directory = tempfile::tempdir().unwrap();
    let below = directory.path().join("a/b/c");
    let path = below.join("manifest");
    let mut h = Harness::new();
    let made = h.token();
    h.kernel.submit(Op::CreateDirectory {
        token: made,
        path: below.clone(),
    });
    // Not waited for: names are changed in order.
    for contents in ["first, and longer", "second"] {
        let token = h.token();
        h.kernel.submit(Op::WriteFile {
            token,
            path: path.clone(),
            contents: contents.into(),
        });
        h.done(token).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), contents);
    }
    h.done(made).unwrap();
    let mode = std::fs::metadata(directory.path().join("a"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    let moved = directory.path().join("a/moved");
    let token = h.token();
    h.kernel.submit(Op::Rename {
        token,
        from: path.clone(),
        to: moved.clone(),
    });
    h.done(token).unwrap();
    assert_eq!(
        std::fs::read_dir(&below).unwrap().count(),
        0,
        "nothing is left aside"
    );
    let token = h.token();
    h.kernel.submit(Op::Remove {
        token,
        path: moved.clone(),
        urgent: false,
    });
    h.done(token).unwrap();
    assert!(!moved.exists());
    let token = h.token();
    h.kernel.submit(Op::Remove {
        token,
        path: moved,
        urgent: false,
    });
    assert_eq!(h.done(token).unwrap_err().kind(), ErrorKind::NotFound);
}

/// All blocks of a large file at once would hold up who writes: it shrinks, once nobody can find it.
#[test]
fn a_large_file_that_is_removed_is_let_go_in_pieces() {
    let directory = tempfile::tempdir().unwrap();
    let mut h = Harness::new();
    let make = |name: &str, bytes: u64| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = std::fs::File::create_new(&path).unwrap();
        file.set_len(bytes).unwrap();
        (path, file)
    };
    const LARGE: u64 = 30 << 20;
    let (path, large) = make("large", LARGE);
    let (_, within) = make("log/large", LARGE);
    let (_, small) = make("log/small", 1 << 20);
    let (hurried_path, hurried) = make("hurried", LARGE);
    let (shared_path, shared) = make("shared", LARGE);
    let other_name = directory.path().join("other name");
    std::fs::hard_link(&shared_path, &other_name).unwrap();
    for (path, urgent) in [
        (path.clone(), false),
        (shared_path, false),
        (hurried_path, true),
    ] {
        let token = h.token();
        h.kernel.submit(Op::Remove {
            token,
            path,
            urgent,
        });
        h.done(token).unwrap();
    }
    let log = directory.path().join("log");
    let token = h.token();
    h.kernel.submit(Op::RemoveDirectory {
        token,
        path: log.clone(),
    });
    h.done(token).unwrap();
    assert!(!path.exists() && !log.exists());
    let length = |file: &std::fs::File| file.metadata().unwrap().len();
    // Sockets may still have pages of files that they filled.
    let left = match quiet().mover {
        Mover::Splice => LARGE,
        _ => 0,
    };
    let removed = [&large, &within, &hurried].map(length);
    assert_eq!(removed, [left; 3]);
    assert_eq!(length(&small), 1 << 20, "it is gone at once");
    assert_eq!(
        length(&shared),
        LARGE,
        "it is still there by its other name"
    );
    assert!(other_name.exists());
}

#[test]
fn free_space_is_what_we_may_use() {
    let mut h = Harness::new();
    let token = h.token();
    h.kernel.submit(Op::FreeSpace {
        token,
        path: "/".into(),
    });
    let space = h.wait_for(
        |c| matches!(c, Completion::Space { .. }),
        |c| match c {
            Completion::Space { result, .. } => result.unwrap(),
            other => panic!("{other:?}"),
        },
    );
    let again = LinuxDisk::new().free_space(Path::new("/")).unwrap();
    assert!(space > 0 && space.abs_diff(again) < 10 << 30);
}

#[test]
fn the_synchronous_disk_agrees_with_the_ops() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("node/logs");
    let mut disk = LinuxDisk::new();
    assert_eq!(disk.list(&root).unwrap_err().kind(), ErrorKind::NotFound);
    disk.create_directory(&root).unwrap();
    disk.create_directory(&root).unwrap();
    disk.write_file(&root.join("b"), &pattern(11, 5000))
        .unwrap();
    disk.write_file(&root.join("c"), b"c").unwrap();
    disk.rename(&root.join("c"), &root.join("a")).unwrap();
    disk.create_directory(&root.join("d")).unwrap();
    let entries = disk.list(&root).unwrap();
    let names: Vec<_> = entries
        .iter()
        .map(|e| (e.name.as_str(), e.is_directory))
        .collect();
    assert_eq!(names, [("a", false), ("b", false), ("d", true)]);
    assert_eq!(entries[1].length, 5000);
    let mut into = [0; 3000];
    assert_eq!(
        disk.read_at(&root.join("b"), 4000, &mut into).unwrap(),
        1000
    );
    assert_eq!(into[..1000], pattern(11, 5000)[4000..]);
    assert_ne!(disk.random().unwrap(), disk.random().unwrap());
    let answer = disk.write_path(&root);
    assert!(
        answer == "O_DIRECT" || answer.starts_with("buffered: "),
        "{answer}"
    );
    assert_eq!(disk.list(&root).unwrap().len(), 3, "the probe left nothing");
}

#[test]
fn a_lock_is_held_once_and_as_long_as_its_disk() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lock");
    let mut first = LinuxDisk::new();
    let mut second = LinuxDisk::new();
    first.lock(&path).unwrap();
    assert_eq!(
        second.lock(&path).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    drop(first);
    second.lock(&path).unwrap();
}

#[test]
fn what_the_disk_was_given_is_finished_when_the_kernel_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let mut h = Harness::new();
    h.open(1, &path, CREATE).unwrap();
    let payload = pattern(12, 100 * BLOCK);
    for n in 0..100 {
        h.start_write(1, (n * BLOCK) as u64, &payload[n * BLOCK..(n + 1) * BLOCK]);
    }
    drop(h);
    assert!(std::fs::read(&path).unwrap() == payload);
}
