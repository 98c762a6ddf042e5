//! The attack table: everything that can be asked at any door, by every kind of asker, in plain text and by TLS, of a leader and of one
//! that follows. What is expected is worked out from the one table of grants in the crate `access`.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use access::{Asked, Grants, Principal, TokenName, decide};
use client::Transport;
use tickets::{Audience, Claims, SigningKey, sign};
use wire::Verb;

use crate::harness::{Cluster, err, logberg, out, wait_for};
use crate::tls::Certs;

const PATIENCE: Duration = Duration::from_secs(20);
const LOG: &str = "main";

/// The door by which something is asked. ‡ What `access` learns to judge does not compile before it has a door, and fails before it has a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Door {
    Pipe,
    Http,
    Keys,
    /// On loopback, asked elsewhere; and greetings of nodes, which prove themselves.
    Other,
}

fn door_of(asked: &Asked) -> (Door, &'static str) {
    match asked {
        Asked::Append(_) => (Door::Pipe, "append"),
        Asked::Close(_) => (Door::Pipe, "close"),
        Asked::Read(_) => (Door::Pipe, "read"),
        Asked::Streams(_) => (Door::Pipe, "streams"),
        Asked::Trim(_) => (Door::Pipe, "trim"),
        Asked::Lead(_) => (Door::Pipe, "lead"),
        Asked::Scrub(_) => (Door::Pipe, "scrub"),
        Asked::Save(_) => (Door::Pipe, "save"),
        Asked::Fill(_) => (Door::Pipe, "fill"),
        Asked::Status => (Door::Pipe, "status"),
        Asked::Metrics => (Door::Pipe, "metrics"),
        Asked::Logs => (Door::Pipe, "logs"),
        Asked::CreateLog(_) => (Door::Pipe, "create-log"),
        Asked::DeleteLog(_) => (Door::Pipe, "delete-log"),
        Asked::ShowLog(_) => (Door::Pipe, "show-log"),
        Asked::Retain(_) => (Door::Pipe, "retain"),
        Asked::Members => (Door::Pipe, "members"),
        Asked::ChangeMembers => (Door::Pipe, "change-members"),
        Asked::Slots => (Door::Pipe, "slots"),
        Asked::ChangeSlots => (Door::Pipe, "change-slots"),
        Asked::Tokens => (Door::Pipe, "tokens"),
        Asked::PutToken => (Door::Pipe, "put-token"),
        Asked::RotateToken => (Door::Pipe, "rotate-token"),
        Asked::RevokeToken => (Door::Pipe, "revoke-token"),
        Asked::Issuers => (Door::Pipe, "issuers"),
        Asked::PutIssuer => (Door::Pipe, "put-issuer"),
        Asked::RemoveIssuer => (Door::Pipe, "remove-issuer"),
        Asked::SetAuth => (Door::Pipe, "set-auth"),
        Asked::WhoAmI => (Door::Pipe, "whoami"),
        Asked::Explain => (Door::Pipe, "explain"),
        Asked::Audit => (Door::Pipe, "audit"),
        Asked::Join => (Door::Pipe, "join"),
        Asked::CreateStream { .. } => (Door::Http, "create-stream"),
        Asked::AppendStream { .. } => (Door::Http, "append-stream"),
        Asked::ReadStream { .. } => (Door::Http, "read-stream"),
        Asked::DeleteStream { .. } => (Door::Http, "delete-stream"),
        Asked::ListStreams { .. } => (Door::Http, "list-streams"),
        Asked::ShowLimits { .. } => (Door::Http, "show-limits"),
        Asked::SetLimits { .. } => (Door::Http, "set-limits"),
        Asked::DescribeHttp => (Door::Http, "describe"),
        Asked::Health => (Door::Http, "health"),
        Asked::Connection => (Door::Keys, "connection"),
        Asked::ReadKeys(_) => (Door::Keys, "read-keys"),
        Asked::WriteKeys(_) => (Door::Keys, "write-keys"),
        Asked::ScanKeys(_) => (Door::Keys, "scan-keys"),
        Asked::CountKeys => (Door::Keys, "count-keys"),
        Asked::FlushKeys => (Door::Keys, "flush-keys"),
        Asked::ServerStatus => (Door::Keys, "server-status"),
        Asked::ServerSettings => (Door::Keys, "server-settings"),
        Asked::AdminMetrics => (Door::Other, "admin-metrics"),
        Asked::Peer => (Door::Other, "peer"),
    }
}

