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
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use access::{Asked, Bearer};
use client::admin::{AdminError, Status};
use client::{Client, Timeouts};
use letters::{No, RightsBoard};

use figures::Figures;
use http::{Answer, Head, Route};
use http_door::Foreign;

use crate::sockets::Inner;

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
    node: Inner,
    /// Metrics are for whoever may ask for the status: other machines reach this port.
    asks: Option<Arc<RightsBoard>>,
    known_as: KnownAs,
    status: Mutex<Said<Status>>,
    figures: Mutex<Said<Figures>>,
}

/// The names by which a program may reach this port that shows no token.
///
/// ‡ A web page may have its own name lead here, and reads then what is answered.
#[derive(Clone, Debug, Default)]
pub struct KnownAs {
    /// Any is good, by the operator's word.
    any: bool,
    names: Vec<String>,
}

impl KnownAs {
    /// `addresses`: HOST:PORT, as they were configured. `insecure`: any name is good.
    pub fn of<'a>(addresses: impl IntoIterator<Item = &'a str>, insecure: bool) -> KnownAs {
        let names = addresses.into_iter().filter_map(http_door::name_of);
        let names = names.filter(|name| !name.is_empty());
        KnownAs {
            any: insecure,
            names: names.map(str::to_ascii_lowercase).collect(),
        }
    }

    /// Errors: a web page of somewhere else may be what asks. `is_known`: a token that is good was shown, which no page has.
    fn check(&self, head: &Head, is_known: bool) -> Result<(), Answer> {
        let is_ours = |name: &str| {
            let is_here = |ip: IpAddr| head.at == Some(ip);
            let configured = || self.names.contains(&name.to_ascii_lowercase());
            self.any || is_known || name.parse().is_ok_and(is_here) || configured()
        };
        let text = match head.words().foreign(is_ours) {
            None => return Ok(()),
            Some(Foreign::Host) => {
                "the request is for a host of another name: reach this port as localhost, by its address, or by the name of --admin or --advertise\n"
            }
            Some(Foreign::Origin | Foreign::Site) => {
                "a web page of another machine or site asks, and this port has nothing for it\n"
            }
        };
        Err(Answer::text(403, text.to_owned()))
    }
}

struct Said<T>(Option<(Instant, Result<T, AdminError>)>);

/// Serves until the process ends. `node` is how the node is asked, `rights` where it tells who may do what. Returns where we listen.
pub fn serve(
    listen: &str,
    node: Inner,
    rights: Arc<RightsBoard>,
    known_as: KnownAs,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(listen)?;
    let bound = listener.local_addr()?;
    let asks = (!bound.ip().is_loopback()).then_some(rights);
    let timeouts = Timeouts {
        connect: PATIENCE,
        silence: PATIENCE,
        total: PATIENCE,
    };
    let source = Arc::new(Source {
        client: node.client(timeouts),
        node,
        asks,
        known_as,
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
            http::answer(stream, others_wait, |route, head| {
                source.answer(route, head)
            });
        }
    }
}

impl Source {
    fn answer(&self, route: Route, head: &Head) -> Answer {
        match route {
            Route::Metrics => match self.may_see(head) {
                Ok(()) => self.metrics(),
                Err(answer) => answer,
            },
            Route::Health => self.health(self.may_see(head).is_ok()),
            Route::Live => self.live(),
        }
    }

    /// Whether metrics may be seen by whoever asks so.
    fn may_see(&self, head: &Head) -> Result<(), Answer> {
        let Some(board) = self.asks.as_ref().filter(|board| !board.asks_nothing()) else {
            return self.known_as.check(head, false);
        };
        self.judge(board, head.shown.as_deref())?;
        self.known_as.check(head, true)
    }

    /// `shown`: the header Authorization.
    fn judge(&self, board: &RightsBoard, shown: Option<&str>) -> Result<(), Answer> {
        let rights = board.now();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = now.map_or(0, |now| now.as_millis() as u64);
        let token = shown.and_then(|shown| shown.split_once(' '));
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let token: Option<Bearer> = token.and_then(|(_, token)| token.trim().parse().ok());
        let asker = token.and_then(|token| rights.take(&token, now_ms).ok());
        let asker = asker.unwrap_or_default();
        rights
            .judge(&asker, &Asked::AdminMetrics, now_ms)
            .map_err(|no| match no {
                No::NotKnown => {
                    let text = "this node does not know yet whether tokens are asked for\n";
                    Answer::text(503, text.to_owned())
                }
                No::Unauthenticated => {
                    let text = "a token is needed: Authorization: Bearer TOKEN\n";
                    Answer::text(401, text.to_owned())
                }
                No::Forbidden(denied) => Answer::text(403, format!("{denied}\n")),
            })
    }

