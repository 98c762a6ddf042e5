//! The result of one look at a machine.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    Better,
    Must,
}

#[derive(Debug, Serialize)]
pub struct Finding {
    pub check: &'static str,
    pub verdict: Verdict,
    pub found: String,
    /// The remedy, where something is to be done.
    pub change: Option<String>,
}

impl Finding {
    pub fn ok(check: &'static str, found: impl Into<String>) -> Finding {
        let found = found.into();
        Finding {
            check,
            verdict: Verdict::Ok,
            found,
            change: None,
        }
    }

    pub fn better(
        check: &'static str,
        found: impl Into<String>,
        change: impl Into<String>,
    ) -> Finding {
        let change = Some(change.into());
        Finding {
            verdict: Verdict::Better,
            change,
            ..Finding::ok(check, found)
        }
    }

    pub fn must(
        check: &'static str,
        found: impl Into<String>,
        change: impl Into<String>,
    ) -> Finding {
        Finding {
            verdict: Verdict::Must,
            ..Finding::better(check, found, change)
        }
    }
}
