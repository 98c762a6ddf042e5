//! Spaces of streams are saved while writers write, and come back in another cluster.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::streams::{JSON, Streams, TEXT, error_of};

const WRITERS: usize = 3;

/// A writer's two streams: what it appends to the second it had appended to the first, and been answered.
struct Writer {
    number: usize,
    answered: AtomicU64,
}

impl Writer {
    fn name(&self, which: &str) -> String {
        format!("writers/{}/{which}", self.number)
    }

    fn make(&self, streams: &Streams) {
        for which in ["before", "behind"] {
            let made = streams.insist(0, "PUT", &self.name(which), &[TEXT], b"");
            assert_eq!(made.status, 201);
        }
    }

    fn write(&self, streams: &Streams, ends: &AtomicBool) {
        while !ends.load(Ordering::Relaxed) {
            let next = self.answered.load(Ordering::Relaxed);
            for which in ["before", "behind"] {
                let number = next.to_string();
                let headers = [
                    TEXT,
                    ("Producer-Id", "w"),
                    ("Producer-Epoch", "0"),
                    ("Producer-Seq", &*number),
                ];
                let body = format!("{next}\n");
                let (at, name) = (self.number, self.name(which));
                let answer = streams.insist(at, "POST", &name, &headers, body.as_bytes());
                assert_eq!(answer.status, 200, "{name} {next}");
            }
            self.answered.store(next + 1, Ordering::Relaxed);
        }
    }

    /// How many appends each of its streams has: all of them, in order.
    fn counted(&self, streams: &Streams, which: &str) -> u64 {
        let text = streams.text(self.number, &self.name(which));
        let count = text.lines().count() as u64;
        let expected: String = (0..count).map(|number| format!("{number}\n")).collect();
        assert_eq!(text, expected);
        count
    }
}

/// Streams that nobody writes meanwhile, each with something that a backup has to keep. Returns the offset within `plain`.
fn make_all(streams: &Streams) -> String {
    let insist = |method: &str, name: &str, headers: &[(&str, &str)], body: &[u8], status: u16| {
        let mut answer = streams.insist(1, method, name, headers, body);
        let (is, text) = (answer.status, answer.text());
        assert_eq!(is, status, "{method} {name}: {text}");
        answer
    };
    insist("PUT", "plain", &[TEXT], b"one ", 201);
    let offset = insist("POST", "plain", &[TEXT], b"two ", 204).offset();
    insist("POST", "plain", &[TEXT], b"three", 204);
    let from = ("Stream-Forked-From", "/v1/stream/plain");
    let at = ("Stream-Fork-Offset", &*offset);
    insist("PUT", "fork", &[from, at], b"", 201);
    insist("POST", "fork", &[TEXT], b"2a", 204);
    // A source that only its fork holds.
    insist("PUT", "held", &[TEXT], b"kept", 201);
    let from = ("Stream-Forked-From", "/v1/stream/held");
    insist("PUT", "holds", &[from], b"", 201);
    insist("DELETE", "held", &[], b"", 204);
    let closes = ("Stream-Closed", "true");
    insist("PUT", "closed", &[TEXT], b"the end", 201);
    insist("POST", "closed", &[closes], b"", 204);
    insist("PUT", "json", &[JSON], br#"[{"a":1},{"a":2}]"#, 201);
    insist("PUT", "idle", &[TEXT, ("Stream-TTL", "86400")], b"x", 201);
    let until = ("Stream-Expires-At", "2099-01-01T00:00:00Z");
    insist("PUT", "until", &[TEXT, until], b"x", 201);
    insist("PUT", "produced", &[TEXT, ("Stream-TTL", "7200")], b"", 201);
    for (sequence, body) in [("0", b"a"), ("1", b"b")] {
        let headers = by("3", sequence);
        insist("POST", "produced", &headers, body, 200);
    }
    let large = vec![b'z'; 3 << 20];
    insist("PUT", "large", &[TEXT], &large, 201);
    offset
}

fn by<'a>(epoch: &'a str, sequence: &'a str) -> [(&'a str, &'a str); 4] {
    [
        TEXT,
        ("Producer-Id", "p"),
        ("Producer-Epoch", epoch),
        ("Producer-Seq", sequence),
    ]
}

/// Headers, with their values.
type Told = Vec<(String, Option<String>)>;

/// All that HEAD tells of each of them.
fn stands(streams: &Streams) -> Vec<(String, Told)> {
    let names = [
        "plain", "fork", "held", "holds", "closed", "json", "idle", "until", "produced", "large",
    ];
    let told = [
        "Content-Type",
        "Stream-Next-Offset",
        "Stream-Closed",
        "Stream-TTL",
        "Stream-Expires-At",
        "ETag",
    ];
    let of = |name: &str| {
        let answer = streams.insist(2, "HEAD", name, &[], b"");
        let status = ("status".to_owned(), Some(answer.status.to_string()));
        let headers = told.iter().map(|header| {
            let value = answer.header(header).map(str::to_owned);
            ((*header).to_owned(), value)
        });
        [status].into_iter().chain(headers).collect()
    };
    names
        .iter()
        .map(|name| (name.to_string(), of(name)))
        .collect()
}

