//! The backend's own ceiling: loopback socket -> buffer -> durable write, and on to followers.
//!
//! ```text
//! cargo run --release -p linux --example floor -- DIRECTORY [KiB [FOLLOWERS [SECONDS [ROWS]]]]
//! ```
//!
//! ROWS is a part of the names of the rows to measure.
//!
//! A producer thread sends as fast as it can. The kernel under test receives whole buffers, writes
//! each durably and sends the same bytes to each follower, whose threads throw them away. Nothing is
//! checked, counted or decided: what a node adds comes on top. Each row is measured with either mover.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use linux::{Kernel, KernelConfig};
use ops::{Completion, ConnId, FileId, Machine, Op, OpenMode, Pool, Time, Token};
use rustix::time::{ClockId, clock_gettime};

const SEGMENT_LENGTH: u64 = 256 << 20;
const WRITES_IN_FLIGHT_MAX: usize = 8;

#[derive(Clone, Copy)]
struct Setting {
    buffer_length: usize,
    followers: usize,
    send_buffer: Option<usize>,
    receive_buffer: Option<usize>,
    recycled: bool,
    /// No receive while a write is in flight.
    lockstep: bool,
    /// Receive whole buffers, or what is there.
    whole: bool,
}

struct Mover {
    setting: Setting,
    ops: VecDeque<Op>,
    pool: Pool,
    directory: PathBuf,
    client: Option<ConnId>,
    /// Whether a receive is outstanding.
    receiving: bool,
    segment: u64,
    offset: u64,
    next_token: u64,
    /// Begin and length of each write in flight.
    writes: VecDeque<(Instant, usize)>,
    sends_in_flight: usize,
    durable: u64,
    write_micros: Vec<u64>,
    until: Time,
    finished: bool,
}

impl Mover {
    fn new(
        setting: Setting,
        directory: PathBuf,
        address: SocketAddr,
        sinks: &[SocketAddr],
        until: Time,
    ) -> Mover {
        let mut ops = VecDeque::from([Op::Listen {
            address: address.to_string(),
        }]);
        for (n, sink) in sinks.iter().enumerate() {
            ops.push_back(Op::Connect {
                conn: ConnId(2 * n as u64),
                address: sink.to_string(),
            });
        }
        let mut mover = Mover {
            setting,
            ops,
            pool: Pool::new(setting.buffer_length, 2 * WRITES_IN_FLIGHT_MAX),
            directory,
            client: None,
            receiving: false,
            segment: 0,
            offset: 0,
            next_token: 0,
            writes: VecDeque::new(),
            sends_in_flight: 0,
            durable: 0,
            write_micros: Vec::new(),
            until,
            finished: false,
        };
        mover.open_segment();
        mover
    }

    fn token(&mut self) -> Token {
        // Odd: not a write.
        self.next_token += 2;
        Token(self.next_token - 1)
    }

    fn path(&self, segment: u64) -> PathBuf {
        self.directory.join(format!("floor-{segment}.tmp"))
    }

    fn open_segment(&mut self) {
        let token = self.token();
        self.ops.push_back(Op::Open {
            token,
            file: FileId(self.segment),
            path: self.path(self.segment),
            mode: OpenMode::Create {
                size_hint: SEGMENT_LENGTH,
            },
        });
    }

    fn roll(&mut self) {
        if self.offset < SEGMENT_LENGTH {
            return;
        }
        self.offset = 0;
        if self.setting.recycled {
            return;
        }
        let (token, file) = (self.token(), FileId(self.segment));
        self.ops.push_back(Op::CloseFile { token, file });
        let (token, path) = (self.token(), self.path(self.segment));
        self.ops.push_back(Op::Remove {
            token,
            path,
            urgent: false,
        });
        self.segment += 1;
        self.open_segment();
    }

    fn receive(&mut self) {
        let Some(conn) = self.client else { return };
        let writes_max = if self.setting.lockstep {
            1
        } else {
            WRITES_IN_FLIGHT_MAX
        };
        let sends_max = WRITES_IN_FLIGHT_MAX * self.setting.followers;
        if self.receiving || self.writes.len() >= writes_max || self.sends_in_flight > sends_max {
            return;
        }
        self.receiving = true;
        let buffer = self.pool.take();
        self.ops.push_back(Op::Receive {
            conn,
            range: 0..buffer.len(),
            buffer,
            whole: self.setting.whole,
        });
    }
}

impl Machine for Mover {
    fn handle(&mut self, _now: Time, completion: Completion) {
        match completion {
            Completion::Accepted { conn, .. } => self.client = Some(conn),
            Completion::Received {
                buffer,
                result: Ok(received),
                ..
            } => {
                self.receiving = false;
                let shared = buffer.freeze();
                for n in 0..self.setting.followers {
                    self.sends_in_flight += 1;
                    self.ops.push_back(Op::Send {
                        conn: ConnId(2 * n as u64),
                        slices: vec![shared.slice(0..received.count)],
                    });
                }
                let length = received.count.next_multiple_of(4096);
                self.roll();
                self.writes.push_back((Instant::now(), received.count));
                self.ops.push_back(Op::Write {
                    token: Token(0),
                    file: FileId(self.segment),
                    offset: self.offset,
                    slices: vec![shared.slice(0..length)],
                });
                self.offset += length as u64;
            }
            Completion::Done {
                token: Token(0),
                result,
            } => {
                result.expect("the disk works");
                if let Some((begun, length)) = self.writes.pop_front() {
                    self.write_micros.push(begun.elapsed().as_micros() as u64);
                    self.durable += length as u64;
                }
            }
            Completion::Done { result, .. } => result.expect("the disk works"),
            Completion::Connected { result, .. } => result.expect("the followers listen"),
            Completion::Sent { result, .. } => {
                result.expect("the followers read");
                self.sends_in_flight -= 1;
            }
            other => panic!("{other:?}"),
        }
        self.receive();
    }

