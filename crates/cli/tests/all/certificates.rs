//! Clients by their certificates, at every door of real nodes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use client::Transport;

use crate::harness::{Cluster, err, logberg, out, wait_for};

/// Three nodes with all doors, by TLS alone, and what clients of them need.
struct Bed {
    cluster: Cluster,
    certs: String,
    socket: String,
    root: String,
    http: Vec<String>,
    keys: String,
}

fn certs_run(directory: &str, words: &[&str]) -> Output {
    let mut command = logberg("127.0.0.1:1", &["certs"]);
    let output = command.args(words).args(["--dir", directory]).output();
    output.expect("the binary runs")
}

fn done(output: &Output) -> String {
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        err(output),
        out(output)
    );
    out(output)
}

impl Bed {
    fn start() -> Bed {
        let (mut certs, mut http, mut keys) = (String::new(), Vec::new(), String::new());
        let cluster = Cluster::start_with(3, 3, |node| {
            let (ip, _) = node.listen.split_once(':').expect("a port");
            if certs.is_empty() {
                let beside = node.data.parent().expect("the cluster's").join("certs");
                certs = beside.display().to_string();
                done(&certs_run(&certs, &["init"]));
            }
            let name = format!("n{}", node.id);
            done(&certs_run(&certs, &["node", &name, "--host", ip]));
            let own = format!("{certs}/{name}");
            http.push(format!("{ip}:708{}", node.id));
            let mut more = vec![
                "--tls",
                "require",
                "--tls-dir",
                &own,
                "--http",
                &http[http.len() - 1],
            ];
            if node.id == 1 {
                keys = format!("{ip}:7099");
                more.extend(["--kv", &keys]);
            }
            node.arguments.extend(more.into_iter().map(str::to_owned));
        });
        cluster.wait_whole();
        let socket = format!("unix:{}/admin.sock", cluster.nodes[0].data.display());
        let ca = format!("{certs}/ca.crt");
        let run = |words: &[&str]| {
            let mut command = logberg(&socket, words);
            done(&command.args(["--ca", &ca]).output().expect("it runs"))
        };
        let root = run(&["token", "create", "root", "--allow", "all on *"]);
        let root = root.trim().to_owned();
        run(&["auth", "enable", "--wait"]);
        Bed {
            cluster,
            certs,
            socket,
            root,
            http,
            keys,
        }
    }

    fn ca(&self) -> String {
        format!("{}/ca.crt", self.certs)
    }

    fn files(&self, name: &str) -> [String; 2] {
        ["tls.crt", "tls.key"].map(|file| format!("{}/{name}/{file}", self.certs))
    }

    /// A command of a client that shows that certificate.
    fn command(&self, name: &str, words: &[&str]) -> Command {
        let mut command = self.cluster.logberg(words);
        let [certificate, key] = self.files(name);
        command.args(["--ca", &self.ca(), "--cert", &certificate, "--key", &key]);
        command
    }

    fn run(&self, name: &str, words: &[&str]) -> Output {
        self.command(name, words).output().expect("it runs")
    }

    fn fed(&self, name: &str, words: &[&str], input: &[u8]) -> Output {
        let mut command = self.command(name, words);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it runs");
        let _ = child.stdin.take().expect("piped").write_all(input);
        child.wait_with_output().expect("it ends")
    }

    fn as_root(&self, words: &[&str]) -> Output {
        let mut command = logberg(&self.socket, words);
        command
            .args(["--ca", &self.ca()])
            .output()
            .expect("it runs")
    }

    /// A connection by TLS that shows that certificate.
    fn dial(&self, name: &str, server: &str) -> client::Secured {
        let [certificate, key] = self.files(name);
        let trust = tls::Trust::read(Path::new(&self.ca())).expect("an authority");
        let trust = trust.showing(Path::new(&certificate), Path::new(&key));
        let socket = TcpStream::connect(server).expect("it listens");
        let within = Duration::from_secs(10);
        let secured = trust.expect("a pair").secure(socket, server, within);
        let secured = secured.expect("a handshake");
        secured
            .socket
            .set_read_timeout(Some(within))
            .expect("a socket");
        secured
    }

    /// The door's answer to these words.
    fn said(&self, name: &str, server: &str, words: &str) -> String {
        let mut socket = self.dial(name, server).socket;
        say(&mut socket, words)
    }
}

fn say(socket: &mut std::os::unix::net::UnixStream, words: &str) -> String {
    socket.write_all(words.as_bytes()).expect("sent");
    let mut answer = vec![0; 4096];
    let count = socket.read(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer[..count]).into_owned()
}

