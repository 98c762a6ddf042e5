//! A node as a process: from its configuration to its end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use carrier::{Lag, Late, Slow};
use client::{Client, Timeouts, Transport};
use formats::{ClusterId, LogKind};
use letters::RightsBoard;
use linux::{Ink, Kernel, KernelConfig, PostOffice, UNIX};
use node::config::{NodeConfig, Start};
use node::hosted::Hosts;
use node::{Node, StartError};
use ops::Machine;
use store::ManifestError;
use terminal::exit::{Failure, Kind};

use crate::carry::{Carry, Seat};
use crate::secure::{self, Secure};
use crate::sockets::{Inner, MAY_ALL, Strangers};
use crate::{admin, door, in_memory, listening, sockets, streams};

/// Clients by TLS are sent the last words within this.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A directory that belongs to something else is refused, one that lacks a word is wrong usage, and one that lost what a node
/// needs is what `logberg verify` ends with 9 for.
fn kind_of(error: &StartError) -> Kind {
    match error {
        StartError::Foreign(_) => Kind::Refused,
        StartError::NothingHere(_) | StartError::NotJoined(_) => Kind::Usage,
        StartError::Io { .. } | StartError::Full(_) => Kind::Failure,
        StartError::Manifest(ManifestError::Locked(_)) => Kind::Refused,
        StartError::Manifest(ManifestError::Io { .. } | ManifestError::Version { .. }) => {
            Kind::Failure
        }
        StartError::Manifest(_) => Kind::Lost,
        StartError::Past(_) | StartError::Less { .. } | StartError::Recover { .. } => Kind::Lost,
    }
}

/// What a process has around its node.
pub struct Around<'a> {
    /// The node's addresses besides the first.
    pub also: &'a [String],
    /// The socket for this machine's own commands.
    pub own: Option<&'a str>,
    pub tls: secure::Wanted,
    pub admin: Option<&'a str>,
    /// Other machines may reach it without TLS, by an operator's word.
    pub insecure: bool,
    /// Plain text was encrypted on the way here, by an operator's word.
    pub plain_is_private: bool,
    pub door: Option<door::Settings>,
    pub streams: Option<streams::Settings>,
    /// What the node sends to other nodes arrives so much later.
    pub lag: Option<Lag>,
    /// Carries what nodes send each other.
    pub carry: Option<Box<dyn Carry>>,
}

