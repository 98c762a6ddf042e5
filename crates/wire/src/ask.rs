//! The requests of clients, typed: what each verb's words and keys mean ([`crate::verb`] declares them).

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use crate::change::Change;
use crate::change_slots::ChangeSlots;
use crate::line::{LineError, LineWriter, PROTOCOL, line_bytes_max};
use crate::{Before, LogKind, Request, StreamName, StreamPlace, Verb};

/// A client's request. One request is the first line of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    Append {
        log: String,
        label: Option<String>,
        continues: Option<StreamPlace>,
        /// By which the node finds the stream of an earlier attempt that was not answered.
        token: Option<String>,
        /// Acknowledgements are to tell the checksum of what they acknowledge.
        checked: bool,
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
        /// The next leader. The most suitable node, if none is named.
        to: Option<u64>,
    },
    /// The progress of the node's scrubs of a log.
    Scrub {
        log: String,
        /// Begin one now. This asks the log's leader.
        start: bool,
        /// Read so many bytes a second.
        rate: Option<u64>,
    },
    /// All rows of a log's machine.
    Save {
        log: String,
    },
    /// Fills the empty machine of a log with rows.
    Fill {
        log: String,
        /// ‡ The sha256 of what they come from: whoever goes on does so with the same rows.
        backup: BackupId,
        /// The machine's time is not before this, in milliseconds since the beginning of 1970.
        time_ms: u64,
        /// The next session has this number or a greater one.
        sessions: u64,
    },
    Status {
        /// Answer only once the node knows all that is chosen of the directory by then.
        fresh: bool,
    },
    Metrics,
    Streams {
        log: String,
        stale: bool,
        /// Only streams that were opened after this one.
        after: Option<StreamName>,
        /// At most so many.
        limit: Option<u64>,
    },
    Logs {
        /// Answer as the server has read so far, also without a quorum.
        stale: bool,
        /// Only logs with a higher id.
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
        min_copies: Option<u32>,
        kind: LogKind,
    },
    DeleteLog {
        name: String,
        /// Free its name though it has not ended.
        abandon: bool,
    },
    ShowLog {
        name: String,
    },
    Members {
        /// Answer for the node that is asked, whether it leads or not.
        local: bool,
        /// Only logs with a higher id.
        after: Option<u64>,
        limit: Option<u64>,
    },
    ChangeMembers(Change),
    /// Which group of keys is to serve which slots, and which one does.
    Slots {
        /// What an earlier version of the map wanted.
        version: Option<u32>,
    },
    ChangeSlots(ChangeSlots),
    Tokens {
        /// That one alone.
        name: Option<String>,
        after: Option<String>,
        limit: Option<u64>,
    },
    PutToken {
        name: String,
        /// The SHA-256 of its secret, in hexadecimal: the secret itself is told to nobody. None: it has no secret, and its owner shows
        /// a client's certificate of that name.
        sha256: Option<String>,
        /// `OPERATION,… on RESOURCE` each.
        grants: Vec<String>,
        expires_ms: Option<u64>,
        /// It is for one node that joins, and for no other.
        once: bool,
        /// Who joins by it gets the name of that node, whose disk is lost.
        replaces: Option<u32>,
    },
    RotateToken {
        name: String,
        /// The hash of the new secret.
        sha256: String,
        /// The secret before it is good as well for so long.
        overlap_ms: u64,
    },
    RevokeToken {
        name: String,
        /// Only say what would be revoked.
        plan: bool,
    },
    /// Whoever signs tickets, or that one alone.
    Issuers {
        /// That one alone.
        name: Option<String>,
    },
    /// An issuer is made, or changed.
    PutIssuer {
        /// Its name.
        name: String,
        /// `EdDSA:BASE64URL` or `ES256:BASE64URL` each: public keys.
        keys: Vec<String>,
        /// `OPERATION,… on RESOURCE` each: what its tickets may at most.
        grants: Vec<String>,
        /// There may be one of that name, which this one comes in the place of.
        replace: bool,
    },
    /// The tickets of an issuer are good no more.
    RemoveIssuer {
        /// Its name.
        name: String,
        /// Only say what would be removed.
        plan: bool,
    },
    SetAuth {
        on: bool,
        plan: bool,
    },
    WhoAmI,
    Explain {
        operation: String,
        resource: String,
        /// That token; the asker itself, if none is named.
        token: Option<String>,
    },
    Audit {
        /// The last so many.
        limit: Option<u64>,
    },
    Retain {
        log: String,
        /// `10GiB`, `7d`, `10GiB,7d` or `forever`; as it is, if not given.
        retention: Option<String>,
        /// The number of full members that are to hold what is acknowledged; 0 if a majority decides.
        min_copies: Option<u32>,
    },
}

/// The mode of an append when the log has an active writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Refuse,
    Wait,
    TakeOver,
}

