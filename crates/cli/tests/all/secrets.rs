//! No secret that was used in a run stands in anything that the run said or kept: journals of nodes and of commands with all that they can
//! say, what doors tell about clients, and disks.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::Duration;

use crate::harness;
use crate::tokens::{holds, reply, secret_of, unix};

use harness::{BINARY, Node, err, out, wait_for};

/// A node that says all that it can.
struct Talkative {
    node: Node,
    child: Child,
    journal: PathBuf,
}

impl Talkative {
    fn start(node: Node) -> Talkative {
        let journal = node.data.with_extension("trace");
        let mut command = node.command();
        command.env("LOGBERG_LOG", "trace");
        command.stderr(File::create(&journal).expect("a file"));
        let child = command.spawn().expect("the binary runs");
        Talkative {
            node,
            child,
            journal,
        }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.journal).expect("a journal")
    }
}

impl Drop for Talkative {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run: what was said in it, and the secrets that were used.
#[derive(Default)]
struct Run {
    said: RefCell<Vec<(String, String)>>,
    secrets: RefCell<Vec<String>>,
}

impl Run {
    fn keep(&self, who: &str, said: &str) {
        let mut all = self.said.borrow_mut();
        all.push((who.to_owned(), said.to_owned()));
    }

    /// A token whose secret is to be found nowhere.
    fn secret(&self, token: &str) -> String {
        let token = token.trim().to_owned();
        let secret = secret_of(&token);
        assert_eq!(secret.len(), 43, "of 32 bytes");
        self.secrets.borrow_mut().push(secret.to_owned());
        token
    }

    /// A command that says all that it can; what it says on standard error is kept, and where nothing is made for the caller, all.
    fn ask(&self, server: &str, token: Option<&str>, arguments: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command.args(["--server", server]).args(arguments);
        command.env("LOGBERG_LOG", "trace");
        command.env_remove("LOGBERG_TOKEN");
        if let Some(token) = token {
            command.env("LOGBERG_TOKEN", token);
        }
        let output = command.output().expect("the binary runs");
        let who = arguments.join(" ");
        self.keep(&who, &err(&output));
        // These two print a token: that is what they are for.
        let makes = arguments.starts_with(&["token", "create"])
            || arguments.starts_with(&["token", "rotate"]);
        if !makes {
            self.keep(&who, &out(&output));
        }
        output
    }

    fn made(&self, server: &str, token: Option<&str>, arguments: &[&str]) -> String {
        let made = self.ask(server, token, arguments);
        assert_eq!(made.status.code(), Some(0), "{arguments:?}: {}", err(&made));
        self.secret(&out(&made))
    }