    fn metrics(&self) -> Answer {
        let ask = || {
            let node = self.node.server();
            let value = self.client.metrics_of(&node)?;
            serde_json::from_value::<Figures>(value).map_err(|error| AdminError::Garbled {
                server: node,
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
        let ask = || self.client.status_of(&self.node.server());
        match self.status.fresh(ask) {
            Ok(status) => Answer::text(200, format!("node {} answers\n", status.node)),
            // It has no socket of its own, and asks for a token: it does its work.
            Err(AdminError::Refused { .. }) => Answer::text(200, "the node answers\n".to_owned()),
            Err(error) => Answer::text(503, format!("the node does not answer: {error}\n")),
        }
    }

    /// Its state is told to anybody, and what is wrong to whoever may ask for the status.
    fn health(&self, is_whole: bool) -> Answer {
        let ask = || self.client.status_of(&self.node.server());
        let (status, json) = match self.status.fresh(ask) {
            Ok(status) => {
                // ‡ A node that has just started warns of nothing, and knows of nobody who leads.
                let is_blind = Duration::from_millis(status.uptime_ms) < BLIND
                    && status.logs.iter().any(|log| log.leader.is_none());
                let unavailable =
                    is_blind || status.health.state == client::admin::State::Unavailable;
                let state = match is_blind {
                    true => client::admin::State::Unavailable,
                    false => status.health.state,
                };
                let status_code = if unavailable { 503 } else { 200 };
                let body = match is_whole {
                    true => serde_json::json!({
                        "state": state,
                        "warnings": status.health.warnings,
                        "waiting_for": status.waiting_for,
                    }),
                    false => serde_json::json!({ "state": state }),
                };
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

/// So long after its start a node that knows no leader says nothing of it: elections settle within that.
const BLIND: Duration = Duration::from_secs(3);

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
    fn the_node_is_not_asked_again_while_its_answer_is_fresh() {
        let said = Mutex::new(Said(None));
        assert_eq!(said.fresh(|| Ok(1)), Ok(1));
        assert_eq!(said.fresh(|| Ok(2)), Ok(1));
        said.lock().expect("nobody panicked").0 = Some((Instant::now() - FRESH, Ok(1)));
        assert_eq!(said.fresh(|| Ok(3)), Ok(3));
    }

    /// ‡ A page whose name was made to lead here has no token, and its browser says which name it asked for.
    #[test]
    fn a_web_page_of_another_machine_is_refused() {
        let known_as = KnownAs::of(["0.0.0.0:7217", "N1.example:7117", "[fd00::1]:7117"], false);
        let at = "10.0.0.1".parse().ok();
        let said = |host: Option<&str>, origin: Option<&str>, site: Option<&str>| Head {
            shown: None,
            host: host.map(str::to_owned),
            origin: origin.map(str::to_owned),
            site: site.map(str::to_owned),
            at,
        };
        let is_good = |head: &Head| known_as.check(head, false).is_ok();
        for host in [
            "localhost",
            "127.0.0.1:7217",
            "[::1]:7217",
            "10.0.0.1:7217",
            "n1.example:7217",
            "[fd00::1]:7217",
        ] {
            assert!(is_good(&said(Some(host), None, None)), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:7217",
            "10.0.0.2:7217",
            "127.0.0.1.evil.example",
            "[fd00::2]:7217",
            "[",
            "",
        ] {
            assert!(!is_good(&said(Some(host), None, None)), "{host}");
        }
        assert!(!is_good(&said(None, None, None)), "no browser says none");
        let here = Some("127.0.0.1:7217");
        assert!(is_good(&said(here, Some("http://localhost:3000"), None)));
        for origin in ["http://evil.example", "null", "http://10.0.0.1:3000"] {
            assert!(!is_good(&said(here, Some(origin), None)), "{origin}");
        }
        assert!(!is_good(&said(here, None, Some("cross-site"))));
        // A token that is good is a program's, and by --insecure any host is; pages of others are nobody still.
        let named = said(Some("lb.example"), None, None);
        assert!(known_as.check(&named, true).is_ok());
        let open = KnownAs::of([], true);
        assert!(open.check(&named, false).is_ok());
        let page = said(here, Some("http://evil.example"), None);
        assert!(known_as.check(&page, true).is_err() && open.check(&page, false).is_err());
    }
}
