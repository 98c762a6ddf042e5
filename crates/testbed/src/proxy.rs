//! A TCP proxy inside the process, to do to connections what networks do.
//!
//! ```text
//!  client or peer ══► proxy ══► node       Pass · Limit: bytes move
//!                       ║                  Stall: sockets stay open, nothing arrives, not even an end
//!                 rules, by who comes      Cut: both sides see the end, and so does who comes anew
//!                                          late: each byte arrives so much later, each way
//! ```
//!
//! The other end is known by the first line of its connection: a peer says `from=ID` in it, a client does not
//! (docs/wire.md). By TLS nothing of that can be read: there it is known by its process, one of those that this process started. A node whose address is its proxy's, and to whose peers' proxies the
//! same is done for what comes *from* it, is a machine that vanished without a word. The one
//! difference: a connection attempt to a stalled proxy is accepted, and then meets silence.

mod owner;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const PIECE_BYTES: usize = 64 << 10;
const LINE_BYTES_MAX: usize = 8192;
/// The first byte of TLS.
const HANDSHAKE_RECORD: u8 = 0x16;
/// The pieces of a direction that wait for their time.
const LATE_PIECES_MAX: usize = 256;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Traffic {
    #[default]
    Pass,
    Stall,
    /// Bytes per second of each connection and direction.
    Limit(u64),
    Cut,
}

/// Dropping it cuts its connections, and nobody listens any more.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    target: String,
    /// Added to the way of every byte, in each direction.
    delay: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    all: Traffic,
    /// For connections of these nodes; `all` wins unless it is `Pass`.
    from: BTreeMap<u32, Traffic>,
    links: BTreeMap<u64, Link>,
    next_link: u64,
    ended: bool,
}

struct Link {
    /// `None`: a client, or not known yet.
    from: Option<u32>,
    sockets: Vec<TcpStream>,
}

impl Proxy {
    /// Listens on a port of its own and forwards to `target`, `HOST:PORT`, which may come up later.
    pub fn start(target: &str) -> io::Result<Proxy> {
        Proxy::start_late(target, Duration::ZERO)
    }

