//! The requests of the client lines, typed. Needs only `std` and [`crate::line`].

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use crate::line::{LINE_BYTES_MAX, LineError, LineWriter, StreamName, StreamPlace, VERSION, Words};
use crate::members::Change;

/// What a client asks. One request is the first line of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Append {
        log: String,
        label: Option<String>,
        continues: Option<StreamPlace>,
        mode: Mode,
        end: ConnectionEnd,
    },
    Close {
        log: String,
        /// The stream, and the position it must have reached: all of it, and no more.
        at: StreamPlace,
    },
    Read {
        log: String,
        stream: Option<StreamName>,
        from: u64,
        to: Option<u64>,
        follow: bool,
        stale: bool,
        format: Format,
    },
    Trim {
        log: String,
        before: Before,
        /// Only say what it would come to.
        plan: bool,
    },
    Lead {
        log: String,
        /// The most suitable node, if none is named.
        to: Option<u64>,
    },
    /// How the node's scrubs of a log go.
    Scrub {
        log: String,
        /// Begin one now: the log's leader.
        start: bool,
        /// Read so many bytes a second.
        rate: Option<u64>,
    },
    Status {
        /// Not before the node knows all that is chosen of the directory by then.
        fresh: bool,
    },
    Metrics,
    Streams {
        log: String,
        stale: bool,
        /// Those that were opened after this one.
        after: Option<StreamName>,
        /// So many at most.
        limit: Option<u64>,
    },
    Logs {
        /// As the server has read so far, also without a quorum.
        stale: bool,
        /// Those with a higher id.
        after: Option<u64>,
        limit: Option<u64>,
    },
    CreateLog {
        name: String,
        /// Ids of the nodes that are to host it; none for all.
        members: NodeIds,
        /// Ids of the nodes that are to be auxiliary.
        auxiliary: NodeIds,
        /// As in `Retain`.
        retention: Option<String>,
    },
    DeleteLog {
        name: String,
        /// Its name is freed though it has not ended.
        abandon: bool,
    },
    ShowLog {
        name: String,
    },
    Members {
        /// Of the node that is asked, whether it leads or not.
        local: bool,
        /// Only logs with a higher id.
        after: Option<u64>,
        limit: Option<u64>,
    },
    ChangeMembers(Change),
    /// `10GiB`, `7d`, `10GiB,7d` or `forever`.
    Retain {
        log: String,
        retention: String,
    },
}

/// Up to where a log is to be trimmed. Written `SLOT`, `STREAM` or `STREAM@POSITION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    Slot(u64),
    /// Everything before this place in a stream: at position 0, before the stream.
    Stream(StreamPlace),
}

/// What was meant to be a [`Before`] and is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPlace;

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a place is SLOT, STREAM or STREAM@POSITION, such as 1.4.2@1000000")
    }
}

impl std::error::Error for NoPlace {}

impl fmt::Display for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(slot) => write!(f, "{slot}"),
            Self::Stream(place) if place.position == 0 => write!(f, "{}", place.stream),
            Self::Stream(place) => write!(f, "{place}"),
        }
    }
}

impl FromStr for Before {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        if let Ok(slot) = text.parse() {
            return Ok(Self::Slot(slot));
        }
        if let Ok(stream) = text.parse() {
            let position = 0;
            return Ok(Self::Stream(StreamPlace { stream, position }));
        }
        text.parse().map(Self::Stream).map_err(|_| NoPlace)
    }
}

/// What an append does when the log has an active writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Refuse,
    Wait,
    TakeOver,
}

/// What the end of an append's connection means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// The stream is cut: a killed client's connection ends too.
    #[default]
    Cut,
    /// The client's half-close is a clean end of the stream.
    Fin,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Raw,
    Framed,
}

/// Written with commas between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeIds(pub Vec<u64>);

impl fmt::Display for NodeIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, id) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{id}")?;
        }
        Ok(())
    }
}

impl FromStr for NodeIds {
    type Err = ParseIntError;
    fn from_str(text: &str) -> Result<NodeIds, ParseIntError> {
        text.split(',')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map(NodeIds)
    }
}

/// Gives an enum of words its two directions from one table.
macro_rules! words {
    ($type:ty { $($variant:ident = $word:literal),* $(,)? }) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),* })
            }
        }
        impl FromStr for $type {
            type Err = ();
            fn from_str(word: &str) -> Result<Self, ()> {
                match word { $($word => Ok(Self::$variant),)* _ => Err(()) }
            }
        }
    };
}

