//! What stands behind the question mark.

use streams::From;

use crate::fault::Fault;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Live {
    #[default]
    No,
    LongPoll,
    Sse,
}

/// A read, as it is asked for. What the protocol does not know is passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    pub from: From,
    /// An offset was said.
    pub is_placed: bool,
    pub live: Live,
    pub cursor: Option<u64>,
    /// As this node has it, and nobody else is asked.
    pub stale: bool,
    /// In one answer, up to the tail.
    pub all: bool,
    /// Events carry base64, whatever the stream's type is.
    pub base64: bool,
}

/// A read of a log, as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogQuery {
    pub query: Query,
    /// The first stream of the chain that is wanted.
    pub stream: Option<String>,
}

/// A list, as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    pub prefix: String,
    pub after: Option<String>,
    pub limit: usize,
}

const LIST_MAX: usize = 1_000;

fn bad(what: &str, remedy: &str) -> Fault {
    Fault::new(400, "bad-query", what, remedy)
}

/// Takes a value that may stand once.
fn once<T>(slot: &mut Option<T>, value: T, name: &str) -> Result<(), Fault> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(bad(&format!("{name} is there twice"), "send it once")),
    }
}

fn yes_or_no(value: &str, name: &str) -> Result<bool, Fault> {
    match value {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(bad(
            &format!("{name} is neither 1 nor 0"),
            "use one of them",
        )),
    }
}

impl Query {
    pub fn parse(text: &str) -> Result<Query, Fault> {
        let (mut from, mut live, mut cursor) = (None, None, None);
        let (mut stale, mut all, mut base64) = (None, None, None);
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            match &*name {
                "offset" => {
                    let parsed = value.parse::<From>();
                    let parsed = parsed
                        .map_err(|error| Fault::sentence(400, "bad-offset", &error.to_string()))?;
                    once(&mut from, parsed, "offset")?;
                }
                "live" => {
                    let parsed = match &*value {
                        "long-poll" => Live::LongPoll,
                        "sse" => Live::Sse,
                        _ => {
                            return Err(bad(
                                "live is neither long-poll nor sse",
                                "use one of them, or leave it away",
                            ));
                        }
                    };
                    once(&mut live, parsed, "live")?;
                }
                "cursor" => once(&mut cursor, value.parse::<u64>().ok(), "cursor")?,
                "stale" => once(&mut stale, yes_or_no(&value, "stale")?, "stale")?,
                "all" => once(&mut all, yes_or_no(&value, "all")?, "all")?,
                "encoding" => match &*value {
                    "base64" => once(&mut base64, true, "encoding")?,
                    _ => {
                        return Err(bad(
                            "encoding is not base64",
                            "leave it away for the usual one",
                        ));
                    }
                },
                _ => {}
            }
        }
        let live = live.unwrap_or_default();
        if live != Live::No && from.is_none() {
            return Err(bad(
                "a live read says no offset",
                "send offset=-1 for all, offset=now for what comes, or one that an answer had in Stream-Next-Offset",
            ));
        }
        Ok(Query {
            is_placed: from.is_some(),
            from: from.unwrap_or(From::Start),
            live,
            // One that is no number was not ours.
            cursor: cursor.flatten(),
            stale: stale.unwrap_or(false),
            all: all.unwrap_or(false),
            base64: base64.unwrap_or(false),
        })
    }
}

impl LogQuery {
    pub fn parse(text: &str) -> Result<LogQuery, Fault> {
        let query = Query::parse(text)?;
        let mut stream = None;
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            if name == "stream" {
                if !is_stream(&value) {
                    return Err(bad(
                        "stream is no name of a stream",
                        "send one as `logberg streams` or Logberg-Stream tells it, such as 1.4.2",
                    ));
                }
                once(&mut stream, value.into_owned(), "stream")?;
            }
        }
        Ok(LogQuery { query, stream })
    }
}

/// Whether somebody asks for what is not there yet.
pub fn waits(query: &str) -> bool {
    let mut names = form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name);
    names.any(|name| name == "live")
}

/// Whether this is the name of a stream in a log: three numbers, and each has one spelling.
pub fn is_stream(text: &str) -> bool {
    let is_number = |part: &str| {
        part.parse::<u64>()
            .is_ok_and(|number| number.to_string() == part)
    };
    text.split('.').count() == 3 && text.split('.').all(is_number)
}

impl List {
    pub fn parse(text: &str) -> Result<List, Fault> {
        let (mut prefix, mut after, mut limit) = (None, None, None);
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            match &*name {
                "prefix" => once(&mut prefix, value.into_owned(), "prefix")?,
                "after" => once(&mut after, value.into_owned(), "after")?,
                "limit" => {
                    let number = value.parse::<usize>().ok();
                    let number = number.filter(|number| (1..=LIST_MAX).contains(number));
                    let number = number
                        .ok_or_else(|| bad("limit is no number from 1 to 1000", "send one"))?;
                    once(&mut limit, number, "limit")?;
                }
                _ => {}
            }
        }
        Ok(List {
            prefix: prefix.unwrap_or_default(),
            after,
            limit: limit.unwrap_or(LIST_MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use streams::Offset;

    use super::*;

    #[test]
    fn a_read_is_asked_for_by_offset_and_mode() {
        let of = Query::parse;
        assert_eq!(of("").map(|query| query.from), Ok(From::Start));
        let query = of("offset=now&live=sse&cursor=7&other=x&stale=1").expect("a read");
        assert_eq!(query.from, From::Tail);
        assert_eq!(
            (query.live, query.cursor, query.stale),
            (Live::Sse, Some(7), true)
        );
        let offset = Offset {
            lineage: 1,
            position: 2,
        };
        let text = format!("offset={offset}");
        assert_eq!(of(&text).map(|query| query.from), Ok(From::At(offset)));
        for bad in [
            "offset=",
            "offset=a,b",
            "offset=-1&offset=-1",
            "offset=1 2",
            "live=sse",
            "live=long-poll",
            "offset=-1&live=",
            "offset=-1&live=sse&live=sse",
            "stale=yes",
            "encoding=gzip",
        ] {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert_eq!(of("cursor=x").map(|query| query.cursor), Ok(None));
    }

    #[test]
    fn a_log_is_read_whole_or_by_the_first_stream_of_a_chain() {
        let of = |text| LogQuery::parse(text).map(|query| (query.stream, query.query.is_placed));
        assert_eq!(of(""), Ok((None, false)));
        assert_eq!(
            of("stream=1.4.2&offset=-1"),
            Ok((Some("1.4.2".to_owned()), true))
        );
        for bad in [
            "stream=",
            "stream=1.2",
            "stream=01.2.3",
            "stream=1.2.3.4",
            "stream=a.b.c",
            "stream=1.2.3&stream=1.2.3",
        ] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_list_has_bounds() {
        let list = List::parse("prefix=a%2F&limit=3").expect("a list");
        assert_eq!((&*list.prefix, list.limit), ("a/", 3));
        assert!(List::parse("limit=0").is_err() && List::parse("limit=1001").is_err());
    }
}
