//! The world: hosts, the order of events, and the observers.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ops::{Completion, Disk, Machine, Op, Time};

use crate::clockwork::{Clockwork, Event};
use crate::disk::SimDisk;
use crate::host::{Host, HostClock, HostId, Process, Status};
use crate::household::Households;
use crate::nemesis::Nemesis;
use crate::net::{Network, PendingReceive};
use crate::startup::StartUp;
use crate::trace::Trace;

/// The latest end of a run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub until: Time,
    pub events_max: u64,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The awaited condition holds.
    Reached,
    TimeUp,
    OutOfEvents,
    /// Nothing will ever happen again, and some process is not finished.
    Stuck,
    /// Nothing will ever happen again: every process that was started is finished or dead.
    Idle,
}

/// A process that wakes so often in a row for nothing keeps a core of a real machine busy.
const IDLE_ROUNDS_MAX: u32 = 1000;

type Check = Box<dyn FnMut(&World)>;

/// Hears of an op before it is performed: whose it is, and whom a send is for.
type Listener = Box<dyn FnMut(HostId, Option<HostId>, &Op)>;

/// Hears of what a disk has done before its process does.
type DiskListener = Box<dyn FnMut(HostId, &Completion)>;

/// Sees what passes between processes and their kernels, and panics at what must not be.
pub(crate) trait Watch {
    /// Before the op is performed. Ops on disks have a number, those on connections 0.
    fn on_op(&mut self, host: HostId, op: &Op, number: u64);
    /// The op with this number is over, and `done` if the media now is as it asked.
    fn on_disk_done(&mut self, host: HostId, number: u64, done: bool);
    /// The process is about to be gone, by whatever end.
    fn on_last_look(&mut self, host: HostId, process: &dyn Process);
    /// Its disk is as the next start will find it.
    fn on_end(&mut self, host: HostId, disk: &SimDisk);
    /// It was started, for the first time or again.
    fn on_start(&mut self, host: HostId, process: Option<&dyn Process>);
    /// The disk's present contents may be put back later; and they are.
    fn on_copied(&mut self, _host: HostId) {}
    fn on_put_back(&mut self, _host: HostId) {}
    /// After a step in which this host's process ran.
    fn after_step(&mut self, host: HostId, world: &World);
    /// These hosts say that they hold everything.
    fn when_whole(&mut self, hosts: &[HostId], world: &World);
}

pub struct World {
    pub(crate) clock: Clockwork,
    pub(crate) net: Network,
    pub(crate) disks: Vec<SimDisk>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) households: Households,
    pub(crate) nemesis: Option<Box<Nemesis>>,
    checks: Vec<Check>,
    listeners: Vec<Listener>,
    disk_listeners: Vec<DiskListener>,
    pub(crate) watch: Option<Box<dyn Watch>>,
    /// The host whose process ran in this step.
    ran: Option<HostId>,
    /// Something that a check could see has changed.
    changed: bool,
    seed: u64,
    events: u64,
    steps: u64,
}

impl World {
    pub fn new(seed: u64) -> World {
        World {
            clock: Clockwork::new(seed),
            net: Network::new(),
            disks: Vec::new(),
            hosts: Vec::new(),
            households: Households::default(),
            nemesis: None,
            checks: Vec::new(),
            listeners: Vec::new(),
            disk_listeners: Vec::new(),
            watch: None,
            ran: None,
            changed: false,
            seed,
            events: 0,
            steps: 0,
        }
    }

    /// A machine with an empty disk. Other hosts reach it as `NAME:PORT`.
    pub fn add_host(&mut self, name: &str) -> HostId {
        let host = HostId(self.hosts.len() as u32);
        self.hosts.push(Host::new(name, &mut self.clock.random));
        self.disks.push(SimDisk::new());
        self.clock.add_mailbox();
        self.net.add_host(name);
        host
    }

    /// Starts a process, now and at every restart.
    pub fn start(
        &mut self,
        host: HostId,
        start: impl FnMut(&mut dyn Disk, Time) -> io::Result<Box<dyn Process>> + 'static,
    ) -> io::Result<()> {
        self.hosts[host.index()].start = Some(Box::new(start));
        self.restart(host)
    }

