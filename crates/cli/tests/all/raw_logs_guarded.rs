//! Logs of bytes over HTTP where tokens are asked for: the token of each request is judged, and no door lends its own.

use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{logberg, out, wait_for};
use crate::http::{self, Answer, Upload};
use crate::raw_logs::Logs;

/// A node that hears nobody for a minute is cut off.
const LONGEST: Duration = Duration::from_secs(150);

struct Guarded {
    logs: Logs,
    /// The index of the node that leads `raw`.
    leader: usize,
    socket: String,
}

impl Guarded {
    /// A cluster with the logs `raw`, `raw-2` and `other` that asks for tokens.
    fn start() -> Guarded {
        let logs = Logs::start("raw");
        for log in ["raw-2", "other"] {
            assert_eq!(logs.insist(1, "PUT", log, &[], b"bytes").status, 201);
        }
        let socket = logs.cluster.nodes[0].data.join("admin.sock");
        let socket = format!("unix:{}", socket.display());
        let leader = logs.cluster.leader("raw");
        let guarded = Guarded {
            logs,
            leader,
            socket,
        };
        guarded.at_socket(&["token", "create", "root", "--allow", "all on *"]);
        guarded.at_socket(&["auth", "enable"]);
        for at in 0..3 {
            wait_for(
                || (guarded.ask(at, "GET", "raw", None, b"").status == 401).then_some(()),
                || guarded.logs.cluster.logs(),
            );
        }
        guarded
    }

    fn at_socket(&self, words: &[&str]) -> String {
        let ran = logberg(&self.socket, words).output().expect("it runs");
        assert!(ran.status.success(), "{words:?}: {ran:?}");
        out(&ran).trim().to_owned()
    }

    /// A token that every node knows.
    fn token(&self, name: &str, allow: &str) -> String {
        let token = self.at_socket(&["token", "create", name, "--allow", allow]);
        for at in 0..3 {
            wait_for(
                || {
                    let known = self.ask(at, "GET", "nothing", Some(&token), b"");
                    (known.status != 401).then_some(())
                },
                || self.logs.cluster.logs(),
            );
        }
        token
    }

    fn ask(&self, at: usize, method: &str, log: &str, token: Option<&str>, body: &[u8]) -> Answer {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let header = bearer.as_ref().map(|bearer| ("Authorization", &**bearer));
        self.logs.ask(at, method, log, header.as_slice(), body)
    }
}

#[test]
fn a_token_may_with_a_log_what_it_may_on_the_pipe_at_every_node() {
    let guarded = Guarded::start();
    let writer = guarded.token("writer", "append on log/raw*");
    let reader = guarded.token("reader", "read on log/raw*");
    let maker = guarded.token("maker", "create,delete on log/new*");
    let nobody = format!("lgb_writer_{}", "A".repeat(43));
    let of = |token: &str, at: usize, method: &str, log: &str, body: &[u8]| {
        guarded.ask(at, method, log, Some(token), body).status
    };
    for at in 0..3 {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE"] {
            let body: &[u8] = if method == "POST" { b"x" } else { b"" };
            assert_eq!(guarded.ask(at, method, "raw", None, body).status, 401);
            assert_eq!(of(&nobody, at, method, "raw", body), 401, "{method}");
        }
        // One of the nodes leads, and two of them ask it: the token goes with the request.
        assert_eq!(of(&writer, at, "POST", "raw", b"x"), 204);
        assert_eq!(of(&writer, at, "GET", "raw", b""), 403);
        assert_eq!(of(&writer, at, "PUT", "raw", b""), 403);
        assert_eq!(of(&writer, at, "DELETE", "raw", b""), 403);
        assert_eq!(of(&reader, at, "GET", "raw-2", b""), 200);
        assert_eq!(of(&reader, at, "HEAD", "raw", b""), 200);
        assert_eq!(of(&reader, at, "GET", "raw?stale=1", b""), 200);
        assert_eq!(of(&reader, at, "POST", "raw", b"x"), 403);
        assert_eq!(of(&reader, at, "DELETE", "raw", b""), 403);
        // What one may do nothing with is as if it were not there.
        for (token, method) in [(&reader, "GET"), (&reader, "HEAD"), (&writer, "POST")] {
            assert_eq!(of(token, at, method, "other", b"x"), 404);
            assert_eq!(of(token, at, method, "nothing", b"x"), 404);
        }
        // Log 0 is nobody's.
        let root = guarded.token(&format!("all-{at}"), "all on *");
        assert!(matches!(of(&root, at, "GET", "directory", b""), 403 | 404));
        // New bytes are an append.
        let log = format!("new-{at}");
        assert_eq!(of(&maker, at, "PUT", &log, b"bytes"), 403);
        assert_eq!(of(&maker, at, "PUT", &log, b""), 201);
        assert_eq!(of(&maker, at, "POST", &log, b"bytes"), 403);
        assert_eq!(of(&maker, at, "DELETE", &log, b""), 204);
        assert_eq!(of(&maker, at, "PUT", "raw-3", b""), 403);
    }
    let mut read = guarded.ask(1, "GET", "raw", Some(&reader), b"");
    assert_eq!(read.text(), "xxx", "what was refused left nothing");
}

