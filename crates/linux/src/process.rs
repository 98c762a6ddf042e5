//! What the command line sets for its own process.

use std::io;

use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit,
};

/// Raises the soft limit of open files to the hard one, and returns what holds now (`None`: no
/// limit). Every connection and every open segment is a file; the usual soft limit of 1024 is for
/// programs that use select(2).
pub fn raise_file_limit() -> io::Result<Option<u64>> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit.maximum,
                maximum: limit.maximum,
            },
        )?;
    }
    Ok(limit.maximum)
}

/// Asks the kernel to kill this process when the thread that started it ends: for the nodes of a
/// demo, which must not outlive it. Fails if the parent was gone before.
pub fn die_with_parent() -> io::Result<()> {
    let parent = rustix::process::getppid();
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // Between the two calls the parent may have ended, and then no signal comes.
    if parent != rustix::process::getppid() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the parent process has already ended",
        ));
    }
    Ok(())
}
