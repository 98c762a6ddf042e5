//! A list of streams that cannot be one.

use std::collections::{BTreeMap, BTreeSet};

use wire::StreamName;
use wire::told::StreamInfo;

/// The contradiction that keeps this from being the streams of a log, if there is one.
pub(crate) fn contradiction<'a>(
    streams: impl Iterator<Item = &'a StreamInfo> + Clone,
) -> Option<String> {
    let mut names = BTreeSet::new();
    let places: BTreeMap<&str, usize> = streams.clone().map(|info| &*info.name).zip(0..).collect();
    streams.enumerate().find_map(|(place, info)| {
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
        // They are listed in the order of opening. One that was trimmed is not listed.
        let of = |stream: &String| places.get(stream.as_str());
        let before = info.continues.as_ref().map(|before| &before.stream);
        let after = info.continued_by.as_ref();
        let is_wrong = before.and_then(of).is_some_and(|of| *of >= place)
            || after.and_then(of).is_some_and(|by| *by <= place);
        is_wrong.then(|| format!("stream {name} continues itself or a later one"))
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
        // Stream 1.1.1 may be gone altogether.
        let good = [continues("1.1.2", "1.1.1"), stream("2.1.1", 7, 7)];
        assert_eq!(contradiction(good.iter()), None);
        for (bad, word) in [
            (vec![stream("1.1", 1, 0)], "no name"),
            (vec![stream("1.1.1", 1, 0), stream("1.1.1", 2, 0)], "twice"),
            (vec![stream("1.1.1", 1, 2)], "trimmed"),
            (vec![continues("1.1.1", "1.1.1")], "itself"),
            (
                vec![continues("1.1.2", "1.1.1"), stream("1.1.1", 5, 0)],
                "a later one",
            ),
        ] {
            let told = contradiction(bad.iter()).expect(word);
            assert!(told.contains(word), "{told}");
        }
    }
}
