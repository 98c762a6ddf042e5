//! Connections: taken, bounded, and ended.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::bounds::Bounds;
use crate::serve::Door;
use crate::space::Handle;
use crate::stuck::Watched;
use crate::tails::Tails;

/// Threads that answer requests. Each has a name, http-N.
const THREADS: usize = 2;
/// Threads that wait for the cluster where the door has to.
const WAITING_THREADS_MAX: usize = 4;
/// The head of a request, in bytes; a body is read in pieces as long.
const HEAD_BYTES_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 64;
const H2_HEAD_BYTES_MAX: u32 = 16 << 10;
const H2_STREAMS_MAX: u32 = 256;
const H2_PING_EVERY: Duration = Duration::from_secs(30);
/// With no room for another connection, the next one is looked at so soon.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// The parts that a door is made with.
pub struct Config {
    /// It listens already.
    pub listener: std::net::TcpListener,
    pub space: Handle,
    pub tails: Tails,
    pub bounds: Bounds,
    /// Other machines may reach it, by its owner's word.
    pub is_open: bool,
}

/// A door that runs.
pub struct Running {
    pub address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// No more is begun. Returns soon: [`Running::stop`] waits for what is under way.
    pub fn begin_to_stop(&self) {
        self.stop.send_replace(true);
    }

    /// Ends live reads, gives other requests a moment, and closes all.
    pub fn stop(mut self) {
        self.begin_to_stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the HTTP door panicked");
        }
    }
}

/// Starts it, on threads of its own.
///
/// Errors: its threads cannot be made, or its listener cannot be used.
pub fn start(config: Config) -> io::Result<Running> {
    let address = config.listener.local_addr()?;
    config.listener.set_nonblocking(true)?;
    let number = AtomicUsize::new(1);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(WAITING_THREADS_MAX)
        .thread_name_fn(move || format!("http-{}", number.fetch_add(1, Ordering::Relaxed)))
        .enable_io()
        .enable_time()
        .build()?;
    let (stop, stopped) = watch::channel(false);
    let (tell, told) = mpsc::channel();
    let run = move || {
        let Config {
            listener,
            space,
            tails,
            bounds,
            is_open,
        } = config;
        runtime.block_on(async move {
            match TcpListener::from_std(listener) {
                Ok(listener) => {
                    let _ = tell.send(Ok(()));
                    let door = Door::new(space, tails, bounds, is_open, stopped.clone());
                    accept(listener, Arc::new(door), stopped).await;
                }
                Err(error) => _ = tell.send(Err(error)),
            }
        });
        // What waits for the cluster is not waited for.
        runtime.shutdown_timeout(bounds.farewell);
    };
    let thread = thread::Builder::new().name("http".to_owned()).spawn(run)?;
    match told.recv() {
        Ok(Ok(())) => Ok(Running {
            address,
            stop,
            thread: Some(thread),
        }),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::Error::other("the HTTP door did not start")),
    }
}

/// Connections by where they come from.
#[derive(Default)]
struct Connections(Mutex<HashMap<IpAddr, usize>>);

/// One of them, for as long as it is there.
struct Counted {
    connections: Arc<Connections>,
    from: IpAddr,
}

impl Connections {
    fn count(self: &Arc<Connections>, from: IpAddr, bounds: &Bounds) -> Option<Counted> {
        let mut by_address = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = by_address.entry(from).or_insert(0);
        // A machine's own programs are its own.
        if *count >= bounds.connections_of_one_max && !from.is_loopback() {
            return None;
        }
        *count += 1;
        drop(by_address);
        Some(Counted {
            connections: self.clone(),
            from,
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut by_address = self
            .connections
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_address.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&self.from);
            }
        }
    }
}

async fn accept(listener: TcpListener, door: Arc<Door>, mut stopped: watch::Receiver<bool>) {
    let graceful = GracefulShutdown::new();
    let connections: Arc<Connections> = Arc::default();
    let room = Arc::new(tokio::sync::Semaphore::new(door.bounds.connections_max));
    loop {
        let accepted = tokio::select! {
            _ = stopped.wait_for(|stops| *stops) => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Too many open files, mostly.
                tracing::warn!(%error, "the HTTP door cannot take a connection");
                sleep(AGAIN_AFTER).await;
                continue;
            }
        };
        let counted = connections.count(from.ip(), &door.bounds);
        let (Some(counted), Ok(permit)) = (counted, room.clone().try_acquire_owned()) else {
            tracing::debug!(%from, "no room for another connection");
            continue;
        };
        let _ = stream.set_nodelay(true);
        let connection = graceful.watcher();
        let door = door.clone();
        tokio::spawn(async move {
            serve(stream, door, connection).await;
            drop((counted, permit));
        });
    }
    drop(listener);
    // Live reads end by themselves when they hear of it.
    let _ = timeout(door.bounds.farewell, graceful.shutdown()).await;
}

async fn serve(stream: TcpStream, door: Arc<Door>, watcher: hyper_util::server::graceful::Watcher) {
    let bounds = door.bounds;
    let answer = move |request: Request<Incoming>| {
        let door = door.clone();
        async move { Ok::<_, std::convert::Infallible>(door.answer(request).await) }
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head_within)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(H2_HEAD_BYTES_MAX)
        .max_concurrent_streams(H2_STREAMS_MAX)
        .keep_alive_interval(H2_PING_EVERY);
    let io = TokioIo::new(Watched::new(stream, bounds.stuck_after));
    let connection = builder.serve_connection(io, service_fn(answer));
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%error, "a connection of the HTTP door ended");
    }
}
