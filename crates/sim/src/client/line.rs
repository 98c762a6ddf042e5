//! The lines of the wire, taken apart by their grammar, for callers that look at words and keys.

use wire::Answer;
use wire::line::Words;

/// `word argument … key=value …`, or an error: then `word` is its code and `sentence` is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    pub word: String,
    pub arguments: Vec<String>,
    pub keys: Vec<(String, String)>,
    pub sentence: Option<String>,
}

impl Line {
    /// Parses a line. A line that the grammar of `wire` does not take is its speaker's mistake.
    pub fn parse(text: &str) -> Line {
        if let Some(json) = text.strip_prefix("ok ") {
            return Line {
                word: "ok".to_owned(),
                arguments: vec![json.to_owned()],
                ..Line::default()
            };
        }
        let parsed = match text.starts_with("error ") {
            true => Answer::parse(text.as_bytes()).map(Line::of_refusal),
            false => Words::of_answer(text.as_bytes()).map(Line::of_words),
        };
        parsed.unwrap_or_else(|error| panic!("{text:?}: {error}"))
    }

    fn of_refusal(answer: Answer) -> Line {
        let Answer::Error(refusal) = answer else {
            unreachable!("it begins as an error does")
        };
        Line {
            word: refusal.code.to_string(),
            keys: refusal.keys,
            sentence: Some(refusal.sentence),
            ..Line::default()
        }
    }

    fn of_words(words: Words) -> Line {
        let (arguments, keys) = words.into_parts();
        let mut arguments = arguments.into_iter();
        Line {
            word: arguments.next().unwrap_or_default(),
            arguments: arguments.collect(),
            keys,
            sentence: None,
        }
    }

    pub fn is_error(&self) -> bool {
        self.sentence.is_some()
    }

    pub fn key(&self, key: &str) -> Option<&str> {
        let found = self.keys.iter().find(|(k, _)| k == key);
        found.map(|(_, value)| value.as_str())
    }

    /// A key that must be there and be a number.
    pub fn number(&self, key: &str) -> u64 {
        let value = self.key(key).and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("{self:?} has no number {key}"))
    }

    /// An argument that must be there and be a number.
    pub fn position(&self, index: usize) -> u64 {
        let value = self.arguments.get(index);
        let value = value.and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("{self:?} has no number at {index}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_a_code_keys_and_a_sentence() {
        let line = Line::parse("error not-leader leader=a%20b:70: Ask it: there.");
        assert!(line.is_error());
        assert_eq!(line.word, "not-leader");
        assert_eq!(line.key("leader"), Some("a b:70"));
        assert_eq!(line.sentence.as_deref(), Some("Ask it: there."));
    }

    #[test]
    fn an_answer_has_arguments_and_keys() {
        let line = Line::parse("stream 1.2.3 at=55");
        assert!(!line.is_error());
        assert_eq!(line.arguments, ["1.2.3"]);
        assert_eq!(line.number("at"), 55);
    }
}