/// Runs a node until it ends, and says why if that is no good end.
pub fn serve(
    mut config: NodeConfig,
    mut kernel: KernelConfig,
    Around {
        also,
        own,
        tls,
        admin,
        insecure,
        plain_is_private,
        door,
        mut streams,
        lag,
        mut carry,
    }: Around<'_>,
) -> Result<()> {
    if kernel.ink == Ink::Ram {
        in_memory::check(
            &config.directory,
            matches!(config.start, Start::Bootstrap { .. }),
        )?;
    }
    let files = linux::raise_file_limit().context("cannot raise the limit on open files")?;
    if files.is_some_and(|limit| limit < 256) {
        tracing::warn!(
            limit = files,
            "few files may be open: raise the limit (ulimit -n) to 1024 or more"
        );
    }
    // Segments need files too, and a replica without the next one stops: clients must not take them.
    let half = files.map_or(usize::MAX, |limit| (limit / 2) as usize);
    config.limits.connections_max = config.limits.connections_max.min(half);
    let tls = Secure::of(
        tls,
        files.map_or(usize::MAX, |limit| limit as usize),
        &config.wires,
    )?;
    if carry.is_some() && tls.is_some() {
        return Err(
            Failure::usage("what nodes say is carried in plain text: leave --tls out").into(),
        );
    }
    config.nodes_show_certificates = tls.as_ref().is_some_and(Secure::is_required);
    if let Some(streams) = &mut streams {
        streams.tls = tls.as_ref().map(Secure::for_http);
    }
    if door.is_some() && kernel.ink == Ink::Ram {
        return Err(Failure::usage("--kv keeps its state on disk: leave --ink ram out").into());
    }
    if streams.is_some() && kernel.ink == Ink::Ram {
        return Err(Failure::usage("--http keeps its state on disk: leave --ink ram out").into());
    }
    let keeps_on_disk = kernel.ink != Ink::Ram;
    let office = PostOffice::default();
    kernel.office = office.clone();
    let mut kernel = Kernel::new(kernel).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => Failure::usage(error.to_string()).into(),
        _ => anyhow::Error::new(error).context("cannot set up the event loop"),
    })?;
    let bound = kernel
        .bind(&config.listen)
        .map_err(|error| listening::refused("listen", &config.listen, "--listen", &error))?;
    let strangers = Strangers::new(&config.wires, tls.as_ref(), (insecure, plain_is_private));
    strangers.note(bound, MAY_ALL);
    sockets::bind_also(&mut kernel, also, &strangers)?;
    let transport = tls.as_ref().map(Secure::transport);
    // They accept until this function ends.
    let mut _acceptors = Vec::new();
    if let Some(tls) = &tls {
        tls.watch();
        kernel.set_dialer(tls.dialer(&kernel));
        let ports = also.iter().filter(|address| !address.starts_with(UNIX));
        for address in std::iter::once(&config.listen).chain(ports) {
            let refusal = secure::plain_refused();
            _acceptors.push(tls.accept_at(&mut kernel, address, refusal)?);
        }
    }
    if let Some(carry) = &mut carry {
        let listen = config.listen.clone();
        let office = office.clone();
        let seat = Seat {
            listen,
            bound,
            office,
        };
        carry.set_up(&mut kernel, &seat)?;
    }
    let rights = Arc::new(RightsBoard::default());
    let inner = Inner::of(own, &config.directory, bound).by(transport.clone());
    if let Some(admin) = admin {
        let mut addresses = vec![admin, &config.listen, &config.advertise];
        addresses.extend(also.iter().map(String::as_str));
        addresses.retain(|address| !address.starts_with(UNIX));
        let known_as = admin::KnownAs::of(addresses, insecure);
        serve_admin(admin, inner.clone(), rights.clone(), known_as)?;
    }
    if config.advertise == config.listen {
        config.advertise = bound.to_string();
        if bound.ip().is_unspecified() {
            return Err(Failure::usage(format!(
                "others cannot reach us at {bound}: say where with --advertise HOST:PORT"
            ))
            .into());
        }
    }
    let door = door.map(|settings| {
        let office = office.clone();
        let how = (tls.clone(), strangers.clone());
        door::start(&config, settings, office, rights.clone(), how)
    });
    let door = door.transpose()?;
    let without = streams.is_none() && keeps_on_disk;
    let without = without.then(|| streams::Doorless::new(&config, office.clone()));
    let streams = streams.map(|settings| {
        let asks = (inner, rights.clone());
        streams::start(&config, settings, office, asks, &strangers)
    });
    let streams = match streams.transpose() {
        Ok(streams) => streams,
        Err(error) => {
            door.into_iter().for_each(door::Running::stop);
            return Err(error);
        }
    };
    if let Some(door) = &door {
        config.standing.door.clone_from(&door.advertise);
        config.hosts = Hosts::of_kind(door::DOOR, LogKind::Kv).with_door(door.figures.clone());
        tracing::info!(
            address = door.advertise,
            "serving keys, by the protocol of Redis"
        );
    }
    if let Some(streams) = &streams {
        let spaces = Hosts::of_kind(streams::SPACES, LogKind::Streams);
        let spaces = spaces.with_http(streams.figures.clone());
        config.hosts = std::mem::take(&mut config.hosts).and(spaces);
        config.standing.http = reached_at(streams.address, &config.advertise);
        tracing::info!(address = %streams.address, "serving streams and logs, over HTTP");
    }
    if let Some(without) = without.clone() {
        let begin = move || without.begin();
        let spaces = Hosts::of_kind_once_begun(streams::SPACES, LogKind::Streams, begin);
        config.hosts = std::mem::take(&mut config.hosts).and(spaces);
    }
    config.hosts = std::mem::take(&mut config.hosts).with_rights(rights);
    let servers = config.places.iter().map(|place| place.address.clone());
    let servers = servers.collect();
    let data = config.directory.clone();
    let mut disk = kernel.disk();
    let started = Node::start(config, &mut *disk, linux::now());
    let started = started
        .map_err(|error| anyhow::Error::from(Failure::new(kind_of(&error), error.to_string())));
    // The directory is this process' by now, and so is the socket in it.
    let started = started.and_then(|node| {
        sockets::bind_own(&mut kernel, own, &data)?;
        Ok(node)
    });
    let mut node = match started {
        Ok(node) => node,
        Err(error) => {
            streams.into_iter().for_each(streams::Running::stop);
            without.into_iter().for_each(streams::Doorless::stop);
            door.into_iter().for_each(door::Running::stop);
            return Err(error);
        }
    };
    warn_of_other_clusters(node.cluster(), servers, data, transport);
    let now = linux::now();
    let (mut slow, mut late);
    let paced: &mut dyn Machine = match carry.as_ref().map_or(1, |carry| carry.pace()) {
        1 => &mut node,
        pace => {
            slow = Slow::new(&mut node, pace, now);
            &mut slow
        }
    };
    let machine: &mut dyn Machine = match lag.filter(|lag| !lag.is_zero()) {
        Some(lag) => {
            tracing::warn!(%lag, "what this node sends to other nodes is held back: this is for trying out");
            late = Late::new(paced, lag, now.as_micros(), now);
            &mut late
        }
        None => paced,
    };
    let ran = match &mut carry {
        Some(carry) => carry
            .around(machine)
            .and_then(|mut carried| Ok(kernel.run(&mut *carried)?)),
        None => kernel.run(machine).map_err(anyhow::Error::from),
    };
    let ran = ran.context("the event loop failed");
    // Their states are flushed once the node hands out nothing more.
    streams.into_iter().for_each(streams::Running::stop);
    without.into_iter().for_each(streams::Doorless::stop);
    door.into_iter().for_each(door::Running::stop);
    // The directory is ours until the last write has ended, however long the disk hangs: the next process
    // must not read what one of ours still changes.
    drop(kernel);
    if tls.is_some() {
        tls::settle(LAST_WORDS);
    }
    drop(disk);
    ran?;
    if let Some(why) = node.failure() {
        let kind = match node.refuses_its_directory() {
            true => Kind::Lost,
            false => Kind::Failure,
        };
        return Err(Failure::new(kind, why.to_owned()).into());
    }
    Ok(())
}

