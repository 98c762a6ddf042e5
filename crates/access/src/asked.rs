//! All that can be asked for at any door, and what each needs. It is one enum, so a door that learns to answer
//! something new does not compile before there is a line for it here.

use crate::decide::Need;
use crate::operation::Operation;
use crate::resource::{Place, Resource};

/// Log 0 by its name: nobody may be granted its bytes.
const DIRECTORY: &str = "directory";

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked<'a> {
    // On the pipe: the verbs, with the name of their log.
    Append(&'a str),
    Close(&'a str),
    Read(&'a str),
    Streams(&'a str),
    Trim(&'a str),
    Lead(&'a str),
    Scrub(&'a str),
    Save(&'a str),
    Fill(&'a str),
    Status,
    Metrics,
    Logs,
    CreateLog(&'a str),
    DeleteLog(&'a str),
    ShowLog(&'a str),
    Retain(&'a str),
    Members,
    ChangeMembers,
    Slots,
    ChangeSlots,
    /// The list of tokens, or one of them; never a secret or its hash.
    Tokens,
    PutToken,
    RotateToken,
    RevokeToken,
    /// Whoever signs tickets, their public keys and what their tickets may at most.
    Issuers,
    /// An issuer is made, or changed.
    PutIssuer,
    /// The tickets of an issuer are good no more.
    RemoveIssuer,
    /// Tokens are to be asked for, or not any more.
    SetAuth,
    /// The asker itself, and what it may do.
    WhoAmI,
    /// The grants of another one.
    Explain,
    /// The last changes, and who asked for them.
    Audit,
    Join,
    /// A node greets: it proves its disk, which is judged elsewhere.
    Peer,

    // Over HTTP: named streams.
    CreateStream {
        space: &'a str,
        path: &'a str,
        /// Bytes come with it.
        is_filled: bool,
        /// The stream that it is forked from.
        source: Option<&'a str>,
    },
    AppendStream {
        space: &'a str,
        path: &'a str,
    },
    ReadStream {
        space: &'a str,
        path: &'a str,
    },
    DeleteStream {
        space: &'a str,
        path: &'a str,
    },
    /// The answer has those alone that its asker may read.
    ListStreams {
        space: &'a str,
    },
    /// How much a space may hold and be asked for, and how much of that is used.
    ShowLimits {
        /// The space.
        space: &'a str,
    },
    /// Changes that.
    SetLimits {
        /// The space.
        space: &'a str,
    },
    /// The requests that a browser may make, and the description of all.
    DescribeHttp,

    // By Redis' protocol: commands by what they do to keys.
    /// About the connection alone: PING, HELLO, AUTH, SELECT, QUIT, COMMAND.
    Connection,
    ReadKeys(Vec<&'a [u8]>),
    WriteKeys(Vec<&'a [u8]>),
    /// SCAN and KEYS: keys that begin so.
    ScanKeys(&'a [u8]),
    /// DBSIZE and RANDOMKEY.
    CountKeys,
    /// FLUSHALL and FLUSHDB.
    FlushKeys,
    /// INFO, CLUSTER SLOTS, CLIENT LIST: how the server is.
    ServerStatus,
    /// CONFIG SET, CLUSTER SETSLOT, SHUTDOWN: settings and places for all.
    ServerSettings,

    // On the admin port.
    AdminMetrics,
    /// Whether the node is well: a state, and nothing else.
    Health,
}

impl Asked<'_> {
    /// All of these are needed. An empty list: anybody may ask that.
    pub fn needs(&self) -> Vec<Need> {
        use Operation as Do;
        let cluster = || Place::Of(Resource::cluster());
        match *self {
            Asked::Append(log) | Asked::Close(log) | Asked::Fill(log) => {
                one(Do::Append, of_log(log))
            }
            Asked::Read(log) | Asked::Streams(log) | Asked::Save(log) => one(Do::Read, of_log(log)),
            Asked::Trim(log) | Asked::Retain(log) => one(Do::Trim, of_log(log)),
            Asked::Lead(log) | Asked::Scrub(log) => one(Do::Lead, led(log)),
            Asked::CreateLog(log) => one(Do::Create, of_log(log)),
            Asked::DeleteLog(log) => one(Do::Delete, of_log(log)),
            Asked::ShowLog(log) => one(Do::Status, led(log)),
            Asked::Status | Asked::Metrics | Asked::Logs | Asked::Members | Asked::Slots => {
                one(Do::Status, cluster())
            }
            Asked::ChangeMembers | Asked::ChangeSlots => one(Do::Members, cluster()),
            Asked::Tokens
            | Asked::PutToken
            | Asked::RotateToken
            | Asked::RevokeToken
            | Asked::Issuers
            | Asked::PutIssuer
            | Asked::RemoveIssuer
            | Asked::Explain
            | Asked::Audit => one(Do::Tokens, cluster()),
            // ‡ Whoever turns it off gives everything to everybody.
            Asked::SetAuth => one(Do::Members, Place::Of(Resource::everything())),
            Asked::WhoAmI => Vec::new(),
            Asked::Join => one(Do::Join, cluster()),
            Asked::Peer => Vec::new(),

            Asked::CreateStream {
                space,
                path,
                is_filled,
                source,
            } => {
                let stream = |path| Place::Of(Resource::stream(space, path));
                let mut needs = one(Do::Create, stream(path));
                if is_filled {
                    needs.extend(one(Do::Append, stream(path)));
                }
                // ‡ A fork is a read: its bytes are those of its source.
                needs.extend(
                    source
                        .into_iter()
                        .flat_map(|path| one(Do::Read, stream(path))),
                );
                needs
            }
            Asked::AppendStream { space, path } => {
                one(Do::Append, Place::Of(Resource::stream(space, path)))
            }
            Asked::ReadStream { space, path } => {
                one(Do::Read, Place::Of(Resource::stream(space, path)))
            }
            Asked::DeleteStream { space, path } => {
                one(Do::Delete, Place::Of(Resource::stream(space, path)))
            }
            Asked::ListStreams { space } => one(Do::Read, Place::Of(Resource::streams(space, ""))),
            // ‡ They bound everybody, so they are settings for all.
            Asked::ShowLimits { .. } => one(Do::Status, cluster()),
            Asked::SetLimits { .. } => one(Do::Members, cluster()),
            Asked::DescribeHttp => Vec::new(),

            Asked::Connection => Vec::new(),
            Asked::ReadKeys(ref keys) => each(Do::Read, keys),
            Asked::WriteKeys(ref keys) => each(Do::Append, keys),
            Asked::ScanKeys(prefix) => one(Do::Read, Place::Of(Resource::keys(prefix))),
            Asked::CountKeys => one(Do::Read, Place::Of(Resource::keys(b""))),
            Asked::FlushKeys => one(Do::Delete, Place::Of(Resource::keys(b""))),
            Asked::ServerStatus => one(Do::Status, cluster()),
            Asked::ServerSettings => one(Do::Members, cluster()),

            Asked::AdminMetrics => one(Do::Status, cluster()),
            Asked::Health => Vec::new(),
        }
    }

    /// Whether a token that lacks what is needed is answered all the same, with what its grants touch: a client finds the
    /// leader of its log there.
    pub fn has_a_part(&self) -> bool {
        matches!(self, Asked::Status | Asked::Logs)
    }

    /// ‡ Whether it hands out permissions. Where tokens are not asked for it needs one all the same, or the socket: else
    /// whoever reaches a port today has a token that may all tomorrow.
    pub fn hands_out(&self) -> bool {
        matches!(
            self,
            Asked::PutToken
                | Asked::RotateToken
                | Asked::RevokeToken
                | Asked::PutIssuer
                | Asked::RemoveIssuer
                | Asked::SetAuth
        )
    }
}

fn one(operation: Operation, place: Place) -> Vec<Need> {
    vec![Need { operation, place }]
}

fn each(operation: Operation, keys: &[&[u8]]) -> Vec<Need> {
    let places = keys.iter().map(|key| Place::Of(Resource::key(key)));
    places.map(|place| Need { operation, place }).collect()
}

fn of_log(name: &str) -> Place {
    match name {
        DIRECTORY => Place::Directory,
        name => Place::Of(Resource::log(name)),
    }
}

/// An operation on a log that shows none of its bytes: for log 0 it is done to the cluster.
fn led(name: &str) -> Place {
    Place::Of(match name {
        DIRECTORY => Resource::cluster(),
        name => Resource::log(name),
    })
}
