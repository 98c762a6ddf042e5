//! Going on with an append that another process began: where its stream ends in the log, and the command that says so.

use std::ffi::OsString;
use std::io::Read;

use anyhow::Result;
use client::admin::{StreamEnd, StreamInfo};
use client::{AppendError, AppendOptions, Appender, Client, ReadError, ReadOptions, StreamName};
use wire::StreamPlace;

use super::Source;
use terminal::exit::{Failure, Kind};

/// How often the stream is looked for anew, when it grew before it was continued.
const ATTEMPTS: u32 = 10;
/// So many of the last bytes are compared.
const COMPARED_BYTES: usize = 1 << 20;

/// The stream by which people know what is appended, and the position in its chain at which it begins.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub stream: StreamName,
    begins: u64,
}

#[allow(clippy::large_enum_variant, reason = "there is one")]
pub enum Resumed {
    Open(Appender, Place),
    /// It was closed behind the input's last byte, with so many.
    Closed(u64),
}

/// The end of a chain, counted from the stream that somebody named.
#[derive(Debug, PartialEq, Eq)]
struct End {
    last: StreamPlace,
    length: u64,
    is_closed: bool,
}

impl Place {
    pub fn of(appender: &Appender) -> Place {
        Place {
            stream: appender.stream(),
            begins: appender.position(),
        }
    }

    /// The position of the stream that is this one of its chain.
    pub fn of_chain(self, position: u64) -> u64 {
        position.saturating_sub(self.begins)
    }
}