#[test]
fn a_request_ends_when_its_token_is_revoked_and_nothing_of_it_is_in_a_journal() {
    let guarded = Guarded::start();
    let writer = guarded.token("writer", "append on log/raw");
    let reader = guarded.token("reader", "read on log/raw");
    let bearer = format!("Bearer {writer}");
    let leader = guarded.leader;
    let at = (leader + 1) % 3;
    let headers = [("Authorization", &*bearer)];
    let upload = Upload::begin(&guarded.logs.doors[at], "POST", "/v1/log/raw", &headers);
    let mut upload = upload.expect("a connection");
    upload.piece(b"before").expect("it is taken");
    let bytes = || guarded.ask(leader, "GET", "raw", Some(&reader), b"").text();
    wait_for(
        || (bytes() == "before").then_some(()),
        || guarded.logs.cluster.logs(),
    );
    let path = "raw?offset=now&live=sse";
    let mut live = guarded.ask(at, "GET", path, Some(&reader), b"");
    assert_eq!(live.status, 200);
    guarded.at_socket(&["token", "revoke", "writer", "--yes"]);
    // It is not at once that the connection is judged again.
    let mut refusal = None;
    for _ in 0..100 {
        if upload.piece(b"behind").is_err() {
            break;
        }
        thread::sleep(Duration::from_millis(50));
        if guarded.ask(at, "POST", "raw", Some(&writer), b"x").status == 401 {
            refusal = Some(());
        }
    }
    assert!(refusal.is_some(), "a revoked token is refused");
    assert_eq!(upload.end().expect("an answer").status, 401);
    let left = bytes();
    assert!(left.starts_with("before"), "what was acknowledged stays");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(bytes(), left, "nothing comes any more");
    guarded.at_socket(&["token", "revoke", "reader", "--yes"]);
    while let Ok(Some(_)) = live.piece() {}
    for node in &guarded.logs.cluster.nodes {
        for token in [&writer, &reader] {
            // A secret may have such a letter itself.
            let secret = token.splitn(3, '_').nth(2).expect("a token");
            assert!(!node.said().contains(secret), "a journal has a secret");
        }
    }
}

#[test]
fn a_body_whose_token_is_revoked_before_its_end_is_not_written() {
    let guarded = Guarded::start();
    let keeper = guarded.token("keeper", "all on *");
    let writer = guarded.token("writer", "all on *");
    let (keeper, writer) = (format!("Bearer {keeper}"), format!("Bearer {writer}"));
    let media = ("Content-Type", "text/plain");
    let door = &guarded.logs.doors[1];
    let ask = |method: &str, path: &str, body: &[u8]| {
        let shown = [("Authorization", keeper.as_str()), media];
        http::ask(door, method, path, &shown, body).expect("an answer")
    };
    wait_for(
        || (ask("PUT", "/v1/stream/s", b"").status < 300).then_some(()),
        || guarded.logs.cluster.logs(),
    );
    let shown = [("Authorization", writer.as_str()), media];
    let begin = |method: &str, path: &str| {
        let upload = Upload::begin(door, method, path, &shown);
        let mut upload = upload.expect("a connection");
        upload.piece(b"{\"streams\":").expect("it is taken");
        upload
    };
    let uploads = [
        begin("POST", "/v1/stream/s"),
        begin("PUT", "/v1/stream/new"),
        begin("PATCH", "/v1/limits/default"),
    ];
    guarded.at_socket(&["token", "revoke", "writer", "--yes", "--wait"]);
    for mut upload in uploads {
        upload.piece(b"7}").expect("it is taken");
        assert_eq!(upload.end().expect("an answer").status, 401);
    }
    assert_eq!(ask("GET", "/v1/stream/s", b"").text(), "");
    assert_eq!(ask("HEAD", "/v1/stream/new", b"").status, 404);
    assert!(
        !ask("GET", "/v1/limits/default", b"")
            .text()
            .contains("\"streams\":7")
    );
}

