//! A list of streams that cannot be one.

use std::collections::BTreeSet;

use wire::StreamName;
use wire::told::StreamInfo;

/// What keeps this from being the streams of a log, if anything does.
pub(super) fn contradiction(streams: &[StreamInfo]) -> Option<String> {
    let mut names = BTreeSet::new();
    streams.iter().find_map(|info| {
        let name = &info.name;
        let parsed: Option<StreamName> = name.parse().ok();
        let Some(parsed) = parsed else {
            return Some(format!("{name:?} is no name of a stream"));
        };
        if !names.insert(parsed) {
            return Some(format!("stream {name} is listed twice"));
        }
        if info.trimmed > info.length {
            let (trimmed, length) = (info.trimmed, info.length);
            return Some(format!(
                "{trimmed} bytes of stream {name} were trimmed, which has {length}"
            ));
        }
        let continues = info.continues.as_ref();
        let is_itself = continues.is_some_and(|before| before.stream == *name)
            || info.continued_by.as_ref() == Some(name);
        is_itself.then(|| format!("stream {name} continues itself"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::told::{Continues, StreamEnd};

    fn stream(name: &str, length: u64, trimmed: u64) -> StreamInfo {
        StreamInfo {
            name: name.to_owned(),
            label: None,
            length,
            trimmed,
            end: StreamEnd::Closed,
            continues: None,
            continued_by: None,
        }
    }

    #[test]
    fn a_list_that_cannot_be_one_is_told_from_one_that_can() {
        let continues = |name: &str, of: &str| StreamInfo {
            continues: Some(Continues {
                stream: of.to_owned(),
                at: 5,
            }),
            ..stream(name, 9, 0)
        };
        // What 1.1.1 was may be gone altogether.
        let good = [continues("1.1.2", "1.1.1"), stream("2.1.1", 7, 7)];
        assert_eq!(contradiction(&good), None);
        for (bad, word) in [
            (vec![stream("1.1", 1, 0)], "no name"),
            (vec![stream("1.1.1", 1, 0), stream("1.1.1", 2, 0)], "twice"),
            (vec![stream("1.1.1", 1, 2)], "trimmed"),
            (vec![continues("1.1.1", "1.1.1")], "itself"),
        ] {
            let told = contradiction(&bad).expect(word);
            assert!(told.contains(word), "{told}");
        }
    }
}
