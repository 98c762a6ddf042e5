//! The disk of a process that starts, the same on both; and ops that no machine may give.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use linux::{Ink, Kernel, KernelConfig, LinuxDisk};
use ops::{BLOCK, Buffer, Completion, Disk, FileId, Machine, Op, OpenMode, Slice, Time, Token};
use sim::World;

use crate::kernels::look;

/// What a sequence of calls came to, line by line.
fn calls(disk: &mut dyn Disk, root: &Path) -> Vec<String> {
    let mut said = Vec::new();
    let mut say = |what: &str, result: io::Result<String>| {
        let text = match result {
            Ok(text) => text,
            Err(error) => format!("{:?}", error.kind()),
        };
        said.push(format!("{what}: {text}"));
    };
    let done = |result: io::Result<()>| result.map(|()| "done".to_string());
    let at = |name: &str| root.join(name);
    let names = |disk: &mut dyn Disk, path: &Path| {
        let entries = disk.list(path)?;
        let names = entries.iter().map(|e| {
            let length = if e.is_directory { 0 } else { e.length };
            format!("{} {length} {}", e.name, e.is_directory)
        });
        Ok(names.collect::<Vec<_>>().join(", "))
    };
    say("list", names(disk, root));
    say("list absent", names(disk, &at("absent")));
    say("create d/e", done(disk.create_directory(&at("d/e"))));
    say("create d/e again", done(disk.create_directory(&at("d/e"))));
    say("write m", done(disk.write_file(&at("m"), b"contents")));
    say("write d", done(disk.write_file(&at("d"), b"contents")));
    say(
        "write absent/m",
        done(disk.write_file(&at("absent/m"), b"")),
    );
    say("write m/below", done(disk.write_file(&at("m/below"), b"")));
    say("create m", done(disk.create_directory(&at("m"))));
    say("list m", names(disk, &at("m")));
    say("list m/below", names(disk, &at("m/below")));
    for (name, offset, length) in [
        ("m", 0, 100),
        ("m", 3, 2),
        ("m", 8, 1),
        ("m", 100, 1),
        ("d", 0, 1),
        ("absent", 0, 1),
        ("m/below", 0, 1),
    ] {
        let mut into = vec![0; length];
        let read = disk.read_at(&at(name), offset, &mut into);
        let text = read.map(|count| String::from_utf8_lossy(&into[..count]).into_owned());
        say(&format!("read {name} at {offset}"), text);
    }
    say("rename m n", done(disk.rename(&at("m"), &at("n"))));
    say("rename m n again", done(disk.rename(&at("m"), &at("n"))));
    say("rename n d", done(disk.rename(&at("n"), &at("d"))));
    say("rename d q", done(disk.rename(&at("d"), &at("q"))));
    say("rename q q/e/q", done(disk.rename(&at("q"), &at("q/e/q"))));
    say("lock l", done(disk.lock(&at("l"))));
    say("lock l again", done(disk.lock(&at("l"))));
    say("lock q", done(disk.lock(&at("q"))));
    say("lock absent/l", done(disk.lock(&at("absent/l"))));
    say("lock n/l", done(disk.lock(&at("n/l"))));
    say(
        "space absent",
        disk.free_space(&at("absent")).map(|_| "some".to_string()),
    );
    say(
        "space n",
        disk.free_space(&at("n"))
            .map(|bytes| (bytes > 0).to_string()),
    );
    say("list", names(disk, root));
    let random = [disk.random(), disk.random()].map(Result::unwrap);
    assert_ne!(random[0], random[1]);
    let mut seen = Vec::new();
    look(disk, root, "", &mut seen);
    said.push(seen.join(", "));
    said
}

