//! Named streams. Their spaces are a machine beside the node, on a thread of its own; the HTTP door's threads ask it, and those of other nodes do.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use client::{AdminError, Client, NewLog, Timeouts};
use formats::LogKind;
use host::{Bounds, Host, HostConfig, OnDisk};
use http_door::{Handle, Space, Tails};
use letters::{HttpFigures, RightsBoard};
use linux::{Kernel, KernelConfig, LinuxDisk, PostOffice, Stopper};
use node::config::NodeConfig;
use ops::{Disk, MachineId};
use rustix::process::{Resource, getrlimit};
use spaces::{Moved, Noticed, Spaces};
use terminal::exit::{Failure, Kind};

use crate::sockets::{Inner, Strangers};
use crate::{listening, logs};

/// The machine that a node's letters about spaces go to.
pub const SPACES: MachineId = MachineId(2);

pub struct Settings {
    pub listen: String,
    /// Other machines may reach it, though it may ask for no token.
    pub insecure: bool,
    /// A mesh or a proxy encrypts what comes.
    pub plain_is_private: bool,
    /// A read that finds nothing waits so long.
    pub long_poll: Option<Duration>,
    pub tls: Option<http_door::Tls>,
}

/// The machine of all spaces on this node, on its thread.
struct Machine {
    stopper: Stopper,
    thread: JoinHandle<()>,
}

impl Machine {
    /// Starts it. Spaces come to it once the node runs.
    fn start(config: &NodeConfig, office: PostOffice, tails: Tails) -> Result<Machine> {
        let shelves = OnDisk::beside(&config.directory, config.limits.disk_reserve_bytes);
        let (tell, told) = mpsc::channel();
        let run = move || {
            let (mut kernel, mut spaces) = match open(shelves, office, tails) {
                Ok((kernel, spaces)) => {
                    let _ = tell.send(Ok(kernel.stopper()));
                    (kernel, spaces)
                }
                Err(error) => return drop(tell.send(Err(error))),
            };
            if let Err(error) = kernel.run(&mut spaces) {
                tracing::error!(%error, "the event loop of the spaces failed: streams are answered no more");
            }
        };
        let thread = thread::Builder::new()
            .name("spaces".to_owned())
            .spawn(run)?;
        match told.recv() {
            Ok(Ok(stopper)) => Ok(Machine { stopper, thread }),
            Ok(Err(error)) => Err(failed(&error.to_string())),
            Err(_) => Err(failed("their thread did not start")),
        }
    }

    fn stop(self) {
        self.stopper.stop();
        if self.thread.join().is_err() {
            tracing::error!("the spaces of streams panicked");
        }
    }
}

fn failed(why: &str) -> anyhow::Error {
    Failure::new(Kind::Failure, format!("cannot serve streams: {why}")).into()
}

/// The spaces of a node without an HTTP door: it has their state as every replica does, and may lead them. They begin with the first of their logs.
#[derive(Clone)]
pub struct Doorless(Arc<Mutex<Begun>>);

enum Begun {
    NotYet(Box<NodeConfig>, PostOffice),
    Runs(Machine),
    /// It cannot, or is not to any more.
    Never,
}

impl Doorless {
    pub fn new(config: &NodeConfig, office: PostOffice) -> Doorless {
        let begun = Begun::NotYet(Box::new(config.clone()), office);
        Doorless(Arc::new(Mutex::new(begun)))
    }

    /// Whether they run.
    pub fn begin(&self) -> bool {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Begun::NotYet(config, office) = &*begun {
            *begun = match Machine::start(config, office.clone(), Tails::default()) {
                Ok(machine) => Begun::Runs(machine),
                Err(error) => {
                    tracing::error!(%error, "this node keeps no state of spaces");
                    Begun::Never
                }
            };
        }
        matches!(*begun, Begun::Runs(_))
    }

    pub fn stop(self) {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Begun::Runs(machine) = std::mem::replace(&mut *begun, Begun::Never) {
            machine.stop();
        }
    }
}

/// A door that runs, and its spaces.
pub struct Running {
    pub address: SocketAddr,
    /// Its counts.
    pub figures: Arc<HttpFigures>,
    door: http_door::Running,
    machine: Machine,
}

impl Running {
    pub fn stop(self) {
        self.door.stop();
        self.machine.stop();
    }
}

/// Starts it. Spaces come to it once the node runs, which is asked there.
pub fn start(
    config: &NodeConfig,
    settings: Settings,
    office: PostOffice,
    (node, rights): (Inner, Arc<RightsBoard>),
    strangers: &Strangers,
) -> Result<Running> {
    let listener = listen(&settings, strangers)?;
    let tails = Tails::default();
    let machine = Machine::start(config, office.clone(), tails.clone())?;
    // `None`: there is no limit.
    let files_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let mut bounds = http_door::Bounds::default().within_files(files_max);
    bounds.long_poll = settings.long_poll.unwrap_or(bounds.long_poll);
    let figures: Arc<HttpFigures> = Arc::default();
    let started = http_door::start(http_door::Config {
        figures: figures.clone(),
        listener,
        space: Handle {
            name: http_door::SPACE.into(),
            office,
            machine: SPACES,
            spaces: Arc::new(ByClient { node: node.clone() }),
        },
        logs: logs::of(&node),
        tails,
        bounds,
        is_open: settings.insecure,
        is_behind_a_proxy: settings.plain_is_private,
        rights: Some(rights),
        tls: settings.tls,
    });
    match started {
        Ok(door) => Ok(Running {
            address: door.address,
            figures,
            door,
            machine,
        }),
        Err(error) => {
            machine.stop();
            Err(failed(&error.to_string()))
        }
    }
}