    /// Who tells a secret.
    fn leak(&self) -> Option<String> {
        let (said, secrets) = (self.said.borrow(), self.secrets.borrow());
        let tells = |said: &str| secrets.iter().any(|secret| said.contains(secret));
        let found = said.iter().find(|(_, said)| tells(said));
        found.map(|(who, _)| who.clone())
    }
}

/// Says these bytes to a port, and hears what comes.
fn say(port: &str, bytes: &str) -> String {
    let mut stream = TcpStream::connect(port).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a socket");
    let _ = stream.write_all(bytes.as_bytes());
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    String::from_utf8_lossy(&heard).into_owned()
}

#[test]
fn no_journal_no_answer_and_no_disk_has_a_secret_of_the_run() {
    let place = tempfile::tempdir().expect("a place");
    let place = place.path();
    let ip = harness::own_ip();
    let [pipe, second, kv, http, admin] =
        ["7117", "7118", "6379", "8080", "7217"].map(|port| format!("{ip}:{port}"));
    let run = Run::default();
    let arguments = ["--bootstrap", "--voters", "1", "--insecure", "--kv", &kv];
    let arguments = [&arguments[..], &["--http", &http, "--admin", &admin]].concat();
    let first = Talkative::start(Node::new(place.join("n1"), pipe.clone(), &arguments));
    wait_for(|| harness::ask(&pipe, "status"), || first.said());
    let socket = unix(&first.node);

    let allow = ["--allow", "all on *"];
    let root = run.made(
        &socket,
        None,
        &[&["token", "create", "root"][..], &allow].concat(),
    );
    wait_for(
        || {
            let init = run.ask(&socket, None, &["kv", "init"]);
            (init.status.code() == Some(0)).then_some(())
        },
        || first.said(),
    );
    let well = |token: &str, arguments: &[&str]| {
        let done = run.ask(&pipe, Some(token), arguments);
        assert_eq!(done.status.code(), Some(0), "{arguments:?}: {}", err(&done));
    };
    well(&root, &["auth", "enable", "--wait"]);

    // The pipe: tokens that are good, were replaced, were revoked, never were, and are none.
    let create = [
        "token",
        "create",
        "app",
        "--allow",
        "read,append on log/main",
    ];
    let grants = [
        "--allow",
        "read,append on key/*",
        "--allow",
        "all on stream/default/*",
    ];
    let old = run.made(&pipe, Some(&root), &[&create[..], &grants].concat());
    let app = run.made(
        &pipe,
        Some(&root),
        &["token", "rotate", "app", "--overlap", "0s"],
    );
    let gone = run.made(
        &pipe,
        Some(&root),
        &[&["token", "create", "gone"][..], &allow].concat(),
    );
    well(&root, &["token", "revoke", "gone", "--yes", "--wait"]);
    let never = run.secret(&format!("lgb_never_{}", "Zq7".repeat(14) + "A"));
    let torn = run.secret(&format!("lgb_app\u{e9}_{}", "Wq7".repeat(14) + "A"));
    let input = place.join("input");
    fs::write(&input, [1; 10_000]).expect("room");
    well(&app, &["append", "main", input.to_str().expect("plain")]);
    well(&app, &["auth", "whoami"]);
    well(&root, &["token", "list", "--json"]);
    well(&root, &["token", "show", "app", "--json"]);
    well(&root, &["audit", "--json"]);
    run.ask(&pipe, Some(&root), &["status", "--json"]);
    for token in [&old, &gone, &never, &torn] {
        for arguments in [
            &["read", "main"][..],
            &["status"],
            &["kv", "status"],
            &["token", "list"],
        ] {
            let refused = run.ask(&pipe, Some(token), arguments);
            assert_ne!(refused.status.code(), Some(0), "{arguments:?}");
        }
        let file = place.join("file");
        fs::write(&file, format!("{token} and more")).expect("room");
        let file = file.to_str().expect("plain");
        run.ask(&pipe, None, &["auth", "whoami", "--token-file", file]);
        fs::remove_file(file).expect("it is there");
    }
    let tokens = [&root, &app, &old, &gone, &never, &torn];
    for token in tokens {
        for line in [
            format!("logberg/1 auth {token}\nlogberg/1 whoami\n"),
            format!("logberg/1 auth {token}\nlogberg/1 nothing {token}\n"),
            format!("logberg/1 auth {token} {token}\nlogberg/1 whoami\n"),
            format!("logberg/1 auth token={token}\n"),
            format!("logberg/1 auth {token}"),
            format!("GET / HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n"),
        ] {
            say(&pipe, &line);
        }
    }

    // Over HTTP, with tokens where they belong and where they do not.
    let body = "Content-Type: text/plain\r\nContent-Length: 1";
    for token in tokens {
        for head in [
            format!("PUT /v1/stream/a HTTP/1.1\r\nAuthorization: Bearer {token}\r\n{body}"),
            format!("GET /v1/stream/a HTTP/1.1\r\nAuthorization: Bearer {token}"),
            format!("GET /v1/list/default HTTP/1.1\r\nAuthorization: Basic {token}"),
            format!("GET /v1/stream/a?offset=-1&ticket={token} HTTP/1.1"),
            format!("GET /healthz HTTP/1.1\r\nCookie: {token}"),
        ] {
            say(
                &http,
                &format!("{head}\r\nHost: {http}\r\nConnection: close\r\n\r\na"),
            );
        }
        let head = format!("GET /metrics HTTP/1.1\r\nAuthorization: Bearer {token}");
        let told = say(
            &admin,
            &format!("{head}\r\nHost: {admin}\r\nConnection: close\r\n\r\n"),
        );
        run.keep("/metrics", &told);
    }

    // Redis' clients. Every command is slow, so that the slow log has what it may.
    let mut client = TcpStream::connect(&kv).expect("it listens");
    assert_eq!(reply(&mut client, &["AUTH", &root]), "+OK");
    let slow = ["CONFIG", "SET", "slowlog-log-slower-than", "0"];
    assert_eq!(reply(&mut client, &slow), "+OK");
    for token in tokens {
        let secret = secret_of(token);
        let name = token.split('_').nth(1).expect("a name");
        for words in [
            &["AUTH", token][..],
            &["AUTH", name, secret],
            &["AUTH", "default", token],
            &["AUTH", name, secret, "more"],
            &["HELLO", "2", "AUTH", name, secret],
            &["HELLO", "2", "AUTH", name, secret, "SETNAME", "me"],
            &["GET", "a"],
        ] {
            reply(&mut client, words);
        }
    }
    let tells = |words: &[&str]| {
        let mut stream = TcpStream::connect(&kv).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(2)))
            .expect("a socket");
        let mut bytes = crate::keys::request(&["AUTH", &root]);
        bytes.extend(crate::keys::request(words));
        bytes.extend(crate::keys::request(&["QUIT"]));
        stream.write_all(&bytes).expect("it takes it");
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        let heard = String::from_utf8_lossy(&heard).into_owned();
        assert!(heard.len() > 20, "{words:?}: {heard}");
        run.keep(&words.join(" "), &heard);
        heard
    };
    let slow = tells(&["SLOWLOG", "GET", "1000"]);
    assert!(
        slow.contains("GET") || slow.contains("get"),
        "it has some: {slow}"
    );
    let refused = tells(&["ACL", "LOG", "100"]);
    assert!(refused.contains("auth"), "{refused}");
    for words in [
        &["CLIENT", "LIST"][..],
        &["ACL", "LIST"],
        &["ACL", "GETUSER", "app"],
        &["INFO", "everything"],
    ] {
        tells(words);
    }

    // A node that joins.
    let once = [
        "token",
        "create",
        "n2",
        "--allow",
        "join on cluster",
        "--once",
    ];
    let join = run.made(&pipe, Some(&root), &once);
    let file = place.join("n2.token");
    fs::write(&file, &join).expect("room");
    let joins = [
        "--join",
        &pipe,
        "--token-file",
        file.to_str().expect("plain"),
    ];
    let joined = Talkative::start(Node::new(place.join("n2"), second, &joins));
    wait_for(
        || {
            let members = run.ask(&pipe, Some(&root), &["members"]);
            out(&members).contains(":7118").then_some(())
        },
        || joined.said(),
    );
    for node in [&first, &joined] {
        let said = node.said();
        assert!(
            said.contains("TRACE") || said.contains("DEBUG"),
            "it says all"
        );
        run.keep("a node", &said);
        for secret in &*run.secrets.borrow() {
            let data: &Path = &node.node.data;
            assert!(!holds(data, secret.as_bytes()), "a disk has a secret");
        }
    }
    assert!(first.said().contains("audit"), "refusals were told");
    assert!(run.secrets.borrow().len() >= 7);
    assert_eq!(run.leak(), None);
    // One that is told is found.
    run.keep("somebody", &format!("a line\nwith {app} in it"));
    assert_eq!(run.leak().as_deref(), Some("somebody"));
}
