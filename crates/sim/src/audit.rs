//! Watches the contract of ops and completions from between a machine and its kernel.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use ops::{Completion, ConnId, LENT_BYTES_MAX, Machine, Op, Received, Time, Token};

/// A machine whose every op must complete exactly once, in order where the contract says so.
pub struct Audited<M> {
    pub machine: M,
    connects: BTreeMap<ConnId, usize>,
    receives: BTreeMap<ConnId, VecDeque<Asked>>,
    sends: BTreeMap<ConnId, usize>,
    disk: BTreeMap<Token, usize>,
    completed: u64,
}

/// A receive that is outstanding.
enum Asked {
    Into { range: Range<usize>, whole: bool },
    WhenThere { bytes_max: usize },
}

impl Asked {
    /// Asserts that this is an answer to it.
    fn check(&self, range: &Range<usize>, length: usize, received: Option<Received>) {
        let (most, whole) = match self {
            Asked::Into {
                range: asked,
                whole,
            } => {
                assert_eq!(asked, range, "receives complete in order");
                (range.len(), *whole)
            }
            Asked::WhenThere { bytes_max } => {
                let count = received.map_or(0, |received| received.count);
                assert_eq!(*range, 0..count, "it tells what came");
                assert!(count <= length, "{count} in a buffer of {length}");
                (LENT_BYTES_MAX.min(*bytes_max), false)
            }
        };
        let Some(received) = received else { return };
        assert!(received.count <= most);
        let complete = received.count == most;
        let some = received.count > 0 && !whole;
        assert!(
            complete || some || received.end,
            "{received:?} of {range:?}"
        );
        assert!(
            !(complete && received.end),
            "the end comes with fewer bytes"
        );
    }
}

impl<M: Machine> Audited<M> {
    pub fn new(machine: M) -> Audited<M> {
        Audited {
            machine,
            connects: BTreeMap::new(),
            receives: BTreeMap::new(),
            sends: BTreeMap::new(),
            disk: BTreeMap::new(),
            completed: 0,
        }
    }

    /// Ops that have not completed yet.
    pub fn outstanding(&self) -> usize {
        let counted = [self.connects.values(), self.sends.values()];
        let counted: usize = counted.into_iter().flatten().sum();
        let receives: usize = self.receives.values().map(VecDeque::len).sum();
        counted + receives + self.disk.values().sum::<usize>()
    }

    pub fn completed(&self) -> u64 {
        self.completed
    }

    fn given(&mut self, op: &Op) {
        match op {
            Op::Connect { conn, .. } => *self.connects.entry(*conn).or_default() += 1,
            Op::Receive {
                conn, range, whole, ..
            } => {
                let (range, whole) = (range.clone(), *whole);
                let receives = self.receives.entry(*conn).or_default();
                receives.push_back(Asked::Into { range, whole });
            }
            Op::ReceiveWhenThere { conn, bytes_max } => {
                let bytes_max = *bytes_max;
                let receives = self.receives.entry(*conn).or_default();
                receives.push_back(Asked::WhenThere { bytes_max });
            }
            Op::Send { conn, .. } => *self.sends.entry(*conn).or_default() += 1,
            Op::Listen { .. }
            | Op::ShutdownWrite { .. }
            | Op::Close { .. }
            | Op::Reset { .. }
            | Op::Post { .. } => {}
            Op::Open { token, .. }
            | Op::CloseFile { token, .. }
            | Op::Write { token, .. }
            | Op::Read { token, .. }
            | Op::CreateDirectory { token, .. }
            | Op::WriteFile { token, .. }
            | Op::Rename { token, .. }
            | Op::Remove { token, .. }
            | Op::RemoveDirectory { token, .. }
            | Op::FreeSpace { token, .. }
            | Op::Run { token, .. }
            | Op::WallClock { token } => *self.disk.entry(*token).or_default() += 1,
        }
    }

    fn done(&mut self, completion: &Completion) {
        self.completed += 1;
        match completion {
            Completion::Connected { conn, .. } => one_less(&mut self.connects, *conn),
            Completion::Sent { conn, .. } => one_less(&mut self.sends, *conn),
            Completion::Received {
                conn,
                buffer,
                range,
                result,
            } => {
                let given = self.receives.get_mut(conn).and_then(VecDeque::pop_front);
                let asked = given.expect("a receive completes once");
                asked.check(range, buffer.len(), result.as_ref().ok().copied());
            }
            Completion::Read { token, .. }
            | Completion::Done { token, .. }
            | Completion::Space { token, .. }
            | Completion::Ran { token, .. }
            | Completion::WallClock { token, .. } => one_less(&mut self.disk, *token),
            Completion::Accepted { .. }
            | Completion::ListenFailed { .. }
            | Completion::Delivered { .. }
            | Completion::StopRequested => {}
        }
    }
}

fn one_less<K: Ord + std::fmt::Debug>(counts: &mut BTreeMap<K, usize>, key: K) {
    match counts.get_mut(&key) {
        Some(1) => {
            counts.remove(&key);
        }
        Some(count) if *count > 1 => *count -= 1,
        _ => panic!("a completion of {key:?} that nobody waits for"),
    }
}

impl<M: Machine> Machine for Audited<M> {
    fn handle(&mut self, now: Time, completion: Completion) {
        self.done(&completion);
        self.machine.handle(now, completion);
    }

    fn on_time(&mut self, now: Time) {
        self.machine.on_time(now);
    }

    fn poll_op(&mut self) -> Option<Op> {
        let op = self.machine.poll_op()?;
        self.given(&op);
        Some(op)
    }

    fn deadline(&self) -> Option<Time> {
        self.machine.deadline()
    }

    fn is_finished(&self) -> bool {
        self.machine.is_finished()
    }
}