/// Takes the door's address, so that a port in use is found out first.
fn listen(settings: &Settings, strangers: &Strangers) -> Result<TcpListener> {
    let address = &settings.listen;
    let refused =
        |error: io::Error| listening::refused("serve streams and logs", address, "--http", &error);
    let listener = TcpListener::bind(address).map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    let is_secured = settings.tls.as_ref().is_some_and(|tls| tls.is_required);
    let is_private = is_secured || settings.plain_is_private;
    if !bound.ip().is_loopback() && !is_private && !settings.insecure {
        return Err(Failure::usage(format!(
            "streams and logs at {bound} could be read, written and deleted by anyone who reaches it, and nothing is encrypted: say --tls require with --tls-dir (`logberg certs` makes certificates) and make tokens (`logberg auth enable`), or listen on 127.0.0.1 with --http; --plain-is-private says that a mesh or a proxy encrypts, and --insecure takes it as it is"
        ))
        .into());
    }
    strangers.note(bound, "read, write and delete streams and logs");
    Ok(listener)
}

fn open(shelves: OnDisk, office: PostOffice, tails: Tails) -> io::Result<(Kernel, Spaces)> {
    let kernel = Kernel::new(KernelConfig {
        machine: SPACES,
        office,
        signals: false,
        ..KernelConfig::default()
    })?;
    let seed = LinuxDisk::new().random()?;
    let seed = u64::from_le_bytes(*seed.first_chunk().unwrap_or(&[0; 8]));
    let shelves = Noticed::new(shelves, move |moved| match moved {
        Moved::Tails { streams, .. } => tails.moved(streams),
        Moved::All { .. } => tails.all_moved(),
    });
    let config = HostConfig {
        machines: BTreeMap::new(),
        others: Some(Arc::new(spaces::Space)),
        shelves: Arc::new(shelves),
        bounds: Bounds::default(),
        seed,
    };
    let now = linux::now();
    let host = Host::new(config, now);
    Ok((kernel, Spaces::new(host, seed, now)))
}

/// Finds and makes spaces as any client does, at the own node.
struct ByClient {
    node: Inner,
}

impl ByClient {
    fn client(&self) -> Client {
        let second = Duration::from_secs(1);
        let timeouts = Timeouts {
            connect: second,
            silence: second,
            total: 5 * second,
        };
        self.node.client(timeouts)
    }
}

impl http_door::Spaces for ByClient {
    fn find(&self, name: &str) -> Space {
        match self.client().log(name) {
            Ok(log) if log.kind == LogKind::Streams.to_string() => Space::There,
            Ok(log) if name == http_door::SPACE => Space::NotKnown(other_kind(name, &log.kind)),
            Ok(_) => Space::Other,
            Err(AdminError::UnknownLog { .. }) => Space::Missing,
            Err(error) => Space::NotKnown(error.to_string()),
        }
    }

    fn make(&self, name: &str) -> Result<(), String> {
        let new = NewLog {
            name: name.to_owned(),
            kind: LogKind::Streams,
            ..NewLog::default()
        };
        match self.client().create_new_log(&new) {
            Ok(_) => Ok(()),
            Err(AdminError::Exists { .. }) => match self.find(name) {
                Space::NotKnown(why) => Err(why),
                Space::There | Space::Missing | Space::Other => Ok(()),
            },
            Err(error) => Err(error.to_string()),
        }
    }
}

fn other_kind(name: &str, kind: &str) -> String {
    format!(
        "the log {name} is of kind {kind}, and the space of streams needs its name: delete that log, or serve streams in another cluster"
    )
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use node::wires::Wires;

    use super::*;

    /// An address of this machine beyond loopback, if it has one.
    fn own_address() -> Option<String> {
        let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
        // Nothing is sent.
        socket.connect("192.0.2.1:9").ok()?;
        let ip = socket.local_addr().ok()?.ip();
        (!ip.is_loopback()).then(|| format!("{ip}:0"))
    }

    #[test]
    fn the_node_is_told_of_a_door_that_other_machines_reach() {
        let listened = |listen: &str, insecure, plain_is_private| {
            let settings = Settings {
                listen: listen.to_owned(),
                insecure,
                plain_is_private,
                long_poll: None,
                tls: None,
            };
            let wires = Wires::default();
            let strangers = Strangers::new(&wires, None, (insecure, plain_is_private));
            let listener = super::listen(&settings, &strangers);
            listener.map(|_| wires.told().open_at)
        };
        assert_eq!(listened("127.0.0.1:0", false, false).ok(), Some(None));
        if let Some(beyond) = own_address() {
            assert!(listened(&beyond, false, false).is_err());
            for (insecure, plain_is_private) in [(true, false), (false, true)] {
                let open_at = listened(&beyond, insecure, plain_is_private);
                assert!(open_at.expect("it listens").is_some());
            }
        }
    }
}