words!(Mode { Refuse = "refuse", Wait = "wait", TakeOver = "takeover" });
words!(ConnectionEnd { Cut = "cut", Fin = "fin" });
words!(Format { Raw = "raw", Framed = "framed" });

impl Request {
    /// The request as a line with its LF. Defaults are left out.
    pub fn to_line(&self) -> String {
        self.to_line_for(None)
    }

    /// The same, for the nodes of one cluster alone. Only to those that said that they understand it.
    pub fn to_line_for(&self, cluster: Option<&str>) -> String {
        let line = LineWriter::new(VERSION);
        let line = match self {
            Self::Append {
                log,
                label,
                continues,
                mode,
                end,
            } => line
                .word("append")
                .word(log)
                .key_if("label", label.as_ref())
                .key_if("continues", *continues)
                .key_if("mode", (*mode != Mode::default()).then_some(mode))
                .key_if("end", (*end != ConnectionEnd::default()).then_some(end)),
            Self::Close { log, at } => line
                .word("close")
                .word(log)
                .key("stream", at.stream)
                .key("at", at.position),
            Self::Read {
                log,
                stream,
                from,
                to,
                follow,
                stale,
                format,
            } => line
                .word("read")
                .word(log)
                .key_if("stream", *stream)
                .key_if("from", (*from > 0).then_some(from))
                .key_if("to", *to)
                .flag("follow", *follow)
                .flag("stale", *stale)
                .key_if("format", (*format != Format::default()).then_some(format)),
            Self::Trim { log, before, plan } => line
                .word("trim")
                .word(log)
                .key("before", before)
                .flag("plan", *plan),
            Self::Lead { log, to } => line.word("lead").word(log).key_if("to", *to),
            Self::Scrub { log, start, rate } => line
                .word("scrub")
                .word(log)
                .flag("start", *start)
                .key_if("rate", *rate),
            Self::Status { fresh } => line.word("status").flag("fresh", *fresh),
            Self::Metrics => line.word("metrics"),
            Self::Streams {
                log,
                stale,
                after,
                limit,
            } => line
                .word("streams")
                .word(log)
                .flag("stale", *stale)
                .key_if("after", *after)
                .key_if("limit", *limit),
            Self::Logs {
                stale,
                after,
                limit,
            } => line
                .word("logs")
                .flag("stale", *stale)
                .key_if("after", *after)
                .key_if("limit", *limit),
            Self::CreateLog {
                name,
                members,
                auxiliary,
                retention,
            } => line
                .word("create-log")
                .word(name)
                .key_if("members", (!members.0.is_empty()).then_some(members))
                .key_if("auxiliary", (!auxiliary.0.is_empty()).then_some(auxiliary))
                .key_if("retention", retention.as_ref()),
            Self::DeleteLog { name, abandon } => {
                line.word("delete-log").word(name).flag("abandon", *abandon)
            }
            Self::ShowLog { name } => line.word("show-log").word(name),
            Self::Members {
                local,
                after,
                limit,
            } => line
                .word("members")
                .flag("local", *local)
                .key_if("after", *after)
                .key_if("limit", *limit),
            Self::ChangeMembers(change) => change.write(line.word("change-members")),
            Self::Retain { log, retention } => {
                line.word("retain").word(log).key("retention", retention)
            }
        };
        line.key_if("cluster", cluster).end()
    }

    /// The log whose leader alone can answer it, in words.
    pub(crate) fn leader_of(&self) -> Option<String> {
        match self {
            Self::CreateLog { .. }
            | Self::DeleteLog { .. }
            | Self::ShowLog { .. }
            | Self::Retain { .. }
            | Self::Logs { stale: false, .. }
            | Self::Members { local: false, .. }
            | Self::Status { fresh: true }
            | Self::ChangeMembers(_) => Some("log 0, the cluster's directory,".to_owned()),
            Self::Streams {
                log, stale: false, ..
            }
            | Self::Trim { log, .. }
            | Self::Lead { log, .. }
            | Self::Scrub {
                log, start: true, ..
            } => Some(format!("the log {log}")),
            _ => None,
        }
    }