    /// As `start`, with what it was last started with.
    pub fn restart(&mut self, host: HostId) -> io::Result<()> {
        assert!(
            self.hosts[host.index()].process.is_none(),
            "{} runs already",
            self.name(host)
        );
        self.line(format_args!("start {}", self.name(host)));
        let is_watched = !self.is_companion(host);
        self.net.machine_is_back(&mut self.clock, host);
        let now = self.host_clock(host).shows(self.clock.now);
        let state = &mut self.hosts[host.index()];
        let mut start = state.start.take().expect("it was started before");
        let second = self.wall_ms(host) / 1000;
        let disk = &mut self.disks[host.index()];
        let random = &mut self.clock.random;
        disk.landing = disk.offers_landing.then(Arc::default);
        let start_up = &mut StartUp {
            disk,
            random,
            runs: true,
            second,
        };
        let process = start(start_up, now);
        let faults = &mut self.disks[host.index()].faults;
        faults.start_read_errors.0 = 0;
        faults.start_flips.0 = 0;
        let state = &mut self.hosts[host.index()];
        state.start = Some(start);
        state.starts += 1;
        state.started = self.clock.now;
        state.paused_until = Time::ZERO;
        state.timer = None;
        state.dies_after_ops = None;
        self.changed = true;
        match process {
            Ok(process) => {
                if let Some(watch) = self.watch.as_mut().filter(|_| is_watched) {
                    watch.on_start(host, Some(process.as_ref()));
                }
                state.process = Some(process);
                state.status = Status::Running;
                self.clock.open_mailbox(host);
                if is_watched {
                    self.ran = Some(host);
                }
                // They are there when it writes its first letter.
                self.start_companions(host);
                self.perform_ops(host);
                Ok(())
            }
            Err(error) => {
                state.status = Status::FailedToStart;
                if let Some(watch) = self.watch.as_mut().filter(|_| is_watched) {
                    watch.on_start(host, None);
                }
                self.disks[host.index()].crash(&mut self.clock.random);
                self.line(format_args!("{} does not start: {error}", self.name(host)));
                Err(error)
            }
        }
    }

    /// Kills the process (`kill -9`). Its kernel closes what it had open.
    pub fn crash(&mut self, host: HostId) {
        self.line(format_args!("crash {}", self.name(host)));
        self.end_process(host, Status::Crashed);
    }

    /// The machine loses power: nobody is told, and it answers nothing until it starts again.
    pub fn crash_silently(&mut self, host: HostId) {
        self.line(format_args!("vanish {}", self.name(host)));
        self.net.machine_vanished(host);
        self.end_process(host, Status::Crashed);
    }

    /// The process dies between two of its next ops.
    pub fn crash_after_ops(&mut self, host: HostId, ops: u64) {
        self.hosts[host.index()].dies_after_ops = Some(ops);
    }

    pub(crate) fn end_process(&mut self, host: HostId, status: Status) {
        let is_watched = !self.is_companion(host);
        let state = &mut self.hosts[host.index()];
        let process = state.process.take();
        if process.is_none() && state.status != Status::Running {
            return;
        }
        if let (Some(process), Some(watch), true) = (process, &mut self.watch, is_watched) {
            watch.on_last_look(host, process.as_ref());
        }
        state.status = status;
        state.timer = None;
        state.dies_after_ops = None;
        self.clock.close_mailbox(host);
        let crashed = status == Status::Crashed;
        self.net.process_ended(&mut self.clock, host, crashed);
        self.disks[host.index()].crash(&mut self.clock.random);
        if let Some(watch) = self.watch.as_mut().filter(|_| is_watched) {
            watch.on_end(host, &self.disks[host.index()]);
        }
        self.changed = true;
        self.end_companions(host, status);
    }

    /// Asks the process to stop (SIGTERM).
    pub fn stop(&mut self, host: HostId) {
        self.line(format_args!("stop {}", self.name(host)));
        self.clock.deliver(host, Completion::StopRequested);
    }

    /// The process stands still (SIGSTOP) for so long; its kernel goes on.
    pub fn pause(&mut self, host: HostId, pause: Duration) {
        let pause_us = pause.as_micros();
        self.line(format_args!("pause {} for {pause_us}", self.name(host)));
        let until = self.clock.now + pause;
        for host in self.companions(host).into_iter().chain([host]) {
            let state = &mut self.hosts[host.index()];
            state.paused_until = state.paused_until.max(until);
        }
    }