/// Opens a stream that continues the one that was left, and takes the source to the byte that comes next.
pub fn resume(
    client: &Client,
    log: &str,
    left: StreamPlace,
    source: &mut Source,
    options: AppendOptions,
) -> Result<Resumed> {
    let StreamPlace { stream, position } = left;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let streams = client.streams(log)?;
        check_first(&streams, stream)?;
        let Some(end) = end_of(&streams, stream) else {
            let sentence = format!(
                "{log} has no stream {stream} to continue: it was trimmed, or is another log's"
            );
            return Err(Failure::new(Kind::NotFound, sentence).into());
        };
        let length = end.length;
        if position > length {
            let sentence = format!(
                "stream {stream} has {length} bytes, fewer than --continue says: it is not the one that was left"
            );
            return Err(Failure::usage(sentence).into());
        }
        source.skip(position, length)?;
        compare(client, log, stream, length, source)?;
        if end.is_closed {
            return match source.is_at_end()? {
                true => Ok(Resumed::Closed(length)),
                false => {
                    let sentence = format!(
                        "stream {stream} was closed at {length}, and the input goes on; append the rest as a stream of its own"
                    );
                    Err(Failure::new(Kind::Refused, sentence).into())
                }
            };
        }
        let wanted = AppendOptions {
            label: options.label.clone(),
            mode: options.mode,
            continues: Some(end.last),
            ..AppendOptions::default()
        };
        match client.append(log, wanted) {
            Ok(appender) => {
                let begins = appender.position().saturating_sub(length);
                return Ok(Resumed::Open(appender, Place { stream, begins }));
            }
            // It grew since the look: what its writer had on the way was chosen.
            Err(AppendError::Continues { .. }) if attempts < ATTEMPTS => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Compares the last bytes that the log has of the stream with those of the input: another input would be put behind them without
/// a word.
fn compare(
    client: &Client,
    log: &str,
    stream: StreamName,
    length: u64,
    source: &mut Source,
) -> Result<()> {
    let own = source.before(length, COMPARED_BYTES)?;
    let begins = length - own.len() as u64;
    let options = ReadOptions {
        stream: Some(stream),
        from: begins,
        to: Some(length),
        ..ReadOptions::default()
    };
    let mut kept = Vec::new();
    let read = |options: ReadOptions, kept: &mut Vec<u8>| match client.read(log, options) {
        Ok(mut reader) => reader.read_to_end(kept).map(drop).map_err(Into::into),
        Err(error) => Err(anyhow::Error::from(error)),
    };
    if own.is_empty() {
        return Ok(());
    }
    if let Err(error) = read(options.clone(), &mut kept) {
        // A log that forgot the beginning of these bytes has the rest.
        let from = match error.downcast_ref() {
            Some(ReadError::Trimmed { from }) => *from,
            _ => return Err(error),
        };
        kept.clear();
        if from < length {
            read(ReadOptions { from, ..options }, &mut kept)?;
        }
    }
    if own.ends_with(&kept) {
        return Ok(());
    }
    let count = kept.len();
    let sentence = format!(
        "the {count} bytes of stream {stream} before byte {length} are not those of the input: that is not what was appended; nothing was \
         changed"
    );
    Err(Failure::usage(sentence).into())
}

/// Bytes of an input are counted from the beginning of its chain. ‡ A later stream of it may be empty, and behind that one the input
/// would be appended once more.
fn check_first(streams: &[StreamInfo], named: StreamName) -> Result<()> {
    let mut first = named.to_string();
    for stream in streams.iter().rev() {
        if stream.name == first
            && let Some(continues) = &stream.continues
        {
            first.clone_from(&continues.stream);
        }
    }
    if first == named.to_string() {
        return Ok(());
    }
    let sentence = match streams.iter().any(|stream| stream.name == first) {
        true => format!(
            "{named} continues {first}, where its input begins: say --continue {first}; nothing was changed"
        ),
        false => format!(
            "{named} continues {first}, where its input begins and which was trimmed: append the rest of the input as a stream of its own"
        ),
    };
    Err(Failure::usage(sentence).into())
}

/// Follows a chain to its end.
fn end_of(streams: &[StreamInfo], first: StreamName) -> Option<End> {
    let mut name = first.to_string();
    let mut length = 0;
    // They are listed in the order of opening: a continuation comes later.
    let mut rest = streams.iter();
    loop {
        let found = rest.find(|stream| stream.name == name)?;
        length = u64::saturating_add(length, found.length);
        match &found.continued_by {
            Some(next) => name.clone_from(next),
            None => {
                return Some(End {
                    last: StreamPlace {
                        stream: found.name.parse().ok()?,
                        position: found.length,
                    },
                    length,
                    is_closed: found.end == StreamEnd::Closed,
                });
            }
        }
    }
}

/// The command that was given, with this place to go on at. It takes nothing over: the stream is its own.
pub fn command(arguments: impl Iterator<Item = OsString>, place: &str) -> String {
    let mut words = vec!["logberg".to_owned()];
    let mut arguments = arguments.skip(1);
    while let Some(argument) = arguments.next() {
        let argument = argument.to_string_lossy();
        match argument.as_ref() {
            "--continue" => drop(arguments.next()),
            "--takeover" => {}
            word if word.starts_with("--continue=") => {}
            word => words.push(quoted(word)),
        }
    }
    words.extend(["--continue".to_owned(), quoted(place)]);
    words.join(" ")
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::admin::Continues;

    fn stream(name: &str, length: u64, end: StreamEnd, continued_by: Option<&str>) -> StreamInfo {
        StreamInfo {
            name: name.to_owned(),
            label: None,
            length,
            trimmed: 0,
            end,
            continues: None,
            continued_by: continued_by.map(str::to_owned),
        }
    }

    #[test]
    fn a_chain_is_followed_to_its_end() {
        let streams = [
            stream("1.1.1", 10, StreamEnd::Cut, Some("2.1.1")),
            stream("3.1.1", 7, StreamEnd::Closed, None),
            stream("2.1.1", 5, StreamEnd::Open, None),
        ];
        let end = |name: &str| end_of(&streams, name.parse().expect("a name"));
        let open = end("1.1.1").expect("it is there");
        assert_eq!(
            (open.last.to_string().as_str(), open.length),
            ("2.1.1@5", 15)
        );
        assert!(!open.is_closed);
        assert!(end("3.1.1").is_some_and(|end| end.is_closed && end.length == 7));
        assert_eq!(end("9.9.9"), None);
    }

    #[test]
    fn a_later_stream_of_a_chain_is_refused_and_the_first_is_named() {
        let mut streams = [
            stream("1.1.1", 10, StreamEnd::Cut, Some("2.1.1")),
            stream("3.1.1", 7, StreamEnd::Closed, None),
            stream("2.1.1", 5, StreamEnd::Cut, Some("4.1.1")),
            stream("4.1.1", 5, StreamEnd::Open, None),
        ];
        let behind = |stream: &str| {
            let stream = stream.to_owned();
            Some(Continues { stream, at: 0 })
        };
        streams[2].continues = behind("1.1.1");
        streams[3].continues = behind("2.1.1");
        let refused = |streams: &[StreamInfo], name: &str| {
            let checked = check_first(streams, name.parse().expect("a name"));
            checked.err().map(|error| error.to_string())
        };
        let said = refused(&streams, "4.1.1").expect("a refusal");
        assert!(said.contains("say --continue 1.1.1"), "{said}");
        let said = refused(&streams[1..], "2.1.1").expect("a refusal");
        assert!(said.contains("which was trimmed"), "{said}");
        assert_eq!(refused(&streams, "1.1.1"), None);
        assert_eq!(refused(&streams, "3.1.1"), None);
    }

    #[test]
    fn the_command_can_be_pasted() {
        let given = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            command(words.into_iter(), "1.4.2@5")
        };
        assert_eq!(
            given(&[
                "/usr/bin/logberg",
                "append",
                "main",
                "my notes",
                "--takeover"
            ]),
            "logberg append main 'my notes' --continue 1.4.2@5"
        );
        assert_eq!(
            given(&["logberg", "append", "main", "it's", "--continue", "1.1.1@3"]),
            "logberg append main 'it'\\''s' --continue 1.4.2@5"
        );
        assert_eq!(
            given(&["logberg", "append", "--continue=1.1.1", "main"]),
            "logberg append main --continue 1.4.2@5"
        );
    }
}
