//! The loop: a machine that echoes, in its own thread, and how it is asked to stop.

mod harness;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use harness::quiet;
use linux::{Kernel, KernelConfig};
use ops::{Buffer, Completion, ConnId, Machine, Op, Time};

/// Sends back what it receives, and says goodbye to everybody when asked to stop.
struct Echo {
    ops: VecDeque<Op>,
    connections: Vec<ConnId>,
    ticks: u64,
    next_tick: Time,
    stubborn: bool,
    finished: bool,
}

impl Echo {
    fn new(address: SocketAddr) -> Echo {
        let listen = Op::Listen {
            address: address.to_string(),
        };
        Echo {
            ops: VecDeque::from([listen]),
            connections: Vec::new(),
            ticks: 0,
            next_tick: linux::now(),
            stubborn: false,
            finished: false,
        }
    }

    fn receive(&mut self, conn: ConnId, buffer: Buffer) {
        let range = 0..buffer.len();
        self.ops.push_back(Op::Receive {
            conn,
            buffer,
            range,
            whole: false,
        });
    }
}

impl Machine for Echo {
    fn handle(&mut self, _now: Time, completion: Completion) {
        match completion {
            Completion::Accepted { conn, .. } => {
                self.connections.push(conn);
                self.receive(conn, Buffer::new(4096));
            }
            Completion::Received {
                conn,
                buffer,
                range,
                result: Ok(received),
            } if !received.end => {
                let slice = buffer
                    .freeze()
                    .slice(range.start..range.start + received.count);
                self.ops.push_back(Op::Send {
                    conn,
                    slices: vec![slice],
                });
                self.receive(conn, Buffer::new(4096));
            }
            Completion::StopRequested if !self.stubborn => {
                for conn in self.connections.drain(..) {
                    let slices = vec![ops::Slice::copied_from(b"goodbye")];
                    self.ops.push_back(Op::Send { conn, slices });
                    self.ops.push_back(Op::Close { conn, flush: true });
                }
                self.finished = true;
            }
            _ => {}
        }
    }

    fn on_time(&mut self, now: Time) {
        if now >= self.next_tick {
            self.ticks += 1;
            self.next_tick = now + Duration::from_millis(10);
        }
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        Some(self.next_tick)
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}

#[test]
fn machines_on_several_kernels_run_in_one_process() {
    let nodes: Vec<_> = (0..3)
        .map(|_| {
            let mut kernel = Kernel::new(quiet()).unwrap();
            let address = kernel.bind("127.0.0.1:0").unwrap();
            let stopper = kernel.stopper();
            let run = move || {
                let mut echo = Echo::new(address);
                kernel.run(&mut echo).unwrap();
                echo.ticks
            };
            (address, stopper, std::thread::spawn(run))
        })
        .collect();
    for (address, stopper, thread) in nodes {
        let mut stream = TcpStream::connect(address).unwrap();
        let started = Instant::now();
        stream.write_all(b"hello").unwrap();
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"hello");
        assert!(started.elapsed() < Duration::from_secs(2));
        std::thread::sleep(Duration::from_millis(100));
        stopper.stop();
        let ticks = thread.join().unwrap();
        assert!((2..=1000).contains(&ticks), "{ticks} ticks of 10 ms");
        // Said after the machine was finished, and still sent.
        let mut last = String::new();
        stream.read_to_string(&mut last).unwrap();
        assert_eq!(last, "goodbye");
    }
}

const CHILD: &str = "LINUX_TEST_CHILD";

/// How a child ends that did what it is for. One that found no test of its name ends with 0.
const DONE: i32 = 7;

/// Not a test of its own: the process that the tests below send signals to.
#[test]
fn child() {
    let Ok(kind) = std::env::var(CHILD) else {
        return;
    };
    linux::die_with_parent().unwrap();
    let mut kernel = Kernel::new(KernelConfig::default()).unwrap();
    let address = kernel.bind("127.0.0.1:0").unwrap();
    let mut echo = Echo::new(address);
    echo.stubborn = kind == "stubborn";
    println!("\nlistening at {address}");
    kernel.run(&mut echo).unwrap();
    std::process::exit(DONE);
}