/// One line of the table.
struct Line {
    door: Door,
    /// The request, without whoever asks. Over HTTP `METHOD PATH`; at the door for keys the command.
    said: String,
    asked: Asked<'static>,
}

/// ‡ A verb without a line does not compile.
fn of_verb(verb: Verb) -> Option<(String, Asked<'static>)> {
    let hash = "1".repeat(64);
    let key = format!("EdDSA:{}", "A".repeat(43));
    Some(match verb {
        Verb::Append => (format!("append {LOG} mode=takeover"), Asked::Append(LOG)),
        Verb::Close => (format!("close {LOG} stream=1.1.1 at=0"), Asked::Close(LOG)),
        Verb::Read => (format!("read {LOG} stale=1"), Asked::Read(LOG)),
        Verb::Streams => (format!("streams {LOG} stale=1"), Asked::Streams(LOG)),
        Verb::Trim => (format!("trim {LOG} before=@0 plan=1"), Asked::Trim(LOG)),
        Verb::Lead => (format!("lead {LOG} to=9"), Asked::Lead(LOG)),
        Verb::Scrub => (format!("scrub {LOG}"), Asked::Scrub(LOG)),
        Verb::Save => (format!("save {LOG}"), Asked::Save(LOG)),
        Verb::Fill => {
            let backup = "0".repeat(64);
            let said = format!("fill {LOG} backup={backup} time=1 sessions=1");
            (said, Asked::Fill(LOG))
        }
        Verb::Status => ("status".to_owned(), Asked::Status),
        Verb::Metrics => ("metrics".to_owned(), Asked::Metrics),
        Verb::Logs => ("logs stale=1".to_owned(), Asked::Logs),
        Verb::CreateLog => (format!("create-log {LOG}"), Asked::CreateLog(LOG)),
        Verb::DeleteLog => ("delete-log nothing".to_owned(), Asked::DeleteLog("nothing")),
        Verb::ShowLog => (format!("show-log {LOG}"), Asked::ShowLog(LOG)),
        Verb::Retain => (
            format!("retain {LOG} retention=forever"),
            Asked::Retain(LOG),
        ),
        Verb::Members => ("members local=1".to_owned(), Asked::Members),
        Verb::ChangeMembers => {
            let said = "change-members weight 9 weight=1 plan=1";
            (said.to_owned(), Asked::ChangeMembers)
        }
        Verb::Slots => ("slots".to_owned(), Asked::Slots),
        Verb::ChangeSlots => ("change-slots balance plan=1".to_owned(), Asked::ChangeSlots),
        Verb::Tokens => ("tokens".to_owned(), Asked::Tokens),
        Verb::PutToken => {
            let said = format!("put-token other sha256={hash} grants=read%20on%20log/other");
            (said, Asked::PutToken)
        }
        Verb::RotateToken => {
            let said = format!("rotate-token none sha256={hash} overlap=0");
            (said, Asked::RotateToken)
        }
        Verb::RevokeToken => ("revoke-token none".to_owned(), Asked::RevokeToken),
        Verb::Issuers => ("issuers".to_owned(), Asked::Issuers),
        Verb::PutIssuer => {
            let said = format!("put-issuer other keys={key} grants=read%20on%20log/other");
            (said, Asked::PutIssuer)
        }
        Verb::RemoveIssuer => ("remove-issuer none".to_owned(), Asked::RemoveIssuer),
        Verb::SetAuth => ("set-auth on plan=1".to_owned(), Asked::SetAuth),
        Verb::WhoAmI => ("whoami".to_owned(), Asked::WhoAmI),
        Verb::Explain => (format!("explain read log/{LOG} token=root"), Asked::Explain),
        Verb::Audit => ("audit".to_owned(), Asked::Audit),
        // Its disk is none, so that whoever may join does not.
        Verb::Join => (
            "join address=nowhere:1 disk=zz speaks=1-2".to_owned(),
            Asked::Join,
        ),
        Verb::Peer => return None,
    })
}