/// What clients remember of the cluster that was saved is good in this one.
fn goes_on(streams: &Streams, offset: &str) {
    let text = |name: &str| streams.text(0, name);
    assert_eq!(text("plain"), "one two three");
    assert_eq!(text(&format!("plain?offset={offset}")), "three");
    assert_eq!(text("fork"), "one two 2a");
    assert_eq!(text(&format!("fork?offset={offset}")), "2a");
    assert_eq!(text("holds"), "kept");
    assert_eq!(text("json"), r#"[{"a":1},{"a":2}]"#);
    assert_eq!(text("large?offset=-1").len(), 3 << 20);
    let refused = |method: &str, name: &str, headers: &[(&str, &str)], body: &[u8]| {
        error_of(&mut streams.ask(1, method, name, headers, body))
    };
    let code = |status: u16, code: &str| (status, code.to_owned());
    assert_eq!(refused("GET", "held", &[], b""), code(410, "deleted"));
    assert_eq!(
        refused("POST", "closed", &[TEXT], b"more"),
        code(409, "closed")
    );
    assert_eq!(
        refused("POST", "json", &[TEXT], b"more"),
        code(409, "content-type")
    );
    assert_eq!(
        refused("POST", "produced", &by("3", "5"), b"x"),
        code(409, "sequence-gap")
    );
    assert_eq!(
        refused("POST", "produced", &by("2", "9"), b"x"),
        code(403, "stale-epoch")
    );
    let produced = |sequence: &str, body: &[u8]| {
        let answer = streams.ask(2, "POST", "produced", &by("3", sequence), body);
        answer.status
    };
    assert_eq!(
        produced("1", b"b"),
        204,
        "it was appended before the backup"
    );
    assert_eq!(produced("2", b"c"), 200);
    assert_eq!(text("produced"), "abc");
    // The last fork that goes frees its source's name.
    assert_eq!(streams.ask(0, "DELETE", "holds", &[], b"").status, 204);
    assert_eq!(streams.ask(1, "PUT", "held", &[TEXT], b"new").status, 201);
    assert_eq!(streams.ask(0, "POST", "plain", &[TEXT], b"!").status, 204);
    assert_eq!(text("plain"), "one two three!");
    assert_eq!(text("fork"), "one two 2a");
}

fn fails(streams: &Streams, words: &[&str], code: i32, part: &str) {
    let (is, _, said) = streams.run(words);
    assert_eq!(is, Some(code), "{words:?}: {said}");
    assert!(said.contains(part), "{words:?}: {said}");
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn a_space_is_saved_while_writers_write_and_goes_on_in_another_cluster() {
    let directory = tempfile::tempdir().expect("a directory");
    let backup = directory.path().join("backup");
    fs::create_dir(&backup).expect("there is room");
    let one = Streams::start(&directory.path().join("one"));
    let offset = make_all(&one);
    let writers: Vec<Writer> = (0..WRITERS)
        .map(|number| Writer {
            number,
            answered: AtomicU64::new(0),
        })
        .collect();
    for writer in &writers {
        writer.make(&one);
    }
    let ends = AtomicBool::new(false);
    let saved_behind: Vec<u64> = thread::scope(|scope| {
        for writer in &writers {
            scope.spawn(|| writer.write(&one, &ends));
        }
        let mut behind = Vec::new();
        // Each part has all rows, of a later position; the leader moves before the second.
        for leader in [1, 2] {
            one.lead("default", leader);
            thread::sleep(Duration::from_millis(500));
            let count = |writer: &Writer| writer.answered.load(Ordering::Relaxed);
            behind = writers.iter().map(count).collect();
            one.logberg(&["backup", "default", "--to", plain(&backup)]);
        }
        thread::sleep(Duration::from_millis(500));
        ends.store(true, Ordering::Relaxed);
        behind
    });
    let verified = one.logberg(&["backup", "verify", plain(&backup), "--json"]);
    let verified: serde_json::Value = serde_json::from_str(&verified).expect("JSON");
    assert_eq!(
        (&verified["part"], &verified["streams"]),
        (&2.into(), &0.into())
    );
    assert!(verified["rows"].as_u64() > Some(30), "{verified}");
    let stood = stands(&one);
    // Nobody's streams are written over.
    let restore = ["restore", plain(&backup), "--log", "default"];
    fails(&one, &restore, 4, "has written something already");
    one.cluster.end();

    let two = Streams::without_a_space(&directory.path().join("two"), 3);
    let said = two.logberg(&restore);
    assert!(
        said.starts_with("the space of streams default holds "),
        "{said}"
    );
    assert_eq!(stands(&two), stood);
    for (writer, saved_behind) in writers.iter().zip(saved_behind) {
        let (before, behind) = (
            writer.counted(&two, "before"),
            writer.counted(&two, "behind"),
        );
        assert!(
            saved_behind > 0 && behind >= saved_behind,
            "{behind} of {saved_behind}"
        );
        let was = writer.answered.load(Ordering::Relaxed);
        assert!(behind < was, "it wrote on behind the backup");
        // ‡ One moment of the whole space: no append is there without the one that it came behind.
        assert!(
            before == behind || before == behind + 1,
            "{before} and {behind}"
        );
    }
    goes_on(&two, &offset);
    // What was written since is not written over, though it came from this very backup.
    fails(&two, &restore, 4, "was filled from this backup before");

    let part = backup.join("part-000002.lbb");
    let mut bytes = fs::read(&part).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&part, bytes).expect("there is room");
    fails(&two, &["backup", "verify", plain(&backup)], 6, "damaged");
    let elsewhere = ["restore", plain(&backup), "--log", "elsewhere"];
    fails(&two, &elsewhere, 6, "damaged");
    let logs = two.logberg(&["log", "list"]);
    assert!(
        !logs.contains("elsewhere"),
        "nothing is made of a damaged one"
    );
}
