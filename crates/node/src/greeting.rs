//! Connections that have not said yet what they want: accepted, and given a little time for one line.
//!
//! ```text
//!   accepted ─▶ bytes … ─▶ a whole line ─▶ of this cluster? ─▶ a Caller, whose verb is the node's business
//!      └─ none in time, or no room, or no request: refused
//! ```

use std::collections::BTreeMap;

use access::{BadToken, Bearer};
use formats::parse_hex16;
use ops::{BLOCK, Buffer, ClientCertificate, ConnId, Received};
use paxos::mutation::{self, Mutation};
use paxos::{NodeId, Time};
use replica::{Env, Purpose};
use wire::{LINE_BYTES_MAX, LONG_LINE_BYTES_MAX, Refusal, Request, Verb, auth};

/// Connections that are being greeted.
#[derive(Default)]
pub struct Greetings {
    by_conn: BTreeMap<ConnId, Greeting>,
    /// Lines `auth` that showed no token.
    pub bad_tokens: u64,
}

struct Greeting {
    since: Time,
    filled: usize,
    from: String,
    is_own: bool,
    /// The name in the certificate of a node that it showed.
    node: Option<String>,
    /// The certificate of a client, from the handshake; or, of a node, by a line before the first one.
    client: Option<ClientCertificate>,
    /// A token or a ticket, by a line before the first one.
    shown: Option<Bearer>,
}

/// A caller that has said the first line: its request, and the bytes behind it.
pub struct Caller {
    pub conn: ConnId,
    pub verb: Verb,
    pub request: Request,
    /// Bytes behind the line.
    pub rest: Vec<u8>,
    /// The last byte was sent.
    pub ended: bool,
    /// The address from which the connection comes.
    pub from: String,
    /// It comes by the socket for root and this process' own user.
    pub is_own: bool,
    /// The name in the certificate of a node that it showed.
    pub node: Option<String>,
    /// The certificate of a client that it showed; or that was shown to the node that asks, if it is one.
    pub client: Option<ClientCertificate>,
    /// The token or ticket that it showed, good or not.
    pub shown: Option<Bearer>,
}

/// So many callers at a time may say a longer line than others.
const LONG_MAX: usize = 4;

const GREETING_BUFFER: usize = LINE_BYTES_MAX.next_multiple_of(BLOCK);

impl Greetings {
    /// `whose`: whether it is this process' owner, the name in its certificate if that is a node's, and the certificate if it is a
    /// client's.
    pub fn on_accepted(
        &mut self,
        env: &mut Env,
        conn: ConnId,
        from: String,
        (is_own, node, client): (bool, Option<String>, Option<ClientCertificate>),
    ) {
        let is_full = env.conns.count() >= env.limits.connections_max;
        env.conns.turn_to(conn, Purpose::Greeting);
        if is_full {
            // The connection that has said nothing for longest makes room: a peer speaks at once.
            let silent = self.by_conn.iter().min_by_key(|(_, g)| g.since);
            let refused = silent.map_or(conn, |(silent, _)| *silent);
            self.by_conn.remove(&refused);
            env.refuse(refused, too_many_connections());
            if refused == conn {
                return;
            }
        }
        let greeting = Greeting {
            since: env.now,
            filled: 0,
            from,
            is_own,
            node,
            client,
            shown: None,
        };
        self.by_conn.insert(conn, greeting);
        env.receive(conn, Buffer::new(GREETING_BUFFER), 0..LINE_BYTES_MAX, false);
    }

    /// Refuses those that have not said their line in time.
    pub fn expire(&mut self, env: &mut Env) {
        let timeout = env.limits.greeting_timeout;
        let late = self.by_conn.iter();
        let late = late.filter(|(_, g)| env.now > g.since + timeout);
        for conn in late.map(|(conn, _)| *conn).collect::<Vec<_>>() {
            self.by_conn.remove(&conn);
            let refusal = Refusal::new(
                "too-late",
                "no request line came in time; begin with a line as in docs/wire.md",
            );
            env.refuse(conn, refusal);
        }
    }

    /// Returns a caller, once the whole line is there and makes sense. One whose line makes none is refused here.
    pub fn on_received(
        &mut self,
        env: &mut Env,
        conn: ConnId,
        mut buffer: Buffer,
        result: std::io::Result<Received>,
    ) -> Option<Caller> {
        let greeting = self.by_conn.get_mut(&conn)?;
        let Ok(received) = result else {
            self.by_conn.remove(&conn);
            env.close(conn);
            return None;
        };
        let before = greeting.filled;
        greeting.filled += received.count;
        let find = |buffer: &Buffer, from: usize, to: usize| {
            let found = buffer[from..to].iter().position(|b| *b == b'\n');
            found.map(|at| from + at)
        };
        let mut end = find(&buffer, before, greeting.filled);
        if let Some(at) = end.filter(|at| !greeting.has_said() && auth::is_one(&buffer[..*at])) {
            match greeting.take(&buffer[..at]) {
                Ok(()) => {}
                Err(refusal) => {
                    let from = std::mem::take(&mut greeting.from);
                    self.by_conn.remove(&conn);
                    self.bad_tokens += 1;
                    refuse(env, conn, &from, refusal);
                    return None;
                }
            }
            // The next line stands where this one stood, and nothing of the secret is left in the buffer.
            let filled = greeting.filled;
            buffer.copy_within(at + 1..filled, 0);
            greeting.filled = filled - (at + 1);
            buffer[greeting.filled..filled].fill(0);
            end = find(&buffer, 0, greeting.filled);
        }
        let filled = greeting.filled;
        let Some(end) = end else {
            let line_bytes_max = wire::line_bytes_max(&buffer[..filled]);
            if filled < line_bytes_max && !received.end {
                return self.go_on(env, conn, buffer, filled);
            }
            self.by_conn.remove(&conn);
            match filled {
                0 => env.close(conn),
                _ if filled == line_bytes_max => env.refuse(
                    conn,
                    Refusal::new(
                        "bad-request",
                        format!("the request line is longer than {line_bytes_max} bytes"),
                    ),
                ),
                _ => env.refuse(
                    conn,
                    Refusal::new(
                        "bad-request",
                        "the connection ended before its request line did",
                    ),
                ),
            }
            return None;
        };
        let Greeting {
            from,
            is_own,
            node,
            client,
            shown,
            ..
        } = self.by_conn.remove(&conn)?;
        match read_line(env, &buffer[..end]) {
            Ok((verb, mut request)) => {
                let is_believed = mutation::is(Mutation::AsBelievedOfClients)
                    && request.take("as").as_deref() == Some("socket");
                Some(Caller {
                    conn,
                    verb,
                    request,
                    rest: buffer[end + 1..filled].to_vec(),
                    ended: received.end,
                    from,
                    is_own: is_own || is_believed,
                    node,
                    client,
                    shown,
                })
            }
            Err(refusal) => {
                refuse(env, conn, &from, refusal);
                None
            }
        }
    }
}

