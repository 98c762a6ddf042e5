//! The sockets of one machine: what it wants is done with them, and what they bring is told to it.
//!
//! ```text
//!   machine ── Connect, Send, Close ──► sockets      a connection beside another is dialled on a thread
//!           ◄── Connected, Received, Lost ──         of its own: a name may take long to be looked up
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use talk::{Input, Link, Output, Said};

use crate::cluster::Approach;
use crate::credential::Credential;
use crate::machine::{Host, Machine};
use crate::stream::Stream;
use crate::transport::Transport;

/// The bytes that one read asks of the kernel while lines are read.
pub(crate) const READ_BYTES: usize = 16 << 10;

#[derive(Debug)]
pub(crate) struct Sockets {
    open: BTreeMap<Link, Socket>,
    /// Those that threads dial.
    dialling: BTreeSet<Link>,
    dialled: Arc<Mutex<Vec<Dialled>>>,
    /// An eventfd, for the threads that dial and for all that share it.
    wake: Arc<OwnedFd>,
    told: VecDeque<Told>,
    buffer: Vec<u8>,
    approach: Approach,
    /// Brought something when it was last looked at, and may have more.
    lively: Option<Link>,
}

type Dialled = (Link, io::Result<Stream>);

#[derive(Debug)]
struct Socket {
    stream: Stream,
    /// The bytes that the kernel did not take yet.
    unsent: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Told {
    Connected(Link),
    Lost(Link, Said),
}

impl Sockets {
    pub fn new(approach: Approach) -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = rustix::event::eventfd(0, flags)?;
        Ok(Self {
            open: BTreeMap::new(),
            dialling: BTreeSet::new(),
            dialled: Arc::default(),
            wake: Arc::new(wake),
            told: VecDeque::new(),
            buffer: vec![0; READ_BYTES],
            approach,
            lively: None,
        })
    }

    /// A descriptor; writing to it ends a wait.
    pub fn wake(&self) -> Arc<OwnedFd> {
        self.wake.clone()
    }

    pub fn stream(&self, link: Link) -> Option<&Stream> {
        let socket = self.open.get(&link)?;
        socket.unsent.is_empty().then_some(&socket.stream)
    }

    /// Does what the machine wants, waits until something happens or is due, and tells the machine.
    pub fn turn(&mut self, machine: &mut impl Machine, host: &impl Host) {
        self.turn_within(machine, host, None);
    }

    /// As [`Sockets::turn`], which waits no longer than this.
    pub fn turn_within(
        &mut self,
        machine: &mut impl Machine,
        host: &impl Host,
        within: Option<Duration>,
    ) {
        while let Some(output) = machine.poll_output() {
            self.perform(output);
        }
        if !self.tell(machine, host) && !self.receive_lively(machine, host) {
            let now = host.now();
            let due = machine.deadline().map(|at| at.saturating_sub(now));
            let timeout = due.into_iter().chain(within).min();
            let ready = self.wait(timeout, None, |link| machine.hears(link));
            for link in ready.readable {
                self.receive(link, machine, host);
            }
            if !self.tell(machine, host) {
                host.handle(machine, &Input::Time);
            }
        }
    }

    /// Tells the news that are known without waiting. False: there are none.
    fn tell(&mut self, machine: &mut impl Machine, host: &impl Host) -> bool {
        match self.told() {
            Some(told) => host.handle(machine, &told),
            None => return false,
        }
        true
    }

    pub fn has_told(&self) -> bool {
        !self.told.is_empty()
    }

