//! Other ways between nodes than TCP, around the real node (docs/decisions/0071-carriers-around-the-node.md).
//!
//! ```text
//!  node ── Op ──▶ carrier ── Op ──▶ linux::Kernel ── clients, disk
//!                   ├ count         TCP as ever, and frames and bytes by kind
//!                   ├ unix          the kernel's own connections, by way of files
//!                   ├ memory        queues between the nodes of one process
//!                   ├ grpc-unary    a call for each send, over HTTP/2
//!                   └ grpc-stream   a stream for each connection, over HTTP/2
//! ```
//!
//! All nodes of such a cluster are on loopback, at 127.0.0.1. What a carrier needs besides is found by the port alone: a socket's file has it as
//! its name, and a server of calls listens at 127.0.0.2 on it.
//!
//! | module | what it holds |
//! |---|---|
//! | `counted` | counts, and where they are asked for |
//! | `unix` | who dials and listens by way of files |
//! | `memory` | the nodes of a process, and the queues between them |
//! | `grpc` | calls and streams, with tonic |
//! | `links` | the connections of a way, and what is known of them |
//! | `window` | how much is under way on a connection |
//! | `tests` | drawn sends across each of them, and clusters |

mod counted;
mod grpc;
mod links;
pub mod memory;
#[cfg(test)]
mod tests;
mod unix;
mod window;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use linux::Kernel;
use ops::Machine;
use replica::Limits;
use serve::{Carry, Seat};
use terminal::exit::Failure;
use wire::told;

pub use counted::{by_kind, counts_of};

const BBR: &str = "bbr";

/// A way between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Transport {
    /// As the product has it
    Tcp,
    /// As tcp, with the congestion control bbr, which paces, in the place of cubic
    TcpBbr,
    /// As tcp, with sockets that buffer 64 KiB, where the system adapts them to what they carry
    #[value(name = "tcp-64k")]
    Tcp64K,
    /// As tcp, with sockets that buffer 200 KiB
    #[value(name = "tcp-200k")]
    Tcp200K,
    /// As tcp, and counted
    Count,
    /// Unix sockets
    Unix,
    /// Queues of one process
    Memory,
    /// A call of gRPC for each send
    GrpcUnary,
    /// A stream of gRPC for each connection
    GrpcStream,
}

