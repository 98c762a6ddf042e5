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
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use letters::{HttpFigures, RightsBoard, Shown};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::bounds::Bounds;
use crate::log::Logs;
use crate::secure::{Came, Secured, Tls};
use crate::serve::{Door, Scheme, Whence};
use crate::space::{Handle, LimitsHere};
use crate::stuck::Watched;
use crate::tails::Tails;

/// Threads that answer requests. Each has a name, http-N.
const THREADS: usize = 2;
/// Threads that wait for the cluster where the door has to, besides those of logs.
const WAITING_THREADS_MAX: usize = 4;
/// The head of a request, in bytes; a body is read in pieces as long.
const HEAD_BYTES_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 64;
const H2_HEAD_BYTES_MAX: u32 = 16 << 10;
const H2_STREAMS_MAX: u32 = 256;
const H2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const H2_PING_EVERY: Duration = Duration::from_secs(30);
/// With no room for another connection, the next one is looked at so soon.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(3);

/// The parts that a door is made with.
pub struct Config {
    /// It listens already.
    pub listener: std::net::TcpListener,
    pub space: Handle,
    pub logs: Arc<dyn Logs>,
    pub tails: Tails,
    pub bounds: Bounds,
    /// It counts there.
    pub figures: Arc<HttpFigures>,
    /// Other machines may reach it, by its owner's word.
    pub is_open: bool,
    /// A mesh or a proxy stands before it, which encrypts: whoever shows a credential may come through that.
    pub is_behind_a_proxy: bool,
    /// Where the node tells who may do what.
    pub rights: Option<Arc<RightsBoard>>,
    /// `None`: it speaks plain text alone.
    pub tls: Option<Tls>,
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

/// How often the door looks whether the node tells something else.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// While tokens are asked for live reads are judged so often: one may have expired.
const JUDGE_EVERY: u32 = 5;
/// How often the door looks which limits spaces have.
const LIMITS_EVERY: Duration = Duration::from_secs(1);

/// Wakes live reads when who may do what has changed, and tells of refusals that were only counted.
async fn tell_of_rights(
    door: Arc<Door>,
    moved: watch::Sender<u64>,
    mut ends: watch::Receiver<bool>,
) {
    let Some(board) = door.board.clone() else {
        // As long as there are readers somebody holds the end that they listen to.
        let _ = ends.wait_for(|ends| *ends).await;
        return;
    };
    let (mut seen, mut rounds) = (board.version(), 0);
    while !*ends.borrow() {
        sleep(LOOK_EVERY).await;
        door.tell_late();
        rounds += 1;
        let version = board.version();
        let is_due = rounds >= JUDGE_EVERY && !board.asks_nothing();
        if version != seen || is_due {
            (seen, rounds) = (version, 0);
            moved.send_modify(|count| *count += 1);
            door.tails.call();
        }
    }
}

/// Live reads of events end when the node stops.
async fn tell_of_the_end(door: Arc<Door>, mut ends: watch::Receiver<bool>) {
    let _ = ends.wait_for(|ends| *ends).await;
    door.tails.call();
}

/// Looks which limits the spaces have that were asked for: they may have been changed at any node.
async fn follow_limits(door: Arc<Door>, mut ends: watch::Receiver<bool>) {
    while !*ends.borrow() {
        for space in door.quotas.spaces() {
            match door.space(&space).limits_here().await {
                LimitsHere::Are(limits) => door.quotas.set(&space, limits),
                LimitsHere::NotHere => door.quotas.forget(&space),
                LimitsHere::NotNow => {}
            }
        }
        tokio::select! {
            _ = ends.changed() => {}
            () = sleep(LIMITS_EVERY) => {}
        }
    }
}

/// Starts it, on threads of its own.
///
/// Errors: its threads cannot be made, or its listener cannot be used.
pub fn start(config: Config) -> io::Result<Running> {
    let address = config.listener.local_addr()?;
    let bounds = config.bounds;
    config.listener.set_nonblocking(true)?;
    let number = AtomicUsize::new(1);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(WAITING_THREADS_MAX + bounds.log_reads_max + bounds.log_writes_max)
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
            logs,
            tails,
            bounds,
            figures,
            is_open,
            is_behind_a_proxy,
            rights,
            tls,
        } = config;
        runtime.block_on(async move {
            match TcpListener::from_std(listener) {
                Ok(listener) => {
                    let _ = tell.send(Ok(()));
                    let (moved, rights_move) = watch::channel(0);
                    let rights = (rights, rights_move);
                    let door = Door::new(
                        (space, logs),
                        tails,
                        (bounds, figures),
                        (is_open, is_behind_a_proxy),
                        stopped.clone(),
                        rights,
                    );
                    let door = Arc::new(door);
                    tokio::spawn(tell_of_rights(door.clone(), moved, stopped.clone()));
                    tokio::spawn(follow_limits(door.clone(), stopped.clone()));
                    tokio::spawn(tell_of_the_end(door.clone(), stopped.clone()));
                    accept(listener, (door, tls), stopped).await;
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

async fn accept(
    listener: TcpListener,
    (door, tls): (Arc<Door>, Option<Tls>),
    mut stopped: watch::Receiver<bool>,
) {
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
            door.figures.connections_refused.add(1);
            tracing::debug!(%from, "no room for another connection");
            continue;
        };
        let _ = stream.set_nodelay(true);
        let connection = graceful.watcher();
        let (door, tls) = (door.clone(), tls.clone());
        let figures = door.figures.clone();
        figures.connections.add(1);
        figures.clients.add(1);
        tokio::spawn(async move {
            greet(stream, from, (door, tls), connection).await;
            figures.clients.take(1);
            drop((counted, permit));
        });
    }
    drop(listener);
    // Live reads end by themselves when they hear of it.
    let _ = timeout(door.bounds.farewell, graceful.shutdown()).await;
}

/// Whether a connection has said enough to tell HTTP/1 from HTTP/2, for which hyper waits without a clock.
async fn begins(stream: &TcpStream) -> io::Result<bool> {
    let mut start = [0; H2_PREFACE.len()];
    let mut again_after = AGAIN_AFTER;
    loop {
        let count = stream.peek(&mut start).await?;
        let said = &start[..count];
        if count == 0 || count == start.len() || said != &H2_PREFACE[..count] {
            return Ok(count > 0);
        }
        // A part of the preface: to look again is answered at once. ‡ Thousands of such connections cost less the longer they wait.
        sleep(again_after).await;
        again_after = (again_after * 2).min(AGAIN_AFTER_MAX);
    }
}

/// Finds out what the other side speaks, and serves it.
async fn greet(
    stream: TcpStream,
    from: SocketAddr,
    (door, tls): (Arc<Door>, Option<Tls>),
    watcher: Watcher,
) {
    let bounds = door.bounds;
    let mut stopped = door.ends.clone();
    let Some(tls) = tls else {
        return serve_plain(stream, from, door, watcher).await;
    };
    let came = tokio::select! {
        came = tls.greet(stream, &bounds) => came,
        _ = stopped.wait_for(|stops| *stops) => return,
    };
    match came {
        Ok(None) => {}
        Ok(Some(Came::Plain(stream))) => serve_plain(stream, from, door, watcher).await,
        Ok(Some(Came::Secured(secured))) => {
            let Secured {
                stream,
                is_h2,
                client,
            } = *secured;
            let whence = Whence {
                from,
                scheme: Scheme("https"),
                by_handshake: Shown::by_handshake(client.as_ref()),
            };
            // ‡ What was chosen in the handshake is spoken: nothing is guessed from the first bytes, for which there is no clock.
            let builder = match is_h2 {
                true => builder(&bounds).http2_only(),
                false => builder(&bounds).http1_only(),
            };
            serve(stream, whence, door, (builder, watcher)).await;
        }
        Err(error) => tracing::debug!(%from, %error, "no connection to the HTTP door came of it"),
    }
}

async fn serve_plain(stream: TcpStream, from: SocketAddr, door: Arc<Door>, watcher: Watcher) {
    let bounds = door.bounds;
    let mut stopped = door.ends.clone();
    let begun = tokio::select! {
        begun = timeout(bounds.head_within, begins(&stream)) => matches!(begun, Ok(Ok(true))),
        _ = stopped.wait_for(|stops| *stops) => false,
    };
    if begun {
        let whence = Whence {
            from,
            scheme: Scheme("http"),
            by_handshake: Shown::Nothing,
        };
        serve(stream, whence, door, (builder(&bounds), watcher)).await;
    }
}

fn builder(bounds: &Bounds) -> auto::Builder<TokioExecutor> {
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
    builder
}

async fn serve<S>(
    stream: S,
    whence: Whence,
    door: Arc<Door>,
    (builder, watcher): (auto::Builder<TokioExecutor>, Watcher),
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stuck_after = door.bounds.stuck_after;
    let figures = door.figures.clone();
    let answer = move |request: Request<Incoming>| {
        let (door, whence) = (door.clone(), whence.clone());
        async move { Ok::<_, std::convert::Infallible>(door.answer(request, whence).await) }
    };
    let io = TokioIo::new(Watched::new(stream, stuck_after, figures));
    let connection = builder.serve_connection(io, service_fn(answer));
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%error, "a connection of the HTTP door ended");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// `None`: it waits.
    async fn begun(said: &[u8], ends: bool) -> Option<bool> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut client = TcpStream::connect(address).await.expect("a connection");
        let (stream, _) = listener.accept().await.expect("a connection");
        client.write_all(said).await.expect("it is written");
        if ends {
            client.shutdown().await.expect("it ends");
        }
        let begun = timeout(AGAIN_AFTER * 4, begins(&stream)).await;
        begun.ok().map(|begun| begun.expect("it is read"))
    }

    #[test]
    fn a_connection_that_does_not_say_what_it_speaks_is_waited_for_here() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            for silent in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n"] {
                assert_eq!(begun(silent, false).await, None);
            }
            assert_eq!(begun(b"", true).await, Some(false));
            for begins in [&b"G"[..], b"POST /", H2_PREFACE] {
                assert_eq!(begun(begins, false).await, Some(true));
            }
        });
    }
}
