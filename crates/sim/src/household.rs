//! Several machines of one process: a host's own and its companions, which live and die together.
//!
//! A companion is a host with a number, that has its node's clock and fate. Letters take a while, and arrive in order between
//! two machines. Work is done at a moment, and told of later: what it read may be old by then. If the process has died by that
//! moment it is not done at all: whatever a kill leaves half done, a shelf or a disk has to model itself.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use ops::{Completion, Disk, Lane, Letter, MachineId, Time, Token, Work};

use crate::clockwork::Event;
use crate::host::{HostId, Process, Status};
use crate::startup::FIRST_SECOND;
use crate::world::World;

/// Letters and work of all processes.
#[derive(Default)]
pub(crate) struct Households {
    /// The node of each companion, and its number.
    companions: BTreeMap<HostId, (HostId, MachineId)>,
    /// When the last letter from one machine to another arrives, and when the last work of a lane is done.
    letters: BTreeMap<(HostId, HostId), Time>,
    lanes: BTreeMap<(HostId, Lane), Time>,
    /// When the last work of a lane is told of.
    told: BTreeMap<(HostId, Lane), Time>,
    /// By node: how far the wall clock is from the world's, in ms.
    wall: BTreeMap<HostId, i64>,
}

/// The process, of all that a host ever has, that something is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    host: HostId,
    starts: u64,
}

impl World {
    /// Another machine in the process of a host: started with it, at every start, before it does anything; and gone when it is gone.
    pub fn add_companion(
        &mut self,
        of: HostId,
        number: MachineId,
        start: impl FnMut(&mut dyn Disk, Time) -> io::Result<Box<dyn Process>> + 'static,
    ) -> io::Result<HostId> {
        let name = format!("{}/{}", self.name(of), number.0);
        let companion = self.add_host(&name);
        self.households.companions.insert(companion, (of, number));
        self.hosts[companion.index()].start = Some(Box::new(start));
        if self.is_running(of) {
            self.restart(companion)?;
        }
        Ok(companion)
    }

    /// Sets people's clocks at this host, apart from the world's, in ms.
    pub fn set_wall_clock(&mut self, host: HostId, ahead_ms: i64) {
        let node = self.household(host);
        self.households.wall.insert(node, ahead_ms);
    }

    /// The host in whose process that host's machine lives.
    pub(crate) fn household(&self, host: HostId) -> HostId {
        let companion = self.households.companions.get(&host);
        companion.map_or(host, |(node, _)| *node)
    }

    pub(crate) fn is_companion(&self, host: HostId) -> bool {
        self.households.companions.contains_key(&host)
    }

    pub(crate) fn companions(&self, of: HostId) -> Vec<HostId> {
        let all = self.households.companions.iter();
        let of_it = all.filter(|(_, (node, _))| *node == of);
        of_it.map(|(companion, _)| *companion).collect()
    }

    pub(crate) fn start_companions(&mut self, of: HostId) {
        for companion in self.companions(of) {
            // The process is one: what cannot start ends it.
            if self.restart(companion).is_err() {
                return self.crash(of);
            }
        }
    }

    /// Decides about the companions of a process that has ended so.
    pub(crate) fn end_companions(&mut self, of: HostId, status: Status) {
        for companion in self.companions(of) {
            match status {
                Status::Finished => self.stop(companion),
                _ => self.end_process(companion, status),
            }
        }
    }

    fn number(&self, host: HostId) -> MachineId {
        let companion = self.households.companions.get(&host);
        companion.map_or(MachineId::NODE, |(_, number)| *number)
    }

    fn life(&self, host: HostId) -> Life {
        Life {
            host,
            starts: self.starts(host),
        }
    }

    pub(crate) fn post(&mut self, from: HostId, to: MachineId, letter: Letter) {
        let node = self.household(from);
        let household = [node].into_iter().chain(self.companions(node));
        let Some(to) = household
            .filter(|host| self.number(*host) == to)
            .find(|host| self.is_running(*host))
        else {
            return;
        };
        let us = match self.clock.random.below(50) {
            0 => self.clock.random.below(3_000),
            _ => 1 + self.clock.random.below(50),
        };
        let at = self.clock.now + Duration::from_micros(us);
        let last = self.households.letters.entry((from, to)).or_insert(at);
        *last = at.max(*last);
        let (at, life, from) = (*last, self.life(to), self.number(from));
        self.clock
            .schedule(at, Event::Letter { life, from, letter });
    }

