//! Appends to, reads and administers a Logberg cluster.
//!
//! ```text
//!                 write ─► talk::Appender ─► driver thread ═══► leader     one connection per appender
//!   Appender  ◄── acknowledged ◄──────────────────┘ ◄═ ack ═══╝
//!                 (a leader is lost: find the next, continue the stream there, send what is left)
//!
//!   Reader    ◄── checked chunks ◄═══════════════════ leader, or any node if stale is good enough
//!   Client    ◄── status, streams, logs ◄════════════ whoever can answer
//! ```
//!
//! Blocking, on threads of the standard library; no runtime. The machines of the crate `talk` decide what is
//! said to whom; here are the sockets, the threads and the clock. The protocol is docs/wire.md.
//!
//! ```no_run
//! use std::io::{Read, Write};
//! use logberg_client::{AppendOptions, Client, ReadOptions, Timeouts};
//!
//! let servers = vec!["127.0.0.1:7117".to_owned(), "127.0.0.1:7118".to_owned()];
//! let client = Client::new(servers, Timeouts::default());
//!
//! let mut appender = client.append("main", AppendOptions::default())?;
//! appender.write_all(b"the law is spoken aloud\n")?;
//! let closed = appender.close()?; // everything is chosen, and readers will see a clean end
//!
//! let options = ReadOptions { stream: Some(closed.stream), ..ReadOptions::default() };
//! let mut text = String::new();
//! client.read("main", options)?.read_to_string(&mut text)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is promised
//!
//! *Acknowledged* means chosen: on the disks of more than half of the cluster's weight, and
//! readable until trimmed. Across any number of lost connections and leaders the bytes of an
//! [`Appender`] form one chain of streams, in which each byte stands once, in order. A [`Reader`]
//! hands out only bytes whose checksum it verified, each once, in order.
//!
//! # What cancelling and dropping do
//!
//! | dropped | before | what stays |
//! |---|---|---|
//! | [`Appender`] | [`Appender::close`] returned `Ok` | what was acknowledged, and perhaps more of what was written, up to a point; the stream is *cut*, which readers can tell from a clean end, and which can be continued |
//! | [`Appender`] | after | everything |
//! | [`Reader`] | any time | nothing is changed by reading |
//!
//! Dropping ends the connection at once; it waits for the thread, which may be in the middle of
//! connecting (up to [`Timeouts::connect`]). No call can be interrupted otherwise: each ends by
//! itself when [`Timeouts::total`] passes without progress, except [`Reader`]'s with `follow`,
//! whose business it is to wait, and an append with [`Mode::Wait`] while the other writer lives.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod admin;
pub mod answer;
mod append;
mod asked;
pub mod backup;
mod cluster;
mod credential;
mod gathered;
pub mod leader;
pub mod line;
mod listed;
mod machine;
pub mod members;
mod read;
pub mod request;
mod sockets;
mod stage;
mod stream;
mod transport;

use std::sync::Arc;
use std::time::Duration;

pub use admin::{AdminError, LogDetails, NewLog, Part};
pub use answer::{ReadEnd, Refusal};
pub use append::{
    Acknowledgements, AppendError, AppendOptions, Appender, Closed, OnAcknowledged, Statistics,
};
pub use cluster::{Said, Timeouts, Unreachable};
pub use credential::Credential;
pub use line::{StreamName, StreamPlace};
pub use read::{ReadError, ReadOptions, Reader};
pub use request::Mode;
pub use transport::{FarEnd, Secured, Transport};

/// The place of a cluster and the time to wait for it. Holds no connection; each operation makes its own.
/// Cloning is cheap, and clones share what they learn of the cluster's addresses.
#[derive(Clone, Debug)]
pub struct Client {
    cluster: Arc<cluster::Cluster>,
}

impl Client {
    /// `servers`: `HOST:PORT` or `unix:PATH` each, at least one, in the order in which to ask. More are learned
    /// from those that answer.
    pub fn new(servers: Vec<String>, timeouts: Timeouts) -> Self {
        Self {
            cluster: Arc::new(cluster::Cluster::new(servers, timeouts)),
        }
    }

    /// As [`Client::new`], of the cluster with this id (`status` tells it) and no other. A client that is
    /// not told takes the cluster of the first server that answers for its own.
    pub fn of_cluster(servers: Vec<String>, cluster: &str, timeouts: Timeouts) -> Self {
        let known = cluster::Cluster::new(servers, timeouts).of(Some(cluster.to_owned()));
        Self {
            cluster: Arc::new(known),
        }
    }

    /// Shows this token to each server from now on. The first one that is given stays.
    pub fn showing(self, credential: Option<Credential>) -> Self {
        if let Some(credential) = credential {
            self.cluster.show(credential);
        }
        self
    }

    /// Has this transport make each connection to HOST:PORT private from now on: none is made in plain text. The first one
    /// that is given stays. Sockets of this machine are taken as they are.
    pub fn by(self, transport: Option<Arc<dyn Transport>>) -> Self {
        if let Some(transport) = transport {
            self.cluster.go_by(transport);
        }
        self
    }

    /// The same cluster, as it is known now, for operations that give up after `total` if that is sooner.
    #[must_use]
    pub fn within(&self, total: Duration) -> Self {
        Self {
            cluster: Arc::new(self.cluster.within(total)),
        }
    }

    /// The id of the cluster, once one of its servers has told it.
    pub fn cluster(&self) -> Option<String> {
        self.cluster.id()
    }

    /// The addresses known by now: those given, then those learned.
    pub fn servers(&self) -> Vec<String> {
        self.cluster.servers()
    }
}

/// The page of the package is compiled, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
