//! The loop, and its pieces.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use ops::{Buffer, Completion, Disk, Machine, MachineId, Op, Time};
use uring::{Finished, Request, Ring};

use crate::config::KernelConfig;
use crate::epoll::{Epoll, Source};
use crate::errors::closed_here;
use crate::files::Files;
use crate::handed::{Dial, Giver};
use crate::inbox::{Inbox, Reply};
use crate::lanes::Lanes;
use crate::listener::Listener;
use crate::mover::Mover;
use crate::network::Network;
use crate::post_office::PostOffice;
use crate::signals::Signals;
use crate::tag::Tag;
use crate::unix_socket::{UNIX, UnixAddress};
use crate::{clock, mover};

/// How long the last words of a finished machine may take to reach the kernel's socket buffers.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);

/// Performs ops on one thread, with others for what of the disk is not the ring's. Dropping it closes all connections, and
/// waits until the disk has finished what it was given.
pub struct Kernel {
    epoll: Epoll,
    inbox: Arc<Inbox>,
    network: Network,
    files: Files,
    signals: Option<Signals>,
    /// The listener first bound.
    listener: Option<usize>,
    /// Known and not yet handed out.
    completions: Vec<Completion>,
    replies: Vec<Reply>,
    /// Last, so that it is dropped when nobody gives it anything any more.
    ring: Option<Ring<Tag>>,
    finished: Vec<Finished<Tag>>,
    mover: String,
    lanes: Lanes,
    machine: MachineId,
    office: PostOffice,
}

/// Asks a kernel's machine to stop, from any thread: it is handed `StopRequested`.
#[derive(Clone)]
pub struct Stopper {
    inbox: Arc<Inbox>,
}

impl Stopper {
    pub fn stop(&self) {
        self.inbox.put(Reply::Completed(Completion::StopRequested));
    }
}

impl Kernel {
    pub fn new(config: KernelConfig) -> io::Result<Kernel> {
        let epoll = Epoll::new()?;
        let inbox = Arc::new(Inbox::new()?);
        epoll.add(Source::Inbox, inbox.wake_fd())?;
        let mut signals = None;
        if config.signals {
            let registered = Signals::new()?;
            epoll.add(Source::Signals, registered.fd())?;
            signals = Some(registered);
        }
        let (mut ring, mover) =
            mover::choose(config.mover, config.ink, config.faults.refuse_uring)?;
        if let Some(ring) = &mut ring {
            ring.begin(Tag::Epoll, Request::Watch { fd: epoll.fd() });
        }
        config.office.open(config.machine, &inbox)?;
        Ok(Kernel {
            lanes: Lanes::new(inbox.clone()),
            machine: config.machine,
            office: config.office.clone(),
            files: Files::new(&config, inbox.clone(), ring.is_some())?,
            network: Network::new(config, inbox.clone(), ring.is_some()),
            epoll,
            inbox,
            signals,
            listener: None,
            completions: Vec::new(),
            replies: Vec::new(),
            ring,
            finished: Vec::new(),
            mover,
        })
    }

    /// "direct", "splice" or "uring"; where auto could not have the best, "direct: <why>".
    pub fn mover(&self) -> &str {
        &self.mover
    }

    /// Bytes of sockets go through this process' memory, by calls of its own.
    pub fn moves_by_calls(&self) -> bool {
        self.ring.is_none() && self.mover != Mover::Splice.name()
    }

    /// The files as a node that starts on this kernel sees them.
    pub fn disk(&self) -> Box<dyn Disk> {
        self.files.disk(&self.mover)
    }

    /// Takes an address before there is a machine, so that a port in use is found out first.
    /// Connections wait until `Op::Listen` names the same address, or the one returned here.
    pub fn bind(&mut self, address: &str) -> io::Result<SocketAddr> {
        let index = self.network.bind(address)?;
        let listener = *self.listener.get_or_insert(index);
        debug_assert!(listener <= index);
        self.network
            .local_addr(index)
            .ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// One more address, HOST:PORT or unix:PATH, for a machine that listens somewhere already: it takes connections from
    /// when that one does, and the machine need not know of it. Where it listens, if that is no path.
    ///
    /// Errors: as those of `bind`; of a path also that a living process listens there, or that it is no socket.
    pub fn bind_also(&mut self, address: &str) -> io::Result<Option<SocketAddr>> {
        let listener = match address.starts_with(UNIX) {
            true => Listener::bind_unix(&unix_address(address)?, false)?,
            false => Listener::bind(address, self.network.config())?,
        };
        Ok(self.network.join(listener))
    }

    /// Has another thread accept at an address that `bind` took: with its socket, and what hands connections to this kernel.
    pub fn hand_over(&mut self, address: &str) -> io::Result<(OwnedFd, Giver)> {
        let index = self.network.bind(address)?;
        self.network.hand_over(index)
    }

    /// Connections are dialled by this one from now on.
    pub fn set_dialer(&mut self, dialer: Arc<dyn Dial>) {
        self.network.set_dialer(dialer);
    }

    /// As `bind_also`, a socket for root and the user of this process alone.
    pub fn bind_own(&mut self, address: &UnixAddress) -> io::Result<()> {
        let listener = Listener::bind_unix(address, true)?;
        self.network.join(listener);
        Ok(())
    }

    /// Where the first listener listens; names the port that the system chose for port 0.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.network.local_addr(self.listener.unwrap_or(0))
    }

