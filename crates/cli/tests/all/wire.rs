//! The lines of docs/wire.md, said by hand as with nc.

use crate::harness;

use harness::{Cluster, Content, Raw, raw, wait_for};

/// One node and its address.
fn one() -> (Cluster, String) {
    let cluster = Cluster::start(1);
    let address = cluster.nodes[0].listen.clone();
    (cluster, address)
}

/// Opens a stream; its name, and where in its chain it begins.
fn open(address: &str, rest: &str) -> (Raw, String, u64) {
    let mut raw = Raw::say(address, &format!("logberg/1 append main{rest}\n"));
    let line = raw.line_after("waiting");
    let words: Vec<&str> = line.split(' ').collect();
    let ["stream", name, at] = words[..] else {
        panic!("{line}");
    };
    let at = at
        .strip_prefix("at=")
        .expect("a base")
        .parse()
        .expect("a number");
    let name = name.to_owned();
    (raw, name, at)
}

/// A stream of these bytes, all acknowledged, whose writer is gone without an end.
fn left_open(address: &str, bytes: &[u8]) -> String {
    let (mut raw, name, _) = open(address, "");
    raw.send(bytes);
    raw.wait_ack(bytes.len() as u64);
    drop(raw);
    name
}

fn read(address: &str, rest: &str) -> String {
    raw::answer(address, &format!("logberg/1 read main{rest}"))
}

fn close(address: &str, name: &str, at: u64) -> String {
    raw::answer(
        address,
        &format!("logberg/1 close main stream={name} at={at}"),
    )
}

fn check_error(line: &str, beginning: &str) {
    assert!(
        line.starts_with(&format!("error {beginning}")),
        "{line:?} is not {beginning:?}"
    );
}

/// The `continues` answer's `length`, and `by` if there is one.
fn continues(line: &str) -> (u64, Option<String>) {
    check_error(line, "continues ");
    let words = line.split(": ").next().expect("a first part");
    let value = |key: &str| words.split(' ').find_map(|word| word.strip_prefix(key));
    let length = value("length=")
        .expect("a length")
        .parse()
        .expect("a number");
    (length, value("by=").map(str::to_owned))
}

/// A framed answer: its first line, its bytes, its last line. Checksums are checked.
fn framed(address: &str, rest: &str) -> (String, Vec<u8>, String) {
    let mut raw = Raw::say(
        address,
        &format!("logberg/1 read main format=framed{rest}\n"),
    );
    let first = raw.line();
    let mut bytes = Vec::new();
    loop {
        let line = raw.line();
        let words: Vec<&str> = line.split(' ').collect();
        let ["data", _, count, checksum] = words[..] else {
            return (first, bytes, line);
        };
        let chunk = raw.bytes(count.parse().expect("a number"));
        assert_eq!(
            format!("{:08x}", crc32c::crc32c(&chunk)),
            checksum,
            "{line}"
        );
        bytes.extend(chunk);
    }
}

#[test]
fn a_writer_that_asks_for_it_is_told_the_checksum_of_what_is_stored() {
    let (_cluster, address) = one();
    let (mut raw, _, _) = open(&address, " checked=1");
    for (bytes, told) in [
        (&b"hello"[..], "ack 5 crc32c=9a71bb4c"),
        (b" world", "ack 11 crc32c=c99465aa"),
    ] {
        raw.send(bytes);
        assert_eq!(raw.line(), told);
    }
}

#[test]
fn a_line_and_bytes_and_an_end_are_enough() {
    let (_cluster, address) = one();
    let mut raw = Raw::say(&address, "logberg/1 append main end=fin\nhello, world\n");
    raw.half_close();
    let stream = raw.line();
    assert!(
        stream.starts_with("stream 1.1.") && stream.ends_with(" at=0"),
        "{stream}"
    );
    assert_eq!(raw.line_after("ack "), "closed 13");
    assert_eq!(raw.rest(), b"");
    assert_eq!(read(&address, ""), "hello, world\n");
    assert_eq!(read(&address, " from=7 to=12"), "world");
    assert_eq!(read(&address, " from=13"), "");
}

#[test]
fn an_empty_stream_can_be_closed_too() {
    let (_cluster, address) = one();
    let mut raw = Raw::say(&address, "logberg/1 append main end=fin\n");
    raw.half_close();
    assert!(raw.line().starts_with("stream "));
    assert_eq!(raw.line(), "closed 0");
    let (raw, name, _) = open(&address, "");
    assert_eq!(close(&address, &name, 0), "closed 0\n");
    drop(raw);
    assert_eq!(read(&address, ""), "");
}

#[test]
fn an_end_without_fin_is_no_end_of_the_stream() {
    let (_cluster, address) = one();
    let (mut raw, name, _) = open(&address, "");
    raw.send(b"abc");
    raw.half_close();
    raw.rest();
    let (first, bytes, last) = framed(&address, &format!(" stream={name}"));
    assert!(
        first.starts_with("reading from=0 length=3 stale=0"),
        "{first}"
    );
    assert_eq!((bytes, last.as_str()), (b"abc".to_vec(), "end 3 open"));
    assert_eq!(close(&address, &name, 3), "closed 3\n");
    let (_, _, last) = framed(&address, &format!(" stream={name}"));
    assert_eq!(last, "end 3 closed");
}

