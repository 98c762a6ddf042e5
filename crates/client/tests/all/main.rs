//! The client against clusters that misbehave by plan, in one program: each more is a link of seconds.

/// Tests call it as the workspace does, which has some of them elsewhere, too.
extern crate logberg_client as client;

mod fake;

mod append;
mod backup_format;
mod backup_listed;
mod backup_timeout;
mod cluster;
mod long_chains;
mod lookout;
mod read;
mod resumption;
mod small_writes;