#[test]
fn the_disk_at_start_up_answers_alike() {
    let directory = tempfile::tempdir().unwrap();
    let real = calls(&mut LinuxDisk::new(), directory.path());
    let mut world = World::new(1);
    let host = world.add_host("a");
    let root = PathBuf::from("/root");
    let simulated = world.with_disk(host, |disk| {
        disk.create_directory(&root).unwrap();
        calls(disk, &root)
    });
    let kernel = Kernel::new(KernelConfig {
        ink: Ink::Ram,
        signals: false,
        ..KernelConfig::default()
    });
    let mut memory = kernel.unwrap().disk();
    memory.create_directory(&root).unwrap();
    for others in [simulated, calls(&mut *memory, &root)] {
        let pairs = real.iter().zip(&others);
        let differ: Vec<_> = pairs.filter(|(r, o)| r != o).collect();
        assert!(differ.is_empty(), "(real, other): {differ:#?}");
        assert_eq!(real.len(), others.len());
    }
    assert!(
        real.contains(&"list m: NotADirectory".to_string()),
        "{real:#?}"
    );
}

/// Gives one op behind an open, and counts the answers.
struct Giver {
    ops: Vec<Op>,
    result: Option<io::Result<()>>,
}

impl Machine for Giver {
    fn handle(&mut self, _now: Time, completion: Completion) {
        self.result = match completion {
            Completion::Done {
                token: Token(2),
                result,
            } => Some(result),
            Completion::Read { result, .. } => Some(result.map(drop)),
            _ => return,
        };
    }
    fn on_time(&mut self, _now: Time) {}
    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop()
    }
    fn deadline(&self) -> Option<Time> {
        None
    }
    fn is_finished(&self) -> bool {
        self.result.is_some()
    }
}

fn slice(range: std::ops::Range<usize>) -> Slice {
    Buffer::new(4 * BLOCK).freeze().slice(range)
}

fn write(offset: u64, slices: Vec<Slice>) -> Op {
    Op::Write {
        token: Token(2),
        file: FileId(1),
        offset,
        slices,
    }
}

fn read(offset: u64, range: std::ops::Range<usize>) -> Op {
    Op::Read {
        token: Token(2),
        file: FileId(1),
        offset,
        buffer: Buffer::new(4 * BLOCK),
        range,
    }
}

/// Ops whose offsets, lengths or memory are no blocks.
fn malformed() -> Vec<Op> {
    let b = BLOCK;
    vec![
        write(1, vec![slice(0..b)]),
        write(512, vec![slice(0..b)]),
        write(0, vec![slice(0..b - 1)]),
        write(0, vec![slice(0..b + 512)]),
        write(0, vec![slice(512..b + 512)]),
        write(0, vec![slice(0..b - 1), slice(0..b + 1)]),
        write(0, vec![slice(0..b), slice(1..b + 1)]),
        read(1, 0..b),
        read(0, 0..b - 1),
        read(0, 512..b + 512),
        read(0, b..6 * b),
    ]
}

/// Only a mistake of the node's gives such an op. The real kernel refuses it, and the simulated one
/// stops the run: a mistake must not hide behind an error that is handled.
#[test]
fn malformed_ops_are_refused_by_one_and_fatal_in_the_other() {
    let directory = tempfile::tempdir().unwrap();
    for (at, (op, same)) in malformed().into_iter().zip(malformed()).enumerate() {
        let named = format!("{op:?}");
        let open = |root: &Path| Op::Open {
            token: Token(1),
            file: FileId(1),
            path: root.join(at.to_string()),
            mode: OpenMode::Create { size_hint: 0 },
        };
        let config = KernelConfig {
            signals: false,
            ..KernelConfig::default()
        };
        let mut giver = Giver {
            ops: vec![op, open(directory.path())],
            result: None,
        };
        Kernel::new(config).unwrap().run(&mut giver).unwrap();
        let error = giver.result.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{named}");

        let mut ops = Some(vec![same, open(Path::new("/"))]);
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut world = World::new(1);
            let host = world.add_host("a");
            let start = move |_: &mut dyn Disk, _: Time| {
                let ops = ops.take().unwrap_or_default();
                let giver = Giver { ops, result: None };
                Ok(Box::new(giver) as Box<dyn sim::Process>)
            };
            world.start(host, start).unwrap();
            world.run_for(Duration::from_secs(1), 1_000_000);
        }));
        assert!(run.is_err(), "the simulated kernel performs {named}");
    }
}
