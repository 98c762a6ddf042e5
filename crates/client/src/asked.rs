//! The answer to one question, or why there is none.

use serde::de::DeserializeOwned;

use crate::answer::{Code, Refusal};

/// An answer to one question, and how it came.
pub(crate) use talk::Asked;
use talk::Unreachable;

/// Why a question was not answered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AdminError {
    /// No server answered, or none that could.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    #[error(
        "there is no log {log:?}; `logberg log list` lists them, `logberg log create` makes one"
    )]
    /// There is no such log.
    UnknownLog {
        /// The name that was asked for.
        log: String,
    },
    #[error("a log {name:?} exists already")]
    /// There is such a log already.
    Exists {
        /// Its name.
        name: String,
    },
    /// The cluster's directory has chosen it for good, and these logs have not heard: nothing there goes by it
    /// yet. The same request again waits on.
    #[error("{sentence}")]
    NotInForce {
        /// The logs that have not heard.
        logs: Vec<String>,
        /// The words of the node.
        sentence: String,
    },
    #[error("{server} refused: {refusal}")]
    /// A server refused.
    Refused {
        /// The server.
        server: String,
        /// Its code and its sentence.
        refusal: Refusal,
    },
    #[error("{server} answered with what this version does not understand: {what}")]
    /// A server answered what it cannot have meant.
    Garbled {
        /// The server.
        server: String,
        /// The fault of the answer.
        what: String,
    },
}

impl AdminError {
    pub(crate) fn refused(server: String, refusal: Refusal) -> AdminError {
        if refusal.code != Code::NotInForce {
            return Self::Refused { server, refusal };
        }
        let logs = refusal.value::<String>("logs").unwrap_or_default();
        let logs = logs.split(',').filter(|log| !log.is_empty());
        Self::NotInForce {
            logs: logs.map(str::to_owned).collect(),
            sentence: refusal.sentence,
        }
    }
}

/// The value of an answer's JSON.
pub(crate) trait Json {
    fn json<T: DeserializeOwned>(self) -> Result<T, AdminError>;
}

impl Json for Asked {
    fn json<T: DeserializeOwned>(self) -> Result<T, AdminError> {
        let server = self.server;
        match self.answer {
            Err(refusal) => Err(AdminError::refused(server, refusal)),
            Ok(json) => serde_json::from_str(&json).map_err(|error| AdminError::Garbled {
                server,
                what: error.to_string(),
            }),
        }
    }
}