#[test]
fn a_close_can_be_asked_again_and_must_be_right() {
    let (_cluster, address) = one();
    let (mut raw, name, _) = open(&address, "");
    raw.send(b"abcdef");
    raw.wait_ack(6);
    assert_eq!(continues(&close(&address, &name, 5)), (6, None));
    assert_eq!(continues(&close(&address, &name, 7)), (6, None));
    assert_eq!(close(&address, &name, 6), "closed 6\n");
    // The writer hears of it as well.
    assert_eq!(raw.line(), "closed 6");
    assert_eq!(raw.rest(), b"");
    assert_eq!(close(&address, &name, 6), "closed 6\n");
    assert_eq!(continues(&close(&address, &name, 5)), (6, None));
}

#[test]
fn a_continuation_is_one_chain_with_what_it_continues() {
    let (_cluster, address) = one();
    let first = left_open(&address, b"one ");
    let (mut raw, second, base) = open(&address, &format!(" continues={first}@4"));
    assert_eq!(base, 4);
    raw.send(b"two ");
    raw.wait_ack(4);
    drop(raw);
    let (mut raw, third, base) = open(&address, &format!(" end=fin continues={second}@4"));
    assert_eq!(base, 8);
    raw.send(b"three");
    raw.half_close();
    assert_eq!(raw.line_after("ack "), "closed 5");
    let (_, bytes, last) = framed(&address, &format!(" stream={first}"));
    assert_eq!(
        (bytes.as_slice(), last.as_str()),
        (&b"one two three"[..], "end 13 closed")
    );
    assert_eq!(read(&address, &format!(" stream={second}")), "two three");
    assert_eq!(read(&address, &format!(" stream={third} from=2")), "ree");
    assert_eq!(
        read(&address, &format!(" stream={first} from=3 to=9")),
        " two t"
    );
}

#[test]
fn a_continuation_at_the_wrong_length_hears_the_right_one() {
    let (_cluster, address) = one();
    let name = left_open(&address, b"12345");
    for at in [0, 4, 6, u64::MAX] {
        let line = format!("logberg/1 append main continues={name}@{at}");
        assert_eq!(continues(&raw::answer(&address, &line)), (5, None), "{at}");
    }
    let line = "logberg/1 append main continues=7.7.7@0";
    check_error(&raw::answer(&address, line), "unknown-stream");
}

#[test]
fn what_was_continued_is_not_continued_twice() {
    let (_cluster, address) = one();
    let first = left_open(&address, b"12345");
    let (raw, second, _) = open(&address, &format!(" continues={first}@5"));
    let again = raw::answer(
        &address,
        &format!("logberg/1 append main mode=takeover continues={first}@5"),
    );
    assert_eq!(continues(&again), (5, Some(second.clone())));
    // It lost the answer, and it knows that it sent nothing: its own stream, continued at 0.
    let (mut third, _, base) = open(&address, &format!(" continues={second}@0"));
    assert_eq!(base, 5);
    third.send(b"67");
    third.wait_ack(2);
    drop(raw);
    assert_eq!(read(&address, &format!(" stream={first}")), "1234567");
    let answer = close(&address, &first, 5);
    assert!(
        answer.starts_with("error superseded") || answer.starts_with("error continues"),
        "{answer}"
    );
}

#[test]
fn the_active_writers_own_continuation_takes_over() {
    let (_cluster, address) = one();
    let (mut raw, name, _) = open(&address, "");
    raw.send(b"abc");
    raw.wait_ack(3);
    let (_second, next, base) = open(&address, &format!(" continues={name}@3"));
    assert_eq!(base, 3);
    let last = raw.line_after("ack ");
    check_error(&last, &format!("superseded stream={next}"));
    assert_eq!(raw.rest(), b"");
}

#[test]
fn positions_out_of_range_are_told_apart() {
    let (_cluster, address) = one();
    let name = left_open(&address, b"0123456789");
    check_error(&read(&address, " from=5 to=4"), "bad-request");
    check_error(&read(&address, " from=11"), "past-end length=10");
    check_error(
        &read(&address, &format!(" stream={name} from=11 to=12")),
        "past-end length=10",
    );
    assert_eq!(read(&address, " from=10"), "");
    assert_eq!(read(&address, " from=3 to=3"), "");
    assert_eq!(framed(&address, " from=2 to=5").2, "end 5 to");
    assert_eq!(framed(&address, " from=2 to=50").2, "end 10 open");
}

#[test]
fn the_whole_log_is_its_streams_in_order() {
    let (cluster, address) = one();
    let contents: Vec<Content> = (1..5)
        .map(|seed| Content::new(seed, seed * 70_001))
        .collect();
    for content in &contents {
        cluster.append("main", &["--label", "x"], *content);
    }
    cluster.check_same("main", &contents);
    let (first, bytes, last) = framed(&address, "");
    let whole: Vec<u8> = contents.iter().flat_map(Content::bytes).collect();
    assert!(
        first.starts_with(&format!("reading from=0 length={}", whole.len())),
        "{first}"
    );
    assert!(bytes == whole);
    assert_eq!(last, format!("end {} closed", whole.len()));
    assert!(
        raw::Raw::say(&address, "logberg/1 read main from=60000 to=90000\n").rest()
            == whole[60_000..90_000]
    );
}

