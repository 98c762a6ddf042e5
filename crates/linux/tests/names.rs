//! A name is on the disk when the op that made it is answered: its directory was synced after the
//! change and before the answer. Only the kernel's own calls show that, so strace looks on.

mod harness;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use harness::Harness;
use linux::LinuxDisk;
use ops::{Disk, Op, OpenMode, Token};

const DIRECTORY: &str = "LINUX_TEST_NAMES";

/// Not a test of its own: the process that strace runs.
#[test]
fn traced() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else {
        return;
    };
    let log = directory.join("log");
    let segment = log.join("segment");
    let mut number = 0;
    // A call with a name that says which op was answered.
    let mut answered = || {
        number += 1;
        assert!(File::open(directory.join(format!("answered-{number}"))).is_err());
    };
    let mut h = Harness::new();
    let mut done = |h: &mut Harness, op: &dyn Fn(Token) -> Op| {
        let token = h.token();
        h.kernel.submit(op(token));
        h.done(token).unwrap();
        answered();
    };
    done(&mut h, &|token| Op::CreateDirectory {
        token,
        path: log.clone(),
    });
    done(&mut h, &|token| Op::Open {
        token,
        file: ops::FileId(1),
        path: segment.clone(),
        mode: OpenMode::Create { size_hint: 8192 },
    });
    done(&mut h, &|token| Op::WriteFile {
        token,
        path: directory.join("manifest"),
        contents: b"whose".to_vec(),
    });
    done(&mut h, &|token| Op::Rename {
        token,
        from: segment.clone(),
        to: log.join("segment.torn"),
    });
    done(&mut h, &|token| Op::Remove {
        token,
        path: log.join("segment.torn"),
        urgent: false,
    });
    // The same at start-up.
    let mut disk = LinuxDisk::new();
    disk.create_directory(&directory.join("log2")).unwrap();
    answered();
    disk.write_file(&directory.join("manifest"), b"whose now")
        .unwrap();
    answered();
    disk.rename(&directory.join("manifest"), &log.join("manifest"))
        .unwrap();
    answered();
    // Somebody else made it a moment ago.
    fs::create_dir(directory.join("log3")).unwrap();
    disk.create_directory(&directory.join("log3")).unwrap();
    answered();
}

#[test]
fn a_change_of_names_is_answered_only_after_its_directory_was_synced() {
    let place = tempfile::tempdir().unwrap();
    let directory = fs::canonicalize(place.path()).unwrap();
    let trace = directory.join("trace");
    let strace = Command::new("strace")
        .args(["-f", "-y", "-o"])
        .arg(&trace)
        .args([
            "-e",
            "trace=open,openat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,fsync",
        ])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "traced", "--test-threads=1"])
        .env(DIRECTORY, &directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let Ok(true) = strace.map(|status| status.success()) else {
        println!("not run: it takes strace, and leave to use it");
        return;
    };
    let trace = fs::read_to_string(trace).unwrap();
    let lines: Vec<&str> = trace.lines().collect();
    let log = directory.join("log");
    let expected: [(&str, &str, &[&Path]); 9] = [
        ("mkdir", "log\"", &[&directory]),
        ("open", "segment\"", &[&log]),
        ("rename", "manifest\"", &[&directory]),
        ("rename", "segment.torn\"", &[&log]),
        ("unlink", "segment.torn\"", &[&log]),
        ("mkdir", "log2\"", &[&directory]),
        ("rename", "manifest\"", &[&directory]),
        ("rename", "manifest\"", &[&log, &directory]),
        ("mkdir", "log3\"", &[&directory]),
    ];
    let mut rest = &lines[..];
    for (number, (call, name, directories)) in expected.iter().enumerate() {
        let marker = format!("answered-{}\"", number + 1);
        let answered = rest.iter().position(|line| line.contains(&marker));
        let (during, after) = rest.split_at(answered.expect(&marker));
        rest = after;
        let changed = |line: &&str| line.contains(call) && line.contains(name);
        let changed = during.iter().position(changed);
        let after = &during[changed.unwrap_or_else(|| panic!("{marker}: {during:#?}"))..];
        for directory in *directories {
            let synced = format!("<{}>", directory.display());
            let is_synced = |line: &&str| line.contains("fsync(") && line.contains(&synced);
            assert!(after.iter().any(is_synced), "{synced}: {during:#?}");
        }
        if *call == "rename" && number != 3 && number != 7 {
            // Also the contents, before they get their name.
            let aside = |line: &&str| line.contains("fsync(") && line.contains(".manifest.new>");
            assert!(
                during[..changed.unwrap_or(0)].iter().any(aside),
                "{during:#?}"
            );
        }
    }
}