fn table() -> Vec<Line> {
    let verbs = Verb::ALL.iter().filter_map(|verb| of_verb(*verb));
    let mut lines: Vec<Line> = verbs
        .map(|(said, asked)| Line {
            door: Door::Pipe,
            said,
            asked,
        })
        .collect();
    let (space, path) = ("default", "chat/42");
    let create = |is_filled, source| Asked::CreateStream {
        space,
        path,
        is_filled,
        source,
    };
    for (said, asked) in [
        ("PUT /v1/stream/chat/42", create(false, None)),
        (
            "POST /v1/stream/chat/42",
            Asked::AppendStream { space, path },
        ),
        ("GET /v1/stream/chat/42", Asked::ReadStream { space, path }),
        ("HEAD /v1/stream/chat/42", Asked::ReadStream { space, path }),
        (
            "DELETE /v1/stream/gone",
            Asked::DeleteStream {
                space,
                path: "gone",
            },
        ),
        ("GET /v1/list/default", Asked::ListStreams { space }),
        ("GET /v1/limits/default", Asked::ShowLimits { space }),
        ("PATCH /v1/limits/default", Asked::SetLimits { space }),
        ("GET /v1/openapi.json", Asked::DescribeHttp),
        ("OPTIONS /v1/stream/chat/42", Asked::DescribeHttp),
        ("GET /healthz", Asked::Health),
        // A node that follows passes these on to the one that leads.
        ("GET /v1/log/main", Asked::Read(LOG)),
        ("HEAD /v1/log/main", Asked::Read(LOG)),
        ("POST /v1/log/main", Asked::Append(LOG)),
        ("PUT /v1/log/main", Asked::CreateLog(LOG)),
        ("DELETE /v1/log/nothing", Asked::DeleteLog("nothing")),
    ] {
        lines.push(Line {
            door: Door::Http,
            said: said.to_owned(),
            asked,
        });
    }
    for (said, asked) in [
        ("PING", Asked::Connection),
        ("GET app:1", Asked::ReadKeys(vec![b"app:1"])),
        ("SETEX app:1 60 x", Asked::WriteKeys(vec![b"app:1"])),
        ("SCAN 0 MATCH app:*", Asked::ScanKeys(b"app:")),
        ("DBSIZE", Asked::CountKeys),
        ("FLUSHALL", Asked::FlushKeys),
        ("INFO", Asked::ServerStatus),
        ("CONFIG SET nothing x", Asked::ServerSettings),
    ] {
        lines.push(Line {
            door: Door::Keys,
            said: said.to_owned(),
            asked,
        });
    }
    lines
}

#[test]
fn everything_that_can_be_asked_has_a_line_at_its_door() {
    let lines = table();
    let have: BTreeSet<&str> = lines.iter().map(|line| door_of(&line.asked).1).collect();
    // Those of the enum, as its source has them: the match above has all of them.
    let source = include_str!("judged.rs");
    let arms = source
        .lines()
        .filter(|line| line.trim_start().starts_with("Asked::"));
    let arms = arms.filter(|line| line.contains("(Door::") && line.contains(" => "));
    let mut count = 0;
    for arm in arms.filter(|arm| !arm.contains("Door::Other")) {
        let name = arm.split('"').nth(1).expect("a name");
        assert!(have.contains(name), "{name} has no line in the table");
        count += 1;
    }
    assert!(count > 45, "{count} arms were found");
}

