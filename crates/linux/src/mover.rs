//! By which calls bytes move: what was asked for, and what this machine allows.

use std::fmt;
use std::io;
use std::str::FromStr;

use uring::Ring;

use crate::ink::Ink;
use crate::tag::Tag;

/// docs/decisions/0019-movers-and-inks.md says which is the best where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mover {
    /// Uring where this machine allows it, or else direct.
    Auto,
    /// Calls on sockets when epoll says so, and threads that wait for the disk.
    #[default]
    Direct,
    /// As direct; but what sockets send goes into files, and out of them, by reference.
    Splice,
    /// Sockets and durable writes by io_uring.
    Uring,
}

impl Mover {
    pub const ALL: [Mover; 4] = [Mover::Auto, Mover::Direct, Mover::Splice, Mover::Uring];

    pub fn name(self) -> &'static str {
        match self {
            Mover::Auto => "auto",
            Mover::Direct => "direct",
            Mover::Splice => "splice",
            Mover::Uring => "uring",
        }
    }
}

impl fmt::Display for Mover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mover {
    type Err = String;

    fn from_str(text: &str) -> Result<Mover, String> {
        let found = Mover::ALL.into_iter().find(|mover| mover.name() == text);
        found.ok_or_else(|| format!("{text:?} is no mover: choose auto, direct, splice or uring"))
    }
}

/// The ring if there is to be one, and for people what was chosen, and why.
pub(crate) fn choose(
    mover: Mover,
    ink: Ink,
    refuse_uring: bool,
) -> io::Result<(Option<Ring<Tag>>, String)> {
    match mover {
        Mover::Direct => return Ok((None, Mover::Direct.to_string())),
        Mover::Splice if ink == Ink::Disk => return Ok((None, Mover::Splice.to_string())),
        Mover::Splice => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "the splice mover needs files in a page cache, and --ink {ink} has none; choose --ink disk, or --mover direct"
                ),
            ));
        }
        Mover::Auto | Mover::Uring => {}
    }
    let made = match refuse_uring {
        true => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "io_uring is forbidden here",
        )),
        false => Ring::new(),
    };
    match made {
        Ok(ring) => Ok((Some(ring), Mover::Uring.to_string())),
        Err(error) if mover == Mover::Auto => Ok((None, format!("direct: {error}"))),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("{error}; choose --mover direct, or auto"),
        )),
    }
}