/// The meaning of the end of an append's connection.
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

/// The identity of a backup, written in hex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupId(pub [u8; 32]);

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for BackupId {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<BackupId, &'static str> {
        let bytes = formats::parse_hex(text).map(BackupId);
        bytes.ok_or("backup is a sha256: 64 hex digits")
    }
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
        let ids = text.split(',').map(|id| id.parse::<u32>().map(u64::from));
        ids.collect::<Result<_, _>>().map(NodeIds)
    }
}

impl NodeIds {
    /// The ids as nodes number themselves: no other ids are read.
    pub fn to_u32(&self) -> Vec<u32> {
        let ids = self.0.iter();
        ids.filter_map(|id| u32::try_from(*id).ok()).collect()
    }
}

/// Gives an enum of words its two directions from one table, and the sentence for a word that is not among them.
macro_rules! words {
    ($type:ty, $sentence:literal { $($variant:ident = $word:literal),* $(,)? }) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),* })
            }
        }
        impl FromStr for $type {
            type Err = &'static str;
            fn from_str(word: &str) -> Result<Self, &'static str> {
                match word { $($word => Ok(Self::$variant),)* _ => Err($sentence) }
            }
        }
    };
}

words!(Mode, "mode is refuse, wait or takeover" { Refuse = "refuse", Wait = "wait", TakeOver = "takeover" });
words!(ConnectionEnd, "end is cut or fin" { Cut = "cut", Fin = "fin" });
words!(Format, "format is raw or framed" { Raw = "raw", Framed = "framed" });

impl Ask {
    /// The request as a line with its line feed. Defaults are left out.
    pub fn to_line(&self) -> String {
        self.to_line_for(None)
    }

