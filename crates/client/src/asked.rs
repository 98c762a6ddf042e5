//! The answer to one question, or why there is none.

use serde::de::DeserializeOwned;

use crate::answer::{Code, Refusal};

/// An answer to one question, and how it came.
pub(crate) use talk::Asked;
use talk::Unreachable;

/// Why a question was not answered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AdminError {
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    #[error(
        "there is no log {log:?}; `logberg log list` lists them, `logberg log create` makes one"
    )]
    UnknownLog { log: String },
    #[error("a log {name:?} exists already")]
    Exists { name: String },
    /// The cluster's directory has chosen it for good, and these logs have not heard: nothing there goes by it
    /// yet. The same request again waits on.
    #[error("{sentence}")]
    NotInForce { logs: Vec<String>, sentence: String },
    #[error("{server} refused: {refusal}")]
    Refused { server: String, refusal: Refusal },
    #[error("{server} answered with what this version does not understand: {what}")]
    Garbled { server: String, what: String },
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