#[test]
fn a_client_by_its_certificate_is_somebody_at_every_door_until_it_is_revoked() {
    let bed = Bed::start();
    done(&certs_run(&bed.certs, &["client", "alice"]));
    let shown = done(
        &logberg("127.0.0.1:1", &["certs", "show", &bed.files("alice")[0]])
            .output()
            .expect("it runs"),
    );
    assert!(shown.contains("of client alice"), "{shown}");
    // It is nobody's yet.
    let refused = bed.run("alice", &["read", "main"]);
    assert_eq!(refused.status.code(), Some(4), "{}", err(&refused));
    assert!(
        err(&refused).contains("bind-certificate alice"),
        "{}",
        err(&refused)
    );
    let who = done(&bed.run("alice", &["auth", "whoami"]));
    assert!(who.starts_with("anonymous"), "{who}");
    let words = [
        "token",
        "bind-certificate",
        "alice",
        "--allow",
        "read,append on log/main",
        "--allow",
        "all on key/a*",
        "--allow",
        "create,read,append on stream/default/a*",
    ];
    let bound = done(&bed.as_root(&words));
    assert!(bound.contains("certificate alice may"), "{bound}");
    // At the nodes' ports, wherever the log is led.
    let who = done(&bed.run("alice", &["auth", "whoami"]));
    assert!(who.starts_with("certificate alice"), "{who}");
    done(&bed.fed("alice", &["append", "main"], b"by certificate\n"));
    let read = done(&bed.run("alice", &["read", "main"]));
    assert_eq!(read, "by certificate\n");
    let denied = bed.run("alice", &["log", "create", "b"]);
    assert!(
        err(&denied).contains("certificate `alice`"),
        "{}",
        err(&denied)
    );
    // Over HTTP: streams, and logs, which the door asks of whichever node leads them.
    let put = || {
        let words = [
            "stream",
            "put",
            "a1",
            "--type",
            "text/plain",
            "--http",
            &bed.http[0],
        ];
        (bed.run("alice", &words).status.code() == Some(0)).then_some(())
    };
    wait_for(put, || bed.cluster.logs());
    for http in &bed.http {
        let list = || {
            let listed = bed.run("alice", &["stream", "ls", "--http", http.as_str()]);
            (listed.status.code() == Some(0) && out(&listed).contains("a1")).then_some(())
        };
        wait_for(list, || bed.cluster.logs());
        let get = |log: &str| format!("GET /v1/log/{log} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let read = || {
            let said = bed.said("alice", http, &get("main"));
            said.starts_with("HTTP/1.1 200").then_some(said)
        };
        wait_for(read, || bed.cluster.logs());
        let other = bed.said("alice", http, &get("directory"));
        assert!(other.starts_with("HTTP/1.1 40"), "{other}");
        // ‡ A certificate is shown by a browser for every page: pages of others are refused.
        let page =
            "GET /v1/log/main HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n";
        let page = bed.said("alice", http, page);
        assert!(page.starts_with("HTTP/1.1 403"), "{page}");
    }
    let other = bed.run("alice", &["stream", "put", "b1", "--http", &bed.http[0]]);
    assert_ne!(other.status.code(), Some(0));
    // For Redis' clients.
    let own = bed.said("alice", &bed.keys, "GET a1\r\n");
    assert!(!own.starts_with("-NO"), "{own}");
    let who = bed.said("alice", &bed.keys, "ACL WHOAMI\r\n");
    assert!(who.contains("alice"), "{who}");
    let noperm = bed.said("alice", &bed.keys, "SET b1 7\r\n");
    assert!(noperm.starts_with("-NOPERM"), "{noperm}");
    // A token that is shown counts more, and RESET leads back to the certificate.
    let mut socket = bed.dial("alice", &bed.keys).socket;
    assert_eq!(
        say(&mut socket, &format!("AUTH {}\r\n", bed.root)),
        "+OK\r\n"
    );
    assert!(say(&mut socket, "ACL WHOAMI\r\n").contains("root"));
    assert!(say(&mut socket, "RESET\r\n").contains("RESET"));
    assert!(say(&mut socket, "ACL WHOAMI\r\n").contains("alice"));
    // Connections that are open end when it is revoked, at every door.
    let mut follow = bed.command("alice", &["read", "main", "--follow"]);
    let mut follow = follow
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let revoked = bed.as_root(&["token", "revoke", "alice", "--yes", "--wait"]);
    let revoked = done(&revoked);
    assert!(
        revoked.contains("certificate alice is revoked"),
        "{revoked}"
    );
    let ended = wait_for(
        || follow.try_wait().expect("our child"),
        || bed.cluster.logs(),
    );
    assert_eq!(ended.code(), Some(4));
    let gone = || {
        say(&mut socket, "GET a1\r\n")
            .starts_with("-NOAUTH")
            .then_some(())
    };
    wait_for(gone, || bed.cluster.logs());
    for http in &bed.http {
        let get = "GET /v1/log/main HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let said = bed.said("alice", http, get);
        assert!(said.starts_with("HTTP/1.1 401"), "{said}");
    }
    // The audit has both.
    let audit = done(&bed.as_root(&["audit"]));
    assert!(audit.contains("the certificate alice"), "{audit}");
}

#[test]
fn what_is_said_of_certificates_wrongly_is_refused_with_the_remedy() {
    let directory = tempfile::tempdir().expect("a directory");
    let certs = directory.path().join("certs").display().to_string();
    done(&certs_run(&certs, &["init"]));
    done(&certs_run(&certs, &["client", "alice"]));
    done(&certs_run(&certs, &["node", "n1", "--host", "127.0.0.1"]));
    for words in [
        &["client", "n1", "--again"][..],
        &["node", "alice", "--host", "a", "--again"],
    ] {
        let kept = certs_run(&certs, words);
        assert_ne!(kept.status.code(), Some(0));
        assert!(err(&kept).contains("choose another name"), "{}", err(&kept));
    }
    let file = |name: &str| format!("{certs}/{name}");
    let (ca, certificate, key) = (file("ca.crt"), file("alice/tls.crt"), file("alice/tls.key"));
    for (words, remedy) in [
        (&["--ca", &ca, "--cert", &certificate][..], "said together"),
        (&["--cert", &certificate, "--key", &key], "say --ca FILE"),
        (
            &[
                "--ca",
                &ca,
                "--cert",
                &file("n1/tls.crt"),
                "--key",
                &file("n1/tls.key"),
            ],
            "names no client",
        ),
        (
            &[
                "--ca",
                &ca,
                "--cert",
                &certificate,
                "--key",
                &file("n1/tls.key"),
            ],
            "is not the key of",
        ),
    ] {
        let mut command = logberg("127.0.0.1:1", &["status"]);
        let output = command.args(words).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        assert!(err(&output).contains(remedy), "{}", err(&output));
    }
}