/// Warns of servers named on the command line that are of another cluster than our directory. They may be
/// starting too, so they are looked at while the node runs. An answer at an address proves nothing against
/// our own directory: the machine that was there may be gone, and another have its address.
fn warn_of_other_clusters(
    own: ClusterId,
    servers: Vec<String>,
    data: PathBuf,
    transport: Option<Arc<dyn Transport>>,
) {
    if own == ClusterId::default() {
        return; // It has not joined any.
    }
    std::thread::spawn(move || {
        let own = own.to_string();
        let soon = Duration::from_millis(500);
        let timeouts = Timeouts {
            connect: soon,
            silence: soon,
            total: soon,
        };
        for server in servers {
            let client = Client::new(vec![server.clone()], timeouts).by(transport.clone());
            let Ok(status) = client.status_of(&server) else {
                continue;
            };
            if status.cluster != own {
                tracing::warn!(
                    "{} belongs to cluster {own}, and {server} to another cluster, {}: this node goes on in its own; if it is to be in the other one, choose its directory with --data, and else leave that server out of --join",
                    data.display(),
                    status.cluster
                );
            }
        }
    });
}

fn serve_admin(
    admin: &str,
    node: Inner,
    rights: Arc<RightsBoard>,
    known_as: admin::KnownAs,
) -> Result<()> {
    let bound = admin::serve(admin, node, rights, known_as)
        .map_err(|error| listening::refused("serve /metrics", admin, "--admin", &error))?;
    tracing::info!(address = %bound, "serving /metrics, /healthz and /livez");
    if !bound.ip().is_loopback() {
        tracing::warn!(address = %bound, "without `logberg auth enable` anyone who can reach this address can read metrics");
    }
    Ok(())
}

/// Where a door is reached: at the node's own host, if it listens at all addresses.
fn reached_at(bound: SocketAddr, advertise: &str) -> String {
    let host = advertise.rsplit_once(':').map(|(host, _)| host);
    match host.filter(|_| bound.ip().is_unspecified()) {
        Some(host) => format!("{host}:{}", bound.port()),
        None => bound.to_string(),
    }
}
