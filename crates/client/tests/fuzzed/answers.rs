//! A node's answers: a line is read as it would be written.

use client::admin::{LogInfo, Status, StreamInfo};
use client::answer::Answer;
use client::line::Words;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// `bytes`: a line, up to its line feed.
pub fn check(bytes: &[u8]) {
    let line = bytes.split(|byte| *byte == b'\n').next();
    let line = line.expect("at least nothing");
    let _ = Words::parse(line);
    let answer = match Answer::parse(line) {
        Ok(answer) => answer,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let again = answer.to_line();
    assert!(again.ends_with('\n'));
    assert_eq!(again.matches('\n').count(), 1, "{again:?}");
    match &answer {
        Answer::Error(refusal) => {
            // A sentence is for people: only its line breaks are lost.
            let sentence = refusal.sentence.replace('\r', " ");
            let mut said = refusal.clone();
            said.sentence = sentence;
            assert_eq!(Answer::parse(again.as_bytes()), Ok(Answer::Error(said)));
            let _: Option<u64> = refusal.key("length");
        }
        answer => assert_eq!(Answer::parse(again.as_bytes()).as_ref(), Ok(answer)),
    }
    if let Answer::Ok(json) = answer {
        check_json::<Status>(&json);
        check_json::<Vec<StreamInfo>>(&json);
        check_json::<Vec<LogInfo>>(&json);
    }
}

fn check_json<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(json: &str) {
    if let Ok(value) = serde_json::from_str::<T>(json) {
        let again = serde_json::to_string(&value).expect("plain data");
        assert_eq!(serde_json::from_str::<T>(&again).expect("our own"), value);
    }
}
