//! Tests that need the whole program, with real processes, sockets and disks.
//!
//! One test program for all of it: sixty small ones take minutes to link, and those that mostly wait
//! run beside each other here.

mod documented;
mod harness;
mod measured;
mod outside;

mod acl;
mod alerts;
mod audited;
mod auxiliary;
mod backup;
mod bench;
mod clusters;
mod commands;
mod deaths;
mod demo;
mod dev;
mod disks;
mod doctor;
mod documents;
mod doors;
mod first_aid;
mod guests;
mod halted;
mod health;
mod heard;
mod hosts;
mod http;
mod in_force;
mod inks;
mod json_shapes;
mod keys;
mod keys_saved;
mod leader;
mod logs;
mod members;
mod moved;
mod moves;
mod packaging;
mod past;
mod promises;
mod raw_logs;
mod raw_logs_guarded;
mod recover;
mod scrub;
mod secrets;
mod secured;
mod sharded;
mod slots_and_nodes;
mod slots_moved;
mod sockets;
mod standing;
mod starting;
mod strangers;
mod stream_command;
mod streams;
mod tls;
mod tokens;
mod trim;
mod upgrade;
mod verify;
mod whole;
mod wire;
mod writers;
