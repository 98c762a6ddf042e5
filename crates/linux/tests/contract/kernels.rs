//! The two kernels a script is put on.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use linux::{Faults, Ink, Kernel, KernelConfig, Mover, Stopper};
use ops::{Completion, Disk, Machine, Op, Time};
use sim::{Outcome, Process, Random, World};

use crate::outcome::letters;
use crate::performer::Performer;
use crate::performer::errands::{OTHER, Other};
use crate::script::Script;

/// What came of each line; `None` if this machine cannot do what the script needs.
pub fn on_linux(script: &Script, mover: Mover, ink: Ink) -> Option<Vec<String>> {
    let directory = tempfile::tempdir().expect("a directory for the script");
    let mut small = None;
    let mut root = directory.path().to_path_buf();
    if script.fills_the_disk() {
        if ink == Ink::Ram {
            return None;
        }
        small = Some(SmallFileSystem::mount()?);
        root = small.as_ref().map_or(root, SmallFileSystem::mountpoint);
    }
    let config = KernelConfig {
        mover,
        ink,
        signals: false,
        // A machine is told of a full disk, where the kernel tells it.
        room_again_after: None,
        faults: Faults {
            fail_write_after: script.breaks_after(),
            ..Faults::default()
        },
        ..KernelConfig::default()
    };
    let other = script.has_other().then(|| start_other(&config));
    let mut kernel = Kernel::new(config).expect("a kernel");
    let mut addresses = vec![
        ("nobody".to_string(), unused_address()),
        ("elsewhere".to_string(), "192.0.2.1:1".to_string()),
        ("malformed".to_string(), "no port at all".to_string()),
    ];
    for port in script.ports() {
        let address = kernel.bind("127.0.0.1:0").expect("a free port");
        addresses.push((format!("any:{port}"), format!("0.0.0.0:{}", address.port())));
        addresses.push((
            format!("localhost:{port}"),
            format!("localhost:{}", address.port()),
        ));
        addresses.push((port, address.to_string()));
    }
    let mut performer = Performer::new(script, &root, 16 << 20, named(addresses));
    let mut disk = kernel.disk();
    disk.create_directory(&root).expect("a directory");
    kernel.run(&mut performer).expect("the kernel's loop");
    drop(kernel);
    if let Some((stopper, thread)) = other {
        stopper.stop();
        thread.join().expect("the other machine");
    }
    let mut outcomes = performer.outcomes;
    look_if_asked(script, &mut outcomes, &mut *disk, &root);
    drop(small);
    Some(outcomes)
}

/// The other machine, on a kernel and a thread of its own.
fn start_other(config: &KernelConfig) -> (Stopper, JoinHandle<()>) {
    let mut kernel = Kernel::new(KernelConfig {
        machine: OTHER,
        ..config.clone()
    })
    .expect("another kernel");
    let stopper = kernel.stopper();
    let run = move || {
        let mut other = Other::default();
        kernel.run(&mut other).expect("its loop");
    };
    (stopper, std::thread::spawn(run))
}

/// The seed draws how slow everything is and how small the buffers are.
pub fn on_sim(script: &Script, seed: u64) -> Vec<String> {
    let mut world = World::new(seed);
    let random = &mut Random::new(seed);
    let model = &mut world.network().model;
    model.send_buffer_bytes = 1 << (12 + random.below(8));
    model.receive_buffer_bytes = 1 << (12 + random.below(8));
    model.segment_bytes_max = 1 << (10 + random.below(7));
    model.latency_us = 10..20 + random.below(500);
    let host = world.add_host("a");
    if script.fills_the_disk() {
        world.disk_mut(host).faults.capacity_bytes = 4 << 20;
    }
    let mut addresses = vec![
        ("nobody".to_string(), "a:9".to_string()),
        ("elsewhere".to_string(), "elsewhere:1".to_string()),
        ("malformed".to_string(), "no port at all".to_string()),
    ];
    for (at, port) in script.ports().into_iter().enumerate() {
        let number = 1000 + at;
        addresses.push((format!("any:{port}"), format!("0.0.0.0:{number}")));
        addresses.push((format!("localhost:{port}"), format!("localhost:{number}")));
        addresses.push((port, format!("a:{number}")));
    }
    let root = PathBuf::from("/root");
    let performer = Performer::new(script, &root, 2 << 20, named(addresses));
    let performer = Rc::new(RefCell::new(performer));
    let shared = Shared(performer.clone());
    let directory = root.clone();
    let started = world.start(host, move |disk, _now| {
        disk.create_directory(&directory)?;
        Ok(Box::new(shared.clone()))
    });
    started.expect("a directory for the script");
    if script.has_other() {
        let other = |_: &mut dyn Disk, _| Ok(Box::new(Other::default()) as Box<dyn Process>);
        let started = world.add_companion(host, OTHER, other);
        started.expect("another machine");
    }
    let mut rounds = 0;
    // In small steps, so that the disk breaks when the script is there.
    while world.run_for(Duration::from_millis(1), 10_000_000) != Outcome::Idle {
        if performer.borrow().wants_a_broken_disk() {
            world.disk_mut(host).faults.broken = true;
        }
        rounds += 1;
        assert!(rounds < 200_000, "{}: does not end", script.title);
    }
    let mut outcomes = performer.borrow().outcomes.clone();
    world.disk_mut(host).faults.broken = false;
    world.with_disk(host, |disk| {
        look_if_asked(script, &mut outcomes, disk, &root)
    });
    outcomes
}

