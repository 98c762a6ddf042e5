//! Clusters of real processes on this machine, and the things that their owner needs beside them.
//!
//! ```text
//!   cluster      nodes as child processes: start, kill, pause, restart
//!   level        waiting until they lead, are level, are at rest
//!   proxy        TCP between them that holds back, cuts, delays
//!   namespaces   a network of one's own: cables that are pulled, directions that are cut
//!   small_disk   a file system of one's own, which fills
//!   payloads     where bytes of streams stand in segment files, to damage them
//!   process      what a process has used
//!   scratch      a directory that goes away, also when somebody interrupts
//!   watch        how far it is, for who watches
//!   environment  what machine this is
//!   port         ports that are free now
//! ```

pub mod cluster;
pub mod environment;
pub mod level;
pub mod namespaces;
pub mod payloads;
pub mod port;
pub mod process;
pub mod proxy;
pub mod scratch;
pub mod small_disk;
pub mod watch;
