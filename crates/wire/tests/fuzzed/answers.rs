//! A node's answers: a line is read as it would be written.

use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::line::Words;
use wire::told::{LogInfo, Members, ScrubView, Status, StreamInfo};
use wire::{Answer, LINE_BYTES_MAX};

/// `bytes`: a line, up to its line feed.
pub fn check(bytes: &[u8]) {
    let line = bytes.split(|byte| *byte == b'\n').next();
    let line = line.expect("at least nothing");
    let _ = Words::of_answer(line);
    let answer = match Answer::parse(line) {
        Ok(answer) => answer,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let again = answer.to_line();
    assert!(again.ends_with('\n'));
    assert_eq!(again.matches('\n').count(), 1, "{again:?}");
    match &answer {
        Answer::Error(refusal) => {
            // A sentence is for people: a part that is no text for them is lost, and so is what a line has no
            // room for.
            assert!(again.len() <= LINE_BYTES_MAX || refusal.keys.len() > 1);
            let Ok(Answer::Error(said)) = Answer::parse(again.as_bytes()) else {
                panic!("{again:?} is no refusal");
            };
            assert_eq!((&said.code, &said.keys), (&refusal.code, &refusal.keys));
            let plain = refusal.sentence.replace(char::is_control, " ");
            assert!(plain.starts_with(&said.sentence), "{said:?}");
            let _: Option<u64> = refusal.value("length");
        }
        answer => assert_eq!(Answer::parse(again.as_bytes()).as_ref(), Ok(answer)),
    }
    if let Answer::Ok(json) = answer {
        check_json::<Status>(&json);
        check_json::<Vec<StreamInfo>>(&json);
        check_json::<Vec<LogInfo>>(&json);
        check_json::<Members>(&json);
        check_json::<ScrubView>(&json);
    }
}

fn check_json<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(json: &str) {
    if let Ok(value) = serde_json::from_str::<T>(json) {
        let again = serde_json::to_string(&value).expect("plain data");
        assert_eq!(serde_json::from_str::<T>(&again).expect("our own"), value);
    }
}