    /// Buffers that were lent to receives without one, and have not come back.
    pub fn lent_buffers(&self) -> usize {
        self.network.lent()
    }

    pub fn stopper(&self) -> Stopper {
        Stopper {
            inbox: self.inbox.clone(),
        }
    }

    /// Drives a machine until it is finished. From then on it gets no letters: they would wait for nobody.
    pub fn run(&mut self, machine: &mut dyn Machine) -> io::Result<()> {
        let mut completions = Vec::new();
        loop {
            while let Some(op) = machine.poll_op() {
                self.submit(op);
            }
            if machine.is_finished() {
                break;
            }
            self.wait(machine.deadline(), &mut completions)?;
            let now = clock::now();
            for completion in completions.drain(..) {
                machine.handle(now, completion);
            }
            machine.on_time(now);
        }
        self.office.close(self.machine, &self.inbox);
        self.say_farewell()
    }

    /// Begins an op. What comes of it is handed out by `wait`.
    pub fn submit(&mut self, op: Op) {
        let completions = &mut self.completions;
        match op {
            Op::Listen { address } => self.network.listen(&self.epoll, address, completions),
            Op::Connect { conn, address } => {
                self.network
                    .connect(&self.epoll, conn, address, completions);
            }
            Op::Receive {
                conn,
                buffer,
                range,
                whole,
            } => {
                let fits = range.start <= range.end && range.end <= buffer.len();
                match self.network.receiving_connection(conn) {
                    Some(connection) if fits => connection.push_receive(buffer, range, whole),
                    found => completions.push(Completion::Received {
                        conn,
                        buffer,
                        range,
                        result: Err(match found {
                            Some(_) => io::ErrorKind::InvalidInput.into(),
                            None => closed_here(),
                        }),
                    }),
                }
            }
            Op::ReceiveWhenThere { conn, bytes_max } => {
                match self.network.receiving_connection(conn) {
                    Some(connection) if bytes_max > 0 => {
                        connection.push_receive_when_there(bytes_max);
                    }
                    found => completions.push(Completion::Received {
                        conn,
                        buffer: Buffer::empty(),
                        range: 0..0,
                        result: Err(match found {
                            Some(_) => io::ErrorKind::InvalidInput.into(),
                            None => closed_here(),
                        }),
                    }),
                }
            }
            Op::Send { conn, slices } => match self.network.sending_connection(conn) {
                Some(connection) => connection.push_send(slices),
                None => completions.push(Completion::Sent {
                    conn,
                    result: Err(closed_here()),
                }),
            },
            Op::ShutdownWrite { conn } => {
                if let Some(connection) = self.network.open_connection(conn) {
                    connection.push_shutdown();
                }
            }
            Op::Close { conn, flush } => {
                let ring = self.ring.as_mut();
                self.network
                    .close(conn, flush, clock::now(), ring, completions);
            }
            Op::Reset { conn } => {
                let ring = self.ring.as_mut();
                self.network.reset(conn, ring, completions);
            }
            Op::Open {
                token,
                file,
                path,
                mode,
            } => self.files.open(token, file, path, mode, completions),
            Op::CloseFile { token, file } => self.files.close(token, file, completions),
            Op::Write {
                token,
                file,
                offset,
                slices,
            } => self.files.write(token, file, offset, slices, completions),
            Op::Read {
                token,
                file,
                offset,
                buffer,
                range,
            } => self
                .files
                .read(token, file, offset, buffer, range, completions),
            Op::CreateDirectory { token, path } => self.files.create_directory(token, path),
            Op::WriteFile {
                token,
                path,
                contents,
            } => self.files.write_file(token, path, contents),
            Op::Rename { token, from, to } => self.files.rename(token, from, to),
            Op::Remove {
                token,
                path,
                urgent,
            } => self.files.remove(token, path, urgent),
            Op::RemoveDirectory { token, path } => self.files.remove_directory(token, path),
            Op::FreeSpace { token, path } => self.files.free_space(token, path),
            Op::Post { to, letter } => {
                if !self.office.post(self.machine, to, letter) {
                    tracing::debug!(machine = to.0, "a letter to nobody");
                }
            }
            Op::Run { token, lane, work } => self.lanes.run(token, lane, work, completions),
            Op::WallClock { token } => completions.push(Completion::WallClock {
                token,
                since_1970: clock::wall(),
            }),
        }
    }

