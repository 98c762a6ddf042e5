//! Letters between the machines of one process.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ops::{Completion, Letter, MachineId};

use crate::inbox::{Inbox, Reply};

/// The machines of a process, by number. Clones are the same office; every kernel of the process is given one.
#[derive(Clone, Default)]
pub struct PostOffice(Arc<Mutex<BTreeMap<MachineId, Arc<Inbox>>>>);

impl PostOffice {
    /// Delivers a letter, from any thread. False if there is no such machine: the letter is lost.
    pub fn post(&self, from: MachineId, to: MachineId, letter: Letter) -> bool {
        let inbox = self.lock().get(&to).cloned();
        let is_there = inbox.is_some();
        if let Some(inbox) = inbox {
            let delivered = Completion::Delivered { from, letter };
            inbox.put(Reply::Completed(delivered));
        }
        is_there
    }

    pub(crate) fn open(&self, machine: MachineId, inbox: &Arc<Inbox>) -> io::Result<()> {
        let mut boxes = self.lock();
        if boxes.contains_key(&machine) || machine == MachineId::NOBODY {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!(
                    "this process has a machine {} already: give each kernel a number of its own",
                    machine.0
                ),
            ));
        }
        boxes.insert(machine, inbox.clone());
        Ok(())
    }

    /// Takes no more letters for that inbox. The number may be another's by now.
    pub(crate) fn close(&self, machine: MachineId, inbox: &Arc<Inbox>) {
        let is_own = |found: &mut Arc<Inbox>| Arc::ptr_eq(found, inbox);
        let mut boxes = self.lock();
        if boxes.get_mut(&machine).is_some_and(is_own) {
            boxes.remove(&machine);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<MachineId, Arc<Inbox>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PostOffice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}