/// A kind of asker.
enum Shows {
    Nothing,
    Bearer(String),
    /// The directory with a client's certificate.
    Certificate(PathBuf),
    Socket,
}

struct Asker {
    name: String,
    shows: Shows,
    principal: Principal,
    /// Its grants; none where it is nobody.
    grants: Option<Grants>,
}

struct Bed {
    cluster: Cluster,
    certs: Certs,
    http: Vec<String>,
    keys: Vec<String>,
    socket: String,
}

impl Bed {
    fn start() -> Bed {
        let (mut certs, mut http, mut keys) = (None, Vec::new(), Vec::new());
        let cluster = Cluster::start_with(3, 3, |node| {
            let (ip, _) = node.listen.split_once(':').expect("a port");
            let beside = node.data.parent().expect("the cluster's").join("certs");
            let certs = certs.get_or_insert_with(|| Certs::make(beside, ip));
            let words = certs.of_node(&format!("n{}", node.id), "accept");
            http.push(format!("{ip}:708{}", node.id));
            keys.push(format!("{ip}:709{}", node.id));
            let at = http.len() - 1;
            let more = ["--http", &http[at], "--kv", &keys[at]].map(str::to_owned);
            node.arguments.extend(words.into_iter().chain(more));
        });
        cluster.wait_whole();
        let socket = format!("unix:{}/admin.sock", cluster.nodes[0].data.display());
        let bed = Bed {
            cluster,
            certs: certs.expect("there are nodes"),
            http,
            keys,
            socket,
        };
        bed.run(&["token", "create", "root", "--allow", "all on *"]);
        bed.run(&["auth", "enable", "--wait"]);
        bed
    }

    fn run(&self, words: &[&str]) -> String {
        let ca = self.certs.ca();
        let mut command = logberg(&self.socket, words);
        let output = command.args(["--ca", &ca]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", err(&output));
        out(&output).trim().to_owned()
    }

    /// Those who have a grant of just this, by a token, a certificate and a ticket.
    fn askers(
        &self,
        number: usize,
        allowed: &[&str],
        ticket: &dyn Fn(&[&str], i64) -> String,
    ) -> Vec<Asker> {
        let mut allow = Vec::new();
        allowed
            .iter()
            .for_each(|grant| allow.extend(["--allow", grant]));
        let grants = Grants::parse(allowed.iter().copied()).expect("grants");
        let (by_token, by_certificate) = (format!("t{number}"), format!("c{number}"));
        let made = self.run(&[&["token", "create", &by_token][..], &allow].concat());
        self.certs.run(&["client", &by_certificate]);
        self.run(&[&["token", "bind-certificate", &by_certificate][..], &allow].concat());
        let name = |text: &str| TokenName::new(text).expect("a name");
        let issuer = Grants::parse(ISSUER.iter().copied()).expect("grants");
        vec![
            Asker {
                principal: Principal::Token(name(&by_token)),
                shows: Shows::Bearer(made),
                grants: Some(grants.clone()),
                name: format!("a token that may {}", allowed.join("; ")),
            },
            Asker {
                principal: Principal::Certificate(name(&by_certificate)),
                shows: Shows::Certificate(self.certs.directory.join(&by_certificate)),
                grants: Some(grants.clone()),
                name: format!("a certificate that may {}", allowed.join("; ")),
            },
            Asker {
                principal: Principal::Ticket("backend/alice".to_owned()),
                shows: Shows::Bearer(ticket(allowed, 3_600)),
                // ‡ Cut to its issuer's.
                grants: Some(grants.within(&issuer)),
                name: format!("a ticket that says {}", allowed.join("; ")),
            },
        ]
    }
}

/// All that no administrator is needed for.
const ISSUER: [&str; 5] = [
    "all on log/*",
    "all on stream/default/*",
    "all on key/*",
    "status on cluster",
    "lead on cluster",
];

/// The grants that each line is asked with, and all others without.
const GRANTS: [&[&str]; 10] = [
    &[
        "append on log/main",
        "append on stream/default/chat/*",
        "append on key/app:*",
    ],
    &[
        "read on log/main",
        "read on stream/default/*",
        "read on key/*",
    ],
    &["trim,create on log/main"],
    &[
        "lead,status on log/main",
        "create on stream/default/chat/42",
    ],
    &[
        "delete on log/nothing",
        "delete on stream/default/gone",
        "delete on key/*",
    ],
    &["status on cluster"],
    &["members on cluster"],
    &["tokens on cluster", "read on log/other"],
    &["join on cluster"],
    &["all on *"],
];

/// A connection, in plain text or by TLS.
enum Wire {
    Plain(TcpStream),
    Unix(UnixStream),
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Wire::Plain(socket) => socket.read(into),
            Wire::Unix(socket) => socket.read(into),
        }
    }
}