    /// Moves bytes, and waits for completions until `deadline`, or without end. Appends them; there
    /// may be none, also before the deadline.
    pub fn wait(
        &mut self,
        deadline: Option<Time>,
        completions: &mut Vec<Completion>,
    ) -> io::Result<()> {
        // What was submitted since: sends go out here, several of a connection in one call.
        self.take_turns();
        let until = match self.completions.is_empty() && !self.network.has_turns() {
            true => [deadline, self.network.deadline()]
                .into_iter()
                .flatten()
                .min(),
            // Only a look: others must not starve while these have work.
            false => Some(Time::ZERO),
        };
        if self.ring.is_some() {
            self.wait_on_ring(until)?;
        } else {
            self.epoll.wait(until)?;
            self.on_events();
        }
        self.on_replies();
        self.take_turns();
        completions.append(&mut self.completions);
        Ok(())
    }

    fn take_turns(&mut self) {
        let ring = self.ring.as_mut();
        self.network
            .take_turns(&self.epoll, clock::now(), ring, &mut self.completions);
        if let Some(ring) = &mut self.ring {
            self.files.begin_writes(ring, &mut self.completions);
        }
    }

    fn wait_on_ring(&mut self, until: Option<Time>) -> io::Result<()> {
        let mut finished = std::mem::take(&mut self.finished);
        if let Some(ring) = &mut self.ring {
            let now = clock::now();
            let timeout = until.map(|until| until - now);
            ring.wait(timeout, &mut finished)?;
        }
        for finished in finished.drain(..) {
            self.on_finished(finished)?;
        }
        self.finished = finished;
        Ok(())
    }

    fn on_finished(&mut self, finished: Finished<Tag>) -> io::Result<()> {
        let Some(ring) = &mut self.ring else {
            return Ok(());
        };
        match finished.tag {
            Tag::Connection(conn) => {
                self.network
                    .on_finished(conn, finished, &mut self.completions);
            }
            Tag::File(file) => {
                self.files
                    .on_finished(file, finished, ring, &mut self.completions);
            }
            Tag::Epoll => {
                // Readiness as it is then: more events than one call takes are seen at once.
                ring.begin(Tag::Epoll, finished.request);
                self.epoll.wait(Some(Time::ZERO))?;
                self.on_events();
            }
        }
        Ok(())
    }

    fn on_events(&mut self) {
        for event in self.epoll.events() {
            match event.source {
                Source::Connection(conn) => {
                    self.network
                        .on_event(&self.epoll, conn, event.flags, &mut self.completions);
                }
                Source::Listener(index) => self.network.on_listener(index),
                // It is looked at in every round.
                Source::Inbox => {}
                Source::Signals => {
                    if self.signals.as_mut().is_some_and(Signals::take) {
                        self.completions.push(Completion::StopRequested);
                    }
                }
            }
        }
    }

    fn on_replies(&mut self) {
        self.inbox.take(&mut self.replies);
        for reply in self.replies.drain(..) {
            match reply {
                Reply::Completed(completion) => self.completions.push(completion),
                Reply::FileOp(file, completion) => {
                    self.completions.push(completion);
                    self.files.on_file_op(file);
                }
                Reply::Opened {
                    token,
                    file,
                    result,
                } => self
                    .files
                    .on_opened(token, file, result, &mut self.completions),
                Reply::Handed { listener, handed } => {
                    self.network
                        .on_handed(&self.epoll, listener, handed, &mut self.completions);
                }
                Reply::Dialled { conn, result } => {
                    self.network
                        .on_dialled(&self.epoll, conn, result, &mut self.completions);
                }
                Reply::Resolved { conn, result } => {
                    self.network
                        .on_resolved(&self.epoll, conn, result, &mut self.completions);
                }
            }
        }
    }

    /// What the disk was given is finished; the threads' owners do the same.
    fn finish_writes(&mut self) {
        self.files.end_waiting();
        while self.files.is_writing_on_ring() {
            self.take_turns();
            if self.wait_on_ring(None).is_err() {
                return;
            }
            self.on_replies();
        }
    }

    /// Lets connections closed with `flush` send what they still have; the machine is gone, so
    /// nobody is told.
    fn say_farewell(&mut self) -> io::Result<()> {
        let until = clock::now() + FAREWELL_TIMEOUT;
        let mut nobody = Vec::new();
        loop {
            self.take_turns();
            if !self.network.is_flushing() || clock::now() >= until {
                return Ok(());
            }
            self.wait(Some(until), &mut nobody)?;
            nobody.clear();
        }
    }
}

fn unix_address(text: &str) -> io::Result<UnixAddress> {
    let wrong = |sentence: String| io::Error::new(io::ErrorKind::InvalidInput, sentence);
    text.parse().map_err(wrong)
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.office.close(self.machine, &self.inbox);
        self.finish_writes();
    }
}
