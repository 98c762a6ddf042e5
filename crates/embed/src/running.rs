//! A node that runs, with its host: two machines, each on a thread.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use client::{Client, NewLog, Timeouts};
use formats::LogKind;
use host::{Host, HostConfig, OnDisk};
use linux::{Kernel, KernelConfig, LinuxDisk, PostOffice, Stopper};
use node::config::NodeConfig;
use ops::Disk;

use crate::handle::Handle;
use crate::start::{Builder, HOST, NotStarted};

/// The threads of a node. Dropping it stops the node, as [`Node::stop`] does.
pub struct Node {
    address: String,
    names: BTreeSet<String>,
    office: PostOffice,
    stopping: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<String>>>,
    node: Option<(Stopper, JoinHandle<()>)>,
    host: Option<(Stopper, JoinHandle<()>)>,
    making: Option<JoinHandle<()>>,
}

impl Node {
    pub(crate) fn run(builder: Builder) -> Result<Node, NotStarted> {
        let config = builder.node_config()?;
        let office = PostOffice::default();
        let names: BTreeSet<String> = builder.machines.keys().cloned().collect();
        let seed = seed()?;
        let host = start_host(builder, seed, office.clone())?;
        let failure = Arc::new(Mutex::new(None));
        let started = start_node(config, office.clone(), failure.clone());
        let (address, node) = match started {
            Ok(started) => started,
            Err(error) => {
                host.0.stop();
                let _ = host.1.join();
                return Err(error);
            }
        };
        let stopping = Arc::new(AtomicBool::new(false));
        let making = make_logs(address.clone(), names.clone(), stopping.clone())?;
        Ok(Node {
            address,
            names,
            office,
            stopping,
            failure,
            node: Some(node),
            host: Some(host),
            making: Some(making),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The machine of this name. One that was not given to this node answers [`NotNow`](crate::Failure::NotNow).
    pub fn machine(&self, name: &str) -> Handle {
        debug_assert!(self.names.contains(name), "{name} was not given to it");
        Handle::new(name.to_owned(), self.office.clone())
    }

    /// Why it ended by itself, if it did.
    pub fn failure(&self) -> Option<String> {
        let failure = self.failure.lock();
        failure.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it ends by itself.
    pub fn wait(mut self) -> Option<String> {
        if let Some((_, thread)) = self.node.take() {
            let _ = thread.join();
        }
        self.failure()
    }

    /// Stops it: it hands over what it leads, and flushes the states. Returns when that is done.
    pub fn stop(self) {}
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        for (stopper, thread) in [self.node.take(), self.host.take()].into_iter().flatten() {
            stopper.stop();
            let _ = thread.join();
        }
        if let Some(thread) = self.making.take() {
            let _ = thread.join();
        }
    }
}

fn seed() -> io::Result<u64> {
    let bytes = LinuxDisk::new().random()?;
    Ok(u64::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0; 8])))
}

fn start_host(
    builder: Builder,
    seed: u64,
    office: PostOffice,
) -> Result<(Stopper, JoinHandle<()>), NotStarted> {
    let (tell, told) = mpsc::channel();
    let run = move || {
        let kernel_config = KernelConfig {
            machine: HOST,
            office,
            signals: false,
            ..KernelConfig::default()
        };
        let mut kernel = match Kernel::new(kernel_config) {
            Ok(kernel) => kernel,
            Err(error) => return drop(tell.send(Err(error))),
        };
        let config = HostConfig {
            others: None,
            machines: builder.machines,
            shelves: Arc::new(OnDisk::beside(
                &builder.directory,
                builder.limits.disk_reserve_bytes,
            )),
            bounds: builder.bounds,
            seed,
        };
        let mut host = Host::new(config, linux::now());
        let _ = tell.send(Ok(kernel.stopper()));
        if let Err(error) = kernel.run(&mut host) {
            tracing::error!(%error, "the host's event loop failed: its machines answer nothing more");
        }
    };
    let thread = thread::Builder::new().name("host".to_owned()).spawn(run)?;
    match told.recv() {
        Ok(Ok(stopper)) => Ok((stopper, thread)),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(NotStarted::Node("its host did not start".to_owned())),
    }
}

type Started = Result<(String, Stopper), NotStarted>;

fn start_node(
    config: NodeConfig,
    office: PostOffice,
    failure: Arc<Mutex<Option<String>>>,
) -> Result<(String, (Stopper, JoinHandle<()>)), NotStarted> {
    let (tell, told) = mpsc::channel();
    let run = move || {
        if let Err(why) = run_node(config, office, &tell) {
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        }
    };
    let thread = thread::Builder::new().name("node".to_owned()).spawn(run)?;
    match told.recv() {
        Ok(Ok((address, stopper))) => Ok((address, (stopper, thread))),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(NotStarted::Node("it ended at once".to_owned())),
    }
}

/// Errors: why it ended, if nobody asked it to.
fn run_node(
    mut config: NodeConfig,
    office: PostOffice,
    tell: &Sender<Started>,
) -> Result<(), String> {
    let kernel_config = KernelConfig {
        office,
        signals: false,
        ..KernelConfig::default()
    };
    let mut kernel = match Kernel::new(kernel_config) {
        Ok(kernel) => kernel,
        Err(error) => {
            let _ = tell.send(Err(error.into()));
            return Ok(());
        }
    };
    let bound = match kernel.bind(&config.listen) {
        Ok(bound) => bound.to_string(),
        Err(source) => {
            let address = config.listen;
            let _ = tell.send(Err(NotStarted::Address { address, source }));
            return Ok(());
        }
    };
    if config.advertise == config.listen {
        config.advertise.clone_from(&bound);
    }
    let mut disk = kernel.disk();
    let mut node = match node::Node::start(config, &mut *disk, linux::now()) {
        Ok(node) => node,
        Err(error) => {
            let _ = tell.send(Err(NotStarted::Node(error.to_string())));
            return Ok(());
        }
    };
    let _ = tell.send(Ok((bound, kernel.stopper())));
    let ran = kernel.run(&mut node);
    // The directory is ours until the last write has ended.
    drop(kernel);
    ran.map_err(|error| format!("the event loop failed: {error}"))?;
    node.failure().map_or(Ok(()), |why| Err(why.to_owned()))
}

/// Makes the logs of the machines, once there is a cluster to ask.
fn make_logs(
    address: String,
    names: BTreeSet<String>,
    stopping: Arc<AtomicBool>,
) -> Result<JoinHandle<()>, NotStarted> {
    let run = move || {
        let second = Duration::from_secs(1);
        let timeouts = Timeouts {
            connect: second,
            silence: second,
            total: second,
        };
        let client = Client::new(vec![address], timeouts);
        let mut missing = names;
        while !missing.is_empty() && !stopping.load(Ordering::Relaxed) {
            missing.retain(|name| !is_there(&client, name));
            if !missing.is_empty() {
                thread::sleep(Duration::from_millis(50));
            }
        }
    };
    Ok(thread::Builder::new()
        .name("make-logs".to_owned())
        .spawn(run)?)
}

/// Whether the machine's log is there, or can never be.
fn is_there(client: &Client, name: &str) -> bool {
    let new = NewLog {
        name: name.to_owned(),
        kind: LogKind::State,
        ..NewLog::default()
    };
    if client.create_new_log(&new).is_ok() {
        return true;
    }
    let Ok(log) = client.log(name) else {
        return false;
    };
    if log.kind != LogKind::State.to_string() {
        tracing::error!(
            "the log {name} is of kind {}, and no machine's: the machine of this name answers nothing until that log is deleted, or it gets another name",
            log.kind
        );
    }
    true
}
