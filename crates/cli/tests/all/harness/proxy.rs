//! A stretch of network in front of a node, which can be slow, stand still or be cut.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::Cluster;

pub struct Proxy {
    pub address: String,
    shared: Arc<Mutex<Shared>>,
}

/// Three nodes; the third is reached through the proxy.
pub fn third_behind_a_proxy() -> (Cluster, Proxy) {
    let mut proxy = None;
    let cluster = Cluster::start_with(3, 3, |node| {
        if node.id == 3 {
            let address = node.listen.replace(":7003", ":7103");
            proxy = Some(Proxy::start(&address, &node.listen));
            node.advertise = Some(address);
        }
    });
    cluster.wait_whole();
    (cluster, proxy.expect("started"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    Fair,
    /// Bytes per second towards the node, over all connections.
    Rate(u64),
    /// Connections stay and nothing moves.
    Stall,
    /// Connections break, new ones too.
    Cut,
}

struct Shared {
    weather: Weather,
    due: Instant,
    /// Bytes that passed towards the node.
    towards: u64,
    connections: Vec<TcpStream>,
}

impl Proxy {
    /// Listens at `address` and passes on to `target`.
    pub fn start(address: &str, target: &str) -> Proxy {
        let listener = TcpListener::bind(address).expect("a free port");
        let shared = Arc::new(Mutex::new(Shared {
            weather: Weather::Fair,
            due: Instant::now(),
            towards: 0,
            connections: Vec::new(),
        }));
        let (state, target) = (shared.clone(), target.to_owned());
        thread::spawn(move || {
            for inbound in listener.incoming().flatten() {
                let cut = state.lock().expect("whole").weather == Weather::Cut;
                let outbound = TcpStream::connect(&target).ok().filter(|_| !cut);
                let Some(outbound) = outbound else { continue };
                pass(&state, &inbound, &outbound, true);
                pass(&state, &outbound, &inbound, false);
                state
                    .lock()
                    .expect("whole")
                    .connections
                    .extend([inbound, outbound]);
            }
        });
        Proxy {
            address: address.to_owned(),
            shared,
        }
    }

    /// Bytes that passed towards the node so far.
    pub fn towards(&self) -> u64 {
        self.shared.lock().expect("whole").towards
    }

    pub fn set(&self, weather: Weather) {
        let mut shared = self.shared.lock().expect("whole");
        shared.weather = weather;
        if weather == Weather::Cut {
            for connection in shared.connections.drain(..) {
                let _ = connection.shutdown(Shutdown::Both);
            }
        }
    }
}

fn pass(shared: &Arc<Mutex<Shared>>, from: &TcpStream, to: &TcpStream, limited: bool) {
    let (mut from, mut to) = (
        from.try_clone().expect("a file"),
        to.try_clone().expect("a file"),
    );
    let shared = shared.clone();
    thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        loop {
            let count = match from.read(&mut buffer) {
                Ok(count) if count > 0 => count,
                _ => break,
            };
            hold(&shared, count, limited);
            if limited {
                shared.lock().expect("whole").towards += count as u64;
            }
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
        let _ = from.shutdown(Shutdown::Read);
    });
}

/// Until these bytes may pass.
fn hold(shared: &Mutex<Shared>, count: usize, limited: bool) {
    loop {
        let mut state = shared.lock().expect("whole");
        let wait = match state.weather {
            Weather::Stall => Duration::from_millis(5),
            Weather::Rate(rate) if limited => {
                let now = Instant::now();
                let due = state.due.max(now);
                state.due = due + Duration::from_secs_f64(count as f64 / rate as f64);
                drop(state);
                return thread::sleep(due - now);
            }
            _ => return,
        };
        drop(state);
        thread::sleep(wait);
    }
}
