//! Letters between the machines of one process, and work for other threads.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The number of a machine among those of its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(pub u16);

impl MachineId {
    /// The node. A process has one at most.
    pub const NODE: MachineId = MachineId(0);
    /// A thread that is no machine: it may write, and nobody can answer it.
    pub const NOBODY: MachineId = MachineId(u16::MAX);
}

/// Anything that one machine tells another. Its reader knows of which types it may be.
pub struct Letter(Box<dyn Content>);

trait Content: Any + Send + fmt::Debug {}

impl<T: Any + Send + fmt::Debug> Content for T {}

impl Letter {
    pub fn new(content: impl Send + fmt::Debug + 'static) -> Letter {
        Letter(Box::new(content))
    }

    /// Whether its content is of that type.
    pub fn holds<T: 'static>(&self) -> bool {
        let content: &dyn Any = &*self.0;
        content.is::<T>()
    }

    /// Its content, if it is of that type.
    ///
    /// Errors: the letter as it was.
    pub fn open<T: 'static>(self) -> Result<T, Letter> {
        if !self.holds::<T>() {
            return Err(self);
        }
        let content: Box<dyn Any> = self.0;
        match content.downcast::<T>() {
            Ok(content) => Ok(*content),
            Err(_) => unreachable!("it was asked before"),
        }
    }
}

impl fmt::Debug for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A queue of work: each piece is done after those that were given before it. Lanes do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u16);

/// Marks lanes whose work nobody waits for.
const BACKGROUND: u16 = 1 << 15;

impl Lane {
    /// A lane whose work nobody waits for: where processors are short, everybody else goes first.
    pub const fn background(number: u16) -> Lane {
        Lane(number | BACKGROUND)
    }

    pub const fn is_background(self) -> bool {
        self.0 & BACKGROUND != 0
    }
}

/// Something that takes time, for another thread.
pub struct Work(Box<dyn FnOnce() -> Letter + Send>);

impl Work {
    /// Its result comes back as a letter.
    pub fn new<T: Send + fmt::Debug + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Work {
        Work(Box::new(move || Letter::new(work())))
    }

    /// Does it.
    ///
    /// Errors: it panicked; what it said.
    pub fn perform(self) -> Result<Letter, String> {
        // Whatever it left half done went with it: it owns all that it works on, or shares it behind locks.
        catch_unwind(AssertUnwindSafe(self.0)).map_err(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            text.unwrap_or_else(|| "it said nothing".to_owned())
        })
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_is_opened_by_its_type_and_else_stays_as_it_was() {
        let letter = Letter::new(7_u32);
        assert_eq!(format!("{letter:?}"), "7");
        let letter = letter.open::<String>().expect_err("it is a number");
        assert_eq!(letter.open::<u32>().expect("it is a number"), 7);
    }

    #[test]
    fn a_panic_in_work_is_told() {
        let done = Work::new(|| 7_u32).perform().expect("it is done");
        assert_eq!(done.open::<u32>().expect("a number"), 7);
        let why = Work::new(|| -> u32 { panic!("no {}", "bread") }).perform();
        assert_eq!(why.expect_err("it panicked"), "no bread");
    }
}