impl Greeting {
    /// Whether somebody has said who asks, by a line.
    fn has_said(&self) -> bool {
        self.shown.is_some() || (self.node.is_some() && self.client.is_some())
    }

    /// Takes a line that says who asks.
    ///
    /// Errors: it says it wrongly, or may not.
    fn take(&mut self, line: &[u8]) -> Result<(), Refusal> {
        match auth::shown(line)? {
            auth::Shown::Token(token) => {
                let bad = |error: BadToken| Refusal::new("unauthenticated", error.to_string());
                self.shown = Some(token.parse().map_err(bad)?);
            }
            // ‡ Whether it is a node of this cluster by now, its judge looks up.
            auth::Shown::Certificate { name, until_ms } if may_ask_for_others(self) => {
                self.client = Some(ClientCertificate { name, until_ms });
            }
            auth::Shown::Certificate { .. } => {
                let sentence = "a certificate is shown in the handshake: none but nodes say whose they were shown";
                return Err(Refusal::new("unauthenticated", sentence));
            }
        }
        Ok(())
    }
}

fn may_ask_for_others(greeting: &Greeting) -> bool {
    greeting.node.is_some() || mutation::is(Mutation::CertificateByWord)
}

impl Greetings {
    /// Receives more of a line, into more room if that is needed.
    fn go_on(
        &mut self,
        env: &mut Env,
        conn: ConnId,
        buffer: Buffer,
        filled: usize,
    ) -> Option<Caller> {
        if filled < LINE_BYTES_MAX {
            env.receive(conn, buffer, filled..LINE_BYTES_MAX, false);
            return None;
        }
        // It is one of them.
        let long = self.by_conn.values();
        let long = long.filter(|one| one.filled >= LINE_BYTES_MAX).count();
        if filled == LINE_BYTES_MAX && long > LONG_MAX {
            self.by_conn.remove(&conn);
            let why = format!(
                "{LONG_MAX} others say a line of more than {LINE_BYTES_MAX} bytes now: try again"
            );
            env.refuse(conn, Refusal::new("busy", why));
            return None;
        }
        let room = (2 * buffer.len()).min(LONG_LINE_BYTES_MAX);
        let buffer = match filled < buffer.len() {
            true => buffer,
            false => {
                let mut larger = Buffer::new(room);
                larger[..filled].copy_from_slice(&buffer[..filled]);
                larger
            }
        };
        let end = buffer.len();
        env.receive(conn, buffer, filled..end, false);
        None
    }
}

fn read_line(env: &Env, line: &[u8]) -> Result<(Verb, Request), Refusal> {
    let mut request = Request::parse(line)?;
    let verb = request.verb()?;
    // Verbs of nodes have a key of that name themselves.
    if !verb.is_of_nodes() {
        check_cluster(env, &mut request)?;
    }
    Ok((verb, request))
}

/// A client may say which cluster it means. After a rescue the majority that was lost may come back:
/// then two clusters have nodes, logs and streams of the same names, at the same addresses.
fn check_cluster(env: &Env, request: &mut Request) -> Result<(), Refusal> {
    let Some(named) = request.take("cluster") else {
        return Ok(());
    };
    if parse_hex16(&named).is_none() {
        return Err(Refusal::new(
            "bad-request",
            "cluster is the id that `status` tells: 32 hex digits and four hyphens",
        ));
    }
    if env.own.identity.node == NodeId(0) {
        return Err(still_joining());
    }
    let own = env.own.identity.cluster.to_string();
    if named != own && !mutation::is(Mutation::AnotherClusterServed) {
        let sentence = format!(
            "this node is of cluster {own}, not of {named}: ask a node of that one, or begin anew with this one if that is lost"
        );
        return Err(Refusal::new("wrong-cluster", sentence).key("cluster", own));
    }
    Ok(())
}

pub fn refuse(env: &mut Env, conn: ConnId, from: &str, refusal: Refusal) {
    if refusal.code == "bad-request" {
        tracing::debug!(from, said = refusal.sentence, "a connection is refused");
    }
    env.refuse(conn, refusal);
}

pub fn too_many_connections() -> Refusal {
    Refusal::new(
        "overloaded",
        "this node has too many connections; close some, or ask another node",
    )
}

pub fn still_joining() -> Refusal {
    Refusal::new(
        "not-leader",
        "this node is still joining; ask again in a moment",
    )
}