    /// Parses a request line, with or without its LF.
    pub fn parse(line: &[u8]) -> Result<Self, LineError> {
        if line.len() > LINE_BYTES_MAX {
            return Err(LineError::TooLong);
        }
        let mut words = Words::parse(line)?;
        let version = words.word("version")?;
        if version != VERSION {
            return Err(LineError::Version(version));
        }
        let verb = words.word("verb")?;
        let request = match verb.as_str() {
            "append" => Self::Append {
                log: words.word("LOG")?,
                label: words.key("label"),
                continues: words.key_as("continues")?,
                mode: words.key_as("mode")?.unwrap_or_default(),
                end: words.key_as("end")?.unwrap_or_default(),
            },
            "close" => Self::Close {
                log: words.word("LOG")?,
                at: StreamPlace {
                    stream: words
                        .key_as("stream")?
                        .ok_or(LineError::Missing("stream"))?,
                    position: words.key_as("at")?.ok_or(LineError::Missing("at"))?,
                },
            },
            "read" => Self::Read {
                log: words.word("LOG")?,
                stream: words.key_as("stream")?,
                from: words.key_as("from")?.unwrap_or(0),
                to: words.key_as("to")?,
                follow: words.flag("follow")?,
                stale: words.flag("stale")?,
                format: words.key_as("format")?.unwrap_or_default(),
            },
            "trim" => Self::Trim {
                log: words.word("LOG")?,
                before: words
                    .key_as("before")?
                    .ok_or(LineError::Missing("before"))?,
                plan: words.flag("plan")?,
            },
            "lead" => Self::Lead {
                log: words.word("LOG")?,
                to: words.key_as("to")?,
            },
            "scrub" => Self::Scrub {
                log: words.word("LOG")?,
                start: words.flag("start")?,
                rate: words.key_as("rate")?,
            },
            "status" => Self::Status {
                fresh: words.flag("fresh")?,
            },
            "metrics" => Self::Metrics,
            "streams" => Self::Streams {
                log: words.word("LOG")?,
                stale: words.flag("stale")?,
                after: words.key_as("after")?,
                limit: words.key_as("limit")?,
            },
            "logs" => Self::Logs {
                stale: words.flag("stale")?,
                after: words.key_as("after")?,
                limit: words.key_as("limit")?,
            },
            "create-log" => Self::CreateLog {
                name: words.word("NAME")?,
                members: words.key_as("members")?.unwrap_or_default(),
                auxiliary: words.key_as("auxiliary")?.unwrap_or_default(),
                retention: words.key("retention"),
            },
            "delete-log" => Self::DeleteLog {
                name: words.word("NAME")?,
                abandon: words.flag("abandon")?,
            },
            "show-log" => Self::ShowLog {
                name: words.word("NAME")?,
            },
            "members" => Self::Members {
                local: words.flag("local")?,
                after: words.key_as("after")?,
                limit: words.key_as("limit")?,
            },
            "change-members" => Self::ChangeMembers(Change::parse(&mut words)?),
            "retain" => Self::Retain {
                log: words.word("LOG")?,
                retention: words
                    .key("retention")
                    .ok_or(LineError::Missing("retention"))?,
            },
            _ => return Err(LineError::UnknownVerb(verb)),
        };
        words.end()?;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::Action;

    #[test]
    fn requests_are_written_as_the_page_says() {
        let place: StreamPlace = "1.2.3@45".parse().unwrap();
        let requests = [
            (
                "logberg/1 append main label=night%20import continues=1.2.3@45 mode=takeover\n",
                Request::Append {
                    log: "main".to_owned(),
                    label: Some("night import".to_owned()),
                    continues: Some(place),
                    mode: Mode::TakeOver,
                    end: ConnectionEnd::Cut,
                },
            ),
            (
                "logberg/1 close main stream=1.2.3 at=45\n",
                Request::Close {
                    log: "main".to_owned(),
                    at: place,
                },
            ),
            (
                "logberg/1 read a%3Db stream=1.2.3 from=7 to=9 follow=1 stale=1 format=framed\n",
                Request::Read {
                    log: "a=b".to_owned(),
                    stream: Some(place.stream),
                    from: 7,
                    to: Some(9),
                    follow: true,
                    stale: true,
                    format: Format::Framed,
                },
            ),
            (
                "logberg/1 trim main before=1.2.3@45 plan=1\n",
                Request::Trim {
                    log: "main".to_owned(),
                    before: Before::Stream(place),
                    plan: true,
                },
            ),
            (
                "logberg/1 trim main before=4096\n",
                Request::Trim {
                    log: "main".to_owned(),
                    before: Before::Slot(4096),
                    plan: false,
                },
            ),
            (
                "logberg/1 lead main to=3\n",
                Request::Lead {
                    log: "main".to_owned(),
                    to: Some(3),
                },
            ),
            (
                "logberg/1 scrub main start=1 rate=1000\n",
                Request::Scrub {
                    log: "main".to_owned(),
                    start: true,
                    rate: Some(1000),
                },
            ),
            ("logberg/1 status\n", Request::Status { fresh: false }),
            (
                "logberg/1 status fresh=1\n",
                Request::Status { fresh: true },
            ),
            ("logberg/1 metrics\n", Request::Metrics),
            (
                "logberg/1 streams main stale=1\n",
                Request::Streams {
                    log: "main".to_owned(),
                    stale: true,
                    after: None,
                    limit: None,
                },
            ),
            (
                "logberg/1 logs\n",
                Request::Logs {
                    stale: false,
                    after: None,
                    limit: None,
                },
            ),
            (
                "logberg/1 create-log spare\n",
                Request::CreateLog {
                    name: "spare".to_owned(),
                    members: NodeIds::default(),
                    auxiliary: NodeIds::default(),
                    retention: None,
                },
            ),
            (
                "logberg/1 create-log spare members=1,3,4 auxiliary=3 retention=10GiB,7d\n",
                Request::CreateLog {
                    name: "spare".to_owned(),
                    members: NodeIds(vec![1, 3, 4]),
                    auxiliary: NodeIds(vec![3]),
                    retention: Some("10GiB,7d".to_owned()),
                },
            ),
            (
                "logberg/1 delete-log spare\n",
                Request::DeleteLog {
                    name: "spare".to_owned(),
                    abandon: false,
                },
            ),
            (
                "logberg/1 show-log spare\n",
                Request::ShowLog {
                    name: "spare".to_owned(),
                },
            ),
            (
                "logberg/1 members\n",
                Request::Members {
                    local: false,
                    after: None,
                    limit: None,
                },
            ),
            (
                "logberg/1 change-members replace 3 4 plan=1\n",
                Request::ChangeMembers(Change {
                    plan: true,
                    ..Change::new(Action::Replace { old: 3, new: 4 })
                }),
            ),
            (
                "logberg/1 change-members weight 3 2 log=main,b force=1 version=7\n",
                Request::ChangeMembers(Change {
                    logs: vec!["main".to_owned(), "b".to_owned()],
                    force: true,
                    version: Some(7),
                    ..Change::new(Action::Weight { node: 3, weight: 2 })
                }),
            ),
            (
                "logberg/1 streams main after=1.4.2 limit=100\n",
                Request::Streams {
                    log: "main".to_owned(),
                    stale: false,
                    after: Some("1.4.2".parse().unwrap()),
                    limit: Some(100),
                },
            ),
            (
                "logberg/1 logs after=412\n",
                Request::Logs {
                    stale: false,
                    after: Some(412),
                    limit: None,
                },
            ),
            (
                "logberg/1 retain spare retention=10GiB,7d\n",
                Request::Retain {
                    log: "spare".to_owned(),
                    retention: "10GiB,7d".to_owned(),
                },
            ),
        ];
        for (line, request) in requests {
            assert_eq!(request.to_line(), line);
            assert_eq!(Request::parse(line.as_bytes()), Ok(request));
        }
    }

    #[test]
    fn the_place_of_a_trim_has_one_spelling() {
        for text in ["17", "1.2.3", "1.2.3@45"] {
            let before: Before = text.parse().unwrap();
            assert_eq!(before.to_string(), text);
        }
        assert_eq!("1.2.3@0".parse::<Before>(), "1.2.3".parse());
        for text in ["", "-1", "1.2", "1.2.3@", "main"] {
            assert_eq!(text.parse::<Before>(), Err(NoPlace), "{text}");
        }
    }

    #[test]
    fn an_unknown_key_is_refused() {
        assert_eq!(
            Request::parse(b"logberg/1 append main colour=red"),
            Err(LineError::UnknownKey("colour".to_owned()))
        );
    }

    #[test]
    fn another_version_is_told_apart_from_nonsense() {
        assert_eq!(
            Request::parse(b"logberg/2 status"),
            Err(LineError::Version("logberg/2".to_owned()))
        );
    }

    #[test]
    fn a_value_of_the_wrong_kind_names_its_key() {
        assert_eq!(
            Request::parse(b"logberg/1 append main mode=gently"),
            Err(LineError::Value {
                key: "mode",
                found: "gently".to_owned()
            })
        );
    }

    #[test]
    fn a_line_over_the_limit_is_refused() {
        let line = format!(
            "logberg/1 append main label={}\n",
            "x".repeat(LINE_BYTES_MAX)
        );
        assert_eq!(Request::parse(line.as_bytes()), Err(LineError::TooLong));
    }
}