    /// One event. False if there is none.
    pub fn step(&mut self) -> bool {
        let Some(event) = self.clock.next() else {
            return false;
        };
        self.events += 1;
        self.happen(event);
        if let Some(host) = self.ran.take()
            && let Some(mut watch) = self.watch.take()
        {
            watch.after_step(host, self);
            self.watch = Some(watch);
        }
        if std::mem::take(&mut self.changed) && !self.checks.is_empty() {
            let mut checks = std::mem::take(&mut self.checks);
            for check in &mut checks {
                check(self);
            }
            checks.append(&mut self.checks);
            self.checks = checks;
        }
        true
    }

    /// Runs until the predicate holds; it is asked after every step.
    pub fn run_until(
        &mut self,
        limits: Limits,
        mut reached: impl FnMut(&World) -> bool,
    ) -> Outcome {
        let events_end = self.events.saturating_add(limits.events_max);
        loop {
            if reached(self) {
                return Outcome::Reached;
            }
            if self.events >= events_end {
                return Outcome::OutOfEvents;
            }
            match self.clock.next_at() {
                None if self.hosts.iter().any(|host| host.process.is_some()) => {
                    return Outcome::Stuck;
                }
                None => return Outcome::Idle,
                Some(at) if at > limits.until => {
                    self.clock.now = limits.until.max(self.clock.now);
                    return Outcome::TimeUp;
                }
                Some(_) => self.step(),
            };
        }
    }

    pub fn run_for(&mut self, duration: Duration, events_max: u64) -> Outcome {
        let until = self.clock.now + duration;
        let outcome = self.run_until(Limits { until, events_max }, |_| false);
        if self.clock.next_at().is_none() {
            self.clock.now = until;
        }
        outcome
    }

    /// Called after every step in which a process ran, began or ended.
    pub fn after_step(&mut self, check: impl FnMut(&World) + 'static) {
        self.checks.push(Box::new(check));
    }

    /// Called before every op, with the host that it is for if it is a send.
    pub fn before_op(&mut self, hear: impl FnMut(HostId, Option<HostId>, &Op) + 'static) {
        self.listeners.push(Box::new(hear));
    }

    /// Called before a process is told what its disk has done.
    pub fn on_disk_done(&mut self, hear: impl FnMut(HostId, &Completion) + 'static) {
        self.disk_listeners.push(Box::new(hear));
    }

    /// Declares that these hosts hold everything: observers may look.
    pub(crate) fn they_are_whole(&mut self, hosts: &[HostId]) {
        if let Some(mut watch) = self.watch.take() {
            watch.when_whole(hosts, self);
            self.watch = Some(watch);
        }
    }

    /// Does something at a moment.
    pub fn at(&mut self, at: Time, action: impl FnOnce(&mut World) + 'static) {
        self.clock.schedule(at, Event::Action(Box::new(action)));
    }

    fn happen(&mut self, event: Event) {
        let World { clock, net, .. } = self;
        match event {
            Event::Wake { host } => self.wake(host),
            Event::Timer { host, at } => {
                if self.hosts[host.index()].timer == Some(at) {
                    self.hosts[host.index()].timer = None;
                    self.wake(host);
                }
            }
            Event::DiskDone { host, number } => {
                let disk = &mut self.disks[host.index()];
                if let Some(completion) = disk.complete(number, &mut clock.random) {
                    if let Some(watch) = &mut self.watch {
                        let done = matches!(&completion, Completion::Done { result: Ok(()), .. });
                        watch.on_disk_done(host, number, done);
                    }
                    let listeners = self.disk_listeners.iter_mut();
                    listeners.for_each(|hear| hear(host, &completion));
                    clock.deliver(host, completion);
                }
            }
            Event::Syn { connection } => net.on_syn(clock, connection),
            Event::SynAnswer {
                connection,
                accepted,
            } => net.on_syn_answer(clock, connection, accepted),
            Event::Arrive {
                connection,
                from,
                sending,
            } => net.on_arrive(clock, connection, from, sending),
            Event::Reset { connection, to } => net.on_reset(clock, connection, to),
            Event::GiveUp {
                connection,
                from,
                since,
            } => net.on_give_up(clock, connection, from, since),
            Event::LookAtClosing {
                connection,
                side,
                given,
            } => net.on_look_at_closing(clock, connection, side, given),
            Event::Letter { life, from, letter } => self.on_letter(life, from, letter),
            Event::Work {
                life,
                token,
                lane,
                work,
            } => self.on_work(life, token, lane, work),
            Event::Ran {
                life,
                token,
                result,
            } => self.on_ran(life, token, result),
            Event::Nemesis => {
                if let Some(mut nemesis) = self.nemesis.take() {
                    nemesis.act(self);
                    self.nemesis = Some(nemesis);
                }
            }
            Event::Action(action) => action(self),
        }
    }