fn named(addresses: Vec<(String, String)>) -> impl Fn(&str) -> String + 'static {
    move |word| {
        let found = addresses.iter().find(|(name, _)| name == word);
        let (_, address) = found.unwrap_or_else(|| panic!("no such address: {word}"));
        address.clone()
    }
}

/// Of this machine, and nobody's: no test listens there, whichever ports are given to them.
fn unused_address() -> String {
    "127.255.0.1:1".to_string()
}

fn look_if_asked(script: &Script, outcomes: &mut [String], disk: &mut dyn Disk, root: &Path) {
    if let (Some(line), Some(outcome)) = (script.lines.last(), outcomes.last_mut())
        && line.word(0) == "look"
    {
        let mut seen = Vec::new();
        look(disk, root, "", &mut seen);
        *outcome = match seen.is_empty() {
            true => "nothing".to_string(),
            false => seen.join(", "),
        };
    }
}

/// Everything below a directory, as a process that starts sees it.
pub fn look(disk: &mut dyn Disk, directory: &Path, prefix: &str, seen: &mut Vec<String>) {
    for entry in disk.list(directory).expect("a directory") {
        let path = directory.join(&entry.name);
        let name = format!("{prefix}{}", entry.name);
        if entry.name == "lost+found" {
            continue;
        } else if entry.is_directory {
            seen.push(format!("{name}/"));
            look(disk, &path, &format!("{name}/"), seen);
        } else {
            let mut contents = vec![0; entry.length as usize + 1];
            let count = disk.read_at(&path, 0, &mut contents).expect("a file");
            assert_eq!(count as u64, entry.length, "{name}");
            seen.push(format!("{name}: {}", letters(&contents[..count])));
        }
    }
}

/// A performer whose notes are read while, and after, a world runs it.
#[derive(Clone)]
struct Shared(Rc<RefCell<Performer>>);

impl Machine for Shared {
    fn handle(&mut self, now: Time, completion: Completion) {
        self.0.borrow_mut().handle(now, completion);
    }
    fn on_time(&mut self, now: Time) {
        self.0.borrow_mut().on_time(now);
    }
    fn poll_op(&mut self) -> Option<Op> {
        self.0.borrow_mut().poll_op()
    }
    fn deadline(&self) -> Option<Time> {
        self.0.borrow().deadline()
    }
    fn is_finished(&self) -> bool {
        self.0.borrow().is_finished()
    }
}

/// An ext4 of 16 MiB in a file; needs root and a loop device.
struct SmallFileSystem {
    directory: tempfile::TempDir,
}

impl SmallFileSystem {
    fn mount() -> Option<SmallFileSystem> {
        let directory = tempfile::tempdir().ok()?;
        let image = directory.path().join("image");
        std::fs::File::create(&image).ok()?.set_len(16 << 20).ok()?;
        let small = SmallFileSystem { directory };
        std::fs::create_dir(small.mountpoint()).ok()?;
        let run = |command: &mut Command| command.output().is_ok_and(|o| o.status.success());
        let made = run(Command::new("mkfs.ext4").arg("-q").arg(&image));
        let mounted = made
            && run(Command::new("mount")
                .args(["-o", "loop"])
                .arg(&image)
                .arg(small.mountpoint()));
        mounted.then_some(small)
    }

    fn mountpoint(&self) -> PathBuf {
        self.directory.path().join("mounted")
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.mountpoint())
            .output();
    }
}