    /// The same, for the nodes of one cluster alone. Only for nodes that said that they understand it.
    pub fn to_line_for(&self, cluster: Option<&str>) -> String {
        let line = LineWriter::new(PROTOCOL);
        let line = match self {
            Self::Append {
                log,
                label,
                continues,
                token,
                checked,
                mode,
                end,
            } => line
                .word("append")
                .word(log)
                .key_if("label", label.as_ref())
                .key_if("continues", *continues)
                .key_if("token", token.as_ref())
                .flag("checked", *checked)
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
            Self::Save { log } => line.word("save").word(log),
            Self::Fill {
                log,
                backup,
                time_ms,
                sessions,
            } => line
                .word("fill")
                .word(log)
                .key("backup", backup)
                .key("time", time_ms)
                .key("sessions", sessions),
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
                min_copies,
                kind,
            } => line
                .word("create-log")
                .word(name)
                .key_if("members", (!members.0.is_empty()).then_some(members))
                .key_if("auxiliary", (!auxiliary.0.is_empty()).then_some(auxiliary))
                .key_if("retention", retention.as_ref())
                .key_if("min_copies", *min_copies)
                .key_if("kind", (!kind.is_bytes()).then_some(kind)),
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
            Self::Slots { version } => line.word("slots").key_if("version", *version),
            Self::ChangeSlots(change) => change.write(line.word("change-slots")),
            Self::Tokens { name, after, limit } => line
                .word("tokens")
                .key_if("name", name.as_ref())
                .key_if("after", after.as_ref())
                .key_if("limit", *limit),
            Self::PutToken {
                name,
                sha256,
                grants,
                expires_ms,
                once,
                replaces,
            } => line
                .word("put-token")
                .word(name)
                .key_if("sha256", sha256.as_ref())
                .key_if("certificate", sha256.is_none().then_some(1))
                .key("grants", grants.join(BETWEEN_GRANTS))
                .key_if("expires", *expires_ms)
                .key_if("once", once.then_some(1))
                .key_if("replaces", *replaces),
            Self::RotateToken {
                name,
                sha256,
                overlap_ms,
            } => line
                .word("rotate-token")
                .word(name)
                .key("sha256", sha256)
                .key("overlap", overlap_ms),
            Self::RevokeToken { name, plan } => {
                line.word("revoke-token").word(name).flag("plan", *plan)
            }
            Self::Issuers { name } => line.word("issuers").key_if("name", name.as_ref()),
            Self::PutIssuer {
                name,
                keys,
                grants,
                replace,
            } => line
                .word("put-issuer")
                .word(name)
                .key("keys", keys.join(BETWEEN_KEYS))
                .key("grants", grants.join(BETWEEN_GRANTS))
                .flag("replace", *replace),
            Self::RemoveIssuer { name, plan } => {
                line.word("remove-issuer").word(name).flag("plan", *plan)
            }
            Self::SetAuth { on, plan } => line
                .word("set-auth")
                .word(if *on { "on" } else { "off" })
                .flag("plan", *plan),
            Self::WhoAmI => line.word("whoami"),
            Self::Explain {
                operation,
                resource,
                token,
            } => line
                .word("explain")
                .word(operation)
                .word(resource)
                .key_if("token", token.as_ref()),
            Self::Audit { limit } => line.word("audit").key_if("limit", *limit),
            Self::Retain {
                log,
                retention,
                min_copies,
            } => line
                .word("retain")
                .word(log)
                .key_if("retention", retention.as_ref())
                .key_if("min_copies", *min_copies),
        };
        line.key_if("cluster", cluster).end()
    }

    /// The log whose leader alone can answer it, in words.
    pub fn leader_of(&self) -> Option<String> {
        match self {
            Self::CreateLog { .. }
            | Self::DeleteLog { .. }
            | Self::ShowLog { .. }
            | Self::Retain { .. }
            | Self::Logs { stale: false, .. }
            | Self::Members { local: false, .. }
            | Self::Status { fresh: true }
            | Self::ChangeMembers(_)
            | Self::Slots { .. }
            | Self::Tokens { .. }
            | Self::PutToken { .. }
            | Self::RotateToken { .. }
            | Self::RevokeToken { .. }
            | Self::Issuers { .. }
            | Self::PutIssuer { .. }
            | Self::RemoveIssuer { .. }
            | Self::SetAuth { .. }
            | Self::Audit { .. }
            | Self::ChangeSlots(_) => Some("log 0, the cluster's directory,".to_owned()),
            Self::Streams {
                log, stale: false, ..
            }
            | Self::Trim { log, .. }
            | Self::Lead { log, .. }
            | Self::Fill { log, .. }
            | Self::Scrub {
                log, start: true, ..
            } => Some(format!("the log {log}")),
            _ => None,
        }
    }

    /// Parses a request line, with or without its line feed.
    pub fn parse(line: &[u8]) -> Result<Self, LineError> {
        if line.len() > line_bytes_max(line) {
            return Err(LineError::TooLong);
        }
        Self::read(&Request::parse(line)?)
    }

    /// Reads the meaning of a client's request. The key `cluster` has been dealt with before.
    pub fn read(request: &Request) -> Result<Self, LineError> {
        request.check()?;
        let log = || {
            let name = request.words.first().cloned();
            name.ok_or(LineError::Missing("the log's name"))
        };
        Ok(match request.verb()? {
            Verb::Append => Self::Append {
                log: log()?,
                label: request.get("label").map(str::to_owned),
                continues: request.value("continues")?,
                token: request.get("token").map(str::to_owned),
                checked: request.flag("checked")?,
                mode: request.value("mode")?.unwrap_or_default(),
                end: request.value("end")?.unwrap_or_default(),
            },
            Verb::Close => Self::Close {
                log: log()?,
                at: StreamPlace {
                    stream: needed(request.value("stream")?, "stream")?,
                    position: needed(request.parsed("at")?, "at")?,
                },
            },
            Verb::Read => Self::Read {
                log: log()?,
                stream: request.value("stream")?,
                from: request.parsed("from")?.unwrap_or(0),
                to: request.parsed("to")?,
                follow: request.flag("follow")?,
                stale: request.flag("stale")?,
                format: request.value("format")?.unwrap_or_default(),
            },
            Verb::Trim => Self::Trim {
                log: log()?,
                before: needed(request.value("before")?, "before")?,
                plan: request.flag("plan")?,
            },
            Verb::Lead => Self::Lead {
                log: log()?,
                to: request.parsed("to")?,
            },
            Verb::Scrub => Self::Scrub {
                log: log()?,
                start: request.flag("start")?,
                rate: request.parsed("rate")?,
            },
            Verb::Save => Self::Save { log: log()? },
            Verb::Fill => Self::Fill {
                log: log()?,
                backup: needed(request.value("backup")?, "backup")?,
                time_ms: needed(request.parsed("time")?, "time")?,
                sessions: needed(request.parsed("sessions")?, "sessions")?,
            },
            Verb::Status => Self::Status {
                fresh: request.flag("fresh")?,
            },
            Verb::Metrics => Self::Metrics,
            Verb::Streams => Self::Streams {
                log: log()?,
                stale: request.flag("stale")?,
                after: request.value("after")?,
                limit: limit(request)?,
            },
            Verb::Logs => Self::Logs {
                stale: request.flag("stale")?,
                after: request.parsed("after")?,
                limit: limit(request)?,
            },
            Verb::CreateLog => Self::CreateLog {
                name: log()?,
                members: node_ids(request, "members")?,
                auxiliary: node_ids(request, "auxiliary")?,
                retention: request.get("retention").map(str::to_owned),
                min_copies: request.parsed("min_copies")?,
                kind: request.value("kind")?.unwrap_or_default(),
            },
            Verb::DeleteLog => Self::DeleteLog {
                name: log()?,
                abandon: request.flag("abandon")?,
            },
            Verb::ShowLog => Self::ShowLog { name: log()? },
            Verb::Members => Self::Members {
                local: request.flag("local")?,
                after: request.parsed("after")?,
                limit: limit(request)?,
            },
            Verb::ChangeMembers => Self::ChangeMembers(Change::read(request)?),
            Verb::Slots => Self::Slots {
                version: request.parsed("version")?,
            },
            Verb::ChangeSlots => Self::ChangeSlots(ChangeSlots::read(request)?),
            Verb::Tokens => Self::Tokens {
                name: request.get("name").map(str::to_owned),
                after: request.get("after").map(str::to_owned),
                limit: limit(request)?,
            },
            Verb::PutToken => Self::PutToken {
                name: word(request, 0, "the token's name")?,
                sha256: match request.flag("certificate")? {
                    true if request.get("sha256").is_none() => None,
                    true => {
                        let sentence = "a certificate has no secret: sha256 and certificate=1 are not said together";
                        return Err(LineError::Value(sentence.to_owned()));
                    }
                    false => Some(request.require("sha256")?.to_owned()),
                },
                grants: grants(request.require("grants")?),
                expires_ms: request.parsed("expires")?,
                once: request.flag("once")?,
                replaces: request.parsed("replaces")?,
            },
            Verb::RotateToken => Self::RotateToken {
                name: word(request, 0, "the token's name")?,
                sha256: request.require("sha256")?.to_owned(),
                overlap_ms: needed(request.parsed("overlap")?, "overlap")?,
            },
            Verb::RevokeToken => Self::RevokeToken {
                name: word(request, 0, "the token's name")?,
                plan: request.flag("plan")?,
            },
            Verb::Issuers => Self::Issuers {
                name: request.get("name").map(str::to_owned),
            },
            Verb::PutIssuer => Self::PutIssuer {
                name: word(request, 0, "the issuer's name")?,
                keys: keys(request.require("keys")?),
                grants: grants(request.require("grants")?),
                replace: request.flag("replace")?,
            },
            Verb::RemoveIssuer => Self::RemoveIssuer {
                name: word(request, 0, "the issuer's name")?,
                plan: request.flag("plan")?,
            },
            Verb::SetAuth => Self::SetAuth {
                on: match word(request, 0, "on or off")?.as_str() {
                    "on" => true,
                    "off" => false,
                    _ => return Err(LineError::Value("set-auth is on or off".to_owned())),
                },
                plan: request.flag("plan")?,
            },
            Verb::WhoAmI => Self::WhoAmI,
            Verb::Explain => Self::Explain {
                operation: word(request, 0, "an operation")?,
                resource: word(request, 1, "a resource")?,
                token: request.get("token").map(str::to_owned),
            },
            Verb::Audit => Self::Audit {
                limit: limit(request)?,
            },
            Verb::Retain => Self::Retain {
                log: log()?,
                retention: request.get("retention").map(str::to_owned),
                min_copies: request.parsed("min_copies")?,
            },
            // Nodes read `join` and `peer` line by line: they may say more than is known here.
            verb @ (Verb::Join | Verb::Peer) => {
                return Err(LineError::UnknownVerb(verb.to_string()));
            }
        })
    }
}

