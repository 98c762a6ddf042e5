//! The door for clients of keys: a machine beside the node, on a thread of its own.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use anyhow::Result;
use door::{Ahead, Door, DoorConfig, Slots, System};
use host::{Bounds, Host, HostConfig, OnDisk};
use letters::{DoorFigures, RightsBoard};
use linux::{Kernel, KernelConfig, LinuxDisk, PostOffice, Stopper};
use node::config::NodeConfig;
use ops::{Disk, MachineId};
use terminal::exit::{Failure, Kind};

use crate::listening;
use crate::secure::Secure;
use crate::sockets::Strangers;

/// The machine that a node's letters go to.
pub const DOOR: MachineId = MachineId(1);

/// The answer to plain text, where TLS is required.
const PLAIN_REFUSED: &str = "-ERR this server takes connections by TLS alone\r\n";

pub struct Settings {
    pub listen: String,
    /// As clients reach it, if that is not where it listens.
    pub advertise: Option<String>,
    pub version: &'static str,
}

/// A door that runs.
pub struct Running {
    /// HOST:PORT, as clients reach it.
    pub advertise: String,
    /// Its counts.
    pub figures: Arc<DoorFigures>,
    stopper: Stopper,
    thread: JoinHandle<()>,
}

impl Running {
    pub fn stop(self) {
        self.stopper.stop();
        if self.thread.join().is_err() {
            tracing::error!("the door for clients of keys panicked");
        }
    }
}

/// Starts it. Groups come to it once the node runs.
pub fn start(
    config: &NodeConfig,
    settings: Settings,
    office: PostOffice,
    rights: Arc<RightsBoard>,
    (tls, strangers): (Option<Secure>, Strangers),
) -> Result<Running> {
    let (tell, told) = mpsc::channel();
    let shelves = OnDisk::beside(&config.directory, config.limits.disk_reserve_bytes);
    let listen = settings.listen.clone();
    let figures: Arc<DoorFigures> = Arc::default();
    let counted = figures.clone();
    let run = move || {
        let opened = open(shelves, settings, office, (counted, rights), &strangers);
        let opened = opened.and_then(|(mut kernel, door, advertise, bound)| {
            let accept = |tls: Secure| tls.accept_at(&mut kernel, &bound, PLAIN_REFUSED);
            let acceptor = tls.map(accept).transpose().map_err(io::Error::other)?;
            Ok((kernel, door, advertise, acceptor))
        });
        // It accepts until this thread ends.
        let (mut kernel, mut door, _acceptor) = match opened {
            Ok((kernel, door, advertise, acceptor)) => {
                let _ = tell.send(Ok((advertise, kernel.stopper())));
                (kernel, door, acceptor)
            }
            Err(error) => return drop(tell.send(Err(error))),
        };
        if let Err(error) = kernel.run(&mut door) {
            tracing::error!(%error, "the event loop of the door failed: clients of keys are answered no more");
        }
    };
    let thread = thread::Builder::new().name("door".to_owned()).spawn(run)?;
    let failed = |sentence: String| Failure::new(Kind::Failure, sentence);
    match told.recv() {
        Ok(Ok((advertise, stopper))) => Ok(Running {
            advertise,
            figures,
            stopper,
            thread,
        }),
        Ok(Err(error)) => Err(listening::refused("serve keys", &listen, "--kv", &error).into()),
        Err(_) => Err(failed("the door for clients of keys did not start".to_owned()).into()),
    }
}

fn open(
    shelves: OnDisk,
    settings: Settings,
    office: PostOffice,
    (figures, rights): (Arc<DoorFigures>, Arc<RightsBoard>),
    strangers: &Strangers,
) -> io::Result<(Kernel, Door, String, String)> {
    let mut kernel = Kernel::new(KernelConfig {
        machine: DOOR,
        office,
        signals: false,
        ..KernelConfig::default()
    })?;
    let bound = kernel.bind(&settings.listen)?;
    strangers.note(bound, "read and write keys");
    if bound.ip().is_unspecified() && settings.advertise.is_none() {
        let sentence =
            format!("clients cannot reach us at {bound}: say where with --kv-advertise HOST:PORT");
        return Err(io::Error::new(io::ErrorKind::Unsupported, sentence));
    }
    let advertise = settings.advertise.unwrap_or_else(|| bound.to_string());
    let seed = LinuxDisk::new().random()?;
    let seed = u64::from_le_bytes(*seed.first_chunk().unwrap_or(&[0; 8]));
    let slots = Slots::default();
    let config = HostConfig {
        machines: BTreeMap::new(),
        others: Some(Arc::new(slots.clone())),
        shelves: Arc::new(shelves),
        bounds: Bounds::default(),
        seed,
    };
    let now = linux::now();
    let door = Door::new(
        DoorConfig {
            listen: bound.to_string(),
            advertise: advertise.clone(),
            version: settings.version,
            process: std::process::id(),
            seed,
            slots,
            host: Host::new(config, now),
            figures,
            rights: Some(rights),
            system: System {
                now: |_| linux::now(),
                resident_bytes: crate::admin::exposition::resident_bytes,
            },
            ahead: Ahead::default(),
            bounds: door::Bounds::default(),
        },
        now,
    );
    Ok((kernel, door, advertise, bound.to_string()))
}
