//! Whether a ring, or anybody else, can still write to a file.
//!
//! A process may end before its ring does: the kernel carries out what was submitted, and holds the file open
//! for that. So a reader of a killed process's file asks the kernel who has it open.

#![allow(unsafe_code)] // `fcntl` takes no pointer here

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// asm-generic/fcntl.h; `libc` has it for one C library only.
const F_SETSIG: libc::c_int = 10;

/// True if nobody has the file open to write, nor mapped so; no write of an ended process is under way then. An
/// error where the file system does not tell. The file itself must be open to be read only.
///
/// A read lease is given just then (fcntl(2), F_SETLEASE), and given back at once.
pub fn is_still(file: &File) -> io::Result<bool> {
    // Another process may open the file to write in between. The kernel would tell us by SIGIO, which ends a
    // process.
    call(file, F_SETSIG, libc::SIGURG)?;
    match call(file, libc::F_SETLEASE, libc::F_RDLCK) {
        Ok(()) => {
            call(file, libc::F_SETLEASE, libc::F_UNLCK)?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

fn call(file: &File, command: libc::c_int, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as `file` is borrowed, and these commands take a number.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
