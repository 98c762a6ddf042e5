//! Lists that are long, and clients that are slow to take them.

use replica::Limits;

use crate::caller::Caller;
use crate::stage::{MS, SECOND, Stage};

/// Written into JSON it is six times as long.
const LABEL: &str = "%01%01%01%01%01%01%01%01%01%01%01%01%01%01%01%01";
const STREAMS: usize = 200;
const HELD_MAX: u64 = 48 << 10;
const PIECE: usize = 3 << 10;

/// One node with a log of many streams, on a network whose kernels hold next to nothing.
fn stage() -> (Stage, Vec<String>) {
    let limits = Limits {
        answers_bytes_max: HELD_MAX,
        answer_piece_bytes: PIECE,
        ..sim::workload::small_limits()
    };
    let mut stage = Stage::with_limits(1, 1, limits);
    let opening = format!("append main mode=takeover label={LABEL}");
    let names = (0..STREAMS).map(|_| open(&mut stage, &opening)).collect();
    let model = &mut stage.world.network().model;
    model.send_buffer_bytes = 512;
    model.receive_buffer_bytes = 512;
    (stage, names)
}

/// Opens a stream; its name.
fn open(stage: &mut Stage, request: &str) -> String {
    let caller = stage.call(0, request);
    stage.wait("a stream", |_| {
        caller.is_open() && caller.text().ends_with('\n')
    });
    caller.stream()
}

fn answer(stage: &mut Stage, request: &str) -> String {
    let caller = stage.call(0, request);
    stage.wait("an answer", |_| caller.is_over());
    caller.text()
}

fn figure(stage: &mut Stage, name: &str) -> u64 {
    let text = answer(stage, "metrics");
    let (_, rest) = text.split_once(&format!("\"{name}\":")).expect("a figure");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// The names of the list's entries, in its order.
fn names(text: &str) -> Vec<String> {
    assert!(text.starts_with("ok [") && text.ends_with("]\n"), "{text}");
    let entries = text.split("{\"name\":\"").skip(1);
    let names = entries.map(|entry| entry.split('"').next().expect("it ends"));
    names.map(str::to_owned).collect()
}

/// Asks for the list, and takes no more than its beginning.
fn idle(stage: &mut Stage) -> Caller {
    let caller = stage.call(0, "streams main");
    stage.wait("the list to begin", |_| !caller.heard().is_empty());
    stage.world.pause(caller.host, 3_600 * SECOND);
    caller
}

#[test]
fn lists_that_nobody_takes_hold_a_bounded_number_of_bytes_and_others_get_theirs_whole() {
    let (mut stage, all) = stage();
    let whole = answer(&mut stage, "streams main");
    assert_eq!(names(&whole), all);
    let few = 6;
    for _ in 0..few {
        idle(&mut stage);
    }
    let held = figure(&mut stage, "answers_held_bytes");
    // A piece each, which an entry may exceed; made whole they would be ten times that.
    assert!(whole.len() > 10 * PIECE, "{} bytes", whole.len());
    assert!(held <= few * (PIECE as u64 + 500), "{held} bytes are held");
    assert_eq!(figure(&mut stage, "answers_broken"), 0);
    for _ in 0..20 {
        idle(&mut stage);
        let held = figure(&mut stage, "answers_held_bytes");
        assert!(held <= HELD_MAX, "{held} bytes are held");
    }
    assert!(figure(&mut stage, "answers_broken") > 0, "nobody made room");
    assert_eq!(answer(&mut stage, "streams main"), whole);
}

#[test]
fn an_answer_of_which_nothing_is_taken_for_long_is_broken_off() {
    let (mut stage, _) = stage();
    idle(&mut stage);
    assert!(figure(&mut stage, "answers_held_bytes") > 0);
    stage.pass(sim::workload::small_limits().answer_timeout + SECOND);
    assert_eq!(figure(&mut stage, "answers_held_bytes"), 0);
}

#[test]
fn an_answer_that_is_made_whole_counts_with_the_others() {
    let (mut stage, _) = stage();
    for number in 0..60 {
        let created = answer(&mut stage, &format!("create-log log-number-{number}"));
        assert!(created.starts_with("ok "), "{created}");
    }
    let length = answer(&mut stage, "status").len() as u64;
    assert!(length > 3 * PIECE as u64, "{length} bytes");
    for _ in 0..10 {
        let slow = stage.call(0, "status");
        stage.wait("the answer to begin", |_| !slow.heard().is_empty());
        stage.world.pause(slow.host, 3_600 * SECOND);
    }
    let held = figure(&mut stage, "answers_held_bytes");
    assert!(held <= HELD_MAX, "{held} bytes are held");
    assert!(figure(&mut stage, "answers_broken") > 0, "nobody made room");
}

/// A stream to which an entry refers stands behind it, however much is opened while the list is taken.
#[test]
fn a_list_names_all_that_was_opened_until_its_last_piece() {
    let (mut stage, all) = stage();
    let slow = stage.call(0, "streams main");
    stage.wait("the list to begin", |_| !slow.heard().is_empty());
    stage.world.pause(slow.host, 5 * SECOND);
    let last = all.last().expect("there are some");
    let continued = open(&mut stage, &format!("append main continues={last}@0"));
    assert!(!slow.is_over());
    stage.wait("the whole list", |_| slow.is_over());
    let listed = names(&slow.text());
    let expected: Vec<String> = all.iter().cloned().chain([continued]).collect();
    assert_eq!(listed, expected);
    assert_eq!(slow.text().matches("\"continued_by\":\"").count(), 1);
}

#[test]
fn parts_of_a_list_put_together_are_the_list() {
    let (mut stage, all) = stage();
    let mut listed: Vec<String> = Vec::new();
    loop {
        let after = listed.last().map(|name| format!(" after={name}"));
        let request = format!("streams main limit=70{}", after.unwrap_or_default());
        let part = names(&answer(&mut stage, &request));
        if part.is_empty() {
            break;
        }
        assert!(part.len() <= 70);
        listed.extend(part);
    }
    assert_eq!(listed, all);
    stage.pass(10 * MS);
    let refused = answer(&mut stage, "streams main after=9.9.9");
    assert!(refused.starts_with("error unknown-stream: "), "{refused}");
    for nonsense in ["limit=0", "limit=-1", "limit=all", "after=main"] {
        let refused = answer(&mut stage, &format!("streams main {nonsense}"));
        assert!(refused.starts_with("error bad-request: "), "{refused}");
    }
    for name in ["a", "b", "c"] {
        answer(&mut stage, &format!("create-log {name}"));
    }
    let part = answer(&mut stage, "logs after=1 limit=2");
    assert!(
        part.contains("\"id\":2") && part.contains("\"id\":3"),
        "{part}"
    );
    assert_eq!(part.matches("\"id\":").count(), 2, "{part}");
    let part = answer(&mut stage, "members after=3");
    assert!(
        part.contains("\"name\":\"c\"") && !part.contains("\"name\":\"b\""),
        "{part}"
    );
}