    /// One round of the kernel's loop.
    fn wake(&mut self, host: HostId) {
        let is_watched = !self.is_companion(host);
        let now = self.host_clock(host).shows(self.clock.now);
        let state = &mut self.hosts[host.index()];
        if state.paused_until > self.clock.now {
            return self.clock.wake_at(host, state.paused_until);
        }
        let round = self.clock.round(host);
        let Some(process) = &mut state.process else {
            return;
        };
        self.changed = true;
        if is_watched {
            self.ran = Some(host);
        }
        if state.is_counted {
            self.steps += round.len().max(1) as u64;
        }
        let heard_nothing = round.is_empty();
        self.clock.trace.number(u64::from(host.0));
        for completion in round {
            self.clock.trace.completion(&completion);
            self.clock.trace.line(
                self.clock.now,
                format_args!("{} <- {completion:?}", state.name),
            );
            process.handle(now, completion);
        }
        process.on_time(now);
        let did_nothing = (self.perform_ops(host) == 0) && heard_nothing;
        let state = &mut self.hosts[host.index()];
        let at_once = self.clock.now <= state.last_round + Duration::from_micros(2);
        state.last_round = self.clock.now;
        state.idle_rounds = match did_nothing && at_once {
            true => state.idle_rounds + 1,
            false => 0,
        };
        assert!(
            state.idle_rounds < IDLE_ROUNDS_MAX,
            "liveness: {} wakes again and again and does nothing: its deadline stays in the past",
            state.name
        );
    }

    /// Performs a host's ops. Returns how many there were.
    fn perform_ops(&mut self, host: HostId) -> u64 {
        let mut count = 0;
        let state = &mut self.hosts[host.index()];
        let Some(mut process) = state.process.take() else {
            return count;
        };
        while let Some(op) = process.poll_op() {
            count += 1;
            if let Some(ops) = &mut self.hosts[host.index()].dies_after_ops {
                if *ops == 0 {
                    self.hosts[host.index()].process = Some(process);
                    self.line(format_args!("crash {} between ops", self.name(host)));
                    self.end_process(host, Status::Crashed);
                    return count;
                }
                *ops -= 1;
            }
            match &op {
                Op::WriteFile { path, contents, .. } => {
                    let (path, length) = (path.display(), contents.len());
                    self.line(format_args!(
                        "{} -> WriteFile {path}: {length} bytes",
                        self.name(host)
                    ));
                }
                op => self.line(format_args!("{} -> {op:?}", self.name(host))),
            }
            self.perform(host, op);
        }
        if process.is_finished() {
            self.hosts[host.index()].process = Some(process);
            self.line(format_args!("{} is finished", self.name(host)));
            self.end_process(host, Status::Finished);
            return count;
        }
        self.set_timer(host, process.as_ref());
        self.hosts[host.index()].process = Some(process);
        count
    }

    fn set_timer(&mut self, host: HostId, process: &dyn Machine) {
        let Some(deadline) = process.deadline() else {
            return;
        };
        // A deadline that has passed is looked at again, but time must go on.
        let at = self.host_clock(host).when_it_shows(deadline);
        let state = &mut self.hosts[host.index()];
        let at = at.max(self.clock.now + Duration::from_micros(1));
        if state.timer.is_none_or(|timer| at < timer) {
            state.timer = Some(at);
            self.clock.schedule(at, Event::Timer { host, at });
        }
    }