fn start(kind: &str) -> (Child, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CHILD, kind)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = loop {
        let line = lines.next().unwrap().unwrap();
        if let Some(address) = line.strip_prefix("listening at ") {
            break address.parse().unwrap();
        }
    };
    // Whoever writes to a closed pipe fails; keep reading.
    std::thread::spawn(move || lines.for_each(drop));
    (child, address)
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn the_first_signal_stops_the_machine() {
    for name in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        let (mut child, address) = start("polite");
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"!").unwrap();
        stream.read_exact(&mut [0; 1]).unwrap();
        signal(&child, name);
        let mut last = String::new();
        stream.read_to_string(&mut last).unwrap();
        assert_eq!(last, "goodbye");
        assert_eq!(child.wait().unwrap().code(), Some(DONE));
    }
}

#[test]
fn the_second_signal_ends_the_process() {
    for (name, code) in [
        (rustix::process::Signal::TERM, 143),
        (rustix::process::Signal::INT, 130),
    ] {
        let (mut child, _) = start("stubborn");
        signal(&child, name);
        std::thread::sleep(Duration::from_millis(100));
        assert!(child.try_wait().unwrap().is_none(), "it was only asked");
        let give_up = Instant::now() + Duration::from_secs(60);
        let status = loop {
            // Again and again: two that come before it runs are one.
            signal(&child, name);
            std::thread::sleep(Duration::from_millis(20));
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < give_up, "it does not end");
        };
        assert_eq!(status.code(), Some(code));
    }
}

/// Takes all files of a process: in a child, so that it does not starve the tests beside it.
#[test]
fn without_files_left_clients_are_closed_and_the_others_go_on() {
    const NAME: &str = "without_files_left_clients_are_closed_and_the_others_go_on";
    if std::env::var(CHILD).is_err() {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--test-threads=1"])
            .env(CHILD, "starving")
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(DONE));
        return;
    }
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let mut h = harness::Harness::new();
    let address = h.listen();
    let mut first = TcpStream::connect(address).unwrap();
    let conn = h.accepted();
    let mut late = TcpStream::connect(address).unwrap();
    late.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let before = getrlimit(Resource::Nofile);
    let mut all = Vec::new();
    let limit = Rlimit {
        current: Some(64),
        maximum: before.maximum,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        all.push(file);
    }
    h.idle(20);
    assert_eq!(
        late.read(&mut [0; 1]).unwrap(),
        0,
        "closed, and not left hanging"
    );
    // Who was there before goes on.
    first.write_all(b"still here").unwrap();
    assert_eq!(h.receive(conn, 10, true).0, b"still here");
    // And when files are free again, new ones are accepted.
    drop(all);
    let _later = TcpStream::connect(address).unwrap();
    h.accepted();
    std::process::exit(DONE);
}

/// Limits all files of a process: in a child, as above.
#[test]
fn connections_that_linger_leave_files_to_others() {
    const NAME: &str = "connections_that_linger_leave_files_to_others";
    const CLIENTS: usize = 60;
    const FILES: u64 = 200;
    if std::env::var(CHILD).is_err() {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--test-threads=1"])
            .env(CHILD, "lingering")
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(DONE));
        return;
    }
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = Rlimit {
        current: Some(FILES),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut h = harness::Harness::new();
    let address = h.listen();
    let before = files();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(TcpStream::connect(address).unwrap());
        let conn = h.accepted();
        h.kernel.submit(Op::Close { conn, flush: true });
    }
    h.round(0);
    for client in &mut clients {
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0, "it heard the end");
    }
    let lingering = files() - before - CLIENTS;
    assert!(lingering <= FILES as usize / 8, "{lingering} linger");
    std::process::exit(DONE);
}
