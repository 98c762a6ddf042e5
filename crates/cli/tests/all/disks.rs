//! Disks that fill up, lie or are gone.

use crate::harness;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use crate::http;

use harness::{Cluster, Content, ask, err, is_root, wait_for};

fn set_reserve(cluster: &mut Cluster, index: usize, reserve: &str) {
    let node = &mut cluster.nodes[index];
    node.arguments
        .extend(["--disk-reserve".to_owned(), reserve.to_owned()]);
}

#[test]
fn a_full_disk_refuses_appends_and_loses_nothing() {
    let mut cluster = Cluster::start_with(3, 3, |node| {
        node.faults = Some(node.data.with_extension("faults"));
    });
    cluster.wait_whole();
    let content = Content::new(1, 2_000_000);
    cluster.append("main", &[], content);
    // Full nodes are filled with nothing.
    cluster.wait_whole();
    let set_free = |cluster: &Cluster, free: &str| {
        for node in &cluster.nodes {
            let faults = node.faults.clone().expect("set above");
            fs::write(faults, free).expect("room");
        }
    };
    let leader = cluster.leader("main");
    set_free(&cluster, "free-bytes=0\n");
    for index in 0..3 {
        cluster.nodes[index].kill();
        cluster.nodes[index].start();
    }
    cluster.wait_whole();
    let full = || {
        ask(&cluster.nodes[leader].listen, "status").filter(|status| status["disk_full"] == true)
    };
    wait_for(full, || cluster.logs());
    let output = cluster.run_with_input(&["append", "main"], b"x");
    assert_eq!(
        output.status.code(),
        Some(4),
        "{}\n{}",
        err(&output),
        cluster.logs()
    );
    let said = err(&output);
    assert!(said.contains("reserve") || said.contains("full"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    cluster.check_same("main", &[content]);
    set_free(&cluster, "");
    for index in 0..3 {
        cluster.nodes[index].kill();
        cluster.nodes[index].start();
    }
    cluster.wait_whole();
    let more = Content::new(2, 1_000_000);
    cluster.append("main", &[], more);
    cluster.wait_whole();
    cluster.check_same("main", &[content, more]);
}

/// A small disk with a small reserve is not full because its leader keeps more free.
#[test]
fn each_disk_is_judged_by_its_own_nodes_reserve() {
    let mut cluster = Cluster::start_with(3, 3, |node| {
        node.faults = Some(node.data.with_extension("faults"));
    });
    cluster.wait_whole();
    let leader = cluster.leader("main");
    let small: Vec<usize> = (0..3).filter(|index| *index != leader).collect();
    for index in 0..3 {
        let is_small = small.contains(&index);
        set_reserve(&mut cluster, index, if is_small { "32MiB" } else { "1GiB" });
        let faults = cluster.nodes[index].faults.clone().expect("set above");
        let room = if is_small {
            "free-bytes=200000000\n"
        } else {
            ""
        };
        fs::write(faults, room).expect("room");
        cluster.nodes[index].kill();
        cluster.nodes[index].start();
    }
    cluster.wait_whole();
    let content = Content::new(1, 1_000_000);
    cluster.append("main", &[], content);
    for node in &cluster.nodes {
        let status = ask(&node.listen, "status").expect("it runs");
        assert_eq!(status["disk_full"], false, "{status}");
        for other in status["nodes"].as_array().expect("an array") {
            let free = other["free_bytes"].as_u64().expect("it said so");
            let is_small = small.iter().any(|index| {
                other["address"].as_str() == Some(cluster.nodes[*index].listen.as_str())
            });
            assert!(!is_small || free <= 200_000_000, "{status}");
        }
    }
    cluster.check_same("main", &[content]);
}

#[test]
fn a_leader_whose_disk_fails_is_succeeded_while_its_node_lives_on() {
    let mut cluster = Cluster::start_with(3, 3, |node| {
        node.faults = Some(node.data.with_extension("faults"));
    });
    cluster.wait_whole();
    let content = Content::new(1, 1_000_000);
    cluster.append("main", &[], content);
    let leader = cluster.leader("main");
    let faults = cluster.nodes[leader].faults.clone().expect("set above");
    fs::write(&faults, "write-error=EIO\n").expect("room");
    let more = Content::new(2, 1_000_000);
    cluster.append("main", &[], more);
    let role = cluster.nodes[leader].of_log("main", "role");
    assert_eq!(role, Some("stopped".into()), "its node lives on");
    assert_ne!(cluster.leader("main"), leader);
    // Until somebody looked at the disk and started it again.
    fs::remove_file(&faults).expect("ours");
    cluster.nodes[leader].kill();
    cluster.nodes[leader].start();
    cluster.wait_whole();
    cluster.check_same("main", &[content, more]);
}

/// A small file system on a file of its own, gone with this.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    /// `None` where we may not mount.
    fn mount(directory: &Path, mebibytes: u32) -> Option<SmallDisk> {
        if !is_root() {
            return None;
        }
        let (image, place) = (directory.join("image"), directory.join("disk"));
        fs::create_dir(&place).ok()?;
        fs::File::create(&image)
            .ok()?
            .set_len(u64::from(mebibytes) << 20)
            .ok()?;
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output();
            output.is_ok_and(|output| output.status.success())
        };
        let (image, at) = (image.to_str()?, place.to_str()?);
        let mounted =
            run("mkfs.ext4", &["-q", "-F", image]) && run("mount", &["-o", "loop", image, at]);
        let mounted = mounted
            || run(
                "mount",
                &[
                    "-t",
                    "tmpfs",
                    "-o",
                    &format!("size={mebibytes}m"),
                    "tmpfs",
                    at,
                ],
            );
        mounted.then_some(SmallDisk(place))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a node may be ending on it just now.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_small_disk_that_fills_is_told_and_serves_again_with_space() {
    let place = tempfile::tempdir().expect("a place");
    let Some(disk) = SmallDisk::mount(place.path(), 256) else {
        println!("not run: it takes root and a mount");
        return;
    };
    let ballast = disk.0.join("ballast");
    fs::write(&ballast, vec![1; 100 << 20]).expect("room");
    let mut cluster = Cluster::start_with(1, 1, |node| {
        node.data = disk.0.join("node");
        // More than a new leader may have to write again of what was not chosen (32 MiB).
        node.arguments
            .extend(["--disk-reserve".to_owned(), "48MiB".to_owned()]);
    });
    cluster.wait_whole();
    let content = Content::new(1, 200_000_000);
    let output = cluster.append_in_background("main", &[], content).wait();
    assert_eq!(
        output.status.code(),
        Some(4),
        "{}\n{}",
        err(&output),
        cluster.logs()
    );
    let said = err(&output);
    let chosen: u64 = said
        .strip_prefix("logberg: stopped: ")
        .and_then(|said| said.split(' ').next())
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("{said}"));
    assert!(cluster.nodes[0].is_running(), "{}", cluster.logs());
    // Acknowledged bytes are there, and reads go on.
    let read = cluster.run(&["read", "main"]);
    assert_eq!(read.status.code(), Some(0), "{}", err(&read));
    assert!(
        read.stdout.len() as u64 >= chosen,
        "{} of {chosen}",
        read.stdout.len()
    );
    assert!(read.stdout == content.bytes()[..read.stdout.len()]);
    // Also after a start on a full disk, where more of what was sent may be chosen.
    cluster.nodes[0].kill();
    cluster.nodes[0].start();
    cluster.wait_whole();
    let again = cluster.run(&["read", "main"]);
    assert!(again.stdout.len() >= read.stdout.len());
    let kept = Content::new(1, again.stdout.len() as u64);
    assert!(kept.length <= content.length && again.stdout == kept.bytes());
    fs::remove_file(ballast).expect("ours");
    let more = Content::new(2, 100_000);
    wait_for(
        || {
            let output = cluster.append_in_background("main", &[], more).wait();
            (output.status.code() == Some(0)).then_some(())
        },
        || format!("still full\n{}", cluster.logs()),
    );
    let read = cluster.run(&["read", "main"]);
    assert!(read.stdout.starts_with(&kept.bytes()) && read.stdout.ends_with(&more.bytes()));
    cluster.nodes[0].kill();
    drop(disk);
}

/// A disk that something else fills to its last byte: what its node is to write waits, and its log lines are lost. No restart is needed.
#[test]
fn a_node_whose_disk_something_else_filled_comes_back_by_itself() {
    let place = tempfile::tempdir().expect("a place");
    let disk = SmallDisk::mount(place.path(), 256);
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let is_real = |disk: &SmallDisk| {
        let at = format!(" {} ext4 ", disk.0.display());
        mounts.lines().any(|line| line.contains(&at))
    };
    let Some(disk) = disk.filter(is_real) else {
        println!("not run: it takes root and a mount of ext4");
        return;
    };
    let mut first = true;
    let mut cluster = Cluster::start_with(3, 3, |node| {
        if std::mem::take(&mut first) {
            node.data = disk.0.join("node");
            node.arguments
                .extend(["--disk-reserve".to_owned(), "48MiB".to_owned()]);
        }
    });
    cluster.wait_whole();
    let content = Content::new(1, 1_000_000);
    cluster.append("main", &[], content);
    cluster.wait_whole();
    let ballast = disk.0.join("ballast");
    let mut file = fs::File::create(&ballast).expect("room");
    for length in [64 << 10, 512] {
        while file.write_all(&vec![1; length]).is_ok() {}
    }
    drop(file);
    // Whoever leads now, each move is something to write for the others.
    let is_stalled = || {
        let moved = ["1", "2", "3"];
        for to in moved {
            let _ = cluster.run(&["leader", "move", "main", "--to", to]);
        }
        let status = ask(&cluster.nodes[1].listen, "status")?;
        let warnings = status["health"]["warnings"].as_array()?.clone();
        warnings
            .iter()
            .any(|one| one["code"] == "disk-stalled" && one["active"] == true)
            .then_some(())
    };
    wait_for(is_stalled, || cluster.logs());
    let more = Content::new(2, 1_000_000);
    cluster.append("main", &[], more);
    assert!(cluster.nodes[0].is_running(), "{}", cluster.logs());
    fs::remove_file(ballast).expect("ours");
    cluster.wait_whole();
    assert!(cluster.nodes[0].is_running(), "{}", cluster.logs());
    cluster.check_same("main", &[content, more]);
    cluster.nodes[0].kill();
    drop(disk);
}

/// Flips one bit in the middle of the payload of a sealed segment.
fn flip(segment: &Path) {
    let mut bytes = fs::read(segment).expect("a segment");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(segment, bytes).expect("room");
}

#[test]
fn a_flipped_bit_is_never_served_and_is_repaired_from_a_peer() {
    let mut cluster = Cluster::start(3);
    let content = Content::new(1, 24_000_000);
    cluster.append("main", &[], content);
    cluster.wait_whole();
    // A follower's disk first, then the leader's.
    for index in [cluster.follower("main"), cluster.leader("main")] {
        cluster.nodes[index].kill();
        let segments = cluster.nodes[index].segments(1);
        assert!(segments.len() > 3, "{segments:?}");
        flip(&segments[2]);
        cluster.nodes[index].start();
        cluster.nodes[index].wait_answers();
        // The bytes that it gives meanwhile are right as far as they go.
        let line = "logberg/1 read main stale=1\n";
        let early = harness::Raw::say(&cluster.nodes[index].listen, line).rest();
        assert!(early.starts_with(b"error ") || content.bytes().starts_with(&early));
        cluster.wait_whole();
        cluster.check_same("main", &[content]);
        assert!(
            cluster.nodes[index].said().contains("corrupt"),
            "{}",
            cluster.logs()
        );
    }
}

#[test]
fn a_flipped_bit_met_while_running_is_repaired_too() {
    let cluster = Cluster::start(3);
    let content = Content::new(2, 24_000_000);
    cluster.append("main", &[], content);
    cluster.wait_whole();
    let follower = cluster.follower("main");
    flip(&cluster.nodes[follower].segments(1)[2]);
    let id = cluster.nodes[follower].id.to_string();
    wait_for(
        || {
            let output = cluster.run(&["read", "main", "--from-node", &id, "--timeout", "5"]);
            let right = content.bytes();
            assert!(right.starts_with(&output.stdout), "wrong bytes were served");
            (output.stdout.len() == right.len()).then_some(())
        },
        || format!("it is not repaired\n{}", cluster.logs()),
    );
    cluster.wait_whole();
    cluster.check_same("main", &[content]);
}

#[test]
fn a_cut_segment_is_repaired_from_a_peer() {
    let mut cluster = Cluster::start(3);
    let content = Content::new(3, 24_000_000);
    cluster.append("main", &[], content);
    cluster.wait_whole();
    let follower = cluster.follower("main");
    cluster.nodes[follower].kill();
    let segment = cluster.nodes[follower].segments(1)[2].clone();
    let file = fs::File::options()
        .write(true)
        .open(&segment)
        .expect("a segment");
    let length = file.metadata().expect("a length").len();
    file.set_len(length / 2).expect("shorter");
    cluster.nodes[follower].start();
    cluster.nodes[follower].wait_answers();
    cluster.wait_whole();
    cluster.check_same("main", &[content]);
}

/// Open files outlive their names: what goes into them is nowhere once the process ends.
#[test]
fn a_node_whose_directory_is_removed_stops_instead_of_acknowledging_into_nowhere() {
    let mut cluster = Cluster::start(1);
    cluster.append("main", &[], Content::new(1, 100_000));
    let data = cluster.nodes[0].data.clone();
    fs::remove_dir_all(&data).expect("it is there");
    // Long before a segment ends, for which it would need its directory.
    assert_eq!(cluster.nodes[0].wait(), Some(1), "{}", cluster.logs());
    let said = cluster.nodes[0].said();
    let about = said
        .lines()
        .filter(|line| line.contains(" is gone: somebody"));
    assert_eq!(about.count(), 1, "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn a_replica_whose_directory_is_removed_stops_and_the_others_go_on() {
    let cluster = Cluster::start(3);
    cluster.append("main", &[], Content::new(1, 100_000));
    let leader = cluster.leader("main");
    fs::remove_dir_all(cluster.nodes[leader].data.join("log-1")).expect("it is there");
    let node = &cluster.nodes[leader];
    wait_for(
        || {
            let role = node.of_log("main", "role")?;
            (role == "stopped").then_some(())
        },
        || format!("{:?}\n{}", node.status(), cluster.logs()),
    );
    cluster.append("main", &[], Content::new(2, 100_000));
}

/// Half of a reserve is for what frees room.
#[test]
fn streams_are_deleted_where_disks_are_too_full_for_appends() {
    let cluster = Cluster::start_with(3, 3, |node| {
        node.faults = Some(node.data.with_extension("faults"));
        let ip = node.listen.split(':').next().unwrap_or_default();
        let door = format!("{ip}:{}", 4437 + node.id);
        node.arguments.extend(["--http".to_owned(), door]);
    });
    cluster.wait_whole();
    let doors: Vec<String> = cluster
        .nodes
        .iter()
        .map(|node| node.arguments.last().expect("set above").clone())
        .collect();
    let type_of = [("Content-Type", "text/plain")];
    let asked = |method: &str, name: &str, body: &[u8]| {
        let path = format!("/v1/stream/{name}");
        let answer = http::ask(&doors[0], method, &path, &type_of, body);
        let mut answer = answer.expect("an answer");
        let said = answer.text();
        (answer.status, said)
    };
    for name in ["first", "second", "third"] {
        wait_for(
            || (asked("PUT", name, b"some bytes").0 < 202).then_some(()),
            || cluster.logs(),
        );
    }
    let leave = |room: &str| {
        for node in &cluster.nodes {
            let faults = node.faults.as_ref().expect("set above");
            fs::write(faults, room).expect("room");
        }
    };
    // The reserve is 1 MiB.
    leave("free-bytes=800000\n");
    // Until each has heard of the others, leaders look for one with room.
    wait_for(
        || {
            asked("POST", "first", b"more")
                .1
                .contains("reserve")
                .then_some(())
        },
        || cluster.logs(),
    );
    assert_eq!(asked("DELETE", "first", b"").0, 204);
    assert_eq!(asked("GET", "first?offset=-1", b"").0, 404);
    leave("free-bytes=300000\n");
    wait_for(
        || {
            Some(asked("DELETE", "second", b""))
                .filter(|(status, _)| *status == 503 || *status == 204)
        },
        || cluster.logs(),
    );
    leave("");
    wait_for(
        || (asked("POST", "third", b"more").0 == 204).then_some(()),
        || cluster.logs(),
    );
    assert_eq!(asked("GET", "third?offset=-1", b"").1, "some bytesmore");
}