    /// A letter from a thread that is no machine: a caller's.
    pub fn write_to(&mut self, host: HostId, letter: Letter) {
        let life = self.life(host);
        let from = MachineId::NOBODY;
        self.clock
            .schedule(self.clock.now, Event::Letter { life, from, letter });
    }

    pub(crate) fn run_work(&mut self, host: HostId, token: Token, lane: Lane, work: Work) {
        let us = match self.clock.random.below(40) {
            0 => self.clock.random.below(60_000),
            _ => 20 + self.clock.random.below(280),
        };
        let free_at = self.households.lanes.get(&(host, lane));
        let from = free_at.copied().unwrap_or(Time::ZERO).max(self.clock.now);
        let at = from + Duration::from_micros(us);
        self.households.lanes.insert((host, lane), at);
        let life = self.life(host);
        let event = Event::Work {
            life,
            token,
            lane,
            work,
        };
        self.clock.schedule(at, event);
    }

    /// That lane of a host's does nothing for so long.
    pub fn hold_lane(&mut self, host: HostId, lane: Lane, held: Duration) {
        let us = held.as_micros();
        self.line(format_args!(
            "hold lane {} of {} for {us}",
            lane.0,
            self.name(host)
        ));
        let until = self.clock.now + held;
        let free_at = self.households.lanes.entry((host, lane)).or_insert(until);
        *free_at = until.max(*free_at);
    }

    /// The wall clock of that host, in ms since the beginning of 1970.
    pub(crate) fn wall_ms(&self, host: HostId) -> u64 {
        let ahead = self.households.wall.get(&self.household(host));
        let since_start = (self.clock.now - Time::ZERO).as_millis() as i64;
        let ms = FIRST_SECOND as i64 * 1000 + since_start + ahead.copied().unwrap_or(0);
        u64::try_from(ms).unwrap_or_default()
    }

    pub(crate) fn tell_wall_clock(&mut self, host: HostId, token: Token) {
        let since_1970 = Some(Duration::from_millis(self.wall_ms(host)));
        self.clock
            .deliver(host, Completion::WallClock { token, since_1970 });
    }

    pub(crate) fn on_letter(&mut self, life: Life, from: MachineId, letter: Letter) {
        if self.lives(life) {
            self.clock
                .deliver(life.host, Completion::Delivered { from, letter });
        }
    }

    pub(crate) fn on_work(&mut self, life: Life, token: Token, lane: Lane, work: Work) {
        if !self.lives(life) {
            return;
        }
        let result = work.perform();
        let us = match self.clock.random.below(20) {
            0 => self.clock.random.below(60_000),
            _ => self.clock.random.below(30),
        };
        let at = self.clock.now + Duration::from_micros(us);
        let told = self.households.told.entry((life.host, lane)).or_insert(at);
        *told = at.max(*told);
        let event = Event::Ran {
            life,
            token,
            result,
        };
        self.clock.schedule(*told, event);
    }

    pub(crate) fn on_ran(&mut self, life: Life, token: Token, result: Result<Letter, String>) {
        if self.lives(life) {
            self.clock
                .deliver(life.host, Completion::Ran { token, result });
        }
    }