/// A node that is cut off, and what it is asked for that asks nobody else.
const STALE: [&str; 4] = [
    "/v1/stream/s?stale=1",
    "/v1/stream/s?stale=1&all=1",
    "/v1/stream/s?stale=1&offset=-1",
    "/v1/log/raw?stale=1",
];

#[test]
fn a_node_that_is_cut_off_serves_nothing_stale_after_a_minute() {
    let mut guarded = Guarded::start();
    let root = guarded.token("all", "all on *");
    let bearer = format!("Bearer {root}");
    let plain = ("Content-Type", "text/plain");
    let shown = [("Authorization", bearer.as_str()), plain];
    let ask = |guarded: &Guarded, at: usize, method: &str, path: &str, body: &[u8]| {
        http::ask(&guarded.logs.doors[at], method, path, &shown, body).expect("an answer")
    };
    wait_for(
        || {
            let made = ask(&guarded, 0, "PUT", "/v1/stream/s", b"bytes");
            matches!(made.status, 200 | 201).then_some(())
        },
        || guarded.logs.cluster.logs(),
    );
    let appended = guarded.logs.insist(0, "POST", "raw", &shown[..1], b"bytes");
    assert_eq!(appended.status, 204);
    let cut_off = 2;
    let ranged = |guarded: &Guarded, path: &str| {
        let range = [shown[0], ("Range", "bytes=0-1")];
        http::ask(&guarded.logs.doors[cut_off], "GET", path, &range, b"").expect("an answer")
    };
    // Before: it has all, and serves what it has.
    for path in STALE {
        wait_for(
            || (ask(&guarded, cut_off, "GET", path, b"").status == 200).then_some(()),
            || {
                format!(
                    "{path}: {}",
                    ask(&guarded, cut_off, "GET", path, b"").text()
                )
            },
        );
    }
    guarded.logs.cluster.nodes[0].kill();
    guarded.logs.cluster.nodes[1].kill();
    let begun = Instant::now();
    while ask(&guarded, cut_off, "GET", STALE[0], b"").status == 200 {
        assert!(begun.elapsed() < LONGEST, "it goes on");
        thread::sleep(Duration::from_millis(500));
    }
    for path in STALE {
        let mut answer = ask(&guarded, cut_off, "GET", path, b"");
        let said = answer.text();
        assert_eq!(answer.status, 503, "{path}: {said}");
        // The door asks for a log as any client does, who looks for another node then.
        let is_said = said.contains("cut off") || path.starts_with("/v1/log");
        assert!(is_said && !said.contains("bytes"), "{path}: {said}");
        let mut part = ranged(&guarded, path);
        let said = part.text();
        assert_eq!(part.status, 503, "{path} by ranges: {said}");
    }
}

#[test]
fn a_change_of_limits_over_http_is_in_the_audit_with_who_asked_for_it() {
    let guarded = Guarded::start();
    let keeper = guarded.token("keeper", "all on *");
    let bearer = format!("Bearer {keeper}");
    let shown = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "text/plain"),
    ];
    let door = &guarded.logs.doors[1];
    let ask = |method: &str, path: &str, body: &[u8]| {
        http::ask(door, method, path, &shown, body).expect("an answer")
    };
    wait_for(
        || (ask("PUT", "/v1/stream/s", b"").status < 300).then_some(()),
        || guarded.logs.cluster.logs(),
    );
    let mut changed = ask("PATCH", "/v1/limits/default", b"{\"streams\":7}");
    let said = changed.text();
    assert_eq!(changed.status, 200, "{said}");
    let audit = || guarded.at_socket(&["audit", "--json"]);
    let told = wait_for(
        || {
            let told: Vec<serde_json::Value> = serde_json::from_str(&audit()).expect("JSON");
            let is_it = |one: &serde_json::Value| {
                let what = one["what"].as_str().unwrap_or_default();
                what.starts_with("the limits of the space default are now")
            };
            told.into_iter().find(is_it)
        },
        audit,
    );
    assert_eq!(told["by"], "token keeper");
    assert!(
        told["from"]
            .as_str()
            .is_some_and(|from| from.starts_with("127.")),
        "{told}"
    );
}
