//! The admin port of a node: `/metrics`, `/healthz` and `/livez` over HTTP.
//!
//! ```text
//!  scraper ── HTTP ──▶ a queue ──▶ one of four threads ── a client's line on loopback ──▶ the node's loop
//!                      8 wait      5 s, 8 KiB, one answer    at most four of each a second
//! ```
//!
//! The node knows nothing of HTTP. A connection that says nothing holds one of four threads for five
//! seconds, and only as long as nobody else waits: in a crowd it holds the thread for 25 milliseconds. So a
//! hundred idle connections delay an answer by less than a second. The node is asked no more often than an
//! answer grows old. A node whose loop stands still does not answer, and is not healthy.

pub mod exposition;
mod figures;
mod http;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use client::admin::{AdminError, Status};
use client::{Client, Timeouts};

use figures::Figures;
use http::{Answer, Route};

const THREADS: usize = 4;
/// Accepted connections for which no thread is free yet. The kernel keeps those beyond.
const WAITING_MAX: usize = 8;
/// The age up to which an answer is given again.
const FRESH: Duration = Duration::from_millis(250);
/// A node that does not answer itself within so long is not well.
const PATIENCE: Duration = Duration::from_secs(2);

/// The last answer of the node, and its time.
struct Source {
    client: Client,
    node: String,
    status: Mutex<Said<Status>>,
    figures: Mutex<Said<Figures>>,
}

struct Said<T>(Option<(Instant, Result<T, AdminError>)>);

/// Serves until the process ends. `node` is where the node listens. Returns where we do.
pub fn serve(listen: &str, node: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(listen)?;
    let bound = listener.local_addr()?;
    let node = reachable(node).to_string();
    let timeouts = Timeouts {
        connect: PATIENCE,
        silence: PATIENCE,
        total: PATIENCE,
    };
    let source = Arc::new(Source {
        client: Client::new(vec![node.clone()], timeouts),
        node,
        status: Mutex::new(Said(None)),
        figures: Mutex::new(Said(None)),
    });
    let (sender, receiver) = sync_channel(WAITING_MAX);
    let queue = Arc::new(Queue {
        receiver: Mutex::new(receiver),
        waiting: AtomicUsize::new(0),
    });
    for number in 0..THREADS {
        let (queue, source) = (queue.clone(), source.clone());
        std::thread::Builder::new()
            .name(format!("admin-{number}"))
            .spawn(move || queue.serve(&source))?;
    }
    std::thread::Builder::new()
        .name("admin-accept".to_owned())
        .spawn(move || queue.fill(&listener, &sender))?;
    Ok(bound)
}

/// Connections that nobody has listened to yet.
struct Queue {
    receiver: Mutex<Receiver<TcpStream>>,
    waiting: AtomicUsize,
}

impl Queue {
    fn fill(&self, listener: &TcpListener, sender: &SyncSender<TcpStream>) {
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    self.waiting.fetch_add(1, Ordering::Relaxed);
                    if sender.send(stream).is_err() {
                        return; // The threads ended, which only a panic of theirs does.
                    }
                }
                // No descriptor is free, for example: the next attempt must not turn in circles.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    fn serve(&self, source: &Source) {
        loop {
            let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
            let Ok(stream) = receiver.recv() else {
                return;
            };
            drop(receiver);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            let others_wait = || self.waiting.load(Ordering::Relaxed) > 0;
            http::answer(stream, others_wait, |route| source.answer(route));
        }
    }
}

/// A node that listens on all addresses is asked on loopback.
fn reachable(node: SocketAddr) -> SocketAddr {
    let ip = match node.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, node.port())
}

impl Source {
    fn answer(&self, route: Route) -> Answer {
        match route {
            Route::Metrics => self.metrics(),
            Route::Health => self.health(),
            Route::Live => self.live(),
        }
    }

    fn metrics(&self) -> Answer {
        let ask = || {
            let value = self.client.metrics_of(&self.node)?;
            serde_json::from_value::<Figures>(value).map_err(|error| AdminError::Garbled {
                server: self.node.clone(),
                what: error.to_string(),
            })
        };
        match self.figures.fresh(ask) {
            Ok(figures) => Answer {
                status: 200,
                kind: "application/openmetrics-text; version=1.0.0; charset=utf-8",
                body: exposition::text(figures),
            },
            Err(error) => Answer::text(503, format!("the node does not answer: {error}\n")),
        }
    }

    /// This answer is about the node alone: one that is told to start again because the others are away is away then, too.
    fn live(&self) -> Answer {
        let ask = || self.client.status_of(&self.node);
        match self.status.fresh(ask) {
            Ok(status) => Answer::text(200, format!("node {} answers\n", status.node)),
            Err(error) => Answer::text(503, format!("the node does not answer: {error}\n")),
        }
    }

    fn health(&self) -> Answer {
        let ask = || self.client.status_of(&self.node);
        let (status, json) = match self.status.fresh(ask) {
            Ok(status) => {
                let unavailable = status.health.state == client::admin::State::Unavailable;
                let status_code = if unavailable { 503 } else { 200 };
                let body = serde_json::json!({
                    "state": status.health.state,
                    "warnings": status.health.warnings,
                    "waiting_for": status.waiting_for,
                });
                (status_code, body)
            }
            Err(error) => {
                let sentence = format!("the node does not answer: {error}");
                let body = serde_json::json!({ "state": "unavailable", "error": sentence });
                (503, body)
            }
        };
        Answer {
            status,
            kind: "application/json",
            body: format!("{json}\n"),
        }
    }
}

trait Fresh<T> {
    fn fresh(&self, ask: impl FnOnce() -> Result<T, AdminError>) -> Result<T, AdminError>;
}

impl<T: Clone> Fresh<T> for Mutex<Said<T>> {
    /// One thread asks; the others wait for what it hears.
    fn fresh(&self, ask: impl FnOnce() -> Result<T, AdminError>) -> Result<T, AdminError> {
        let mut said = self.lock().unwrap_or_else(PoisonError::into_inner);
        match &said.0 {
            Some((at, answer)) if at.elapsed() < FRESH => answer.clone(),
            _ => {
                let answer = ask();
                said.0 = Some((Instant::now(), answer.clone()));
                answer
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_everywhere_is_asked_on_loopback() {
        let asked = |address: &str| reachable(address.parse().expect("an address")).to_string();
        assert_eq!(asked("0.0.0.0:7117"), "127.0.0.1:7117");
        assert_eq!(asked("[::]:7117"), "[::1]:7117");
        assert_eq!(asked("10.0.0.4:7117"), "10.0.0.4:7117");
    }

    #[test]
    fn the_node_is_not_asked_again_while_its_answer_is_fresh() {
        let said = Mutex::new(Said(None));
        assert_eq!(said.fresh(|| Ok(1)), Ok(1));
        assert_eq!(said.fresh(|| Ok(2)), Ok(1));
        said.lock().expect("nobody panicked").0 = Some((Instant::now() - FRESH, Ok(1)));
        assert_eq!(said.fresh(|| Ok(3)), Ok(3));
    }
}