    /// The news that are known without waiting, and no bytes.
    pub fn told(&mut self) -> Option<Input<'static>> {
        Some(match self.told.pop_front()? {
            Told::Connected(link) => Input::Connected(link),
            Told::Lost(link, said) => Input::Lost(link, said),
        })
    }

    pub fn perform(&mut self, output: Output) {
        match output {
            Output::Connect(link, server, within) => self.connect(link, server, within),
            Output::Send(link, bytes) => {
                if let Some(socket) = self.open.get_mut(&link) {
                    socket.unsent.extend_from_slice(&bytes);
                    self.send(link);
                }
            }
            Output::Close(link) => {
                self.open.remove(&link);
                self.dialling.remove(&link);
            }
        }
    }

    fn connect(&mut self, link: Link, server: String, within: Duration) {
        let transport = self.approach.transport.clone();
        if self.open.is_empty() && self.dialling.is_empty() {
            return self.connected(link, dial(&server, within, transport.as_ref()));
        }
        self.dialling.insert(link);
        let (dialled, wake) = (self.dialled.clone(), self.wake.clone());
        let thread = std::thread::Builder::new().name("logberg-dial".to_owned());
        let spawned = thread.spawn(move || {
            let stream = dial(&server, within, transport.as_ref());
            let mut dialled = dialled.lock().unwrap_or_else(PoisonError::into_inner);
            dialled.push((link, stream));
            drop(dialled);
            let _ = rustix::io::write(&wake, &1u64.to_ne_bytes());
        });
        if let Err(error) = spawned {
            self.dialling.remove(&link);
            self.told.push_back(Told::Lost(link, Said::from(&error)));
        }
    }

    fn connected(&mut self, link: Link, stream: io::Result<Stream>) {
        self.told.push_back(match stream {
            Ok(stream) => {
                // It goes with the request behind it.
                let credential = self.approach.credential.as_ref().map(Credential::line);
                let unsent = credential.unwrap_or_default().to_vec();
                self.open.insert(link, Socket { stream, unsent });
                Told::Connected(link)
            }
            Err(error) => Told::Lost(link, Said::from(&error)),
        });
    }

    /// Gives the kernel what it takes.
    fn send(&mut self, link: Link) {
        let Some(Socket { stream, unsent }) = self.open.get_mut(&link) else {
            return;
        };
        while !unsent.is_empty() {
            match retry_interrupted(|| (&*stream).write(unsent)) {
                Ok(0) => return,
                Ok(count) => drop(unsent.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.lose(link, &error),
            }
        }
    }

    /// Nothing more comes of this connection.
    pub fn lose(&mut self, link: Link, error: &io::Error) {
        self.open.remove(&link);
        self.told.push_back(Told::Lost(link, Said::from(error)));
    }

    /// Waits for a connection or the eventfd; `None`: for ever. `writes`: a connection that is to take more.
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
        writes: Option<Link>,
        hears: impl Fn(Link) -> bool,
    ) -> Ready {
        let links: Vec<Link> = self.open.keys().copied().collect();
        let mut fds = Vec::with_capacity(links.len() + 1);
        for (link, socket) in &self.open {
            let mut interest = PollFlags::empty();
            interest.set(PollFlags::IN, hears(*link));
            let sends = !socket.unsent.is_empty() || writes == Some(*link);
            interest.set(PollFlags::OUT, sends);
            fds.push(PollFd::new(&socket.stream, interest));
        }
        fds.push(PollFd::new(&*self.wake, PollFlags::IN));
        let timeout = timeout.map(timespec);
        let polled = rustix::event::poll(&mut fds, timeout.as_ref());
        let mut ready = Ready::default();
        if polled.is_err() {
            return ready; // A signal: whoever waits looks at the time, and waits again.
        }
        let events: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        drop(fds);
        for (link, events) in links.into_iter().zip(&events) {
            if events.contains(PollFlags::OUT) {
                self.send(link);
            }
            // A connection that broke is told so by the next read.
            let broke = events.intersects(PollFlags::ERR | PollFlags::HUP) && hears(link);
            if events.contains(PollFlags::IN) || broke {
                ready.readable.push(link);
            }
        }
        if events.last().is_some_and(|events| !events.is_empty()) {
            let _ = rustix::io::read(&*self.wake, &mut [0u8; 8]);
            self.take_dialled();
        }
        ready
    }

    fn take_dialled(&mut self) {
        let mut dialled = self.dialled.lock().unwrap_or_else(PoisonError::into_inner);
        let news = std::mem::take(&mut *dialled);
        drop(dialled);
        for (link, stream) in news {
            // Nobody may want it any more.
            if self.dialling.remove(&link) {
                self.connected(link, stream);
            }
        }
    }

    /// Looks at the connection that brought something last, which saves a question to the kernel.
    fn receive_lively(&mut self, machine: &mut impl Machine, host: &impl Host) -> bool {
        match self.lively.take() {
            Some(link) if machine.hears(link) => self.receive(link, machine, host),
            _ => false,
        }
    }

    /// Receives once, without waiting. False: nothing was there.
    fn receive(&mut self, link: Link, machine: &mut impl Machine, host: &impl Host) -> bool {
        let Some(socket) = self.open.get(&link) else {
            return false;
        };
        if let Some(room) = machine.room(link)
            && !room.is_empty()
        {
            return match retry_interrupted(|| (&socket.stream).read(room)) {
                Ok(count) if count > 0 => {
                    self.lively = Some(link);
                    host.filled(machine, count);
                    true
                }
                other => self.received_none(link, other),
            };
        }
        match retry_interrupted(|| (&socket.stream).read(&mut self.buffer)) {
            Ok(count) if count > 0 => {
                self.lively = Some(link);
                host.handle(machine, &Input::Received(link, self.buffer[..count].into()));
                true
            }
            other => self.received_none(link, other),
        }
    }

    /// Reads once, without waiting.
    pub fn read(&self, link: Link, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(socket) = self.open.get(&link) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        retry_interrupted(|| (&socket.stream).read(buffer))
    }

    /// A read brought nothing: an end, an error, or nothing yet. True if the machine has to be told.
    pub fn received_none(&mut self, link: Link, read: io::Result<usize>) -> bool {
        match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => {
                self.lose(link, &error);
                true
            }
            Ok(_) => {
                self.lose(link, &io::ErrorKind::UnexpectedEof.into());
                true
            }
        }
    }
}

/// The findings of a wait.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    pub readable: Vec<Link>,
}

fn dial(
    server: &str,
    within: Duration,
    transport: Option<&Arc<dyn Transport>>,
) -> io::Result<Stream> {
    let stream = Stream::dial(server, within, transport)?;
    stream.stay()?;
    Ok(stream)
}

pub(crate) fn retry_interrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
