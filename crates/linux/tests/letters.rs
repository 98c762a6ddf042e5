//! Letters between kernels, work in lanes, and the clock on the wall.

mod harness;

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use harness::{Harness, quiet};
use linux::{Kernel, KernelConfig, PostOffice};
use ops::{Completion, Lane, Letter, Machine, MachineId, Op, Time, Token, Work};

const HOST: MachineId = MachineId(1);
const LETTERS: u64 = 2_000;

#[derive(Debug, PartialEq)]
struct Ping(u64);

#[derive(Debug, PartialEq)]
struct Pong(u64);

/// Writes letters as they come to it, and ends when it has heard so many.
struct Writer {
    ops: VecDeque<Op>,
    heard: Vec<u64>,
    heard_max: u64,
}

/// Answers each letter.
struct Answerer {
    ops: VecDeque<Op>,
    heard: Vec<u64>,
    finished: bool,
}

impl Machine for Writer {
    fn handle(&mut self, _now: Time, completion: Completion) {
        let Completion::Delivered { from, letter } = completion else {
            panic!("{completion:?}");
        };
        assert_eq!(from, HOST);
        self.heard.push(letter.open::<Pong>().unwrap().0);
    }

    fn on_time(&mut self, _now: Time) {}

    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn is_finished(&self) -> bool {
        self.heard.len() as u64 == self.heard_max
    }
}

impl Machine for Answerer {
    fn handle(&mut self, _now: Time, completion: Completion) {
        match completion {
            Completion::Delivered { from, letter } => {
                assert_eq!(from, MachineId::NODE);
                let Ping(number) = letter.open().unwrap();
                self.heard.push(number);
                let letter = Letter::new(Pong(number));
                self.ops.push_back(Op::Post { to: from, letter });
            }
            Completion::StopRequested => self.finished = true,
            other => panic!("{other:?}"),
        }
    }

    fn on_time(&mut self, _now: Time) {}

    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn is_finished(&self) -> bool {
        self.finished
    }
}

fn kernel(machine: MachineId, office: &PostOffice) -> io::Result<Kernel> {
    Kernel::new(KernelConfig {
        machine,
        office: office.clone(),
        ..quiet()
    })
}

fn ran(harness: &mut Harness, of: u64) -> Result<Letter, String> {
    harness.wait_for(
        |c| matches!(c, Completion::Ran { token, .. } if *token == Token(of)),
        |c| match c {
            Completion::Ran { result, .. } => result,
            other => panic!("{other:?}"),
        },
    )
}

fn run<T: Send + std::fmt::Debug + 'static>(
    harness: &mut Harness,
    token: u64,
    lane: u16,
    work: impl FnOnce() -> T + Send + 'static,
) {
    harness.kernel.submit(Op::Run {
        token: Token(token),
        lane: Lane(lane),
        work: Work::new(work),
    });
}

#[test]
fn letters_between_two_machines_arrive_in_order_and_all_of_them() {
    let office = PostOffice::default();
    let mut node = kernel(MachineId::NODE, &office).unwrap();
    let mut host = kernel(HOST, &office).unwrap();
    let stopper = host.stopper();
    let answers = thread::spawn(move || {
        let mut answerer = Answerer {
            ops: VecDeque::new(),
            heard: Vec::new(),
            finished: false,
        };
        host.run(&mut answerer).unwrap();
        answerer.heard
    });
    let ops = (0..LETTERS).map(|number| Op::Post {
        to: HOST,
        letter: Letter::new(Ping(number)),
    });
    let mut writer = Writer {
        ops: ops.collect(),
        heard: Vec::new(),
        heard_max: LETTERS,
    };
    node.run(&mut writer).unwrap();
    stopper.stop();
    let in_order: Vec<u64> = (0..LETTERS).collect();
    assert_eq!(answers.join().unwrap(), in_order);
    assert_eq!(writer.heard, in_order);
}

#[test]
fn any_thread_may_post_and_hears_whether_there_is_such_a_machine() {
    let office = PostOffice::default();
    let post = |number| office.post(MachineId(9), HOST, Letter::new(Ping(number)));
    assert!(!post(0), "there is nobody yet");
    let mut harness = Harness::with(KernelConfig {
        machine: HOST,
        office: office.clone(),
        ..quiet()
    });
    thread::scope(|scope| scope.spawn(|| assert!(post(1))).join()).unwrap();
    let (from, letter) = harness.wait_for(
        |c| matches!(c, Completion::Delivered { .. }),
        |c| match c {
            Completion::Delivered { from, letter } => (from, letter),
            other => panic!("{other:?}"),
        },
    );
    assert_eq!(from, MachineId(9));
    assert_eq!(letter.open::<Ping>().unwrap(), Ping(1));
    // Nobody is told, and nothing comes of it.
    harness.kernel.submit(Op::Post {
        to: MachineId(7),
        letter: Letter::new(Ping(2)),
    });
    harness.idle(20);
    assert!(harness.rest().is_empty());
    drop(harness);
    assert!(!post(3), "its kernel is gone");
}