    fn on_time(&mut self, now: Time) {
        self.finished = now >= self.until;
    }

    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        Some(self.until)
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().unwrap_or_else(|| ".".into()));
    let mut number = |default: usize| -> usize {
        let given = arguments.next().map(|text| text.parse());
        given.map_or(default, |parsed| parsed.expect("a number"))
    };
    let (kib, followers, seconds) = (number(256), number(2), number(5));
    let wanted = std::env::args().nth(5).unwrap_or_default();
    println!(
        "{:<52}{:>8}{:>10}{:>10}{:>12}{:>12}",
        "setting", "MB/s", "p50 us", "p99 us", "loop s/GB", "all s/GB"
    );
    let plain = Setting {
        buffer_length: kib << 10,
        followers: 0,
        send_buffer: None,
        receive_buffer: None,
        recycled: false,
        lockstep: false,
        whole: true,
    };
    let with_followers = Setting { followers, ..plain };
    let mebi = |n: usize| Some(n << 20);
    let rows = [
        ("durable, growing", plain),
        (
            "durable, recycled",
            Setting {
                recycled: true,
                ..plain
            },
        ),
        (
            "durable, growing, lockstep",
            Setting {
                lockstep: true,
                ..plain
            },
        ),
        (
            "durable, growing, partial receives",
            Setting {
                whole: false,
                ..plain
            },
        ),
        (
            "durable, growing, SO_RCVBUF 1 MiB",
            Setting {
                receive_buffer: mebi(1),
                ..plain
            },
        ),
        (
            "durable, growing, SO_RCVBUF 4 MiB",
            Setting {
                receive_buffer: mebi(4),
                ..plain
            },
        ),
        ("and followers, growing", with_followers),
        (
            "and followers, recycled",
            Setting {
                recycled: true,
                ..with_followers
            },
        ),
        (
            "and followers, growing, lockstep",
            Setting {
                lockstep: true,
                ..with_followers
            },
        ),
        (
            "and followers, SO_SNDBUF 512 KiB",
            Setting {
                send_buffer: Some(512 << 10),
                ..with_followers
            },
        ),
        (
            "and followers, SO_SNDBUF 1 MiB",
            Setting {
                send_buffer: mebi(1),
                ..with_followers
            },
        ),
        (
            "and followers, SO_SNDBUF 4 MiB",
            Setting {
                send_buffer: mebi(4),
                ..with_followers
            },
        ),
        (
            "and followers, SO_RCVBUF 1 MiB",
            Setting {
                receive_buffer: mebi(1),
                ..with_followers
            },
        ),
    ];
    for (name, setting) in rows.into_iter().filter(|row| row.0.contains(&wanted)) {
        for mover in [linux::Mover::Direct, linux::Mover::Auto] {
            let time = Duration::from_secs(seconds as u64);
            measure(name, setting, mover, &directory, time)?;
        }
    }
    Ok(())
}

fn measure(
    name: &str,
    setting: Setting,
    mover: linux::Mover,
    directory: &std::path::Path,
    time: Duration,
) -> io::Result<()> {
    let mut kernel = Kernel::new(KernelConfig {
        mover,
        signals: false,
        send_buffer: setting.send_buffer,
        receive_buffer: setting.receive_buffer,
        ..KernelConfig::default()
    })?;
    let name = format!("{name}, {}", kernel.mover());
    let address = kernel.bind("127.0.0.1:0")?;
    let sinks = (0..setting.followers)
        .map(|_| sink())
        .collect::<io::Result<Vec<_>>>()?;
    let producer = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address)?;
        set_cubic(&stream);
        let payload = vec![7; 256 << 10];
        loop {
            stream.write_all(&payload)?;
        }
        #[allow(unreachable_code, reason = "the producer ends with the connection")]
        io::Result::Ok(())
    });
    let until = linux::now() + time;
    let mut mover = Mover::new(setting, directory.to_path_buf(), address, &sinks, until);
    let started = (
        Instant::now(),
        seconds(ClockId::ThreadCPUTime),
        seconds(ClockId::ProcessCPUTime),
    );
    kernel.run(&mut mover)?;
    let elapsed = started.0.elapsed().as_secs_f64();
    let gigabytes = mover.durable as f64 / 1e9;
    let loop_cpu = (seconds(ClockId::ThreadCPUTime) - started.1) / gigabytes;
    let all_cpu = (seconds(ClockId::ProcessCPUTime) - started.2) / gigabytes;
    let micros = &mut mover.write_micros;
    micros.sort_unstable();
    println!(
        "{:<52}{:>8.0}{:>10}{:>10}{:>12.2}{:>12.2}",
        name,
        gigabytes * 1e3 / elapsed,
        micros.get(micros.len() / 2).unwrap_or(&0),
        micros.get(micros.len() * 99 / 100).unwrap_or(&0),
        loop_cpu,
        all_cpu
    );
    drop(kernel);
    // Ends with an error: the connection is gone.
    let _ = producer.join();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("floor-"))
        {
            std::fs::remove_file(path)?;
        }
    }
    std::thread::sleep(Duration::from_millis(500));
    Ok(())
}

/// Listens, and throws away what the one connection sends.
fn sink() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        let mut buffer = vec![0; 256 << 10];
        while stream.read(&mut buffer)? > 0 {}
        io::Result::Ok(())
    });
    Ok(address)
}

fn set_cubic(stream: &TcpStream) {
    // Best effort, as the kernel under test does.
    let _ = rustix::net::sockopt::set_tcp_congestion(stream, "cubic");
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
