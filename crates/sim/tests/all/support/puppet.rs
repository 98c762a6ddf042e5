//! A machine that does what the test says, op by op.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use ops::{Buffer, Completion, ConnId, Machine, Op, Received, Slice, Time};
use sim::{Audited, HostId, World};

#[derive(Default)]
struct Strings {
    ops: VecDeque<Op>,
    heard: Vec<Completion>,
}

pub struct Puppet(Rc<RefCell<Strings>>);

/// The test's end of it.
#[derive(Clone)]
pub struct Hand {
    strings: Rc<RefCell<Strings>>,
    pub host: HostId,
}

impl Machine for Puppet {
    fn handle(&mut self, _now: Time, completion: Completion) {
        self.0.borrow_mut().heard.push(completion);
    }
    fn on_time(&mut self, _now: Time) {}
    fn poll_op(&mut self) -> Option<Op> {
        self.0.borrow_mut().ops.pop_front()
    }
    fn deadline(&self) -> Option<Time> {
        None
    }
    fn is_finished(&self) -> bool {
        false
    }
}

pub fn puppet(world: &mut World, name: &str) -> Hand {
    let strings = Rc::<RefCell<Strings>>::default();
    let host = world.add_host(name);
    let shared = strings.clone();
    world
        .start(host, move |_disk, _now| {
            Ok(Box::new(Audited::new(Puppet(shared.clone()))))
        })
        .unwrap();
    Hand { strings, host }
}

impl Hand {
    /// Gives an op without letting time pass.
    pub fn give(&self, world: &mut World, op: Op) {
        self.strings.borrow_mut().ops.push_back(op);
        world.poke(self.host);
    }

    /// Takes the completions that it was told since it was last asked.
    pub fn heard(&self) -> Vec<Completion> {
        std::mem::take(&mut self.strings.borrow_mut().heard)
    }

    pub fn one(&self) -> Completion {
        let mut heard = self.heard();
        assert_eq!(heard.len(), 1, "{heard:?}");
        heard.remove(0)
    }

    /// Gives an op, lets a second pass, and returns the one thing that was heard.
    pub fn ask(&self, world: &mut World, op: Op) -> Completion {
        self.give(world, op);
        world.run_for(Duration::from_secs(1), 1_000_000);
        self.one()
    }

    pub fn outstanding(&self, world: &World) -> usize {
        let puppet = world.machine::<Audited<Puppet>>(self.host);
        puppet.expect("it runs").outstanding()
    }

    pub fn send(&self, world: &mut World, conn: ConnId, bytes: &[u8]) {
        let slices = vec![Slice::copied_from(bytes)];
        self.give(world, Op::Send { conn, slices });
    }

    pub fn receive(&self, world: &mut World, conn: ConnId, length: usize, whole: bool) {
        let buffer = Buffer::new(length);
        let range = 0..length;
        self.give(
            world,
            Op::Receive {
                conn,
                buffer,
                range,
                whole,
            },
        );
    }

    pub fn receive_when_there(&self, world: &mut World, conn: ConnId, bytes_max: usize) {
        self.give(world, Op::ReceiveWhenThere { conn, bytes_max });
    }

    /// Receives all that comes within a second, up to `length` bytes.
    pub fn read(&self, world: &mut World, conn: ConnId, length: usize) -> io::Result<Vec<u8>> {
        self.receive(world, conn, length, true);
        world.run_for(Duration::from_secs(1), 1_000_000);
        match self.one() {
            Completion::Received { buffer, result, .. } => Ok(buffer[..result?.count].to_vec()),
            other => panic!("{other:?}"),
        }
    }
}

pub fn received(completion: Completion) -> io::Result<Received> {
    match completion {
        Completion::Received { result, .. } => result,
        other => panic!("{other:?}"),
    }
}

pub fn sent(completion: Completion) -> io::Result<()> {
    match completion {
        Completion::Sent { result, .. } => result,
        other => panic!("{other:?}"),
    }
}

pub fn done(completion: Completion) -> io::Result<()> {
    match completion {
        Completion::Done { result, .. } => result,
        other => panic!("{other:?}"),
    }
}

/// Two puppets with a connection between them: (`a`, its conn), (`b`, its conn).
pub fn pair(world: &mut World) -> ((Hand, ConnId), (Hand, ConnId)) {
    let a = puppet(world, "a");
    let b = puppet(world, "b");
    let address = "b:1".to_owned();
    b.give(world, Op::Listen { address });
    let address = "b:1".to_owned();
    let conn = ConnId(0);
    let connected = a.ask(world, Op::Connect { conn, address });
    assert!(matches!(
        connected,
        Completion::Connected { result: Ok(()), .. }
    ));
    let Completion::Accepted { conn: accepted, .. } = b.one() else {
        panic!("not accepted");
    };
    assert_eq!(accepted.0 % 2, 1);
    ((a, conn), (b, accepted))
}