    fn perform(&mut self, host: HostId, op: Op) {
        let is_watched = !self.is_companion(host);
        let World { clock, net, .. } = self;
        clock.trace.op(&op);
        if !self.listeners.is_empty() {
            let to = match &op {
                Op::Send { conn, .. } => net.far_end(host, *conn),
                _ => None,
            };
            self.listeners
                .iter_mut()
                .for_each(|hear| hear(host, to, &op));
        }
        if let Some(watch) = self.watch.as_mut().filter(|_| is_watched) {
            let number = match op_is_of_disk(&op) {
                true => self.disks[host.index()].next_number(),
                false => 0,
            };
            watch.on_op(host, &op, number);
        }
        match op {
            Op::Listen { address } => net.listen(clock, host, address),
            Op::Connect { conn, address } => net.connect(clock, host, conn, &address),
            Op::Receive {
                conn,
                buffer,
                range,
                whole,
            } => {
                assert!(!range.is_empty(), "a receive receives something");
                assert!(range.end <= buffer.len(), "{range:?}");
                let receive = PendingReceive {
                    buffer,
                    range,
                    whole,
                    filled: 0,
                    when_there: None,
                };
                net.receive(clock, host, conn, receive);
            }
            Op::ReceiveWhenThere { conn, bytes_max } => {
                assert!(bytes_max > 0, "a receive receives something");
                net.receive(clock, host, conn, PendingReceive::when_there(bytes_max));
            }
            Op::Send { conn, slices } => net.send(clock, host, conn, slices),
            Op::ShutdownWrite { conn } => net.shutdown_write(clock, host, conn),
            Op::Close { conn, flush } => net.close(clock, host, conn, flush),
            Op::Reset { conn } => net.close_by_reset(clock, host, conn),
            Op::Post { to, letter } => self.post(host, to, letter),
            Op::Run { token, lane, work } => self.run_work(host, token, lane, work),
            Op::WallClock { token } => self.tell_wall_clock(host, token),
            op => {
                let disk = &mut self.disks[host.index()];
                let (at, number) = disk.submit(clock.now, op, &mut clock.random);
                clock.schedule(at, Event::DiskDone { host, number });
            }
        }
    }

    /// The clock of the host's machine.
    fn host_clock(&self, host: HostId) -> HostClock {
        self.hosts[self.household(host).index()].clock
    }

    // Things to look at.

    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub fn now(&self) -> Time {
        self.clock.now
    }

    /// Everything that happened, in the network and on the disks too.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Completions and timers handled by the processes that count (see `count`).
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Counts this host's completions as steps: the run is about it.
    pub fn count(&mut self, host: HostId) {
        self.hosts[host.index()].is_counted = true;
    }

    pub fn trace(&mut self) -> &mut Trace {
        &mut self.clock.trace
    }

    pub fn trace_hash(&self) -> u64 {
        self.clock.trace.hash()
    }

    pub fn name(&self, host: HostId) -> &str {
        &self.hosts[host.index()].name
    }

    pub fn status(&self, host: HostId) -> Status {
        self.hosts[host.index()].status
    }

    pub fn is_running(&self, host: HostId) -> bool {
        self.status(host) == Status::Running
    }

    /// The number of its starts, with and without success.
    pub fn starts(&self, host: HostId) -> u64 {
        self.hosts[host.index()].starts
    }

    /// The host's process, if it runs and is a `T`.
    pub fn machine<T: Machine + Any>(&self, host: HostId) -> Option<&T> {
        let process: &dyn Any = self.hosts[host.index()].process.as_deref()?;
        process.downcast_ref()
    }

    /// The processes of every host that runs.
    pub(crate) fn processes(&self) -> impl Iterator<Item = &dyn Process> {
        self.hosts.iter().filter_map(|host| host.process.as_deref())
    }

    pub fn disk(&self, host: HostId) -> &SimDisk {
        &self.disks[host.index()]
    }

    pub fn disk_mut(&mut self, host: HostId) -> &mut SimDisk {
        &mut self.disks[host.index()]
    }

    /// The host's files as a process would see them at start-up: for offline checks.
    pub fn with_disk<R>(&mut self, host: HostId, look: impl FnOnce(&mut dyn Disk) -> R) -> R {
        let second = self.wall_ms(host) / 1000;
        let disk = &mut self.disks[host.index()];
        let random = &mut self.clock.random;
        look(&mut StartUp {
            disk,
            random,
            runs: false,
            second,
        })
    }

    pub fn network(&mut self) -> &mut Network {
        &mut self.net
    }

    pub fn open_connections(&self, host: HostId) -> usize {
        self.net.open_connections(host)
    }

    /// Lets the process run a round although nothing completed: for tests that hand it ops.
    pub fn poke(&mut self, host: HostId) {
        self.clock.wake_soon(host);
    }

    pub(crate) fn line(&self, line: std::fmt::Arguments<'_>) {
        self.clock.trace.line(self.clock.now, line);
    }
}

fn op_is_of_disk(op: &Op) -> bool {
    !matches!(
        op,
        Op::Listen { .. }
            | Op::Connect { .. }
            | Op::Receive { .. }
            | Op::ReceiveWhenThere { .. }
            | Op::Send { .. }
            | Op::ShutdownWrite { .. }
            | Op::Close { .. }
            | Op::Reset { .. }
            | Op::Post { .. }
            | Op::Run { .. }
            | Op::WallClock { .. }
    )
}