#[test]
fn a_number_is_taken_as_long_as_its_kernel_is_there() {
    let office = PostOffice::default();
    let first = kernel(HOST, &office).unwrap();
    let error = kernel(HOST, &office).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("a machine 1 already"), "{error}");
    drop(first);
    kernel(HOST, &office).unwrap();
}

#[test]
fn a_machine_that_is_finished_gets_no_letters() {
    let office = PostOffice::default();
    let mut node = kernel(MachineId::NODE, &office).unwrap();
    let mut writer = Writer {
        ops: VecDeque::new(),
        heard: Vec::new(),
        heard_max: 0,
    };
    let letter = || Letter::new(Ping(0));
    assert!(office.post(HOST, MachineId::NODE, letter()));
    node.run(&mut writer).unwrap();
    assert!(!office.post(HOST, MachineId::NODE, letter()));
}

#[test]
fn a_lane_does_one_after_the_other_and_lanes_do_not_wait_for_each_other() {
    let mut harness = Harness::new();
    let (give, take) = mpsc::channel::<()>();
    // The first lane waits for what the second one does: in one thread nothing would ever come.
    run(&mut harness, 0, 0, move || {
        take.recv().unwrap();
        0
    });
    for number in 1..100u64 {
        run(&mut harness, number, 0, move || number);
    }
    run(&mut harness, 100, 1, move || {
        give.send(()).unwrap();
        thread::current().name().map(str::to_owned)
    });
    let name = ran(&mut harness, 100).unwrap();
    let name = name.open::<Option<String>>().unwrap();
    assert_eq!(name.as_deref(), Some("lane-1"));
    ran(&mut harness, 99).unwrap();
    let rest = harness
        .rest()
        .into_iter()
        .map(|completion| match completion {
            Completion::Ran { token, .. } => token.0,
            other => panic!("{other:?}"),
        });
    assert_eq!(rest.collect::<Vec<_>>(), (0..99).collect::<Vec<_>>());
}

#[test]
fn work_that_panics_is_told_and_its_lane_goes_on() {
    let mut harness = Harness::new();
    let number = 3;
    run(&mut harness, 1, 5, move || -> u32 {
        panic!("row {number} is torn")
    });
    run(&mut harness, 2, 5, || Ping(2));
    assert_eq!(ran(&mut harness, 1).unwrap_err(), "row 3 is torn");
    let done = ran(&mut harness, 2).unwrap();
    assert_eq!(done.open::<Ping>().unwrap(), Ping(2));
}

#[test]
fn a_kernel_that_goes_waits_for_the_work_begun_and_drops_the_rest() {
    let (did, done) = mpsc::channel();
    let (begun, begin) = mpsc::channel();
    let mut harness = Harness::new();
    let first = did.clone();
    run(&mut harness, 1, 0, move || {
        begun.send(()).unwrap();
        thread::sleep(Duration::from_millis(100));
        first.send(1).unwrap();
    });
    run(&mut harness, 2, 0, move || did.send(2).unwrap());
    begin.recv().unwrap();
    drop(harness);
    // Both senders are gone, or this would wait without end.
    assert_eq!(done.iter().collect::<Vec<_>>(), [1]);
}

#[test]
fn the_clock_on_the_wall_is_the_systems() {
    let mut harness = Harness::new();
    let shows = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let before = shows().unwrap();
    harness.kernel.submit(Op::WallClock { token: Token(4) });
    let told = harness.wait_for(
        |c| matches!(c, Completion::WallClock { .. }),
        |c| match c {
            Completion::WallClock { token, since_1970 } => (token, since_1970),
            other => panic!("{other:?}"),
        },
    );
    assert_eq!(told.0, Token(4));
    let told = told.1.unwrap();
    // A clock that is being set may move meanwhile.
    let slack = Duration::from_secs(5);
    assert!(told + slack >= before && told <= shows().unwrap() + slack);
}

/// Two doors: the machine learns by which one somebody came.
#[test]
fn a_connection_names_the_address_at_which_it_came_in() {
    let mut harness = Harness::new();
    let doors: Vec<String> = (0..2)
        .map(|_| harness.kernel.bind("127.0.0.1:0").unwrap().to_string())
        .collect();
    // Port 0 was bound twice, and is one listener.
    assert_eq!(doors[0], doors[1]);
    let other = harness.kernel.bind("localhost:0").unwrap().to_string();
    for address in [&doors[0], "localhost:0"] {
        harness.kernel.submit(Op::Listen {
            address: address.to_string(),
        });
    }
    for (address, named) in [(&other, "localhost:0"), (&doors[0], &doors[0])] {
        harness.start_connect(address);
        let listener = harness.wait_for(
            |c| matches!(c, Completion::Accepted { .. }),
            |c| match c {
                Completion::Accepted { listener, .. } => listener,
                other => panic!("{other:?}"),
            },
        );
        assert_eq!(listener, named);
    }
}
