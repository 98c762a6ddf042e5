//! A node takes and refuses the lines that the grammar takes and refuses, with its sentences.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use wire::told::{
    LogDetails, LogInfo, Members, Moved, Planned, Retained, ScrubView, Status, StreamInfo, Trimmed,
};
use wire::{Answer, Ask, Refusal};

use crate::stage::Stage;

/// Each differs from a line that is taken in one thing.
const REFUSED: [&str; 33] = [
    "logberg/1",
    "logberg/1 ",
    "logberg/2 status",
    "LOGBERG/1 status",
    "logberg/1  status",
    "logberg/1 status ",
    "logberg/1 status\r\r",
    "logberg/1 sing",
    "logberg/1 status\tfresh=1",
    "logberg/1 status fresh=1 fresh=1",
    "logberg/1 status fresh=2",
    "logberg/1 status now",
    "logberg/1 append main  label=x",
    "logberg/1 append main label=ü",
    "logberg/1 append main label=%zz",
    "logberg/1 append main label=%ff",
    "logberg/1 append main colour=red",
    "logberg/1 append main mode=gently",
    "logberg/1 append main continues=1.1.1",
    "logberg/1 append main continues=01.1.1@0",
    "logberg/1 append main end=",
    "logberg/1 append main other",
    "logberg/1 read main from=x",
    "logberg/1 read main stream=1.1.4294967296",
    "logberg/1 read main format=xml",
    "logberg/1 read main %66rom=1 from=1",
    "logberg/1 trim main before=main",
    "logberg/1 streams main limit=0",
    "logberg/1 change-members grow 1",
    "logberg/1 change-members remove 1 weight=2",
    "logberg/1 change-members weight 1 1 log=main,",
    "logberg/1 create-log other members=1,",
    "logberg/1 create-log other members=1,1",
];

#[test]
fn what_the_grammar_refuses_a_node_refuses_in_its_words() {
    let mut stage = Stage::new(1, 1);
    for line in REFUSED {
        let refusal = Refusal::from(Ask::parse(line.as_bytes()).expect_err(line));
        let caller = stage.say_line(0, line);
        stage.wait("the answer", |_| caller.is_over());
        let heard = caller.heard();
        let Ok(Answer::Error(answered)) = Answer::parse(&heard) else {
            panic!("{line:?} was answered with {:?}", caller.text());
        };
        assert_eq!(answered, refusal, "{line:?}");
    }
}

#[test]
fn what_the_grammar_takes_is_no_bad_request_to_a_node() {
    let mut stage = Stage::new(1, 1);
    for line in [
        "logberg/1 status\r",
        "logberg/1 stat%75s",
        "logberg/1 status %66resh=0",
        "logberg/1 streams %6dain after=1.1.1 limit=+01",
        "logberg/1 members local=1 after=007",
        "logberg/1 read main to=0 from=0 format=framed",
        "logberg/1 trim main before=1.1.1@7 plan=1",
        "logberg/1 change-members weight 1 01 plan=1 log=main",
        "logberg/1 create-log other members=1",
    ] {
        Ask::parse(line.as_bytes()).expect(line);
        let caller = stage.say_line(0, line);
        stage.wait("the answer", |_| caller.is_over());
        let text = caller.text();
        assert!(
            !text.is_empty() && !text.starts_with("error bad-request"),
            "{line:?}: {text}"
        );
    }
}

/// A node's JSON is declared in `wire`, all of it and as it is said.
#[test]
fn what_a_node_says_in_json_is_what_the_grammar_declares() {
    let mut stage = Stage::three(1);
    let (leader, others) = stage.roles();
    let mut writer = stage.open(leader, "append main label=x");
    stage.say_and_wait(&mut writer, 5_000);
    let stream = format!("trim main before={}@10", name_of(&writer.text()));
    check::<Status>(&mut stage, leader, "status fresh=1");
    check::<Vec<StreamInfo>>(&mut stage, leader, "streams main");
    check::<Vec<LogInfo>>(&mut stage, leader, "logs");
    check::<LogDetails>(&mut stage, leader, "show-log main");
    check::<Members>(&mut stage, leader, "members");
    check::<Planned>(&mut stage, leader, "change-members weight 1 2 plan=1");
    check::<ScrubView>(&mut stage, leader, "scrub main start=1");
    stage.pass(Duration::from_secs(2));
    check::<ScrubView>(&mut stage, leader, "scrub main");
    check::<Trimmed>(&mut stage, leader, &format!("{stream} plan=1"));
    check::<LogInfo>(&mut stage, leader, "create-log other");
    check::<Retained>(&mut stage, leader, "retain main retention=1GiB");
    let to = others[0] + 1;
    check::<Moved>(&mut stage, leader, &format!("lead main to={to}"));
}

fn name_of(opened: &str) -> String {
    let name = opened.split(' ').nth(1);
    name.expect("a stream is open").to_owned()
}

/// Asks, and compares what was said with what it is read as: nothing of it may be passed over.
fn check<T: Serialize + DeserializeOwned>(stage: &mut Stage, index: usize, request: &str) {
    let caller = stage.call(index, request);
    stage.wait("the answer", |_| caller.is_over());
    let text = caller.text();
    let Ok(Answer::Ok(json)) = Answer::parse(text.as_bytes()) else {
        panic!("{request}: {text}");
    };
    let read: T = serde_json::from_str(&json).unwrap_or_else(|e| panic!("{request}: {e}: {text}"));
    let said: Value = serde_json::from_str(&json).expect("it is JSON");
    let read = serde_json::to_value(&read).expect("plain data");
    assert_is_part(&said, &read, request);
}

fn assert_is_part(said: &Value, read: &Value, at: &str) {
    match (said, read) {
        (Value::Object(said), Value::Object(read)) => {
            for (key, value) in said {
                let at = format!("{at}.{key}");
                let read = read
                    .get(key)
                    .unwrap_or_else(|| panic!("{at} is not declared"));
                assert_is_part(value, read, &at);
            }
        }
        (Value::Array(said), Value::Array(read)) => {
            assert_eq!(said.len(), read.len(), "{at}");
            for (said, read) in said.iter().zip(read) {
                assert_is_part(said, read, at);
            }
        }
        _ => assert_eq!(said, read, "{at}"),
    }
}