#[test]
fn following_gets_bytes_as_they_are_chosen_and_ends_at_a_clean_end() {
    let (_cluster, address) = one();
    let (mut writer, name, _) = open(&address, "");
    let mut raw = Raw::say(
        &address,
        &format!("logberg/1 read main follow=1 stream={name}\n"),
    );
    writer.send(b"abc");
    assert_eq!(raw.bytes(3), b"abc");
    // The reader is done talking; that is no reason to stop reading to it.
    raw.half_close();
    writer.send(b"def");
    assert_eq!(raw.bytes(3), b"def");
    drop(writer);
    let (mut writer, ..) = open(&address, &format!(" end=fin continues={name}@6"));
    writer.send(b"ghi");
    writer.half_close();
    assert_eq!(raw.rest(), b"ghi");
    let mut raw = Raw::say(
        &address,
        &format!("logberg/1 read main follow=1 from=2 to=4 stream={name}\n"),
    );
    assert_eq!(raw.rest(), b"cd");
}

#[test]
fn following_shows_a_sign_of_life_while_nothing_happens() {
    let (_cluster, address) = one();
    let (_writer, name, _) = open(&address, "");
    let line = format!("logberg/1 read main follow=1 format=framed stream={name}\n");
    let mut raw = Raw::say(&address, &line);
    assert!(raw.line().starts_with("reading from=0 length=0"));
    assert_eq!(raw.line(), "data 0 0 00000000");
    assert_eq!(raw.line(), "data 0 0 00000000");
}

#[test]
fn labels_and_names_are_encoded_on_the_wire_and_plain_to_people() {
    let (cluster, address) = one();
    let label = "Größe = 50 %\t\"x\"\u{1}:";
    cluster.append("main", &["--label", label], Content::new(1, 10));
    let (raw, ..) = open(&address, " label=a%20b%25%3D%0a");
    drop(raw);
    let streams = harness::ask(&address, "streams main").expect("an answer");
    assert_eq!(streams[0]["label"], label);
    assert_eq!(streams[1]["label"], "a b%=\n");
    let json = cluster.run_well(&["streams", "main", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[0]["label"], label);
    // A word may be encoded although it need not be.
    assert!(raw::answer(&address, "logberg/1 streams m%61in").starts_with("ok ["));
}

#[test]
fn raw_bytes_may_follow_the_line_at_once_and_are_kept_while_waiting() {
    let (_cluster, address) = one();
    let (mut writer, name, _) = open(&address, "");
    let mut queued = Raw::say(&address, "logberg/1 append main mode=wait end=fin\n");
    let content = Content::new(1, 300_000).bytes();
    assert_eq!(queued.line(), "waiting");
    let mut half = queued.stream.try_clone().expect("a file");
    let sent = content.clone();
    let feeder = std::thread::spawn(move || {
        std::io::Write::write_all(&mut half, &sent).expect("the node reads");
        half.shutdown(std::net::Shutdown::Write).expect("connected");
    });
    writer.send(b"first");
    writer.wait_ack(5);
    assert_eq!(close(&address, &name, 5), "closed 5\n");
    let line = queued.line_after("waiting");
    assert!(line.starts_with("stream "), "{line}");
    assert_eq!(queued.line_after("ack "), "closed 300000");
    feeder.join().expect("the feeder");
    assert!(raw::Raw::say(&address, "logberg/1 read main from=5\n").rest() == content);
}

#[test]
fn a_node_that_does_not_lead_says_who_does() {
    let cluster = Cluster::start(3);
    let leader = cluster.nodes[cluster.leader("main")].listen.clone();
    let other = cluster.nodes[cluster.follower("main")].listen.clone();
    for verb in ["append main", "close main stream=1.1.1 at=0"] {
        let answer = raw::answer(&other, &format!("logberg/1 {verb}"));
        check_error(&answer, &format!("not-leader leader={leader}: "));
    }
    cluster.append("main", &[], Content::new(1, 1000));
    let read = Raw::say(&other, "logberg/1 read main\n").rest();
    assert!(
        read == Content::new(1, 1000).bytes(),
        "{} bytes",
        read.len()
    );
    cluster.wait_whole();
    for verb in [
        "read main stale=1",
        "streams main",
        "streams main stale=1",
        "status",
        "status fresh=1",
        "logs",
    ] {
        let answer = Raw::say(&other, &format!("logberg/1 {verb}\n")).rest();
        assert!(!answer.starts_with(b"error"), "{verb}");
    }
    wait_for(
        || {
            (Raw::say(&other, "logberg/1 read main stale=1\n").rest()
                == Content::new(1, 1000).bytes())
            .then_some(())
        },
        || cluster.logs(),
    );
}