    fn lives(&self, life: Life) -> bool {
        self.is_running(life.host) && self.starts(life.host) == life.starts
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use ops::{Machine, Op};

    use super::*;

    /// Sends what it is told to, and notes what comes.
    #[derive(Default)]
    struct Talker {
        ops: VecDeque<Op>,
        heard: Vec<String>,
        stopped: bool,
    }

    impl Machine for Talker {
        fn handle(&mut self, _now: Time, completion: Completion) {
            match completion {
                Completion::StopRequested => self.stopped = true,
                Completion::Delivered { from, letter } => {
                    self.heard.push(format!("{} {letter:?}", from.0));
                }
                Completion::Ran { token, result } => {
                    self.heard.push(format!("ran {} {result:?}", token.0));
                }
                other => self.heard.push(format!("{other:?}")),
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
            self.stopped
        }
    }

    fn say(world: &mut World, host: HostId, op: Op) {
        let process = world.hosts[host.index()].process.as_mut().expect("it runs");
        let process: &mut dyn std::any::Any = process.as_mut();
        let talker = process.downcast_mut::<Talker>().expect("a talker");
        talker.ops.push_back(op);
        world.poke(host);
    }

    fn heard(world: &World, host: HostId) -> Vec<String> {
        let talker = world.machine::<Talker>(host);
        talker.map_or_else(Vec::new, |talker| talker.heard.clone())
    }

    fn two(seed: u64) -> (World, HostId, HostId) {
        let mut world = World::new(seed);
        let node = world.add_host("a");
        let start = |_: &mut dyn Disk, _: Time| Ok(Box::<Talker>::default() as Box<dyn Process>);
        world.start(node, start).expect("it starts");
        let companion = world.add_companion(node, MachineId(1), start);
        (world, node, companion.expect("it starts"))
    }

    fn post(to: u16, text: &str) -> Op {
        Op::Post {
            to: MachineId(to),
            letter: Letter::new(text.to_owned()),
        }
    }

    #[test]
    fn letters_arrive_in_order_and_those_to_nobody_are_lost() {
        for seed in 0..20 {
            let (mut world, node, companion) = two(seed);
            for number in 0..30 {
                say(&mut world, node, post(1, &number.to_string()));
                say(&mut world, node, post(7, "nobody"));
                world.run_for(Duration::from_micros(30), 1_000);
            }
            say(&mut world, companion, post(0, "yes"));
            world.run_for(Duration::from_secs(1), 10_000);
            let expected: Vec<String> = (0..30).map(|number| format!("0 \"{number}\"")).collect();
            assert_eq!(heard(&world, companion), expected);
            assert_eq!(heard(&world, node), ["1 \"yes\""]);
        }
    }

    #[test]
    fn work_of_a_lane_is_done_in_order_and_none_after_a_crash() {
        for seed in 0..20 {
            let (mut world, node, companion) = two(seed);
            let run = |token| Op::Run {
                token: Token(token),
                lane: Lane(0),
                work: Work::new(move || token),
            };
            for token in 0..20 {
                say(&mut world, companion, run(token));
            }
            world.run_for(Duration::from_secs(2), 10_000);
            let expected: Vec<String> = (0..20).map(|n| format!("ran {n} Ok({n})")).collect();
            assert_eq!(heard(&world, companion), expected);
            let died = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
            let works = died.clone();
            let work = Work::new(move || works.lock().unwrap().push("done after the crash"));
            say(
                &mut world,
                companion,
                Op::Run {
                    token: Token(99),
                    lane: Lane(0),
                    work,
                },
            );
            say(&mut world, node, post(1, "too late"));
            world.run_for(Duration::from_micros(20), 4);
            world.crash(node);
            assert!(!world.is_running(companion), "one process");
            world.restart(node).expect("it starts");
            world.run_for(Duration::from_secs(2), 10_000);
            assert!(world.is_running(companion));
            assert_eq!(*died.lock().unwrap(), [""; 0]);
            assert_eq!(heard(&world, companion), [""; 0]);
        }
    }

    #[test]
    fn a_companion_has_its_nodes_clock_and_the_wall_clock_may_be_off() {
        let (mut world, node, companion) = two(1);
        world.set_wall_clock(node, -2_000);
        say(&mut world, companion, Op::WallClock { token: Token(5) });
        world.run_for(Duration::from_millis(1), 100);
        assert_eq!(
            heard(&world, companion),
            ["WallClock { token: Token(5), since_1970: Some(1799999998s) }"]
        );
        world.stop(node);
        world.run_for(Duration::from_millis(1), 100);
        assert_eq!(world.status(companion), Status::Finished);
    }
}
