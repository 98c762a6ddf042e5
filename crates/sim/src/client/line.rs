//! The lines of the wire, taken apart.

/// `word argument … key=value …`, or an error: then `word` is its code and `sentence` is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    pub word: String,
    pub arguments: Vec<String>,
    pub keys: Vec<(String, String)>,
    pub sentence: Option<String>,
}

impl Line {
    pub fn parse(text: &str) -> Line {
        let (text, sentence) = match text.strip_prefix("error ") {
            Some(error) => match error.split_once(": ") {
                Some((error, sentence)) => (error, Some(sentence.to_owned())),
                None => (error.trim_end_matches(':'), Some(String::new())),
            },
            None => (text, None),
        };
        let mut words = text.split(' ').filter(|word| !word.is_empty());
        let mut line = Line {
            word: words.next().unwrap_or_default().to_owned(),
            sentence,
            ..Line::default()
        };
        for word in words {
            match word.split_once('=') {
                Some((key, value)) => line.keys.push((key.to_owned(), decoded(value))),
                None => line.arguments.push(decoded(word)),
            }
        }
        line
    }

    pub fn is_error(&self) -> bool {
        self.sentence.is_some()
    }

    /// The request was on its way for longer than the node waited for it.
    pub fn came_too_late(&self) -> bool {
        let sentence = self.sentence.as_deref();
        sentence.is_some_and(|sentence| sentence.starts_with("no request line came in time"))
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

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        match (first, after.get(..2).and_then(hex)) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
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