    /// … and every byte, and every end, arrives so much later than without it, each way.
    pub fn start_late(target: &str, delay: Duration) -> io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            target: target.to_owned(),
            delay,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let accepts = shared.clone();
        thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || accepts.accept(&listener))?;
        Ok(Proxy { address, shared })
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Sets the traffic of every connection, those that are open included.
    pub fn set(&self, traffic: Traffic) {
        self.shared.change(|state| state.all = traffic);
    }

    /// Sets the traffic of connections that this node made.
    pub fn set_from(&self, node: u32, traffic: Traffic) {
        self.shared.change(|state| {
            state.from.insert(node, traffic);
        });
    }

    /// Connections that are open now.
    pub fn connections(&self) -> usize {
        self.shared.lock().links.len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.change(|state| state.ended = true);
        // The listening thread is in accept: one more connection lets it see that it is over.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn traffic(&self, from: Option<u32>) -> Traffic {
        let particular = from.and_then(|node| self.from.get(&node)).copied();
        match (self.ended, self.all) {
            (true, _) => Traffic::Cut,
            (false, Traffic::Pass) => particular.unwrap_or_default(),
            (false, all) => all,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        for link in state.links.values() {
            if state.traffic(link.from) == Traffic::Cut {
                link.cut();
            }
        }
        self.changed.notify_all();
    }

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.lock().ended {
                return;
            }
            let Ok(client) = client else { continue };
            let shared = self.clone();
            // Without a thread the connection is dropped, which the other side can see.
            let _ = thread::Builder::new()
                .name("proxy-link".to_owned())
                .spawn(move || shared.serve(client));
        }
    }

    /// One connection, from its first line to its end.
    fn serve(self: Arc<Self>, mut client: TcpStream) {
        let Ok(own) = client.try_clone() else { return };
        let id = {
            let mut state = self.lock();
            state.next_link += 1;
            let id = state.next_link;
            let link = Link {
                from: None,
                sockets: vec![own],
            };
            state.links.insert(id, link);
            id
        };
        // Its outcome is the other side's to see.
        let _ = self.forward(id, &mut client);
        if let Some(link) = self.lock().links.remove(&id) {
            link.cut();
        }
    }

    fn forward(self: &Arc<Self>, id: u64, client: &mut TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let first = read_line(client)?;
        let from = match first.first() {
            // A caller that says nothing that can be read here is known by the process whose socket it is.
            Some(&HANDSHAKE_RECORD) => client.peer_addr().ok().and_then(owner::node_of),
            _ => from_of(&first),
        };
        if let Some(link) = self.lock().links.get_mut(&id) {
            link.from = from;
        }
        self.pass(id, first.len())?;
        thread::sleep(self.delay);
        let mut node = TcpStream::connect(&self.target)?;
        node.set_nodelay(true)?;
        if let Some(link) = self.lock().links.get_mut(&id) {
            link.sockets.push(node.try_clone()?);
        }
        node.write_all(&first)?;
        let (mut back_from, mut back_to) = (node.try_clone()?, client.try_clone()?);
        let shared = self.clone();
        let back = thread::Builder::new()
            .name("proxy-back".to_owned())
            .spawn(move || shared.pump(id, &mut back_from, &mut back_to))?;
        self.pump(id, client, &mut node);
        let _ = back.join();
        Ok(())
    }

    /// Moves bytes one way until the end of stream, which it passes on, or until anything breaks,
    /// which ends both ways.
    fn pump(&self, id: u64, from: &mut TcpStream, to: &mut TcpStream) {
        match self.delay.is_zero() {
            true => self.pump_at_once(id, from, to),
            false => self.pump_late(id, from, to),
        }
    }

    fn pump_at_once(&self, id: u64, from: &mut TcpStream, to: &mut TcpStream) {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let read = from.read(&mut piece);
            // An end or a reset is news too, and waits as bytes do.
            if self.pass(id, read.as_ref().copied().unwrap_or(0)).is_err() {
                return;
            }
            match read {
                Ok(count) if hand_on(&piece[..count], to) => {
                    if count == 0 {
                        return;
                    }
                }
                Ok(_) | Err(_) => return end_both(from, to),
            }
        }
    }

    /// One thread reads, so that the time of arrival is known of what comes while earlier bytes wait.
    fn pump_late(&self, id: u64, from: &mut TcpStream, to: &mut TcpStream) {
        let (from, to): (&TcpStream, &TcpStream) = (from, to);
        let (arrived, due) = mpsc::sync_channel::<(Instant, Vec<u8>)>(LATE_PIECES_MAX);
        thread::scope(|scope| {
            // The other thread ends once this is dropped.
            let arrived = arrived;
            scope.spawn(|| {
                for (at, piece) in due {
                    thread::sleep((at + self.delay).saturating_duration_since(Instant::now()));
                    if !hand_on(&piece, to) {
                        return end_both(from, to);
                    }
                }
            });
            let mut piece = vec![0; PIECE_BYTES];
            let mut reads = from;
            loop {
                let read = reads.read(&mut piece);
                let count = read.as_ref().copied().unwrap_or(0);
                if self.pass(id, count).is_err() {
                    return;
                }
                let handed = arrived.send((Instant::now(), piece[..count].to_vec()));
                if count == 0 || handed.is_err() {
                    return;
                }
            }
        });
    }

    /// Returns when `bytes` may move; an error if the connection is cut.
    fn pass(&self, id: u64, bytes: usize) -> io::Result<()> {
        let mut state = self.lock();
        loop {
            let Some(link) = state.links.get(&id) else {
                return Err(io::ErrorKind::ConnectionAborted.into());
            };
            match state.traffic(link.from) {
                Traffic::Pass => return Ok(()),
                Traffic::Cut => return Err(io::ErrorKind::ConnectionAborted.into()),
                Traffic::Limit(rate) => {
                    drop(state);
                    thread::sleep(Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64));
                    return Ok(());
                }
                Traffic::Stall => {
                    state = self
                        .changed
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

impl Link {
    fn cut(&self) {
        for socket in &self.sockets {
            // It may be gone already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// Writes a piece; an empty one is the end of the stream.
fn hand_on(piece: &[u8], mut to: &TcpStream) -> bool {
    match piece.is_empty() {
        true => to.shutdown(Shutdown::Write).is_ok(),
        false => to.write_all(piece).is_ok(),
    }
}

fn end_both(from: &TcpStream, to: &TcpStream) {
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Reads up to the first line's end, and perhaps more; at least one byte.
fn read_line(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    let mut piece = [0; LINE_BYTES_MAX];
    while !first.contains(&b'\n') && first.len() < LINE_BYTES_MAX {
        match client.read(&mut piece)? {
            0 if first.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
            0 => break,
            count => first.extend_from_slice(&piece[..count]),
        }
        if first.first() == Some(&HANDSHAKE_RECORD) {
            break;
        }
    }
    Ok(first)
}

/// The node that says `from=ID` in its first line.
fn from_of(first: &[u8]) -> Option<u32> {
    let line = first.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    if words.next()? != "logberg/1" || words.next()? != "peer" {
        return None;
    }
    words.find_map(|word| word.strip_prefix("from=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const SOON: Duration = Duration::from_millis(200);

    /// Sends back what it gets.
    fn echo() -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let mut back = socket.try_clone().unwrap();
                thread::spawn(move || io::copy(&mut &socket, &mut back));
            }
        });
        address
    }

    fn connect(proxy: &Proxy, line: &str) -> TcpStream {
        let mut socket = TcpStream::connect(proxy.address()).unwrap();
        socket.set_read_timeout(Some(SOON)).unwrap();
        socket.write_all(line.as_bytes()).unwrap();
        socket
    }

    fn reads(socket: &mut TcpStream, expected: &str) {
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let mut bytes = vec![0; expected.len()];
        socket.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, expected.as_bytes());
        socket.set_read_timeout(Some(SOON)).unwrap();
    }

    fn is_silent(socket: &mut TcpStream) -> bool {
        let read = socket.read(&mut [0]);
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    #[test]
    fn a_stalled_connection_is_silent_and_goes_on_afterwards() {
        let proxy = Proxy::start(&echo()).unwrap();
        let mut socket = connect(&proxy, "hello\n");
        reads(&mut socket, "hello\n");
        proxy.set(Traffic::Stall);
        socket.write_all(b"lost?").unwrap();
        assert!(is_silent(&mut socket));
        let mut late = connect(&proxy, "late\n");
        assert!(is_silent(&mut late), "a new one too");
        proxy.set(Traffic::Pass);
        reads(&mut socket, "lost?");
        reads(&mut late, "late\n");
    }

    #[test]
    fn only_the_connections_of_one_node_are_stalled() {
        let proxy = Proxy::start(&echo()).unwrap();
        let (of_2, of_3) = (
            "logberg/1 peer kind=data from=2\n",
            "logberg/1 peer from=3\n",
        );
        let mut two = connect(&proxy, of_2);
        let mut three = connect(&proxy, of_3);
        let mut client = connect(&proxy, "logberg/1 status\n");
        reads(&mut two, of_2);
        reads(&mut three, of_3);
        reads(&mut client, "logberg/1 status\n");
        assert_eq!(proxy.connections(), 3);
        proxy.set_from(2, Traffic::Stall);
        for socket in [&mut two, &mut three, &mut client] {
            socket.write_all(b"x").unwrap();
        }
        assert!(is_silent(&mut two));
        reads(&mut three, "x");
        reads(&mut client, "x");
    }

    #[test]
    fn an_end_of_stream_passes_but_not_through_a_stall() {
        let proxy = Proxy::start(&echo()).unwrap();
        let mut socket = connect(&proxy, "last\n");
        reads(&mut socket, "last\n");
        proxy.set(Traffic::Stall);
        socket.shutdown(Shutdown::Write).unwrap();
        assert!(is_silent(&mut socket));
        proxy.set(Traffic::Pass);
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        assert_eq!(socket.read(&mut [0]).unwrap(), 0, "the echo ended too");
    }

    #[test]
    fn a_cut_is_seen_at_once() {
        let proxy = Proxy::start(&echo()).unwrap();
        let mut socket = connect(&proxy, "hello\n");
        reads(&mut socket, "hello\n");
        proxy.set(Traffic::Cut);
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        assert!(matches!(socket.read(&mut [0]), Ok(0) | Err(_)));
    }

    #[test]
    fn a_limited_connection_takes_its_time() {
        let proxy = Proxy::start(&echo()).unwrap();
        proxy.set(Traffic::Limit(100_000));
        let began = Instant::now();
        let line = format!("{}\n", "x".repeat(9_999));
        let mut socket = connect(&proxy, &line);
        reads(&mut socket, &line);
        assert!(
            began.elapsed() >= Duration::from_millis(100),
            "10 kB, there and back"
        );
    }

    #[test]
    fn what_is_made_late_arrives_no_sooner_and_in_its_order() {
        let delay = Duration::from_millis(20);
        let proxy = Proxy::start_late(&echo(), delay).unwrap();
        let mut socket = connect(&proxy, "first\n");
        reads(&mut socket, "first\n");
        let began = Instant::now();
        for piece in ["a", "b", "c"] {
            socket.write_all(piece.as_bytes()).unwrap();
        }
        reads(&mut socket, "abc");
        assert!(began.elapsed() >= 2 * delay, "there and back");
        socket.shutdown(Shutdown::Write).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        assert_eq!(socket.read(&mut [0]).unwrap(), 0, "the end arrives, too");
    }
}
