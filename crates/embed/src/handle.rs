//! A machine, as its callers use it, from any thread.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

use host::{Ask, Command, Look, Outcome, Replier, View, What};
use linux::PostOffice;
use ops::{Letter, MachineId};

use crate::start::HOST;

/// A machine on this node. Clones are the same one; every method waits for its answer.
#[derive(Clone)]
pub struct Handle {
    name: String,
    office: PostOffice,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The command was refused by the machine, and wrote nothing.
    #[error("{0}")]
    Refused(String),
    /// The command was not executed, and never will be.
    #[error("{}", not_leader(leader.as_deref()))]
    NotLeader {
        /// HOST:PORT of the node that leads, if this one knows it.
        leader: Option<String>,
    },
    /// It was not executed, and never will be: it may be asked for again.
    #[error("{0}")]
    NotNow(String),
    /// It was executed, or never will be, and nobody can say which.
    #[error("what became of the command is not known: look for what it does, or use a session")]
    Unknown,
    /// There is no such session: it was unused for longer than 10,000 others.
    #[error("there is no such session: begin another")]
    NoSession,
    /// The session has executed a later command.
    #[error("the session went on without this command: begin another")]
    Superseded,
}

fn not_leader(leader: Option<&str>) -> String {
    match leader {
        Some(address) => format!("the node at {address} leads this machine: ask there"),
        None => {
            "no node that is known here leads this machine now: ask again in a moment".to_owned()
        }
    }
}

/// Commands that are executed once, over retries, changes of leaders and restarts.
///
/// Each command has a number. After [`Failure::NotLeader`], [`Failure::NotNow`] and [`Failure::Unknown`] the number stays, and the same command
/// is to be submitted again, here or on another node, until there is another answer.
pub struct Session {
    handle: Handle,
    number: u64,
    sequence: u64,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Session {
            number, sequence, ..
        } = self;
        write!(f, "session {number} at command {sequence}")
    }
}

impl Handle {
    pub(crate) fn new(name: String, office: PostOffice) -> Handle {
        Handle { name, office }
    }

    /// Executes a command, and returns its answer once a majority has it on disk.
    pub fn submit(&self, command: &[u8]) -> Result<Vec<u8>, Failure> {
        self.call(Command::Plain(command.to_vec()))
    }

    /// Begins a session.
    pub fn session(&self) -> Result<Session, Failure> {
        let answer = self.call(Command::OpenSession)?;
        let number = answer.try_into().map(u64::from_le_bytes);
        Ok(self.resume(number.map_err(|_| Failure::Unknown)?, 1))
    }

    /// Goes on with a session that was begun elsewhere, at its command of this number.
    pub fn resume(&self, session: u64, sequence: u64) -> Session {
        Session {
            handle: self.clone(),
            number: session,
            sequence,
        }
    }

    /// Looks at the state, with all in it that was answered before this was called, on whichever node. The whole of `read`
    /// sees one moment.
    ///
    /// Errors: nobody could say in time what is chosen, or this node's state has stopped.
    pub fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        self.look(read, false)
    }

    /// Looks at the state as this node has it, which may be behind the others'.
    ///
    /// Errors: this node's state is not open yet, or has stopped.
    pub fn read_stale<T: Send + 'static>(
        &self,
        read: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        self.look(read, true)
    }

    fn look<T: Send + 'static>(
        &self,
        read: impl FnOnce(&View<'_>) -> T + Send + 'static,
        stale: bool,
    ) -> Result<T, Failure> {
        let (tell, told) = mpsc::channel();
        let look = Look::new(move |view| {
            let found = view.map(|view| catch_unwind(AssertUnwindSafe(|| read(view))));
            let _ = tell.send(found);
        });
        self.ask(What::Look { look, stale })?;
        match told.recv() {
            Ok(Ok(Ok(found))) => Ok(found),
            Ok(Ok(Err(_))) => Err(Failure::Refused("the reader panicked".to_owned())),
            Ok(Err(why)) => Err(Failure::NotNow(why)),
            Err(_) => Err(stopped()),
        }
    }

    fn call(&self, command: Command) -> Result<Vec<u8>, Failure> {
        let (tell, told) = mpsc::channel();
        let replier = Replier::new(move |outcome| drop(tell.send(outcome)));
        let order = None;
        self.ask(What::Call {
            command,
            replier,
            order,
        })?;
        // Without a word the host is gone, and nobody knows what it had done.
        match told.recv().unwrap_or(Outcome::Unknown) {
            Outcome::Chosen(answer) => Ok(answer),
            Outcome::Refused(why) => Err(Failure::Refused(why)),
            Outcome::NoSession => Err(Failure::NoSession),
            Outcome::Superseded => Err(Failure::Superseded),
            Outcome::NotLeader { leader } => Err(Failure::NotLeader { leader }),
            Outcome::NotNow(why) => Err(Failure::NotNow(why)),
            Outcome::Unknown => Err(Failure::Unknown),
        }
    }

    fn ask(&self, what: What) -> Result<(), Failure> {
        let machine = self.name.clone();
        let letter = Letter::new(Ask { machine, what });
        match self.office.post(MachineId::NOBODY, HOST, letter) {
            true => Ok(()),
            false => Err(stopped()),
        }
    }
}

fn stopped() -> Failure {
    Failure::NotNow("this node has stopped".to_owned())
}

impl Session {
    /// Executes the session's next command, or finds what became of it.
    pub fn submit(&mut self, command: &[u8]) -> Result<Vec<u8>, Failure> {
        let answer = self.handle.call(Command::Once {
            session: self.number,
            sequence: self.sequence,
            command: command.to_vec(),
        });
        if matches!(answer, Ok(_) | Err(Failure::Refused(_))) {
            self.sequence += 1;
        }
        answer
    }

    /// For [`Handle::resume`] on another node: the session, and the number of its next command.
    pub fn place(&self) -> (u64, u64) {
        (self.number, self.sequence)
    }
}