impl Transport {
    pub fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::TcpBbr => "tcp-bbr",
            Transport::Tcp64K => "tcp-64k",
            Transport::Tcp200K => "tcp-200k",
            Transport::Count => "count",
            Transport::Unix => "unix",
            Transport::Memory => "memory",
            Transport::GrpcUnary => "grpc-unary",
            Transport::GrpcStream => "grpc-stream",
        }
    }

    /// The congestion control that sockets are to have. `None`: that of the product.
    pub fn congestion(self) -> Option<&'static str> {
        (self == Transport::TcpBbr).then_some(BBR)
    }

    /// The bytes that a socket is to buffer in each direction. `None`: the system adapts that, as it does for the product.
    pub fn buffer_bytes(self) -> Option<usize> {
        match self {
            Transport::Tcp64K => Some(64 << 10),
            // By default no more is allowed.
            Transport::Tcp200K => Some(200 << 10),
            _ => None,
        }
    }

    /// Whether this machine can have it.
    pub fn is_possible(self) -> bool {
        self != Transport::TcpBbr
            || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
                .is_ok_and(|all| all.split_whitespace().any(|name| name == BBR))
    }

    /// The carrier of this name, for a node that is a process. `None`: nothing has to. `sockets`: where the files of sockets are.
    ///
    /// Errors: nodes of several processes have no queues between them; there is no place for sockets.
    pub fn carry(self, sockets: Option<PathBuf>) -> Result<Option<Box<dyn Carry>>> {
        Ok(match self {
            Transport::Tcp | Transport::TcpBbr | Transport::Tcp64K | Transport::Tcp200K => None,
            Transport::Count => Some(Box::new(counted::Counted::default())),
            Transport::Unix => {
                let sockets = sockets.ok_or_else(|| {
                    Failure::usage("Unix sockets need a place: say --sockets DIR, a short path")
                })?;
                Some(Box::new(unix::Unix::new(sockets)))
            }
            Transport::Memory => {
                return Err(Failure::usage(
                    "queues are between nodes of one process: start them with `logberg-lab nodes-together`",
                )
                .into());
            }
            Transport::GrpcUnary => Some(Box::new(grpc::Grpc::new(grpc::Use::Unary))),
            Transport::GrpcStream => Some(Box::new(grpc::Grpc::new(grpc::Use::Stream))),
        })
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A node that is slower, or prepares more often, whatever carries between it and the others.
pub struct Altered {
    pub transport: Transport,
    pub carry: Option<Box<dyn Carry>>,
    /// Its timers take so many times as long.
    pub pace: u32,
    pub phase_one: PhaseOne,
}

impl Altered {
    /// Whether nothing is other than the product has it.
    pub fn is_as_shipped(&self) -> bool {
        self.transport == Transport::Tcp
            && self.carry.is_none()
            && self.pace == 1
            && self.phase_one == PhaseOne::Once
    }
}

impl Carry for Altered {
    fn set_up(&mut self, kernel: &mut Kernel, seat: &Seat) -> Result<()> {
        match &mut self.carry {
            Some(carry) => carry.set_up(kernel, seat),
            None => Ok(()),
        }
    }

    fn pace(&self) -> u32 {
        self.pace
    }

    fn name(&self) -> &'static str {
        self.transport.name()
    }

    fn told(&self) -> told::Altered {
        told::Altered {
            carry: self.transport.name().to_owned(),
            time_scale: self.pace,
            phase_one: self.phase_one.name().to_owned(),
        }
    }

    fn adjust(&self, limits: &mut Limits) {
        limits.phase_one = self.phase_one.into();
    }

    fn around<'a>(&'a mut self, node: &'a mut dyn Machine) -> Result<Box<dyn Machine + 'a>> {
        match &mut self.carry {
            Some(carry) => carry.around(node),
            None => Ok(Box::new(node)),
        }
    }
}

/// When a leader does phase 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum PhaseOne {
    /// Once: what the paper calls multipaxos
    #[default]
    #[value(name = "per-term")]
    Once,
    /// For each batch of bytes, when it is to be proposed: what the paper calls vanilla
    #[value(name = "per-batch")]
    EachBatch,
    /// For each batch of bytes, when the one before is chosen
    #[value(name = "per-batch-ahead")]
    EachBatchAhead,
}

impl PhaseOne {
    pub fn name(self) -> &'static str {
        match self {
            PhaseOne::Once => "per-term",
            PhaseOne::EachBatch => "per-batch",
            PhaseOne::EachBatchAhead => "per-batch-ahead",
        }
    }
}

impl From<PhaseOne> for paxos::PhaseOne {
    fn from(phase_one: PhaseOne) -> paxos::PhaseOne {
        match phase_one {
            PhaseOne::Once => paxos::PhaseOne::PerTerm,
            PhaseOne::EachBatch => paxos::PhaseOne::PerBatch,
            PhaseOne::EachBatchAhead => paxos::PhaseOne::PerBatchAhead,
        }
    }
}

/// The port of a node on loopback, by which all else is found.
fn port_of(address: &str) -> std::io::Result<u16> {
    let parsed: Option<SocketAddr> = address.parse().ok();
    let on_loopback = parsed.filter(|address| address.ip().is_loopback());
    on_loopback.map(|address| address.port()).ok_or_else(|| {
        std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            format!("{address} is not of this machine: carriers are for clusters at 127.0.0.1"),
        )
    })
}

/// Places in files are filled by sockets alone, and a way that is none has memory.
fn refuse_splice(kernel: &Kernel) -> Result<()> {
    match kernel.mover() {
        "splice" => Err(Failure::usage(
            "the splice mover moves what sockets bring, and this way has none: leave --mover splice out",
        )
        .into()),
        _ => Ok(()),
    }
}