impl Wire {
    fn dial(bed: &Bed, server: &str, own: Option<&Path>, by_tls: bool) -> Wire {
        let socket = TcpStream::connect(server).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        if !by_tls {
            return Wire::Plain(socket);
        }
        let trust = tls::Trust::read(Path::new(&bed.certs.ca())).expect("an authority");
        let trust = match own {
            Some(own) => trust
                .showing(&own.join("tls.crt"), &own.join("tls.key"))
                .expect("a pair"),
            None => trust,
        };
        let secured = trust.secure(socket, server, PATIENCE).expect("a handshake");
        secured
            .socket
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket");
        Wire::Unix(secured.socket)
    }

    /// The first line of the answer to that.
    fn line(mut self, said: &[u8]) -> String {
        let sent = match &mut self {
            Wire::Plain(socket) => socket.write_all(said),
            Wire::Unix(socket) => socket.write_all(said),
        };
        sent.expect("sent");
        self.first_line()
    }

    fn first_line(&mut self) -> String {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while let Ok(1) = self.read(&mut byte) {
            if byte[0] == b'\n' || line.len() > 300 {
                break;
            }
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }
}

/// How an asker fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Served,
    Unauthenticated,
    Forbidden,
}

fn ask(bed: &Bed, at: usize, line: &Line, by: &Asker, by_tls: bool) -> (Fate, String) {
    let own = match &by.shows {
        Shows::Certificate(own) => Some(own.as_path()),
        _ => None,
    };
    let bearer = match &by.shows {
        Shows::Bearer(text) => Some(text.as_str()),
        _ => None,
    };
    match line.door {
        Door::Pipe => {
            let shown = bearer.map(wire::auth::line).unwrap_or_default();
            let said = format!("{shown}logberg/1 {}\n", line.said);
            let wire = match by.shows {
                Shows::Socket => {
                    let path = bed.cluster.nodes[at].data.join("admin.sock");
                    let socket = UnixStream::connect(path).expect("it is there");
                    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
                    Wire::Unix(socket)
                }
                _ => Wire::dial(bed, &bed.cluster.nodes[at].listen, own, by_tls),
            };
            let answer = wire.line(said.as_bytes());
            let code = answer.strip_prefix("error ").unwrap_or_default();
            let fate = match code.split([' ', ':']).next() {
                Some("unauthenticated") => Fate::Unauthenticated,
                Some("forbidden") => Fate::Forbidden,
                _ => Fate::Served,
            };
            (fate, answer)
        }
        Door::Http => {
            let bearer = bearer.map(|text| format!("Authorization: Bearer {text}\r\n"));
            let body = match line.said.split(' ').next() {
                Some("POST") => "Content-Type: text/plain\r\nContent-Length: 1\r\n\r\nx",
                Some("PATCH") => "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
                Some("PUT") => "Content-Type: text/plain\r\nContent-Length: 0\r\n\r\n",
                _ => "\r\n",
            };
            let said = format!(
                "{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{}{body}",
                line.said,
                bed.http[at],
                bearer.unwrap_or_default()
            );
            let answer = Wire::dial(bed, &bed.http[at], own, by_tls).line(said.as_bytes());
            let fate = match answer.split(' ').nth(1) {
                Some("401") => Fate::Unauthenticated,
                Some("403") => Fate::Forbidden,
                // ‡ Where no grant touches it, it is as if it were not there.
                Some("404") if !may(line, by) => Fate::Forbidden,
                _ => Fate::Served,
            };
            (fate, answer)
        }
        Door::Keys => {
            let words: Vec<&str> = line.said.split(' ').collect();
            let mut said = Vec::new();
            if let Some(bearer) = bearer {
                said.extend(crate::keys::request(&["AUTH", bearer]));
            }
            said.extend(crate::keys::request(&words));
            let mut wire = Wire::dial(bed, &bed.keys[at], own, by_tls);
            let sent = match &mut wire {
                Wire::Plain(socket) => socket.write_all(&said),
                Wire::Unix(socket) => socket.write_all(&said),
            };
            sent.expect("sent");
            let first = wire.first_line();
            let answer = match bearer {
                Some(_) if first.starts_with("+OK") => wire.first_line(),
                _ => first,
            };
            let fate = match answer.split(' ').next() {
                Some("-NOAUTH" | "-WRONGPASS") => Fate::Unauthenticated,
                Some("-NOPERM") => Fate::Forbidden,
                _ => Fate::Served,
            };
            (fate, answer)
        }
        Door::Other => unreachable!("the table has none"),
    }
}