/// Between grants in a line: none has a line feed.
const BETWEEN_GRANTS: &str = "\n";

/// Between keys in a line: none has a comma.
const BETWEEN_KEYS: &str = ",";

fn keys(text: &str) -> Vec<String> {
    text.split(BETWEEN_KEYS).map(str::to_owned).collect()
}

fn grants(text: &str) -> Vec<String> {
    let all = text.split(BETWEEN_GRANTS).map(str::to_owned);
    all.filter(|grant| !grant.is_empty()).collect()
}

fn word(request: &Request, at: usize, what: &'static str) -> Result<String, LineError> {
    needed(request.words.get(at).cloned(), what)
}

fn needed<T>(value: Option<T>, what: &'static str) -> Result<T, LineError> {
    value.ok_or(LineError::Missing(what))
}

/// The limit of a list, where one is said.
pub fn limit(request: &Request) -> Result<Option<u64>, LineError> {
    match request.parsed("limit")? {
        Some(0) => Err(LineError::Value("limit is 1 or more".to_owned())),
        limit => Ok(limit),
    }
}

/// The ids of nodes under a key; none without it.
pub fn node_ids(request: &Request, key: &str) -> Result<NodeIds, LineError> {
    let ids = request.get(key).map(str::parse).transpose();
    let ids = ids.map_err(|_: ParseIntError| {
        LineError::Value(format!("{key} is node ids with commas between them"))
    });
    let ids: NodeIds = ids?.unwrap_or_default();
    let mut sorted = ids.0.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(LineError::Value(format!(
            "{key} names node {} twice",
            pair[0]
        ))),
        None => Ok(ids),
    }
}
