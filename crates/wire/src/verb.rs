//! The verbs: the words that a request line may begin with, how many words follow, and which keys. Each is
//! declared once, here.

use std::fmt;
use std::str::FromStr;

use crate::Request;
use crate::line::LineError;

/// Declares the verbs: each with its word, how many more words it takes at most, and its keys.
macro_rules! verbs {
    ($($variant:ident = $word:literal, $words_max:literal, [$($key:literal),*];)*) => {
        /// The first word of a request line.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Verb {
            $($variant,)*
        }

        impl Verb {
            pub const ALL: &[Verb] = &[$(Verb::$variant),*];

            pub fn as_str(self) -> &'static str {
                match self { $(Verb::$variant => $word,)* }
            }

            /// The most words that it takes.
            fn words_max(self) -> usize {
                match self { $(Verb::$variant => $words_max,)* }
            }

            /// Any verb but `peer` and `join` may have `cluster` besides, and those two more keys than are known
            /// here. `change-members` depends on its first word ([`crate::change`]).
            pub fn keys(self) -> &'static [&'static str] {
                match self { $(Verb::$variant => &[$($key),*],)* }
            }
        }

        impl FromStr for Verb {
            type Err = LineError;

            fn from_str(word: &str) -> Result<Verb, LineError> {
                match word {
                    $($word => Ok(Verb::$variant),)*
                    other => Err(LineError::UnknownVerb(other.to_owned())),
                }
            }
        }
    };
}

verbs! {
    Append = "append", 1, ["label", "continues", "token", "checked", "mode", "end"];
    Close = "close", 1, ["stream", "at"];
    Read = "read", 1, ["stream", "from", "to", "follow", "stale", "format"];
    Streams = "streams", 1, ["stale", "after", "limit"];
    Trim = "trim", 1, ["before", "plan"];
    Lead = "lead", 1, ["to"];
    Scrub = "scrub", 1, ["start", "rate"];
    Save = "save", 1, [];
    Fill = "fill", 1, ["backup", "time", "sessions"];
    Status = "status", 0, ["fresh"];
    Metrics = "metrics", 0, [];
    Logs = "logs", 0, ["stale", "after", "limit"];
    CreateLog = "create-log", 1, ["members", "auxiliary", "retention", "min_copies", "kind"];
    DeleteLog = "delete-log", 1, ["abandon"];
    ShowLog = "show-log", 1, [];
    Retain = "retain", 1, ["retention", "min_copies"];
    Members = "members", 0, ["local", "after", "limit"];
    ChangeMembers = "change-members", 3, ["weight", "log", "force", "plan", "version"];
    Slots = "slots", 0, ["version"];
    ChangeSlots = "change-slots", 1, ["groups", "slots", "plan", "version"];
    Tokens = "tokens", 0, ["name", "after", "limit"];
    PutToken = "put-token", 1, ["sha256", "certificate", "grants", "expires", "once", "replaces"];
    RotateToken = "rotate-token", 1, ["sha256", "overlap"];
    RevokeToken = "revoke-token", 1, ["plan"];
    Issuers = "issuers", 0, ["name"];
    PutIssuer = "put-issuer", 1, ["keys", "grants", "replace"];
    RemoveIssuer = "remove-issuer", 1, ["plan"];
    SetAuth = "set-auth", 1, ["plan"];
    WhoAmI = "whoami", 0, [];
    Explain = "explain", 2, ["token"];
    Audit = "audit", 0, ["limit"];
    Join = "join", 0, ["address", "disk", "speaks", "replaces"];
    Peer = "peer", 0, [];
}

impl Verb {
    /// Whether nodes greet with it, and not clients.
    pub fn is_of_nodes(self) -> bool {
        matches!(self, Verb::Join | Verb::Peer)
    }

    /// Whether it concerns one log alone: the one that the first word names.
    pub fn is_of_one_log(self) -> bool {
        match self {
            Verb::Append
            | Verb::Close
            | Verb::Read
            | Verb::Streams
            | Verb::Trim
            | Verb::Lead
            | Verb::Scrub
            | Verb::Save
            | Verb::Fill => true,
            Verb::Status
            | Verb::Metrics
            | Verb::Logs
            | Verb::CreateLog
            | Verb::DeleteLog
            | Verb::ShowLog
            | Verb::Retain
            | Verb::Members
            | Verb::ChangeMembers
            | Verb::Slots
            | Verb::ChangeSlots
            | Verb::Tokens
            | Verb::PutToken
            | Verb::RotateToken
            | Verb::RevokeToken
            | Verb::Issuers
            | Verb::PutIssuer
            | Verb::RemoveIssuer
            | Verb::SetAuth
            | Verb::WhoAmI
            | Verb::Explain
            | Verb::Audit
            | Verb::Join
            | Verb::Peer => false,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The number of words that a request may have, and its keys.
pub(crate) fn shape(request: &Request) -> Result<(usize, &'static [&'static str]), LineError> {
    match request.verb()? {
        Verb::ChangeMembers => crate::change::shape(request),
        verb => Ok((verb.words_max(), verb.keys())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_read_as_it_is_written() {
        for verb in Verb::ALL {
            assert_eq!(verb.to_string().parse(), Ok(*verb));
        }
        let unknown = "appends".parse::<Verb>();
        assert_eq!(unknown, Err(LineError::UnknownVerb("appends".to_owned())));
    }

    #[test]
    fn a_verb_of_one_log_has_room_for_its_name() {
        for verb in Verb::ALL.iter().filter(|verb| verb.is_of_one_log()) {
            assert_eq!(verb.words_max(), 1, "{verb}");
        }
    }
}