fn may(line: &Line, by: &Asker) -> bool {
    let needs = line.asked.needs();
    let decided = |need| decide(&by.principal, by.grants.as_ref(), need).is_ok();
    needs.iter().all(decided)
}

/// By the one table.
fn expected(line: &Line, by: &Asker, is_known: bool) -> Fate {
    let is_nobody = by.grants.is_none() && !by.principal.may_all();
    let has_a_part = line.asked.has_a_part() && line.door == Door::Pipe;
    let is_list = matches!(line.asked, Asked::ListStreams { .. });
    match (may(line, by), is_nobody) {
        // ‡ A credential that is not good is refused, whatever it was shown for.
        _ if !is_known => Fate::Unauthenticated,
        // By Redis' protocol whoever shows nothing is told to say who he is.
        (true, true) if line.door == Door::Keys => Fate::Unauthenticated,
        (true, _) => Fate::Served,
        (false, true) => Fate::Unauthenticated,
        (false, false) if has_a_part || is_list => Fate::Served,
        (false, false) => Fate::Forbidden,
    }
}

#[test]
fn everything_is_judged_for_everybody_at_every_door() {
    let bed = Bed::start();
    let seed = [9; 32];
    let key = SigningKey::of_seed(&seed).expect("a key");
    let file = bed.certs.directory.join("backend.pub");
    std::fs::write(&file, key.public().pem()).expect("room");
    let mut allow = Vec::new();
    ISSUER
        .iter()
        .for_each(|grant| allow.extend(["--allow", grant]));
    let add = [
        "issuer",
        "add",
        "backend",
        "--public-key",
        file.to_str().expect("plain"),
    ];
    bed.run(&[&add[..], &allow].concat());
    let status: serde_json::Value =
        serde_json::from_str(&bed.run(&["status", "--json"])).expect("JSON");
    let cluster = status["cluster"].as_str().expect("its id").to_owned();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("later")
        .as_secs();
    let ticket = |allowed: &[&str], lives: i64| {
        let exp = now.saturating_add_signed(lives);
        let claims = Claims {
            iss: "backend".to_owned(),
            sub: "alice".to_owned(),
            aud: Audience::One(cluster.clone()),
            iat: exp - 3_600,
            exp,
            nbf: None,
            allow: allowed.iter().map(|grant| (*grant).to_owned()).collect(),
        };
        sign(&claims, &key).expect("a ticket").reveal().to_owned()
    };
    let nobody = |name: &str, shows: Shows| Asker {
        name: name.to_owned(),
        shows,
        principal: Principal::Anonymous,
        grants: None,
    };
    let short = [
        "token",
        "create",
        "short",
        "--allow",
        "all on *",
        "--expires",
        "1s",
    ];
    let expired = bed.run(&short);
    let revoked = bed.run(&["token", "create", "revoked", "--allow", "all on *"]);
    bed.run(&["token", "revoke", "revoked", "--yes", "--wait"]);
    bed.certs.run(&["client", "unbound"]);
    let unbound = bed.certs.directory.join("unbound");
    // Each with whether what it shows is known to anybody.
    let strangers = [
        (nobody("nobody", Shows::Nothing), true),
        (
            nobody("a certificate of nobody", Shows::Certificate(unbound)),
            true,
        ),
        (nobody("an expired token", Shows::Bearer(expired)), false),
        (nobody("a revoked token", Shows::Bearer(revoked)), false),
        (
            nobody(
                "an expired ticket",
                Shows::Bearer(ticket(&["all on *"], -10)),
            ),
            false,
        ),
    ];
    let socket = Asker {
        name: "the socket".to_owned(),
        shows: Shows::Socket,
        principal: Principal::Socket,
        grants: None,
    };
    let granted: Vec<Vec<Asker>> = GRANTS
        .iter()
        .enumerate()
        .map(|(number, grants)| bed.askers(number, grants, &ticket))
        .collect();
    std::thread::sleep(Duration::from_secs(2));
    let leader = bed.cluster.leader(LOG);
    let lines = table();
    let (mut wrong, mut count, mut served) = (Vec::new(), 0, 0);
    for at in [leader, (leader + 1) % 3] {
        // Each node has heard of all that was made.
        for by in granted.iter().flatten() {
            let status = Line {
                door: Door::Pipe,
                said: "whoami".to_owned(),
                asked: Asked::WhoAmI,
            };
            wait_for(
                || (ask(&bed, at, &status, by, true).0 == Fate::Served).then_some(()),
                || bed.cluster.logs(),
            );
        }
        for (number, line) in lines.iter().enumerate() {
            let all_known = granted.iter().flatten().map(|by| (by, true));
            // With it, and some of those without.
            let fits = |by: &Asker| may(line, by);
            let chosen: Vec<(&Asker, bool)> = all_known
                .enumerate()
                .filter(|(place, (by, _))| fits(by) || (place + number) % 5 == 0)
                .map(|(_, chosen)| chosen)
                .collect();
            let strange = strangers.iter().map(|(by, is_known)| (by, *is_known));
            let own = (line.door == Door::Pipe).then_some((&socket, true));
            for (by, is_known) in chosen.into_iter().chain(strange).chain(own) {
                for by_tls in [false, true] {
                    let needs_tls = matches!(by.shows, Shows::Certificate(_));
                    if (needs_tls && !by_tls) || (matches!(by.shows, Shows::Socket) && by_tls) {
                        continue;
                    }
                    let wanted = expected(line, by, is_known);
                    let (fate, answer) = ask(&bed, at, line, by, by_tls);
                    count += 1;
                    served += usize::from(fate == Fate::Served);
                    if fate != wanted {
                        wrong.push(format!(
                            "{} by {} at node {} (TLS: {by_tls}): {fate:?}, and not {wanted:?}: {answer}",
                            line.said,
                            by.name,
                            at + 1
                        ));
                    }
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        count > 1_500 && served > 300,
        "{count} asked, {served} served"
    );
}
